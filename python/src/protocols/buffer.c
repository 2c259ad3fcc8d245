/* The buffer protocol. */
#include "../internal.h"

#include <stdlib.h>
#include <string.h>

/* What a buffer_letter of the struct module's formats stands for. */
typedef struct buffer_letter {
    uint8_t code;
    uint8_t native;   /* bytes with '@' or nothing before it; 0: no number */
    uint8_t standard; /* with '=', '<', '>' or '!'; 0: not allowed there */
} buffer_letter;

static const buffer_letter buffer_letters[128] = {
    ['?'] = {TENON_CODE_BOOL, sizeof(_Bool), 1},
    ['c'] = {TENON_CODE_UINT, 1, 1},
    ['b'] = {TENON_CODE_INT, 1, 1},
    ['B'] = {TENON_CODE_UINT, 1, 1},
    ['h'] = {TENON_CODE_INT, sizeof(short), 2},
    ['H'] = {TENON_CODE_UINT, sizeof(short), 2},
    ['i'] = {TENON_CODE_INT, sizeof(int), 4},
    ['I'] = {TENON_CODE_UINT, sizeof(int), 4},
    ['l'] = {TENON_CODE_INT, sizeof(long), 4},
    ['L'] = {TENON_CODE_UINT, sizeof(long), 4},
    ['q'] = {TENON_CODE_INT, sizeof(long long), 8},
    ['Q'] = {TENON_CODE_UINT, sizeof(long long), 8},
    ['n'] = {TENON_CODE_INT, sizeof(Py_ssize_t), 0},
    ['N'] = {TENON_CODE_UINT, sizeof(size_t), 0},
    ['e'] = {TENON_CODE_FLOAT, 2, 2},
    ['f'] = {TENON_CODE_FLOAT, 4, 4},
    ['d'] = {TENON_CODE_FLOAT, 8, 8},
    ['F'] = {TENON_CODE_COMPLEX, 8, 8},
    ['D'] = {TENON_CODE_COMPLEX, 16, 16},
};

const char *tenon__py_format(tenon_dtype dtype)
{
    static const char *const by_size[3][4] = {{"b", "h", "i", "q"}, {"B", "H", "I", "Q"}, {NULL, "e", "f", "d"}};
    if (dtype.lanes != 1)
        return NULL;
    if (dtype.code == TENON_CODE_BOOL)
        return "?";
    if (dtype.code == TENON_CODE_COMPLEX)
        return dtype.bits == 64 ? "Zf" : dtype.bits == 128 ? "Zd" : NULL;
    int size = dtype.bits == 8 ? 0 : dtype.bits == 16 ? 1 : dtype.bits == 32 ? 2 : dtype.bits == 64 ? 3 : -1;
    return dtype.code <= TENON_CODE_FLOAT && size >= 0 ? by_size[dtype.code][size] : NULL;
}

/* Why a format without its first sign has no dtype. */
static const char *buffer_why_no_dtype(const char *format)
{
    if (*format == 'T')
        return "is a structure, which has no DLPack dtype; pass one of its fields";
    if (strcmp(format, "g") == 0 || strcmp(format, "Zg") == 0)
        return "is long double, which has no DLPack dtype";
    return "has no DLPack dtype";
}

/* The dtype of a format; one of 0 bits, with *why, if it has none (NULL: it is not for items of this size). By value: it
 * stays in a register. */
static inline tenon_dtype buffer_parse_format(const char *format, Py_ssize_t item, const char **why)
{
    const tenon_dtype none = tenon_dtype_of(0, 0, 1);
    const int little = 1;
    bool big_endian = !*(const char *)&little;
    char sign = format && (*format == '@' || *format == '!' || (*format >= '<' && *format <= '>')) ? *format++ : '@';
    if (!format)
        format = "B";
    bool pair = format[0] == 'Z' && (format[1] == 'f' || format[1] == 'd');
    const char *last = pair ? format + 1 : format;
    const buffer_letter *found = &buffer_letters[*last & 0x7f];
    if (!found->native || (*last & 0x80) || last[1] != '\0') {
        *why = buffer_why_no_dtype(format);
        return none;
    }
    int size = (sign == '@' ? found->native : found->standard) << pair;
    if (size == 0 || size != item) {
        *why = NULL;
        return none;
    }
    if (size > 1 && (big_endian ? sign == '<' : sign == '>' || sign == '!')) {
        *why = "has swapped bytes; convert it to this machine's order";
        return none;
    }
    return tenon_dtype_of(pair ? TENON_CODE_COMPLEX : found->code, 8 * size, 1);
}

static int buffer_fill(PyObject *object, const Py_buffer *buffer, tenon_py_borrowed *out)
{
    const char *why = NULL;
    tenon_dtype dtype = buffer_parse_format(buffer->format, buffer->itemsize, &why);
    if (dtype.bits == 0 && !why) /* ctypes says 'B' of a union, whatever its size */
        return tenon__py_set_error(PyExc_TypeError, object,
                                   "its buffer's format '%s' is not for items of %zd bytes; of a ctypes union pass one "
                                   "of its members",
                                   buffer->format ? buffer->format : "B", buffer->itemsize);
    if (dtype.bits == 0)
        return tenon__py_set_error(PyExc_TypeError, object, "its buffer's format '%s' %s",
                                   buffer->format ? buffer->format : "B", why);
    for (int i = 0; buffer->suboffsets && i < buffer->ndim; i++)
        if (buffer->suboffsets[i] >= 0)
            return tenon__py_set_error(PyExc_BufferError, object,
                                       "its buffer is reached through pointers (suboffsets); pass a copy");
    if (!buffer->shape && buffer->ndim > 1)
        return tenon__py_set_error(PyExc_BufferError, object, "its buffer has %d dimensions and no shape",
                                   buffer->ndim);
    int64_t length = buffer->len / buffer->itemsize;
    tenon_dl_tensor source = {.data = buffer->buf, .device = tenon_device_of(TENON_CPU, 0), .ndim = buffer->ndim};
    source.dtype = dtype;
    source.shape = buffer->shape ? tenon__py_numbers_of(buffer->shape) : &length;
    source.strides = tenon__py_numbers_of(buffer->strides);
    return tenon__py_make_view(object, &source, TENON__PY_BYTES, buffer->readonly ? TENON_READ_ONLY : 0, out);
}

bool tenon__py_read_buffer_fast(const Py_buffer *buffer, uint64_t flags, tenon_py_borrowed *out)
{
    const char *why;
    tenon_dtype dtype = buffer_parse_format(buffer->format, buffer->itemsize, &why);
    if (!dtype.bits || !buffer->shape || buffer->suboffsets)
        return false;
    out->private_.dims = out->private_.inline_dims;
    /* The item sizes of all formats are powers of two. */
    return tenon__py_make_view_fast(buffer->buf, &dtype, buffer->ndim, tenon__py_numbers_of(buffer->shape),
                                    tenon__py_numbers_of(buffer->strides),
                                    tenon__py_lowest_bit((unsigned)buffer->itemsize), flags, out);
}

int tenon__py_buffer_refused(PyObject *object, tenon__py_request *request)
{
    if (!PyErr_Occurred())
        return tenon__py_set_error(PyExc_BufferError, object, "its buffer function failed without an exception");
    /* TensorFlow lets NumPy's ValueError through for a dtype that the protocol does not know; CuPy says TypeError. */
    bool no = PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_ValueError) ||
              (!request->is_last && PyErr_ExceptionMatches(PyExc_TypeError));
    if (!no)
        return -1;
    if (request->is_last) {
        tenon__py_refused(object, NULL);
        return -1;
    }
    /* This object, not its type, has no buffer: a JAX array of bf16, say. */
    request->refusal = tenon__py_take_exception();
    return 1;
}

int tenon__py_read_buffer(PyObject *object, tenon__py_request *request, tenon_py_borrowed *out)
{
    Py_buffer *buffer = &out->private_.held.buffer;
    if (PyObject_GetBuffer(object, buffer, PyBUF_FULL_RO) < 0)
        return tenon__py_buffer_refused(object, request);
    out->private_.holds = TENON__PY_HOLDS_BUFFER;
    if (!PyErr_Occurred() && buffer_fill(object, buffer, out) == 0)
        return 0;
    tenon__py_give_back(out, object);
    return -1;
}

static int buffer_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request, tenon_py_borrowed *out)
{
    (void)kind;
    return tenon__py_read_buffer(object, request, out);
}

static int buffer_recognise(PyObject *object, tenon__py_kind *kind)
{
    return !kind->keeps_buffer && PyObject_CheckBuffer(object);
}

static PyObject *buffer_wrap(tenon_tensor *tensor)
{
    PyObject *object = tenon__py_tensor_new(tensor);
    PyObject *view = object ? PyMemoryView_FromObject(object) : NULL;
    Py_XDECREF(object);
    return view;
}

const tenon__py_producer tenon__py_producer_buffer = {
    .name = "memoryview",
    .recognise = buffer_recognise,
    .read = buffer_read,
    .wrap = buffer_wrap,
};
