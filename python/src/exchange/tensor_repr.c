/* repr() of a tenon.Tensor: its type, and some of its values. */
#include "tensor_object.h"

#include <math.h>
#include <string.h>

void tenon__py_device_name(tenon_device device, char *buffer, size_t size)
{
    if (device.device_type == TENON_CPU && device.device_id == 0)
        PyOS_snprintf(buffer, size, "cpu");
    else
        tenon_device_format(device, buffer, size);
}

/* A string of limited length. Whatever no longer fits is replaced by a single "...". */
typedef struct shown {
    char text[2000];
    size_t length;
    bool full;
} shown;

static void show(shown *out, const char *text)
{
    enum { KEPT_FREE = 80 }; /* for the dots and the closing brackets */
    size_t length = strlen(text);
    if (out->full)
        return;
    if (out->length + length >= sizeof out->text - KEPT_FREE) {
        out->full = true;
        text = "...";
        length = 3;
    }
    memcpy(out->text + out->length, text, length + 1);
    out->length += length;
}

/* Append a closing bracket. There is room for one per dimension. */
static void show_end(shown *out, char bracket)
{
    if (out->length + 1 < sizeof out->text) {
        out->text[out->length++] = bracket;
        out->text[out->length] = '\0';
    }
}

/* --------------------------------------------------------------------------------------------------------- numbers */

/* Append the shortest decimal number that identifies the value among those with so many significant bits; a whole
 * number is written in full. */
static void show_float(shown *out, double value, int significant)
{
    int exponent;
    bool finite = isfinite(value), whole = fabs(value) < 1e16 && value == (double)(int64_t)value;
    double fraction = finite ? frexp(value, &exponent) : 0;
    double near = finite ? ldexp(fabs(fraction) == 0.5 ? 0.25 : 0.5, exponent - significant) : 0;
    for (int digits = 1; digits < 17 && significant < 53 && finite && !whole; digits++) {
        char *text = PyOS_double_to_string(value, 'g', digits, 0, NULL);
        double read = text ? PyOS_string_to_double(text, NULL, NULL) : value;
        PyMem_Free(text);
        if (fabs(read - value) < near || read == value) {
            value = read;
            break;
        }
    }
    char *text = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    show(out, text ? text : "?");
    PyMem_Free(text);
    PyErr_Clear(); /* a repr that lacks a number is better than an exception */
}

/* Append one number of a dtype without lanes, given its bits; for a complex one, one of its halves. */
static void show_number(shown *out, tenon_dtype dtype, int bits, uint64_t value)
{
    char text[40];
    double number;
    int significant = tenon__py_decode_float(dtype, bits, value, &number);
    if (significant) {
        show_float(out, number, significant);
        return;
    }
    if (dtype.code == TENON_CODE_BOOL)
        PyOS_snprintf(text, sizeof text, "%s", value ? "True" : "False");
    else if (dtype.code == TENON_CODE_INT)
        PyOS_snprintf(text, sizeof text, "%lld", (long long)tenon__py_decode_int(bits, value));
    else if (dtype.code == TENON_CODE_UINT)
        PyOS_snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    else
        PyOS_snprintf(text, sizeof text, "0x%llx", (unsigned long long)value);
    show(out, text);
}

/* Append the number at a bit of the memory. */
static void show_at(shown *out, tenon_dtype dtype, const char *data, int64_t position)
{
    int bits = dtype.bits;
    if (dtype.code == TENON_CODE_COMPLEX) {
        bits /= 2;
        shown imaginary = {.length = 0};
        show(out, "(");
        show_number(out, dtype, bits, tenon__py_read_bits(data, position, bits));
        show_number(&imaginary, dtype, bits, tenon__py_read_bits(data, position + bits, bits));
        show(out, imaginary.text[0] == '-' ? "" : "+");
        show(out, imaginary.text);
        show(out, "j)");
    } else if (bits > 64) {
        char text[40];
        const int little = 1;
        uint64_t low = tenon__py_read_bits(data, position, 64), high = tenon__py_read_bits(data, position + 64, 64);
        bool swap = !*(const char *)&little;
        PyOS_snprintf(text, sizeof text, "0x%016llx%016llx", (unsigned long long)(swap ? low : high),
                      (unsigned long long)(swap ? high : low));
        show(out, text);
    } else {
        show_number(out, dtype, bits, tenon__py_read_bits(data, position, bits));
    }
}

/* ---------------------------------------------------------------------------------------------------------- values */

static void show_element(shown *out, const tenon_view *view, int64_t offset)
{
    int64_t item = tenon_view_item_bits(view), lane = item / view->dtype.lanes;
    if (view->dtype.lanes == 1) {
        show_at(out, view->dtype, view->data, offset * item);
        return;
    }
    show(out, "(");
    for (int i = 0; i < view->dtype.lanes && !out->full; i++) {
        show(out, i ? ", " : "");
        show_at(out, view->dtype, view->data, offset * item + i * lane);
    }
    show_end(out, ')');
}

/* Append the elements at `offset`, along the dimensions from `dim` on. Of a large tensor, only those at the edges. */
static void show_values(shown *out, const tenon_view *view, int32_t dim, int64_t offset)
{
    enum { MOST_ELEMENTS = 100, EDGE = 3 };
    if (dim == view->ndim) {
        show_element(out, view, offset);
        return;
    }
    int64_t size = view->shape[dim];
    show(out, "[");
    for (int64_t i = 0; i < size && !out->full; i++) {
        show(out, i ? ", " : "");
        if (view->numel > MOST_ELEMENTS && size > 2 * EDGE && i == EDGE) {
            show(out, "..., ");
            i = size - EDGE;
        }
        show_values(out, view, dim + 1, offset + i * view->strides[dim]);
    }
    show_end(out, ']');
}

PyObject *tenon__py_tensor_repr(const tenon_view *view)
{
    bool readable = tenon__py_is_readable(view);
    char dtype[64], device[64];
    tenon_dtype_format(view->dtype, dtype, sizeof dtype);
    tenon__py_device_name(view->device, device, sizeof device);
    shown values = {.length = 0};
    if (readable && view->numel == 0)
        show(&values, view->ndim ? "[]" : "");
    else if (readable)
        show_values(&values, view, 0, 0);
    shown shape = {.length = 0};
    for (int32_t i = 0; i < view->ndim; i++) {
        char size[32];
        PyOS_snprintf(size, sizeof size, "%s%lld", i ? ", " : "", (long long)view->shape[i]);
        show(&shape, size);
    }
    return PyUnicode_FromFormat("<tenon.Tensor %s[%s] on %s%s%s%s>", dtype, shape.text, device,
                                view->flags & TENON_READ_ONLY ? ", read-only" : "", readable ? ": " : "", values.text);
}
