#include "bridge.h"

#include <stdlib.h>

tenon_tensor *tenon_py_import(PyObject *object, uint32_t flags)
{
    tenon__py_holder *holder = malloc(sizeof *holder);
    if (!holder)
        return PyErr_NoMemory(), NULL;
    if (tenon_py_borrow(object, flags, &holder->borrowed) < 0) {
        free(holder);
        return NULL;
    }
    tenon_tensor *tensor = NULL;
    if (holder->borrowed.way == TENON__PY_OURS) {
        tensor = tenon_tensor_retain(holder->borrowed.held.tensor);
        tenon_py_unborrow(&holder->borrowed);
        free(holder);
        return tensor;
    }
    holder->interp = tenon__py_here();
    const tenon_view *view = &holder->borrowed.view;
    tenon_error err = {TENON_EINVAL, ""};
    tenon_blob blob = {
        .data = view->data,
        .byte_offset = view->byte_offset,
        .dtype = view->dtype,
        .device = view->device,
        .ndim = view->ndim,
        .shape = view->shape,
        .strides = view->strides,
        .flags = view->flags & (TENON_READ_ONLY | TENON_IS_COPIED | TENON_SUBBYTE_PADDED),
        .owner = holder,
        .release = tenon__py_holder_release,
    };
    if (!holder->interp || tenon_tensor_from_blob(&blob, &tensor, &err)) {
        tenon_py_unborrow(&holder->borrowed);
        free(holder);
        return PyErr_Occurred() ? NULL : tenon_py_raise(&err);
    }
    atomic_fetch_add_explicit(&holder->interp->count, 1, memory_order_relaxed);
    return tensor;
}
