/* Memory that outlives a call: arguments that are held beyond it, and results in memory of the library or of an argument. */
#include "internal.h"

tenon__py_holder *tenon__py_hold_argument(tenon__py_frame *f, int32_t index)
{
    const char *name = f->function->signature->params[index].name;
    tenon_py_borrowed *borrowed = tenon__py_argument_borrow(f, index);
    const tenon_view *view = &borrowed->view;
    tenon__py_holder *holder = tenon__py_hold_borrowed(f->argument_objects[index], borrowed);
    if (!holder) {
        tenon__py_name_argument(f->function, name, f->argument_objects[index]);
        return NULL;
    }
    if (view->numel == 0 || tenon_view_equal(&holder->borrowed.view, view))
        return holder;
    tenon__py_holder_release(holder);
    tenon__py_argument_error(f->function, name, PyExc_RuntimeError,
                             "its memory, shape or dtype changed during the call, so the function cannot keep it; "
                             "pass a copy");
    return NULL;
}

/* What keeps the owner of a result "of(...)" alive, and its release function. NULL with an exception. */
static void *hold_owner(tenon__py_frame *f, int32_t owner, tenon_release_fn *release)
{
    bool is_tensor = f->function->signature->params[owner].spec;
    *release = is_tensor ? tenon__py_holder_release : tenon__py_object_release;
    return is_tensor ? (void *)tenon__py_hold_argument(f, owner) : tenon__py_share_self(f);
}

/* The memory that the function gave: a new tensor, or NULL with an exception. */
static tenon_tensor *take_memory(tenon__py_frame *f, int32_t index)
{
    const tenon_parameter *result = &f->function->signature->results[index];
    tenon_release_fn release = NULL;
    void *owner = NULL;
    tenon_tensor *tensor = NULL;
    tenon_error err;
    if ((result->flags & TENON_PARAMETER_OF) && !(owner = hold_owner(f, result->owner, &release)))
        return NULL;
    if (!tenon_frame_take_memory(&f->base, index, owner, release, &tensor, &err))
        return tensor;
    if (owner)
        release(owner);
    return tenon_py_raise(&err);
}

/* A framework that cannot have the memory advises to pass a copy, which no caller can of a result. */
static void advise_other_framework(void)
{
    PyObject *error = tenon__py_take_exception();
    bool is_refusal = Py_TYPE(error) == (PyTypeObject *)PyExc_BufferError;
    PyObject *message = is_refusal ? PyObject_Str(error) : NULL;
    PyObject *copy = message ? PyUnicode_FromString("pass a copy") : NULL;
    PyObject *other = copy ? PyUnicode_FromString("pass like=\"numpy\", and copy the result") : NULL;
    PyObject *advice = other ? PyUnicode_Replace(message, copy, other, 1) : NULL;
    PyObject *arguments = advice ? PyTuple_Pack(1, advice) : NULL;
    if (arguments)
        PyObject_SetAttrString(error, "args", arguments);
    Py_XDECREF(message);
    Py_XDECREF(copy);
    Py_XDECREF(other);
    Py_XDECREF(advice);
    Py_XDECREF(arguments);
    tenon__py_raise_again(error);
}

/* The argument that a result of(x) is, whole and unchanged: borrowed, or NULL, perhaps with an exception. */
static PyObject *returned_argument(const tenon__py_frame *f, int32_t index)
{
    const tenon_signature *s = f->function->signature;
    const tenon_parameter *result = &s->results[index];
    const tenon_view *view = f->base.results[index].as.view;
    if (!(result->flags & TENON_PARAMETER_OF) || !s->params[result->owner].spec || !view || f->wanted_like)
        return NULL;
    PyObject *object = f->argument_objects[result->owner];
    const tenon_value *arg = &f->base.args[result->owner];
    if (arg->kind != TENON_KIND_TENSOR || !f->like || Py_TYPE(f->like) != Py_TYPE(object) ||
        !tenon_view_equal(view, arg->as.view))
        return NULL;
    return tenon__py_has_view(object, arg->as.view, view) > 0 ? object : NULL;
}

PyObject *tenon__py_library_result(tenon__py_frame *f, int32_t index)
{
    PyObject *argument = returned_argument(f, index);
    if (argument || PyErr_Occurred()) {
        Py_XINCREF(argument);
        return argument;
    }
    tenon_tensor *tensor = take_memory(f, index);
    if (!tensor)
        return NULL;
    PyObject *array = tenon__py_adopt_like(f->like, tensor);
    if (!array) {
        advise_other_framework();
        tenon__py_result_not_made(f, index);
    }
    tenon__py_release(tensor);
    return array;
}
