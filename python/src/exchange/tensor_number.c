/* The numbers in a tenon.Tensor: decoding of its dtypes, int(), float() and complex() of a single number, and all of them as
 * lists. */
#include "tensor_object.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------- from bits */

/* The layout of a small floating-point format. */
typedef struct float_format {
    uint8_t exponent_bits, mantissa_bits;
    int16_t bias;
    enum { IEEE, ONE_NAN, NEGATIVE_ZERO_IS_NAN, ALL_NUMBERS } specials;
} float_format;

/* False if the dtype is not such a format. */
static bool find_format(tenon_dtype dtype, int bits, float_format *out)
{
    static const float_format formats[] = {
        [TENON_CODE_BFLOAT] = {8, 7, 127, IEEE},         [TENON_CODE_F8_E3M4] = {3, 4, 3, IEEE},
        [TENON_CODE_F8_E4M3] = {4, 3, 7, IEEE},          [TENON_CODE_F8_E4M3B11FNUZ] = {4, 3, 11, NEGATIVE_ZERO_IS_NAN},
        [TENON_CODE_F8_E4M3FN] = {4, 3, 7, ONE_NAN},     [TENON_CODE_F8_E4M3FNUZ] = {4, 3, 8, NEGATIVE_ZERO_IS_NAN},
        [TENON_CODE_F8_E5M2] = {5, 2, 15, IEEE},         [TENON_CODE_F8_E5M2FNUZ] = {5, 2, 16, NEGATIVE_ZERO_IS_NAN},
        [TENON_CODE_F6_E2M3FN] = {2, 3, 1, ALL_NUMBERS}, [TENON_CODE_F6_E3M2FN] = {3, 2, 3, ALL_NUMBERS},
        [TENON_CODE_F4_E2M1FN] = {2, 1, 1, ALL_NUMBERS},
    };
    static const float_format half = {5, 10, 15, IEEE};
    bool is_half = (dtype.code == TENON_CODE_FLOAT || dtype.code == TENON_CODE_COMPLEX) && bits == 16;
    if (!is_half && (dtype.code >= sizeof formats / sizeof *formats || !formats[dtype.code].exponent_bits))
        return false;
    *out = is_half ? half : formats[dtype.code];
    return true;
}

static double decode(const float_format *format, uint64_t bits)
{
    int width = format->mantissa_bits;
    int mantissa = (int)(bits & ((1u << width) - 1)),
        exponent = (int)(bits >> width & ((1u << format->exponent_bits) - 1));
    bool negative = bits >> (width + format->exponent_bits) & 1;
    int all = (1 << format->exponent_bits) - 1;
    if (format->specials == NEGATIVE_ZERO_IS_NAN && negative && !mantissa && !exponent)
        return NAN;
    if (format->specials == ONE_NAN && exponent == all && mantissa == (1 << width) - 1)
        return NAN;
    if (format->specials == IEEE && exponent == all && mantissa)
        return NAN;
    double value = format->specials == IEEE && exponent == all ? INFINITY
                   : exponent ? ldexp((1 << width) + mantissa, exponent - format->bias - width)
                              : ldexp(mantissa, 1 - format->bias - width);
    return negative ? -value : value;
}

int tenon__py_decode_float(tenon_dtype dtype, int bits, uint64_t value, double *out)
{
    float_format format;
    if (find_format(dtype, bits, &format)) {
        *out = decode(&format, value);
        return format.mantissa_bits + 1;
    }
    if (dtype.code == TENON_CODE_F8_E8M0FNU) {
        *out = value == 0xff ? NAN : ldexp(1, (int)value - 127);
        return 24;
    }
    bool is_float = dtype.code == TENON_CODE_FLOAT || dtype.code == TENON_CODE_COMPLEX;
    if (is_float && bits == 32) {
        uint32_t narrow = (uint32_t)value;
        float single;
        memcpy(&single, &narrow, sizeof single);
        *out = single;
        return 24;
    }
    if (is_float && bits == 64) {
        memcpy(out, &value, sizeof *out);
        return 53;
    }
    return 0;
}

int64_t tenon__py_decode_int(int bits, uint64_t value)
{
    int shift = 64 - bits;
    return (int64_t)(value << shift) >> shift;
}

uint64_t tenon__py_read_bits(const char *data, int64_t position, int bits)
{
    const unsigned char *byte = (const unsigned char *)data + (position >> 3);
    uint64_t value = 0;
    if (bits == 64) {
        memcpy(&value, byte, 8);
    } else if (bits == 32) {
        uint32_t part;
        memcpy(&part, byte, 4);
        value = part;
    } else if (bits == 16) {
        uint16_t part;
        memcpy(&part, byte, 2);
        value = part;
    } else {
        int first = (int)(position & 7);
        value = byte[0];
        if (first + bits > 8)
            value |= (uint64_t)byte[1] << 8;
        value = value >> first & ((1u << bits) - 1);
    }
    return value;
}

bool tenon__py_is_readable(const tenon_view *view)
{
    /* Managed memory must not be read while the GPU works on it. */
    int32_t type = view->device.device_type;
    return type == TENON_CPU || type == TENON_CUDA_HOST || type == TENON_ROCM_HOST;
}

/* ------------------------------------------------------------------------------------------------------ conversion */

/* Whether the elements can be read; otherwise there is an exception. */
static bool check_readable(const tenon_view *view)
{
    if (tenon__py_is_readable(view))
        return true;
    char device[64];
    tenon__py_device_name(view->device, device, sizeof device);
    PyErr_Format(PyExc_TypeError,
                 "tenon.Tensor: memory on %s cannot be read as a number; copy it to the CPU with its framework first",
                 device);
    return false;
}

/* The view if it is of a single number that can be read; NULL with an exception. */
static const tenon_view *view_of_number(PyObject *self)
{
    const tenon_view *view = tenon_tensor_view(tenon__py_alive(self));
    if (!view)
        return NULL;
    if (view->ndim > 0) {
        PyErr_Format(PyExc_TypeError,
                     "tenon.Tensor: only a tensor without dimensions can be converted to a number, and this one has "
                     "%d; index it first, as in x[0]",
                     (int)view->ndim);
        return NULL;
    }
    return check_readable(view) ? view : NULL;
}

/* The element `offset` items after the first as a bool, an int, a float or a complex; NULL with an exception. */
static PyObject *number_at(const tenon_view *view, int64_t offset)
{
    tenon_dtype dtype = view->dtype;
    bool is_complex = dtype.code == TENON_CODE_COMPLEX;
    int bits = is_complex ? dtype.bits / 2 : dtype.bits;
    if (dtype.lanes == 1 && bits <= 64) {
        double real, imaginary;
        int64_t position = offset * tenon_view_item_bits(view);
        uint64_t value = tenon__py_read_bits(view->data, position, bits);
        if (tenon__py_decode_float(dtype, bits, value, &real)) {
            if (!is_complex)
                return PyFloat_FromDouble(real);
            tenon__py_decode_float(dtype, bits, tenon__py_read_bits(view->data, position + bits, bits), &imaginary);
            return PyComplex_FromDoubles(real, imaginary);
        }
        if (dtype.code == TENON_CODE_BOOL)
            return PyBool_FromLong(value != 0);
        if (dtype.code == TENON_CODE_INT)
            return PyLong_FromLongLong(tenon__py_decode_int(bits, value));
        if (dtype.code == TENON_CODE_UINT)
            return PyLong_FromUnsignedLongLong(value);
    }
    char name[64];
    tenon_dtype_format(dtype, name, sizeof name);
    PyErr_Format(PyExc_TypeError, "tenon.Tensor: Python has no number type for %s", name);
    return NULL;
}

/* The only element; NULL with an exception. */
static PyObject *python_number(PyObject *self)
{
    const tenon_view *view = view_of_number(self);
    return view ? number_at(view, 0) : NULL;
}

/* The elements at `offset`, along the dimensions from `dim` on, as lists in lists. */
static PyObject *list_at(const tenon_view *view, int32_t dim, int64_t offset)
{
    if (dim == view->ndim)
        return number_at(view, offset);
    PyObject *list = PyList_New((Py_ssize_t)view->shape[dim]);
    for (int64_t i = 0; list && i < view->shape[dim]; i++) {
        /* Unsigned: the strides of an empty tensor are arbitrary, and the sum may overflow. No element is read there. */
        uint64_t at = (uint64_t)offset + (uint64_t)i * (uint64_t)view->strides[dim];
        PyObject *item = list_at(view, dim + 1, (int64_t)at);
        if (!item) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SetItem(list, (Py_ssize_t)i, item);
    }
    return list;
}

PyObject *tenon__py_tensor_tolist(PyObject *self, PyObject *unused)
{
    (void)unused;
    tenon_tensor *tensor = tenon__py_alive(self);
    const tenon_view *view = tenon_tensor_view(tensor);
    if (!view || !check_readable(view))
        return NULL;
    tenon_tensor_retain(tensor); /* the garbage collector may run code that ends it */
    PyObject *list = list_at(view, 0, 0);
    tenon_tensor_release(tensor);
    return list;
}

PyObject *tenon__py_tensor_only_item(PyObject *self, PyObject *unused)
{
    (void)unused;
    const tenon_view *view = tenon_tensor_view(tenon__py_alive(self));
    if (!view)
        return NULL;
    if (view->numel != 1)
        return PyErr_Format(PyExc_ValueError,
                            "tenon.Tensor.item(): only a tensor with one element can be converted, and this one has "
                            "%lld; use tolist(), or index it first",
                            (long long)view->numel);
    return check_readable(view) ? number_at(view, 0) : NULL;
}

/* Convert the number with `to_number`. NULL with an exception, also for a complex number and, with `only_ints`, for any
 * number that is not an int. */
static PyObject *convert_number(PyObject *self, PyObject *(*to_number)(PyObject *number), bool only_ints,
                                const char *wanted)
{
    PyObject *number = python_number(self), *result = NULL;
    if (!number)
        return NULL;
    bool is_int = PyLong_Check(number) && !PyBool_Check(number);
    if (PyComplex_Check(number) || (only_ints && !is_int)) {
        char name[64];
        tenon_dtype_format(tenon_tensor_view(tenon__py_alive(self))->dtype, name, sizeof name);
        PyErr_Format(PyExc_TypeError, "tenon.Tensor: a number of dtype %s cannot be used as %s", name, wanted);
    } else {
        result = to_number(number);
    }
    Py_DECREF(number);
    return result;
}

PyObject *tenon__py_tensor_int(PyObject *self)
{
    return convert_number(self, PyNumber_Long, false, "an int");
}

PyObject *tenon__py_tensor_float(PyObject *self)
{
    return convert_number(self, PyNumber_Float, false, "a float");
}

PyObject *tenon__py_tensor_index_value(PyObject *self)
{
    return convert_number(self, PyNumber_Long, true, "an index");
}

PyObject *tenon__py_tensor_complex(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *number = python_number(self);
    if (!number || PyComplex_Check(number))
        return number;
    double real = PyFloat_AsDouble(number);
    Py_DECREF(number);
    return real == -1 && PyErr_Occurred() ? NULL : PyComplex_FromDoubles(real, 0);
}

/* Only a bool has a truth value. For other dtypes, `if x` is usually a mistake for `if x is not None`. */
int tenon__py_tensor_bool(PyObject *self)
{
    const tenon_view *view = tenon_tensor_view(tenon__py_alive(self));
    if (!view)
        return -1;
    if (view->ndim > 0 || view->dtype.code != TENON_CODE_BOOL || view->dtype.lanes != 1) {
        PyErr_SetString(PyExc_TypeError, "tenon.Tensor has no truth value; use `x is not None` or `x.size > 0`");
        return -1;
    }
    PyObject *number = python_number(self);
    int truth = number ? number == Py_True : -1;
    Py_XDECREF(number);
    return truth;
}
