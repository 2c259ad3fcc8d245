# Shared by the scripts of this folder, which source it after going to the root of the repository.
# A check ends with 0, with 77 where it could not run at all (it says why), and with anything else where it failed.
build=${TENON_BUILD:-build}
jobs=$(nproc 2>/dev/null || echo 2)
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
venv_python=.venv/bin/python

has() {
    command -v "$1" >/dev/null 2>&1
}

skip() {
    echo "skipped: $*"
    exit 77
}

# need TOOL [PACKAGE]
need() {
    has "$1" || skip "$1 is not here; install ${2:-$1}"
}

# A run that shows its output only where it failed.
quietly() {
    local log
    log=$(mktemp)
    "$@" >"$log" 2>&1 || { echo "failed: $*"; tail -60 "$log"; rm -f "$log"; return 1; }
    rm -f "$log"
}

# configure_and_build FOLDER OPTION...
configure_and_build() {
    local folder=$1
    shift
    quietly cmake -S . -B "$folder" -DTENON_DEVELOPER=ON "$@" && quietly cmake --build "$folder" -j "$jobs"
}
