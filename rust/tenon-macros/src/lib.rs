//! The attribute `#[tenon::module]` of libtenon. It reads tokens by itself, so that a library compiles in a second.

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

mod tokens;

use tokens::{Cursor, error, is_ident, parse, text_of};

/// Exports the functions and classes of a module as a Tenon library. `docs/rust.md` describes it.
///
/// - `#[function("signature")]` before a function or a method exports it. Flags follow the signature: `release_lock`, `keep_lock`,
///   `no_grad_check`, `capturable`.
/// - `shape = function` among the flags names the shape function, which takes `Shapes`.
/// - `#[state]` before a function that returns a `Result` makes what it returns the state of the library, a `State` parameter.
/// - `#[class]` before a struct makes it a class; `#[class(concurrent)]` one whose calls on one object run at the same time.
///
/// What `#[cfg(…)]` leaves out is not exported. Doc comments become the documentation in Python. `#[tenon::module(private)]` leaves out the symbol that makes the library
/// loadable, so that one crate can have several modules in its tests.
#[proc_macro_attribute]
pub fn module(options: TokenStream, item: TokenStream) -> TokenStream {
    expand(options, item).unwrap_or_else(|error| error)
}

/// A function or class to export.
struct Entry {
    /// The condition of each `#[cfg(…)]`.
    cfgs: Vec<TokenStream>,
    docs: Vec<Literal>,
    /// `fn path, path = "signature"`, or `class Name`.
    what: TokenStream,
    flags: Vec<TokenStream>,
}

struct Module {
    entries: Vec<Entry>,
    /// `{[conditions] path}` for each function that makes the state.
    states: TokenStream,
    checks: TokenStream,
}

type Expanded<T> = Result<T, TokenStream>;

fn expand(options: TokenStream, item: TokenStream) -> Expanded<TokenStream> {
    let private = match options.to_string().as_str() {
        "" => false,
        "private" => true,
        _ => return Err(error(Span::call_site(), "the only option is `private`")),
    };
    let mut cursor = Cursor::new(item);
    let mut out = TokenStream::new();
    let docs = attributes(&mut cursor, &mut out)?.docs;
    while !cursor.is_next_ident("mod") {
        match cursor.next() {
            Some(token) => out.extend([token]),
            None => return Err(error(Span::call_site(), "#[tenon::module] is for a module: mod name { … }")),
        }
    }
    out.extend(cursor.next());
    let Some(TokenTree::Ident(name)) = cursor.next() else {
        return Err(error(Span::call_site(), "expected the name of the module"));
    };
    out.extend([TokenTree::Ident(name.clone())]);
    let Some(TokenTree::Group(body)) = cursor.next() else {
        return Err(error(name.span(), "the module must have its body here: mod name { … }"));
    };
    let mut module = Module { entries: Vec::new(), states: TokenStream::new(), checks: TokenStream::new() };
    let mut inside = items(&mut module, body.stream(), None, &[])?;
    inside.extend(std::mem::take(&mut module.checks));
    inside.extend(table(&name, docs, module, private));
    out.extend([TokenTree::Group(Group::new(Delimiter::Brace, inside))]);
    // The module may be private, but its table must be found: the symbol is inside.
    Ok(out)
}

/// `::tenon::__table! { … }`: what `export!` makes, of functions that were compared with their signatures here.
fn table(name: &Ident, docs: Vec<Literal>, module: Module, private: bool) -> TokenStream {
    let visibility = if private { "private" } else { "public" };
    let mut head = parse(&format!("{visibility} {name}"), Span::call_site());
    head.extend([bracketed(docs.into_iter().map(TokenTree::Literal).collect())]);
    let mut inside = parse("checked", Span::call_site());
    inside.extend([bracketed(head), bracketed(module.states)]);
    for entry in module.entries {
        let mut parts = TokenStream::from(conditions(&entry.cfgs));
        parts.extend([bracketed(entry.docs.into_iter().map(TokenTree::Literal).collect())]);
        parts.extend(entry.what);
        for flag in entry.flags {
            parts.extend([TokenTree::Punct(Punct::new(',', Spacing::Alone))]);
            parts.extend(flag);
        }
        inside.extend([TokenTree::Group(Group::new(Delimiter::Brace, parts))]);
    }
    let mut out = parse("::tenon::__table!", Span::call_site());
    out.extend([TokenTree::Group(Group::new(Delimiter::Brace, inside))]);
    out
}

fn bracketed(tokens: TokenStream) -> TokenTree {
    TokenTree::Group(Group::new(Delimiter::Bracket, tokens))
}

/// `[[unix] [feature = "fast"]]`.
fn conditions(cfgs: &[TokenStream]) -> TokenTree {
    bracketed(cfgs.iter().map(|cfg| bracketed(cfg.clone())).collect())
}

/// `#[cfg(unix)] #[cfg(feature = "fast")]`.
fn cfg_attributes(cfgs: &[TokenStream]) -> TokenStream {
    let attribute = |cfg: &TokenStream| {
        let mut inside = parse("cfg", Span::call_site());
        inside.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, cfg.clone()))]);
        [TokenTree::Punct(Punct::new('#', Spacing::Alone)), bracketed(inside)]
    };
    cfgs.iter().flat_map(attribute).collect()
}

/// What the attributes of an item say.
struct Attributes {
    cfgs: Vec<TokenStream>,
    docs: Vec<Literal>,
    function: Option<(Literal, Vec<TokenStream>)>,
    class: Option<(Span, Vec<TokenStream>)>,
    state: Option<Span>,
}

/// Reads the attributes before an item. Those of other macros are copied to `out`.
fn attributes(cursor: &mut Cursor, out: &mut TokenStream) -> Expanded<Attributes> {
    let mut found =
        Attributes { cfgs: Vec::new(), docs: Vec::new(), function: None, class: None, state: None };
    while cursor.is_next_punct('#') {
        let hash = cursor.next();
        if cursor.is_next_punct('!') {
            out.extend(hash.into_iter().chain(cursor.next()).chain(cursor.next())); // of the module itself
            continue;
        }
        let Some(TokenTree::Group(group)) = cursor.next() else {
            return Err(error(Span::call_site(), "expected an attribute"));
        };
        let mut inside = Cursor::new(group.stream());
        let name = match inside.next() {
            Some(TokenTree::Ident(name)) => name,
            _ => {
                out.extend(hash.into_iter().chain([TokenTree::Group(group)]));
                continue;
            }
        };
        match name.to_string().as_str() {
            "function" => {
                let (text, flags) = function_attribute(&name, inside.next())?;
                found.function = Some((text, flags));
                continue;
            }
            "class" => {
                let flags = match inside.next() {
                    Some(TokenTree::Group(options)) => flags(options.stream())?,
                    _ => Vec::new(),
                };
                found.class = Some((name.span(), flags));
                continue;
            }
            "state" => {
                found.state = Some(name.span());
                continue;
            }
            "doc" => {
                inside.next();
                if let Some(TokenTree::Literal(text)) = inside.next() {
                    found.docs.push(text);
                }
            }
            "cfg" => {
                if let Some(TokenTree::Group(condition)) = inside.next() {
                    found.cfgs.push(condition.stream());
                }
            }
            _ => {}
        }
        out.extend(hash.into_iter().chain([TokenTree::Group(group)]));
    }
    Ok(found)
}

fn function_attribute(name: &Ident, options: Option<TokenTree>) -> Expanded<(Literal, Vec<TokenStream>)> {
    let usage = "write the signature: #[function(\"name(x: f32[n]) -> float\")]";
    let Some(TokenTree::Group(group)) = options else {
        return Err(error(name.span(), usage));
    };
    let mut inside = Cursor::new(group.stream());
    match inside.next() {
        Some(TokenTree::Literal(text)) if text_of(&text).is_some() => {
            inside.next();
            Ok((text, flags(inside.rest())?))
        }
        _ => Err(error(name.span(), usage)),
    }
}

/// Flags between commas; `shape = path` is one of them.
fn flags(tokens: TokenStream) -> Expanded<Vec<TokenStream>> {
    let mut flags = Vec::new();
    for flag in tokens::split(tokens, ',') {
        let mut cursor = Cursor::new(flag.clone());
        let name = match cursor.next() {
            Some(TokenTree::Ident(name)) => name,
            Some(other) => return Err(error(other.span(), "expected a flag")),
            None => continue,
        };
        match (name.to_string().as_str(), cursor.is_next_punct('=')) {
            ("shape", true) => {}
            ("shape", false) => return Err(error(name.span(), "write the function: shape = name")),
            ("release_lock" | "keep_lock" | "no_grad_check" | "capturable" | "concurrent", false) => {}
            _ => return Err(error(name.span(), "unknown flag")),
        }
        flags.push(flag);
    }
    Ok(flags)
}

/// Copies items, and collects those to export. `owner` is the type of an `impl` block, and `cfgs` are its conditions.
fn items(
    module: &mut Module,
    tokens: TokenStream,
    owner: Option<&TokenStream>,
    cfgs: &[TokenStream],
) -> Expanded<TokenStream> {
    let mut cursor = Cursor::new(tokens);
    let mut out = TokenStream::new();
    while !cursor.is_empty() {
        let mut found = attributes(&mut cursor, &mut out)?;
        found.cfgs.extend_from_slice(cfgs);
        if found.function.is_some() {
            function(module, &mut cursor, &mut out, owner, found)?;
        } else if found.class.is_some() {
            class(module, &mut cursor, &mut out, found)?;
        } else if let Some(span) = found.state {
            state(module, &mut cursor, &mut out, &found.cfgs, span)?;
        } else {
            item(module, &mut cursor, &mut out, owner, &found.cfgs)?;
        }
    }
    Ok(out)
}

/// Copies an item to its end; an `impl` block is searched for functions.
fn item(
    module: &mut Module,
    cursor: &mut Cursor,
    out: &mut TokenStream,
    owner: Option<&TokenStream>,
    cfgs: &[TokenStream],
) -> Expanded<()> {
    if owner.is_none() && cursor.is_next_ident("impl") {
        out.extend(cursor.next());
        let head = cursor.until_brace();
        out.extend(head.clone());
        if let Some(TokenTree::Group(body)) = cursor.next() {
            let owner = owner_of(head);
            let inside = match owner {
                Some(owner) => items(module, body.stream(), Some(&owner), cfgs)?,
                None => body.stream(), // of a trait
            };
            out.extend([TokenTree::Group(Group::new(Delimiter::Brace, inside))]);
        }
        return Ok(());
    }
    copy_item(cursor, out);
    Ok(())
}

fn copy_item(cursor: &mut Cursor, out: &mut TokenStream) {
    while let Some(token) = cursor.next() {
        let ends = match &token {
            TokenTree::Punct(punct) => punct.as_char() == ';',
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace && !cursor.is_next_punct(';'),
            _ => false,
        };
        out.extend([token]);
        if ends {
            break;
        }
    }
}

/// The type of `impl Type`; None for the implementation of a trait.
fn owner_of(head: TokenStream) -> Option<TokenStream> {
    let mut owner = TokenStream::new();
    for token in head {
        if is_ident(&token, "for") {
            return None;
        }
        if is_ident(&token, "where") {
            break;
        }
        owner.extend([token]);
    }
    Some(owner)
}

fn class(module: &mut Module, cursor: &mut Cursor, out: &mut TokenStream, found: Attributes) -> Expanded<()> {
    let Some((span, flags)) = found.class else { return Ok(()) };
    while let Some(token) = cursor.next() {
        let is_struct = is_ident(&token, "struct") || is_ident(&token, "enum");
        out.extend([token]);
        if is_struct {
            let Some(TokenTree::Ident(name)) = cursor.peek() else { break };
            let mut what = parse("class", span);
            what.extend([TokenTree::Ident(name.clone())]);
            module.entries.push(Entry { cfgs: found.cfgs, docs: found.docs, what, flags });
            copy_item(cursor, out);
            return Ok(());
        }
    }
    Err(error(span, "#[class] is for a struct or an enum"))
}

/// The function that makes the state of the library.
fn state(
    module: &mut Module,
    cursor: &mut Cursor,
    out: &mut TokenStream,
    cfgs: &[TokenStream],
    span: Span,
) -> Expanded<()> {
    while !cursor.is_next_ident("fn") {
        match cursor.next() {
            Some(token) => out.extend([token]),
            None => return Err(error(span, "#[state] is for a function")),
        }
    }
    out.extend(cursor.next());
    let Some(TokenTree::Ident(name)) = cursor.peek() else {
        return Err(error(span, "expected the name of the function"));
    };
    let inside = [conditions(cfgs), TokenTree::Ident(name.clone())].into_iter().collect();
    module.states.extend([TokenTree::Group(Group::new(Delimiter::Brace, inside))]);
    copy_item(cursor, out);
    Ok(())
}

fn function(
    module: &mut Module,
    cursor: &mut Cursor,
    out: &mut TokenStream,
    owner: Option<&TokenStream>,
    found: Attributes,
) -> Expanded<()> {
    let Some((text, flags)) = found.function else { return Ok(()) };
    while !cursor.is_next_ident("fn") {
        match cursor.next() {
            Some(token) => out.extend([token]),
            None => return Err(error(text.span(), "#[function] is for a function")),
        }
    }
    out.extend(cursor.next());
    let Some(TokenTree::Ident(name)) = cursor.next() else {
        return Err(error(text.span(), "expected the name of the function"));
    };
    out.extend([TokenTree::Ident(name.clone())]);
    let generics = cursor.generics();
    let has_types = tokens::has_type_parameter(&generics);
    out.extend(generics);
    let Some(TokenTree::Group(parameters)) = cursor.next() else {
        return Err(error(name.span(), "expected the parameters of the function"));
    };
    if !has_types {
        check_parameters(&mut module.checks, &found.cfgs, parameters.stream(), owner);
    }
    out.extend([TokenTree::Group(parameters)]);
    let signature = text_of(&text).unwrap_or_default();
    let mut paths = TokenStream::new();
    for (i, types) in instances(&signature, has_types, text.span())?.into_iter().enumerate() {
        let mut path = TokenStream::new();
        if let Some(owner) = owner {
            path.extend(owner.clone());
            path.extend(parse("::", text.span()));
        }
        path.extend([TokenTree::Ident(name.clone())]);
        if !types.is_empty() {
            path.extend(parse(&format!("::<{}>", types.join(", ")), text.span()));
        }
        check_function(&mut module.checks, &found.cfgs, &text, path.clone());
        if i > 0 {
            paths.extend([TokenTree::Punct(Punct::new(',', Spacing::Alone))]);
        }
        paths.extend(path);
    }
    let mut what = parse("fn", text.span());
    what.extend(paths);
    what.extend([TokenTree::Punct(Punct::new('=', Spacing::Alone)), TokenTree::Literal(text)]);
    module.entries.push(Entry { cfgs: found.cfgs, docs: found.docs, what, flags });
    copy_item(cursor, out);
    Ok(())
}

/// Compares a function with its signature. The tokens have the place of the signature, so that a mistake is reported there.
fn check_function(checks: &mut TokenStream, cfgs: &[TokenStream], text: &Literal, path: TokenStream) {
    let span = text.span().resolved_at(Span::mixed_site());
    let mut body = parse("struct Text; impl ::tenon::__private::Text for Text", span);
    let mut constant = parse("const TEXT: &'static str =", span);
    constant.extend([TokenTree::Literal(text.clone())]);
    constant.extend(parse(";", span));
    body.extend([TokenTree::Group(Group::new(Delimiter::Brace, constant))]);
    let mut reference = parse("&", span);
    reference.extend(path);
    let mut message = parse("::tenon::__private::check::<Text, _, _, _>", span);
    message.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, reference))]);
    let mut argument = Group::new(Delimiter::Parenthesis, message);
    argument.set_span(span);
    body.extend(parse("::tenon::__private::report", span));
    body.extend([TokenTree::Group(argument)]);
    checks.extend(cfg_attributes(cfgs));
    checks.extend(parse("const _: () =", span));
    let mut block = Group::new(Delimiter::Brace, body);
    block.set_span(span);
    checks.extend([TokenTree::Group(block)]);
    checks.extend(parse(";", span));
}

/// Asks of each parameter whether its type is supported, at its place.
fn check_parameters(
    checks: &mut TokenStream,
    cfgs: &[TokenStream],
    parameters: TokenStream,
    owner: Option<&TokenStream>,
) {
    for parameter in tokens::split(parameters, ',') {
        let Some(type_) = tokens::after_colon(parameter) else { continue }; // self
        let Some(first) = type_.clone().into_iter().next() else { continue };
        let mentions_self =
            type_.to_string().split(|c: char| !c.is_alphanumeric()).any(|word| word == "Self");
        if mentions_self && owner.is_some() {
            continue;
        }
        let span = first.span().resolved_at(Span::mixed_site());
        let mut call = parse("::tenon::__private::parameter::", span);
        call.extend([TokenTree::Punct(Punct::new('<', Spacing::Alone))]);
        call.extend(type_);
        call.extend([TokenTree::Punct(Punct::new('>', Spacing::Alone))]);
        call.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, TokenStream::new()))]);
        checks.extend(cfg_attributes(cfgs));
        checks.extend(parse("const _: () =", span));
        checks.extend([TokenTree::Group(Group::new(Delimiter::Brace, call))]);
        checks.extend(parse(";", span));
    }
}

/// The types of each instance of a generic function, by the `where` clause of its signature.
fn instances(signature: &str, generic: bool, span: Span) -> Expanded<Vec<Vec<String>>> {
    if !generic {
        return Ok(vec![Vec::new()]);
    }
    let variables = tokens::variables(signature);
    if variables.is_empty() {
        let message =
            "a generic function needs dtype variables in its signature: x: T[n] … where T = f32|f64";
        return Err(error(span, message));
    }
    let mut all = vec![Vec::new()];
    for types in variables {
        if types.is_empty() {
            return Err(error(span, "a dtype in the where clause has no type in Rust"));
        }
        let with = |so_far: &Vec<String>| {
            let so_far = so_far.clone();
            types.clone().into_iter().map(move |one| [so_far.clone(), vec![one]].concat())
        };
        all = all.iter().flat_map(with).collect();
    }
    Ok(all)
}
