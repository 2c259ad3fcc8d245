/* __cuda_array_interface__, __array_interface__ and __array_struct__: attributes with an address in them. */
#include "../internal.h"

#include <string.h>

/* The protocol's dtype string, "<f4". */
static int array_interface_parse_typestr(PyObject *object, PyObject *text, tenon_dtype *out)
{
    const char *typestr = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    tenon__py_clear_ignorable_error(); /* a string that is not UTF-8 is not a dtype either */
    if (PyErr_Occurred())
        return -1;
    if (!typestr || strlen(typestr) < 2)
        return tenon__py_set_error(PyExc_TypeError, object, "its array interface has no 'typestr'");
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
    const char *number = typestr + 2;
    for (; *number >= '0' && *number <= '9' && size < 100; number++)
        size = 10 * size + (*number - '0');
    bool whole = *number == '\0' && strchr("<>=|", typestr[0]);
    for (size_t i = 0; whole && i < sizeof kinds / sizeof *kinds; i++) {
        *out = tenon_dtype_of(kinds[i].code, size > 16 ? 0 : (int)size * 8, 1);
        /* NumPy's "f16" is long double, whatever its size. */
        bool known = tenon_dtype_known(*out) && !(out->code == TENON_CODE_FLOAT && out->bits == 128);
        if (typestr[1] != kinds[i].kind || !known)
            continue;
        if (typestr[0] == swapped && size > 1)
            return tenon__py_set_error(PyExc_TypeError, object, "its bytes are swapped ('%s')", typestr);
        return 0;
    }
    return tenon__py_set_error(PyExc_TypeError, object, "'%s' has no DLPack dtype%s", typestr,
                               typestr[1] == 'V' ? "; pass one field of a structured array" : "");
}

/* A whole number of 64 bits; -1 with an exception, which is the producer's own if its __index__ raised it. */
static int array_interface_read_number(PyObject *object, PyObject *number, const char *what, int64_t *out)
{
    if (!PyIndex_Check(number))
        return tenon__py_set_error(PyExc_TypeError, object,
                                   "the '%s' of its array interface: expected a whole number, got %R", what,
                                   (PyObject *)Py_TYPE(number));
    PyObject *index = PyNumber_Index(number);
    if (!index)
        return -1;
    *out = PyLong_AsLongLong(index);
    Py_DECREF(index);
    if (*out != -1 || !PyErr_Occurred())
        return 0;
    if (!PyErr_ExceptionMatches(PyExc_OverflowError))
        return -1;
    PyErr_Clear();
    return tenon__py_set_error(PyExc_BufferError, object,
                               "the '%s' of its array interface: expected a number of 64 bits, got a larger one", what);
}

/* Whole numbers of a tuple into `values`; their count, or -1 with an exception. */
static int array_interface_read_tuple(PyObject *object, PyObject *tuple, const char *what, int64_t *values)
{
    if (!tuple || !PyTuple_Check(tuple) || PyTuple_Size(tuple) > TENON_MAX_NDIM)
        return tenon__py_set_error(PyExc_TypeError, object, "the '%s' of its array interface %s", what,
                                   tuple ? "must be a tuple of at most 64 integers" : "is missing");
    int count = (int)PyTuple_Size(tuple);
    for (int i = 0; i < count; i++)
        if (array_interface_read_number(object, PyTuple_GetItem(tuple, i), what, &values[i]) < 0)
            return -1;
    return count;
}

/* What an interface says, borrowed from its dict; NULL if it says nothing. */
typedef struct array_interface_fields {
    PyObject *shape, *typestr, *strides, *data, *offset, *mask, *stream;
} array_interface_fields;

static int array_interface_read_fields(PyObject *dict, array_interface_fields *out)
{
    const struct {
        const char *name;
        PyObject **value;
    } fields[] = {{"shape", &out->shape},  {"typestr", &out->typestr}, {"strides", &out->strides},
                  {"data", &out->data},    {"offset", &out->offset},   {"mask", &out->mask},
                  {"stream", &out->stream}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        PyObject *key = PyUnicode_FromString(fields[i].name);
        *fields[i].value = key ? PyDict_GetItemWithError(dict, key) : NULL;
        Py_XDECREF(key);
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* Memory that an interface points to: an address, or the bytes of an object, which `view` holds. */
typedef struct array_interface_memory {
    void *data;
    uint64_t flags;
    PyObject *view;
    const char *start;
    Py_ssize_t size;
} array_interface_memory;

/* 'data' as an object with a buffer; without 'data', the object itself. */
static int array_interface_read_buffer(PyObject *object, PyObject *exporter, PyObject *offset,
                                       array_interface_memory *out)
{
    Py_buffer buffer;
    int64_t skip = 0;
    if (offset && array_interface_read_number(object, offset, "offset", &skip) < 0)
        return -1;
    PyObject *view = PyMemoryView_FromObject(exporter);
    if (!view || PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE) < 0) {
        Py_XDECREF(view);
        return -1;
    }
    out->start = buffer.buf;
    out->size = buffer.len;
    out->data = (void *)((uintptr_t)buffer.buf + (uintptr_t)skip);
    out->flags = buffer.readonly ? TENON_READ_ONLY : 0;
    out->view = view;
    PyBuffer_Release(&buffer); /* the memoryview goes on holding it */
    return 0;
}

static int array_interface_read_data(PyObject *object, const array_interface_fields *fields, bool on_host,
                                     array_interface_memory *out)
{
    PyObject *data = fields->data;
    if (data && PyTuple_Check(data) && PyTuple_Size(data) == 2) {
        PyObject *address = PyTuple_GetItem(data, 0);
        if (!PyLong_Check(address))
            return tenon__py_set_error(PyExc_TypeError, object,
                                       "the 'data' of its array interface: expected an address first, got %R",
                                       (PyObject *)Py_TYPE(address));
        out->data = PyLong_AsVoidPtr(address);
        if (PyErr_Occurred()) {
            PyErr_Clear();
            return tenon__py_set_error(PyExc_BufferError, object,
                                       "the 'data' of its array interface: expected an address, got a number that has "
                                       "more than 64 bits");
        }
        int read_only = PyObject_IsTrue(PyTuple_GetItem(data, 1));
        out->flags = read_only > 0 ? TENON_READ_ONLY : 0;
        return read_only < 0 ? -1 : 0;
    }
    PyObject *exporter = data && data != Py_None ? data : object;
    if (!on_host || !PyObject_CheckBuffer(exporter))
        return tenon__py_set_error(
            PyExc_TypeError, object,
            "the 'data' of its array interface: expected a pair of address and read-only%s, got %R",
            on_host ? ", or an object with a buffer" : "", data ? (PyObject *)Py_TYPE(data) : Py_None);
    return array_interface_read_buffer(object, exporter, fields->offset, out);
}

/* Whether all elements are in the bytes of the buffer, if there is one. */
static bool array_interface_within(const array_interface_memory *memory, const tenon_view *view)
{
    if (!memory->view || view->numel == 0)
        return true;
    tenon_extent extent = tenon_view_extent(view);
    Py_ssize_t first = (Py_ssize_t)((uintptr_t)memory->data - (uintptr_t)memory->start);
    return first >= 0 && first <= memory->size && extent.low >= -first && extent.high <= memory->size - first;
}

static int array_interface_read_dict(PyObject *object, const array_interface_fields *fields, tenon_device device,
                                     tenon_py_borrowed *out)
{
    int64_t shape[TENON_MAX_NDIM], strides[TENON_MAX_NDIM];
    tenon_dl_tensor source = {.device = device, .shape = shape};
    array_interface_memory memory = {.view = NULL};
    if (fields->mask && fields->mask != Py_None)
        return tenon__py_set_error(PyExc_ValueError, object, "its mask would be lost; pass it without");
    source.ndim = array_interface_read_tuple(object, fields->shape, "shape", shape);
    if (source.ndim < 0 || array_interface_parse_typestr(object, fields->typestr, &source.dtype) < 0)
        return -1;
    if (fields->strides && fields->strides != Py_None) {
        int count = array_interface_read_tuple(object, fields->strides, "strides", strides);
        if (count < 0)
            return -1;
        if (count != source.ndim)
            return tenon__py_set_error(
                PyExc_ValueError, object,
                "the 'strides' of its array interface have length %d, but its 'shape' has length %d", count,
                source.ndim);
        source.strides = strides;
    }
    if (array_interface_read_data(object, fields, tenon_device_on_host(device), &memory) < 0)
        return -1;
    source.data = memory.data;
    out->private_.holds = TENON__PY_HOLDS_OBJECT;
    out->private_.held.object = memory.view;
    if (tenon__py_make_view(object, &source, TENON__PY_BYTES, memory.flags, out) == 0) {
        if (array_interface_within(&memory, &out->view))
            return 0;
        tenon__py_free_dims(out);
        tenon__py_set_error(PyExc_BufferError, object, "its array interface has elements outside its buffer");
    }
    tenon__py_give_back(out, object);
    return -1;
}

/* Whether the bytes are made again each time they are asked for, as a compressed array's are, so that writes would be lost.
 * Asked while the first ones are held, so that they cannot come back by chance. -1 with an exception. */
static int array_interface_is_copy(PyObject *object, const char *name, const tenon_py_borrowed *borrowed)
{
    PyObject *interface = NULL;
    array_interface_fields fields;
    array_interface_memory memory = {.view = NULL};
    PyObject *copy =
        tenon__py_attribute(object, name, &interface) == 1 && PyDict_Check(interface) ? PyDict_Copy(interface) : NULL;
    bool same = copy && array_interface_read_fields(copy, &fields) == 0 &&
                array_interface_read_data(object, &fields, true, &memory) == 0 && memory.data == borrowed->view.data;
    Py_XDECREF(memory.view);
    Py_XDECREF(copy);
    Py_XDECREF(interface);
    tenon__py_clear_ignorable_error();
    return PyErr_Occurred() ? -1 : !same;
}

/* What __array_struct__'s capsule points to. */
typedef struct array_interface_struct {
    int two;
    int nd;
    char typekind;
    int itemsize;
    int flags;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    void *data;
    PyObject *descr;
} array_interface_struct;

/* As NumPy writes it: "<f4", "|V8", and for text the number of characters. */
static void array_interface_format_typestr(const array_interface_struct *array, char *buffer, size_t size)
{
    enum { NOT_SWAPPED = 0x200 };
    const int little = 1;
    bool is_little = *(const char *)&little == !!(array->flags & NOT_SWAPPED);
    char kind = array->typekind > ' ' && array->typekind < 127 ? array->typekind : '?';
    char order = array->itemsize == 1 || strchr("SVO", kind) ? '|' : is_little ? '<' : '>';
    int items = array->itemsize / (kind == 'U' ? 4 : 1);
    PyOS_snprintf(buffer, size, "%c%c%d", order, kind, items > 0 && items < 1000 ? items : 999);
}

static int array_interface_read_struct(PyObject *object, PyObject *capsule, tenon_py_borrowed *out)
{
    enum { WRITEABLE_MEMORY = 0x400 };
    const char *name = PyCapsule_GetName(capsule);
    const array_interface_struct *array = PyErr_Occurred() ? NULL : PyCapsule_GetPointer(capsule, name);
    if (!array)
        return -1;
    if (array->two != 2 || array->nd < 0 || array->nd > TENON_MAX_NDIM)
        return tenon__py_set_error(PyExc_TypeError, object, "its __array_struct__ is not a valid array struct");
    char typestr[8];
    array_interface_format_typestr(array, typestr, sizeof typestr);
    PyObject *text = PyUnicode_FromString(typestr);
    tenon_dl_tensor source = {.data = array->data, .device = tenon_device_of(TENON_CPU, 0), .ndim = array->nd};
    source.shape = tenon__py_numbers_of(array->shape);
    source.strides = tenon__py_numbers_of(array->strides);
    uint64_t flags = array->flags & WRITEABLE_MEMORY ? 0 : TENON_READ_ONLY;
    int parsed = text ? array_interface_parse_typestr(object, text, &source.dtype) : -1;
    Py_XDECREF(text);
    out->private_.holds = TENON__PY_HOLDS_OBJECT;
    out->private_.held.object = NULL;
    if (parsed < 0 || tenon__py_make_view(object, &source, TENON__PY_BYTES, flags, out) < 0)
        return -1;
    Py_INCREF(capsule); /* it keeps the memory */
    out->private_.held.object = capsule;
    return 0;
}

/* The memory is ready on the interface's own stream (version 3), which must be the one the caller works on. */
static int array_interface_check_stream(PyObject *object, PyObject *own, intptr_t stream)
{
    if (!own || own == Py_None || stream == -1)
        return 0;
    int64_t number;
    if (array_interface_read_number(object, own, "stream", &number) < 0)
        return -1;
    if (number == 0)
        return tenon__py_set_error(PyExc_BufferError, object,
                                   "stream 0 of its __cuda_array_interface__ is ambiguous, and not allowed");
    if (number == (stream == TENON__PY_NO_STREAM ? 1 : stream))
        return 0;
    return tenon__py_set_error(PyExc_BufferError, object,
                               "its memory is ready on stream %lld, not on the one asked for; synchronise it first",
                               (long long)number);
}

static int array_interface_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request,
                                tenon_py_borrowed *out)
{
    (void)kind;
    if (PyType_Check(object)) /* it has the attributes of its instances */
        return tenon__py_set_error(PyExc_TypeError, object, "this is a class, not an array; pass an instance");
    static const char *const names[] = {"__cuda_array_interface__", "__array_struct__", "__array_interface__"};
    for (int i = 0; i < 3; i++) {
        PyObject *interface;
        int found = tenon__py_attribute(object, names[i], &interface);
        if (found < 0)
            return -1;
        if (found && interface == Py_None)
            Py_DECREF(interface);
        if (!found || interface == Py_None)
            continue;
        int result = -1;
        if (i == 1 && PyCapsule_CheckExact(interface)) {
            result = array_interface_read_struct(object, interface, out);
        } else if (i != 1 && PyDict_Check(interface)) {
            /* A copy: the producer's code runs while it is read, and may change the original. */
            array_interface_fields fields;
            PyObject *copy = PyDict_Copy(interface);
            if (copy && array_interface_read_fields(copy, &fields) == 0 &&
                (i != 0 || array_interface_check_stream(object, fields.stream, request->stream) == 0))
                result = array_interface_read_dict(object, &fields, tenon_device_of(i == 0 ? TENON_CUDA : TENON_CPU, 0),
                                                   out);
            Py_XDECREF(copy);
        } else {
            PyObject *type = tenon__py_type_name(interface);
            if (type)
                tenon__py_set_error(PyExc_TypeError, object, "its %s must be a %s, got %U", names[i],
                                    i == 1 ? "capsule" : "dict", type);
            Py_XDECREF(type);
        }
        tenon__py_scope scope = tenon__py_enter_scope();
        Py_DECREF(interface);
        tenon__py_leave_scope(scope);
        bool writable = result == 0 && !(out->view.flags & TENON_READ_ONLY) && out->view.numel > 0;
        if (writable && i == 2 && out->private_.held.object) {
            int is_copy = array_interface_is_copy(object, names[i], out);
            if (is_copy < 0) {
                tenon__py_free_dims(out);
                tenon__py_give_back(out, object);
                return -1;
            }
            out->view.flags |= is_copy ? TENON_READ_ONLY | TENON_IS_COPIED : 0;
        }
        return result;
    }
    return 1;
}

/* These are attributes of objects, which are looked at one by one. */
static int array_interface_recognise(PyObject *object, tenon__py_kind *kind)
{
    (void)object;
    (void)kind;
    return TENON__PY_PERHAPS;
}

const tenon__py_producer tenon__py_producer_array_interface = {
    .recognise = array_interface_recognise,
    .read = array_interface_read,
};
