/* Errors about the arguments of a call. They name the first wrong argument, in the words of its framework. */
#include "host.h"

#include <stdio.h>
#include <string.h>

/* Name the argument in the pending exception. If the object is not an array at all, say what the signature expects
 * instead of listing the kinds of arrays. */
int tenon__py_raise_not_borrowed(const tenon__py_frame *f, const tenon_parameter *param, PyObject *object)
{
    const tenon__py_producer *owner;
    if (tenon__py_is_deleted(object, &owner))
        return tenon__py_argument_error(f->function, param->name, PyExc_ValueError,
                                        "this %s array was deleted or donated", owner->title);
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyObject *error = tenon__py_take_exception();
        int arraylike = tenon__py_is_arraylike(object);
        if (arraylike < 1) {
            Py_DECREF(error);
            return arraylike < 0 ? -1 : tenon__py_wrong_type(f->function, param, object);
        }
        tenon__py_raise_again(error);
    }
    tenon__py_name_argument(f->function, param->name, object);
    return -1;
}

/* Write the advice that converts the object to the expected dtype in its framework, such as "; try
 * x.astype('float32')", or "" if there is none. */
static void dtype_advice(const tenon_parameter *param, PyObject *object, char *buffer, size_t size)
{
    char name[64];
    buffer[0] = '\0';
    const tenon__py_producer *owner;
    if (tenon__py_owner(object, &owner) < 0 || !owner || !owner->cast || !param->spec || param->spec->variable >= 0 ||
        param->spec->dtypes.count != 1 || param->spec->dtypes.items[0].lanes != 1)
        return;
    tenon__py_framework_dtype(param->spec->dtypes.items[0], name, sizeof name);
    int length = snprintf(buffer, size, "; try %s.", param->name);
    if (length > 0 && (size_t)length < size)
        snprintf(buffer + length, size - (size_t)length, "%s%s%s", owner->cast, name, owner->cast_end);
}

/* Raise that the argument is read-only because all arrays of its framework are. False if they are not. */
static bool raise_immutable(const tenon__py_frame *f, const char *argument, PyObject *object)
{
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    tenon__py_clear_ignorable_error();
    if (kind && kind->is_immutable && kind->owner && kind->owner->title && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError,
                     "%s(): argument '%s' is read-only (a %s array is immutable), but must be writable; %s",
                     f->function->signature->name, argument, kind->owner->title, tenon__py_writable_advice(object));
    return PyErr_Occurred() != NULL;
}

/* Raise the error of a match, with advice about the argument that it stopped at. */
static void raise_for(tenon__py_frame *f, const tenon_error *err)
{
    const tenon_signature *s = f->function->signature;
    int32_t i = 0;
    while (i < s->nparams && s->params[i].name != f->bindings.argument)
        i++;
    PyObject *object = i < s->nparams ? f->given[i] : NULL;
    char advice[160] = "";
    if (object && err->status == TENON_EDTYPE)
        dtype_advice(&s->params[i], object, advice, sizeof advice);
    tenon__py_clear_ignorable_error();
    if (PyErr_Occurred() || (object && err->status == TENON_EREADONLY && raise_immutable(f, s->params[i].name, object)))
        return;
    static const char copy[] = "pass a copy";
    size_t length = strlen(err->message), kept = length;
    const char *more = advice;
    if (object && err->status == TENON_EREADONLY && length > strlen(copy) &&
        strcmp(err->message + length - strlen(copy), copy) == 0) {
        kept = length - strlen(copy);
        more = tenon__py_writable_advice(object);
    }
    tenon_error with_advice;
    tenon_error_set(&with_advice, err->status, "%.*s%s", (int)kept, err->message, more);
    tenon_py_raise(&with_advice);
}

int tenon__py_raise_mismatch(tenon__py_frame *f, int32_t count)
{
    const tenon_signature *s = f->function->signature;
    PyObject *names[TENON_MAX_PARAMETERS];
    const char *objects[TENON_MAX_PARAMETERS];
    for (int32_t i = 0; i < s->nparams; i++) {
        names[i] = f->given[i] ? tenon__py_type_name(f->given[i]) : NULL;
        objects[i] = names[i] ? PyUnicode_AsUTF8AndSize(names[i], NULL) : NULL;
        tenon__py_clear_ignorable_error();
    }
    tenon_error err;
    tenon_status status = PyErr_Occurred() ? TENON_OK
                          : count == s->nparams
                              ? tenon_signature_match(s, f->args, objects, &f->bindings, &err)
                              : tenon_signature_match_before(s, count, f->args, objects, &f->bindings, &err);
    if (status)
        raise_for(f, &err);
    for (int32_t i = 0; i < s->nparams; i++)
        Py_XDECREF(names[i]);
    return -1;
}

int tenon__py_first_mistake(tenon__py_frame *f, int32_t index)
{
    if (!tenon__py_may_replace())
        return -1;
    PyObject *error = tenon__py_take_exception();
    if (tenon_signature_match_before(f->function->signature, index, f->args, NULL, &f->bindings, NULL)) {
        tenon__py_raise_mismatch(f, index);
        Py_DECREF(error);
    } else {
        tenon__py_raise_again(error);
    }
    return -1;
}

int tenon__py_raise_out_mismatch(tenon__py_frame *f, PyObject *object, const tenon_view *view)
{
    tenon_error err;
    PyObject *name = tenon__py_type_name(object);
    f->bindings.object = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    tenon__py_clear_ignorable_error();
    if (!PyErr_Occurred() &&
        tenon_signature_match_out(f->function->signature, 0, view, f->args, f->device, &f->bindings, &err) &&
        !(err.status == TENON_EREADONLY && raise_immutable(f, "out", object)))
        tenon_py_raise(&err);
    Py_XDECREF(name);
    return -1;
}

int tenon__py_raise_result_error(tenon__py_frame *f, int32_t index)
{
    const tenon_signature *s = f->function->signature;
    tenon_error err;
    tenon_dtype dtype;
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    if (tenon_signature_result(s, index, &f->bindings, &dtype, &ndim, shape, &err) ||
        tenon_spec_check(s->results[index].spec, f->results[index].as.view, &f->bindings, &err))
        tenon_py_raise(&err);
    return -1;
}
