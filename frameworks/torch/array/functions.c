/* torch's own C functions, found at run time: a new tensor without a trip through Python. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

typedef void *torch_handle;

enum { MOST_DTYPES = 24 };

/* Found once, and never freed: torch stays loaded until the process ends. */
typedef struct torch_functions {
    int32_t (*empty_strided)(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype,
                             int32_t device_type, int32_t device_index, torch_handle *out);
    int32_t (*to_pyobject)(torch_handle handle, void *type, void **out); /* 2.14 and newer, or NULL */
    PyObject *(*wrap)(const void *tensor); /* before that, THPVariable_Wrap: a handle points to a C++ tensor */
    int32_t (*data_ptr)(torch_handle handle, void **out);
    int32_t (*delete_handle)(torch_handle handle);
    int32_t cpu, cuda; /* torch's numbers for devices, and for dtypes */
    struct {
        tenon_dtype ours;
        int32_t number;
    } dtypes[MOST_DTYPES];
    int ndtypes;
} torch_functions;

bool tenon__py_torch_number(void *library, const char *name, int32_t *out)
{
    int32_t (*number)(void);
    if (!tenon__py_symbol(library, name, &number))
        return false;
    *out = number();
    return true;
}

bool tenon__py_torch_candidate(size_t i, tenon_dtype *out)
{
    static const struct {
        uint8_t code, bits, lanes;
    } candidates[] = {{TENON_CODE_INT, 8, 1},         {TENON_CODE_INT, 16, 1},        {TENON_CODE_INT, 32, 1},
                      {TENON_CODE_INT, 64, 1},        {TENON_CODE_UINT, 8, 1},        {TENON_CODE_UINT, 16, 1},
                      {TENON_CODE_UINT, 32, 1},       {TENON_CODE_UINT, 64, 1},       {TENON_CODE_FLOAT, 16, 1},
                      {TENON_CODE_FLOAT, 32, 1},      {TENON_CODE_FLOAT, 64, 1},      {TENON_CODE_BFLOAT, 16, 1},
                      {TENON_CODE_COMPLEX, 32, 1},    {TENON_CODE_COMPLEX, 64, 1},    {TENON_CODE_COMPLEX, 128, 1},
                      {TENON_CODE_BOOL, 8, 1},        {TENON_CODE_F8_E4M3FN, 8, 1},   {TENON_CODE_F8_E5M2, 8, 1},
                      {TENON_CODE_F8_E4M3FNUZ, 8, 1}, {TENON_CODE_F8_E5M2FNUZ, 8, 1}, {TENON_CODE_F8_E8M0FNU, 8, 1},
                      {TENON_CODE_F4_E2M1FN, 4, 2}};
    if (i >= sizeof candidates / sizeof *candidates)
        return false;
    *out = tenon_dtype_of(candidates[i].code, candidates[i].bits, candidates[i].lanes);
    return true;
}

void tenon__py_torch_dtypes(void *library, void (*found)(void *context, tenon_dtype dtype, int32_t number),
                            void *context)
{
    tenon_dtype dtype;
    for (size_t i = 0; tenon__py_torch_candidate(i, &dtype); i++) {
        char word[64], name[96];
        int32_t number;
        tenon_dtype_format_long(dtype, word, sizeof word);
        PyOS_snprintf(name, sizeof name, "aoti_torch_dtype_%s", word);
        bool there = tenon__py_torch_number(library, name, &number);
        PyOS_snprintf(name, sizeof name, "torch_dtype_%s", word); /* what the two newest had first */
        if (there || tenon__py_torch_number(library, name, &number))
            found(context, dtype, number);
    }
}

static void torch_add_dtype(void *context, tenon_dtype dtype, int32_t number)
{
    torch_functions *all = context;
    all->dtypes[all->ndtypes].ours = dtype;
    all->dtypes[all->ndtypes++].number = number;
}

static bool torch_find_all(void *library, torch_functions *all)
{
    bool there = tenon__py_symbol(library, "aoti_torch_empty_strided", &all->empty_strided) &&
                 tenon__py_symbol(library, "aoti_torch_get_data_ptr", &all->data_ptr) &&
                 tenon__py_symbol(library, "aoti_torch_delete_tensor_object", &all->delete_handle) &&
                 tenon__py_torch_number(library, "aoti_torch_device_type_cpu", &all->cpu) &&
                 tenon__py_torch_number(library, "aoti_torch_device_type_cuda", &all->cuda);
    if (there)
        tenon__py_torch_dtypes(library, torch_add_dtype, all);
    return there;
}

#ifdef _WIN32

/* Windows finds a library that is loaded by its name alone. */
static void *torch_loaded(const char *name)
{
    char file[64];
    PyOS_snprintf(file, sizeof file, "%s.dll", name);
    return tenon__py_loaded_library(file);
}

#else

/* A library in torch's folder, if it is loaded. */
static void *torch_loaded(const char *name)
{
#ifdef __APPLE__
    static const char *const end = "dylib";
#else
    static const char *const end = "so";
#endif
    PyObject *torch = tenon__py_loaded("torch");
    PyObject *file = torch ? PyObject_GetAttrString(torch, "__file__") : NULL;
    PyObject *bytes = file && PyUnicode_Check(file) ? PyUnicode_EncodeFSDefault(file) : NULL;
    const char *path = bytes ? PyBytes_AsString(bytes) : NULL;
    const char *slash = path ? strrchr(path, '/') : NULL;
    void *library = NULL;
    char full[4096];
    if (slash &&
        PyOS_snprintf(full, sizeof full, "%.*s/lib/lib%s.%s", (int)(slash - path), path, name, end) < (int)sizeof full)
        library = tenon__py_loaded_library(full);
    Py_XDECREF(torch);
    Py_XDECREF(file);
    Py_XDECREF(bytes);
    PyErr_Clear();
    return library;
}

#endif

void *tenon__py_torch_library(void)
{
    return torch_loaded("torch_cpu");
}

/* The tensor of a handle as an object. No user code may run, which could change the arguments of a call. */
static void *torch_make_object(const torch_functions *torch, torch_handle handle)
{
    void *object = NULL;
    int enabled = tenon__py_pause_gc();
    if (!torch->to_pyobject)
        object = torch->wrap(handle);
    else if (torch->to_pyobject(handle, NULL, &object) != 0)
        object = NULL;
    tenon__py_resume_gc(enabled);
    return object;
}

/* Whether a function that no header of torch promises makes a torch.Tensor of the tensor that it is given. Its struct says so,
 * because torch itself could only be asked by Python code. */
static bool torch_verify_wrap(const torch_functions *torch)
{
    int64_t size = 3, stride = 1;
    torch_handle handle = NULL;
    if (torch->ndtypes == 0 ||
        torch->empty_strided(1, &size, &stride, torch->dtypes[0].number, torch->cpu, -1, &handle) != 0)
        return false;
    uint64_t impl = tenon__py_torch_word(handle, 0);
    PyObject *object = torch_make_object(torch, handle);
    void *data = NULL;
    tenon_py_borrowed borrowed;
    bool same = object && Py_TYPE(object) == atomic_load_explicit(&tenon__py_torch.tensor, memory_order_relaxed) &&
                (uintptr_t)tenon__py_torch_impl_of(object) == impl && torch->data_ptr(handle, &data) == 0 &&
                tenon_py_borrow(object, 0, &borrowed) == 0;
    torch->delete_handle(handle);
    if (same) {
        same = Py_REFCNT(object) == 2 && borrowed.view.data == data && borrowed.view.ndim == 1 &&
               borrowed.view.numel == size;
        tenon_py_unborrow(&borrowed);
    }
    Py_XDECREF(object);
    PyErr_Clear();
    return same;
}

/* How a handle becomes an object. `*searched` is false if it cannot be verified yet. */
static bool torch_find_wrap(void *library, torch_functions *all, bool *searched)
{
    if (tenon__py_symbol(library, "torch_tensor_to_pyobject", &all->to_pyobject))
        return true;
    *searched = atomic_load_explicit(&tenon__py_torch.state, memory_order_acquire) >= TENON__PY_TORCH_OFF;
    if (!*searched)
        return false;
    all->to_pyobject = NULL;
    void *python = torch_loaded("torch_python");
    return python && tenon__py_symbol(python, "_Z16THPVariable_WrapRKN2at10TensorBaseE", &all->wrap) &&
           torch_verify_wrap(all);
}

static const torch_functions *torch_find(void)
{
    const torch_functions *found = atomic_load_explicit(&tenon__py_torch.functions, memory_order_acquire);
    if (found || atomic_load_explicit(&tenon__py_torch.searched, memory_order_relaxed))
        return found;
    torch_functions *all = calloc(1, sizeof *all);
    void *library = all ? tenon__py_torch_library() : NULL;
    bool searched = all != NULL;
    bool complete = library && torch_find_all(library, all) && torch_find_wrap(library, all, &searched);
    if (complete && atomic_compare_exchange_strong(&tenon__py_torch.functions, &found, all))
        return all;
    tenon__py_torch.searched = searched;
    free(all); /* another thread was faster, or there are none */
    return found;
}

/* Describe a new tensor, of which the view follows from its pointer. False means "unknown". */
static bool torch_describe(const torch_functions *torch, torch_handle handle, tenon_device device, tenon_dtype dtype,
                           int32_t ndim, const int64_t *shape, tenon_py_borrowed *out)
{
    void *data = NULL;
    if (dtype.bits % 8 || torch->data_ptr(handle, &data) != 0 ||
        !tenon__py_make_view_fast(data, &dtype, ndim, shape, NULL, 0, 0, out))
        return false;
    out->view.device = device;
    out->private_.holds = TENON__PY_HOLDS_NOTHING;
    out->private_.table = device.device_type == TENON_CPU ? NULL : tenon__py_torch_table();
    out->private_.flags = 0;
    out->private_.dims = out->private_.inline_dims;
    return true;
}

PyObject *tenon__py_torch_empty_in_c(tenon_device device, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                     tenon_py_borrowed *out)
{
    const torch_functions *torch = torch_find();
    bool on_cpu = device.device_type == TENON_CPU;
    if (!torch || (!on_cpu && device.device_type != TENON_CUDA))
        return NULL;
    int i = 0;
    while (i < torch->ndtypes && !tenon_dtype_equal(torch->dtypes[i].ours, dtype))
        i++;
    int64_t strides[TENON_MAX_NDIM];
    if (i == torch->ndtypes || tenon_shape_strides(ndim, shape, 'C', strides, NULL))
        return NULL;
    torch_handle handle = NULL;
    void *object = NULL;
    if (torch->empty_strided(ndim, shape, strides, torch->dtypes[i].number, on_cpu ? torch->cpu : torch->cuda,
                             on_cpu ? -1 : device.device_id, &handle) != 0)
        return NULL;
    object = torch_make_object(torch, handle);
    bool described = object && torch_describe(torch, handle, device, dtype, ndim, shape, out);
    torch->delete_handle(handle);
    PyErr_Clear(); /* the next way reports what is wrong */
    if (object && !described && tenon_py_borrow(object, TENON_PY_ANY_DEVICE, out) < 0) {
        PyErr_Clear();
        Py_DECREF((PyObject *)object);
        return NULL;
    }
    if (described) {
        out->private_.object = object;
        Py_INCREF((PyObject *)object);
    }
    return object;
}
