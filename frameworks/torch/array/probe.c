/* The layout of torch's structs, found by values that only the wanted fields have. No offset is assumed: a field counts as
 * found only if its value occurs exactly once in the bytes that are looked at. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------- searching */

/* Where a value is in the bytes: 1 and its offset, 0 if it is missing, 2 if it occurs more than once. */
static int torch_search(const uint8_t *bytes, size_t length, const tenon__py_torch_field *field, size_t *out)
{
    int found = 0;
    for (size_t i = 0; field->size && i + field->size <= length; i += field->step) {
        if (memcmp(bytes + i, field->value, field->size) != 0)
            continue;
        if (found)
            return 2;
        *out = i;
        found = 1;
    }
    return found;
}

const char *tenon__py_torch_locate(const uint8_t *bytes, size_t length, const tenon__py_torch_field *fields,
                                   size_t *offsets, bool *is_missing)
{
    for (int i = 0; i < TENON__PY_TORCH_FIELDS; i++) {
        int found = torch_search(bytes, length, &fields[i], &offsets[i]);
        *is_missing = found == 0;
        if (found != 1)
            return fields[i].name;
        offsets[i] += fields[i].inside;
    }
    return NULL;
}

static void torch_want(tenon__py_torch_field *field, const char *name, const void *value, size_t size, size_t step)
{
    *field = (tenon__py_torch_field){.name = name, .size = size, .step = step};
    memcpy(field->value, value, size);
}

/* 0 means that the value is unknown; the field will be missing. */
static void torch_want_word(tenon__py_torch_field *field, const char *name, uint64_t word)
{
    torch_want(field, name, &word, word ? sizeof word : 0, sizeof word);
}

/* The only 8 bytes that were 0 before and have another value now. 0 if none or several have changed so. */
static uint64_t torch_new_word(const uint8_t *before, const uint8_t *after, size_t length)
{
    uint64_t found = 0;
    for (size_t i = 0; i + 8 <= length; i += 8) {
        uint64_t was, is;
        memcpy(&was, before + i, 8);
        memcpy(&is, after + i, 8);
        if (was || !is)
            continue;
        if (found)
            return 0;
        found = is;
    }
    return found;
}

/* The 8 bytes of a storage of which only one changed, from 0 to 1, and the index of that one. 0 if none or several have
 * changed so. */
static uint64_t torch_raised_byte(const uint8_t *before, const uint8_t *after, size_t *inside)
{
    uint64_t found = 0;
    for (size_t i = 0; i < TENON__PY_TORCH_STORAGE; i += 8) {
        size_t changes = 0, last = 0;
        for (size_t j = i; j < i + 8; j++) {
            changes += before[j] != after[j];
            last = before[j] != after[j] ? j : last;
        }
        if (changes != 1 || before[last] != 0 || after[last] != 1)
            continue;
        if (found)
            return 0;
        memcpy(&found, after + i, 8);
        *inside = last - i;
    }
    return found;
}

/* ------------------------------------------------------------------------------------------------ asking torch */

bool tenon__py_torch_number_of(PyObject *number, uint64_t *out)
{
    *out = number && PyLong_Check(number) ? PyLong_AsUnsignedLongLongMask(number) : 0;
    bool is_number = number && PyLong_Check(number) && !PyErr_Occurred();
    Py_XDECREF(number);
    return is_number;
}

bool tenon__py_torch_keys(const tenon__py_torch_quiet *quiet, PyObject *tensor, uint64_t *out)
{
    PyObject *keys = PyObject_CallMethod(quiet->native, "_dispatch_keys", "O", tensor);
    bool known = keys && tenon__py_torch_number_of(PyObject_CallMethod(keys, "raw_repr", NULL), out);
    Py_XDECREF(keys);
    return known;
}

PyObject *tenon__py_torch_fresh(const tenon__py_torch_quiet *quiet, Py_ssize_t count, const char *dtype_name,
                                PyObject *device)
{
    PyObject *empty = PyObject_GetAttrString(quiet->torch, "empty");
    PyObject *dtype = empty ? PyObject_GetAttrString(quiet->torch, dtype_name) : NULL;
    PyObject *arguments = dtype ? Py_BuildValue("(n)", count) : NULL;
    PyObject *keywords = !arguments ? NULL
                         : device   ? Py_BuildValue("{sOsO}", "dtype", dtype, "device", device)
                                    : Py_BuildValue("{sOss}", "dtype", dtype, "device", "cpu");
    PyObject *tensor = keywords ? PyObject_Call(empty, arguments, keywords) : NULL;
    Py_XDECREF(empty);
    Py_XDECREF(dtype);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    return tensor;
}

PyObject *tenon__py_torch_place(const tenon__py_torch_quiet *quiet, PyObject *storage, const char *dtype_name,
                                int64_t offset, int32_t ndim, const int64_t *dims)
{
    PyObject *tensor = tenon__py_torch_fresh(quiet, 0, dtype_name, NULL);
    PyObject *sizes = tensor ? tenon__py_dims_tuple(ndim, dims) : NULL;
    PyObject *strides = sizes ? tenon__py_dims_tuple(ndim, dims + ndim) : NULL;
    PyObject *same =
        strides ? PyObject_CallMethod(tensor, "set_", "OLOO", storage, (long long)offset, sizes, strides) : NULL;
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    Py_XDECREF(same);
    if (!same)
        Py_CLEAR(tensor);
    return tensor;
}

/* The guards of torch._C. Under them no function or dispatch mode of the user sees what is done. */
static const struct {
    const char *name, *format;
} torch_guards[TENON__PY_TORCH_GUARDS] = {
    {"DisableTorchFunction", "()"}, {"_DisableTorchDispatch", "()"}, {"_InferenceMode", "(O)"}};

bool tenon__py_torch_enter_quiet(bool inference, tenon__py_torch_quiet *quiet, char *why)
{
    *quiet = (tenon__py_torch_quiet){.gc = tenon__py_pause_gc()};
    quiet->torch = tenon__py_loaded("torch");
    quiet->native = quiet->torch ? tenon__py_loaded("torch._C") : NULL;
    PyOS_snprintf(why, TENON__PY_TORCH_WHY, "torch has not been imported");
    for (int i = 0; quiet->native && i < TENON__PY_TORCH_GUARDS; i++) {
        PyOS_snprintf(why, TENON__PY_TORCH_WHY, "torch._C.%s cannot be used", torch_guards[i].name);
        PyObject *type = PyObject_GetAttrString(quiet->native, torch_guards[i].name);
        PyObject *arguments = Py_BuildValue(torch_guards[i].format, inference ? Py_True : Py_False);
        PyObject *guard = type && arguments ? PyObject_CallObject(type, arguments) : NULL;
        PyObject *entered = guard ? PyObject_CallMethod(guard, "__enter__", NULL) : NULL;
        Py_XDECREF(type);
        Py_XDECREF(arguments);
        Py_XDECREF(entered);
        if (!entered) {
            Py_XDECREF(guard);
            return false;
        }
        quiet->guards[i] = guard;
    }
    return quiet->native;
}

void tenon__py_torch_leave_quiet(tenon__py_torch_quiet *quiet)
{
    tenon__py_scope scope = tenon__py_enter_scope();
    for (int i = TENON__PY_TORCH_GUARDS - 1; i >= 0; i--) {
        PyObject *guard = quiet->guards[i];
        PyObject *left = guard ? PyObject_CallMethod(guard, "__exit__", "OOO", Py_None, Py_None, Py_None) : NULL;
        Py_XDECREF(left);
        Py_XDECREF(guard);
    }
    Py_XDECREF(quiet->torch);
    Py_XDECREF(quiet->native);
    tenon__py_leave_scope(scope);
    tenon__py_resume_gc(quiet->gc);
}

/* --------------------------------------------------------------------------------------------------- the sample */

/* What the probed tensor has. No other field of it has one of these values. */
static const int64_t torch_marks[11] = {5, 2, 3, 5, 7, 11, 1009, 307, 101, 17, 3}; /* ndim, sizes, strides */
enum { MARK_OFFSET = 1234, MARK_NUMEL = 2310, MARK_BYTES = 32768, FLOAT64 = 7 };

/* Copy a tensor's struct, up to the key set and no further: that it is longer is not known. False: the key set is not in
 * what every version of torch has allocated. */
static bool torch_copy_impl(const void *impl, uint64_t keys, tenon__py_torch_sample *sample)
{
    enum { MOST = 184 };
    for (size_t at = 0; at < MOST; at += 8) {
        memcpy(sample->bytes + at, (const char *)impl + at, 8);
        if (memcmp(sample->bytes + at, &keys, 8) == 0) {
            sample->impl_length = at + 8;
            return true;
        }
    }
    return false;
}

/* Take the sample of `tensor`, whose storage is that of `base`. NULL, or what is missing. */
static const char *torch_take(const tenon__py_torch_quiet *quiet, PyObject *base, PyObject *storage, PyObject *tensor,
                              tenon__py_torch_sample *sample)
{
    uint8_t impl_before[sizeof sample->bytes], storage_before[TENON__PY_TORCH_STORAGE];
    uint64_t impl, keys, stored, data, size;
    if (!tenon__py_torch_keys(quiet, tensor, &keys))
        return "torch._C.DispatchKeySet.raw_repr";
    if (!tenon__py_torch_number_of(PyObject_GetAttrString(tensor, "_cdata"), &impl) ||
        !tenon__py_torch_number_of(PyObject_GetAttrString(storage, "_cdata"), &stored) ||
        !tenon__py_torch_number_of(PyObject_CallMethod(storage, "data_ptr", NULL), &data) ||
        !tenon__py_torch_number_of(PyObject_GetAttrString((PyObject *)Py_TYPE(tensor), "__basicsize__"), &size))
        return "_cdata or data_ptr";
    const void *impl_at = (const void *)(uintptr_t)impl, *storage_at = (const void *)(uintptr_t)stored;
    if (!impl || !stored || !keys || !torch_copy_impl(impl_at, keys, sample))
        return "keys";
    memcpy(impl_before, sample->bytes, sample->impl_length);
    memcpy(storage_before, storage_at, sizeof storage_before);
    PyObject *clone = PyObject_CallMethod(base, "_lazy_clone", NULL);
    PyObject *same = clone ? PyObject_CallMethod(tensor, "requires_grad_", NULL) : NULL;
    bool done = same;
    Py_XDECREF(same);
    if (done) {
        uint8_t *next = sample->bytes + sample->impl_length;
        torch_copy_impl(impl_at, keys, sample);
        memcpy(next, storage_at, TENON__PY_TORCH_STORAGE);
        next += TENON__PY_TORCH_STORAGE;
        sample->object_length = size < TENON__PY_TORCH_OBJECT ? (size_t)size & ~(size_t)7 : TENON__PY_TORCH_OBJECT;
        memcpy(next, tensor, sample->object_length);
    }
    Py_XDECREF(clone);
    if (!done)
        return "_lazy_clone or requires_grad_";
    static const uint8_t dtype_and_device[] = {FLOAT64, 0, 0 /* the CPU */, 0xff /* without index */, 1 /* given */};
    tenon__py_torch_field *fields = sample->fields;
    torch_want_word(&fields[TENON__PY_TORCH_STORAGE_PTR], "storage", stored);
    torch_want_word(&fields[TENON__PY_TORCH_AUTOGRAD], "autograd",
                    torch_new_word(impl_before, sample->bytes, sample->impl_length));
    torch_want(&fields[TENON__PY_TORCH_SIZES], "sizes", torch_marks, sizeof torch_marks, 8);
    torch_want_word(&fields[TENON__PY_TORCH_OFFSET], "offset", MARK_OFFSET);
    torch_want_word(&fields[TENON__PY_TORCH_NUMEL], "numel", MARK_NUMEL);
    torch_want(&fields[TENON__PY_TORCH_DTYPE], "dtype", dtype_and_device, sizeof dtype_and_device, 2);
    torch_want_word(&fields[TENON__PY_TORCH_KEYS], "keys", keys);
    torch_want_word(&fields[TENON__PY_TORCH_DATA], "data", data);
    torch_want_word(&fields[TENON__PY_TORCH_IMPL], "impl", impl);
    size_t inside = 0;
    uint64_t word = torch_raised_byte(storage_before, sample->bytes + sample->impl_length, &inside);
    torch_want_word(&fields[TENON__PY_TORCH_CHECK], "check", word);
    fields[TENON__PY_TORCH_CHECK].inside = inside;
    return NULL;
}

bool tenon__py_torch_take_sample(const tenon__py_torch_quiet *quiet, tenon__py_torch_sample *sample, char *why)
{
    *sample = (tenon__py_torch_sample){.impl_length = 0};
    PyObject *base = tenon__py_torch_fresh(quiet, MARK_BYTES, "uint8", NULL);
    PyObject *storage = base ? PyObject_CallMethod(base, "untyped_storage", NULL) : NULL;
    PyObject *tensor =
        storage ? tenon__py_torch_place(quiet, storage, "float64", MARK_OFFSET, 5, torch_marks + 1) : NULL;
    const char *missing = tensor ? torch_take(quiet, base, storage, tensor, sample) : "a tensor on given memory";
    if (missing)
        PyOS_snprintf(why, TENON__PY_TORCH_WHY, "this torch lacks %s", missing);
    Py_XDECREF(tensor);
    Py_XDECREF(storage);
    Py_XDECREF(base);
    return !missing;
}

size_t tenon__py_torch_sample_length(const tenon__py_torch_sample *sample)
{
    return sample->impl_length + TENON__PY_TORCH_STORAGE + sample->object_length;
}

/* ---------------------------------------------------------------------------------------------------- for the tests */

static PyObject *torch_offsets_dict(const uint8_t *bytes, size_t length, const tenon__py_torch_sample *sample)
{
    size_t offsets[TENON__PY_TORCH_FIELDS];
    bool is_missing = false;
    const char *wrong = tenon__py_torch_locate(bytes, length, sample->fields, offsets, &is_missing);
    if (wrong)
        return PyErr_Format(PyExc_ValueError, "_torch_probe(): field '%s' %s", wrong,
                            is_missing ? "is missing" : "is ambiguous: its value occurs more than once");
    PyObject *words = PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)length);
    PyObject *dict = words ? Py_BuildValue("{sO}", "words", words) : NULL;
    for (int i = 0; dict && i < TENON__PY_TORCH_FIELDS; i++) {
        PyObject *offset = PyLong_FromSize_t(offsets[i]);
        if (!offset || PyDict_SetItemString(dict, sample->fields[i].name, offset) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(offset);
    }
    Py_XDECREF(words);
    return dict;
}

/* A new sample of the torch that has been imported. -1 with an exception. */
static int torch_sample_now(tenon__py_torch_sample *sample)
{
    char why[TENON__PY_TORCH_WHY];
    tenon__py_torch_quiet quiet;
    bool done = tenon__py_torch_enter_quiet(false, &quiet, why) && tenon__py_torch_take_sample(&quiet, sample, why);
    tenon__py_torch_leave_quiet(&quiet);
    if (done)
        return 0;
    tenon__py_clear_ignorable_error();
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "_torch_probe(): %s", why);
    return -1;
}

PyObject *tenon__py_torch_probe(PyObject *words)
{
    const tenon__py_interp *interp = tenon__py_interp_state();
    if (!interp)
        return NULL;
    if (!interp->is_main)
        return PyErr_Format(PyExc_ValueError, "_torch_probe(): torch is looked at only in the main interpreter");
    /* What `words` are searched for is what the last sample had. */
    tenon__py_torch_sample *sample = atomic_load_explicit(&tenon__py_torch.sample, memory_order_acquire);
    if (!sample || words == Py_None) {
        tenon__py_torch_sample *made = calloc(1, sizeof *made);
        if (!made)
            return PyErr_NoMemory();
        if (torch_sample_now(made) < 0) {
            free(made);
            return NULL;
        }
        /* The old one is not freed: another thread may use it. This function is for tests. */
        atomic_store_explicit(&tenon__py_torch.sample, sample = made, memory_order_release);
    }
    if (words == Py_None)
        return torch_offsets_dict(sample->bytes, tenon__py_torch_sample_length(sample), sample);
    Py_buffer buffer;
    if (PyObject_GetBuffer(words, &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *dict = torch_offsets_dict(buffer.buf, (size_t)buffer.len, sample);
    PyBuffer_Release(&buffer);
    return dict;
}
