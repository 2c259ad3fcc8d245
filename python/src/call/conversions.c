/* Arguments that are "convert": counts and warnings, and callables that do not convert. */
#include "internal.h"

/* The client's `convert`. */
int tenon__py_convert(tenon_frame *base, int32_t index, int64_t bytes)
{
    tenon__py_frame *f = tenon__py_frame_of(base);
    (void)index;
    (void)bytes;
    return f->checks.may_have_changed ? tenon__py_check_changed_arguments(f) : 0;
}

/* The client's `converted`. */
int tenon__py_converted(tenon_frame *base, int32_t index, int64_t bytes)
{
    const tenon__py_function *function = tenon__py_frame_of(base)->function;
    atomic_fetch_add_explicit((_Atomic int64_t *)(uintptr_t)&function->conversions, 1, memory_order_relaxed);
    if (!tenon__py_is_checked(function->interp))
        return 0;
    return PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "%s(): argument '%s' was converted to %s, a copy of %lld bytes",
                            base->signature->name, base->signature->params[index].name,
                            base->signature->params[index].spec->text, (long long)bytes);
}

PyObject *tenon__py_get_conversions(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLongLong(atomic_load(&((tenon__py_function *)self)->conversions));
}

/* The types of the function's parameters and results by name, as its module has them. */
static PyObject *classes_of(const tenon__py_function *function)
{
    const tenon_signature *s = function->signature;
    PyObject *classes = PyDict_New();
    for (int32_t i = 0; classes && function->classes && i < s->nparams + s->nresults; i++) {
        const tenon_parameter *item = i < s->nparams ? &s->params[i] : &s->results[i - s->nparams];
        if (function->classes[i] && PyDict_SetItemString(classes, item->handle, (PyObject *)function->classes[i]) < 0)
            Py_CLEAR(classes);
    }
    return classes;
}

PyObject *tenon__py_get_exact(PyObject *self, void *closure)
{
    (void)closure;
    const tenon__py_function *function = (const tenon__py_function *)self;
    tenon_signature *signature = NULL;
    tenon_error err;
    if (!function->signature->nconverted)
        return tenon__py_callable_new(self);
    PyObject *classes = classes_of(function);
    if (!classes)
        return NULL;
    PyObject *twin = NULL;
    tenon__py_origin origin = {function->library, function->module_name, function->owner, classes};
    if (tenon_signature_alloc(function->signature->text, function->library->module, TENON_HOST_LAYOUT, &signature,
                              &err))
        tenon_py_raise(&err);
    else
        twin = tenon__py_function_new(&origin, &function->function, signature);
    Py_DECREF(classes);
    if (!twin)
        return NULL;
    ((tenon__py_function *)twin)->call.flags |= TENON_FRAME_EXACT;
    PyObject *callable = tenon__py_callable_new(twin);
    Py_DECREF(twin);
    return callable;
}
