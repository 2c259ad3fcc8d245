/* torch's own C functions (2.14 and newer), found at run time: a new tensor without a trip through Python. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

typedef void *torch_handle;

enum { MOST_DTYPES = 24 };

/* Found once, and never freed: torch stays loaded until the process ends. */
typedef struct torch_functions {
    int32_t (*empty_strided)(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype,
                             int32_t device_type, int32_t device_index, torch_handle *out);
    int32_t (*to_pyobject)(torch_handle handle, void *type, void **out);
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
                 tenon__py_symbol(library, "torch_tensor_to_pyobject", &all->to_pyobject) &&
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
void *tenon__py_torch_library(void)
{
    return tenon__py_loaded_library("torch_cpu.dll");
}

#else

void *tenon__py_torch_library(void)
{
#ifdef __APPLE__
    static const char *const name = "libtorch_cpu.dylib";
#else
    static const char *const name = "libtorch_cpu.so";
#endif
    PyObject *torch = tenon__py_loaded("torch");
    PyObject *file = torch ? PyObject_GetAttrString(torch, "__file__") : NULL;
    PyObject *bytes = file && PyUnicode_Check(file) ? PyUnicode_EncodeFSDefault(file) : NULL;
    const char *path = bytes ? PyBytes_AsString(bytes) : NULL;
    const char *slash = path ? strrchr(path, '/') : NULL;
    void *library = NULL;
    char full[4096];
    if (slash && PyOS_snprintf(full, sizeof full, "%.*s/lib/%s", (int)(slash - path), path, name) < (int)sizeof full)
        library = tenon__py_loaded_library(full);
    Py_XDECREF(torch);
    Py_XDECREF(file);
    Py_XDECREF(bytes);
    PyErr_Clear();
    return library;
}

#endif

static const torch_functions *torch_find(void)
{
    const torch_functions *found = atomic_load_explicit(&tenon__py_torch.functions, memory_order_acquire);
    if (found || atomic_load_explicit(&tenon__py_torch.searched, memory_order_relaxed))
        return found;
    torch_functions *all = calloc(1, sizeof *all);
    void *library = all ? tenon__py_torch_library() : NULL;
    bool complete = library && torch_find_all(library, all);
    if (complete && atomic_compare_exchange_strong(&tenon__py_torch.functions, &found, all))
        return all;
    tenon__py_torch.searched = all != NULL;
    free(all); /* another thread was faster, or there are none */
    return found;
}

/* Describe a new tensor on the CPU, of which the view follows from its pointer. False means "unknown". */
static bool torch_describe(const torch_functions *torch, torch_handle handle, tenon_dtype dtype, int32_t ndim,
                           const int64_t *shape, tenon_py_borrowed *out)
{
    void *data = NULL;
    return dtype.bits % 8 == 0 && torch->data_ptr(handle, &data) == 0 &&
           tenon__py_make_view_fast(data, &dtype, ndim, shape, NULL, 0, 0, out);
}

/* The tensor as an object. No user code may run, which could change the arguments of a call. */
static void *torch_make_object(const torch_functions *torch, torch_handle handle)
{
    void *object = NULL;
    int enabled = tenon__py_pause_gc();
    int status = torch->to_pyobject(handle, NULL, &object);
    tenon__py_resume_gc(enabled);
    return status == 0 ? object : NULL;
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
    bool described = object && on_cpu && torch_describe(torch, handle, dtype, ndim, shape, out);
    torch->delete_handle(handle);
    PyErr_Clear(); /* the next way reports what is wrong */
    if (object && !described && tenon_py_borrow(object, TENON_PY_ANY_DEVICE, out) < 0) {
        PyErr_Clear();
        Py_DECREF((PyObject *)object);
        return NULL;
    }
    if (described) {
        out->private_.holds = TENON__PY_HOLDS_NOTHING;
        out->private_.table = NULL;
        out->private_.flags = 0;
        out->private_.dims = out->private_.inline_dims;
        out->private_.object = object;
        Py_INCREF((PyObject *)object);
    }
    return object;
}
