/* The functions of tenon/torch.h as Python functions, for the tests. A handle is an int. */
#define PY_SSIZE_T_CLEAN
#include <tenon/python.h>

#include <tenon/torch.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Raise the error of a function as an exception. torch's own errors become RuntimeErrors. */
static PyObject *raise(const tenon_error *err)
{
    if (err->status != TENON_EFAILED)
        return tenon_py_raise(err);
    PyErr_SetString(PyExc_RuntimeError, err->message);
    return NULL;
}

static tenon_torch *handle_of(PyObject *number)
{
    return PyLong_AsVoidPtr(number);
}

static PyObject *none(void)
{
    Py_INCREF(Py_None);
    return Py_None;
}

/* Export and release. */
static PyObject *hand_over(tenon_torch *tensor)
{
    PyObject *object;
    int status = tenon_torch_export(tensor, &object);
    tenon_torch_release(tensor);
    return status < 0 ? NULL : object;
}

/* ------------------------------------------------------------------------------------------------------- the object */

static PyObject *probe_info(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    tenon_torch_report report;
    tenon_torch_info(&report);
    return Py_BuildValue("{sisNsNssss}", "tier", (int)report.tier, "calls_unlocked",
                         PyBool_FromLong(report.calls_unlocked), "blobs_unlocked",
                         PyBool_FromLong(report.blobs_unlocked), "version", report.version, "missing", report.missing);
}

static PyObject *probe_take(PyObject *module, PyObject *object)
{
    (void)module;
    tenon_torch *tensor;
    return tenon_torch_import(object, &tensor) < 0 ? NULL : PyLong_FromVoidPtr(tensor);
}

static PyObject *probe_give(PyObject *module, PyObject *number)
{
    (void)module;
    PyObject *object;
    return tenon_torch_export(handle_of(number), &object) < 0 ? NULL : object;
}

/* The object of the at::Tensor of a handle, or of NULL for None. */
static PyObject *probe_by_pointer(PyObject *module, PyObject *number)
{
    tenon_error err;
    tenon_torch *out = NULL;
    void *pointer = number == Py_None ? NULL : tenon_torch_pointer(handle_of(number));
    (void)module;
    return tenon_torch_from_pointer(pointer, &out, &err) == TENON_OK ? hand_over(out) : raise(&err);
}

static PyObject *probe_retain(PyObject *module, PyObject *number)
{
    (void)module;
    return PyLong_FromVoidPtr(tenon_torch_retain(handle_of(number)));
}

static PyObject *probe_release(PyObject *module, PyObject *number)
{
    (void)module;
    tenon_torch_release(handle_of(number));
    return none();
}

static PyObject *probe_refcount(PyObject *module, PyObject *number)
{
    (void)module;
    return PyLong_FromLongLong(tenon_torch_refcount(handle_of(number)));
}

static PyObject *probe_leaked(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLongLong(tenon_torch_leaked());
}

/* round_trips(x, n): imports and exports n times, and returns the last object. */
static PyObject *probe_round_trips(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *object, *out = NULL;
    long count;
    if (!PyArg_ParseTuple(arguments, "Ol", &object, &count))
        return NULL;
    for (long i = 0; i < count; i++) {
        tenon_torch *tensor;
        if (tenon_torch_import(object, &tensor) < 0)
            return NULL;
        Py_XDECREF(out);
        out = hand_over(tensor);
        if (!out)
            return NULL;
    }
    return out;
}

/* ------------------------------------------------------------------------------------------------------ threads */

typedef struct work {
    tenon_torch *tensor;
    long count;
} work;

static void *retain_and_release(void *pointer)
{
    work *w = pointer;
    for (long i = 0; i < w->count; i++)
        tenon_torch_release(tenon_torch_retain(w->tensor));
    tenon_torch_release(w->tensor);
    return NULL;
}

/* release_elsewhere(handle, threads=1, count=0): each thread retains and releases `count` times, then drops its own
 * count, and the last one drops the caller's. This thread waits for them with the lock held. */
static PyObject *probe_release_elsewhere(PyObject *module, PyObject *arguments)
{
    (void)module;
    enum { MOST = 16 };
    PyObject *number;
    int threads = 1;
    long count = 0;
    pthread_t started[MOST];
    if (!PyArg_ParseTuple(arguments, "O|il", &number, &threads, &count))
        return NULL;
    work w = {handle_of(number), count};
    for (int i = 1; i < threads; i++)
        tenon_torch_retain(w.tensor);
    for (int i = 0; i < threads; i++)
        pthread_create(&started[i], NULL, retain_and_release, &w);
    for (int i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
    return none();
}

enum { MANY = 4096 };
static tenon_torch *late, *many[MANY];
static int nmany;
static pthread_t slow;

static void *release_slowly(void *unused)
{
    struct timespec moment = {0, 100000};
    for (int i = 0; i < nmany; i++) {
        nanosleep(&moment, NULL);
        tenon_torch_release(many[i]);
    }
    return unused;
}

static void release_late(void)
{
    tenon_torch_release(late);
    pthread_join(slow, NULL);
    printf("after the end: leaked %lld\n", (long long)tenon_torch_leaked());
    fflush(stdout);
}

/* release_past_the_end(handle, list): releases the handle after Python has ended, and those of the list one by one
 * while it ends. */
static PyObject *probe_release_past_the_end(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *number, *list;
    if (!PyArg_ParseTuple(args, "OO!", &number, &PyList_Type, &list))
        return NULL;
    late = handle_of(number);
    for (nmany = 0; nmany < MANY && nmany < PyList_Size(list); nmany++)
        many[nmany] = handle_of(PyList_GetItem(list, nmany));
    atexit(release_late);
    if (pthread_create(&slow, NULL, release_slowly, NULL) != 0)
        return PyErr_Format(PyExc_RuntimeError, "no thread");
    return none();
}

/* ----------------------------------------------------------------------------------------------------------- memory */

static PyObject *tuple_of(int32_t count, const int64_t *values)
{
    PyObject *tuple = PyTuple_New(count);
    for (int32_t i = 0; tuple && i < count; i++)
        PyTuple_SetItem(tuple, i, PyLong_FromLongLong(values[i]));
    return tuple;
}

static PyObject *describe(const tenon_view *view)
{
    char dtype[64];
    tenon_dtype_format(view->dtype, dtype, sizeof dtype);
    return Py_BuildValue("{sKsNsNsss(ii)}", "data", (unsigned long long)(uintptr_t)view->data + view->byte_offset,
                         "shape", tuple_of(view->ndim, view->shape), "strides", tuple_of(view->ndim, view->strides),
                         "dtype", dtype, "device", view->device.device_type, view->device.device_id);
}

static PyObject *probe_view(PyObject *module, PyObject *number)
{
    (void)module;
    tenon_view view;
    tenon_error err;
    int64_t dims[2 * TENON_MAX_NDIM];
    if (tenon_torch_view(handle_of(number), &view, dims, &err))
        return raise(&err);
    return describe(&view);
}

/* view_unlocked(handle): the message if it failed, otherwise None. */
static PyObject *probe_view_unlocked(PyObject *module, PyObject *number)
{
    (void)module;
    tenon_view view;
    tenon_error err;
    int64_t dims[2 * TENON_MAX_NDIM];
    tenon_torch *tensor = handle_of(number);
    PyThreadState *thread = PyEval_SaveThread();
    tenon_status status = tenon_torch_view(tensor, &view, dims, &err);
    PyEval_RestoreThread(thread);
    return status ? PyUnicode_FromString(err.message) : none();
}

/* nulls(handle): what each function says if an argument is NULL. */
static PyObject *probe_nulls(PyObject *module, PyObject *number)
{
    (void)module;
    tenon_torch *tensor = handle_of(number), *made;
    tenon_view view;
    int64_t dims[2 * TENON_MAX_NDIM];
    const tenon_torch_op *op;
    tenon_torch_value result;
    tenon_blob blob = {.dtype = TENON_F32};
    PyObject *messages = PyList_New(0);
    tenon_error err;
#define SAY(call)                                                                                                      \
    do {                                                                                                               \
        PyObject *text = PyUnicode_FromString((call) == TENON_EINVAL ? err.message : "it did not fail");               \
        if (messages && text)                                                                                          \
            PyList_Append(messages, text);                                                                             \
        Py_XDECREF(text);                                                                                              \
    } while (0)
    SAY(tenon_torch_view(tensor, NULL, dims, &err));
    SAY(tenon_torch_view(tensor, &view, NULL, &err));
    SAY(tenon_torch_empty(TENON_F32, tenon_device_of(TENON_CPU, 0), 0, NULL, NULL, &err));
    SAY(tenon_torch_from_pointer(NULL, &made, &err));
    SAY(tenon_torch_from_pointer(tenon_torch_pointer(tensor), NULL, &err));
    SAY(tenon_torch_from_blob(NULL, &made, &err));
    SAY(tenon_torch_from_blob(&blob, NULL, &err));
    SAY(tenon_torch_find(NULL, "", &op, &err));
    SAY(tenon_torch_find("aten::mul", NULL, &op, &err));
    SAY(tenon_torch_find("aten::mul", "Tensor", NULL, &err));
    SAY(tenon_torch_call_op(NULL, 0, NULL, 1, &result, &err));
    SAY(tenon_torch_call("aten::mul", "Tensor", 0, NULL, 1, NULL, &err));
#undef SAY
    return messages;
}

static int read_shape(PyObject *object, int64_t *shape)
{
    int ndim = (int)PyTuple_Size(object);
    for (int i = 0; i < ndim; i++)
        shape[i] = PyLong_AsLongLong(PyTuple_GetItem(object, i));
    return PyErr_Occurred() ? -1 : ndim;
}

static PyObject *probe_empty(PyObject *module, PyObject *arguments)
{
    (void)module;
    const char *name;
    PyObject *sizes;
    int device_type = TENON_CPU, device_id = 0;
    int64_t shape[TENON_MAX_NDIM];
    tenon_dtype dtype;
    tenon_error err;
    tenon_torch *tensor;
    if (!PyArg_ParseTuple(arguments, "sO!|ii", &name, &PyTuple_Type, &sizes, &device_type, &device_id))
        return NULL;
    int ndim = read_shape(sizes, shape);
    if (ndim < 0)
        return NULL;
    if (tenon_dtype_parse(name, &dtype, &err) ||
        tenon_torch_empty(dtype, tenon_device_of(device_type, device_id), ndim, shape, &tensor, &err))
        return raise(&err);
    return hand_over(tensor);
}

static _Atomic long released;

static void release_block(void *owner)
{
    free(owner);
    atomic_fetch_add(&released, 1);
}

static PyObject *probe_released(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLong(atomic_load(&released));
}

/* blob(shape, strides or None, read_only=0, with_data=1, dtype="f32", device_type=1): memory with 0, 1, 2, … in it. */
static PyObject *probe_blob(PyObject *module, PyObject *arguments)
{
    (void)module;
    enum { FLOATS = 64 };
    PyObject *sizes, *steps;
    int read_only = 0, with_data = 1, device_type = TENON_CPU;
    const char *dtype = "f32";
    int64_t shape[TENON_MAX_NDIM], strides[TENON_MAX_NDIM];
    tenon_error err;
    tenon_torch *tensor;
    if (!PyArg_ParseTuple(arguments, "O!O|iisi", &PyTuple_Type, &sizes, &steps, &read_only, &with_data, &dtype,
                          &device_type))
        return NULL;
    int ndim = read_shape(sizes, shape);
    if (ndim < 0 || (steps != Py_None && read_shape(steps, strides) != ndim))
        return NULL;
    float *data = malloc(FLOATS * sizeof *data);
    for (int i = 0; data && i < FLOATS; i++)
        data[i] = (float)i;
    tenon_blob blob = {.data = with_data ? data : NULL,
                       .byte_offset = with_data ? sizeof *data : 0,
                       .data_size = with_data ? FLOATS * sizeof *data : 0,
                       .device = tenon_device_of(device_type, 0),
                       .ndim = ndim,
                       .shape = shape,
                       .strides = steps == Py_None ? NULL : strides,
                       .flags = read_only ? TENON_READ_ONLY : 0,
                       .owner = data,
                       .release = release_block};
    tenon_status status = tenon_dtype_parse(dtype, &blob.dtype, &err);
    status = status ? status : tenon_torch_from_blob(&blob, &tensor, &err);
    if (status) {
        free(data);
        return raise(&err);
    }
    return hand_over(tensor);
}

/* -------------------------------------------------------------------------------------------------------- operators */

enum { MOST = 16 };

typedef struct arguments {
    size_t count;
    tenon_torch_value values[MOST];
    tenon_torch *tensors[MOST];
    size_t ntensors;
    void *lists[MOST];
} arguments;

static void arguments_free(arguments *a)
{
    for (size_t i = 0; i < a->ntensors; i++)
        tenon_torch_release(a->tensors[i]);
    for (size_t i = 0; i < MOST; i++)
        free(a->lists[i]);
}

static tenon_torch *take_tensor(arguments *a, PyObject *object)
{
    if (object == Py_None || a->ntensors == MOST || tenon_torch_import(object, &a->tensors[a->ntensors]) < 0)
        return NULL;
    return a->tensors[a->ntensors++];
}

/* ("dtype", "f32"), ("device", type, id), ("tensors", …), ("ints", …), ("floats", …), ("bools", …), ("handle", number),
 * ("long",): ints, many more than there are */
static int read_tuple(arguments *a, size_t index, PyObject *object)
{
    tenon_torch_value *value = &a->values[index];
    const char *word = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(object, 0), NULL);
    int64_t count = PyTuple_Size(object) - 1;
    tenon_dtype dtype;
    tenon_error err;
    if (!word)
        return -1;
    if (strcmp(word, "handle") == 0) {
        *value = tenon_torch_tensor(handle_of(PyTuple_GetItem(object, 1)));
        return 0;
    }
    if (strcmp(word, "dtype") == 0) {
        if (tenon_dtype_parse(PyUnicode_AsUTF8AndSize(PyTuple_GetItem(object, 1), NULL), &dtype, &err))
            return raise(&err), -1;
        *value = tenon_torch_dtype(dtype);
        return 0;
    }
    if (strcmp(word, "device") == 0) {
        *value = tenon_torch_device(tenon_device_of((int)PyLong_AsLong(PyTuple_GetItem(object, 1)),
                                                    (int)PyLong_AsLong(PyTuple_GetItem(object, 2))));
        return 0;
    }
    union {
        int64_t integer;
        double number;
        tenon_torch *tensor;
    } *items = calloc((size_t)count + 1, sizeof *items);
    a->lists[index] = items;
    if (!items)
        return PyErr_NoMemory(), -1;
    int32_t kind = word[0] == 'i' || word[0] == 'l' ? TENON_TORCH_INTS
                   : word[0] == 'f'                 ? TENON_TORCH_FLOATS
                   : word[0] == 'b'                 ? TENON_TORCH_BOOLS
                                                    : TENON_TORCH_TENSORS;
    *value = tenon_torch_list(kind, items, word[0] == 'l' ? INT64_MAX / 2 : count);
    for (int64_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(object, (Py_ssize_t)i + 1);
        if (kind == TENON_TORCH_INTS)
            items[i].integer = PyLong_AsLongLong(item);
        else if (kind == TENON_TORCH_BOOLS)
            ((bool *)items)[i] = item == Py_True;
        else if (kind == TENON_TORCH_FLOATS)
            items[i].number = PyFloat_AsDouble(item);
        else
            items[i].tensor = take_tensor(a, item);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int read_argument(arguments *a, size_t index, PyObject *object)
{
    tenon_torch_value *value = &a->values[index];
    if (object == Py_None) {
        *value = tenon_torch_value_of(TENON_TORCH_NONE);
    } else if (object == Py_Ellipsis) {
        *value = tenon_torch_value_of(TENON_TORCH_DEFAULT);
    } else if (PyBool_Check(object)) {
        *value = tenon_torch_bool(object == Py_True);
    } else if (PyLong_Check(object)) {
        *value = tenon_torch_int(PyLong_AsLongLong(object));
    } else if (PyFloat_Check(object)) {
        *value = tenon_torch_float(PyFloat_AsDouble(object));
    } else if (PyComplex_Check(object)) {
        *value = tenon_torch_complex(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object));
    } else if (PyUnicode_Check(object)) {
        *value = tenon_torch_str(PyUnicode_AsUTF8AndSize(object, NULL));
    } else if (PyTuple_Check(object)) {
        return read_tuple(a, index, object);
    } else {
        *value = tenon_torch_tensor(take_tensor(a, object));
    }
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *result_object(tenon_torch_value *value)
{
    PyObject *out = NULL;
    if (value->kind == TENON_TORCH_TENSOR) {
        if (tenon_torch_export(value->as.tensor, &out) < 0)
            out = NULL;
        if (out == Py_None) {
            PyErr_SetString(PyExc_AssertionError, "a tensor that is not defined came as one");
            out = NULL;
        }
    } else if (value->kind == TENON_TORCH_TENSORS) {
        tenon_torch *const *items = value->as.list.data;
        out = PyList_New((Py_ssize_t)value->as.list.length);
        for (int64_t i = 0; out && i < value->as.list.length; i++) {
            PyObject *item = items[i] ? NULL : none();
            if (item || tenon_torch_export(items[i], &item) == 0)
                PyList_SetItem(out, (Py_ssize_t)i, item);
        }
    } else if (value->kind == TENON_TORCH_INTS || value->kind == TENON_TORCH_FLOATS ||
               value->kind == TENON_TORCH_BOOLS) {
        const void *data = value->as.list.data;
        out = PyList_New((Py_ssize_t)value->as.list.length);
        for (int64_t i = 0; out && i < value->as.list.length; i++)
            PyList_SetItem(out, (Py_ssize_t)i,
                           value->kind == TENON_TORCH_INTS     ? PyLong_FromLongLong(((const int64_t *)data)[i])
                           : value->kind == TENON_TORCH_FLOATS ? PyFloat_FromDouble(((const double *)data)[i])
                                                               : PyBool_FromLong(((const bool *)data)[i]));
    } else if (value->kind == TENON_TORCH_DTYPE || value->kind == TENON_TORCH_DEVICE) {
        char word[64];
        if (value->kind == TENON_TORCH_DTYPE)
            tenon_dtype_format(value->as.dtype, word, sizeof word);
        else
            tenon_device_format(value->as.device, word, sizeof word);
        out = PyUnicode_FromString(word);
    } else if (value->kind == TENON_TORCH_COMPLEX) {
        out = PyComplex_FromDoubles(value->as.pair[0], value->as.pair[1]);
    } else if (value->kind == TENON_TORCH_INT) {
        out = PyLong_FromLongLong(value->as.integer);
    } else if (value->kind == TENON_TORCH_FLOAT) {
        out = PyFloat_FromDouble(value->as.number);
    } else if (value->kind == TENON_TORCH_BOOL) {
        out = PyBool_FromLong(value->as.integer != 0);
    } else if (value->kind == TENON_TORCH_STR) {
        out = PyUnicode_FromString(value->as.list.data);
    } else {
        out = none();
    }
    tenon_torch_value_release(value);
    return out;
}

/* call(name, overload, arguments, nresults=1, unlocked=0, op=None): a tuple of the results; `op` comes from find(). */
static PyObject *probe_call(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *overload;
    PyObject *given, *found = NULL;
    int nresults = 1, unlocked = 0;
    if (!PyArg_ParseTuple(args, "ssO!|iiO", &name, &overload, &PyTuple_Type, &given, &nresults, &unlocked, &found))
        return NULL;
    const tenon_torch_op *op = found ? PyLong_AsVoidPtr(found) : NULL;
    arguments a = {.count = (size_t)PyTuple_Size(given)};
    tenon_torch_value results[MOST];
    tenon_error err;
    for (size_t i = 0; i < a.count; i++) {
        if (read_argument(&a, i, PyTuple_GetItem(given, (Py_ssize_t)i)) < 0) {
            arguments_free(&a);
            return NULL;
        }
    }
    PyThreadState *thread = unlocked ? PyEval_SaveThread() : NULL;
    tenon_status status = op ? tenon_torch_call_op(op, a.count, a.values, (size_t)nresults, results, &err)
                             : tenon_torch_call(name, overload, a.count, a.values, (size_t)nresults, results, &err);
    if (thread)
        PyEval_RestoreThread(thread);
    arguments_free(&a);
    if (status)
        return raise(&err);
    PyObject *tuple = PyTuple_New(nresults);
    for (int i = 0; tuple && i < nresults; i++)
        PyTuple_SetItem(tuple, i, result_object(&results[i]));
    if (PyErr_Occurred()) {
        Py_XDECREF(tuple);
        return NULL;
    }
    return tuple;
}

/* Find an operator by name and overload, or return NULL with an exception. */
static const tenon_torch_op *op_of(PyObject *args)
{
    const char *name, *overload;
    const tenon_torch_op *op;
    tenon_error err;
    if (!PyArg_ParseTuple(args, "ss", &name, &overload))
        return NULL;
    if (tenon_torch_find(name, overload, &op, &err)) {
        raise(&err);
        return NULL;
    }
    return op;
}

static PyObject *probe_unlocked(PyObject *module, PyObject *args)
{
    (void)module;
    const tenon_torch_op *op = op_of(args);
    return op ? PyBool_FromLong(tenon_torch_unlocked(op)) : NULL;
}

static PyObject *probe_find(PyObject *module, PyObject *args)
{
    (void)module;
    const tenon_torch_op *op = op_of(args);
    return op ? PyLong_FromVoidPtr((void *)(uintptr_t)op) : NULL;
}

/* square_plus(x, y): x * x + y with torch's operators, through the table that functions of a library get. */
static PyObject *probe_square_plus(PyObject *module, PyObject *args)
{
    (void)module;
    const tenon_torch_table *torch = &tenon_torch_services;
    PyObject *x_object, *y_object;
    tenon_torch *x = NULL, *y = NULL;
    tenon_torch_value square = tenon_torch_value_of(TENON_TORCH_DEFAULT), sum = square;
    tenon_error err;
    if (!PyArg_ParseTuple(args, "OO", &x_object, &y_object))
        return NULL;
    if (tenon_torch_import(x_object, &x) < 0 || tenon_torch_import(y_object, &y) < 0) {
        torch->release(x);
        return NULL;
    }
    tenon_torch_value factors[] = {tenon_torch_tensor(x), tenon_torch_tensor(x)};
    tenon_status status = torch->call("aten::mul", "Tensor", 2, factors, 1, &square, &err);
    tenon_torch_value terms[] = {square, tenon_torch_tensor(y)};
    status = status ? status : torch->call("aten::add", "Tensor", 2, terms, 1, &sum, &err);
    torch->value_release(&square);
    torch->release(x);
    torch->release(y);
    return status ? raise(&err) : hand_over(sum.as.tensor);
}

static PyMethodDef methods[] = {{"info", probe_info, METH_NOARGS, NULL},
                                {"take", probe_take, METH_O, NULL},
                                {"give", probe_give, METH_O, NULL},
                                {"by_pointer", probe_by_pointer, METH_O, NULL},
                                {"retain", probe_retain, METH_O, NULL},
                                {"release", probe_release, METH_O, NULL},
                                {"refcount", probe_refcount, METH_O, NULL},
                                {"leaked", probe_leaked, METH_NOARGS, NULL},
                                {"round_trips", probe_round_trips, METH_VARARGS, NULL},
                                {"release_elsewhere", probe_release_elsewhere, METH_VARARGS, NULL},
                                {"release_past_the_end", probe_release_past_the_end, METH_VARARGS, NULL},
                                {"view", probe_view, METH_O, NULL},
                                {"view_unlocked", probe_view_unlocked, METH_O, NULL},
                                {"nulls", probe_nulls, METH_O, NULL},
                                {"empty", probe_empty, METH_VARARGS, NULL},
                                {"blob", probe_blob, METH_VARARGS, NULL},
                                {"released", probe_released, METH_NOARGS, NULL},
                                {"call", probe_call, METH_VARARGS, NULL},
                                {"find", probe_find, METH_VARARGS, NULL},
                                {"unlocked", probe_unlocked, METH_VARARGS, NULL},
                                {"square_plus", probe_square_plus, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot slots[] = {
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tenon_torch_probe", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_tenon_torch_probe(void)
{
    return PyModuleDef_Init(&definition);
}
