/* The native objects behind handles and objects of classes. */
#ifndef TENON_PY_OBJECT_H
#define TENON_PY_OBJECT_H

#include "function.h"

/* An object of a library, and how to destroy it. */
typedef struct tenon__py_native {
    tenon__py_library *library;
    void *object;
    void (*destroy)(void *object); /* or NULL */
} tenon__py_native;

/* Destroy the object and release its library. Needs the interpreter lock. Keeps a pending exception. */
void tenon__py_native_destroy(const tenon__py_native *native);

/* A native object that is shared: by the Python object until that is closed or gone, by calls that are to show its memory,
 * and by the arrays that do. It is destroyed with the last share, exactly once. */
typedef struct tenon__py_object {
    tenon_deferred_node node;
    _Atomic int64_t count;
    tenon__py_interp *interp;
    tenon__py_native native;
} tenon__py_object;

/* A new record with one share. Takes `object` on success. NULL with an exception. */
tenon__py_object *tenon__py_object_new(tenon__py_library *library, void *object, void (*destroy)(void *));

/* Add a share, and drop one: on any thread, with or without the interpreter lock, at any time. The last one destroys the
 * object: at once if this thread is attached to its interpreter, otherwise by a deferred job, so that the library's destroy
 * function always has the interpreter lock. After the interpreter's end the object is counted as leaked.
 * tenon__py_object_release is a tenon_release_fn. */
tenon__py_object *tenon__py_object_retain(tenon__py_object *object);
void tenon__py_object_release(void *object);

#endif
