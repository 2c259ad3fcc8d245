/* What the host does for a function while it runs, and what a failure becomes. */
#include "internal.h"

#include <string.h>
#include <time.h>

/* ---------------------------------------------------------------------------------------------------- the lock */

static void restore_thread(void *thread)
{
    PyEval_RestoreThread(thread);
}

void tenon__py_attach_call(tenon__py_frame *f)
{
    if (f->thread)
        tenon__py_run_at_exit_too(restore_thread, f->thread);
}

void tenon__py_detach_call(tenon__py_frame *f)
{
    if (f->thread)
        f->thread = PyEval_SaveThread();
}

void tenon__py_keep_exception(tenon__py_frame *f)
{
    tenon_frame_host_fail(&f->base.call, TENON_EFAILED, NULL, 0);
    /* The exception is raised whatever the checked mode finds, which would look at memory that may no longer exist. */
    f->base.call.flags &= ~TENON__CALL_CHECKED;
    PyObject *exception = tenon__py_take_exception();
    if (f->exception)
        Py_XDECREF(exception);
    else
        f->exception = exception;
}

/* -------------------------------------------------------------------------------------------------- the services */

void tenon__py_place_result(tenon__py_frame *f, int32_t index, PyObject *object, tenon_py_borrowed *borrowed,
                            uint64_t flags)
{
    f->result_objects[index] = object;
    f->elements |= borrowed->view.numel;
    tenon_frame_set_result(&f->base, index, &borrowed->view, flags);
}

/* Whether C functions of the framework made it, so that no Python code of the user's ran. What torch.empty or the like made is
 * borrowed to be written. (In 3.9 the garbage collector cannot be kept from running meanwhile.) */
static bool is_made_in_c(const tenon_py_borrowed *made)
{
    return TENON__PY_CAN_PAUSE_GC && made->private_.holds == TENON__PY_HOLDS_NOTHING && !made->private_.table &&
           made->private_.object && !tenon__py_has_array_struct(made->private_.object) &&
           !(made->private_.flags & TENON_PY_WRITE);
}

/* A function that runs on one device must not be given memory of another. */
static int check_result_device(const tenon__py_frame *f, tenon_device made)
{
    if (tenon_device_on_host(f->base.call.device) ? tenon_device_on_host(made)
                                                  : tenon_device_equal(f->base.call.device, made))
        return 0;
    char here[64], there[64];
    tenon_device_format(f->base.call.device, here, sizeof here);
    tenon_device_format(made, there, sizeof there);
    return tenon__py_argument_error(f->function, f->wanted_like ? "like" : "out", PyExc_ValueError,
                                    "the call runs on %s, and the framework's new array is on %s; %s", here, there,
                                    f->wanted_like ? "leave it out, and move the result afterwards" : "pass one");
}

/* Whether the framework that `like` names is not installed; then the pending exception says so. */
static bool raise_like_missing(const tenon__py_frame *f)
{
    char where[TENON_NAME_SIZE + 24];
    PyObject *error = tenon__py_take_exception();
    const char *framework = PyUnicode_AsUTF8AndSize(f->like, NULL);
    tenon__py_raise_again(error);
    PyOS_snprintf(where, sizeof where, "%s(): argument 'like'", f->function->signature->name);
    return framework && tenon__py_raise_missing(framework, where);
}

/* What a framework could not make. */
TENON__PY_NOINLINE int tenon__py_result_not_made(tenon__py_frame *f, int32_t index)
{
    char part[32];
    PyOS_snprintf(part, sizeof part, "result %d", (int)index);
    bool is_name = f->like && PyUnicode_Check(f->like);
    bool is_array = f->like && !is_name && !PyModule_Check(f->like);
    if ((is_name && raise_like_missing(f)) ||
        (f->wanted_like && is_array && tenon__py_raise_deleted(f->function, "like", f->like)))
        return -1;
    if (f->wanted_like && !PyErr_ExceptionMatches(PyExc_OverflowError))
        tenon__py_name_argument(f->function, "like", NULL);
    else
        (void)tenon__py_name_part(f->function->signature->name, part, NULL);
    return -1;
}

/* An array of any framework, or on a device. */
static TENON__PY_NOINLINE PyObject *make_any_array(tenon__py_frame *f, int32_t index, tenon_dtype dtype, int32_t ndim,
                                                   const int64_t *shape, tenon_py_borrowed *borrowed)
{
    bool is_read_in_c = !f->like || tenon__py_is_read_in_c(f->like);
    if (!is_read_in_c && tenon__py_enter_recursion(" while a Tenon function made its results") < 0)
        return NULL;
    PyObject *object = tenon__py_empty_like(f->like, f->base.call.device, dtype, ndim, shape, borrowed);
    if (!is_read_in_c)
        tenon__py_leave_recursion();
    if (!object) {
        tenon__py_result_not_made(f, index);
        return NULL;
    }
    if (check_result_device(f, borrowed->view.device) < 0 || tenon__py_begin_result(f, borrowed) < 0) {
        tenon_py_unborrow(borrowed);
        Py_DECREF(object);
        return NULL;
    }
    f->checks.may_have_changed |= f->like && !tenon__py_has_array_struct(f->like) && !is_made_in_c(borrowed);
    return object;
}

static TENON__PY_ALWAYS_INLINE PyObject *make_array(tenon__py_frame *f, int32_t index, tenon_dtype dtype, int32_t ndim,
                                                    const int64_t *shape, tenon_py_borrowed *borrowed)
{
    PyObject *object = NULL;
    bool in_struct = f->like ? tenon__py_has_array_struct(f->like) : tenon__py_makes_array_struct(f->base.call.device);
    if (in_struct && !f->stream_from) {
        object = tenon__py_global.array_layout.empty(dtype, ndim, shape, borrowed);
        if (!object && !PyErr_ExceptionMatches(PyExc_ValueError)) {
            tenon__py_result_not_made(f, index);
            return NULL;
        }
        if (!object)
            PyErr_Clear(); /* NumPy's words for a size that does not fit: ours follow */
    }
    return object ? object : make_any_array(f, index, dtype, ndim, shape, borrowed);
}

PyObject *tenon__py_make_array(tenon__py_frame *f, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                               tenon_py_borrowed *borrowed)
{
    return make_array(f, index, dtype, ndim, shape, borrowed);
}

int tenon__py_make_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    tenon__py_frame *f = tenon__py_frame_of(base);
    tenon_py_borrowed *borrowed = &f->borrowed[f->nborrowed];
    PyObject *object = make_array(f, index, dtype, ndim, shape, borrowed);
    if (!object)
        return -1;
    f->nborrowed++;
    f->held |= borrowed->private_.object != NULL;
    tenon__py_place_result(f, index, object, borrowed, TENON_VIEW_WRITTEN | TENON_VIEW_FRESH);
    return 0;
}

int tenon__py_open_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    tenon__py_frame *f = tenon__py_frame_of(base);
    tenon__py_attach_call(f);
    int status = tenon__py_make_result(base, index, dtype, ndim, shape);
    if (status == 0 && f->checks.may_have_changed) /* the function has the arguments' pointers already: it must stop */
        status = tenon__py_check_changed_arguments(f);
    if (status < 0)
        tenon__py_keep_exception(f);
    tenon__py_detach_call(f);
    return status;
}

int tenon__py_open_item(tenon_frame *base, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim,
                        const int64_t *shape, tenon_view *view)
{
    tenon__py_frame *f = tenon__py_frame_of(base);
    tenon__py_attach_call(f);
    int status = tenon__py_make_item(base, index, item, dtype, ndim, shape, view);
    if (status == 0 && f->checks.may_have_changed)
        status = tenon__py_check_changed_arguments(f);
    if (status < 0)
        tenon__py_keep_exception(f);
    tenon__py_detach_call(f);
    return status;
}

int tenon__py_take_handle(tenon_frame *base, int32_t index, void *object, void (*destroy)(void *))
{
    tenon__py_frame *f = tenon__py_frame_of(base);
    const char *type = base->signature->results[index].handle;
    const tenon_py_handle_type *foreign = tenon__py_find_handle_type(type);
    uint32_t flags = base->signature->results[index].flags;
    tenon__py_attach_call(f);
    if (flags & TENON_PARAMETER_CLASS)
        f->result_objects[index] =
            tenon__py_instance_new(f->function->classes[base->signature->nparams + index], f->function->library,
                                   !(flags & TENON_PARAMETER_SERIAL), object, destroy);
    else
        f->result_objects[index] = foreign ? tenon__py_framework_handle_result(foreign, object, destroy)
                                           : tenon__py_handle_new(f->function->library, type, object, destroy);
    if (!f->result_objects[index])
        tenon__py_keep_exception(f);
    tenon__py_detach_call(f);
    return f->result_objects[index] ? 0 : -1;
}

int tenon__py_take_bytes(tenon_frame *base, int32_t index, const void *data, size_t length)
{
    tenon__py_frame *f = tenon__py_frame_of(base);
    tenon__py_attach_call(f);
    PyObject *made = PyBytes_FromStringAndSize(data, (Py_ssize_t)length), *before = f->result_objects[index];
    if (made) {
        f->result_objects[index] = made;
        Py_XDECREF(before);
    } else {
        tenon__py_keep_exception(f);
    }
    tenon__py_detach_call(f);
    return made ? 0 : -1;
}

static void kept_release(tenon_kept *kept)
{
    tenon__py_holder_release((char *)kept - offsetof(tenon__py_holder, kept));
}

tenon_kept *tenon__py_keep_argument(tenon_frame *base, int32_t index)
{
    tenon__py_frame *f = tenon__py_frame_of(base);
    tenon__py_attach_call(f);
    tenon__py_holder *holder = tenon__py_hold_argument(f, index);
    /* An alias is made by Python code, and the function has the arguments' pointers already. */
    if (holder && !tenon__py_has_array_struct(f->argument_objects[index]) && tenon__py_check_changed_arguments(f) < 0) {
        PyObject *error = tenon__py_take_exception();
        tenon__py_holder_release(holder);
        tenon__py_raise_again(error);
        holder = NULL;
    }
    if (!holder)
        tenon__py_keep_exception(f);
    tenon__py_detach_call(f);
    if (!holder)
        return NULL;
    holder->kept = (tenon_kept){.size = sizeof holder->kept, .view = &holder->borrowed.view, .release = kept_release};
    return &holder->kept;
}

/* On a device: an array of the caller's framework, which knows when the memory can be used again. */
void *tenon__py_device_scratch(tenon_frame *base, size_t bytes, tenon_device device)
{
    tenon__py_frame *f = tenon__py_frame_of(base);
    tenon_py_borrowed borrowed;
    void *memory = NULL;
    if (!f->like || !tenon_device_equal(device, f->base.call.device) || bytes > INT64_MAX) {
        tenon_fail(&f->base.call, TENON_EFAILED, "there is scratch memory on the device of the call only");
        return NULL;
    }
    int64_t size = bytes ? (int64_t)bytes : 1;
    tenon__py_attach_call(f);
    if (!f->kept)
        f->kept = PyList_New(0);
    PyObject *array = f->kept ? tenon__py_empty_like(f->like, device, TENON_U8, 1, &size, &borrowed) : NULL;
    if (array) {
        /* The framework made it, perhaps by Python code. A module's `load` has no arguments. */
        if (PyList_Append(f->kept, array) == 0 && (!f->function || tenon__py_check_changed_arguments(f) == 0))
            memory = borrowed.view.data;
        tenon_py_unborrow(&borrowed);
        Py_DECREF(array);
    }
    if (!memory)
        tenon__py_keep_exception(f);
    tenon__py_detach_call(f);
    return memory;
}

/* Ctrl-C. Taking the lock back takes time: at most every 20 ms. */
bool tenon__py_is_cancelled(tenon_frame *base)
{
    tenon__py_frame *f = tenon__py_frame_of(base);
    if (f->exception)
        return true;
    struct timespec clock;
    timespec_get(&clock, TIME_UTC);
    int64_t now = (int64_t)clock.tv_sec * 1000000000 + clock.tv_nsec, passed = now - f->cancel_checked_ns;
    if (passed >= 0 && passed < 20000000)
        return false;
    f->cancel_checked_ns = now;
    tenon__py_attach_call(f);
    /* A signal's handler is Python code, which may change an argument. */
    if (PyErr_CheckSignals() < 0 || (f->function && tenon__py_check_changed_arguments(f) < 0))
        tenon__py_keep_exception(f);
    tenon__py_detach_call(f);
    return f->exception != NULL;
}

int tenon__py_thread_count(tenon_frame *base)
{
    (void)base;
    int count = 0;
    for (int i = 0; i < tenon__py_nframeworks && count == 0; i++)
        count = tenon__py_frameworks[i]->thread_count ? tenon__py_frameworks[i]->thread_count() : 0;
    return count;
}

const tenon_host tenon__py_host = {
    TENON_HOST_SERVICES,
    .name = "python",
    .extension = tenon__py_extension,
};

/* ------------------------------------------------------------------------------------------------------------ load */

/* Raise an ImportError with the message of the pending exception, and hide that one as `raise … from None` does. */
static void raise_import_error(void)
{
    PyObject *cause = tenon__py_take_exception();
    PyErr_Format(PyExc_ImportError, "%S", cause);
    tenon__py_add_context(cause);
    PyObject *error = tenon__py_take_exception();
    PyObject *context = error ? PyException_GetContext(error) : NULL;
    if (context && context == cause)
        PyException_SetCause(error, NULL);
    Py_XDECREF(context);
    Py_XDECREF(cause);
    tenon__py_raise_again(error);
}

int tenon__py_call_load(const tenon_module *module, void **state)
{
    tenon__py_frame f;
    f.exception = f.kept = f.like = NULL;
    f.function = NULL;
    f.thread = NULL;
    f.stream_from = NULL;
    f.cancel_checked_ns = 0;
    static const tenon_client load_client = {.refuse = tenon__py_refuse,
                                             .device_scratch = tenon__py_device_scratch,
                                             .cancelled = tenon__py_is_cancelled,
                                             .thread_count = tenon__py_thread_count};
    int result = tenon_frame_load(&f.base, &load_client, &tenon__py_host, module, state);
    if (result < 0) {
        if (PyErr_ExceptionMatches(PyExc_Exception)) /* an interrupt stays what it is */
            raise_import_error();
        Py_XDECREF(f.exception);
    }
    return result;
}
