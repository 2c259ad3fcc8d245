"""Checks every file in dist/ (`tools/wheels check`)."""
import csv
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

MOST_BYTES = 1_000_000
OLDEST_GLIBC = (2, 17)


class Wrong(Exception):
    """The reason why a file is refused."""


def require(condition, message):
    if not condition:
        raise Wrong(message)


def first_line(error):
    """Some errors show, on thousands of lines, everything that was checked."""
    return str(error).strip().split("\n")[0][:500]


def tool(*command):
    """Run a tool that says in its last lines what is wrong."""
    done = subprocess.run([sys.executable, "-m", *map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")
    words = " ".join(done.stdout.split())
    require(done.returncode == 0, f"{command[0]} says: {words[-500:]}")
    return done.stdout


# ---------------------------------------------------------------------------------------------------------- extensions


def check_elf(data, is_musl):
    from elftools.elf.elffile import ELFFile
    elf = ELFFile(io.BytesIO(data))
    is_stripped = not any(section.name.startswith((".symtab", ".debug")) for section in elf.iter_sections())
    require(is_stripped, "its extension is not stripped")
    needed = elf.get_section_by_name(".gnu.version_r")
    versions = [auxiliary.name for _, auxiliaries in (needed.iter_versions() if needed else []) for auxiliary in auxiliaries]
    for name in versions:
        number = re.fullmatch(r"GLIBC_([\d.]+)", name)
        require(number and not is_musl, f"its extension needs {name}")
        require(tuple(map(int, number.group(1).split("."))) <= OLDEST_GLIBC, f"its extension needs {name}, which is too new")
    symbols = elf.get_section_by_name(".dynsym").iter_symbols()
    return {symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL"}


def check_pe(data):
    import pefile
    pe = pefile.PE(data=data)
    reproducible = pefile.DEBUG_TYPE["IMAGE_DEBUG_TYPE_REPRO"]  # the note that its times are not times
    notes = {entry.struct.Type for entry in getattr(pe, "DIRECTORY_ENTRY_DEBUG", [])}
    require(pe.FILE_HEADER.PointerToSymbolTable == 0 and notes <= {reproducible}, "its extension is not stripped")
    imported = {entry.dll.decode().lower() for entry in pe.DIRECTORY_ENTRY_IMPORT}
    require("python3.dll" in imported, f"its extension imports {', '.join(sorted(imported))}, and not python3.dll")
    return {symbol.name.decode() for symbol in pe.DIRECTORY_ENTRY_EXPORT.symbols}


def check_macho(data):
    """The symbols that it defines; a stripped one has only those that others see, and the linker's own: three, and on arm64
    one for each function that it calls through a thunk."""
    number = lambda at, size: int.from_bytes(data[at:at + size], "little")  # noqa: E731
    at, defined = 32, set()
    for _ in range(number(16, 4)):
        if number(at, 4) == 2:  # LC_SYMTAB
            symbols, count, names = number(at + 8, 4), number(at + 12, 4), number(at + 16, 4)
            for i in range(symbols, symbols + 16 * count, 16):
                start = names + number(i, 4)
                name, kind = data[start:data.index(b"\0", start)].decode(), data[i + 4]
                is_local = kind & 0x0e and not kind & 1 and name != "dyld_private" and not name.endswith("__thunk")
                require(not kind & 0xe0 and not is_local, "its extension is not stripped")
                if kind & 0x0e and kind & 1 and name not in ("__mh_dylib_header", "___dso_handle"):
                    defined.add(name.removeprefix("_"))
        at += number(at + 4, 4)
    return defined


def machine_of(data):
    """The system and the machine that an extension is for, as the names of wheels have them."""
    number = lambda at, size: int.from_bytes(data[at:at + size], "little")  # noqa: E731
    if data.startswith(b"\x7fELF"):
        return "linux", {62: "x86_64", 183: "aarch64"}.get(number(18, 2))
    if data.startswith(b"MZ"):
        return "win", {0x8664: "amd64"}.get(number(number(60, 4) + 4, 2))
    return "macosx", {0x01000007: "x86_64", 0x0100000C: "arm64"}.get(number(4, 4))


def check_extension(name, data):
    """It is for the machine that the name says, and only its initialisation function is visible to others."""
    if data.startswith(b"\x7fELF"):
        exported = check_elf(data, "musllinux" in name)
    else:
        exported = check_pe(data) if data.startswith(b"MZ") else check_macho(data)
    require(exported == {"PyInit__native"}, f"its extension exports {', '.join(sorted(exported))}")
    system, machine = machine_of(data)
    require(system in name and name.endswith(f"_{machine}.whl"), f"its extension is for {system} on {machine}")


# -------------------------------------------------------------------------------------------------------------- wheels


def read(wheel, name):
    require(name in wheel.namelist(), f"it has no {name}")
    return wheel.read(name).decode()


def check_record(wheel, info, digest):
    rows = list(csv.reader(io.StringIO(read(wheel, f"{info}/RECORD"))))
    require(all(len(row) == 3 for row in rows), "RECORD has a line that does not have a name, a sum and a size")
    require(sorted(row[0] for row in rows) == sorted(wheel.namelist()), "RECORD does not list its files")
    for path, checksum, size in rows:
        if path != f"{info}/RECORD":
            data = wheel.read(path)
            require(checksum == f"sha256={digest(data)}" and size == str(len(data)), f"RECORD is wrong about {path}")


def check_sbom(text, version):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    require(not error, f"its bill of materials is not CycloneDX 1.6: {first_line(error)}")
    about = json.loads(text).get("metadata", {}).get("component", {})
    require((about.get("name"), about.get("version")) == ("libtenon", version),
            f"its bill of materials is of {about.get('name')} {about.get('version')}")


def files_of(path):
    """The names in a wheel, with one name for the extension of every system."""
    with zipfile.ZipFile(path) as wheel:
        return sorted(re.sub(r"tenon/_native\.(?!h$|pyi$).*", "tenon/_native", name) for name in wheel.namelist())


def check_wheel(wheels, path, all_files):
    info = f"libtenon-{wheels.version()}.dist-info"
    require(path.stat().st_size < MOST_BYTES, f"it has {path.stat().st_size} bytes; {MOST_BYTES} are too many")
    with zipfile.ZipFile(path) as wheel:
        check_record(wheel, info, wheels.digest)
        tags = re.findall(r"(?m)^Tag: (.*)$", read(wheel, f"{info}/WHEEL"))
        named = re.findall(r"(?m)^(?:Name|Version): (.*)$", read(wheel, f"{info}/METADATA"))[:2]
        require(sorted(named) == sorted(["libtenon", wheels.version()]), f"its METADATA is of {' '.join(named)}")
        check_sbom(read(wheel, f"{info}/sboms/libtenon.cdx.json"), wheels.version())
        extensions = [name for name in wheel.namelist() if name.endswith((".so", ".pyd"))]
        require(len(extensions) == 1, f"it has these extensions: {', '.join(extensions) or 'none'}")
        check_extension(path.name, wheel.read(extensions[0]))
    *_, interpreter, abi, platforms = path.stem.split("-")
    named = [f"{interpreter}-{abi}-{platform}" for platform in platforms.split(".")]
    require(sorted(tags) == sorted(named), f"its tags are {', '.join(tags)}")
    require(files_of(path) == all_files, "it does not have the same files as the other wheels")
    tool("twine", "check", "--strict", path)
    if abi == "abi3":
        tool("abi3audit", "--strict", path)


# --------------------------------------------------------------------------------------------------------------- lists


def check_sums(lines, sums):
    """SHA256SUMS has one line for each file. `sums` has their sums by name."""
    for name, checksum in sums.items():
        require(f"{checksum}  {name}" in lines, f"it does not have the sum of {name}")
    require(len(lines) == len(sums), f"it has {len(lines)} lines for {len(sums)} files")


def check_entries(entries, sums, sizes):
    """wheels.json has one entry for each wheel."""
    require(isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries), "it is not a list of objects")
    for entry in entries:
        require(sorted(entry) == ["bytes", "file", "ran", "sha256"], f"it has an entry with {', '.join(entry) or 'nothing'}")
        name, ran = entry["file"], entry["ran"]
        require((entry["sha256"], entry["bytes"]) == (sums.get(name), sizes.get(name)), f"it is wrong about {name}")
        require(isinstance(ran, list) and all(isinstance(where, str) for where in ran), f"it does not list where {name} ran")
    names = sorted(name for name in sums if name.endswith(".whl"))
    require(sorted(entry["file"] for entry in entries) == names, "it does not have one entry for each wheel")


# ----------------------------------------------------------------------------------------------------------------- all


def build_again(wheels, files, folder):
    """Build the files once more, the wheels from the sdist at another place: a user who has it gets the same bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    targets = [target for target in wheels.TARGETS if any(path.name.endswith(f"-{target.tag}.whl") for path in files)]
    with open(folder / "log", "w") as log:
        stdout, sys.stdout = sys.stdout, log
        try:
            wheels.build_sdist(folder / "sdist")
            (sdist,) = (folder / "sdist").iterdir()
            with tarfile.open(sdist) as archive:
                archive.extractall(folder)
            wheels.build_all(targets, folder / "dist", folder / "work", folder / sdist.name[:-len(".tar.gz")])
            sdist.rename(folder / "dist" / sdist.name)
        finally:
            sys.stdout = stdout


def files_in(folder):
    """The wheels and the sdist of a folder, without links to nothing and folders of such names."""
    return sorted(path for path in folder.glob("*") if path.suffix in (".whl", ".gz") and path.is_file())


def check_file(wheels, path, twin):
    require(twin.exists(), "`make wheels` does not build a file of this name")
    if path.suffix == ".whl":
        check_wheel(wheels, path, files_of(next(iter(twin.parent.glob("*.whl")))))
    else:
        tool("twine", "check", "--strict", path)
    require(twin.read_bytes() == path.read_bytes(), "it is not the same when it is built again")


def reason_of(function, *arguments):
    """Why a check fails, or None."""
    try:
        function(*arguments)
    except Wrong as error:
        return str(error)
    except Exception as error:  # every library that reads a damaged file has its own
        return f"it is damaged, {type(error).__name__}: {first_line(error)}"
    return None


def results(wheels, files, again, is_complete):
    """(name, reason) for each file, for each list that is wrong, for what else dist/ has, and for each file that is missing."""
    for path in files:
        yield path.name, reason_of(check_file, wheels, path, again / "dist" / path.name)
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    sizes = {path.name: path.stat().st_size for path in files}
    lists = {"SHA256SUMS": lambda text: check_sums(text.splitlines(), sums),
             "wheels.json": lambda text: check_entries(json.loads(text), sums, sizes)}
    for name, check_list in lists.items():
        reason = reason_of(lambda: check_list((wheels.DIST / name).read_text()))
        if reason:
            yield name, reason
    for path in sorted(wheels.DIST.iterdir()):
        if path not in files and path.name not in lists:
            yield path.name, "it is not a wheel, an sdist or one of their lists; remove it"
    ends = [*(f"-{target.tag}.whl" for target in wheels.TARGETS), ".tar.gz"] if is_complete else []
    for name in (f"libtenon-{wheels.version()}{end}" for end in ends):
        if name not in sums:
            yield name, "it is missing; `make wheels` says why"


def check(wheels, is_complete):
    """Check everything in dist/, after building it once more; `is_complete`: no file may be missing. Returns 0 or 1."""
    files = files_in(wheels.DIST)
    if not files:
        sys.exit("there is no wheel and no sdist in dist/; run make wheels first")
    again = wheels.BUILD / "again"
    build_again(wheels, files, again)
    failures = 0
    for name, reason in results(wheels, files, again, is_complete):
        print(f"FAILED {name}: {reason}" if reason else f"ok {name}", flush=True)
        failures += bool(reason)
    return min(failures, 1)
