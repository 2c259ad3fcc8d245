/* Errors about the arguments of a call. They name the first wrong argument, in the words of its framework. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

/* Name the argument in the pending exception. If the object is not an array at all, say what the signature expects
 * instead of listing the kinds of arrays. */
int tenon__py_raise_not_borrowed(const tenon__py_frame *f, const tenon_parameter *param, PyObject *object)
{
    if (tenon__py_raise_deleted(f->function, param->name, object))
        return -1;
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

/* How to convert it to the dtype of its parameter: "; try x.to(torch.float32)". */
static void cast_advice(const tenon_parameter *param, const tenon__py_producer *owner, char *buffer, size_t size)
{
    char name[64];
    if (!owner->cast || !param->spec || param->spec->variable >= 0 || param->spec->dtypes.count != 1 ||
        param->spec->dtypes.items[0].lanes != 1)
        return;
    tenon_dtype_format_long(param->spec->dtypes.items[0], name, sizeof name);
    snprintf(buffer, size, "; try %s.%s%s%s", param->name, owner->cast, name, owner->cast_end);
}

/* How to move the argument to a device that its parameter takes, if its framework can: ", for example with x.cuda()". */
static void device_advice(const tenon_parameter *param, const tenon__py_producer *owner, char *buffer, size_t size)
{
    uint32_t devices = param->spec->devices ? param->spec->devices : 1u << TENON_CPU;
    tenon__py_expression move = {NULL, NULL};
    if (devices & 1u << TENON_CPU)
        move = owner->to_cpu;
    else if (devices & (1u << TENON_CUDA | 1u << TENON_ROCM))
        move = owner->to_cuda;
    if (move.before)
        snprintf(buffer, size, ", for example with %s%s%s", move.before, param->name, move.after);
}

/* How to copy it to C order: ", for example with x.contiguous()". A mistake in its alignment has the same status. */
static void layout_advice(const tenon_parameter *param, const char *reason, const tenon__py_producer *owner,
                          char *buffer, size_t size)
{
    static const char copy[] = "pass a copy that is";
    size_t length = strlen(reason), end = strlen(copy);
    if ((param->spec->flags & TENON_SPEC_C) && owner->to_c_order.before && length > end &&
        strcmp(reason + length - end, copy) == 0)
        snprintf(buffer, size, ", for example with %s%s%s", owner->to_c_order.before, param->name,
                 owner->to_c_order.after);
}

void tenon__py_advice(const tenon_parameter *param, const tenon_error *err, const tenon__py_producer *owner,
                      char *buffer, size_t size)
{
    buffer[0] = '\0';
    if (err->status == TENON_EDTYPE)
        cast_advice(param, owner, buffer, size);
    else if (err->status == TENON_EDEVICE && param->spec)
        device_advice(param, owner, buffer, size);
    else if (err->status == TENON_ELAYOUT && param->spec)
        layout_advice(param, tenon_error_reason(err), owner, buffer, size);
}

/* Raise that the argument is read-only because all arrays of its framework are. False if they are not. */
static bool raise_immutable(const tenon__py_frame *f, const char *argument, PyObject *object)
{
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    tenon__py_clear_ignorable_error();
    if (kind && kind->is_immutable && kind->owner && kind->owner->title && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError,
                     "%s(): argument '%s' is read-only (a %s %s is immutable), but must be writable; %s",
                     f->function->signature->name, argument, kind->owner->title,
                     kind->owner->noun ? kind->owner->noun : "array", tenon__py_writable_advice(object));
    return PyErr_Occurred() != NULL;
}

/* Raise the error of a match, with advice about the argument that it stopped at. */
static void raise_for(tenon__py_frame *f, const tenon_error *err)
{
    const tenon_signature *s = f->function->signature;
    int32_t i = 0;
    while (i < s->nparams && s->params[i].name != f->base.bindings.argument)
        i++;
    PyObject *object = i < s->nparams ? f->argument_objects[i] : NULL;
    const tenon_parameter *param = &s->params[i];
    tenon__py_item item;
    if (f->function->has_lists && tenon__py_mismatched_item(f, &item)) {
        object = item.object;
        param = &item.param;
    }
    char advice[160] = "";
    const tenon__py_producer *owner = NULL;
    bool may_advise = err->status == TENON_EDTYPE || err->status == TENON_EDEVICE || err->status == TENON_ELAYOUT;
    if (object && may_advise && tenon__py_owner(object, &owner) == 0 && owner)
        tenon__py_advice(param, err, owner, advice, sizeof advice);
    tenon__py_clear_ignorable_error();
    if (PyErr_Occurred() || (object && err->status == TENON_EREADONLY && raise_immutable(f, param->name, object)))
        return;
    static const char copy[] = "pass a copy";
    const char *reason = tenon_error_reason(err);
    size_t length = strlen(reason), kept = length;
    const char *more = advice;
    if (object && err->status == TENON_EREADONLY && length > strlen(copy) &&
        strcmp(reason + length - strlen(copy), copy) == 0) {
        kept = length - strlen(copy);
        more = tenon__py_writable_advice(object);
    }
    tenon_error with_advice;
    tenon_error_set_in(&with_advice, err->status, err->function, "%.*s%s", (int)kept, reason, more);
    tenon_py_raise(&with_advice);
}

const char *tenon__py_describe_argument(tenon_frame *base, int32_t index)
{
    return tenon__py_describe_object(base, tenon__py_frame_of(base)->argument_objects[index]);
}

const char *tenon__py_describe_object(tenon_frame *base, PyObject *object)
{
    PyObject *name = object && !PyErr_Occurred() ? tenon__py_type_name(object) : NULL;
    Py_ssize_t length = 0;
    const char *text = name ? PyUnicode_AsUTF8AndSize(name, &length) : NULL;
    char *copy = text ? tenon_block_alloc(&base->blocks, (size_t)length + 1, 0) : NULL;
    if (copy)
        memcpy(copy, text, (size_t)length + 1);
    Py_XDECREF(name);
    tenon__py_clear_ignorable_error();
    return copy;
}

/* Raise the failure of the function itself. What came up in Python while it ran comes first. */
static void raise_failure(tenon__py_frame *f, const tenon_error *err)
{
    if (f->exception) {
        PyErr_SetObject((PyObject *)Py_TYPE(f->exception), f->exception);
        return;
    }
    tenon_status status = err->status;
    bool of_its_own = status == TENON_EVERSION || status >= TENON_EFAILED || status < TENON_OK;
    PyErr_Format(of_its_own ? PyExc_RuntimeError : tenon__py_exception_for(status), "%s(): %s",
                 f->function ? f->function->signature->name : "load", err->message);
}

void tenon__py_refuse(tenon_frame *base, tenon_refusal why, int32_t index, const tenon_error *err)
{
    tenon__py_frame *f = tenon__py_frame_of(base);
    (void)index;
    if (why == TENON_REFUSED_BY_CODE)
        raise_failure(f, err);
    else if (PyErr_Occurred()) /* from describing an argument: it is worse than a mismatch */
        return;
    else if (why == TENON_REFUSED_ARGUMENT)
        raise_for(f, err);
    else
        tenon_py_raise(err);
    if (why != TENON_REFUSED_BY_CODE && f->function)
        (void)tenon__py_note_mismatch(f->function);
}

int tenon__py_first_mistake(tenon__py_frame *f, int32_t index)
{
    if (!tenon__py_may_replace() || tenon__py_is_attempt(f->function))
        return -1;
    PyObject *error = tenon__py_take_exception();
    if (tenon_frame_refuse_earlier(&f->base, index))
        Py_DECREF(error);
    else
        tenon__py_raise_again(error);
    return -1;
}

int tenon__py_raise_out_mismatch(tenon__py_frame *f, PyObject *object, const tenon_view *view)
{
    tenon_error err;
    PyObject *name = tenon__py_type_name(object);
    f->base.bindings.object = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    tenon__py_clear_ignorable_error();
    if (!PyErr_Occurred() &&
        tenon_signature_match_out(f->function->signature, 0, view, f->base.args, f->base.call.device, &f->base.bindings,
                                  &err) &&
        !(err.status == TENON_EREADONLY && raise_immutable(f, "out", object)))
        tenon_py_raise(&err);
    Py_XDECREF(name);
    return -1;
}

/* The gradient check. No framework can follow what a C function does, so gradients would be lost silently. */

int tenon__py_raise_lost_gradient(const tenon__py_function *function, const char *argument, const char *why)
{
    if (tenon__py_note_refusal(function)) {
        PyErr_SetNone(PyExc_RuntimeError);
        return -1;
    }
    return tenon__py_argument_failure(function, argument, PyExc_RuntimeError, "%s", why);
}

int tenon__py_check_gradient(const tenon__py_function *function, const char *argument, PyObject *object,
                             tenon__py_checks *checks)
{
    const tenon__py_producer *owner;
    if (tenon__py_owner(object, &owner) < 0)
        return -1;
    return tenon__py_check_gradient_of(owner, function, argument, object, checks);
}
