/* Export: from a tensor to the Python object that it came from, or to a new one that a producer makes. */
#include "../internal.h"

/* ------------------------------------------------------------------------------------------------------------- same */

/* Whether the object is immutable, so that it need not be compared with the tensor: 1, 0, or -1 with an exception. An
 * immutable array may still have been deleted. */
static int never_changes(PyObject *object)
{
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    if (!kind) {
        tenon__py_clear_ignorable_error();
        return PyErr_Occurred() ? -1 : 0;
    }
    const tenon__py_producer *owner;
    return kind->is_immutable && !tenon__py_is_deleted(object, &owner);
}

/* tenon__py_has_view for any object, by reading it again. */
static TENON__PY_NOINLINE int has_view_now(PyObject *object, const tenon_view *before, const tenon_view *view)
{
    tenon_py_borrowed now;
    const tenon__py_kind *kind;
    if (tenon__py_peek(object, &kind, &now))
        return tenon_view_equal(&now.view, view);
    if (tenon__py_table_describes(object, view))
        return 1;
    if (PyErr_Occurred())
        return -1;
    int fixed = never_changes(object);
    if (fixed)
        return fixed < 0 ? -1 : tenon_view_equal(before, view);
    if (tenon_py_borrow(object, TENON_PY_ANY_DEVICE, &now) == 0) {
        bool same = tenon_view_equal(&now.view, view);
        tenon_py_unborrow(&now);
        return same;
    }
    if (!PyErr_ExceptionMatches(PyExc_Exception)) /* an interrupt must not be swallowed */
        return -1;
    PyErr_Clear();
    return 0;
}

int tenon__py_has_view(PyObject *object, const tenon_view *before, const tenon_view *view)
{
    bool is_same = tenon__py_has_array_struct(object) && tenon__py_array_struct_is(object, view);
    return is_same ? 1 : has_view_now(object, before, view);
}

/* The object that the tensor was imported from, if it still has the same memory; otherwise a tenon.Tensor. */
static PyObject *export_same(tenon_tensor *tensor)
{
    const tenon__py_holder *holder = tenon_tensor_owner(tensor, tenon__py_holder_release);
    if (!holder || holder->is_alias || !tenon__py_is_current(holder->interp))
        return tenon__py_tensor_new(tensor);
    PyObject *object = holder->borrowed.private_.object;
    int same = tenon__py_has_view(object, &holder->borrowed.view, tenon_tensor_view(tensor));
    if (same < 1)
        return same < 0 ? NULL : tenon__py_tensor_new(tensor);
    Py_INCREF(object);
    return object;
}

/* ------------------------------------------------------------------------------------------------------- frameworks */

PyObject *tenon__py_call_import(const char *module, const char *function, PyObject *argument, bool no_copy)
{
    PyObject *found = argument ? PyImport_ImportModule(module) : NULL;
    PyObject *callable = found ? PyObject_GetAttrString(found, function) : NULL;
    PyObject *arguments = callable ? PyTuple_Pack(1, argument) : NULL;
    PyObject *keywords = arguments && no_copy ? Py_BuildValue("{sO}", "copy", Py_False) : NULL;
    bool ready = arguments && (keywords || !no_copy);
    PyObject *result = ready ? PyObject_Call(callable, arguments, keywords) : NULL;
    if (ready && !result)
        tenon__py_raise_not_exported(module);
    Py_XDECREF(found);
    Py_XDECREF(callable);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    Py_XDECREF(argument);
    return result;
}

PyObject *tenon_py_export(tenon_tensor *tensor, tenon_py_as as)
{
    tenon__py_drain_soon();
    if (!tensor)
        return PyErr_Format(PyExc_ValueError, "tenon_py_export(): argument 'tensor' is NULL");
    if (as == TENON_PY_AS_SAME)
        return export_same(tensor);
    const tenon__py_producer *producer = tenon__py_producer_as(as);
    if (producer) {
        PyObject *array = producer->wrap(tensor);
        if (!array)
            tenon__py_raise_missing(producer->name, "tenon_py_export()");
        return array;
    }
    if (as != TENON_PY_AS_CAPSULE && as != TENON_PY_AS_CAPSULE_LEGACY)
        return PyErr_Format(PyExc_ValueError, "tenon_py_export(): argument 'as': %d is not a value of tenon_py_as",
                            (int)as);
    if (tenon__py_order(tensor, TENON__PY_NO_STREAM) < 0)
        return NULL;
    return tenon__py_capsule(tensor, as == TENON_PY_AS_CAPSULE_LEGACY);
}
