/* The layout that probe.c found is compared with what torch says of many tensors before it is used. */
#include "internal.h"

static bool torch_differs(char *why, const char *what)
{
    PyOS_snprintf(why, TENON__PY_TORCH_WHY, "the layout of its tensors is not the expected one (%s)", what);
    return false;
}

/* Whether a method of the tensor, called with `index` unless that is negative, returns this number. */
static bool torch_says(PyObject *tensor, const char *method, int index, uint64_t expected)
{
    uint64_t number;
    PyObject *answer =
        index < 0 ? PyObject_CallMethod(tensor, method, NULL) : PyObject_CallMethod(tensor, method, "i", index);
    return tenon__py_torch_number_of(answer, &number) && number == expected;
}

/* The TensorImpl of a tensor by the layout, if torch says the same; otherwise NULL. */
static const char *torch_impl_of(const tenon__py_torch_layout *layout, PyObject *tensor)
{
    uint64_t address;
    const char *impl = tenon__py_torch_pointer(tensor, layout->impl);
    return tenon__py_torch_number_of(PyObject_GetAttrString(tensor, "_cdata"), &address) && address == (uintptr_t)impl
               ? impl
               : NULL;
}

static const char *torch_storage_of(const tenon__py_torch_layout *layout, PyObject *tensor)
{
    const char *impl = torch_impl_of(layout, tensor);
    return impl ? tenon__py_torch_pointer(impl, layout->storage) : NULL;
}

/* Whether torch says of the tensor what the layout does, with its item size. */
static bool torch_agrees(const tenon__py_torch_quiet *quiet, const tenon__py_torch_layout *layout, PyObject *tensor,
                         char *why)
{
    const char *impl = torch_impl_of(layout, tensor);
    if (!impl)
        return torch_differs(why, "impl");
    uint64_t keys, address, item;
    if (!tenon__py_torch_keys(quiet, tensor, &keys) || keys != layout->keys ||
        tenon__py_torch_word(impl, layout->key_set) != keys)
        return torch_differs(why, "keys");
    uint64_t ndim = tenon__py_torch_word(impl, layout->sizes);
    if (ndim > TENON__PY_TORCH_DIMS || !torch_says(tensor, "dim", -1, ndim))
        return torch_differs(why, "dim");
    for (int i = 0; i < (int)ndim; i++) {
        size_t size = layout->sizes + 8 * (size_t)(1 + i), stride = size + 8 * (size_t)TENON__PY_TORCH_DIMS;
        if (!torch_says(tensor, "size", i, tenon__py_torch_word(impl, size)) ||
            !torch_says(tensor, "stride", i, tenon__py_torch_word(impl, stride)))
            return torch_differs(why, "sizes");
    }
    uint64_t offset = tenon__py_torch_word(impl, layout->offset), numel = tenon__py_torch_word(impl, layout->numel);
    if (!torch_says(tensor, "storage_offset", -1, offset) || !torch_says(tensor, "numel", -1, numel))
        return torch_differs(why, "offset");
    PyObject *storage = PyObject_CallMethod(tensor, "untyped_storage", NULL);
    bool same = storage && tenon__py_torch_number_of(PyObject_GetAttrString(storage, "_cdata"), &address) &&
                address == tenon__py_torch_word(impl, layout->storage);
    Py_XDECREF(storage);
    if (!same || !address || !tenon__py_torch_number_of(PyObject_CallMethod(tensor, "element_size", NULL), &item))
        return torch_differs(why, "storage");
    const char *stored = (const char *)(uintptr_t)address;
    if (stored[layout->check] ||
        (numel && !torch_says(tensor, "data_ptr", -1, tenon__py_torch_word(stored, layout->data) + offset * item)))
        return torch_differs(why, "data");
    return true;
}

static unsigned torch_dtype_number(const tenon__py_torch_layout *layout, const char *impl)
{
    uint16_t number;
    memcpy(&number, impl + layout->dtype, sizeof number);
    return number;
}

/* A tensor of that dtype, the k-th: its dimensions, sizes, strides and offset follow from k. */
static bool torch_verify_dtype(const tenon__py_torch_quiet *quiet, PyObject *storage, tenon_dtype dtype, int k,
                               tenon__py_torch_layout *layout, char *why)
{
    int64_t dims[2 * TENON__PY_TORCH_DIMS];
    char name[64];
    int ndim = k % (TENON__PY_TORCH_DIMS + 1);
    for (int i = 0; i < ndim; i++) {
        dims[i] = k % 8 == 7 && i == 0 ? 0 : 1 + (k + i) % 3;
        dims[ndim + i] = (k + 3 * i) % 5;
    }
    tenon_dtype_format_long(dtype, name, sizeof name);
    PyObject *tensor = tenon__py_torch_place(quiet, storage, name, k, ndim, dims);
    bool same = tensor && torch_agrees(quiet, layout, tensor, why);
    const char *impl = same ? torch_impl_of(layout, tensor) : NULL;
    unsigned number = impl ? torch_dtype_number(layout, impl) : TENON__PY_TORCH_DTYPES;
    if (same && (number >= TENON__PY_TORCH_DTYPES || layout->dtypes[number].bits || impl[layout->dtype + 2] != 0 ||
                 (signed char)impl[layout->dtype + 3] != -1 || tenon__py_torch_word(impl, layout->autograd) ||
                 !torch_says(tensor, "element_size", -1, dtype.bits / 8)))
        same = torch_differs(why, name);
    else if (!tensor)
        torch_differs(why, name);
    if (same)
        layout->dtypes[number] = dtype;
    Py_XDECREF(tensor);
    return same;
}

/* torch warns when it first makes a tensor of that dtype. */
static bool torch_warns(tenon_dtype dtype)
{
    return dtype.code == TENON_CODE_COMPLEX && dtype.bits == 32;
}

/* Every dtype of whole bytes that this torch has. */
static bool torch_verify_dtypes(const tenon__py_torch_quiet *quiet, PyObject *storage, tenon__py_torch_layout *layout,
                                char *why)
{
    static const struct {
        uint8_t number, code, bits;
    } known[] = {{0, TENON_CODE_UINT, 8},    {4, TENON_CODE_INT, 64},     {6, TENON_CODE_FLOAT, 32},
                 {7, TENON_CODE_FLOAT, 64},  {9, TENON_CODE_COMPLEX, 64}, {11, TENON_CODE_BOOL, 8},
                 {15, TENON_CODE_BFLOAT, 16}};
    tenon_dtype dtype;
    int count = 0;
    for (size_t i = 0; tenon__py_torch_candidate(i, &dtype); i++) {
        char name[64];
        PyObject *theirs;
        tenon_dtype_format_long(dtype, name, sizeof name);
        int found = dtype.bits % 8 || torch_warns(dtype) ? 0 : tenon__py_attribute(quiet->torch, name, &theirs);
        if (found < 0)
            return torch_differs(why, name);
        if (!found)
            continue;
        Py_DECREF(theirs);
        if (!torch_verify_dtype(quiet, storage, dtype, count++, layout, why))
            return false;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!tenon_dtype_equal(layout->dtypes[known[i].number], tenon_dtype_of(known[i].code, known[i].bits, 1)))
            return torch_differs(why, "dtype");
    return count >= 12 || torch_differs(why, "dtype");
}

static bool torch_verify_view(const tenon__py_torch_quiet *quiet, PyObject *base, const tenon__py_torch_layout *layout,
                              char *why)
{
    PyObject *view = PyObject_CallMethod(base, "as_strided", "(ii)(ii)i", 2, 3, 7, 2, 5);
    bool same = view ? torch_agrees(quiet, layout, view, why) : torch_differs(why, "as_strided");
    Py_XDECREF(view);
    return same;
}

/* Both holders of memory that is copied on the next write have the check byte, until one of them writes. */
static bool torch_verify_check(PyObject *base, const tenon__py_torch_layout *layout, char *why)
{
    PyObject *clone = PyObject_CallMethod(base, "_lazy_clone", NULL);
    const char *first = torch_storage_of(layout, base), *second = clone ? torch_storage_of(layout, clone) : NULL;
    bool same = first && second && first != second && first[layout->check] == 1 && second[layout->check] == 1 &&
                tenon__py_torch_word(first, layout->data) == tenon__py_torch_word(second, layout->data);
    PyObject *written = same ? PyObject_CallMethod(clone, "zero_", NULL) : NULL;
    same = written && second[layout->check] == 0 &&
           tenon__py_torch_word(first, layout->data) != tenon__py_torch_word(second, layout->data);
    Py_XDECREF(written);
    Py_XDECREF(clone);
    return same || torch_differs(why, "check");
}

static bool torch_verify_autograd(const tenon__py_torch_quiet *quiet, const tenon__py_torch_layout *layout, char *why)
{
    PyObject *leaf = tenon__py_torch_fresh(quiet, 3, "float32", NULL);
    const char *impl = leaf ? torch_impl_of(layout, leaf) : NULL;
    bool fresh = impl && !tenon__py_torch_word(impl, layout->autograd);
    PyObject *same = fresh ? PyObject_CallMethod(leaf, "requires_grad_", NULL) : NULL;
    bool recorded = same && tenon__py_torch_word(impl, layout->autograd);
    Py_XDECREF(same);
    Py_XDECREF(leaf);
    return recorded || torch_differs(why, "autograd");
}

/* torch's C++ method for requires_grad, if it says the same as the attribute of a new tensor, a leaf, and views of both. */
static void torch_find_requires_grad(const tenon__py_torch_quiet *quiet, const tenon__py_torch_layout *layout)
{
    tenon__py_torch_impl_flag requires_grad = NULL;
    void *library = tenon__py_torch_library();
    if (!library || !tenon__py_symbol(library, "_ZNK3c1010TensorImpl13requires_gradEv", &requires_grad))
        return;
    PyObject *tensor = tenon__py_torch_fresh(quiet, 4, "float32", NULL);
    bool same = tensor != NULL;
    for (int round = 0; same && round < 2; round++) {
        PyObject *view = PyObject_CallMethod(tensor, "view", "ii", 2, 2);
        PyObject *objects[] = {tensor, view};
        for (int i = 0; same && i < 2; i++) {
            PyObject *answer = objects[i] ? PyObject_GetAttrString(objects[i], "requires_grad") : NULL;
            const char *impl = answer ? torch_impl_of(layout, objects[i]) : NULL;
            same = impl && requires_grad(impl) == (answer == Py_True) && (round == 1 || answer == Py_False);
            Py_XDECREF(answer);
        }
        Py_XDECREF(view);
        PyObject *leaf = same && round == 0 ? PyObject_CallMethod(tensor, "requires_grad_", NULL) : NULL;
        same = same && (leaf || round == 1);
        Py_XDECREF(leaf);
    }
    Py_XDECREF(tensor);
    if (same)
        atomic_store_explicit(&tenon__py_torch.requires_grad, requires_grad, memory_order_release);
    else
        tenon__py_clear_ignorable_error(); /* the attribute is read instead */
}

static bool torch_verify(const tenon__py_torch_quiet *quiet, tenon__py_torch_layout *layout, char *why)
{
    PyObject *base = tenon__py_torch_fresh(quiet, 4096, "uint8", NULL);
    PyObject *storage = base ? PyObject_CallMethod(base, "untyped_storage", NULL) : NULL;
    bool same = storage ? torch_verify_dtypes(quiet, storage, layout, why) : torch_differs(why, "untyped_storage");
    same = same && torch_verify_view(quiet, base, layout, why) && torch_verify_check(base, layout, why) &&
           torch_verify_autograd(quiet, layout, why);
    Py_XDECREF(storage);
    Py_XDECREF(base);
    if (same)
        torch_find_requires_grad(quiet, layout);
    return same && !PyErr_Occurred();
}

/* The key set of a new tensor of the device, NULL: the CPU, in inference mode or not; and the bytes of the device. */
static bool torch_new_keys(bool inference, PyObject *device, const tenon__py_torch_layout *layout, uint64_t *keys,
                           char *bytes, char *why)
{
    tenon__py_torch_quiet quiet;
    bool quietly = tenon__py_torch_enter_quiet(inference, &quiet, why);
    PyObject *tensor = quietly ? tenon__py_torch_fresh(&quiet, 0, "float32", device) : NULL;
    const char *impl = tensor ? torch_impl_of(layout, tensor) : NULL;
    bool known = impl && tenon__py_torch_keys(&quiet, tensor, keys) && *keys &&
                 tenon__py_torch_word(impl, layout->key_set) == *keys;
    if (known)
        memcpy(bytes, impl + layout->dtype + 2, 2);
    Py_XDECREF(tensor);
    tenon__py_torch_leave_quiet(&quiet);
    return known || (quietly && torch_differs(why, "keys"));
}

/* Offsets in the sample become offsets in the three structs. */
static bool torch_place_fields(const tenon__py_torch_sample *sample, const size_t *at, tenon__py_torch_layout *layout)
{
    size_t storage = sample->impl_length, object = storage + TENON__PY_TORCH_STORAGE;
    for (int i = 0; i < TENON__PY_TORCH_DATA; i++)
        if (at[i] >= storage)
            return false;
    for (int i = TENON__PY_TORCH_DATA; i < TENON__PY_TORCH_IMPL; i++)
        if (at[i] < storage || at[i] >= object)
            return false;
    if (at[TENON__PY_TORCH_IMPL] < object)
        return false;
    layout->storage = (uint32_t)at[TENON__PY_TORCH_STORAGE_PTR];
    layout->autograd = (uint32_t)at[TENON__PY_TORCH_AUTOGRAD];
    layout->sizes = (uint32_t)at[TENON__PY_TORCH_SIZES];
    layout->offset = (uint32_t)at[TENON__PY_TORCH_OFFSET];
    layout->numel = (uint32_t)at[TENON__PY_TORCH_NUMEL];
    layout->dtype = (uint32_t)at[TENON__PY_TORCH_DTYPE];
    layout->key_set = (uint32_t)at[TENON__PY_TORCH_KEYS];
    layout->data = (uint32_t)(at[TENON__PY_TORCH_DATA] - storage);
    layout->check = (uint32_t)(at[TENON__PY_TORCH_CHECK] - storage);
    layout->impl = (uint32_t)(at[TENON__PY_TORCH_IMPL] - object);
    memcpy(&layout->keys, sample->fields[TENON__PY_TORCH_KEYS].value, sizeof layout->keys);
    return true;
}

static bool torch_find_offsets(const tenon__py_torch_quiet *quiet, tenon__py_torch_layout *layout, char *why)
{
    tenon__py_torch_sample sample;
    size_t offsets[TENON__PY_TORCH_FIELDS];
    bool is_missing;
    if (!tenon__py_torch_take_sample(quiet, &sample, why))
        return false;
    const char *wrong = tenon__py_torch_locate(sample.bytes, tenon__py_torch_sample_length(&sample), sample.fields,
                                               offsets, &is_missing);
    if (wrong)
        PyOS_snprintf(why, TENON__PY_TORCH_WHY, "field '%s' of its tensors is %s", wrong,
                      is_missing ? "missing" : "ambiguous");
    return !wrong && (torch_place_fields(&sample, offsets, layout) || torch_differs(why, "order"));
}

bool tenon__py_torch_find_layout(tenon__py_torch_layout *layout, char *why)
{
    tenon__py_torch_quiet quiet;
    char device[2];
    bool found = tenon__py_torch_enter_quiet(false, &quiet, why) && torch_find_offsets(&quiet, layout, why) &&
                 torch_verify(&quiet, layout, why);
    tenon__py_torch_leave_quiet(&quiet);
    return found && torch_new_keys(true, NULL, layout, &layout->inference_keys, device, why);
}

bool tenon__py_torch_find_cuda(PyObject *tensor, tenon__py_torch_layout *layout)
{
    enum { CUDA = 1 }; /* torch's number for it */
    tenon__py_torch_quiet quiet;
    char why[TENON__PY_TORCH_WHY], bytes[2] = {0, 0}, again[2] = {0, 0};
    uint64_t keys = 0, inference_keys = 0, index = 0;
    bool is_cuda = false;
    PyObject *device = NULL;
    if (tenon__py_torch_enter_quiet(false, &quiet, why)) {
        PyObject *answer = PyObject_GetAttrString(tensor, "is_cuda");
        is_cuda =
            answer == Py_True && tenon__py_torch_number_of(PyObject_CallMethod(tensor, "get_device", NULL), &index);
        device = is_cuda ? PyObject_GetAttrString(tensor, "device") : NULL;
        Py_XDECREF(answer);
    }
    tenon__py_torch_leave_quiet(&quiet);
    bool found = device && torch_new_keys(false, device, layout, &keys, bytes, why) &&
                 torch_new_keys(true, device, layout, &inference_keys, again, why) && keys != layout->keys &&
                 keys != layout->inference_keys && bytes[0] == CUDA && again[0] == CUDA &&
                 (uint64_t)bytes[1] == index && bytes[1] == again[1];
    Py_XDECREF(device);
    if (found) {
        atomic_store_explicit(&layout->cuda_inference_keys, inference_keys, memory_order_relaxed);
        atomic_store_explicit(&layout->cuda_keys, keys, memory_order_release);
    }
    return found;
}
