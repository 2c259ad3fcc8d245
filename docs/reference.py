"""The reference of the site: an entry, with an anchor and a line in objects.inv, for each public name.

Entries in C are those of the headers, each with the comment in front of it. Entries in Python have the types of the stubs and of
the sources, and their docstrings. Nothing is imported, so the site needs no compiled package.
"""

import ast
import functools
import re
import textwrap

# -------------------------------------------------------------------------------------------------------------- C

SECTION = re.compile(r"/\* -{20,} (.+?)(\n.*)? \*/", re.S)
TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|#(?:\\\n|[^\n])*|[{}();]|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\s+|[^\s{}();\"'/#]+|.", re.S)
NOT_SHOWN = re.compile(r"\bTENON_(?:API|NODISCARD|FORMAT|PRINTF|HIDDEN|_\w+)\b(?:\([^()]*\))?|\bstatic inline\b|\bextern\b")
LABEL = re.compile(r"^(Ownership|Release|Threads|Errors|Returns|Lock): *", re.M)


def parts_of(text):
    """(kind, text, whether an empty line follows) of each part of a header: "comment", "define", or "declaration"."""
    def alone(end):
        return text[end:].lstrip(" ").startswith("\n\n")

    begin, depth, was_body = None, 0, False
    for match in TOKEN.finditer(text):
        token, end = match[0], match.end()
        if begin is None:
            if token.startswith("/*"):
                yield "comment", token, alone(end)
                continue
            if token.startswith("#"):
                if re.match(r"#\s*define\s", token):
                    yield "define", token, alone(end)
                continue
            if token.isspace() or token in "};":
                continue
            if text.startswith('extern "C" {', match.start()):
                text = text[:match.start()] + " " * 12 + text[match.start() + 12:]
                yield from parts_of(text[match.start():])
                return
            begin, depth, was_body = match.start(), 0, False
        depth += (token in "({") - (token in ")}") if len(token) == 1 else 0
        was_body = was_body or (token == "{" and ")" in text[begin:match.start()] and not text.startswith("typedef", begin))
        if depth == 0 and (token == ";" or token == "}" and was_body):
            yield "declaration", text[begin:end], alone(end)
            begin = None


def entry_of(kind, text):
    """(the directive, its argument, the source to show or None), or None if it is not public."""
    if kind == "define":
        found = re.match(r"#\s*define\s+((?:TENON|tenon)_\w+)(\([^)]*\))?", text)
        if not found or "__" in found[1] or found[1].endswith("_H"):
            return None
        return "c:macro", found[1] + (found[2] or ""), None
    shown = NOT_SHOWN.sub("", re.sub(r'^#.*$|"C"', "", text, flags=re.M))
    if text.startswith(("typedef", "struct", "enum", "union")):
        name = re.search(r"\(\*(tenon_\w+)\)|(\w+)\s*;$|^(?:struct|enum|union)\s+(\w+)", shown)
        name = next((word for word in name.groups() if word), "") if name else ""
        return ("c:type", name, text) if name.startswith("tenon_") and "__" not in name else None
    head = re.sub(r"\s+", " ", shown.partition("{")[0] if "{" in shown else shown.rstrip(";")).strip()
    name = re.search(r"\b(tenon_\w+)\s*\(", head)
    if not name or name[1].startswith("tenon__") or "=" in head:
        return None
    return "c:function", head, None


def markdown_of(comment):
    """The text of a comment as Markdown: labels are bold, and names are not emphasis."""
    lines = [re.sub(r"^ \* ?|^ \*$", "", line) for line in comment[2:-2].strip().split("\n")]
    text = LABEL.sub(r"\n**\1:** ", "\n".join(line.rstrip() for line in lines))
    made = []
    for line in text.split("\n"):
        # An indented line after an empty one is code.
        if line.startswith("  ") and made and (not made[-1].strip() or made[-1].startswith("    ")):
            made.append(f"    {line[2:]}")
            continue
        pieces = re.split(r"(`[^`]*`|\*\*\w+:\*\*)", line.strip())
        made.append("".join(piece if i % 2 else re.sub(r"([*_<\[\]#|$\\])", r"\\\1", piece) for i, piece in enumerate(pieces)))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(made)).strip()


def directive(kind, argument, text, source=None):
    shown = f"\n\n:::{{code-block}} c\n{textwrap.dedent(source).strip()}\n:::" if source else ""
    return f"::::{{{kind}}} {argument}\n{text}{shown}\n::::\n"


def structs_of(text):
    """The names of the structs whose members a header has."""
    return set(re.findall(r"^(?:typedef )?struct (tenon_\w+)\s*\{", text, re.M))


def header_page(text, structs=()):
    """The entries of a header: (its first comment as Markdown, the entries and headings as Markdown, the names).

    A comment is that of the declarations after it, up to an empty line.
    `structs` are those whose members are in some header: their declaration without members is not an entry."""
    first, made, doc, names, fresh = "", [], "", {}, False
    for kind, part, alone in parts_of(text):
        section = SECTION.match(part)
        if section:
            made.append(f"## {section[1][0].upper()}{section[1][1:]}\n")
            made += [markdown_of("/*" + re.sub(r"^[\s*]*", "", section[2]) + " */") + "\n"] if section[2] else []
            doc = ""
        elif kind == "comment":
            doc, fresh = markdown_of(part), True
            if not first:
                first, doc = doc, ""
            elif alone:
                made.append(f"{doc}\n")
                doc = ""
        else:
            entry = entry_of(kind, part)
            name = entry and re.search(r"(?i)\b(tenon_\w+)\s*(?:\(|$)", entry[1])
            wanted = entry and (entry[0] == "c:function" or "{" in part or doc and (fresh or entry[0] == "c:macro"))
            fresh = False
            if wanted and name and name[1] not in names and ("{" in part or name[1] not in structs):
                names[name[1]] = entry[0]
                made.append(directive(entry[0], entry[1], doc, entry[2]))
            doc = "" if alone else doc
    # A heading without entries says nothing.
    shown = [line for i, line in enumerate(made) if not (line.startswith("## ") and (i + 1 == len(made) or made[i + 1].startswith("## ")))]
    return first, "\n".join(shown), names


# --------------------------------------------------------------------------------------------------------- Python

HEADING = re.compile(r"^## ((?:tenon\.[\w\\]+(?:, )?)+)$", re.M)
METHOD = r'\{{"{}",[^{{}}"]*?((?:"(?:\\.|[^"\\])*"\s*)+)'


def docstring_in_c(sources, name):
    """The docstring of a function or an attribute in a method table of the C sources, or None."""
    for text in sources:
        found = re.search(METHOD.format(re.escape(name)), text)
        if found:
            words = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', found[1]))
            return words.replace("\\n", "\n").replace('\\"', '"').partition("--\n\n")[2] or words
    return None


class Modern(ast.NodeTransformer):
    """Types as today's Python writes them: without quotes, and with `|` in place of Union and Optional."""

    def visit_arg(self, node):
        node.annotation = node.annotation and self.type(node.annotation)
        return node

    def type(self, node):
        quoted = isinstance(node, ast.Constant) and isinstance(node.value, str)
        return self.visit(ast.parse(node.value, mode="eval").body if quoted else node)

    def visit_Subscript(self, node):
        node = self.generic_visit(node)
        name = getattr(node.value, "id", "")
        if name not in ("Union", "Optional"):
            return node
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts = [*parts, ast.Constant(None)] if name == "Optional" else parts
        return functools.reduce(lambda one, other: ast.BinOp(one, ast.BitOr(), other), parts)


def signature_of(node):
    arguments = ast.unparse(Modern().visit(node.args))
    # The parameter `self` of a method is not passed.
    arguments = re.sub(r"^self(?:, /)?(?:, |$)", "", arguments)
    returns = f" -> {ast.unparse(Modern().type(node.returns))}" if node.returns else ""
    return f"({arguments}){returns}"


def plain(text):
    """A docstring as Markdown: its <placeholders> are not tags."""
    pieces = re.split(r"(`[^`]*`)", textwrap.dedent(text).strip())
    return "".join(piece if i % 2 else re.sub(r"([<\[\]_*])", r"\\\1", piece) for i, piece in enumerate(pieces))


class Package:
    """The public names of the package, read from its sources."""

    def __init__(self, root):
        folders = [root / "python/tenon", *sorted(root.glob("frameworks/*/package"))]
        self.files = {path.stem: path for folder in folders for path in [*folder.glob("*.py"), *folder.glob("*.pyi")]}
        self.c = [path.read_text("utf-8") for folder in ("python/tenon", "python/src/exchange", "frameworks/torch/package")
                  for path in sorted((root / folder).glob("*.c"))]
        tree = ast.parse((root / "python/tenon/__init__.pyi").read_text("utf-8"))
        self.modules, self.names = {}, []
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tenon."):
                self.modules.update({name.asname or name.name: (node.module[6:], name.name) for name in node.names})
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                self.names = ast.literal_eval(node.value)

    def find(self, name):
        module, inside = self.modules[name]
        for node in ast.walk(ast.parse(self.files[module].read_text("utf-8"))):
            if getattr(node, "name", None) == inside and isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                return node
        return None

    def entry(self, name):
        """The entry of a name, as a directive; that of a class has its members."""
        node = self.find(name)
        if node is None:
            return f":::{{py:data}} tenon.{name}\n:::\n"
        doc = plain(ast.get_docstring(node) or docstring_in_c(self.c, name) or "")
        if isinstance(node, ast.FunctionDef):
            return f":::{{py:function}} tenon.{name}{signature_of(node)}\n{doc}\n:::\n"
        bases = f"\nBase: `{ast.unparse(node.bases[0])}`.\n" if node.bases else ""
        return f"::::{{py:class}} tenon.{name}\n{doc}\n{bases}\n{self.members(node)}::::\n"

    def members(self, node):
        made = []
        for member in node.body:
            if not isinstance(member, ast.FunctionDef) or member.name.startswith("_"):
                continue
            doc = plain(ast.get_docstring(member) or docstring_in_c(self.c, member.name) or "")
            if any(ast.unparse(decorator) == "property" for decorator in member.decorator_list):
                kind, rest = "property", f"\n:type: {ast.unparse(Modern().type(member.returns))}"
            else:
                kind, rest = "method", signature_of(member)
            made.append(f":::{{py:{kind}}} {member.name}{rest}\n\n{doc}\n:::\n")
        return "\n".join(made)


def python_page(text, root):
    """(the page with an entry after each heading `## tenon.NAME`, the public names that have no heading)."""
    package, shown = Package(root), set()

    def add(match):
        names = [word.rpartition(".")[2].replace("\\", "") for word in match[1].split(", ")]
        shown.update(names)
        entries = [package.entry(name) for name in names if name in package.modules]
        return "\n\n".join([match[0], *entries])

    made = HEADING.sub(add, text)
    return made, [name for name in package.names if name not in shown]
