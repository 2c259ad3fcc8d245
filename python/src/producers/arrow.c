/* Arrow's C data interface: arrays without nulls, of numbers or of lists of numbers that all have the same length. A stream is
 * taken if it has one array: a chunked array of one chunk, a Series of pandas or polars. */
#include "../internal.h"

#include <stdlib.h>
#include <string.h>

/* The three structs are Arrow's ABI. */
typedef struct arrow_schema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct arrow_schema **children;
    struct arrow_schema *dictionary;
    void (*release)(struct arrow_schema *schema);
    void *private_data;
} arrow_schema;

typedef struct arrow_array {
    int64_t length;
    int64_t null_count; /* -1: not counted */
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers; /* the first is the bitmap of what is valid, or NULL: all is */
    struct arrow_array **children;
    struct arrow_array *dictionary;
    void (*release)(struct arrow_array *array); /* NULL: it is released, or the stream has ended */
    void *private_data;
} arrow_array;

typedef struct arrow_stream {
    int (*get_schema)(struct arrow_stream *stream, arrow_schema *out);
    int (*get_next)(struct arrow_stream *stream, arrow_array *out);
    const char *(*get_last_error)(struct arrow_stream *stream);
    void (*release)(struct arrow_stream *stream);
    void *private_data;
} arrow_stream;

_Static_assert(sizeof(arrow_schema) == 72 && sizeof(arrow_array) == 80 && sizeof(arrow_stream) == 40, "Arrow's ABI");

/* ----------------------------------------------------------------------------------------------------------- numbers */

/* 0, or -1 with a TypeError. */
static int arrow_dtype(PyObject *object, const char *format, tenon_dtype *out)
{
    static const struct {
        char letter;
        uint8_t code, bits;
    } numbers[] = {{'c', TENON_CODE_INT, 8},    {'C', TENON_CODE_UINT, 8},  {'s', TENON_CODE_INT, 16},
                   {'S', TENON_CODE_UINT, 16},  {'i', TENON_CODE_INT, 32},  {'I', TENON_CODE_UINT, 32},
                   {'l', TENON_CODE_INT, 64},   {'L', TENON_CODE_UINT, 64}, {'e', TENON_CODE_FLOAT, 16},
                   {'f', TENON_CODE_FLOAT, 32}, {'g', TENON_CODE_FLOAT, 64}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        *out = tenon_dtype_of(numbers[i].code, numbers[i].bits, 1);
        if (format[0] == numbers[i].letter && format[1] == '\0')
            return 0;
    }
    const char *why = format[0] == '+' && format[1] == 's' ? "a table has no single dtype; pass one of its columns"
                      : strcmp(format, "b") == 0
                          ? "its booleans are single bits, which DLPack has no dtype for; convert "
                            "them to 8-bit integers"
                      : format[0] == 't' ? "dates and times have no DLPack dtype; convert them to 64-bit integers"
                                         : NULL;
    return why ? tenon__py_complain(PyExc_TypeError, object, "%s", why)
               : tenon__py_complain(PyExc_TypeError, object, "its Arrow format '%s' has no DLPack dtype", format);
}

static bool arrow_has_nulls(const arrow_array *array)
{
    const uint8_t *valid = array->n_buffers > 0 && array->buffers ? array->buffers[0] : NULL;
    if (!valid || array->null_count == 0)
        return false;
    for (int64_t i = array->offset; i < array->offset + array->length; i++)
        if (!(valid[i / 8] >> i % 8 & 1))
            return true;
    return false;
}

/* So that the place of an element, of at most 8 bytes, can be counted in bytes. */
#define MOST_ELEMENTS (INT64_MAX / 8)

/* One level: an array, or one of its list's. 0, or -1 with an exception. */
static int arrow_check(PyObject *object, const arrow_schema *schema, const arrow_array *array)
{
    if (!schema->format || array->length < 0 || array->offset < 0 || array->offset > MOST_ELEMENTS ||
        array->length > MOST_ELEMENTS)
        return tenon__py_complain(PyExc_BufferError, object, "its Arrow array is not valid");
    if (schema->dictionary || array->dictionary)
        return tenon__py_complain(PyExc_TypeError, object,
                                  "a dictionary array holds indices instead of its values; decode it first");
    if (arrow_has_nulls(array))
        return tenon__py_complain(
            PyExc_ValueError, object,
            "it has nulls, which no tensor can hold; fill them first, as in x.fill_null(0) or x.fillna(0)");
    return 0;
}

/* "+w:3": the length of each list; 0: the format is another one. */
static int64_t arrow_list_size(const char *format)
{
    char *end = NULL;
    long long size = strncmp(format, "+w:", 3) == 0 ? strtoll(format + 3, &end, 10) : 0;
    return end && *end == '\0' && size > 0 ? size : 0;
}

/* ---------------------------------------------------------------------------------------------------------- reading */

/* Describe the array: one dimension, and one more for each level of lists. */
static int arrow_describe(PyObject *object, const arrow_schema *schema, const arrow_array *array,
                          tenon_py_borrowed *out)
{
    int64_t shape[TENON_MAX_NDIM], first = 0, size;
    tenon_dl_tensor source = {.device = tenon_device_of(TENON_CPU, 0), .ndim = 1, .shape = shape};
    if (arrow_check(object, schema, array) < 0)
        return -1;
    shape[0] = array->length;
    first = array->offset;
    while ((size = arrow_list_size(schema->format)) > 0 && source.ndim < TENON_MAX_NDIM && schema->n_children == 1 &&
           array->n_children == 1) {
        schema = schema->children[0];
        array = array->children[0];
        if (arrow_check(object, schema, array) < 0)
            return -1;
        if (first > (MOST_ELEMENTS - array->offset) / size)
            return tenon__py_complain(PyExc_BufferError, object, "its Arrow array is not valid");
        first = first * size + array->offset;
        shape[source.ndim++] = size;
    }
    if (arrow_dtype(object, schema->format, &source.dtype) < 0)
        return -1;
    const char *data = array->n_buffers == 2 && array->buffers ? array->buffers[1] : NULL;
    source.data = (void *)(uintptr_t)(data ? data + first * (source.dtype.bits / 8) : NULL);
    if (tenon__py_dims(out, source.ndim) < 0)
        return -1;
    return tenon__py_describe(out, &source, TENON_READ_ONLY, object);
}

/* The pointer in a capsule of that name; NULL with an exception. */
static void *arrow_inside(PyObject *object, PyObject *capsule, const char *name)
{
    if (PyCapsule_IsValid(capsule, name))
        return PyCapsule_GetPointer(capsule, name);
    tenon__py_complain(PyExc_TypeError, object, "its Arrow method gave something that is not a capsule named '%s'",
                       name);
    return NULL;
}

/* By __arrow_c_array__, whose second capsule keeps the memory. */
static int arrow_read_array(PyObject *object, PyObject *pair, tenon_py_borrowed *out)
{
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2)
        return tenon__py_complain(PyExc_TypeError, object, "its __arrow_c_array__ did not give two capsules");
    PyObject *keeper = PyTuple_GetItem(pair, 1);
    const arrow_schema *schema = arrow_inside(object, PyTuple_GetItem(pair, 0), "arrow_schema");
    const arrow_array *array = schema ? arrow_inside(object, keeper, "arrow_array") : NULL;
    if (!array)
        return -1;
    if (!schema->release || !array->release)
        return tenon__py_complain(PyExc_BufferError, object, "its Arrow array was consumed before");
    if (arrow_describe(object, schema, array, out) < 0)
        return -1;
    Py_INCREF(keeper);
    out->held.object = keeper;
    return 0;
}

static void arrow_destroy(PyObject *capsule)
{
    arrow_array *array = PyCapsule_GetPointer(capsule, "arrow_array");
    tenon__py_scope scope = tenon__py_enter_scope();
    if (array->release)
        array->release(array);
    tenon__py_leave_scope(scope);
    free(array);
}

/* The next array of a stream, in a capsule that releases it; its `release` is NULL after the last. NULL with an exception. */
static PyObject *arrow_next(PyObject *object, arrow_stream *stream, arrow_array **out)
{
    *out = calloc(1, sizeof **out);
    PyObject *capsule = *out ? PyCapsule_New(*out, "arrow_array", arrow_destroy) : PyErr_NoMemory();
    if (!capsule) {
        free(*out);
        return NULL;
    }
    if (stream->get_next(stream, *out) == 0 && !PyErr_Occurred())
        return capsule;
    (*out)->release = NULL; /* a stream that failed gives nothing */
    const char *why = stream->get_last_error(stream);
    if (!PyErr_Occurred())
        tenon__py_complain(PyExc_BufferError, object, "its Arrow stream failed: %s", why ? why : "no reason given");
    Py_DECREF(capsule);
    return NULL;
}

/* Whether the stream is at its end: 1, 0, or -1 with an exception. */
static int arrow_has_ended(PyObject *object, arrow_stream *stream)
{
    arrow_array *array;
    PyObject *capsule = arrow_next(object, stream, &array);
    int ended = capsule ? array->release == NULL : -1;
    Py_XDECREF(capsule);
    return ended;
}

/* By __arrow_c_stream__, if it has one array. */
static int arrow_read_stream(PyObject *object, PyObject *source, tenon_py_borrowed *out)
{
    arrow_stream *stream = arrow_inside(object, source, "arrow_array_stream");
    arrow_schema schema = {.release = NULL};
    arrow_array *array;
    if (!stream)
        return -1;
    if (!stream->release)
        return tenon__py_complain(PyExc_BufferError, object, "its Arrow stream was consumed before");
    PyObject *keeper = arrow_next(object, stream, &array);
    if (!keeper)
        return -1;
    int ended = array->release ? arrow_has_ended(object, stream) : 1, result = -1;
    if (ended == 0)
        tenon__py_complain(PyExc_ValueError, object,
                           "it has more than one chunk, which a tensor cannot share; combine them first, as in "
                           "x.combine_chunks() or x.rechunk()");
    if (ended == 1 && stream->get_schema(stream, &schema) != 0)
        tenon__py_complain(PyExc_BufferError, object, "its Arrow stream did not tell its type");
    else if (ended == 1)
        result = arrow_describe(object, &schema, array, out);
    if (schema.release)
        schema.release(&schema);
    out->held.object = keeper;
    if (result < 0)
        Py_DECREF(keeper);
    return result;
}

/* object.name(), or 0 and NULL if it has no such method; -1 with an exception. */
static int arrow_call(PyObject *object, const char *name, PyObject **out)
{
    PyObject *method;
    *out = NULL;
    int found = tenon__py_attribute(object, name, &method);
    if (found < 1)
        return found;
    *out = PyObject_CallObject(method, NULL);
    Py_DECREF(method);
    if (!*out && tenon__py_is_refusal())
        tenon__py_refused(object, NULL);
    return *out ? 1 : -1;
}

static int arrow_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request, tenon_py_borrowed *out)
{
    (void)kind;
    (void)request;
    PyObject *given;
    int found = arrow_call(object, "__arrow_c_array__", &given), result = 1;
    if (found == 1)
        result = arrow_read_array(object, given, out);
    else if (found == 0 && (found = arrow_call(object, "__arrow_c_stream__", &given)) == 1)
        result = arrow_read_stream(object, given, out);
    out->holds = TENON__PY_HOLDS_OBJECT;
    Py_XDECREF(given);
    return found < 0 ? -1 : result;
}

/* Arrow's memory is immutable, even if a legacy capsule of DLPack cannot say so. What has a buffer says itself what it is. */
static int arrow_recognise(PyObject *object, tenon__py_kind *kind)
{
    static const char *const names[] = {"__arrow_c_array__", "__arrow_c_stream__"};
    for (int i = 0; i < 2; i++) {
        PyObject *method;
        int found = tenon__py_attribute((PyObject *)Py_TYPE(object), names[i], &method);
        if (found < 0)
            return -1;
        if (!found)
            continue;
        Py_DECREF(method);
        kind->is_immutable |= !kind->owner && !PyObject_CheckBuffer(object);
        return 1;
    }
    return 0;
}

const tenon__py_producer tenon__py_producer_arrow = {.recognise = arrow_recognise, .read = arrow_read};
