/* One call: borrow the arguments, match them, make the results, run the function, and give back. */
#include "plan.h"

/* What a RecursionError adds to its message. */
#define IN_ARGUMENTS " while the arguments of a Tenon function were read"

/* ------------------------------------------------------------------------------------------------------ arguments */

int tenon__py_borrow_argument(tenon__py_frame *f, PyObject *object, bool stays, tenon_py_borrowed *borrowed)
{
    uint32_t flags = TENON_PY_ANY_DEVICE | (stays ? TENON__PY_STABLE_MEMORY : 0);
    f->checks.may_have_changed |= !tenon__py_is_read_in_c(object) || tenon__py_has_deferred();
    if (tenon__py_enter_recursion(IN_ARGUMENTS) < 0)
        return -1;
    int status = tenon_device_on_host(f->base.call.device)
                     ? tenon_py_borrow(object, flags, borrowed)
                     : tenon_py_borrow_on(object, flags, tenon__py_call_stream(f), borrowed);
    tenon__py_leave_recursion();
    return status;
}

/* Take a borrowed tensor as argument `i`. */
static inline void read_view(tenon__py_frame *f, int32_t i, tenon_py_borrowed *borrowed)
{
    f->nborrowed++;
    f->elements |= borrowed->view.numel;
    tenon_frame_set_view(&f->base, i, &borrowed->view);
}

/* Whether the memory of argument `i` must stay where it is even if its owner writes to it. */
static bool must_stay(const tenon_signature *s, int32_t i)
{
    bool stays = (s->params[i].spec->flags & TENON_SPEC_WRITE) || (s->params[i].flags & TENON_PARAMETER_KEEP) ||
                 s->ncallables; /* which may keep it */
    for (int32_t j = 0; j < s->nresults; j++)
        stays |= (s->results[j].flags & TENON_PARAMETER_OF) && s->results[j].owner == i;
    return stays;
}

/* Any tensor. `peeked`: the look at it that was taken already is right, unless it must wait for another stream. */
static TENON__PY_NOINLINE int read_tensor(tenon__py_frame *f, int32_t i, PyObject *object, bool peeked)
{
    const tenon_parameter *param = &f->function->signature->params[i];
    tenon_py_borrowed *borrowed = &f->borrowed[f->nborrowed];
    bool first = tenon_device_on_host(f->base.call.device);
    bool same_stream = first || (f->like && Py_TYPE(f->like) == Py_TYPE(object)); /* a framework has one at a time */
    if (peeked && same_stream) {
        borrowed->private_.flags = TENON_PY_ANY_DEVICE;
        borrowed->private_.dims = borrowed->private_.inline_dims;
        borrowed->private_.object = object;
        Py_INCREF(object);
    } else {
        if (tenon__py_borrow_argument(f, object, must_stay(f->function->signature, i), borrowed) < 0)
            return tenon__py_raise_not_borrowed(f, param, object);
    }
    f->held = true;
    read_view(f, i, borrowed);
    if (tenon__py_check_argument_gradient(f, i, object, borrowed) < 0)
        return -1;
    if (borrowed->view.device.device_type != TENON_CPU && !tenon_device_on_host(borrowed->view.device) &&
        tenon__py_join_device(f, i, -1, borrowed) < 0)
        return -1;
    if (!f->like) {
        const tenon__py_producer *owner;
        if (tenon__py_owner(object, &owner) < 0)
            return -1;
        f->like = owner ? object : NULL;
    }
    return 0;
}

/* An argument that was left out, or None if that is allowed. False: it is something else. */
static inline bool set_absent(tenon__py_frame *f, int32_t i, PyObject *object)
{
    return tenon_frame_set_missing(&f->base, i, object != NULL, object == Py_None);
}

static int read_tensors(tenon__py_frame *f, int32_t before)
{
    const tenon_signature *s = f->function->signature;
    for (int32_t i = 0; i < before; i++) {
        PyObject *object = f->argument_objects[i];
        if (!s->params[i].spec) {
            if (s->params[i].items && !set_absent(f, i, object) && tenon__py_read_list(f, i, object) < 0)
                return tenon__py_first_mistake(f, i);
            continue;
        }
        tenon_py_borrowed *borrowed = &f->borrowed[f->nborrowed];
        const tenon__py_kind *kind = NULL;
        bool peeked = object && tenon__py_peek(object, &kind, borrowed);
        if (peeked && borrowed->view.device.device_type == TENON_CPU) {
            borrowed->private_.object = NULL; /* nothing to hold: the caller does */
            read_view(f, i, borrowed);
            if (kind && tenon__py_has_gradient(borrowed->view.dtype) &&
                tenon__py_check_gradient_of(kind->owner, f->function, s->params[i].name, object, &f->checks) < 0)
                return tenon__py_first_mistake(f, i);
            if (!f->like)
                f->like = object;
        } else if (!set_absent(f, i, object) && read_tensor(f, i, object, peeked) < 0) {
            return tenon__py_first_mistake(f, i);
        }
    }
    return 0;
}

/* Anything but a tensor. Python code may run unless it is a plain number or an object of a class, and call this function
 * again. */
static int read_value(tenon__py_frame *f, int32_t i, PyObject *object)
{
    const tenon_parameter *param = &f->function->signature->params[i];
    if (PyFloat_CheckExact(object) || PyLong_CheckExact(object) || (param->flags & TENON_PARAMETER_CLASS))
        return tenon__py_to_value(f->function, param, object, &f->kept, &f->base.blocks, &f->base.args[i]);
    if (param->kind == TENON_KIND_CALLABLE)
        return tenon__py_read_callable(f, i, object);
    if (tenon__py_enter_recursion(IN_ARGUMENTS) < 0)
        return -1;
    int status = tenon__py_to_value(f->function, param, object, &f->kept, &f->base.blocks, &f->base.args[i]);
    tenon__py_leave_recursion();
    return status;
}

/* Everything else first: Python code may run there (__index__, __float__), and what it does to an array is done before
 * that is borrowed. */
static int read_others(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_parameter *param = &s->params[i];
        PyObject *object = f->argument_objects[i];
        if (param->spec || param->items || set_absent(f, i, object) || read_value(f, i, object) == 0)
            continue;
        if (tenon__py_is_attempt(f->function)) /* another argument's code need not run for a better message */
            return -1;
        tenon__py_note_argument(f->function, param->name);
        if (!tenon__py_may_replace())
            return -1;
        PyObject *error = tenon__py_take_exception();
        if (read_tensors(f, i) < 0) {
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
    if (s->ntensors < s->nparams && read_others(f) < 0)
        return -1;
    return s->ntensors || s->nlists ? read_tensors(f, s->nparams) : 0;
}

/* -------------------------------------------------------------------------------------------------------- results */

static const tenon_client call_client;

/* The caller's own tensor as the result. */
static int read_out(tenon__py_frame *f, PyObject *object)
{
    tenon_py_borrowed *borrowed = &f->borrowed[f->nborrowed];
    if (tenon__py_borrow_argument(f, object, true, borrowed) < 0) {
        tenon__py_name_argument(f->function, "out", object);
        return -1;
    }
    f->nborrowed++;
    f->held = true;
    if (tenon__py_check_gradient(f->function, "out", object, &f->checks) < 0)
        return -1;
    const tenon_signature *s = f->function->signature;
    if (tenon_signature_match_out(s, 0, &borrowed->view, f->base.args, f->base.call.device, &f->base.bindings, NULL))
        return tenon__py_raise_out_mismatch(f, object, &borrowed->view);
    Py_INCREF(object);
    tenon__py_place_result(f, 0, object, borrowed, TENON_VIEW_WRITTEN);
    return 0;
}

static TENON__PY_NOINLINE int make_results(tenon__py_frame *f)
{
    if (f->out && f->wanted_like) {
        PyErr_Format(PyExc_TypeError, "%s(): 'out' and 'like' cannot be used together; pass only one",
                     f->function->signature->name);
        return -1;
    }
    if (f->wanted_like)
        f->like = f->wanted_like;
    return f->out ? read_out(f, f->out) : tenon_frame_make_results(&f->base, &call_client);
}

static int make_results_checked(tenon__py_frame *f)
{
    return f->function->takes_like && make_results(f) < 0 ? -1 : 1;
}

static bool is_checked(const tenon__py_function *function)
{
    return atomic_load_explicit(&function->before_run, memory_order_relaxed) == make_results_checked;
}

void tenon__py_function_check(tenon__py_function *function, bool checked)
{
    atomic_store_explicit(&function->before_run,
                          checked                ? make_results_checked
                          : function->takes_like ? make_results
                                                 : NULL,
                          memory_order_relaxed);
}

/* A result that was not made yet as an object: a new reference. one_result makes floats. */
static PyObject *result_object(tenon__py_frame *f, int32_t index)
{
    const tenon_parameter *param = &f->function->signature->results[index];
    const tenon_value *value = &f->base.results[index];
    int there = tenon_frame_has_result(&f->base, index);
    if (there < 0)
        return NULL;
    if (!there) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    switch (param->kind) {
    case TENON_KIND_INT:
        return PyLong_FromLongLong(value->as.integer);
    case TENON_KIND_BOOL:
        return PyBool_FromLong(value->as.integer != 0);
    case TENON_KIND_ENUM:
        return PyUnicode_FromString(param->choices[value->as.integer]);
    case TENON_KIND_TENSORS: /* without an item */
        return PyList_New(0);
    case TENON_KIND_TENSOR: /* not made by the host: the function gave its memory */
        return tenon__py_library_result(f, index);
    case TENON_KIND_STR:
        return PyUnicode_DecodeUTF8(value->as.list.data, (Py_ssize_t)value->as.list.length, NULL);
    default:
        return tenon__py_value_result(value);
    }
}

/* A namedtuple of a tuple's items. Takes `tuple`. */
static TENON__PY_NOINLINE PyObject *make_named(PyTypeObject *type, PyObject *tuple)
{
    newfunc make = (newfunc)(uintptr_t)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    PyObject *arguments = PyTuple_Pack(1, tuple);
    PyObject *named = arguments ? make(type, arguments, NULL) : NULL;
    Py_XDECREF(arguments);
    Py_DECREF(tuple);
    return named;
}

/* Most results that are not tensors are floats. */
static TENON__PY_ALWAYS_INLINE PyObject *one_result(tenon__py_frame *f, int32_t index)
{
    const tenon_value *value = &f->base.results[index];
    if (value->kind == TENON_KIND_FLOAT && !(value->flags & TENON_VALUE_UNSET))
        return PyFloat_FromDouble(value->as.number);
    PyObject *made = f->result_objects[index];
    f->result_objects[index] = NULL;
    return made ? made : result_object(f, index);
}

static PyObject *several_results(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    PyTypeObject *named = (PyTypeObject *)f->function->result_type;
    PyObject *tuple =
        named && tenon__py_can_fill_tuple() ? PyType_GenericAlloc(named, s->nresults) : PyTuple_New(s->nresults);
    for (int32_t i = 0; tuple && i < s->nresults; i++) {
        PyObject *object = one_result(f, i);
        if (!object) {
            Py_DECREF(tuple);
            return NULL;
        }
        tenon__py_tuple_fill(tuple, i, object);
    }
    return tuple && named && Py_TYPE(tuple) != named ? make_named(named, tuple) : tuple;
}

static TENON__PY_ALWAYS_INLINE PyObject *all_results(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    if (s->nresults == 0) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    return s->nresults > 1 || s->named_results ? several_results(f) : one_result(f, 0);
}

/* -------------------------------------------------------------------------------------------------------- the call */

/* Whether other threads should go on meanwhile. Letting the lock go costs little, but getting it back from a busy
 * thread takes 5 ms: it pays from about a millisecond of work on, which takes about this much memory. */
static TENON__PY_ALWAYS_INLINE bool releases_lock(const tenon__py_frame *f)
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
    return f->function->has_lists && tenon__py_list_bytes(f, MANY_BYTES - bytes) >= MANY_BYTES - bytes;
}

/* Run the C code. Objects are left at once: other threads may wait for them, and this one for the interpreter lock. */
static TENON__PY_ALWAYS_INLINE tenon_status run_with(tenon_frame *base, bool has_objects)
{
    tenon__py_frame *f = tenon__py_frame_of(base);
    bool releases = releases_lock(f);
    int32_t nentered = has_objects ? f->nentered : 0;
    if (releases) {
        tenon__py_allow_unlocked(f, nentered, 1);
        base->call.flags |= TENON_CALL_UNLOCKED;
        f->thread = PyEval_SaveThread();
    }
    tenon_status status = base->call.function->call(&base->call);
    if (has_objects)
        tenon__py_leave_objects(f);
    if (releases) {
        PyEval_RestoreThread(f->thread);
        f->thread = NULL;
        tenon__py_allow_unlocked(f, nentered, -1);
    }
    return status;
}

/* The clients' `run`. */
static TENON__PY_ALWAYS_INLINE tenon_status run_plain(tenon_frame *base)
{
    return run_with(base, false);
}

static TENON__PY_ALWAYS_INLINE tenon_status run_any(tenon_frame *base)
{
    return run_with(base, tenon__py_frame_of(base)->function->nobjects);
}

#define CALL_SERVICES                                                                                                  \
    .refuse = tenon__py_refuse, .describe = tenon__py_describe_argument, .make_result = tenon__py_make_result,         \
    .open_result = tenon__py_open_result, .take_handle = tenon__py_take_handle,                                        \
    .device_scratch = tenon__py_device_scratch, .keep_argument = tenon__py_keep_argument, .takes_memory = true,        \
    .warn = tenon__py_warn, .describe_item = tenon__py_describe_item, .make_item = tenon__py_make_item,                \
    .open_item = tenon__py_open_item, .callback = tenon__py_callback, .convert = tenon__py_convert,                    \
    .converted = tenon__py_converted, .take_bytes = tenon__py_take_bytes, .cancelled = tenon__py_is_cancelled,         \
    .thread_count = tenon__py_thread_count

static const tenon_client call_client = {CALL_SERVICES, .run = run_any};
/* For functions without objects of classes among the arguments. */
static const tenon_client plain_client = {CALL_SERVICES, .run = run_plain};

/* Tell the array's framework, which may count what is written. */
static void after_write(PyObject *object)
{
    const tenon__py_producer *owner = NULL;
    if (tenon__py_has_array_struct(object))
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
        const tenon_spec *items = s->params[i].items;
        if (spec && (spec->flags & TENON_SPEC_WRITE) && f->base.args[i].kind == TENON_KIND_TENSOR)
            after_write(f->argument_objects[i]);
        bool written = items && (items->flags & TENON_SPEC_WRITE) && f->base.args[i].kind == TENON_KIND_TENSORS;
        for (int64_t k = 0; written && k < f->base.args[i].as.list.length; k++)
            after_write(tenon__py_list_item(f, i, k));
    }
    if (f->out)
        after_write(f->out);
    tenon__py_raise_again(error);
}

/* The results are made. A plain function, by its plan, has no callables, no `out` and no arguments on a device. */
static TENON__PY_ALWAYS_INLINE PyObject *run_as(tenon__py_frame *f, const tenon_client *client, bool is_checked)
{
    const tenon_signature *s = f->function->signature;
    bool is_plain = client == &plain_client, has_objects = !is_plain && f->function->nobjects;
    if (has_objects && tenon__py_enter_objects(f) < 0)
        return NULL;
    bool changed = f->checks.may_have_changed && tenon__py_check_changed_arguments(f) < 0;
    int done = changed      ? -1
               : is_checked ? tenon_frame_run_checked(&f->base, f->out ? 1 : 0)
                            : tenon_frame_run(&f->base, client);
    if (has_objects)
        tenon__py_leave_objects(f); /* again, if the function did not run */
    if (changed)
        return NULL;
    if (!is_plain && s->ncallables && done == 0 && f->function->has_lists && f->compares_in_turn)
        done = tenon__py_check_changed_arguments(f);
    if (!is_plain && f->stream_from && tenon__py_end_uses(f) < 0)
        done = -1;
    if (s->nwritten || (!is_plain && f->out)) {
        after_writes(f);
        done = PyErr_Occurred() ? -1 : done;
    }
    return done < 0 ? NULL : all_results(f);
}

static TENON__PY_NOINLINE PyObject *run_checked(tenon__py_frame *f)
{
    return run_as(f, &call_client, true);
}

/* The arguments are taken and match. */
static TENON__PY_ALWAYS_INLINE PyObject *run_in(tenon__py_frame *f, const tenon_client *client)
{
    int (*before_run)(tenon__py_frame *) = atomic_load_explicit(&f->function->before_run, memory_order_relaxed);
    int before = before_run ? before_run(f) : 0;
    if (before)
        return before < 0 ? NULL : run_checked(f);
    return run_as(f, client, false);
}

/* What most calls have none of: handles of a framework's, a share of self, scratch memory on a device, and after a failure
 * the results. */
static TENON__PY_NOINLINE void clear_rest(tenon__py_frame *f, bool failed)
{
    tenon__py_scope scope;
    if (failed)
        scope = tenon__py_enter_scope();
    if (f->function->has_framework_handle)
        tenon__py_release_framework_handles(f);
    if (f->function->has_of_self && f->self)
        tenon__py_object_release(f->self);
    if (f->function->has_lists)
        tenon__py_release_lists(f);
    for (int32_t i = 0; i < f->function->signature->nresults; i++)
        Py_XDECREF(f->result_objects[i]);
    Py_XDECREF(f->exception);
    Py_XDECREF(f->kept);
    if (failed)
        tenon__py_leave_scope(scope);
}

/* Point the frame's arrays to the heap. */
static TENON__PY_NOINLINE int use_heap(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    size_t params = (size_t)s->nparams, results = (size_t)s->nresults, borrows = (size_t)s->ntensors + results;
    f->borrowed = PyMem_Malloc(borrows * sizeof *f->borrowed + (params + results) * sizeof *f->base.args +
                               (results + params + 2) * sizeof(PyObject *));
    if (!f->borrowed)
        return PyErr_NoMemory(), -1;
    f->base.args = (tenon_value *)(void *)(f->borrowed + borrows);
    f->base.results = f->base.args + params;
    f->result_objects = (PyObject **)(void *)(f->base.results + results);
    f->sorted = f->result_objects + results;
    return 0;
}

static TENON__PY_ALWAYS_INLINE void free_heap(const tenon__py_frame *f)
{
    if (f->function->is_large)
        PyMem_Free(f->borrowed);
}

/* Begin a call that runs, with its arguments still to be taken or taken by plan. */
static TENON__PY_ALWAYS_INLINE void begin_call(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    f->stream_from = NULL;
    f->thread = NULL;
    f->exception = f->kept = NULL;
    f->cancel_checked_ns = 0;
    f->held = f->checks.no_forward_ad = f->checks.may_have_changed = false;
    for (int32_t i = 0; i < s->nresults; i++) {
        tenon_frame_begin_result(&f->base, i);
        f->result_objects[i] = NULL;
    }
}

static TENON__PY_ALWAYS_INLINE PyObject *end_call(tenon__py_frame *f, const tenon_client *client, PyObject *result)
{
    if (f->held)
        tenon_py_unborrow_many((size_t)f->nborrowed, f->borrowed);
    if (!result || (client != &plain_client && (f->function->needs_clearing || f->kept)))
        clear_rest(f, !result);
    tenon_frame_end(&f->base);
    return result;
}

/* A call that holds something until its end. */
static TENON__PY_NOINLINE void begin_clearing(tenon__py_frame *f)
{
    f->self = NULL;
    f->lists = NULL;
    f->compares_in_turn = false;
    for (int32_t i = 0; i < f->function->signature->nparams; i++)
        f->base.args[i].kind = TENON_KIND_NONE; /* it shows which of them were taken */
}

/* No argument is taken yet. */
static TENON__PY_ALWAYS_INLINE void begin_arguments(tenon__py_frame *f)
{
    f->nborrowed = 0;
    f->elements = 0;
    f->like = NULL;
    if (f->function->needs_clearing)
        begin_clearing(f);
}

/* The first tensor may be the first array of its framework, which says when it is met whether it runs calls itself. False with
 * an exception that must not be replaced. */
static bool meet_framework(const tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    int32_t first = 0;
    while (first < s->nparams &&
           (!s->params[first].spec || !f->argument_objects[first] || f->argument_objects[first] == Py_None))
        first++;
    PyObject *object = first < s->nparams ? f->argument_objects[first] : NULL;
    tenon__py_kind room;
    if (!object || tenon__py_has_array_struct(object) || tenon__py_known_kind(Py_TYPE(object)) ||
        tenon__py_kind_of(object, &room))
        return true;
    tenon__py_clear_ignorable_error();
    return !PyErr_Occurred();
}

/* Let the framework run the call if it has its own way; as tenon__py_try_call. */
static bool try_framework(tenon__py_frame *f, PyObject **result)
{
    tenon__py_try_call try_call = atomic_load_explicit(&tenon__py_global.try_call, memory_order_acquire);
    if (!try_call) {
        if (!meet_framework(f))
            return true;
        try_call = atomic_load_explicit(&tenon__py_global.try_call, memory_order_acquire);
    }
    return try_call && !is_checked(f->function) && try_call(f, result);
}

/* Match the arguments of an entry of an overloaded function. */
static int match_attempt(tenon__py_frame *f, tenon__py_attempt *attempt)
{
    if (attempt->explains) {
        attempt->matched = tenon_frame_match(&f->base) == 0;
    } else {
        attempt->matched = tenon_frame_try_match(&f->base);
        attempt->mismatch = !attempt->matched;
    }
    return attempt->matched ? 0 : -1;
}

/* Whether the arguments are those of all parameters in order. */
static TENON__PY_ALWAYS_INLINE bool are_ordered(const tenon__py_function *function, Py_ssize_t nargs, PyObject *kwnames)
{
    const tenon_signature *s = function->signature;
    if (!kwnames)
        return nargs == s->nparams && s->npositional == s->nparams;
    return kwnames == atomic_load_explicit(&function->ordered_keywords, memory_order_relaxed) &&
           nargs + tenon__py_tuple_size(kwnames) == s->nparams;
}

/* The arguments by parameter, with `out` and `like`. */
static TENON__PY_ALWAYS_INLINE void use_sorted(tenon__py_frame *f, PyObject **sorted)
{
    PyObject **last = &sorted[f->function->signature->nparams];
    f->argument_objects = sorted;
    f->out = last[0] == Py_None ? NULL : last[0];
    f->wanted_like = last[1] == Py_None ? NULL : last[1];
}

/* The arguments in any form. `attempt`: the function is one of several entries; otherwise NULL. */
static TENON__PY_NOINLINE PyObject *call_with(tenon__py_frame *f, PyObject *const *args, Py_ssize_t nargs,
                                              PyObject *kwnames, tenon__py_attempt *attempt)
{
    const tenon_signature *s = f->function->signature;
    f->sorted = f->inline_sorted;
    if (f->function->is_large && use_heap(f) < 0)
        return NULL;
    if (!are_ordered(f->function, nargs, kwnames)) {
        if (tenon__py_distribute(f->function, args, nargs, kwnames, f->sorted) < 0) {
            if (attempt)
                attempt->mismatch = true;
            free_heap(f);
            return NULL;
        }
        use_sorted(f, f->sorted);
    }
    PyObject *result = NULL;
    if (!attempt && !f->function->nobjects && try_framework(f, &result)) {
        free_heap(f);
        return result;
    }
    tenon_frame_begin(&f->base, &call_client, &f->function->call, s);
    begin_call(f);
    begin_arguments(f);
    bool ready = take_arguments(f) == 0 && (attempt ? match_attempt(f, attempt) : tenon_frame_match(&f->base)) == 0;
    result = end_call(f, &call_client, ready ? run_in(f, &call_client) : NULL);
    free_heap(f);
    return result;
}

static TENON__PY_ALWAYS_INLINE void begin_frame(tenon__py_frame *f, const tenon__py_function *function,
                                                PyObject *const *args)
{
    f->function = function;
    f->out = f->wanted_like = NULL;
    f->argument_objects = args;
    f->borrowed = f->inline_borrowed;
    f->base.args = f->inline_args;
    f->base.results = f->inline_results;
    f->result_objects = f->inline_result_objects;
}

/* Begin the call by its plan, if the arguments are as usual. False: nothing has happened. */
static TENON__PY_ALWAYS_INLINE bool begin_by_plan(tenon__py_frame *f, Py_ssize_t nargs, PyObject *kwnames)
{
    const tenon_signature *s = f->function->signature;
    PyObject *const *args = f->argument_objects;
    if (!are_ordered(f->function, nargs, kwnames)) {
        if (!tenon__py_sort_arguments(f->function, args, nargs, kwnames, f->inline_sorted))
            return false;
        use_sorted(f, f->inline_sorted);
    }
    tenon_plan_begin_wide(&f->base, &call_client, &f->function->call, s);
    begin_call(f);
    begin_arguments(f);
    if (tenon__py_match_wide(f))
        return true;
    f->argument_objects = args;
    f->out = f->wanted_like = NULL;
    return false;
}

/* Try one entry of an overloaded function. */
static PyObject *try_overload(tenon__py_frame *f, tenon__py_attempt *attempt, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames)
{
    attempt->matched = attempt->mismatch = false;
    begin_frame(f, attempt->function, args);
    return call_with(f, args, nargs, kwnames, attempt);
}

/* Try the entries in their order, first without messages; if none fits, once more for the reasons. */
static TENON__PY_NOINLINE PyObject *try_overloads(tenon__py_frame *f, const tenon__py_function *first,
                                                  PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    tenon__py_attempt attempt;
    PyObject *result = NULL, *reasons = NULL;
    bool goes_on = true;
    tenon__py_begin_attempts(&attempt);
    for (int32_t i = 0; goes_on && i < first->noverloads; i++) {
        attempt.function = first->overloads[i];
        if (!tenon__py_may_take(attempt.function, nargs, kwnames))
            continue;
        result = try_overload(f, &attempt, args, nargs, kwnames);
        goes_on = !result && attempt.mismatch && (!PyErr_Occurred() || tenon__py_may_replace());
        if (goes_on)
            PyErr_Clear();
    }
    attempt.explains = true;
    goes_on = goes_on && (reasons = PyList_New(0));
    for (int32_t i = 0; goes_on && i < first->noverloads; i++) {
        attempt.function = first->overloads[i];
        result = try_overload(f, &attempt, args, nargs, kwnames);
        goes_on = !result && attempt.mismatch && tenon__py_may_replace() &&
                  tenon__py_add_reason(reasons, attempt.function) == 0;
    }
    tenon__py_end_attempts(&attempt);
    if (goes_on)
        tenon__py_raise_no_overload(first, reasons);
    Py_XDECREF(reasons);
    return result;
}

/* The arguments are not those of a plan. */
static TENON__PY_NOINLINE PyObject *call_without_plan(tenon__py_frame *f, PyObject *const *args, Py_ssize_t nargs,
                                                      PyObject *kwnames)
{
    return f->function->noverloads ? try_overloads(f, f->function, args, nargs, kwnames)
                                   : call_with(f, args, nargs, kwnames, NULL);
}

PyObject *tenon__py_call(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    tenon__py_frame f;
    begin_frame(&f, (const tenon__py_function *)self, args);
    if (!f.function->is_planned || !begin_by_plan(&f, nargs, kwnames))
        return call_without_plan(&f, args, nargs, kwnames);
    return end_call(&f, &call_client, run_in(&f, &call_client));
}

PyObject *tenon__py_call_plain(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    tenon__py_frame f;
    const tenon_signature *s = ((const tenon__py_function *)self)->signature;
    if ((kwnames || nargs != s->nparams) && !are_ordered((const tenon__py_function *)self, nargs, kwnames))
        return tenon__py_call(self, args, nargs, kwnames);
    begin_frame(&f, (const tenon__py_function *)self, args);
    if (!tenon__py_match_plain(&f, args))
        return call_without_plan(&f, args, nargs, kwnames);
    tenon_plan_begin(&f.base, &plain_client, &f.function->call, s);
    begin_call(&f);
    f.nborrowed = s->ntensors;
    return end_call(&f, &plain_client, run_in(&f, &plain_client));
}
