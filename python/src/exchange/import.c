/* Imported tensors: a borrow that lives on the heap. */
#include "../internal.h"

static tenon_tensor *import_object(PyObject *object, uint32_t flags, bool is_alias)
{
    tenon__py_holder *holder = tenon__py_holder_new();
    if (!holder)
        return NULL;
    if (tenon_py_borrow(object, flags | TENON__PY_STAYS, &holder->borrowed) < 0) {
        tenon__py_holder_free(holder);
        return NULL;
    }
    tenon_tensor *tensor = NULL;
    if (holder->borrowed.private_.holds == TENON__PY_HOLDS_TENSOR) {
        tensor = tenon_tensor_retain(holder->borrowed.private_.held.tensor);
        tenon_py_unborrow(&holder->borrowed);
        tenon__py_holder_free(holder);
        return tensor;
    }
    holder->is_alias = is_alias;
    tenon_error err;
    if (tenon_tensor_from_view(&holder->borrowed.view, holder, tenon__py_holder_release, &tensor, &err)) {
        tenon_py_unborrow(&holder->borrowed);
        tenon__py_holder_free(holder);
        return tenon_py_raise(&err);
    }
    return tensor;
}

tenon_tensor *tenon_py_import(PyObject *object, uint32_t flags)
{
    bool pin = flags & TENON_PY_PIN;
    flags &= ~TENON_PY_PIN;
    tenon__py_kind room;
    const tenon__py_kind *kind = pin && object ? tenon__py_kind_of(object, &room) : NULL;
    if (pin && object && !kind)
        return NULL;
    if (!kind || !kind->owner || !kind->owner->pin)
        return import_object(object, flags, false);
    /* The alias requires no grad, so check the object itself first if it is to be written. */
    tenon_py_borrowed borrowed;
    if (tenon_py_borrow(object, flags, &borrowed) < 0)
        return NULL;
    tenon_py_unborrow(&borrowed);
    PyObject *alias = kind->owner->pin(object);
    tenon_tensor *tensor = alias ? import_object(alias, flags, true) : NULL;
    Py_XDECREF(alias);
    return tensor;
}
