/* Handle types whose Python objects are a framework's own, such as handle("torch.Tensor"). */
#include "host.h"

#include <string.h>

int tenon_py_add_foreign(const tenon_py_foreign *foreign)
{
    if (!foreign || !foreign->type || !foreign->extension || !foreign->take || !foreign->give || !foreign->release) {
        PyErr_SetString(PyExc_ValueError, "tenon_py_add_foreign(): argument 'foreign': a field is NULL");
        return -1;
    }
    for (int i = 0; i < TENON__PY_FOREIGN; i++) {
        const tenon_py_foreign *there = NULL;
        if (atomic_compare_exchange_strong(&tenon__py_global.foreign[i], &there, foreign) ||
            strcmp(there->type, foreign->type) == 0)
            return 0;
    }
    PyErr_Format(PyExc_RuntimeError, "tenon_py_add_foreign(): cannot add '%s'; there are already %d types",
                 foreign->type, (int)TENON__PY_FOREIGN);
    return -1;
}

/* The entry at index `i`, or NULL if there are no more. */
static const tenon_py_foreign *foreign_at(int i)
{
    return i < TENON__PY_FOREIGN ? atomic_load_explicit(&tenon__py_global.foreign[i], memory_order_acquire) : NULL;
}

const tenon_py_foreign *tenon__py_foreign(const char *type)
{
    const tenon_py_foreign *foreign = NULL;
    for (int i = 0; type && (foreign = foreign_at(i)) && strcmp(foreign->type, type) != 0; i++) {
    }
    return foreign;
}

const void *tenon__py_extension(tenon_call *call, const char *name, uint32_t version)
{
    (void)call;
    const tenon_py_foreign *foreign = NULL;
    for (int i = 0; name && version == 1 && (foreign = foreign_at(i)) && strcmp(foreign->extension, name) != 0; i++) {
    }
    return foreign ? foreign->services : NULL;
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
        if (foreign && f->base.args[i].kind == TENON_KIND_HANDLE && f->base.args[i].as.handle.object)
            foreign->release(f->base.args[i].as.handle.object);
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
