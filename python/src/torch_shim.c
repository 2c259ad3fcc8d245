/* torch's own C functions (2.14 and newer), found at run time: a new tensor without a trip through Python. */
#include "bridge.h"

#include <dlfcn.h>
#include <string.h>

typedef void *tensor_handle;

enum { MOST_DTYPES = 24 };

/* Filled once, and never again: torch stays loaded until the process ends. */
typedef struct torch_functions {
    int32_t (*empty_strided)(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype,
                             int32_t device_type, int32_t device_index, tensor_handle *out);
    int32_t (*to_pyobject)(tensor_handle handle, void *type, void **out);
    int32_t (*data_ptr)(tensor_handle handle, void **out);
    int32_t (*delete_handle)(tensor_handle handle);
    int32_t cpu, cuda; /* torch's numbers for devices, and for dtypes */
    struct {
        tenon_dtype ours;
        int32_t number;
    } dtypes[MOST_DTYPES];
    int ndtypes;
} torch_functions;

static torch_functions functions;
static atomic_flag finding = ATOMIC_FLAG_INIT;
static _Atomic int search; /* 0: not looked for yet; 1: there; -1: not there */

/* A function of the library, whose address C keeps apart from those of objects. */
static bool find(void *library, const char *name, void *place)
{
    void *symbol = dlsym(library, name);
    memcpy(place, &symbol, sizeof symbol);
    return symbol;
}

static bool find_number(void *library, const char *name, int32_t *out)
{
    int32_t (*number)(void);
    if (!find(library, name, &number))
        return false;
    *out = number();
    return true;
}

static void find_dtypes(void *library, torch_functions *all)
{
    static const struct {
        uint8_t code, bits, lanes;
    } candidates[] = {{TENON_CODE_INT, 8, 1},        {TENON_CODE_INT, 16, 1},      {TENON_CODE_INT, 32, 1},
                      {TENON_CODE_INT, 64, 1},       {TENON_CODE_UINT, 8, 1},      {TENON_CODE_UINT, 16, 1},
                      {TENON_CODE_UINT, 32, 1},      {TENON_CODE_UINT, 64, 1},     {TENON_CODE_FLOAT, 16, 1},
                      {TENON_CODE_FLOAT, 32, 1},     {TENON_CODE_FLOAT, 64, 1},    {TENON_CODE_BFLOAT, 16, 1},
                      {TENON_CODE_COMPLEX, 64, 1},   {TENON_CODE_COMPLEX, 128, 1}, {TENON_CODE_BOOL, 8, 1},
                      {TENON_CODE_F8_E4M3FN, 8, 1},  {TENON_CODE_F8_E5M2, 8, 1},   {TENON_CODE_F8_E4M3FNUZ, 8, 1},
                      {TENON_CODE_F8_E5M2FNUZ, 8, 1}};
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        char word[64], name[96];
        tenon_dtype ours = tenon_dtype_of(candidates[i].code, candidates[i].bits, candidates[i].lanes);
        tenon__py_framework_dtype(ours, word, sizeof word);
        PyOS_snprintf(name, sizeof name, "aoti_torch_dtype_%s", word);
        if (find_number(library, name, &all->dtypes[all->ndtypes].number))
            all->dtypes[all->ndtypes++].ours = ours;
    }
}

static bool find_all(void *library, torch_functions *all)
{
    bool there = find(library, "aoti_torch_empty_strided", &all->empty_strided) &&
                 find(library, "torch_tensor_to_pyobject", &all->to_pyobject) &&
                 find(library, "aoti_torch_get_data_ptr", &all->data_ptr) &&
                 find(library, "aoti_torch_delete_tensor_object", &all->delete_handle) &&
                 find_number(library, "aoti_torch_device_type_cpu", &all->cpu) &&
                 find_number(library, "aoti_torch_device_type_cuda", &all->cuda);
    if (there)
        find_dtypes(library, all);
    return there;
}

/* The library that torch has loaded, or NULL. */
static void *torch_library(void)
{
    PyObject *torch = tenon__py_loaded("torch");
    PyObject *file = torch ? PyObject_GetAttrString(torch, "__file__") : NULL;
    PyObject *bytes = file && PyUnicode_Check(file) ? PyUnicode_EncodeFSDefault(file) : NULL;
    const char *path = bytes ? PyBytes_AsString(bytes) : NULL;
    const char *slash = path ? strrchr(path, '/') : NULL;
    void *library = NULL;
    char name[1024];
    if (slash &&
        PyOS_snprintf(name, sizeof name, "%.*s/lib/libtorch_cpu.so", (int)(slash - path), path) < (int)sizeof name)
        library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    Py_XDECREF(torch);
    Py_XDECREF(file);
    Py_XDECREF(bytes);
    PyErr_Clear();
    return library;
}

static const torch_functions *find_functions(void)
{
    int known = atomic_load_explicit(&search, memory_order_acquire);
    if (known)
        return known > 0 ? &functions : NULL;
    torch_functions all = {.ndtypes = 0};
    void *library = torch_library();
    int there = library && find_all(library, &all) ? 1 : -1;
    while (atomic_flag_test_and_set_explicit(&finding, memory_order_acquire)) {
    }
    if (!atomic_load_explicit(&search, memory_order_relaxed)) {
        functions = all;
        atomic_store_explicit(&search, there, memory_order_release);
    }
    atomic_flag_clear_explicit(&finding, memory_order_release);
    return there > 0 ? &functions : NULL;
}

/* Whether an object is one of torch's plain memory on the CPU, of which the view follows from its pointer. */
static bool describe(const torch_functions *torch, tensor_handle handle, tenon_dtype dtype, int32_t ndim,
                     const int64_t *shape, tenon_py_borrowed *out)
{
    void *data = NULL;
    return ndim <= TENON_PY_INLINE_DIMS && dtype.bits % 8 == 0 && torch->data_ptr(handle, &data) == 0 &&
           tenon_view_init_quick(&out->view, data, dtype, dtype.bits / 8, ndim, shape, NULL, 0, 0, out->inline_dims);
}

PyObject *tenon__py_torch_empty(tenon_device device, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                tenon_py_borrowed *out)
{
    const torch_functions *torch = find_functions();
    bool on_cpu = device.device_type == TENON_CPU;
    if (!torch || (!on_cpu && device.device_type != TENON_CUDA))
        return NULL;
    int i = 0;
    while (i < torch->ndtypes && !tenon_dtype_equal(torch->dtypes[i].ours, dtype))
        i++;
    int64_t strides[TENON_MAX_NDIM];
    if (i == torch->ndtypes || tenon_shape_strides(ndim, shape, 'C', strides, NULL))
        return NULL;
    tensor_handle handle = NULL;
    void *object = NULL;
    if (torch->empty_strided(ndim, shape, strides, torch->dtypes[i].number, on_cpu ? torch->cpu : torch->cuda,
                             on_cpu ? -1 : device.device_id, &handle) != 0)
        return NULL;
    if (torch->to_pyobject(handle, NULL, &object) != 0)
        object = NULL;
    bool described = object && on_cpu && describe(torch, handle, dtype, ndim, shape, out);
    torch->delete_handle(handle);
    PyErr_Clear(); /* whoever is asked next says what is wrong */
    if (object && !described && tenon_py_borrow(object, TENON_PY_ANY_DEVICE, out) < 0) {
        Py_DECREF((PyObject *)object);
        return NULL;
    }
    if (described) {
        out->way = TENON__PY_TABLE;
        out->table = NULL;
        out->flags = 0;
        out->dims = out->inline_dims;
        out->object = object;
        Py_INCREF((PyObject *)object);
    }
    return object;
}
