/* Declarations that the sources of tenon_hostile share. */
#ifndef TENON_HOSTILE_H
#define TENON_HOSTILE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <tenon/dlpack.h>

enum { HOSTILE_MOST_DIMS = 100 };

/* The description of the next struct, table result or buffer. Set by plan(), with a polite default for each field. */
typedef struct hostile_plan {
    char kind[16]; /* "versioned", "legacy", or "edge": 24 bytes of a version 2 struct before an unreadable page */
    char name[40];
    uint32_t major, minor;
    uint64_t flags;
    uint64_t data; /* 0: NULL; 1: its own memory; otherwise an address */
    int32_t device_type, device_id;
    int32_t ndim;
    int code, bits, lanes;
    bool has_shape, has_strides, has_suboffsets;
    int64_t shape[HOSTILE_MOST_DIMS], strides[HOSTILE_MOST_DIMS], suboffsets[HOSTILE_MOST_DIMS];
    uint64_t byte_offset;
    char deleter[16];    /* "count", "null", "raise", "clobber" */
    char destructor[16]; /* "polite", "rude" (ignores the name), "none" */
    char answer[16];     /* the result of a function of a table or buffer: "ok", "fail", "nothing", "fail_written" */
    PyObject *error;     /* the exception that it also sets, or NULL */
    char stream_answer[16];
    PyObject *stream_error;
    uint64_t stream;
    /* buffers and array structs */
    char format[40]; /* "" is NULL */
    Py_ssize_t itemsize, len;
    int read_only;
    int typekind, two, array_flags;
} hostile_plan;

extern hostile_plan hostile_now;

/* Read keyword arguments into the plan. -1 with an exception. */
int hostile_read_plan(PyObject *arguments, PyObject *keywords);
/* Set the plan's exception, if it has one. */
void hostile_set_error(PyObject *error);

/* A struct and everything that it points to, in one allocation. */
typedef struct hostile_box {
    union {
        tenon_dl_managed versioned;
        tenon_dl_managed_legacy legacy;
    } managed;
    int64_t shape[HOSTILE_MOST_DIMS], strides[HOSTILE_MOST_DIMS];
    Py_ssize_t sizes[HOSTILE_MOST_DIMS], steps[HOSTILE_MOST_DIMS], suboffsets[HOSTILE_MOST_DIMS];
    char name[40];
    char format[40];
    char deleter[16];
    _Alignas(64) char memory[256];
} hostile_box;

/* Make a box by the plan. NULL with an exception. It counts as made, and hostile_box_free counts it as deleted. */
hostile_box *hostile_box_new(void);
void hostile_box_free(hostile_box *box);

extern PyMethodDef hostile_memory_methods[];
/* Adds the type Buffer. */
int hostile_add_buffer(PyObject *module);

#endif
