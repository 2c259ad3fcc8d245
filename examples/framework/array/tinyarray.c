/* frameworks/tinyarray/array/tinyarray.c: what Tenon knows of tinyarray. */
#include "tinyarray.h"
#include "../../../python/src/internal.h"

static const tenon__py_producer tinyarray_producer;
static const tenon_dtype tinyarray_f32 = {TENON_CODE_FLOAT, 32, 1};
static _Atomic(PyTypeObject *) tinyarray_type;  /* NULL: not imported yet */
static _Atomic(tinyarray_make) tinyarray_found; /* NULL: not looked for yet */

static bool tinyarray_peek(PyObject *object, const tenon__py_kind *kind, tenon_py_borrowed *out)
{
    const tinyarray *array = (const tinyarray *)object;
    (void)kind;
    out->private_.holds = TENON__PY_HOLDS_NOTHING;
    out->private_.table = NULL;
    return tenon__py_make_view_fast(array->data, &tinyarray_f32, 1, &array->length, NULL, 0, 0, out);
}

static bool tinyarray_read_c_tensor(PyObject *object, tenon__py_c_tensor *out)
{
    const tinyarray *array = (const tinyarray *)object;
    *out = (tenon__py_c_tensor){.data = array->data, .dtype = &tinyarray_f32, .ndim = 1};
    out->shape = &array->length;
    return true;
}

/* For arrays that the peek leaves to it, such as empty ones. */
static int tinyarray_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request,
                          tenon_py_borrowed *out)
{
    tinyarray *array = (tinyarray *)object;
    (void)kind, (void)request;
    tenon_device cpu = tenon_device_of(TENON_CPU, 0);
    tenon_dl_tensor source = {array->data, cpu, 1, tinyarray_f32, &array->length, NULL, 0};
    return tenon__py_make_view(object, &source, TENON__PY_ELEMENTS, 0, out);
}

static int tinyarray_recognise(PyObject *object, tenon__py_kind *kind)
{
    PyTypeObject *type = tenon__py_loaded_class("tinyarray", "TinyArray");
    Py_XDECREF((PyObject *)type); /* it is static */
    tinyarray_type = type;
    if (!type || Py_TYPE(object) != type)
        return PyErr_Occurred() ? -1 : 0;
    kind->owner = &tinyarray_producer;
    kind->peek = tinyarray_peek;
    kind->read_c_tensor = tinyarray_read_c_tensor;
    return TENON__PY_ALONE;
}

static bool tinyarray_recognise_again(PyTypeObject *type, tenon__py_kind *kind)
{
    (void)kind;
    return type == tinyarray_type;
}

static PyObject *tinyarray_empty(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                                 const int64_t *shape, tenon_py_borrowed *out)
{
    (void)like;
    (void)device;
    if (ndim != 1 || !tenon_dtype_equal(dtype, tinyarray_f32))
        return PyErr_Format(PyExc_ValueError, "tinyarray has only arrays of f32 with one dimension");
    if (!tinyarray_found)
        tinyarray_found = (tinyarray_make)(uintptr_t)PyCapsule_Import("tinyarray.c_api", 0);
    return tinyarray_found ? tenon__py_borrow_made(tinyarray_found(shape[0]), dtype, out) : NULL;
}

static const tenon__py_producer tinyarray_producer = {
    .name = "tinyarray",
    .title = "tinyarray",
    .is_writable = true,
    .recognise = tinyarray_recognise,
    .recognise_again = tinyarray_recognise_again,
    .read = tinyarray_read,
    .empty = tinyarray_empty,
};
const tenon__py_framework tenon__py_framework_tinyarray = {.producer = &tinyarray_producer};
