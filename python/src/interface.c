/* __cuda_array_interface__, __array_interface__ and __array_struct__: attributes with an address in them. */
#include "bridge.h"

#include <string.h>

/* The protocol's dtype text, "<f4". */
static int parse_typestr(PyObject *object, PyObject *text, tenon_dtype *out)
{
    const char *typestr = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (!typestr || strlen(typestr) < 3)
        return tenon__py_complain(PyExc_TypeError, object, "its array interface has no 'typestr'");
    const int little = 1;
    char swapped = *(const char *)&little ? '>' : '<';
    static const struct {
        char kind;
        uint8_t code;
    } kinds[] = {{'b', TENON_CODE_BOOL},
                 {'i', TENON_CODE_INT},
                 {'u', TENON_CODE_UINT},
                 {'f', TENON_CODE_FLOAT},
                 {'c', TENON_CODE_COMPLEX}};
    long size = 0;
    for (const char *digit = typestr + 2; *digit >= '0' && *digit <= '9' && size < 100; digit++)
        size = 10 * size + (*digit - '0');
    if (typestr[0] == swapped && size > 1)
        return tenon__py_complain(PyExc_TypeError, object, "its bytes are swapped ('%s')", typestr);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        *out = tenon_dtype_of(kinds[i].code, size > 16 ? 0 : (int)size * 8, 1);
        /* NumPy's "f16" is long double, whatever its size. */
        bool known = tenon_dtype_known(*out) && !(out->code == TENON_CODE_FLOAT && out->bits == 128);
        if (typestr[1] == kinds[i].kind && known)
            return 0;
    }
    return tenon__py_complain(PyExc_TypeError, object, "'%s' has no DLPack dtype", typestr);
}

/* Whole numbers of a tuple into `values`; their count, or -1 with an exception. */
static int read_tuple(PyObject *object, PyObject *tuple, const char *what, int64_t *values)
{
    if (!tuple || !PyTuple_Check(tuple) || PyTuple_Size(tuple) > TENON_MAX_NDIM)
        return tenon__py_complain(PyExc_TypeError, object,
                                  "the '%s' of its array interface is no tuple of 0 to %d numbers", what,
                                  TENON_MAX_NDIM);
    int count = (int)PyTuple_Size(tuple);
    for (int i = 0; i < count; i++) {
        values[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
        if (values[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return count;
}

/* Strides in bytes to strides in elements. */
static int divide_strides(PyObject *object, int ndim, const int64_t *shape, int64_t *strides, int64_t item)
{
    for (int i = 0; i < ndim; i++) {
        if (shape[i] > 1 && strides[i] % item != 0)
            return tenon__py_complain(PyExc_ValueError, object, "its strides are not multiples of the item size");
        strides[i] /= item;
    }
    return 0;
}

/* The address in an interface's 'data', and whether it is read-only. *holder keeps what the address was taken from. */
static int read_data(PyObject *object, PyObject *interface, void **data, uint64_t *flags, PyObject **holder)
{
    PyObject *pair = PyDict_GetItemString(interface, "data");
    if (pair && PyTuple_Check(pair) && PyTuple_Size(pair) == 2) {
        *data = PyLong_AsVoidPtr(PyTuple_GetItem(pair, 0));
        int read_only = PyErr_Occurred() ? -1 : PyObject_IsTrue(PyTuple_GetItem(pair, 1));
        if (read_only < 0)
            return -1;
        *flags = read_only ? TENON_READ_ONLY : 0;
        return 0;
    }
    /* Otherwise it is, or is in, an object with a buffer. */
    PyObject *exporter = pair && pair != Py_None ? pair : object;
    PyObject *view = PyMemoryView_FromObject(exporter);
    PyObject *offset = PyDict_GetItemString(interface, "offset");
    Py_ssize_t skip = offset ? PyLong_AsSsize_t(offset) : 0;
    if (!view || (skip == -1 && PyErr_Occurred())) {
        Py_XDECREF(view);
        return -1;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE) < 0) {
        Py_DECREF(view);
        return -1;
    }
    *data = (char *)buffer.buf + skip;
    *flags = buffer.readonly ? TENON_READ_ONLY : 0;
    PyBuffer_Release(&buffer); /* the memoryview goes on holding it */
    *holder = view;
    return 0;
}

static int borrow_dict(PyObject *object, PyObject *interface, tenon_device device, tenon_py_borrowed *out)
{
    int64_t shape[TENON_MAX_NDIM], strides[TENON_MAX_NDIM];
    tenon_dl_tensor source = {.device = device};
    uint64_t flags = 0;
    PyObject *holder = NULL, *mask = PyDict_GetItemString(interface, "mask");
    if (mask && mask != Py_None)
        return tenon__py_complain(PyExc_ValueError, object, "its mask would be lost; pass it without");
    source.ndim = read_tuple(object, PyDict_GetItemString(interface, "shape"), "shape", shape);
    if (source.ndim < 0 || parse_typestr(object, PyDict_GetItemString(interface, "typestr"), &source.dtype) < 0)
        return -1;
    PyObject *given = PyDict_GetItemString(interface, "strides");
    bool strided = given && given != Py_None;
    if (strided) {
        int count = read_tuple(object, given, "strides", strides);
        if (count < 0)
            return -1;
        if (count != source.ndim)
            return tenon__py_complain(PyExc_ValueError, object, "its array interface has %d strides for %d dimensions",
                                      count, source.ndim);
        if (divide_strides(object, count, shape, strides, source.dtype.bits / 8) < 0)
            return -1;
    }
    if (read_data(object, interface, &source.data, &flags, &holder) < 0)
        return -1;
    source.shape = shape;
    source.strides = strided ? strides : NULL;
    out->way = TENON__PY_INTERFACE;
    out->held.object = holder;
    if (tenon__py_dims(out, source.ndim) == 0 && tenon__py_describe(out, &source, flags, object) == 0)
        return 0;
    tenon__py_give_back(out, object);
    return -1;
}

/* What __array_struct__'s capsule points to. */
typedef struct array_struct {
    int two;
    int nd;
    char typekind;
    int itemsize;
    int flags;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    void *data;
    PyObject *descr;
} array_struct;

static int borrow_struct(PyObject *object, PyObject *capsule, tenon_py_borrowed *out)
{
    enum { NOT_SWAPPED = 0x200, WRITEABLE_MEMORY = 0x400 };
    const char *name = PyCapsule_GetName(capsule);
    const array_struct *array = PyErr_Occurred() ? NULL : PyCapsule_GetPointer(capsule, name);
    if (!array)
        return -1;
    if (array->two != 2 || array->nd < 0 || array->nd > TENON_MAX_NDIM)
        return tenon__py_complain(PyExc_TypeError, object, "its __array_struct__ is no array struct");
    char typestr[8];
    PyOS_snprintf(typestr, sizeof typestr, "%c%c%d", array->flags & NOT_SWAPPED ? '=' : '>', array->typekind,
                  array->itemsize < 1000 ? array->itemsize : 999);
    if (!(array->flags & NOT_SWAPPED) && array->itemsize > 1)
        return tenon__py_complain(PyExc_TypeError, object, "its bytes are swapped");
    PyObject *text = PyUnicode_FromString(typestr);
    tenon_dl_tensor source = {.data = array->data, .device = tenon_device_of(TENON_CPU, 0), .ndim = array->nd};
    int parsed = text ? parse_typestr(object, text, &source.dtype) : -1;
    Py_XDECREF(text);
    if (parsed < 0 || tenon__py_dims(out, array->nd) < 0)
        return -1;
    for (int i = 0; i < array->nd; i++) {
        out->dims[i] = array->shape[i];
        out->dims[array->nd + i] = array->strides ? array->strides[i] : 0;
    }
    if (array->strides &&
        divide_strides(object, array->nd, out->dims, out->dims + array->nd, source.dtype.bits / 8) < 0) {
        tenon__py_free_dims(out);
        return -1;
    }
    source.shape = out->dims;
    source.strides = array->strides ? out->dims + array->nd : NULL;
    out->way = TENON__PY_INTERFACE;
    out->held.object = NULL;
    if (tenon__py_describe(out, &source, array->flags & WRITEABLE_MEMORY ? 0 : TENON_READ_ONLY, object) < 0)
        return -1;
    Py_INCREF(capsule); /* it keeps the memory */
    out->held.object = capsule;
    return 0;
}

/* An attribute: 1 and a new reference, 0, or -1 with an exception. */
static int attribute(PyObject *object, const char *name, PyObject **out)
{
    *out = PyObject_GetAttrString(object, name);
    if (*out)
        return 1;
    if (!PyErr_ExceptionMatches(PyExc_AttributeError))
        return -1;
    PyErr_Clear();
    return 0;
}

/* The memory is ready on the interface's own stream (version 3), which must be the one the caller works on. */
static int check_stream(PyObject *object, PyObject *interface, intptr_t stream)
{
    PyObject *own = PyDict_GetItemString(interface, "stream");
    if (!own || own == Py_None || stream == -1)
        return 0;
    long long number = PyLong_AsLongLong(own);
    if (number == -1 && PyErr_Occurred())
        return -1;
    if (number == 0)
        return tenon__py_complain(PyExc_BufferError, object,
                                  "stream 0 of its __cuda_array_interface__ is ambiguous, and not allowed");
    if (number == (stream == TENON__PY_NO_STREAM ? 1 : stream))
        return 0;
    return tenon__py_complain(PyExc_BufferError, object,
                              "its memory is ready on stream %lld, not on the one asked for; synchronise it first",
                              number);
}

int tenon__py_borrow_interface(PyObject *object, intptr_t stream, tenon_py_borrowed *out)
{
    static const char *const names[] = {"__cuda_array_interface__", "__array_struct__", "__array_interface__"};
    for (int i = 0; i < 3; i++) {
        PyObject *interface;
        int found = attribute(object, names[i], &interface);
        if (found < 0)
            return -1;
        if (!found)
            continue;
        int result;
        if (i == 1 && PyCapsule_CheckExact(interface))
            result = borrow_struct(object, interface, out);
        else if (i != 1 && PyDict_Check(interface)) {
            result = i == 0 ? check_stream(object, interface, stream) : 0;
            if (result == 0)
                result = borrow_dict(object, interface,
                                     i == 0 ? tenon_device_of(TENON_CUDA, 0) : tenon_device_of(TENON_CPU, 0), out);
        } else
            result = tenon__py_complain(PyExc_TypeError, object, "its %s is of the wrong kind", names[i]);
        Py_DECREF(interface);
        return result;
    }
    return 1;
}
