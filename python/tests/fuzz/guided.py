"""The same inputs, guided by what they reach in the C code.   guided.py [OPTION OF LIBFUZZER]... [FOLDER]...

tools/fuzz-python builds what it needs and runs it; structured.py says what an input is.
"""

import sys

import atheris
import structured


def main():
    atheris.Setup(sys.argv, structured.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
