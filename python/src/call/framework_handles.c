/* Handle types whose Python objects are a framework's own, such as handle("torch.Tensor"). */
#include "internal.h"

#include <string.h>

int tenon_py_add_handle_type(const tenon_py_handle_type *handle_type)
{
    if (!handle_type || !handle_type->type || !handle_type->extension || !handle_type->take || !handle_type->give ||
        !handle_type->release) {
        PyErr_SetString(PyExc_ValueError, "tenon_py_add_handle_type(): argument 'handle_type': a field is NULL");
        return -1;
    }
    for (int i = 0; i < TENON__PY_HANDLE_TYPES; i++) {
        const tenon_py_handle_type *there = NULL;
        if (atomic_compare_exchange_strong(&tenon__py_global.handle_types[i], &there, handle_type) ||
            strcmp(there->type, handle_type->type) == 0)
            return 0;
    }
    PyErr_Format(PyExc_RuntimeError, "tenon_py_add_handle_type(): cannot add '%s'; there are already %d types",
                 handle_type->type, (int)TENON__PY_HANDLE_TYPES);
    return -1;
}

/* The entry at index `i`, or NULL if there are no more. */
static const tenon_py_handle_type *handle_type_at(int i)
{
    return i < TENON__PY_HANDLE_TYPES ? atomic_load_explicit(&tenon__py_global.handle_types[i], memory_order_acquire)
                                      : NULL;
}

const tenon_py_handle_type *tenon__py_find_handle_type(const char *type)
{
    const tenon_py_handle_type *handle_type = NULL;
    for (int i = 0; type && (handle_type = handle_type_at(i)) && strcmp(handle_type->type, type) != 0; i++) {
    }
    return handle_type;
}

const void *tenon__py_extension(tenon_call *call, const char *name, uint32_t version)
{
    (void)call;
    const tenon_py_handle_type *handle_type = NULL;
    for (int i = 0;
         name && version == 1 && (handle_type = handle_type_at(i)) && strcmp(handle_type->extension, name) != 0; i++) {
    }
    return handle_type ? handle_type->services : NULL;
}

void *tenon__py_framework_handle(const tenon__py_function *function, const tenon_parameter *param, PyObject *object)
{
    void *handle = NULL;
    if (tenon__py_find_handle_type(param->handle)->take(object, &handle) == 0)
        return handle;
    tenon__py_name_argument(function, param->name, NULL);
    return NULL;
}

void tenon__py_release_framework_handles(const tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_py_handle_type *handle_type = tenon__py_find_handle_type(s->params[i].handle);
        if (handle_type && f->base.args[i].kind == TENON_KIND_HANDLE && f->base.args[i].as.handle.object)
            handle_type->release(f->base.args[i].as.handle.object);
    }
}

PyObject *tenon__py_framework_handle_result(const tenon_py_handle_type *handle_type, void *handle,
                                            void (*destroy)(void *))
{
    PyObject *object = NULL;
    if (handle_type->give(handle, &object) < 0)
        return NULL;
    if (destroy)
        destroy(handle);
    return object;
}
