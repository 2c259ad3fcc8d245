"""Checks every file in dist/ (`tools/wheels check`)."""
import csv
import io
import json
import re
import shutil
import subprocess
import sys
import zipfile

MOST_BYTES = 700_000
OLDEST_GLIBC = (2, 17)


class Wrong(Exception):
    """The reason why a file is refused."""


def require(condition, message):
    if not condition:
        raise Wrong(message)


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
    require(not elf.get_section_by_name(".symtab"), "its extension is not stripped")
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
    require(pe.FILE_HEADER.PointerToSymbolTable == 0 and not hasattr(pe, "DIRECTORY_ENTRY_DEBUG"),
            "its extension is not stripped")
    imported = {entry.dll.decode().lower() for entry in pe.DIRECTORY_ENTRY_IMPORT}
    require("python3.dll" in imported, f"its extension imports {', '.join(sorted(imported))}, and not python3.dll")
    return {symbol.name.decode() for symbol in pe.DIRECTORY_ENTRY_EXPORT.symbols}


def check_macho(data):
    """The symbols that it defines; a stripped one has only those that others see."""
    number = lambda at, size: int.from_bytes(data[at:at + size], "little")  # noqa: E731
    at, defined = 32, set()
    for _ in range(number(16, 4)):
        if number(at, 4) == 2:  # LC_SYMTAB
            symbols, count, names = number(at + 8, 4), number(at + 12, 4), number(at + 16, 4)
            for i in range(symbols, symbols + 16 * count, 16):
                start = names + number(i, 4)
                name, kind = data[start:data.index(b"\0", start)].decode(), data[i + 4]
                require(not kind & 0xe0, "its extension is not stripped")
                if kind & 0x0e and kind & 1:
                    defined.add(name.removeprefix("_"))
        at += number(at + 4, 4)
    return defined


def check_extension(name, data):
    """Only its initialisation function is visible to others, and nothing else."""
    if data.startswith(b"\x7fELF"):
        exported = check_elf(data, "musllinux" in name)
    else:
        exported = check_pe(data) if data.startswith(b"MZ") else check_macho(data)
    require(exported == {"PyInit__native"}, f"its extension exports {', '.join(sorted(exported))}")


# -------------------------------------------------------------------------------------------------------------- wheels


def check_record(wheel, info, digest):
    rows = list(csv.reader(io.StringIO(wheel.read(f"{info}/RECORD").decode())))
    require(sorted(row[0] for row in rows) == sorted(wheel.namelist()), "RECORD does not list its files")
    for path, checksum, size in rows:
        if path != f"{info}/RECORD":
            data = wheel.read(path)
            require(checksum == f"sha256={digest(data)}" and size == str(len(data)), f"RECORD is wrong about {path}")


def check_sbom(text):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    require(not error, f"its bill of materials is not CycloneDX 1.6: {error}")


def files_of(path):
    """The names in a wheel, with one name for the extension of every system."""
    with zipfile.ZipFile(path) as wheel:
        return sorted(re.sub(r"tenon/_native\.(?!h$|pyi$).*", "tenon/_native", name) for name in wheel.namelist())


def check_wheel(wheels, path, all_files):
    info = f"libtenon-{wheels.version()}.dist-info"
    require(path.stat().st_size < MOST_BYTES, f"it has {path.stat().st_size} bytes; {MOST_BYTES} are too many")
    with zipfile.ZipFile(path) as wheel:
        check_record(wheel, info, wheels.digest)
        tags = re.findall(r"(?m)^Tag: (.*)$", wheel.read(f"{info}/WHEEL").decode())
        check_sbom(wheel.read(f"{info}/sboms/libtenon.cdx.json").decode())
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


def check_lists(wheels):
    entries = json.loads((wheels.DIST / "wheels.json").read_text())
    sums = (wheels.DIST / "SHA256SUMS").read_text().splitlines()
    for entry in entries:
        path = wheels.DIST / entry["file"]
        require(path.exists() and path.stat().st_size == entry["bytes"], f"wheels.json is wrong about {entry['file']}")
        require(f"{entry['sha256']}  {entry['file']}" in sums, f"SHA256SUMS and wheels.json differ about {entry['file']}")
    require(len(sums) == len({line.split()[1] for line in sums}), "SHA256SUMS names a file twice")


def check(wheels):
    """Check everything in dist/, after building it once more. Returns the number of failures."""
    files = sorted(path for path in wheels.DIST.glob("*") if path.suffix in (".whl", ".gz"))
    if not files:
        sys.exit("there is nothing in dist/; run make wheels first")
    again = wheels.BUILD / "again"
    shutil.rmtree(again, ignore_errors=True)
    built = [target for target in wheels.TARGETS if any(path.name.endswith(f"-{target.tag}.whl") for path in files)]
    with open(wheels.BUILD / "again.log", "w") as log:
        stdout, sys.stdout = sys.stdout, log
        try:
            wheels.build_all(built, again / "dist", again / "work")
            if any(path.suffix == ".gz" for path in files):
                wheels.build_sdist(again / "dist")
        finally:
            sys.stdout = stdout
    first = next((path for path in files if path.suffix == ".whl"), None)
    all_files = files_of(first) if first else []
    failures = 0
    for path in files:
        try:
            if path.suffix == ".whl":
                check_wheel(wheels, path, all_files)
            else:
                tool("twine", "check", "--strict", path)
            twin = again / "dist" / path.name
            require(twin.exists() and twin.read_bytes() == path.read_bytes(), "it is not the same when it is built again")
            print(f"ok {path.name}", flush=True)
        except Wrong as error:
            failures += 1
            print(f"FAILED {path.name}: {error}", flush=True)
    try:
        check_lists(wheels)
    except (Wrong, OSError, ValueError) as error:
        failures += 1
        print(f"FAILED wheels.json: {error}")
    return min(failures, 1)
