/* What the sources of the package's extension module share. */
#ifndef TENON_PY_NATIVE_H
#define TENON_PY_NATIVE_H

#include "../src/functions/function_object.h"

/* Whether it is the description of a function; false with a TypeError if not. */
bool tenon__native_is_function(PyObject *object);

/* The functions of _native_jax.c, _native_shared.c and _native_arguments.c. */
extern PyMethodDef tenon__jax_methods[];
extern PyMethodDef tenon__shared_methods[];
extern PyMethodDef tenon__argument_methods[];

#endif
