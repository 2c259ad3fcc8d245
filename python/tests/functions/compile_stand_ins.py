"""What the tests of tenon.compile share: a source, and stand-ins for compilers."""

import shlex
import textwrap

from building import COMPILER

C = """
#include <tenon/function.h>
static tenon_status answer(tenon_call *call) { tenon_return_int(call, 0, ANSWER); return TENON_OK; }
TENON_MODULE(answers, "Answers.", TENON_FUNCTION("answer() -> int", answer, NULL))
"""


def answers(number):
    return C.replace("ANSWER", str(number))


def script(folder, name, text):
    """A stand-in for a compiler, which can call $REAL."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\nREAL={shlex.quote(shlex.join(COMPILER))}\n{textwrap.dedent(text)}")
    path.chmod(0o755)
    return path


def logging_compiler(folder, name="cc"):
    """A compiler that writes the arguments of each run to a file; and that file."""
    log = folder / "arguments"
    return script(folder / "bin", name, f"printf '%s\\n' \"$@\" > {shlex.quote(str(log))}\nexec $REAL \"$@\"\n"), log
