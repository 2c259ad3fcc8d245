/* One call: borrow the arguments, match them, make the results, run the function, and give back. */
#include "host.h"

/* What a RecursionError adds to its message. */
#define IN_ARGUMENTS " while the arguments of a Tenon function were read"

/* ------------------------------------------------------------------------------------------------------ arguments */

/* Borrow what is not plain, on the stream of the call. Python code may run, and call this function again. */
static int borrow_on_stream(tenon__py_frame *f, PyObject *object, tenon_py_borrowed *borrowed)
{
    f->disturbed |= !tenon__py_is_plain(object);
    if (tenon__py_enter_recursion(IN_ARGUMENTS) < 0)
        return -1;
    int status = tenon_device_on_host(f->device)
                     ? tenon_py_borrow(object, TENON_PY_ANY_DEVICE, borrowed)
                     : tenon_py_borrow_on(object, TENON_PY_ANY_DEVICE, tenon__py_call_stream(f), borrowed);
    tenon__py_leave_recursion();
    return status;
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

/* Any tensor. `peeked`: the look at it that was taken already is right, unless it must wait for another stream. */
static TENON__PY_NOINLINE int take_tensor(tenon__py_frame *f, int32_t i, PyObject *object, bool peeked)
{
    const tenon_parameter *param = &f->function->signature->params[i];
    tenon_py_borrowed *borrowed = &f->borrowed[f->nborrowed];
    bool first = tenon_device_on_host(f->device);
    bool same_stream = first || (f->like && Py_TYPE(f->like) == Py_TYPE(object)); /* a framework has one at a time */
    if (peeked && same_stream) {
        borrowed->private_.flags = TENON_PY_ANY_DEVICE;
        borrowed->private_.dims = borrowed->private_.inline_dims;
        borrowed->private_.object = object;
        Py_INCREF(object);
    } else {
        if (borrow_on_stream(f, object, borrowed) < 0)
            return tenon__py_raise_not_borrowed(f, param, object);
    }
    f->held = true;
    take_view(f, f->function->signature, i, borrowed);
    if (tenon__py_check_argument_gradient(f, i, object, borrowed) < 0)
        return -1;
    if (borrowed->view.device.device_type != TENON_CPU && !tenon_device_on_host(borrowed->view.device) &&
        tenon__py_meet_device(f, param, borrowed) < 0)
        return -1;
    if (!f->like) {
        const tenon__py_producer *owner;
        if (tenon__py_owner(object, &owner) < 0)
            return -1;
        f->like = owner ? object : NULL;
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
        const tenon__py_kind *kind = NULL;
        bool peeked = object && tenon__py_peek(object, &kind, borrowed);
        if (peeked && borrowed->view.device.device_type == TENON_CPU) {
            borrowed->private_.object = NULL; /* nothing to hold: the caller does */
            take_view(f, s, i, borrowed);
            if (kind && tenon__py_has_gradient(borrowed->view.dtype) &&
                tenon__py_check_gradient_of(kind->owner, f->function, s->params[i].name, object, &f->flat) < 0)
                return tenon__py_first_mistake(f, i);
            if (!f->like)
                f->like = object;
        } else if (!take_nothing(f, i, object) && take_tensor(f, i, object, peeked) < 0) {
            return tenon__py_first_mistake(f, i);
        }
    }
    return 0;
}

/* Anything but a tensor. Python code may run unless it is a plain number, and call this function again. */
static int take_value(tenon__py_frame *f, int32_t i, PyObject *object)
{
    const tenon_parameter *param = &f->function->signature->params[i];
    if (PyFloat_CheckExact(object) || PyLong_CheckExact(object))
        return tenon__py_to_value(f->function, param, object, &f->blocks, &f->args[i]);
    if (tenon__py_enter_recursion(IN_ARGUMENTS) < 0)
        return -1;
    int status = tenon__py_to_value(f->function, param, object, &f->blocks, &f->args[i]);
    tenon__py_leave_recursion();
    return status;
}

/* Everything else first: Python code may run there (__index__, __float__), and what it does to an array is done before
 * that is borrowed. */
static int take_others(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_parameter *param = &s->params[i];
        PyObject *object = f->given[i];
        if (param->spec || take_nothing(f, i, object) || take_value(f, i, object) == 0)
            continue;
        tenon__py_note_argument(f->function, param->name);
        if (!tenon__py_may_replace())
            return -1;
        PyObject *error = tenon__py_take_exception();
        if (take_tensors(f, i) < 0) {
            Py_DECREF(error);
            return -1;
        }
        tenon__py_raise_again(error);
        return tenon__py_first_mistake(f, i);
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

/* -------------------------------------------------------------------------------------------------------- results */

/* The caller's own tensor as the result. */
static int take_out(tenon__py_frame *f, PyObject *object)
{
    tenon_py_borrowed *borrowed = &f->borrowed[f->nborrowed];
    if (borrow_on_stream(f, object, borrowed) < 0) {
        tenon__py_name_argument(f->function, "out", object);
        return -1;
    }
    f->nborrowed++;
    f->held = true;
    if (tenon__py_check_gradient(f->function, "out", object, &f->flat) < 0)
        return -1;
    const tenon_signature *s = f->function->signature;
    if (tenon_signature_match_out(s, 0, &borrowed->view, f->args, f->device, &f->bindings, NULL))
        return tenon__py_raise_out_mismatch(f, object, &borrowed->view);
    Py_INCREF(object);
    tenon__py_place_result(f, 0, object, borrowed, TENON_VIEW_WRITTEN);
    return 0;
}

static TENON__PY_NOINLINE int prepare_results(tenon__py_frame *f)
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
        tenon_dtype dtype;
        int32_t ndim;
        int64_t shape[TENON_MAX_NDIM];
        if (tenon_signature_result(s, i, &f->bindings, &dtype, &ndim, shape, NULL))
            return tenon__py_raise_result_error(f, i);
        if (tenon__py_make_result(f, i, dtype, ndim, shape) < 0)
            return -1;
        if (result->spec->devices && tenon_spec_check(result->spec, f->results[i].as.view, &f->bindings, NULL))
            return tenon__py_raise_result_error(f, i);
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
static bool releases_lock(const tenon__py_frame *f)
{
    enum { MANY_BYTES = 32 << 20 };
    uint64_t flags = f->function->function.flags;
    if (flags & (TENON_RELEASE_LOCK | TENON_KEEP_LOCK))
        return flags & TENON_RELEASE_LOCK;
    int64_t bytes = 0;
    /* Few elements are the usual case. Calls on one handle must not begin to overlap at some size of other arguments. */
    if (f->elements < MANY_BYTES / 1024 || f->function->takes_handle)
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
        if (releases_lock(f)) {
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

/* Tell the array's framework, which may count what is written. */
static void after_write(PyObject *object)
{
    const tenon__py_producer *owner = NULL;
    if (tenon__py_is_ndarray(object))
        return;
    if (tenon__py_owner(object, &owner) < 0)
        tenon__py_clear_ignorable_error();
    if (owner && owner->after_write)
        owner->after_write(object);
}

/* What a function writes counts even if it failed. */
static void after_writes(const tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    PyObject *error = tenon__py_take_exception();
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_spec *spec = s->params[i].spec;
        if (spec && (spec->flags & TENON_SPEC_WRITE) && f->args[i].kind == TENON_KIND_TENSOR)
            after_write(f->given[i]);
    }
    if (f->out)
        after_write(f->out);
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
    else if (!s->plain || f->bindings.dims_bound != (uint32_t)((UINT64_C(1) << s->names.ndims) - 1))
        status = tenon_signature_end(s, f->args, &f->bindings, NULL);
    if (status) {
        tenon__py_raise_mismatch(f, s->nparams);
        return NULL;
    }
    f->call.results = f->results;
    f->call.types = f->bindings.types;
    f->call.device = f->device;
    if (f->function->takes_like && prepare_results(f) < 0)
        return NULL;
    if (f->disturbed && tenon__py_check_unchanged(f) < 0)
        return NULL;
    int done = run(f);
    if (f->stream_from && tenon__py_end_uses(f) < 0)
        done = -1;
    if (s->nwritten || f->out) {
        after_writes(f);
        done = PyErr_Occurred() ? -1 : done;
    }
    return done < 0 ? NULL : all_results(f);
}

/* What most calls have none of: handles of a framework's, scratch memory on a device, and after a failure the results. */
static TENON__PY_NOINLINE void clear_rest(tenon__py_frame *f, bool failed)
{
    tenon__py_scope scope;
    if (failed)
        scope = tenon__py_enter_scope();
    if (f->function->has_foreign)
        tenon__py_foreign_release(f);
    for (int32_t i = 0; i < f->function->signature->nresults; i++)
        Py_XDECREF(f->made[i]);
    Py_XDECREF(f->exception);
    Py_XDECREF(f->kept);
    if (failed)
        tenon__py_leave_scope(scope);
}

/* Point the frame's arrays to the heap. */
static TENON__PY_NOINLINE int take_heap(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    size_t params = (size_t)s->nparams, results = (size_t)s->nresults, borrows = (size_t)s->ntensors + results;
    f->borrowed = PyMem_Malloc(borrows * sizeof *f->borrowed + (params + results) * sizeof *f->args +
                               (results + params + 2) * sizeof(PyObject *));
    if (!f->borrowed)
        return PyErr_NoMemory(), -1;
    f->args = (tenon_value *)(void *)(f->borrowed + borrows);
    f->results = f->args + params;
    f->made = (PyObject **)(void *)(f->results + results);
    f->sorted = f->made + results;
    return 0;
}

static inline void free_heap(const tenon__py_frame *f)
{
    if (f->function->is_large)
        PyMem_Free(f->borrowed);
}

PyObject *tenon__py_call(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    tenon__py_frame f;
    f.function = (const tenon__py_function *)self;
    const tenon_signature *s = f.function->signature;
    f.out = f.wanted_like = NULL;
    f.given = args;
    f.borrowed = f.inline_borrowed;
    f.args = f.inline_args;
    f.results = f.inline_results;
    f.made = f.inline_made;
    f.sorted = f.inline_sorted;
    if (f.function->is_large && take_heap(&f) < 0)
        return NULL;
    if (kwnames || nargs != s->nparams || s->npositional != s->nparams) {
        if (tenon__py_distribute(f.function, args, nargs, kwnames, f.sorted) < 0) {
            free_heap(&f);
            return NULL;
        }
        PyObject *out = f.sorted[s->nparams], *like = f.sorted[s->nparams + 1];
        f.given = f.sorted;
        f.out = out == Py_None ? NULL : out;
        f.wanted_like = like == Py_None ? NULL : like;
    }
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
    f.error = NULL;
    f.stream_from = NULL;
    for (int32_t i = 0; i < s->nresults; i++) {
        f.made[i] = NULL;
        f.results[i].kind = s->results[i].kind;
        f.results[i].flags = TENON_VALUE_UNSET;
        f.results[i].as.view = NULL;
    }
    f.fits = !s->binds_ints;
    f.held = f.flat = f.disturbed = false;
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
    free_heap(&f);
    return result;
}
