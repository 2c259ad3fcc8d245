# shellcheck shell=bash disable=SC2034
# Shared by the scripts of this folder, which source it after going to the root of the repository.
# A check exits with 0 on success, with 77 if it could not run (it prints why), and with any other status if it failed.
build=${TENON_BUILD:-build}
jobs=$(nproc 2>/dev/null || echo 2)
# Without TENON_DEVELOPER the public headers are system headers, in which compilers do not warn.
warnings="-DTENON_DEVELOPER -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
venv_python=.venv/bin/python
# Tools that this system does not have may come from PyPI.
PATH=$PATH:$PWD/.venv/bin:$PWD/.venv-lite/bin

# Whether a tool runs. A version manager's shim can be on the PATH and refuse, so each is asked for its version.
has() {
    "$1" --version >/dev/null 2>&1 </dev/null
}

skip() {
    echo "skipped: $*"
    exit 77
}

# need TOOL [PACKAGE]
need() {
    has "$1" && return
    command -v "$1" >/dev/null || skip "$1 is not installed; install ${2:-$1}"
    skip "$1 is on the PATH, but does not run: $("$1" --version 2>&1 </dev/null | head -1)"
}

# Run a command and show its output only if it fails.
quietly() {
    local log
    log=$(mktemp)
    "$@" >"$log" 2>&1 || { echo "failed: $*"; tail -60 "$log"; rm -f "$log"; return 1; }
    rm -f "$log"
}

# Let Python keep its bytecode in the build folder, whatever a developer's shell says: frameworks take longer to compile than
# to import, and nothing is written beside the sources.
keep_bytecode() {
    unset PYTHONDONTWRITEBYTECODE
    mkdir -p "$build"
    PYTHONPYCACHEPREFIX=$(cd "$build" && pwd)/pycache
    export PYTHONPYCACHEPREFIX
}

# Whether a program made with this sanitizer runs here at all.
sanitizer_runs() { # COMPILER SANITIZERS
    local work status
    work=$(mktemp -d)
    echo 'int main(void) { return 0; }' >"$work/main.c"
    "$1" -fsanitize="$2" "$work/main.c" -o "$work/main" >/dev/null 2>&1 && "$work/main" >/dev/null 2>&1
    status=$?
    rm -r "$work"
    return $status
}

# Download the crates that the workspace of this folder uses, or skip. Those of an earlier run are enough.
fetch_crates() {
    cargo fetch --quiet 2>/dev/null || cargo fetch --quiet --offline 2>/dev/null || skip "the crates that are used cannot be downloaded"
}

# apt-get for the packages of Debian trixie, from the mirror that this machine's apt uses. What it knows is in a folder.
trixie_apt() { # FOLDER ARCHITECTURE ARGUMENT...
    local folder=$1 architecture=$2 mirror
    shift 2
    if ! [ -f "$folder/sources.list" ]; then
        mirror=$(grep -hE '^URIs:' /etc/apt/sources.list.d/debian* | head -1 | awk '{print $2}')
        mkdir -p "$folder"/lists/partial "$folder"/cache/archives/partial
        printf '%s [trusted=yes] %s trixie main\n' deb "$mirror" deb-src "$mirror" >"$folder/sources.list"
        : >"$folder/status"
        trixie_apt "$folder" "$architecture" update
    fi
    apt-get -o "Dir::Etc::sourcelist=$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o "Dir::State::lists=$folder/lists" -o "Dir::State::status=$folder/status" -o "Dir::Cache=$folder/cache" \
        -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture" -o APT::Sandbox::User=root "$@"
}

# Unpack the source of CPython 3.13 into FOLDER/src.
python_source() { # FOLDER
    (cd "$1" && trixie_apt "$1" "$(dpkg --print-architecture)" source --download-only python3.13)
    mkdir "$1/src"
    tar xf "$1"/python3.13_*.orig.tar.xz -C "$1/src" --strip-components=1
}

# uv does not read pip's settings, so pass them on.
uv_settings() {
    [ -z "${PIP_FIND_LINKS:-}" ] || export UV_FIND_LINKS=${UV_FIND_LINKS:-$PIP_FIND_LINKS}
    [ -z "${PIP_INDEX_URL:-}" ] || export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}
    [ -z "${PIP_CERT:-}" ] || export SSL_CERT_FILE=${SSL_CERT_FILE:-$PIP_CERT}
    export UV_PYTHON_DOWNLOADS=never UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-120}
}

# The functions of the C library that the core may use everywhere, also as compilers rename them. Files, clocks, threads and
# processes are the operating system, even if C has a function for them.
c_library='mem[a-z]+|str[a-z]+|bcmp|is[a-z]+|malloc|calloc|realloc|free|qsort|getenv|atexit|abort|localeconv'
c_library+='|stderr|v?fprintf|v?snprintf|fputs|fputc|fwrite|__ctype_b_loc|__errno_location'
c_library+='|__[a-z0-9_]+_chk|__stack_chk_fail|__tls_get_addr|_GLOBAL_OFFSET_TABLE_'
windows_c_library='___chkstk_ms|_tls_index|__acrt_iob_func' # stack, thread-local variables, stderr
c_library="(__imp_|__mingw_)?($c_library|$windows_c_library)"

# The symbols that objects need from neither Tenon nor the C library: "FILE: SYMBOL" lines.
system_symbols() { # OBJECT...
    nm -A -u "$@" | awk '{ print $1, $NF }' | { grep -vE " (tenon_[a-z0-9_]+|$c_library)$" || true; }
}
