/* tenon.Handle: an object of a library, held by Python. */
#include "internal.h"

#include <string.h>

typedef struct handle_object {
    PyObject_VAR_HEAD tenon__py_native native;
    char type[]; /* its name */
} handle_object;

static void handle_dealloc(PyObject *self)
{
    handle_object *handle = (handle_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    tenon__py_native_destroy(&handle->native);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *handle_repr(PyObject *self)
{
    const handle_object *handle = (const handle_object *)self;
    return PyUnicode_FromFormat("<handle '%s' of %s>", handle->type, handle->native.library->module->name);
}

static PyObject *handle_refuse_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type;
    (void)args;
    (void)kwargs;
    PyErr_SetString(PyExc_TypeError, "tenon.Handle cannot be called; only functions of a library make one");
    return NULL;
}

static PyType_Slot handle_slots[] = {
    {Py_tp_new, TENON__PY_SLOT(handle_refuse_new)},
    {Py_tp_dealloc, TENON__PY_SLOT(handle_dealloc)},
    {Py_tp_repr, TENON__PY_SLOT(handle_repr)},
    {Py_tp_doc, "An object of a library, for its functions. It is destroyed with its last reference."},
    {0, NULL},
};

static PyType_Spec handle_spec = {
    .name = "tenon.Handle",
    .basicsize = sizeof(handle_object),
    .itemsize = 1,
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = handle_slots,
};

static PyTypeObject *handle_type(void)
{
    tenon__py_interp *interp = tenon__py_interp_state();
    return interp ? tenon__py_make_type(&interp->handle_type, &handle_spec) : NULL;
}

PyObject *tenon__py_handle_new(tenon__py_library *library, const char *type, void *object, void (*destroy)(void *))
{
    PyTypeObject *made = handle_type();
    size_t length = strlen(type);
    handle_object *handle = made ? PyObject_NewVar(handle_object, made, (Py_ssize_t)length + 1) : NULL;
    if (!handle)
        return NULL;
    handle->native = (tenon__py_native){tenon__py_library_retain(library), object, destroy};
    memcpy(handle->type, type, length + 1);
    return (PyObject *)handle;
}

void *tenon__py_handle_object(const tenon__py_function *function, const tenon_parameter *param, PyObject *object)
{
    PyTypeObject *type = handle_type();
    if (!type)
        return NULL;
    if (Py_TYPE(object) != type) {
        tenon__py_wrong_type(function, param, object);
        return NULL;
    }
    handle_object *handle = (handle_object *)object;
    if (handle->native.library != function->library || strcmp(handle->type, param->handle) != 0) {
        tenon__py_argument_error(function, param->name, PyExc_TypeError, "expected %s, got a handle '%s' of %s%s",
                                 param->type, handle->type, handle->native.library->module->name,
                                 handle->native.library == function->library ? "" : ", which was loaded separately");
        return NULL;
    }
    return handle->native.object;
}
