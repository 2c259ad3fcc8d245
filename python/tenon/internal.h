/* What the sources of the package's extension module share. */
#ifndef TENON_PY_NATIVE_H
#define TENON_PY_NATIVE_H

#include "../src/call/internal.h"

/* Whether it is the description of a function; false with a TypeError if not. */
bool tenon__native_is_function(PyObject *object);

/* The functions of _native_shared.c, _native_arguments.c and _native_conformance.c. */
extern PyMethodDef tenon__shared_methods[];
extern PyMethodDef tenon__argument_methods[];
extern PyMethodDef tenon__conformance_methods[];

/* A module of functions for a framework's own Python files. A member that is NULL has nothing to do. */
typedef struct tenon__native_framework {
    const char *module; /* its full name, "tenon._NAME_native" */
    PyMethodDef *methods;
    /* When the package is imported: add what else the module has. 0, or -1 with an exception. */
    int (*init)(PyObject *module);
    /* The checked mode was turned on or off. */
    void (*set_checked)(bool on);
} tenon__native_framework;

/* All of them; NULL ends the list: frameworks/native_list.c. */
extern const tenon__native_framework *const tenon__native_frameworks[];

#endif
