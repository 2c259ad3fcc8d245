/* tenon.Tensor.__cuda_array_interface__, version 3: for consumers of CUDA's memory that do not read DLPack. */
#include "tensor_object.h"

enum { INTERFACE_VERSION = 3 };

/* The dtype as NumPy writes it, "<f4"; false if NumPy does not have it, as the buffer protocol does not. */
static bool format_typestr(tenon_dtype dtype, char *text, size_t size)
{
    static const char kinds[] = {[TENON_CODE_INT] = 'i',
                                 [TENON_CODE_UINT] = 'u',
                                 [TENON_CODE_FLOAT] = 'f',
                                 [TENON_CODE_COMPLEX] = 'c',
                                 [TENON_CODE_BOOL] = 'b'};
    const int little = 1;
    char order = dtype.bits == 8 ? '|' : *(const char *)&little ? '<' : '>';
    if (!tenon__py_format(dtype))
        return false;
    PyOS_snprintf(text, size, "%c%c%d", order, kinds[dtype.code], dtype.bits / 8);
    return true;
}

/* The number of the stream on which the memory is ready. The stream of a framework with an exchange table, and that of a
 * tensor that C code made, are reported. Other producers have to make the default stream wait. 0, or -1 with an exception. */
static int interface_stream(tenon_tensor *tensor, intptr_t *out)
{
    const tenon__py_holder *holder = tenon__py_holder_of(tensor);
    tenon_device device = tenon_tensor_view(tensor)->device;
    void *stream = holder ? NULL : tenon_tensor_stream(tensor);
    bool can_tell = holder && holder->borrowed.private_.table && tenon__py_attached_to(holder->interp);
    if (can_tell ? tenon_py_stream(&holder->borrowed, &stream) < 0
                 : holder && tenon__py_order(tensor, TENON__PY_NO_STREAM) < 0)
        return -1;
    *out = stream ? (intptr_t)stream : tenon__py_stream_number(device, TENON__PY_NO_STREAM);
    return 0;
}

/* The strides in bytes, or None for C order. A new reference, or NULL with an exception. */
static PyObject *interface_strides(const tenon_view *view)
{
    int64_t bytes[TENON_MAX_NDIM];
    if (view->flags & TENON_VIEW_C)
        Py_RETURN_NONE;
    for (int32_t i = 0; i < view->ndim; i++)
        bytes[i] = (int64_t)((uint64_t)view->strides[i] * (view->dtype.bits / 8u));
    return tenon__py_dims_tuple(view->ndim, bytes);
}

/* The attribute does not exist for other memory, so that hasattr() answers the question. */
PyObject *tenon__py_tensor_cuda_array_interface(PyObject *self, void *unused)
{
    (void)unused;
    tenon_tensor *tensor = tenon__py_retain(self); /* the producer's code may run */
    if (!tensor)
        return NULL;
    const tenon_view *view = tenon_tensor_view(tensor);
    char text[64];
    PyObject *interface = NULL;
    intptr_t stream;
    if (view->device.device_type != TENON_CUDA) {
        tenon_device_format(view->device, text, sizeof text);
        PyErr_Format(PyExc_AttributeError,
                     "tenon.Tensor: only tensors on CUDA have __cuda_array_interface__, and this one is on %s", text);
    } else if (!format_typestr(view->dtype, text, sizeof text)) {
        tenon_dtype_format_long(view->dtype, text, sizeof text);
        PyErr_Format(PyExc_AttributeError,
                     "tenon.Tensor: __cuda_array_interface__ has no name for the dtype %s; use DLPack", text);
    } else if (interface_stream(tensor, &stream) == 0) {
        PyObject *data = PyLong_FromVoidPtr(view->numel ? view->data : NULL); /* as the protocol wants it */
        interface =
            Py_BuildValue("{sNsss(NO)sNsnsi}", "shape", tenon__py_dims_tuple(view->ndim, view->shape), "typestr", text,
                          "data", data, view->flags & TENON_READ_ONLY ? Py_True : Py_False, "strides",
                          interface_strides(view), "stream", (Py_ssize_t)stream, "version", INTERFACE_VERSION);
    }
    tenon__py_release(tensor);
    return interface;
}
