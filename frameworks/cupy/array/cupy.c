/* CuPy. Its arrays are on a GPU, and are read by __dlpack__. */
#include "../../../python/src/internal.h"

#include <string.h>

static const tenon__py_producer cupy_producer;

/* All arrays are on devices of one type, so that only the first is asked. The buffer function of an array has an exception
 * for each. */
static int cupy_recognise(PyObject *object, tenon__py_kind *kind)
{
    char package[32];
    if (strcmp(tenon__py_package(Py_TYPE(object), package, sizeof package), "cupy") != 0)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *method;
    kind->keeps_buffer = true;
    int found = tenon__py_attribute((PyObject *)Py_TYPE(object), "__dlpack__", &method);
    if (found < 1)
        return found;
    Py_DECREF(method);
    kind->owner = &cupy_producer;
    kind->device_type = tenon__py_device_type(object);
    return kind->device_type < 0 ? -1 : 0;
}

/* CuPy's functions that most calls need. They belong to the main interpreter and are never released. */
static struct {
    _Atomic(PyObject *) get_stream, get_device, ndarray;
} cupy_functions;

/* The object cupy.first.second.third, or without those names that are NULL: a new reference. The module is imported only if it is
 * not loaded yet, because that takes longer than the rest of a call. */
static PyObject *cupy_find(const char *first, const char *second, const char *third)
{
    const char *const names[] = {first, second, third};
    PyObject *found = tenon__py_loaded("cupy");
    if (!found && !PyErr_Occurred())
        found = PyImport_ImportModule("cupy");
    for (int i = 0; i < 3 && found && names[i]; i++) {
        PyObject *next = PyObject_GetAttrString(found, names[i]);
        Py_DECREF(found);
        found = next;
    }
    return found;
}

/* The same, from `kept` if the main interpreter has found it before. */
static PyObject *cupy_function(_Atomic(PyObject *) *kept, const char *first, const char *second, const char *third)
{
    const tenon__py_interp *interp = tenon__py_interp_state();
    if (!interp)
        return NULL;
    PyObject *found = interp->is_main ? atomic_load_explicit(kept, memory_order_acquire) : NULL, *none = NULL;
    if (found) {
        Py_INCREF(found);
        return found;
    }
    found = cupy_find(first, second, third);
    if (found && interp->is_main && atomic_compare_exchange_strong(kept, &none, found))
        Py_INCREF(found);
    return found;
}

/* object.ptr; NULL, perhaps with an exception. */
static void *cupy_address(PyObject *object)
{
    PyObject *address = object ? PyObject_GetAttrString(object, "ptr") : NULL;
    void *pointer = address ? PyLong_AsVoidPtr(address) : NULL;
    Py_XDECREF(address);
    return pointer;
}

/* It has no table, but a current stream of its own. */
static int cupy_stream(void **stream)
{
    PyObject *get = cupy_function(&cupy_functions.get_stream, "cuda", "get_current_stream", NULL);
    PyObject *current = get ? PyObject_CallNoArgs(get) : NULL;
    *stream = cupy_address(current);
    Py_XDECREF(get);
    Py_XDECREF(current);
    return PyErr_Occurred() ? -1 : 0;
}

/* Whether the current device is this one: 1, 0, or -1 with an exception. */
static int cupy_is_current(int32_t device)
{
    PyObject *get = cupy_function(&cupy_functions.get_device, "cuda", "runtime", "getDevice");
    PyObject *current = get ? PyObject_CallNoArgs(get) : NULL;
    long id = current ? PyLong_AsLong(current) : -1;
    Py_XDECREF(get);
    Py_XDECREF(current);
    return PyErr_Occurred() ? -1 : id == device;
}

/* cupy.ndarray(shape, dtype) on the current device. */
static PyObject *cupy_call_ndarray(tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    char name[64];
    tenon_dtype_format_long(dtype, name, sizeof name);
    PyObject *type = cupy_function(&cupy_functions.ndarray, "ndarray", NULL, NULL);
    PyObject *sizes = type ? tenon__py_dims_tuple(ndim, shape) : NULL;
    PyObject *made = sizes ? PyObject_CallFunction(type, "Os", sizes, name) : NULL;
    Py_XDECREF(type);
    Py_XDECREF(sizes);
    return made;
}

/* The same on another device than the current one. */
static PyObject *cupy_call_on(int32_t device, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    PyObject *type = cupy_find("cuda", "Device", NULL);
    PyObject *where = type ? PyObject_CallFunction(type, "i", (int)device) : NULL;
    PyObject *entered = where ? PyObject_CallMethod(where, "__enter__", NULL) : NULL;
    PyObject *made = entered ? cupy_call_ndarray(dtype, ndim, shape) : NULL;
    if (entered) {
        PyObject *error = tenon__py_take_exception();
        Py_XDECREF(PyObject_CallMethod(where, "__exit__", "OOO", Py_None, Py_None, Py_None));
        tenon__py_raise_again(error);
        if (PyErr_Occurred())
            Py_CLEAR(made);
    }
    Py_XDECREF(type);
    Py_XDECREF(where);
    Py_XDECREF(entered);
    return made;
}

/* Borrow a new array: all but its memory, which is array.data, follows from what was asked for. */
static int cupy_borrow_made(PyObject *array, const tenon_dl_tensor *asked, tenon_py_borrowed *out)
{
    tenon_dl_tensor source = *asked;
    PyObject *memory = PyObject_GetAttrString(array, "data");
    source.data = cupy_address(memory);
    if (PyErr_Occurred() || tenon__py_make_view(array, &source, TENON__PY_ELEMENTS, 0, out) < 0) {
        Py_XDECREF(memory);
        return -1;
    }
    out->private_.holds = TENON__PY_HOLDS_OBJECT;
    out->private_.held.object = memory;
    out->private_.table = NULL;
    out->private_.flags = 0;
    out->private_.object = array;
    Py_INCREF(array);
    return 0;
}

static PyObject *cupy_empty(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                            tenon_py_borrowed *out)
{
    const tenon_dl_tensor asked = {
        .device = device, .ndim = ndim, .dtype = dtype, .shape = (int64_t *)(uintptr_t)shape};
    int current = cupy_is_current(device.device_id);
    PyObject *array = current > 0    ? cupy_call_ndarray(dtype, ndim, shape)
                      : current == 0 ? cupy_call_on(device.device_id, dtype, ndim, shape)
                                     : NULL;
    (void)like;
    if (array && cupy_borrow_made(array, &asked, out) < 0)
        Py_CLEAR(array);
    return array;
}

static PyObject *cupy_wrap(tenon_tensor *tensor)
{
    return tenon__py_call_import("cupy", "from_dlpack", tenon__py_tensor_new(tensor), false);
}

static const tenon__py_producer cupy_producer = {
    .name = "cupy",
    .title = "CuPy",
    .takes_device = true,
    .waits = true,
    .cast = "astype('",
    .cast_end = "')",
    .to_cpu = {"", ".get()"},
    .recognise = cupy_recognise,
    .stream = cupy_stream,
    .empty = cupy_empty,
    .wrap = cupy_wrap,
};

const tenon__py_framework tenon__py_framework_cupy = {.producer = &cupy_producer, .as = TENON_PY_AS_CUPY};
