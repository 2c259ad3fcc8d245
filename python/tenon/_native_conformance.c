/* The releases of the producers that the conformance kit makes. A callback of ctypes cannot count them: a consumer may release
 * a tensor while an exception is pending, and a Python function that is called at that moment destroys the exception. */
#include "internal.h"

#include <stdatomic.h>

/* `context` is a counter, 64 bits wide, that the kit never frees. */
static void count_release(void *context)
{
    if (context)
        atomic_fetch_add((_Atomic int64_t *)context, 1);
}

static void release_versioned(tenon_dl_managed *self)
{
    count_release(self->manager_ctx);
}

static void release_legacy(tenon_dl_managed_legacy *self)
{
    count_release(self->manager_ctx);
}

/* As DLPack's page about Python has it: release what no consumer took. */
static void destroy_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        tenon_dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (managed->deleter)
            managed->deleter(managed);
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        tenon_dl_managed_legacy *managed = PyCapsule_GetPointer(capsule, "dltensor");
        if (managed->deleter)
            managed->deleter(managed);
    }
}

static PyObject *conformance_hooks(PyObject *self, PyObject *none)
{
    (void)self;
    (void)none;
    return Py_BuildValue("(KKK)", (unsigned long long)(uintptr_t)release_versioned,
                         (unsigned long long)(uintptr_t)release_legacy, (unsigned long long)(uintptr_t)destroy_capsule);
}

PyMethodDef tenon__conformance_methods[] = {
    {"_conformance_hooks", conformance_hooks, METH_NOARGS,
     "_conformance_hooks()\n--\n\nReturn the addresses of C functions for tenon.conformance: a deleter of versioned "
     "and of "
     "legacy tensors, which count in manager_ctx, and a destructor of capsules."},
    {NULL, NULL, 0, NULL},
};
