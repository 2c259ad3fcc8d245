/* What the host does for a function while it runs, and what a failure becomes. */
#include "host.h"

#include <string.h>
#include <time.h>

static tenon__py_frame *frame_of(tenon_call *call)
{
    return call->host_private;
}

/* ---------------------------------------------------------------------------------------------------- the lock */

static void attach(tenon__py_frame *f)
{
    if (f->thread)
        PyEval_RestoreThread(f->thread);
}

static void detach(tenon__py_frame *f)
{
    if (f->thread)
        f->thread = PyEval_SaveThread();
}

/* Record a failure; the first one stays. Without memory for the message the status is all that is kept. */
static tenon_status set_failure(tenon__py_frame *f, tenon_status status, const char *message, size_t length)
{
    if (!f->error)
        f->error = tenon_block_alloc(&f->blocks, sizeof *f->error, 0);
    if (f->error)
        return tenon_call_fail(&f->call, f->error, status, message, length);
    f->call.flags |= TENON_CALL_FAILED;
    return TENON_ENOMEM;
}

/* Keep the pending exception until the function has returned; the first one stays. */
static void keep_exception(tenon__py_frame *f)
{
    set_failure(f, TENON_EFAILED, NULL, 0);
    PyObject *exception = tenon__py_take_exception();
    if (f->exception)
        Py_XDECREF(exception);
    else
        f->exception = exception;
}

/* -------------------------------------------------------------------------------------------------- the services */

static tenon_status host_fail(tenon_call *call, tenon_status status, const char *message, size_t length)
{
    return set_failure(frame_of(call), status, message, length);
}

void tenon__py_place_result(tenon__py_frame *f, int32_t index, PyObject *object, tenon_py_borrowed *borrowed,
                            uint64_t flags)
{
    tenon_value *result = &f->results[index];
    f->made[index] = object;
    borrowed->view.flags |= flags;
    f->elements |= borrowed->view.numel;
    result->as.view = &borrowed->view;
    result->flags = 0;
}

/* Whether C functions of the framework made it, so that no Python code of the user's ran. (In 3.9 the garbage collector cannot
 * be kept from running meanwhile.) */
static bool is_made_in_c(const tenon_py_borrowed *made)
{
    return TENON__PY_CAN_PAUSE_GC && made->private_.holds == TENON__PY_HOLDS_NOTHING && !made->private_.table &&
           made->private_.object && !tenon__py_is_ndarray(made->private_.object);
}

/* A function that runs on one device must not be given memory of another. */
static int check_result_device(const tenon__py_frame *f, tenon_device made)
{
    if (tenon_device_on_host(f->device) ? tenon_device_on_host(made) : tenon_device_equal(f->device, made))
        return 0;
    char here[64], there[64];
    tenon_device_format(f->device, here, sizeof here);
    tenon_device_format(made, there, sizeof there);
    return tenon__py_argument_error(f->function, f->wanted_like ? "like" : "out", PyExc_ValueError,
                                    "the call runs on %s, and the framework's new array is on %s; %s", here, there,
                                    f->wanted_like ? "leave it out, and move the result afterwards" : "pass one");
}

/* What a framework could not make. */
static TENON__PY_NOINLINE int result_not_made(tenon__py_frame *f, int32_t index)
{
    char part[32];
    PyOS_snprintf(part, sizeof part, "result %d", (int)index);
    bool is_array = f->like && !PyUnicode_Check(f->like) && !PyModule_Check(f->like);
    if (f->wanted_like && !PyErr_ExceptionMatches(PyExc_OverflowError))
        tenon__py_name_argument(f->function, "like", is_array ? f->like : NULL);
    else
        tenon__py_name_part(f->function, part, NULL);
    return -1;
}

/* An array of any framework, or on a device. */
static TENON__PY_NOINLINE PyObject *make_array(tenon__py_frame *f, int32_t index, tenon_dtype dtype, int32_t ndim,
                                               const int64_t *shape, tenon_py_borrowed *borrowed)
{
    bool plain = !f->like || tenon__py_is_plain(f->like);
    if (!plain && tenon__py_enter_recursion(" while a Tenon function made its results") < 0)
        return NULL;
    PyObject *object = tenon__py_empty_like(f->like, f->device, dtype, ndim, shape, borrowed);
    if (!plain)
        tenon__py_leave_recursion();
    if (!object) {
        result_not_made(f, index);
        return NULL;
    }
    if (check_result_device(f, borrowed->view.device) < 0 || tenon__py_begin_result(f, borrowed) < 0) {
        tenon_py_unborrow(borrowed);
        Py_DECREF(object);
        return NULL;
    }
    f->disturbed |= f->like && !tenon__py_is_ndarray(f->like) && !is_made_in_c(borrowed);
    return object;
}

int tenon__py_make_result(tenon__py_frame *f, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    tenon_py_borrowed *borrowed = &f->borrowed[f->nborrowed];
    PyObject *object = NULL;
    if (f->like && tenon__py_is_ndarray(f->like) && !f->stream_from) {
        object = tenon__py_empty_ndarray(dtype, ndim, shape, borrowed);
        if (!object && !PyErr_ExceptionMatches(PyExc_ValueError))
            return result_not_made(f, index);
        if (!object)
            PyErr_Clear(); /* NumPy's words for a size that does not fit: ours follow */
    }
    if (!object)
        object = make_array(f, index, dtype, ndim, shape, borrowed);
    if (!object)
        return -1;
    f->nborrowed++;
    f->held |= borrowed->private_.object != NULL;
    tenon__py_place_result(f, index, object, borrowed, TENON_VIEW_WRITTEN | TENON_VIEW_FRESH);
    return 0;
}

static const tenon_view *host_result_alloc(tenon_call *call, int32_t index, tenon_dtype dtype, int32_t ndim,
                                           const int64_t *shape)
{
    tenon__py_frame *f = frame_of(call);
    if (!f->function) {
        tenon_fail(call, TENON_EFAILED, "load has no results");
        return NULL;
    }
    if (!tenon_call_open_result(call, f->function->signature, &f->bindings, index, ndim, shape, &dtype))
        return NULL;
    attach(f);
    int status = tenon__py_make_result(f, index, dtype, ndim, shape);
    if (status == 0 && f->disturbed) /* the function has the arguments' pointers already: it must stop */
        status = tenon__py_check_unchanged(f);
    if (status < 0)
        keep_exception(f);
    detach(f);
    return status < 0 ? NULL : call->results[index].as.view;
}

static tenon_status host_result_handle(tenon_call *call, int32_t index, void *object, void (*destroy)(void *))
{
    tenon__py_frame *f = frame_of(call);
    if (index >= 0 && index < call->nresults && f->made[index])
        return tenon_fail(call, TENON_EFAILED, "its code gives result %d twice", index);
    if (index < 0 || index >= call->nresults || call->results[index].kind != TENON_KIND_HANDLE || !object)
        return tenon_fail(call, TENON_EFAILED, "its code gives result %d a handle that cannot be taken", index);
    attach(f);
    const char *type = f->function->signature->results[index].handle;
    const tenon_py_foreign *foreign = tenon__py_foreign(type);
    f->made[index] = foreign ? tenon__py_foreign_result(foreign, object, destroy)
                             : tenon__py_handle_new(f->function->library, type, object, destroy);
    if (f->made[index])
        call->results[index].flags &= ~TENON_VALUE_UNSET;
    else
        keep_exception(f);
    detach(f);
    return f->made[index] ? TENON_OK : TENON_ENOMEM;
}

static tenon_status host_result_str(tenon_call *call, int32_t index, const char *text, size_t length)
{
    return tenon_call_result_str(call, &frame_of(call)->blocks, index, text, length);
}

/* On a device: an array of the caller's framework, which knows when the memory can be used again. */
static void *device_scratch(tenon__py_frame *f, size_t bytes, tenon_device device)
{
    tenon_py_borrowed borrowed;
    void *memory = NULL;
    if (!f->like || !tenon_device_equal(device, f->device) || bytes > INT64_MAX) {
        tenon_fail(&f->call, TENON_EFAILED, "there is scratch memory on the device of the call only");
        return NULL;
    }
    int64_t size = bytes ? (int64_t)bytes : 1;
    attach(f);
    if (!f->kept)
        f->kept = PyList_New(0);
    PyObject *array = f->kept ? tenon__py_empty_like(f->like, device, TENON_U8, 1, &size, &borrowed) : NULL;
    if (array) {
        if (PyList_Append(f->kept, array) == 0)
            memory = borrowed.view.data;
        tenon_py_unborrow(&borrowed);
        Py_DECREF(array);
    }
    if (!memory)
        keep_exception(f);
    detach(f);
    return memory;
}

static void *host_scratch(tenon_call *call, size_t bytes, size_t align, tenon_device device)
{
    tenon__py_frame *f = frame_of(call);
    if (!tenon_device_on_host(device))
        return device_scratch(f, bytes, device);
    return tenon_call_scratch(call, &f->blocks, bytes, align);
}

/* Ctrl-C. Taking the lock back takes time: at most every 20 ms. */
static int32_t host_cancelled(tenon_call *call)
{
    tenon__py_frame *f = frame_of(call);
    if (f->exception)
        return 1;
    struct timespec clock;
    timespec_get(&clock, TIME_UTC);
    int64_t now = (int64_t)clock.tv_sec * 1000000000 + clock.tv_nsec, passed = now - f->looked;
    if (passed >= 0 && passed < 20000000)
        return 0;
    f->looked = now;
    attach(f);
    /* A signal's handler is Python code, which may change an argument. */
    if (PyErr_CheckSignals() < 0 || (f->function && tenon__py_check_unchanged(f) < 0))
        keep_exception(f);
    detach(f);
    return f->exception != NULL;
}

const tenon_host tenon__py_host = {
    .size = sizeof(tenon_host),
    .minor = TENON_ABI_MINOR,
    .name = "python",
    .fail = host_fail,
    .result_alloc = host_result_alloc,
    .result_handle = host_result_handle,
    .result_str = host_result_str,
    .scratch = host_scratch,
    .cancelled = host_cancelled,
    .extension = tenon__py_extension,
};

/* ------------------------------------------------------------------------------------------------------- failures */

void tenon__py_raise_failure(tenon__py_frame *f, const char *name, tenon_status status)
{
    if (f->exception) {
        PyErr_SetObject((PyObject *)Py_TYPE(f->exception), f->exception);
        return;
    }
    if (!f->error && (f->call.flags & TENON_CALL_FAILED)) {
        PyErr_NoMemory();
        return;
    }
    tenon_error unsaid; /* it returned a status, and no reason */
    tenon_error *error = f->error ? f->error : &unsaid;
    tenon_call_failure(&f->call, status, error);
    status = error->status;
    bool of_its_own = status == TENON_EVERSION || status >= TENON_EFAILED || status < TENON_OK;
    PyErr_Format(of_its_own ? PyExc_RuntimeError : tenon__py_exception_for(status), "%s(): %s", name, error->message);
}

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
    memset(&f.call, 0, sizeof f.call);
    f.exception = f.kept = f.like = NULL;
    f.function = NULL;
    f.device = tenon_device_of(TENON_CPU, 0);
    f.thread = NULL;
    f.blocks = NULL;
    f.error = NULL;
    f.stream_from = NULL;
    f.looked = 0;
    f.call.size = sizeof f.call;
    f.call.minor = TENON_ABI_MINOR;
    f.call.host = &tenon__py_host;
    f.call.device = tenon_device_of(TENON_CPU, 0);
    f.call.host_private = &f;
    tenon_status status = module->load(&f.call, state);
    int result = status || (f.call.flags & TENON_CALL_FAILED) ? -1 : 0;
    if (result < 0) {
        tenon__py_raise_failure(&f, "load", status);
        if (PyErr_ExceptionMatches(PyExc_Exception)) /* an interrupt stays what it is */
            raise_import_error();
        Py_XDECREF(f.exception);
    }
    tenon_blocks_release(f.blocks);
    return result;
}
