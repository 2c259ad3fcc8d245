/* frameworks/tinyarray/array/tinyarray.h: the public header of an array library. */
#pragma once
#include <Python.h>

typedef struct tinyarray {
    PyObject ob_base;
    float *data;
    int64_t length;
} tinyarray;

/* The capsule tinyarray.c_api: make an array of zeros. NULL with an exception. */
typedef PyObject *(*tinyarray_make)(int64_t length);
