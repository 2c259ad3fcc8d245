/* NumPy: reading the array struct, and making arrays by the functions of its C API table. NumPy loads in the main
 * interpreter only, once, and for the life of the process. */
#include "../../../python/src/internal.h"

#include <string.h>

enum { OLDEST_FEATURES = 0x10 /* 1.23 */, ABI_1 = 0x01000009, ABI_2 = 0x02000000 };
enum { API_ABI_VERSION = 0, API_NDARRAY = 2, API_DESCR_FROM_TYPE = 45, API_NEW_FROM_DESCR = 94, API_FEATURES = 211 };

typedef PyObject *(*numpy_new_from_descr)(PyTypeObject *subtype, PyObject *descr, int nd, const Py_ssize_t *dims,
                                          const Py_ssize_t *strides, void *data, int flags, PyObject *object);
typedef PyObject *(*numpy_descr_from_type)(int type_num);

static struct {
    _Atomic int found; /* 0: not looked for yet; 1: usable; 2: an unknown version */
    void **api;        /* NumPy's C API */
    struct {
        _Atomic(PyTypeObject *) type;
        tenon_dtype dtype;
    } extras[32]; /* types of ml_dtypes, which have no fixed numbers */
    int nextras;
} numpy_state;

enum { NUMPY_EXTRAS = sizeof numpy_state.extras / sizeof *numpy_state.extras };

static const tenon__py_producer numpy_producer;
static PyObject *numpy_empty_plain(tenon_dtype dtype, int32_t ndim, const int64_t *shape, tenon_py_borrowed *out);

/* Write down which NumPy this is. On free-threaded Python another thread may do the same. */
static void numpy_remember(void **api, bool known, size_t head_size)
{
    tenon__py_spin_lock(&tenon__py_global.lock);
    if (!atomic_load_explicit(&numpy_state.found, memory_order_relaxed)) {
        numpy_state.api = api;
        tenon__py_global.array_layout.head = head_size;
        tenon__py_global.array_layout.producer = &numpy_producer;
        tenon__py_global.array_layout.empty = numpy_empty_plain;
        atomic_store_explicit(&tenon__py_global.array_layout.type, known ? api[API_NDARRAY] : NULL,
                              memory_order_release);
        atomic_store_explicit(&numpy_state.found, known ? 1 : 2, memory_order_release);
    }
    tenon__py_spin_unlock(&tenon__py_global.lock);
}

/* Whether NumPy is loaded and one that is known; an exception only as tenon__py_clear_ignorable_error leaves it. */
static bool numpy_find(void)
{
    int found = atomic_load_explicit(&numpy_state.found, memory_order_acquire);
    if (found)
        return found == 1;
    PyObject *module = tenon__py_loaded("numpy._core._multiarray_umath");
    if (!module && !PyErr_Occurred())
        module = tenon__py_loaded("numpy.core._multiarray_umath");
    PyObject *capsule = module ? PyObject_GetAttrString(module, "_ARRAY_API") : NULL;
    PyObject *head = capsule ? PyObject_GetAttrString((PyObject *)&PyBaseObject_Type, "__basicsize__") : NULL;
    void **api = capsule && PyCapsule_CheckExact(capsule) ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    Py_ssize_t head_size = head ? PyLong_AsSsize_t(head) : -1;
    if (api && head_size > 0) {
        unsigned abi = ((unsigned (*)(void))(uintptr_t)api[API_ABI_VERSION])();
        unsigned features = ((unsigned (*)(void))(uintptr_t)api[API_FEATURES])();
        bool known = (abi == ABI_1 && features >= OLDEST_FEATURES) || abi == ABI_2;
        found = known ? 1 : 2;
        numpy_remember(api, known, (size_t)head_size);
    }
    Py_XDECREF(module);
    Py_XDECREF(capsule);
    Py_XDECREF(head);
    tenon__py_clear_ignorable_error();
    return found == 1;
}

/* ---------------------------------------------------------------------------------------------------------- dtypes */

/* The number types of ml_dtypes have no fixed numbers: they are known by their classes, each found out once. 1 and the dtype;
 * 0: it is not one of them; -1 with an exception. */
static int numpy_extra_dtype(PyTypeObject *type, tenon_dtype *out)
{
    for (int i = 0; i < NUMPY_EXTRAS; i++) {
        PyTypeObject *known = atomic_load_explicit(&numpy_state.extras[i].type, memory_order_acquire);
        if (known == type) {
            *out = numpy_state.extras[i].dtype;
            return 1;
        }
        if (!known)
            break;
    }
    char package[32];
    if (strcmp(tenon__py_package(type, package, sizeof package), "ml_dtypes") != 0)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *name = PyObject_GetAttrString((PyObject *)type, "__name__");
    const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    int found = text && tenon_dtype_parse(text, out, NULL) == TENON_OK;
    Py_XDECREF(name);
    tenon__py_clear_ignorable_error();
    if (PyErr_Occurred())
        return -1;
    if (found) {
        tenon__py_spin_lock(&tenon__py_global.lock);
        if (numpy_state.nextras < NUMPY_EXTRAS) {
            numpy_state.extras[numpy_state.nextras].dtype = *out;
            Py_INCREF((PyObject *)type);
            atomic_store_explicit(&numpy_state.extras[numpy_state.nextras++].type, type, memory_order_release);
        }
        tenon__py_spin_unlock(&tenon__py_global.lock);
    }
    return found;
}

static const char *numpy_why_not(int type_num)
{
    switch (type_num) {
    case 13:
    case 16:
        return "long double has no DLPack dtype; convert it with x.astype('float64') or x.astype('complex128')";
    case 17:
        return "an array of Python objects has no numbers to share; convert it with x.astype('float64')";
    case 18:
    case 19:
        return "an array of strings has no DLPack dtype";
    case 20:
        return "a structured array has no DLPack dtype; pass one of its fields";
    case 21:
    case 22:
        return "dates and times have no DLPack dtype; pass x.view('int64')";
    default:
        return "its dtype has no DLPack name";
    }
}

/* A dtype that NumPy itself does not have: ml_dtypes may have it. */
static TENON__PY_NOINLINE PyObject *numpy_extra_descr(tenon_dtype dtype, uint64_t flags)
{
    char name[64];
    bool subbyte = dtype.bits < 8;
    bool packed = subbyte && !(flags & TENON_SUBBYTE_PADDED);
    if (dtype.lanes != 1 || packed || dtype.code == TENON_CODE_OPAQUE || dtype.bits > 128 ||
        (dtype.bits == 128 && dtype.code != TENON_CODE_COMPLEX)) {
        tenon_dtype_format(dtype, name, sizeof name);
        PyErr_Format(PyExc_ValueError, "NumPy has no dtype for %s%s", name,
                     packed ? " values that share a byte; unpack them, one to a byte, with the framework they came from"
                            : "");
        return NULL;
    }
    /* The other names are those of ml_dtypes: "bfloat16", "int4", "float8_e4m3fn". */
    char ours[64];
    tenon_dtype_format(dtype, ours, sizeof ours);
    tenon_dtype_format_long(dtype, name, sizeof name);
    PyObject *module = PyImport_ImportModule("numpy");
    PyObject *extras_module = module ? PyImport_ImportModule("ml_dtypes") : NULL;
    if (module && !extras_module && PyErr_ExceptionMatches(PyExc_ModuleNotFoundError))
        PyErr_Format(PyExc_ImportError, "NumPy has no dtype for %s; install ml_dtypes, which has one", ours);
    PyObject *argument = extras_module ? PyObject_GetAttrString(extras_module, name) : NULL;
    if (extras_module && !argument && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Format(PyExc_ValueError, "NumPy has no dtype for %s, nor has ml_dtypes", ours);
    PyObject *result = argument ? PyObject_CallMethod(module, "dtype", "O", argument) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(extras_module);
    Py_XDECREF(argument);
    return result;
}

/* NumPy's dtype object for ours: a new reference, or NULL with an exception. */
static PyObject *numpy_dtype(tenon_dtype dtype, uint64_t flags)
{
    /* By code, then by the logarithm of the bits. 64 bits are `long` if that is so wide, as in NumPy. */
    enum { LONG64 = sizeof(long) == 8 };
    static const short type_nums[7][8] = {
        [TENON_CODE_INT] = {0, 0, 0, 1, 3, 5, LONG64 ? 7 : 9},
        [TENON_CODE_UINT] = {0, 0, 0, 2, 4, 6, LONG64 ? 8 : 10},
        [TENON_CODE_FLOAT] = {0, 0, 0, 0, 23, 11, 12},
        [TENON_CODE_COMPLEX] = {0, 0, 0, 0, 0, 0, 14, 15},
    };
    if (dtype.code <= TENON_CODE_BOOL && dtype.lanes == 1 && (dtype.bits & (dtype.bits - 1)) == 0) {
        int type_num = type_nums[dtype.code][tenon__py_lowest_bit(dtype.bits)];
        if (type_num || dtype.code == TENON_CODE_BOOL)
            return ((numpy_descr_from_type)(uintptr_t)numpy_state.api[API_DESCR_FROM_TYPE])(type_num);
    }
    return numpy_extra_descr(dtype, flags);
}

/* ----------------------------------------------------------------------------------------------------------- types */

static bool numpy_is_class(PyTypeObject *type, const char *module, const char *name)
{
    PyTypeObject *class = tenon__py_loaded_class(module, name);
    bool found = class && PyType_IsSubtype(type, class);
    Py_XDECREF((PyObject *)class);
    return found;
}

/* Scalars that are dates have a buffer of eight bytes that say nothing. */
static int numpy_refuse_dates(PyTypeObject *type, tenon__py_kind *kind)
{
    if (numpy_is_class(type, "numpy", "datetime64") || numpy_is_class(type, "numpy", "timedelta64"))
        kind->reason = "dates and times have no DLPack dtype; pass x.view('int64')";
    return PyErr_Occurred() ? -1 : 0;
}

/* [0, 1] of that dtype, in an array of `type` that takes its attributes from `like`, or NULL with an exception. */
static PyObject *numpy_zero_and_one(PyTypeObject *type, PyObject *descr, PyObject *like)
{
    const Py_ssize_t two = 2;
    numpy_new_from_descr make = (numpy_new_from_descr)(uintptr_t)numpy_state.api[API_NEW_FROM_DESCR];
    Py_INCREF(descr);
    PyObject *array = make(type, descr, 1, &two, NULL, NULL, 0, like); /* takes descr */
    PyObject *ndarray = (PyObject *)tenon__py_global.array_layout.type;
    /* The class may have its own __setitem__. */
    PyObject *done = array ? PyObject_CallMethod(ndarray, "__setitem__", "OO(ii)", array, Py_Ellipsis, 0, 1) : NULL;
    if (!done)
        Py_CLEAR(array);
    Py_XDECREF(done);
    return array;
}

/* Whether two ndarrays have the same dtype and the same bytes; -1 with an exception. */
static int numpy_are_equal(PyObject *a, PyObject *b)
{
    int equal = PyObject_RichCompareBool(tenon__py_array_of(a)->descr, tenon__py_array_of(b)->descr, Py_EQ);
    PyObject *bytes_a = equal == 1 ? PyObject_CallMethod(a, "tobytes", NULL) : NULL;
    PyObject *bytes_b = bytes_a ? PyObject_CallMethod(b, "tobytes", NULL) : NULL;
    if (equal == 1)
        equal = bytes_b ? PyObject_RichCompareBool(bytes_a, bytes_b, Py_EQ) : -1;
    Py_XDECREF(bytes_a);
    Py_XDECREF(bytes_b);
    return equal;
}

/* A class may call a Tenon function with its own arrays when it adds. It is not asked again then. */
static _Thread_local bool numpy_is_adding;

/* Whether the class of `object` adds as NumPy adds, with a plain array as the sum; -1 with an exception. A sum means what
 * its terms mean: a class that gives the numbers another meaning, such as a unit, returns its own class, or raises. */
static int numpy_adds_plainly(PyObject *object)
{
    if (numpy_is_adding)
        return 0;
    numpy_is_adding = true;
    PyTypeObject *ndarray = tenon__py_global.array_layout.type;
    PyObject *descr = tenon__py_array_of(object)->descr;
    Py_INCREF(descr);
    PyObject *array = numpy_zero_and_one(ndarray, descr, NULL);
    PyObject *expected = array ? PyNumber_Add(array, array) : NULL;
    PyObject *terms = expected ? numpy_zero_and_one(Py_TYPE(object), descr, object) : NULL;
    PyObject *sum = terms ? PyNumber_Add(terms, terms) : NULL;
    int same = 0;
    if (sum && Py_TYPE(sum) == ndarray && Py_TYPE(expected) == ndarray)
        same = numpy_are_equal(sum, expected);
    numpy_is_adding = false;
    Py_DECREF(descr);
    Py_XDECREF(array);
    Py_XDECREF(expected);
    Py_XDECREF(terms);
    Py_XDECREF(sum);
    tenon__py_clear_ignorable_error();
    return PyErr_Occurred() ? -1 : same == 1;
}

/* Whether a class has a unit and adds in its own way; -1 with an exception. */
static int numpy_has_unit(PyTypeObject *type)
{
    static const char *const names[] = {"unit", "units"};
    int overridden = tenon__py_overrides(type, tenon__py_global.array_layout.type, "__add__");
    int found = 0;
    for (size_t i = 0; overridden == 1 && found == 0 && i < sizeof names / sizeof *names; i++) {
        PyObject *attribute = NULL;
        found = tenon__py_attribute((PyObject *)type, names[i], &attribute);
        Py_XDECREF(attribute);
    }
    return overridden < 0 ? -1 : found;
}

static int numpy_recognise(PyObject *object, tenon__py_kind *kind)
{
    PyTypeObject *type = Py_TYPE(object);
    PyTypeObject *ndarray = numpy_find() ? tenon__py_global.array_layout.type : NULL;
    if (!ndarray || !PyType_IsSubtype(type, ndarray))
        return PyErr_Occurred() ? -1 : numpy_refuse_dates(type, kind);
    kind->owner = &numpy_producer;
    if (type == ndarray)
        return TENON__PY_ALONE;
    if (numpy_is_class(type, "numpy.ma", "MaskedArray"))
        kind->reason = "its mask would be lost; pass x.filled() or x.data";
    if (kind->reason || PyErr_Occurred())
        return PyErr_Occurred() ? -1 : TENON__PY_ALONE;
    int overridden = tenon__py_overrides(type, ndarray, "__array_ufunc__");
    int may_differ = overridden == 0 ? numpy_has_unit(type) : overridden;
    int adds_plainly = may_differ == 1 ? numpy_adds_plainly(object) : 1;
    if (may_differ < 0 || adds_plainly < 0)
        return -1;
    kind->is_of_object = may_differ; /* another object may have a unit */
    if (!adds_plainly)
        kind->reason = overridden
                           ? "its class gives the numbers another meaning (it overrides __array_ufunc__, and its "
                             "sums are not plain arrays); pass x.view(numpy.ndarray)"
                           : "its class gives the numbers a unit, which would be lost; pass x.view(numpy.ndarray)";
    return TENON__PY_ALONE;
}

static bool numpy_recognise_again(PyTypeObject *type, tenon__py_kind *kind)
{
    (void)kind;
    PyTypeObject *ndarray = atomic_load_explicit(&tenon__py_global.array_layout.type, memory_order_acquire);
    return ndarray && PyType_IsSubtype(type, ndarray);
}

static int numpy_is_bool(PyObject *object)
{
    PyObject *name = tenon__py_type_name(object);
    int found = !name ? -1
                      : PyUnicode_CompareWithASCIIString(name, "numpy.bool") == 0 ||
                            PyUnicode_CompareWithASCIIString(name, "numpy.bool_") == 0;
    Py_XDECREF(name);
    return found;
}

/* --------------------------------------------------------------------------------------------------------- reading */

/* A dtype that is neither NumPy's own nor ml_dtypes': NumPy may know its DLPack name, by
 * numpy.dtypes.register_dlpack_dtype. */
static TENON__PY_NOINLINE int numpy_read_registered(PyObject *object, const tenon__py_descr *descr,
                                                    tenon_py_borrowed *out)
{
    const tenon__py_kind kind = {.device_type = TENON_CPU};
    int type_num = descr->type_num;
    if (tenon__py_read_dlpack(object, &kind, TENON__PY_NO_STREAM, out) == 0)
        return 0;
    tenon__py_clear_ignorable_error();
    return PyErr_Occurred() ? -1 : tenon__py_set_error(PyExc_TypeError, object, "%s", numpy_why_not(type_num));
}

static bool numpy_is_empty(const tenon__py_array *array)
{
    for (int i = 0; i < array->nd; i++)
        if (array->dimensions[i] == 0)
            return true;
    return false;
}

static int numpy_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request, tenon_py_borrowed *out)
{
    (void)kind;
    (void)request;
    const tenon__py_array *array = tenon__py_array_of(object);
    const tenon__py_descr *descr = tenon__py_descr_of(array);
    tenon_dl_tensor source = {.data = array->data, .device = tenon_device_of(TENON_CPU, 0), .ndim = array->nd};
    source.shape = tenon__py_numbers_of(array->dimensions);
    uint64_t flags = tenon__py_array_flags(array);
    int extra = 0;
    if ((unsigned)descr->type_num < TENON__PY_NUMBERS && tenon__py_numbers[descr->type_num].dtype.bits)
        source.dtype = tenon__py_numbers[descr->type_num].dtype;
    else if ((extra = numpy_extra_dtype(descr->typeobj, &source.dtype)) != 1)
        return extra < 0 ? -1 : numpy_read_registered(object, descr, out);
    if (source.dtype.bits < 8)
        flags |= TENON_SUBBYTE_PADDED; /* ml_dtypes gives each a byte of its own */
    const int little = 1;
    char swapped = *(const char *)&little ? '>' : '<';
    if (descr->byteorder == swapped)
        return tenon__py_set_error(PyExc_TypeError, object,
                                   "the bytes are swapped; convert it with x.astype(x.dtype.newbyteorder('='))");
    /* As on the fast path, strides in C order are not read; those of an empty array are kept as they are. */
    if (!(array->flags & TENON__PY_ARRAY_C) || numpy_is_empty(array))
        source.strides = tenon__py_numbers_of(array->strides);
    return tenon__py_make_view(object, &source, TENON__PY_BYTES, flags, out);
}

/* ---------------------------------------------------------------------------------------------------------- making */

/* The same, importing NumPy if need be; false with an exception. */
static bool numpy_import(void)
{
    /* NumPy's table belongs to the interpreter that loaded NumPy, which is the main one. */
    const tenon__py_interp *interp = tenon__py_interp_state();
    if (!interp)
        return false;
    bool found = interp->is_main && numpy_find();
    if (found || PyErr_Occurred())
        return found;
    PyObject *module = PyImport_ImportModule("numpy");
    if (!module)
        return false;
    Py_DECREF(module);
    found = interp->is_main && numpy_find();
    if (!found)
        PyErr_SetString(PyExc_ImportError, interp->is_main ? "tenon: this NumPy's C API is one that tenon does not know"
                                                           : "tenon: makes NumPy arrays in the main interpreter only");
    return found;
}

/* By NumPy's own table: if there is an array of its own, there is the table too. */
static PyObject *numpy_new_array(tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    PyObject *descr = numpy_dtype(dtype, TENON_SUBBYTE_PADDED);
    if (!descr)
        return NULL;
    numpy_new_from_descr make = (numpy_new_from_descr)(uintptr_t)numpy_state.api[API_NEW_FROM_DESCR];
    return make(tenon__py_global.array_layout.type, descr, ndim, (const Py_ssize_t *)(const void *)shape, NULL, NULL, 0,
                NULL); /* takes descr */
}

static PyObject *numpy_empty(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                             tenon_py_borrowed *out)
{
    (void)like;
    (void)device;
    return tenon__py_borrow_made(numpy_import() ? numpy_new_array(dtype, ndim, shape) : NULL, dtype, out);
}

static PyObject *numpy_empty_plain(tenon_dtype dtype, int32_t ndim, const int64_t *shape, tenon_py_borrowed *out)
{
    PyObject *array = numpy_new_array(dtype, ndim, shape);
    if (!array)
        return NULL;
    /* What it looks like follows from what was asked for. */
    if (dtype.bits % 8 == 0 &&
        tenon__py_make_view_fast(tenon__py_array_of(array)->data, &dtype, ndim, shape, NULL, 0, 0, out)) {
        out->private_.holds = TENON__PY_HOLDS_NOTHING;
        out->private_.object = NULL;
    } else if (tenon_py_borrow(array, TENON_PY_WRITE, out) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    return array;
}

/* What an array on a tensor's memory has as its base: a capsule, the lightest object that can hold a count. It has no
 * name: no other code opens it, and names are compared whenever an array is freed. */
static void numpy_base_destroy(PyObject *capsule)
{
    tenon__py_release(PyCapsule_GetPointer(capsule, NULL));
}

static PyObject *numpy_base_new(tenon_tensor *tensor)
{
    PyObject *capsule = PyCapsule_New(tensor, NULL, numpy_base_destroy);
    if (capsule)
        tenon_tensor_retain(tensor);
    return capsule;
}

/* By numpy.from_dlpack, which may know a registered dtype. Keeps the pending exception if it does not. */
static TENON__PY_NOINLINE PyObject *numpy_wrap_registered(tenon_tensor *tensor)
{
    if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_ImportError))
        return NULL;
    PyObject *error = tenon__py_take_exception();
    PyObject *module = PyImport_ImportModule("numpy"), *object = module ? tenon__py_tensor_new(tensor) : NULL;
    PyObject *array = object ? PyObject_CallMethod(module, "from_dlpack", "O", object) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(object);
    if (array)
        Py_DECREF(error);
    else
        tenon__py_raise_again(error);
    return array;
}

/* An array on memory that `base` holds. Takes `base`, even if it fails; NULL if there was no memory for it. */
static PyObject *numpy_wrap_view(const tenon_view *view, PyObject *descr, PyObject *base)
{
    if (!base) {
        Py_DECREF(descr);
        return NULL;
    }
    /* If NumPy would choose the same strides, it need not examine their order. */
    bool usual = (view->flags & TENON_VIEW_C) && view->numel > 0;
    Py_ssize_t strides[TENON_MAX_NDIM];
    int64_t item = usual ? 0 : tenon_view_item_bits(view) / 8;
    for (int32_t i = 0; !usual && i < view->ndim; i++)
        strides[i] = (Py_ssize_t)((uint64_t)view->strides[i] * (uint64_t)item);
    static char nothing[1];
    void *data = view->data ? view->data : nothing; /* NULL would make NumPy allocate */
    numpy_new_from_descr make = (numpy_new_from_descr)(uintptr_t)numpy_state.api[API_NEW_FROM_DESCR];
    int flags = view->flags & TENON_READ_ONLY ? 0 : TENON__PY_ARRAY_WRITEABLE;
    PyObject *array = make(tenon__py_global.array_layout.type, descr, view->ndim,
                           (const Py_ssize_t *)(const void *)view->shape, usual ? NULL : strides, data, flags, NULL);
    if (!array) {
        Py_DECREF(base);
        return NULL;
    }
    tenon__py_array_of(array)->base = base; /* no other code has it yet: PyArray_SetBaseObject has nothing to check */
    return array;
}

static PyObject *numpy_wrap(tenon_tensor *tensor)
{
    if (!numpy_import())
        return NULL;
    const tenon_view *view = tenon_tensor_view(tensor);
    if (!tenon_device_on_host(view->device)) {
        char name[64];
        tenon_device_format(view->device, name, sizeof name);
        return PyErr_Format(PyExc_ValueError,
                            "the memory is on %s, which NumPy cannot read; copy it to the CPU with its own framework",
                            name);
    }
    PyObject *descr = numpy_dtype(view->dtype, view->flags);
    return descr ? numpy_wrap_view(view, descr, numpy_base_new(tensor)) : numpy_wrap_registered(tensor);
}

/* ---------------------------------------------------------------------------------- what NumPy looks for in a tensor */

/* NumPy calls this if the buffer protocol fails: for bf16 and the like, and for device memory, to say why it cannot be
 * read. */
static PyObject *numpy_tensor_array(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OO:__array__", names, &dtype, &copy))
        return NULL;
    tenon_tensor *tensor = tenon__py_retain(self);
    PyObject *array = tensor ? numpy_wrap(tensor) : NULL;
    tenon__py_release(tensor);
    if (!array)
        tenon__py_raise_missing("numpy", "tenon.Tensor.__array__()");
    if (!array || (dtype == Py_None && (copy == Py_None || copy == Py_False)))
        return array;
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *make = numpy ? PyObject_GetAttrString(numpy, copy == Py_None ? "asarray" : "array") : NULL;
    PyObject *values = make ? PyTuple_Pack(1, array) : NULL;
    PyObject *options = values ? Py_BuildValue("{sO}", "dtype", dtype) : NULL;
    int status = options && copy != Py_None ? PyDict_SetItemString(options, "copy", copy) : 0;
    PyObject *result = options && status == 0 ? PyObject_Call(make, values, options) : NULL;
    Py_DECREF(array);
    Py_XDECREF(numpy);
    Py_XDECREF(make);
    Py_XDECREF(values);
    Py_XDECREF(options);
    return result;
}

/* For numpy.dtype() and numpy.result_type(), which expect `dtype` to be a numpy.dtype. */
static PyObject *numpy_tensor_dtype(PyObject *self, void *unused)
{
    (void)unused;
    tenon_tensor *tensor = tenon__py_retain(self);
    const tenon_view *view = tenon_tensor_view(tensor);
    PyObject *dtype = view && numpy_import() ? numpy_dtype(view->dtype, view->flags) : NULL;
    tenon__py_release(tensor);
    return dtype;
}

static PyMethodDef numpy_tensor_methods[] = {
    {"__array__", (PyCFunction)(void (*)(void))numpy_tensor_array, METH_VARARGS | METH_KEYWORDS,
     "__array__($self, dtype=None, copy=None)\n--\n\nReturn a NumPy array on the same memory."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef numpy_tensor_attributes[] = {
    {"__numpy_dtype__", numpy_tensor_dtype, NULL, "The dtype as a numpy.dtype. Imports NumPy.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static const tenon__py_producer numpy_producer = {
    .name = "numpy",
    .title = "NumPy",
    .cast = "astype('",
    .cast_end = "')",
    .to_cuda = {"cupy.asarray(", ")"},
    .recognise = numpy_recognise,
    .recognise_again = numpy_recognise_again,
    .read = numpy_read,
    .empty = numpy_empty,
    .wrap = numpy_wrap,
};

const tenon__py_framework tenon__py_framework_numpy = {
    .producer = &numpy_producer,
    .as = TENON_PY_AS_NUMPY,
    .makes_results = true,
    .is_bool = numpy_is_bool,
    .tensor_methods = numpy_tensor_methods,
    .tensor_attributes = numpy_tensor_attributes,
};
