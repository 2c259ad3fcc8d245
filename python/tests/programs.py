"""Find out which compilers and tools run on this machine."""

import subprocess


def runs(program):
    """Whether the program runs. It is asked for its version, because the shim of a version manager can be on the PATH
    and refuse to run."""
    try:
        command = [program, "--version"]
        asked = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError:
        return False
    return asked.returncode == 0
