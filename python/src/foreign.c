/* Handles that are objects of a framework's in Python: handle("torch.Tensor"). */
#include "host.h"

#include <string.h>

enum { MOST_FOREIGN = 4 };
static const tenon_py_foreign *foreign_kinds[MOST_FOREIGN];
static _Atomic int foreign_count;

int tenon_py_add_foreign(const tenon_py_foreign *foreign)
{
    int count = atomic_load(&foreign_count);
    if (tenon__py_foreign(foreign->type))
        return 0;
    if (count == MOST_FOREIGN) {
        PyErr_SetString(PyExc_RuntimeError, "tenon: too many kinds of foreign handles");
        return -1;
    }
    foreign_kinds[count] = foreign;
    atomic_store_explicit(&foreign_count, count + 1, memory_order_release);
    return 0;
}

const tenon_py_foreign *tenon__py_foreign(const char *type)
{
    int count = atomic_load_explicit(&foreign_count, memory_order_acquire);
    for (int i = 0; type && i < count; i++) {
        if (strcmp(foreign_kinds[i]->type, type) == 0)
            return foreign_kinds[i];
    }
    return NULL;
}

const void *tenon__py_extension(tenon_call *call, const char *name, uint32_t version)
{
    (void)call;
    int count = atomic_load_explicit(&foreign_count, memory_order_acquire);
    for (int i = 0; name && version == 1 && i < count; i++) {
        if (strcmp(foreign_kinds[i]->extension, name) == 0)
            return foreign_kinds[i]->services;
    }
    return NULL;
}

void *tenon__py_foreign_object(const tenon__py_function *function, const tenon_parameter *param, PyObject *object)
{
    void *handle = NULL;
    if (tenon__py_foreign(param->handle)->take(object, &handle) == 0)
        return handle;
    tenon__py_name_argument(function, param->name, NULL);
    return NULL;
}

void tenon__py_foreign_release(const tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_py_foreign *foreign = tenon__py_foreign(s->params[i].handle);
        if (foreign && f->args[i].kind == TENON_KIND_HANDLE && f->args[i].as.handle.object)
            foreign->release(f->args[i].as.handle.object);
    }
}

PyObject *tenon__py_foreign_result(const tenon_py_foreign *foreign, void *handle, void (*destroy)(void *))
{
    PyObject *object = NULL;
    if (foreign->give(handle, &object) < 0)
        return NULL;
    if (destroy)
        destroy(handle);
    return object;
}
