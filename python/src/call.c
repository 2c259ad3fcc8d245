/* One call: borrow the arguments, match them, make the results, run the function, and give back. */
#include "host.h"

#include <stdio.h>

/* ------------------------------------------------------------------------------------------------------ arguments */

/* DLPack's number for a stream of the device: CUDA's default has a number of its own. */
static intptr_t stream_number(const tenon__py_frame *f)
{
    intptr_t stream = (intptr_t)f->call.stream;
    return stream == 0 && f->device.device_type == TENON_CUDA ? 1 : stream;
}

/* The first tensor on a device says where and on which stream the call runs. */
static int meet_device(tenon__py_frame *f, const tenon_parameter *param, const tenon_py_borrowed *borrowed)
{
    tenon_device device = borrowed->view.device;
    if (tenon_device_on_host(f->device)) {
        f->device = device;
        f->like = borrowed->object; /* the results are there too */
        return tenon_py_stream(borrowed, &f->call.stream);
    }
    if (tenon_device_equal(f->device, device) || (param->spec->flags & TENON_SPEC_ANYWHERE))
        return 0;
    char here[64], there[64];
    tenon_device_format(device, here, sizeof here);
    tenon_device_format(f->device, there, sizeof there);
    return tenon__py_argument_error(f->function, param->name, PyExc_ValueError,
                                    "it is on %s, and an earlier argument on %s; move one of them", here, there);
}

/* Name the argument in what was raised; for what is no array at all the signature says more than a list of ways. */
static int not_borrowed(const tenon__py_frame *f, const tenon_parameter *param, PyObject *object)
{
    if (tenon__py_framework_is_deleted_jax(object))
        return tenon__py_argument_error(f->function, param->name, PyExc_ValueError,
                                        "this JAX array was deleted or given away (donated)");
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        int arraylike = tenon__py_is_arraylike(object);
        if (arraylike < 1) {
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(traceback);
            return arraylike < 0 ? -1 : tenon__py_wrong_type(f->function, param, object);
        }
        PyErr_Restore(type, value, traceback);
    }
    tenon__py_name_argument(f->function, param->name, object);
    return -1;
}

/* What was borrowed is argument `i`. */
static inline void take_view(tenon__py_frame *f, const tenon_signature *s, int32_t i, tenon_py_borrowed *borrowed)
{
    f->nborrowed++;
    f->elements |= borrowed->view.numel;
    f->args[i].kind = TENON_KIND_TENSOR;
    f->args[i].flags = 0;
    f->args[i].as.view = &borrowed->view;
    if (s->nwritten && (s->params[i].spec->flags & TENON_SPEC_WRITE))
        borrowed->view.flags |= TENON_VIEW_WRITTEN;
    f->fits = f->fits && tenon_signature_fits(s, i, &borrowed->view, &f->bindings);
}

/* -1 with an exception where the gradients of argument `i` would end here. */
static int check_gradient(tenon__py_frame *f, int32_t i, PyObject *object, const tenon_py_borrowed *borrowed)
{
    uint8_t code = borrowed->view.dtype.code;
    if (code == TENON_CODE_INT || code == TENON_CODE_UINT || code == TENON_CODE_BOOL)
        return 0;
    return tenon__py_check_gradient(f->function, f->function->signature->params[i].name, object, &f->flat);
}

/* Any tensor. `peeked`: the look at it that was taken already is right, unless it must wait for another stream. */
static TENON__PY_APART int take_tensor(tenon__py_frame *f, int32_t i, PyObject *object, bool peeked)
{
    const tenon_parameter *param = &f->function->signature->params[i];
    tenon_py_borrowed *borrowed = &f->borrowed[f->nborrowed];
    bool first = tenon_device_on_host(f->device);
    bool same_stream = first || (f->like && Py_TYPE(f->like) == Py_TYPE(object)); /* a framework has one at a time */
    if (peeked && same_stream) {
        borrowed->flags = TENON_PY_ANY_DEVICE;
        borrowed->dims = borrowed->inline_dims;
        borrowed->object = object;
        Py_INCREF(object);
    } else {
        int status = first ? tenon_py_borrow(object, TENON_PY_ANY_DEVICE, borrowed)
                           : tenon_py_borrow_on(object, TENON_PY_ANY_DEVICE, stream_number(f), borrowed);
        if (status < 0)
            return not_borrowed(f, param, object);
    }
    f->held = true;
    take_view(f, f->function->signature, i, borrowed);
    if (check_gradient(f, i, object, borrowed) < 0)
        return -1;
    if (borrowed->view.device.device_type != TENON_CPU && !tenon_device_on_host(borrowed->view.device) &&
        meet_device(f, param, borrowed) < 0)
        return -1;
    if (!f->like) {
        int framework = tenon__py_framework(object);
        if (framework < 0)
            return -1;
        f->like = framework > TENON__PY_IN_NONE ? object : NULL;
    }
    return 0;
}

/* An argument that was left out, or None where that is allowed; false: it is another one. */
static inline bool take_nothing(tenon__py_frame *f, int32_t i, PyObject *object)
{
    const tenon_parameter *param = &f->function->signature->params[i];
    if (!object) {
        f->args[i] = param->value;
        return true;
    }
    if (object != Py_None || !(param->flags & TENON_PARAMETER_OPTIONAL))
        return false;
    f->args[i].kind = TENON_KIND_NONE;
    f->args[i].flags = 0;
    return true;
}

static int take_tensors(tenon__py_frame *f, int32_t before)
{
    const tenon_signature *s = f->function->signature;
    for (int32_t i = 0; i < before; i++) {
        PyObject *object = f->given[i];
        if (!s->params[i].spec)
            continue;
        tenon_py_borrowed *borrowed = &f->borrowed[f->nborrowed];
        bool peeked = object && tenon__py_peek(object, borrowed);
        if (peeked && borrowed->view.device.device_type == TENON_CPU) {
            borrowed->object = NULL; /* nothing to hold: the caller does */
            take_view(f, s, i, borrowed);
            if (Py_TYPE(object) != tenon__py_ndarray && check_gradient(f, i, object, borrowed) < 0)
                return -1;
            if (!f->like)
                f->like = object;
        } else if (!take_nothing(f, i, object) && take_tensor(f, i, object, peeked) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Everything else first: Python code may run there (__index__, __float__), and what it does to an array is done before
 * that is borrowed. */
static int take_others(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_parameter *param = &s->params[i];
        PyObject *object = f->given[i];
        if (param->spec || take_nothing(f, i, object) ||
            tenon__py_to_value(f->function, param, object, &f->blocks, &f->args[i]) == 0)
            continue;
        tenon__py_note_argument(f->function, param->name);
        if (!tenon__py_may_replace())
            return -1;
        /* Of two mistakes the first is told. */
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        if (take_tensors(f, i) < 0) {
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(traceback);
        } else {
            PyErr_Restore(type, value, traceback);
        }
        return -1;
    }
    return 0;
}

static int take_arguments(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    if (s->ntensors < s->nparams && take_others(f) < 0)
        return -1;
    return take_tensors(f, s->nparams);
}

/* What a user of that framework writes to get the dtype that is wanted; "" where nothing is sure. */
static void dtype_advice(const tenon_parameter *param, PyObject *object, char *buffer, size_t size)
{
    char name[64];
    buffer[0] = '\0';
    int framework = tenon__py_framework(object);
    if (framework < 0 || !param->spec || param->spec->variable >= 0 || param->spec->dtypes.count != 1 ||
        param->spec->dtypes.items[0].lanes != 1)
        return;
    tenon__py_framework_dtype(param->spec->dtypes.items[0], name, sizeof name);
    if (framework == TENON__PY_IN_TORCH)
        snprintf(buffer, size, "; try %s.to(torch.%s)", param->name, name);
    else if (framework == TENON__PY_IN_NUMPY || framework == TENON__PY_IN_JAX || framework == TENON__PY_IN_CUPY)
        snprintf(buffer, size, "; try %s.astype('%s')", param->name, name);
}

/* Raise that what is written is read-only, where its framework has no other arrays; false: it has. */
static bool raise_immutable(const tenon__py_frame *f, const char *argument, PyObject *object)
{
    int framework = tenon__py_framework(object);
    const char *whose = framework == TENON__PY_IN_JAX          ? "JAX"
                        : framework == TENON__PY_IN_TENSORFLOW ? "TensorFlow"
                                                               : NULL;
    tenon__py_forgive();
    if (whose && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError,
                     "%s(): argument '%s' is read-only (a %s array is immutable); it is written to: %s",
                     f->function->signature->name, argument, whose, tenon__py_writable_advice(object));
    return PyErr_Occurred() != NULL;
}

/* Raise what a match said of the parameter that it stopped at, with a word of advice. */
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
    tenon__py_forgive();
    if (PyErr_Occurred() || (object && err->status == TENON_EREADONLY && raise_immutable(f, s->params[i].name, object)))
        return;
    tenon_error with_advice;
    tenon_error_set(&with_advice, err->status, "%s%s", err->message, advice);
    tenon_py_raise(&with_advice);
}

/* What matched is what the message is about: the same again, with the names of the types. */
static int raise_mismatch(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    PyObject *names[TENON_MAX_PARAMETERS];
    const char *objects[TENON_MAX_PARAMETERS];
    for (int32_t i = 0; i < s->nparams; i++) {
        names[i] = f->given[i] ? tenon__py_type_name(f->given[i]) : NULL;
        objects[i] = names[i] ? PyUnicode_AsUTF8AndSize(names[i], NULL) : NULL;
        tenon__py_forgive();
    }
    tenon_error err;
    if (!PyErr_Occurred() && tenon_signature_match(s, f->args, objects, &f->bindings, &err))
        raise_for(f, &err);
    for (int32_t i = 0; i < s->nparams; i++)
        Py_XDECREF(names[i]);
    return -1;
}

/* -------------------------------------------------------------------------------------------------------- results */

/* The caller's own tensor as the result. */
static int take_out(tenon__py_frame *f, PyObject *object)
{
    tenon_py_borrowed *borrowed = &f->borrowed[f->nborrowed];
    tenon_error err;
    int status = tenon_device_on_host(f->device)
                     ? tenon_py_borrow(object, TENON_PY_ANY_DEVICE, borrowed)
                     : tenon_py_borrow_on(object, TENON_PY_ANY_DEVICE, stream_number(f), borrowed);
    if (status < 0) {
        tenon__py_name_argument(f->function, "out", object);
        return -1;
    }
    f->nborrowed++;
    f->held = true;
    if (tenon__py_check_gradient(f->function, "out", object, &f->flat) < 0)
        return -1;
    const tenon_signature *s = f->function->signature;
    if (tenon_signature_match_out(s, 0, &borrowed->view, f->args, f->device, &f->bindings, NULL)) {
        PyObject *name = tenon__py_type_name(object); /* only now, for the message */
        f->bindings.object = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
        tenon__py_forgive();
        if (!PyErr_Occurred() &&
            tenon_signature_match_out(s, 0, &borrowed->view, f->args, f->device, &f->bindings, &err) &&
            !(err.status == TENON_EREADONLY && raise_immutable(f, "out", object)))
            tenon_py_raise(&err);
        Py_XDECREF(name);
        return -1;
    }
    Py_INCREF(object);
    tenon__py_place_result(f, 0, object, borrowed, TENON_VIEW_WRITTEN);
    return 0;
}

static int prepare_results(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    if (f->out && f->wanted_like) {
        PyErr_Format(PyExc_TypeError, "%s(): 'out' and 'like' exclude each other: pass one of them", s->name);
        return -1;
    }
    if (f->wanted_like)
        f->like = f->wanted_like;
    if (f->out)
        return take_out(f, f->out);
    for (int32_t i = 0; i < s->nresults; i++) {
        const tenon_parameter *result = &s->results[i];
        if (result->kind != TENON_KIND_TENSOR || (result->flags & TENON_PARAMETER_OPEN))
            continue;
        tenon_error err;
        tenon_dtype dtype;
        int32_t ndim;
        int64_t shape[TENON_MAX_NDIM];
        if (tenon_signature_result(s, i, &f->bindings, &dtype, &ndim, shape, &err)) {
            tenon_py_raise(&err);
            return -1;
        }
        if (tenon__py_make_result(f, i, dtype, ndim, shape) < 0)
            return -1;
        if (result->spec->devices && tenon_spec_check(result->spec, f->results[i].as.view, &f->bindings, &err)) {
            tenon_py_raise(&err);
            return -1;
        }
    }
    return 0;
}

static PyObject *result_missing(const tenon__py_frame *f, int32_t index)
{
    PyErr_Format(PyExc_RuntimeError, "%s(): its code returned without giving result %d", f->function->signature->name,
                 (int)index);
    return NULL;
}

/* A result as an object: a new reference. */
static PyObject *result_object(tenon__py_frame *f, int32_t index)
{
    const tenon_parameter *param = &f->function->signature->results[index];
    const tenon_value *value = &f->results[index];
    PyObject *made = f->made[index];
    if (made) {
        f->made[index] = NULL;
        return made;
    }
    if (value->flags & TENON_VALUE_UNSET) {
        if (!(param->flags & TENON_PARAMETER_OPTIONAL))
            return result_missing(f, index);
        Py_INCREF(Py_None);
        return Py_None;
    }
    switch (param->kind) {
    case TENON_KIND_INT:
        return PyLong_FromLongLong(value->as.integer);
    case TENON_KIND_FLOAT:
        return PyFloat_FromDouble(value->as.number);
    case TENON_KIND_BOOL:
        return PyBool_FromLong(value->as.integer != 0);
    case TENON_KIND_ENUM:
        if (value->as.integer >= 0 && value->as.integer < param->count)
            return PyUnicode_FromString(param->choices[value->as.integer]);
        return PyErr_Format(PyExc_RuntimeError, "%s(): its code gave result %d the choice %lld of %d",
                            f->function->signature->name, (int)index, (long long)value->as.integer, (int)param->count);
    case TENON_KIND_STR: {
        PyObject *text = PyUnicode_DecodeUTF8(value->as.list.data, (Py_ssize_t)value->as.list.length, NULL);
        if (!text && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
            PyErr_Format(PyExc_RuntimeError, "%s(): its code gave result %d a text that is no UTF-8",
                         f->function->signature->name, (int)index);
        return text;
    }
    default:
        return result_missing(f, index);
    }
}

static PyObject *all_results(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    if (s->nresults == 0) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    if (s->nresults == 1 && !s->named_results)
        return result_object(f, 0);
    PyObject *tuple = PyTuple_New(s->nresults);
    for (int32_t i = 0; tuple && i < s->nresults; i++) {
        PyObject *object = result_object(f, i);
        if (!object) {
            Py_DECREF(tuple);
            return NULL;
        }
        PyTuple_SetItem(tuple, i, object);
    }
    if (!tuple || !f->function->result_type)
        return tuple;
    PyObject *named = PyObject_CallObject(f->function->result_type, tuple);
    Py_DECREF(tuple);
    return named;
}

/* -------------------------------------------------------------------------------------------------------- the call */

/* Whether other threads should go on meanwhile. Letting the lock go costs little, but getting it back from a busy
 * thread takes 5 ms: it pays from about a millisecond of work on, which takes about this much memory. */
static bool lets_go(const tenon__py_frame *f)
{
    enum { MANY_BYTES = 32 << 20 };
    uint64_t flags = f->function->function.flags;
    if (flags & (TENON_RELEASE_LOCK | TENON_KEEP_LOCK))
        return flags & TENON_RELEASE_LOCK;
    int64_t bytes = 0;
    if (f->elements < MANY_BYTES / 1024) /* as nearly always; what follows need not be quick */
        return false;
    for (int32_t i = 0; i < f->nborrowed; i++) {
        int64_t more = tenon_view_nbytes(&f->borrowed[i].view);
        if (more >= MANY_BYTES - bytes)
            return true;
        bytes += more;
    }
    return false;
}

/* Run the C code. -1 with an exception. */
static int run(tenon__py_frame *f)
{
    const tenon_function *function = &f->function->function;
    tenon_status status = TENON_OK;
    if (function->shape && f->function->signature->open_results) {
        f->call.flags |= TENON_CALL_SHAPE_ONLY;
        status = function->shape(&f->call);
        f->call.flags &= ~TENON_CALL_SHAPE_ONLY;
    }
    if (!status && !(f->call.flags & TENON_CALL_FAILED)) {
        if (lets_go(f)) {
            f->call.flags |= TENON_CALL_UNLOCKED;
            f->thread = PyEval_SaveThread();
            status = function->call(&f->call);
            PyEval_RestoreThread(f->thread);
            f->thread = NULL;
        } else {
            status = function->call(&f->call);
        }
    }
    if (!status && !(f->call.flags & TENON_CALL_FAILED))
        return 0;
    tenon__py_raise_failure(f, f->function->signature->name, status);
    return -1;
}

/* torch counts what is written, so that autograd notices: what a function writes counts too, also where it failed. */
static void tell_written(const tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    PyObject *error = tenon__py_take_exception();
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_spec *spec = s->params[i].spec;
        if (spec && (spec->flags & TENON_SPEC_WRITE) && f->args[i].kind == TENON_KIND_TENSOR)
            tenon__py_torch_written(f->given[i]);
    }
    if (f->out)
        tenon__py_torch_written(f->out);
    tenon__py_raise_again(error);
}

static PyObject *call_in(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    if (take_arguments(f) < 0)
        return NULL;
    tenon_status status = TENON_OK;
    if (!f->fits)
        status = tenon_signature_match(s, f->args, NULL, &f->bindings, NULL);
    else if (!s->plain || f->bindings.dims_bound + 1 != 1u << s->names.ndims)
        status = tenon_signature_end(s, f->args, &f->bindings, NULL);
    if (status) {
        raise_mismatch(f);
        return NULL;
    }
    f->call.results = f->results;
    f->call.types = f->bindings.types;
    f->call.device = f->device;
    if (f->function->takes_like && prepare_results(f) < 0)
        return NULL;
    int done = run(f);
    if (s->nwritten || f->out) {
        tell_written(f);
        done = PyErr_Occurred() ? -1 : 0;
    }
    return done < 0 ? NULL : all_results(f);
}

/* What most calls have none of: handles of a framework's, scratch memory on a device, and after a failure the results. */
static TENON__PY_APART void clear_rest(tenon__py_frame *f, bool failed)
{
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    if (failed) /* what is given up now must not meet the exception */
        PyErr_Fetch(&type, &value, &traceback);
    if (f->function->has_foreign)
        tenon__py_foreign_release(f);
    for (int32_t i = 0; i < f->function->signature->nresults; i++)
        Py_XDECREF(f->made[i]);
    Py_XDECREF(f->exception);
    Py_XDECREF(f->kept);
    if (failed)
        PyErr_Restore(type, value, traceback);
}

PyObject *tenon__py_call(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    tenon__py_frame f;
    f.function = (const tenon__py_function *)self;
    const tenon_signature *s = f.function->signature;
    f.out = f.wanted_like = NULL;
    f.given = args;
    if (kwnames || nargs != s->nparams || s->npositional != s->nparams) {
        if (tenon__py_distribute(f.function, args, nargs, kwnames, f.sorted) < 0)
            return NULL;
        PyObject *out = f.sorted[s->nparams], *like = f.sorted[s->nparams + 1];
        f.given = f.sorted;
        f.out = out == Py_None ? NULL : out;
        f.wanted_like = like == Py_None ? NULL : like;
    }
    int32_t borrows = s->ntensors + s->nresults;
    f.borrowed = borrows <= TENON__PY_INLINE_BORROWS ? f.room : PyMem_Malloc((size_t)borrows * sizeof *f.borrowed);
    if (!f.borrowed)
        return PyErr_NoMemory();
    f.call = f.function->call;
    f.call.host_private = &f;
    /* Two of four pointers here, two later: side by side the compiler packs them, which takes longer. */
    f.call.args = f.args;
    f.call.dims = f.bindings.dims;
    f.device = f.call.device;
    f.looked = 0;
    f.thread = NULL;
    f.nborrowed = 0;
    f.like = f.exception = f.kept = NULL;
    f.blocks = NULL;
    for (int32_t i = 0; i < s->nresults; i++) {
        f.made[i] = NULL;
        f.results[i].kind = s->results[i].kind;
        f.results[i].flags = TENON_VALUE_UNSET;
        f.results[i].as.view = NULL;
    }
    f.fits = !s->binds_ints;
    f.held = f.flat = false;
    f.elements = 0;
    tenon_signature_begin(s, &f.bindings);
    for (int32_t i = 0; f.function->has_foreign && i < s->nparams; i++)
        f.args[i].kind = TENON_KIND_NONE; /* so that it can be told which were taken */
    PyObject *result = call_in(&f);
    if (f.held)
        tenon_py_unborrow_many((size_t)f.nborrowed, f.borrowed);
    if (!result || f.function->has_foreign || f.kept)
        clear_rest(&f, !result);
    if (f.blocks)
        tenon_blocks_release(f.blocks);
    if (f.borrowed != f.room)
        PyMem_Free(f.borrowed);
    return result;
}
