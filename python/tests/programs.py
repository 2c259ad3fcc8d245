"""Which compilers and tools run here."""

import subprocess


def runs(program):
    """Whether the program runs. A version manager's shim can be on the PATH and refuse, so it is asked for its version."""
    try:
        command = [program, "--version"]
        asked = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError:
        return False
    return asked.returncode == 0
