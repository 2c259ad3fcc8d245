/* Find the torch of this process, and what it can do. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Atomic(const tenon__torch_api *) tenon__torch_known_api;

/* ------------------------------------------------------------------------------------------------------ the library */

static void add_dtype(void *context, tenon_dtype dtype, int32_t number)
{
    tenon__torch_api *api = context;
    if (number >= 0 && number < TENON__TORCH_DTYPES)
        api->dtypes[number] = dtype;
}

/* Find the functions that every torch must have. False with the name of the missing one in the report. */
static bool find_needed(void *library, tenon__torch_api *api)
{
    const struct {
        const char *name;
        void *place;
    } needed[] = {{"aoti_torch_delete_tensor_object", &api->delete_handle},
                  {"aoti_torch_get_dim", &api->get_dim},
                  {"aoti_torch_get_sizes", &api->get_sizes},
                  {"aoti_torch_get_strides", &api->get_strides},
                  {"aoti_torch_get_dtype", &api->get_dtype},
                  {"aoti_torch_get_device_type", &api->get_device_type},
                  {"aoti_torch_get_device_index", &api->get_device_index},
                  {"aoti_torch_get_data_ptr", &api->get_data},
                  {"aoti_torch_get_storage_size", &api->get_storage_size},
                  {"aoti_torch_empty_strided", &api->empty_strided}};
    const char *missing = NULL;
    for (size_t i = 0; i < sizeof needed / sizeof *needed && !missing; i++)
        missing = tenon__py_symbol(library, needed[i].name, needed[i].place) ? NULL : needed[i].name;
    if (!missing && !tenon__py_torch_number(library, "aoti_torch_device_type_cpu", &api->cpu))
        missing = "aoti_torch_device_type_cpu";
    if (!missing && !tenon__py_torch_number(library, "aoti_torch_device_type_cuda", &api->cuda))
        missing = "aoti_torch_device_type_cuda";
    if (missing)
        snprintf(api->report.missing, sizeof api->report.missing, "the C function %s", missing);
    return !missing;
}

/* Find the functions that only newer versions have. */
static void find_more(void *library, tenon__torch_api *api)
{
    if (!tenon__py_symbol(library, "torch_tensor_from_pyobject", &api->from_pyobject) ||
        !tenon__py_symbol(library, "torch_tensor_to_pyobject", &api->to_pyobject))
        api->from_pyobject = NULL;
    if (!tenon__py_symbol(library, "torch_from_blob", &api->from_blob) ||
        !tenon__py_torch_number(library, "aoti_torch_layout_strided", &api->strided))
        api->from_blob = NULL;
    tenon__py_symbol(library, "torch_exception_get_what_without_backtrace", &api->what);
    tenon__py_symbol(library, "aoti_torch_new_tensor_handle", &api->new_handle);
    bool all = api->what && tenon__py_symbol(library, "torch_call_dispatcher", &api->call) && api->new_handle &&
               tenon__py_symbol(library, "aoti_torch_is_defined", &api->is_defined) &&
               tenon__py_symbol(library, "torch_new_stable_ivalue", &api->new_optional) &&
               tenon__py_symbol(library, "torch_delete_stable_ivalue", &api->delete_optional) &&
               tenon__py_symbol(library, "torch_new_list_reserve_size", &api->new_list) &&
               tenon__py_symbol(library, "torch_list_push_back", &api->list_push) &&
               tenon__py_symbol(library, "torch_list_size", &api->list_size) &&
               tenon__py_symbol(library, "torch_list_get_item", &api->list_get) &&
               tenon__py_symbol(library, "torch_delete_list", &api->delete_list) &&
               tenon__py_symbol(library, "torch_new_string_handle", &api->new_string) &&
               tenon__py_symbol(library, "aoti_torch_abi_version", &api->abi_version);
    if (!all)
        api->call = NULL;
    tenon__py_torch_dtypes(library, add_dtype, api);
}

/* Find what kernels in C need. GNU's C++ library is one of those that torch links. */
static void find_for_kernels(void *library, tenon__torch_api *api)
{
    const struct {
        const char *name;
        void *place;
    } needed[] = {{"aoti_torch_library_init_impl", &api->kernels.init_library},
                  {"torch_library_impl", &api->kernels.implement},
                  {"aoti_torch_delete_library_object", &api->kernels.delete_library},
                  {"aoti_torch_abi_version", &api->kernels.abi_version},
                  {"torch_get_const_data_ptr", &api->kernels.get_const_data},
                  {"torch_list_size", &api->kernels.list_size},
                  {"torch_list_get_item", &api->kernels.list_get},
                  {"torch_delete_list", &api->kernels.delete_list},
                  {"torch_string_length", &api->kernels.string_length},
                  {"torch_string_c_str", &api->kernels.string_data},
                  {"torch_delete_string", &api->kernels.delete_string},
                  {"_Unwind_Find_FDE", &api->kernels.find_unwind_table},
                  {"_ZSt21__throw_runtime_errorPKc", &api->kernels.throw_runtime_error},
                  {"_ZdlPv", &api->kernels.operator_delete}};
    api->kernels.usable = true;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        api->kernels.usable &= tenon__py_symbol(library, needed[i].name, needed[i].place);
        /* Its own library, which libtorch_cpu does not link. */
#ifdef _WIN32
    static const char *const names[] = {"torch_cuda.dll", "torch_hip.dll"};
#else
    static const char *const names[] = {"libtorch_cuda.so", "libtorch_hip.so"};
#endif
    for (size_t i = 0; i < 2 && !api->kernels.current_cuda_stream; i++) {
        void *device = tenon__py_loaded_library(names[i]);
        if (device)
            tenon__py_symbol(device, "aoti_torch_get_current_cuda_stream", &api->kernels.current_cuda_stream);
    }
}

/* ------------------------------------------------------------------------------------------------------- the module */

/* object.first.second.third: a new reference, or NULL without an exception. `second` and `third` may be NULL. */
static PyObject *get_nested(PyObject *object, const char *first, const char *second, const char *third)
{
    const char *names[] = {first, second, third};
    Py_INCREF(object);
    for (int i = 0; i < 3 && object && names[i]; i++) {
        PyObject *next = PyObject_GetAttrString(object, names[i]);
        Py_DECREF(object);
        object = next;
    }
    PyErr_Clear();
    return object;
}

static void read_version(PyObject *torch, char *version, size_t size)
{
    PyObject *attribute = get_nested(torch, "__version__", NULL, NULL);
    PyObject *text_object = attribute ? PyObject_Str(attribute) : NULL;
    const char *text = text_object ? PyUnicode_AsUTF8AndSize(text_object, NULL) : NULL;
    if (text)
        snprintf(version, size, "%s", text);
    PyErr_Clear();
    Py_XDECREF(attribute);
    Py_XDECREF(text_object);
}

static bool find_private(PyObject *torch, tenon__torch_api *api)
{
    static const char *const in = "unsafe_alloc_void_ptr_from_tensor", *const out =
                                                                           "alloc_tensor_by_stealing_from_void_ptr";
    api->handle_of = get_nested(torch, "_C", "_aoti", in);
    api->object_of = get_nested(torch, "_C", "_aoti", out);
    if (!api->handle_of || !api->object_of)
        snprintf(api->report.missing, sizeof api->report.missing, "torch._C._aoti.%s (torch 2.4 and newer)",
                 api->handle_of ? out : in);
    return api->handle_of && api->object_of;
}

/* Inspect the module torch. If it cannot be used, `report.tier` stays 0 and `report.missing` says why. */
static void inspect_torch(PyObject *torch, tenon__torch_api *api)
{
    tenon_torch_report *report = &api->report;
    read_version(torch, report->version, sizeof report->version);
    void *library = tenon__py_torch_library();
    api->tensor_type = (PyTypeObject *)get_nested(torch, "Tensor", NULL, NULL);
    if (!api->tensor_type || !PyType_Check((PyObject *)api->tensor_type)) {
        snprintf(report->missing, sizeof report->missing, "torch.Tensor (torch is only partly imported)");
        return;
    }
    if (!library) {
        snprintf(report->missing, sizeof report->missing, "the library libtorch_cpu, next to the module torch");
        return;
    }
    if (!find_needed(library, api))
        return;
    find_more(library, api);
    find_for_kernels(library, api);
    if (!api->from_pyobject && !find_private(torch, api))
        return;
    api->function_name = PyUnicode_InternFromString("__torch_function__");
    api->no_function = get_nested(torch, "_C", "_disabled_torch_function_impl", NULL);
    api->mode_enabled = get_nested(torch, "_C", "_is_torch_function_mode_enabled", NULL);
    PyObject *clears = get_nested(torch, "library", "_clear_torch_ops_cache", NULL);
    api->clears_ops = clears;
    Py_XDECREF(clears);
    if (!api->function_name || !api->no_function || !api->mode_enabled) {
        snprintf(report->missing, sizeof report->missing, "torch._C's functions for __torch_function__");
        return;
    }
    PyObject *hip = get_nested(torch, "version", "hip", NULL);
    api->cuda_device = hip && hip != Py_None ? TENON_ROCM : TENON_CUDA;
    Py_XDECREF(hip);
    report->tier = api->from_pyobject ? TENON_TORCH_TIER_STABLE : TENON_TORCH_TIER_PRIVATE;
    report->calls_unlocked = api->call != NULL;
    report->blobs_unlocked = api->from_blob != NULL;
    snprintf(report->missing, sizeof report->missing, "%s%s%s",
             api->from_pyobject ? "" : "torch_tensor_from_pyobject (2.14)",
             api->call ? "" : ", torch_call_dispatcher with torch_exception_get_what (2.13)",
             api->from_blob ? "" : ", torch_from_blob (2.11)");
}

static void free_api(tenon__torch_api *api)
{
    Py_XDECREF((PyObject *)api->tensor_type);
    Py_XDECREF(api->module);
    Py_XDECREF(api->function_name);
    Py_XDECREF(api->no_function);
    Py_XDECREF(api->mode_enabled);
    Py_XDECREF(api->handle_of);
    Py_XDECREF(api->object_of);
    free(api);
}

/* Look for torch, on an attached thread. `report` describes it; a torch that can be used is published. */
static const tenon__torch_api *look_for_torch(tenon_torch_report *report)
{
    tenon__py_scope scope = tenon__py_enter_scope();
    const tenon__torch_api *found = NULL;
    tenon__torch_api *api = calloc(1, sizeof *api);
    PyObject *torch = api ? tenon__py_loaded("torch") : NULL;
    memset(report, 0, sizeof *report);
    if (torch) {
        api->module = torch;
        api->interp = tenon__py_interp_state();
        if (api->interp)
            inspect_torch(torch, api);
        *report = api->report;
    } else {
        snprintf(report->missing, sizeof report->missing, api ? "torch (it has not been imported)" : "memory");
    }
    if (report->tier != TENON_TORCH_TIER_NONE) {
        /* Another thread may have been faster. */
        if (atomic_compare_exchange_strong(&tenon__torch_known_api, &found, api))
            found = api;
    }
    if (api && found != api)
        free_api(api);
    tenon__py_leave_scope(scope);
    return found;
}

const tenon__torch_api *tenon__torch_search_api(tenon_error *err)
{
    tenon_torch_report report;
    if (!tenon__py_is_attached()) {
        tenon_error_set(err, TENON_EFAILED,
                        "torch has not been looked for yet, and this thread does not hold the interpreter lock");
        return NULL;
    }
    const tenon__torch_api *api = look_for_torch(&report);
    if (!api)
        tenon_error_set(err, TENON_EFAILED, "torch %s%scannot be used here; missing: %s", report.version,
                        report.version[0] ? " " : "", report.missing);
    return api;
}

void tenon_torch_info(tenon_torch_report *out)
{
    const tenon__torch_api *api = atomic_load_explicit(&tenon__torch_known_api, memory_order_acquire);
    memset(out, 0, sizeof *out);
    if (api)
        *out = api->report;
    else if (tenon__py_is_attached())
        look_for_torch(out);
    else
        snprintf(out->missing, sizeof out->missing, "torch (it has not been looked for yet)");
}

/* ---------------------------------------------------------------------------------------------------------- numbers */

bool tenon__torch_dtype_number(const tenon__torch_api *api, tenon_dtype dtype, int32_t *out)
{
    for (int32_t i = 0; i < TENON__TORCH_DTYPES; i++) {
        *out = i;
        if (api->dtypes[i].bits && tenon_dtype_equal(api->dtypes[i], dtype))
            return true;
    }
    return false;
}

bool tenon__torch_device_number(const tenon__torch_api *api, tenon_device device, int32_t *type, int32_t *index)
{
    bool on_cpu = device.device_type == TENON_CPU;
    *type = on_cpu ? api->cpu : api->cuda;
    *index = on_cpu ? -1 : device.device_id;
    return on_cpu ? device.device_id == 0 : device.device_type == api->cuda_device && device.device_id >= 0;
}

/* ----------------------------------------------------------------------------------------------------------- errors */

tenon_status tenon__torch_failed(const tenon__torch_api *api, const char *who, tenon_error *err)
{
    const char *what = api->what ? api->what() : NULL;
    return tenon_error_set(err, TENON_EFAILED, "%s: %s", who,
                           what && *what ? what : "it failed; torch wrote the reason to stderr");
}

tenon_status tenon__torch_take_exception(const char *who, tenon_error *err)
{
    bool memory = PyErr_ExceptionMatches(PyExc_MemoryError), usual = PyErr_ExceptionMatches(PyExc_RuntimeError);
    PyObject *exception = tenon__py_take_exception();
    /* The message of a KeyError means little without its type. torch's RuntimeErrors do not need theirs. */
    PyObject *type = exception && !usual ? tenon__py_type_name(exception) : NULL;
    PyObject *text_object =
        exception ? type ? PyUnicode_FromFormat("%U: %S", type, exception) : PyObject_Str(exception) : NULL;
    const char *text = text_object ? PyUnicode_AsUTF8AndSize(text_object, NULL) : NULL;
    tenon_status status = tenon_error_set(err, memory ? TENON_ENOMEM : TENON_EFAILED, "%s: %s", who,
                                          text ? text : "an exception without a message");
    Py_XDECREF(exception);
    Py_XDECREF(type);
    Py_XDECREF(text_object);
    PyErr_Clear();
    return status;
}

tenon_status tenon__torch_released(const char *who, tenon_error *err)
{
    return tenon_error_set_in(err, TENON_EINVAL, who, "the handle is NULL or was released");
}

/* ------------------------------------------------------------------------------------------------------------ table */

const tenon_torch_table tenon_torch_services = {
    .size = sizeof(tenon_torch_table),
    .info = tenon_torch_info,
    .retain = tenon_torch_retain,
    .release = tenon_torch_release,
    .view = tenon_torch_view,
    .empty = tenon_torch_empty,
    .from_blob = tenon_torch_from_blob,
    .find = tenon_torch_find,
    .call_op = tenon_torch_call_op,
    .call = tenon_torch_call,
    .value_release = tenon_torch_value_release,
};
