/* The CPython bridge, and what src/lib.rs assumes about its private parts. Both come from the same release. */
#include "tenon_python.c"

_Static_assert(sizeof(tenon_py_borrowed) == 304, "Borrowed in src/lib.rs");
_Static_assert(offsetof(tenon_py_borrowed, private_.holds) == 80, "Borrowed in src/lib.rs");
_Static_assert(TENON__PY_HOLDS_NOTHING == 0, "Borrowed in src/lib.rs");
