/* Streams: on which one device memory is ready, and how another one waits for it. */
#include "../internal.h"

/* Managed memory counts as the CPU's, but it is filled by streams all the same. */
static bool is_cuda(tenon_device device)
{
    return device.device_type == TENON_CUDA || device.device_type == TENON_CUDA_MANAGED;
}

static bool has_default_stream(tenon_device device)
{
    return is_cuda(device) || device.device_type == TENON_ROCM;
}

/* DLPack's number for a stream: CUDA's default stream, NULL, has the number 1. */
static intptr_t number_of(tenon_device device, const void *stream)
{
    return !stream && is_cuda(device) ? 1 : (intptr_t)stream;
}

intptr_t tenon__py_stream_number(tenon_device device, intptr_t stream)
{
    if (stream == TENON__PY_NO_STREAM)
        return has_default_stream(device) ? number_of(device, NULL) : TENON__PY_NO_STREAM;
    return is_cuda(device) || !tenon_device_on_host(device) ? stream : TENON__PY_NO_STREAM;
}

int tenon_py_stream(const tenon_py_borrowed *borrowed, void **stream)
{
    *stream = NULL;
    if (tenon_device_on_host(borrowed->view.device))
        return 0;
    const tenon_dl_exchange *table = borrowed->private_.table;
    const tenon__py_producer *owner = NULL;
    bool is_ours = borrowed->private_.holds == TENON__PY_HOLDS_TENSOR;
    if (!table && borrowed->private_.object && !is_ours && tenon__py_owner(borrowed->private_.object, &owner) < 0)
        return -1;
    if (owner && owner->stream)
        return owner->stream(stream);
    if (is_ours && !table)
        *stream = tenon_tensor_stream(borrowed->private_.held.tensor);
    if (!table || !table->current_work_stream)
        return 0; /* else __dlpack__ was asked for the default stream */
    tenon_device device = borrowed->view.device;
    int status = table->current_work_stream(device.device_type, device.device_id, stream);
    bool raised = PyErr_Occurred() != NULL; /* even if it reported success */
    if (status == 0 && !raised)
        return 0;
    if (!raised)
        tenon__py_set_error(PyExc_RuntimeError, borrowed->private_.object,
                            "its framework did not tell its current stream");
    return -1;
}

int tenon__py_table_is_on(const tenon_dl_exchange *table, tenon_device device, intptr_t stream)
{
    if (stream == TENON__PY_NO_STREAM || stream == -1 || (tenon_device_on_host(device) && !is_cuda(device)))
        return 1;
    void *current = NULL;
    int status =
        table->current_work_stream ? table->current_work_stream(device.device_type, device.device_id, &current) : -1;
    if (PyErr_Occurred())
        return -1;
    return status == 0 && number_of(device, current) == stream;
}

/* ------------------------------------------------------------------------------------------------------- ordering */

const tenon__py_holder *tenon__py_holder_of(const tenon_tensor *tensor)
{
    return tenon_tensor_owner(tenon_tensor_root(tensor), tenon__py_holder_release);
}

/* Make `stream` wait for what is on stream `earlier` now. */
static int order_after(tenon_device device, const void *earlier, intptr_t stream)
{
    intptr_t first = number_of(device, earlier);
    if (first == stream)
        return 0;
    if (is_cuda(device))
        return tenon__py_cuda_order(device.device_id, first, stream);
    if (!earlier || stream == TENON__PY_HOST)
        return 0; /* as tenon_blob says: the memory was ready when the tensor was made */
    char name[64];
    tenon_device_format(device, name, sizeof name);
    PyErr_Format(
        PyExc_BufferError,
        "tenon.Tensor: the memory on %s is filled by another stream, and Tenon orders the streams of CUDA only; "
        "synchronise that stream, then pass stream=-1",
        name);
    return -1;
}

int tenon__py_order_default(tenon_device device, intptr_t stream)
{
    stream = tenon__py_stream_number(device, stream);
    return stream == -1 || stream == TENON__PY_NO_STREAM ? 0 : order_after(device, NULL, stream);
}

/* The same for what the tensor's producer works on: it is asked as if `stream` were to read its own object. */
static int order_after_producer(const tenon_py_borrowed *borrowed, tenon_device device, intptr_t stream)
{
    int ready = borrowed->private_.table ? tenon__py_table_is_on(borrowed->private_.table, device, stream) : 0;
    if (ready)
        return ready < 0 ? -1 : 0;
    PyObject *number = PyLong_FromSsize_t(stream);
    int asked = number ? tenon__py_ask_to_order(borrowed->private_.object, number) : -1;
    Py_XDECREF(number);
    if (asked != 1)
        return asked;
    void *earlier = NULL;
    return tenon_py_stream(borrowed, &earlier) < 0 ? -1 : order_after(device, earlier, stream);
}

/* The producer's object can be touched by its own interpreter only. */
static int check_interpreter(const tenon__py_holder *producer)
{
    if (tenon__py_attached_to(producer->interp))
        return 0;
    PyErr_SetString(PyExc_BufferError, "tenon.Tensor: the memory came from another interpreter, whose array cannot be "
                                       "asked from here on which stream it is ready; synchronise, then pass stream=-1");
    return -1;
}

int tenon__py_order(tenon_tensor *tensor, intptr_t stream)
{
    tenon_device device = tenon_tensor_view(tensor)->device;
    bool for_host = stream == TENON__PY_HOST;
    stream = for_host ? (is_cuda(device) ? number_of(device, NULL) : TENON__PY_NO_STREAM)
                      : tenon__py_stream_number(device, stream);
    if (stream == -1 || stream == TENON__PY_NO_STREAM)
        return 0;
    const tenon__py_holder *producer = tenon__py_holder_of(tensor);
    if (!producer)
        return order_after(device, tenon_tensor_stream(tensor), for_host ? TENON__PY_HOST : stream);
    if (check_interpreter(producer) < 0 || order_after_producer(&producer->borrowed, device, stream) < 0)
        return -1;
    return for_host ? order_after(device, NULL, TENON__PY_HOST) : 0;
}

/* ------------------------------------------------------------------------------------- the argument of __dlpack__ */

static int refuse_stream(tenon_device device, PyObject *given, const char *expected)
{
    char name[64];
    tenon_device_format(device, name, sizeof name);
    PyErr_Format(PyExc_ValueError, "tenon.Tensor.__dlpack__(): argument 'stream': expected %s for memory on %s, got %R",
                 expected, name, given);
    return -1;
}

/* A stream of another kind of device is whatever its frameworks have agreed on. */
static int pass_on(const tenon_tensor *tensor, PyObject *stream)
{
    const tenon__py_holder *producer = tenon__py_holder_of(tensor);
    if (!producer)
        return 0;
    return check_interpreter(producer) < 0 || tenon__py_ask_to_order(producer->borrowed.private_.object, stream) < 0
               ? -1
               : 0;
}

int tenon__py_order_argument(tenon_tensor *tensor, PyObject *stream)
{
    tenon_device device = tenon_tensor_view(tensor)->device;
    if (!stream || stream == Py_None)
        return tenon__py_order(tensor, TENON__PY_NO_STREAM);
    bool cuda = is_cuda(device) || device.device_type == TENON_CUDA_HOST;
    bool rocm = device.device_type == TENON_ROCM || device.device_type == TENON_ROCM_HOST;
    if (!cuda && !rocm && device.device_type != TENON_CPU)
        return pass_on(tensor, stream);
    if (!PyLong_Check(stream)) {
        PyErr_Format(PyExc_TypeError, "tenon.Tensor.__dlpack__(): argument 'stream': expected None or an int, got %R",
                     (PyObject *)Py_TYPE(stream));
        return -1;
    }
    long long number = PyLong_AsLongLong(stream);
    if (number == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        number = -2; /* no stream has such a number */
    }
    if (number == -1)
        return 0;
    if (device.device_type == TENON_CPU)
        return refuse_stream(device, stream, "None or -1");
    if (cuda && number <= 0)
        return refuse_stream(device, stream,
                             "1 (the legacy default stream), 2 (the default stream of each thread), the address of a "
                             "stream, or -1 (do not wait)");
    if (rocm && (number < 0 || number == 1 || number == 2))
        return refuse_stream(device, stream, "0 (the default stream), the address of a stream, or -1 (do not wait)");
    return tenon__py_order(tensor, (intptr_t)number);
}
