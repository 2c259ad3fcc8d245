/* tenon.from_dlpack: on which device the memory is to be, and whether it is copied. */
#include "../internal.h"

/* Raise BufferError with the name of the device in place of %s. Returns NULL. */
static tenon_tensor *refuse_with_device(PyObject *object, const char *format, tenon_device device)
{
    char name[64];
    tenon_device_format(device, name, sizeof name);
    tenon__py_set_error(PyExc_BufferError, object, format, name);
    return NULL;
}

/* Whether Tenon makes the tensor itself from memory on `own`: memory that the CPU can read needs no producer. */
static bool needs_no_producer(tenon_device own, tenon_device wanted, bool copy)
{
    bool is_readable = tenon_device_equal(wanted, tenon_device_of(TENON_CPU, 0)) && tenon_device_on_host(own);
    return is_readable || (!copy && tenon_device_equal(own, wanted));
}

/* A copy by the producer, which is checked: several frameworks ignore what they are asked for. `shared` is the memory of the
 * array, or NULL if it is not known. */
static tenon_tensor *copy_by_producer(PyObject *object, const tenon__py_kind *kind, const tenon_tensor *shared,
                                      const tenon_device *device, bool copy)
{
    tenon_device own = shared ? tenon_tensor_view(shared)->device : tenon_device_of(kind->device_type, 0);
    bool moves = device && !(shared && tenon_device_equal(*device, own));
    tenon_tensor *made = tenon__py_import_copy(object, kind, own, moves ? device : NULL, copy), *result = NULL;
    if (!made)
        return NULL;
    const tenon_view *view = tenon_tensor_view(made);
    tenon_device wanted = device ? *device : shared ? own : view->device;
    bool is_copy = (view->flags & TENON_IS_COPIED) || (shared && tenon_tensor_view(shared)->data != view->data);
    if (!needs_no_producer(view->device, wanted, false))
        refuse_with_device(object, "its __dlpack__ was asked for another device, and returned memory on %s",
                           view->device);
    else if (copy && !is_copy && !needs_no_producer(view->device, wanted, true))
        refuse_with_device(object,
                           "its __dlpack__ was asked for a copy, and returned the same memory on %s; copy it with the "
                           "framework that made it",
                           view->device);
    else
        result = tenon__py_tensor_on(made, wanted, copy && !is_copy);
    tenon__py_release(made);
    return result;
}

/* After an import without a copy was refused: the producer may be able to give a copy. The pending exception stays if not. */
static tenon_tensor *copy_after_refusal(PyObject *object, const tenon__py_kind *kind, const tenon_device *device,
                                        bool copy)
{
    PyObject *refusal = tenon__py_take_exception();
    tenon_tensor *made = copy_by_producer(object, kind, NULL, device, copy);
    if (made) {
        Py_DECREF(refusal);
        return made;
    }
    tenon__py_clear_ignorable_error();
    tenon__py_raise_again(refusal);
    return NULL;
}

/* A capsule that is refused stays good, so its device is looked at before it is taken. 0, or -1 with an exception. */
static int check_capsule(PyObject *capsule, const tenon_device *device, bool copy)
{
    tenon_device own;
    if (tenon__py_capsule_device(capsule, &own) < 0)
        return -1;
    if (needs_no_producer(own, device ? *device : own, copy))
        return 0;
    refuse_with_device(capsule, "the memory of this capsule is on %s, where Tenon cannot copy it; ask its producer",
                       own);
    return -1;
}

tenon_tensor *tenon__py_from_dlpack(PyObject *object, const tenon_device *device, PyObject *copy)
{
    bool must_copy = copy == Py_True, may_copy = copy != Py_False;
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    if (!kind || (PyCapsule_CheckExact(object) && check_capsule(object, device, must_copy) < 0))
        return NULL;
    bool may_ask = may_copy && kind->has_dlpack;
    tenon_tensor *shared = tenon_py_import(object, TENON_PY_ANY_DEVICE), *result = NULL;
    if (!shared)
        return may_ask && PyErr_ExceptionMatches(PyExc_BufferError)
                   ? copy_after_refusal(object, kind, device, must_copy)
                   : NULL;
    const tenon_view *view = tenon_tensor_view(shared);
    tenon_device wanted = device ? *device : view->device;
    bool is_copy = (view->flags & TENON_IS_COPIED) && !tenon__py_is_tensor(object);
    if (is_copy && !may_copy)
        tenon__py_set_error(PyExc_BufferError, object, "its producer made a copy, and copy=False does not allow it");
    else if (needs_no_producer(view->device, wanted, must_copy))
        result = tenon__py_tensor_on(shared, wanted, must_copy);
    else if (!may_copy)
        refuse_with_device(object, "the memory is on %s, and copy=False does not allow a copy on another device",
                           view->device);
    else if (may_ask)
        result = copy_by_producer(object, kind, shared, device, must_copy);
    else
        refuse_with_device(object,
                           "the memory is on %s, where Tenon cannot copy it; copy it with the framework that made it",
                           view->device);
    tenon__py_release(shared);
    return result;
}
