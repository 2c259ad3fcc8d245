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

/* So that the place of an element, of at most 8 bytes, can be counted in bytes. */
#define MOST_ELEMENTS (INT64_MAX / 8)

_Static_assert(sizeof(arrow_schema) == 72 && sizeof(arrow_array) == 80 && sizeof(arrow_stream) == 40, "Arrow's ABI");

/* ------------------------------------------------------------------------------------------------------------ types */

static int arrow_invalid(PyObject *object)
{
    return tenon__py_set_error(PyExc_BufferError, object, "its Arrow array is not valid");
}

/* A format without a dtype. Returns -1. */
static int arrow_refuse_format(PyObject *object, const char *format)
{
    const char *why =
        format[0] == '+' && format[1] == 's' ? "a table or struct has no single dtype; pass one of its columns"
        : strcmp(format, "b") == 0           ? "its booleans are single bits, which DLPack has no dtype for; convert "
                                               "them to 8-bit integers"
        : format[0] == 't'                   ? "dates and times have no DLPack dtype; convert them to 64-bit integers"
                                             : NULL;
    return why ? tenon__py_set_error(PyExc_TypeError, object, "%s", why)
               : tenon__py_set_error(PyExc_TypeError, object, "its Arrow format '%s' has no DLPack dtype", format);
}

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
    return arrow_refuse_format(object, format);
}

/* "+w:3": the length of each list; -1: the format is another one. */
static int64_t arrow_list_size(const char *format)
{
    char *end = NULL;
    long long size = strncmp(format, "+w:", 3) == 0 ? strtoll(format + 3, &end, 10) : -1;
    return end && end > format + 3 && *end == '\0' && size >= 0 && size < MOST_ELEMENTS ? size : -1;
}

/* Whether the metadata, a number of pairs of strings with their lengths, names an extension type. */
static bool arrow_is_extension(const char *metadata)
{
    static const char key[] = "ARROW:extension:name";
    int32_t pairs = 0, length;
    if (metadata)
        memcpy(&pairs, metadata, sizeof pairs), metadata += sizeof pairs;
    for (int64_t i = 0; i < 2 * (int64_t)pairs; i++) {
        memcpy(&length, metadata, sizeof length);
        metadata += sizeof length;
        if (i % 2 == 0 && length == (int32_t)strlen(key) && memcmp(metadata, key, strlen(key)) == 0)
            return true;
        metadata += length > 0 ? length : 0;
    }
    return false;
}

/* What an array's type says: its dtype, and one more dimension for each level of lists. 0, or -1 with an exception. */
static int arrow_read_type(PyObject *object, const arrow_schema *schema, tenon_dl_tensor *out)
{
    for (out->ndim = 1;; out->ndim++) {
        if (!schema || !schema->format)
            return arrow_invalid(object);
        if (schema->dictionary)
            return tenon__py_set_error(PyExc_TypeError, object,
                                       "a dictionary array holds indices instead of its values; decode it first");
        if (arrow_is_extension(schema->metadata))
            return tenon__py_set_error(PyExc_TypeError, object,
                                       "it has an extension type, which gives its numbers another meaning; pass its "
                                       "storage, as in x.storage");
        int64_t size = arrow_list_size(schema->format);
        if (size < 0)
            return arrow_dtype(object, schema->format, &out->dtype);
        if (out->ndim == TENON_MAX_NDIM)
            return tenon__py_set_error(PyExc_TypeError, object, "its lists have more than %d levels",
                                       TENON_MAX_NDIM - 1);
        if (schema->n_children != 1 || !schema->children)
            return arrow_invalid(object);
        out->shape[out->ndim] = size;
        schema = schema->children[0];
    }
}

/* ----------------------------------------------------------------------------------------------------------- arrays */

/* Whether one of `count` values from `first` on is null; -1: the array is not valid. */
static int arrow_has_nulls(const arrow_array *array, int64_t first, int64_t count)
{
    const uint8_t *valid = array->n_buffers > 0 && array->buffers ? array->buffers[0] : NULL;
    if (array->null_count < -1 || array->null_count > array->length || (array->null_count > 0 && !valid))
        return -1;
    for (int64_t i = first; array->null_count != 0 && valid && i < first + count; i++)
        if (!(valid[i / 8] >> i % 8 & 1))
            return 1;
    return 0;
}

/* Find the memory of an array of that type: the first of its values, all of which are in the array and not null. */
static int arrow_find_data(PyObject *object, const arrow_array *array, tenon_dl_tensor *out)
{
    int64_t first = 0, count = array->length; /* in the array at this level, without its offset */
    out->shape[0] = count;
    for (int32_t level = 1;; level++) {
        if (!array || array->length < 0 || array->offset < 0 || array->dictionary || array->length > MOST_ELEMENTS ||
            first > array->length - count || array->offset > MOST_ELEMENTS - first)
            return arrow_invalid(object);
        first += array->offset;
        int nulls = arrow_has_nulls(array, first, count);
        if (nulls < 0)
            return arrow_invalid(object);
        if (nulls)
            return tenon__py_set_error(PyExc_ValueError, object,
                                       "it has nulls, which no tensor can hold; fill them first, as "
                                       "in x.fill_null(0) or x.fillna(0)");
        if (level == out->ndim)
            break;
        int64_t size = out->shape[level];
        if (array->n_children != 1 || !array->children || (size && first + count > MOST_ELEMENTS / size))
            return arrow_invalid(object);
        first *= size;
        count *= size;
        array = array->children[0];
    }
    if (array->n_buffers != 2 || !array->buffers)
        return arrow_invalid(object);
    uintptr_t data = (uintptr_t)array->buffers[1];
    uint64_t skipped = (uint64_t)first * (out->dtype.bits / 8u);
    if (skipped > UINTPTR_MAX - data)
        return arrow_invalid(object);
    out->data = (void *)(data ? data + (uintptr_t)skipped : 0);
    return 0;
}

/* Describe the array; NULL: a stream without one, which has no values. */
static int arrow_describe(PyObject *object, const arrow_schema *schema, const arrow_array *array,
                          tenon_py_borrowed *out)
{
    int64_t shape[TENON_MAX_NDIM] = {0};
    tenon_dl_tensor source = {.device = tenon_device_of(TENON_CPU, 0), .shape = shape};
    if (arrow_read_type(object, schema, &source) < 0 || (array && arrow_find_data(object, array, &source) < 0))
        return -1;
    return tenon__py_make_view(object, &source, TENON__PY_ELEMENTS, TENON_READ_ONLY, out);
}

/* The pointer in a capsule of that name; NULL with an exception. */
static void *arrow_inside(PyObject *object, PyObject *capsule, const char *name)
{
    if (PyCapsule_IsValid(capsule, name))
        return PyCapsule_GetPointer(capsule, name);
    tenon__py_set_error(PyExc_TypeError, object, "its Arrow method returned something that is not a capsule named '%s'",
                        name);
    return NULL;
}

/* By __arrow_c_array__, whose second capsule keeps the memory. */
static int arrow_read_array(PyObject *object, PyObject *pair, tenon_py_borrowed *out)
{
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2)
        return tenon__py_set_error(PyExc_TypeError, object, "its __arrow_c_array__ did not return two capsules");
    PyObject *keeper = PyTuple_GetItem(pair, 1);
    const arrow_schema *schema = arrow_inside(object, PyTuple_GetItem(pair, 0), "arrow_schema");
    const arrow_array *array = schema ? arrow_inside(object, keeper, "arrow_array") : NULL;
    if (!array)
        return -1;
    if (!schema->release || !array->release)
        return tenon__py_set_error(PyExc_BufferError, object, "its Arrow array has already been consumed");
    if (arrow_describe(object, schema, array, out) < 0)
        return -1;
    Py_INCREF(keeper);
    out->private_.held.object = keeper;
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------- streams */

static void arrow_destroy(PyObject *capsule)
{
    arrow_array *array = PyCapsule_GetPointer(capsule, "arrow_array");
    tenon__py_scope scope = tenon__py_enter_scope();
    if (array->release)
        array->release(array);
    tenon__py_leave_scope(scope);
    free(array);
}

/* A function of the stream failed. Returns -1. */
static int arrow_failed(PyObject *object, arrow_stream *stream)
{
    const char *why = stream->get_last_error ? stream->get_last_error(stream) : NULL;
    if (!PyErr_Occurred())
        tenon__py_set_error(PyExc_BufferError, object, "its Arrow stream failed: %s", why ? why : "no reason given");
    return -1;
}

/* The next array of a stream, in a capsule that releases it; its `release` is NULL after the last. NULL with an exception. */
static PyObject *arrow_next(PyObject *object, arrow_stream *stream, arrow_array **out)
{
    arrow_array *array = calloc(1, sizeof *array);
    if (!array)
        return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(array, "arrow_array", arrow_destroy);
    if (!capsule) {
        free(array);
        return NULL;
    }
    *out = array;
    int status = stream->get_next(stream, array);
    if (status == 0 && !PyErr_Occurred())
        return capsule;
    if (status != 0)
        array->release = NULL; /* a function that failed gives nothing */
    arrow_failed(object, stream);
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

/* The only array of a stream of that type. */
static int arrow_read_only_one(PyObject *object, arrow_stream *stream, const arrow_schema *schema,
                               tenon_py_borrowed *out)
{
    arrow_array *array;
    PyObject *keeper = arrow_next(object, stream, &array);
    if (!keeper)
        return -1;
    bool has_one = array->release;
    int ended = has_one ? arrow_has_ended(object, stream) : 1;
    if (ended == 0)
        tenon__py_set_error(PyExc_ValueError, object,
                            "it has more than one chunk, which a tensor cannot share; combine them first, as in "
                            "x.combine_chunks() or x.rechunk()");
    int result = ended == 1 ? arrow_describe(object, schema, has_one ? array : NULL, out) : -1;
    out->private_.held.object = keeper;
    if (result < 0)
        Py_DECREF(keeper);
    return result;
}

/* By __arrow_c_stream__, if it has one array at most. A type that is refused leaves the stream as it was. */
static int arrow_read_stream(PyObject *object, PyObject *source, tenon_py_borrowed *out)
{
    arrow_stream *stream = arrow_inside(object, source, "arrow_array_stream");
    arrow_schema schema = {.release = NULL};
    int64_t shape[TENON_MAX_NDIM];
    tenon_dl_tensor type = {.shape = shape};
    if (!stream)
        return -1;
    if (!stream->release)
        return tenon__py_set_error(PyExc_BufferError, object, "its Arrow stream has already been consumed");
    if (!stream->get_schema || !stream->get_next)
        return arrow_invalid(object);
    if (stream->get_schema(stream, &schema) != 0)
        return arrow_failed(object, stream);
    if (!schema.release)
        return PyErr_Occurred() ? -1 : arrow_invalid(object);
    int result = PyErr_Occurred() ? -1 : arrow_read_type(object, &schema, &type);
    if (result == 0)
        result = arrow_read_only_one(object, stream, &schema, out);
    tenon__py_scope scope = tenon__py_enter_scope();
    schema.release(&schema);
    tenon__py_leave_scope(scope);
    return result;
}

/* ---------------------------------------------------------------------------------------------------------- reading */

/* object.name(), or 0 and NULL if it has no such method; -1 with an exception. */
static int arrow_call(PyObject *object, const char *name, PyObject **out)
{
    PyObject *method;
    *out = NULL;
    int found = tenon__py_attribute(object, name, &method);
    if (found < 1)
        return found;
    bool is_method = method != Py_None;
    *out = is_method ? PyObject_CallObject(method, NULL) : NULL;
    Py_DECREF(method);
    if (is_method && !*out && tenon__py_is_refusal())
        tenon__py_refused(object, NULL);
    return *out ? 1 : is_method ? -1 : 0;
}

static int arrow_ask(PyObject *object, tenon_py_borrowed *out)
{
    PyObject *given;
    int found = arrow_call(object, "__arrow_c_array__", &given), result = 1;
    if (found == 1)
        result = arrow_read_array(object, given, out);
    else if (found == 0 && (found = arrow_call(object, "__arrow_c_stream__", &given)) == 1)
        result = arrow_read_stream(object, given, out);
    out->private_.holds = TENON__PY_HOLDS_OBJECT;
    tenon__py_scope scope = tenon__py_enter_scope();
    Py_XDECREF(given);
    tenon__py_leave_scope(scope);
    return found < 0 ? -1 : result;
}

/* Whether the memory is a copy that is made on each request, as pandas does for what is not one block. Asked
 * while the first is held, so that it cannot come back by chance. -1 with an exception. */
static int arrow_is_copy(PyObject *object, const tenon_py_borrowed *first)
{
    tenon_py_borrowed second;
    int result = first->view.numel > 0 ? arrow_ask(object, &second) : 1;
    tenon__py_clear_ignorable_error(); /* what gives its memory only once cannot be asked */
    if (result != 0)
        return PyErr_Occurred() ? -1 : 0;
    bool is_copy = second.view.data != first->view.data;
    tenon__py_free_dims(&second);
    tenon__py_give_back(&second, object);
    return is_copy;
}

static int arrow_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request, tenon_py_borrowed *out)
{
    (void)kind;
    (void)request;
    int result = arrow_ask(object, out);
    if (result != 0)
        return result;
    int is_copy = arrow_is_copy(object, out);
    if (is_copy == 0)
        return 0;
    if (is_copy > 0)
        tenon__py_set_error(
            PyExc_BufferError, object,
            "its Arrow data is a copy that is made on each request, not its own memory; pass x.to_numpy()");
    tenon__py_free_dims(out);
    tenon__py_give_back(out, object);
    return -1;
}

/* Arrow's memory is immutable, even if a legacy capsule of DLPack cannot say so. An object with a buffer reports that
 * itself. */
static int arrow_recognise(PyObject *object, tenon__py_kind *kind)
{
    static const char *const names[] = {"__arrow_c_array__", "__arrow_c_stream__"};
    bool found = false;
    for (int i = 0; i < 2; i++) {
        PyObject *method = NULL;
        if (tenon__py_attribute((PyObject *)Py_TYPE(object), names[i], &method) < 0)
            return -1;
        found |= method && method != Py_None;
        Py_XDECREF(method);
    }
    kind->is_immutable |= found && !kind->owner && !PyObject_CheckBuffer(object);
    return found;
}

const tenon__py_producer tenon__py_producer_arrow = {.recognise = arrow_recognise, .read = arrow_read};
