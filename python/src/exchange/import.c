/* Imported tensors: a borrow that lives on the heap. */
#include "../internal.h"

#include <string.h>

static tenon__py_holder *hold_object(PyObject *object, uint32_t flags, bool is_alias)
{
    tenon__py_holder *holder = tenon__py_holder_new();
    if (!holder)
        return NULL;
    holder->is_alias = is_alias;
    if (tenon_py_borrow(object, flags | TENON__PY_STABLE_MEMORY, &holder->borrowed) == 0)
        return holder;
    tenon__py_holder_free(holder);
    return NULL;
}

/* A tensor that takes the holder. NULL with an exception; the holder is freed then. */
static TENON__PY_ALWAYS_INLINE tenon_tensor *tensor_of_holder(tenon__py_holder *holder)
{
    tenon_tensor *tensor = NULL;
    if (holder->borrowed.private_.holds == TENON__PY_HOLDS_TENSOR) {
        tensor = tenon_tensor_retain(holder->borrowed.private_.held.tensor);
        tenon_py_unborrow(&holder->borrowed);
        tenon__py_holder_free(holder);
        return tensor;
    }
    tenon_error err;
    if (tenon_tensor_place(&holder->room, &holder->borrowed.view, holder, tenon__py_holder_release, &tensor, &err)) {
        tenon_py_unborrow(&holder->borrowed);
        tenon__py_holder_free(holder);
        return tenon_py_raise(&err);
    }
    return tensor;
}

static tenon_tensor *import_object(PyObject *object, uint32_t flags, bool is_alias)
{
    tenon__py_holder *holder = hold_object(object, flags, is_alias);
    return holder ? tensor_of_holder(holder) : NULL;
}

tenon_tensor *tenon__py_import_copy(PyObject *object, const tenon__py_kind *kind, tenon_device own,
                                    const tenon_device *device, bool copy)
{
    tenon__py_holder *holder = tenon__py_holder_new();
    if (!holder)
        return NULL;
    tenon_py_borrowed *borrowed = &holder->borrowed;
    holder->is_alias = true;
    borrowed->private_.flags = TENON_PY_ANY_DEVICE;
    borrowed->private_.table = NULL;
    if (tenon__py_read_dlpack_copy(object, kind, own, device, copy, borrowed) < 0) {
        tenon__py_holder_free(holder);
        return NULL;
    }
    /* torch copies the memory of a negated view as it is, without negating the numbers. */
    bool is_refused = kind->owner && kind->owner->check && kind->owner->check(object, borrowed) < 0;
    borrowed->private_.object = Py_None; /* a copy does not need the array, and is ready on the default stream */
    Py_INCREF(Py_None);
    if (!is_refused)
        return tensor_of_holder(holder);
    tenon_py_unborrow(borrowed);
    tenon__py_holder_free(holder);
    return NULL;
}

/* The import of an alias of the object, if its framework makes one. */
static TENON__PY_NOINLINE tenon_tensor *import_pinned(PyObject *object, uint32_t flags)
{
    tenon__py_kind room;
    const tenon__py_kind *kind = object ? tenon__py_kind_of(object, &room) : NULL;
    if (object && !kind)
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

tenon_tensor *tenon_py_import(PyObject *object, uint32_t flags)
{
    return flags & TENON_PY_PIN ? import_pinned(object, flags & ~TENON_PY_PIN) : import_object(object, flags, false);
}

/* ------------------------------------------------------------------------------------------- beyond another borrow */

/* Copy a borrow to another place. What it holds is not counted again. */
static bool copy_borrow(const tenon_py_borrowed *from, tenon_py_borrowed *to)
{
    size_t dims = (size_t)from->view.ndim * sizeof(int64_t);
    *to = *from;
    if (!tenon__py_alloc_dims(to, from->view.ndim))
        return PyErr_NoMemory(), false;
    int64_t *shape = to->private_.dims, *strides = shape + from->view.ndim;
    if (dims) {
        memcpy(shape, from->view.shape, dims);
        memcpy(strides, from->view.strides, dims);
    }
    to->view.shape = shape;
    to->view.strides = strides;
    return true;
}

/* Move what a borrow holds into a tensor, which the borrow holds instead. 0, or -1 with an exception. */
static int share_managed(tenon_py_borrowed *borrowed)
{
    tenon__py_holder *holder = tenon__py_holder_new();
    tenon_tensor *tensor = NULL;
    tenon_error err;
    if (!holder || !copy_borrow(borrowed, &holder->borrowed)) {
        if (holder)
            tenon__py_holder_free(holder);
        return -1;
    }
    holder->is_alias = false;
    if (tenon_tensor_place(&holder->room, &holder->borrowed.view, holder, tenon__py_holder_release, &tensor, &err)) {
        tenon__py_free_dims(&holder->borrowed);
        tenon__py_holder_free(holder);
        return tenon_py_raise(&err), -1;
    }
    Py_INCREF(borrowed->private_.object); /* the holder has the borrow's */
    borrowed->private_.holds = TENON__PY_HOLDS_TENSOR;
    borrowed->private_.held.tensor = tensor;
    return 0;
}

static tenon__py_holder *hold_tensor(const tenon_py_borrowed *borrowed)
{
    tenon__py_holder *holder = tenon__py_holder_new();
    if (!holder)
        return NULL;
    holder->is_alias = false;
    if (!copy_borrow(borrowed, &holder->borrowed)) {
        tenon__py_holder_free(holder);
        return NULL;
    }
    Py_INCREF(borrowed->private_.object);
    tenon_tensor_retain(borrowed->private_.held.tensor);
    return holder;
}

tenon__py_holder *tenon__py_hold_borrowed(PyObject *object, tenon_py_borrowed *borrowed)
{
    int32_t holds = borrowed->private_.object ? borrowed->private_.holds : TENON__PY_HOLDS_NOTHING;
    if (holds == TENON__PY_HOLDS_TENSOR)
        return hold_tensor(borrowed);
    if (holds == TENON__PY_HOLDS_MANAGED || holds == TENON__PY_HOLDS_LEGACY)
        return share_managed(borrowed) < 0 ? NULL : hold_tensor(borrowed);
    const tenon__py_producer *owner = NULL;
    if (!tenon__py_has_array_struct(object) && tenon__py_owner(object, &owner) < 0)
        return NULL;
    if (!owner || !owner->pin)
        return hold_object(object, TENON_PY_ANY_DEVICE, false);
    PyObject *alias = owner->pin(object);
    tenon__py_holder *holder = alias ? hold_object(alias, TENON_PY_ANY_DEVICE, true) : NULL;
    Py_XDECREF(alias);
    return holder;
}
