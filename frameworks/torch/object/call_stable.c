/* Calls through torch's C functions, which need no lock.
 *
 * Arguments and results are a stack of 64-bit words. A number is stored by its bits. A tensor, list or string is a
 * pointer that the call takes. An optional is a pointer to its value, or 0. torch trusts that each of them has the type
 * in the operator's schema; call.c has checked it. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static tenon__torch_stable from_pointer(const void *pointer)
{
    return (tenon__torch_stable)(uintptr_t)pointer;
}

static void *to_pointer(tenon__torch_stable value)
{
    return (void *)(uintptr_t)value;
}

static tenon__torch_stable from_double(double number)
{
    tenon__torch_stable bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static double to_double(tenon__torch_stable bits)
{
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* -------------------------------------------------------------------------------------------------------- arguments */

static bool pack_tensor(const tenon__torch_api *api, const tenon_torch *tensor, tenon__torch_stable *out)
{
    tenon__torch_handle handle = NULL;
    bool good = api->new_handle(tenon__torch_block_of(tensor)->handle, &handle) == 0;
    *out = from_pointer(handle);
    return good;
}

static bool pack_optional(const tenon__torch_api *api, tenon__torch_stable value, tenon__torch_stable *out)
{
    tenon__torch_stable *place = NULL;
    if (api->new_optional(&place) != 0)
        return false;
    *place = value;
    *out = from_pointer(place);
    return true;
}

static bool pack_item(const tenon__torch_api *api, const tenon__torch_type *type, const tenon_torch_value *list,
                      int64_t index, tenon__torch_stable *out)
{
    const void *data = list->as.list.data;
    if (list->kind == TENON_TORCH_INTS) {
        *out = (tenon__torch_stable)((const int64_t *)data)[index];
        return true;
    }
    if (list->kind == TENON_TORCH_BOOLS) {
        *out = ((const bool *)data)[index];
        return true;
    }
    if (list->kind == TENON_TORCH_FLOATS) {
        *out = from_double(((const double *)data)[index]);
        return true;
    }
    const tenon_torch *tensor = ((tenon_torch *const *)data)[index];
    *out = 0;
    if (!tensor)
        return true;
    return pack_tensor(api, tensor, out) && (!type->optional_items || pack_optional(api, *out, out));
}

static bool pack_list(const tenon__torch_api *api, const tenon__torch_type *type, const tenon_torch_value *value,
                      tenon__torch_stable *out)
{
    tenon__torch_list list = NULL;
    bool good = api->new_list((size_t)value->as.list.length, &list) == 0;
    for (int64_t i = 0; good && i < value->as.list.length; i++) {
        tenon__torch_stable item;
        good = pack_item(api, type, value, i, &item) && api->list_push(list, item) == 0;
    }
    *out = from_pointer(list);
    return good;
}

static bool pack_single(const tenon__torch_api *api, const tenon__torch_type *type, const tenon_torch_value *value,
                        tenon__torch_stable *out)
{
    int32_t number = 0, index = 0;
    void *text = NULL;
    bool good;
    switch (type->base) {
    case TENON__TORCH_TENSOR:
        return pack_tensor(api, value->as.tensor, out);
    case TENON__TORCH_FLOAT:
        *out = from_double(value->kind == TENON_TORCH_INT ? (double)value->as.integer : value->as.number);
        return true;
    case TENON__TORCH_BOOL:
        *out = value->as.integer != 0;
        return true;
    case TENON__TORCH_STR:
        good = api->new_string(value->as.list.data, strlen(value->as.list.data), &text) == 0;
        *out = from_pointer(text);
        return good;
    case TENON__TORCH_DTYPE:
        good = tenon__torch_dtype_number(api, value->as.dtype, &number);
        *out = (uint32_t)number;
        return good;
    case TENON__TORCH_DEVICE:
        good = tenon__torch_device_number(api, value->as.device, &number, &index);
        *out = (uint64_t)(uint32_t)number << 32 | (uint32_t)index;
        return good;
    default:
        *out = (tenon__torch_stable)value->as.integer;
        return true;
    }
}

static bool pack(const tenon__torch_api *api, const tenon__torch_type *type, const tenon_torch_value *value,
                 tenon__torch_stable *out)
{
    *out = 0;
    if (value->kind == TENON_TORCH_NONE)
        return true;
    bool good = type->list ? pack_list(api, type, value, out) : pack_single(api, type, value, out);
    return good && (!type->optional || pack_optional(api, *out, out));
}

/* ---------------------------------------------------------------------------------------------------------- results */

/* Takes the handle; NULL stands for an undefined tensor. False if memory is exhausted. */
static bool take_tensor(const tenon__torch_api *api, tenon__torch_stable value, tenon_torch **out)
{
    bool defined = true;
    bool known = api->is_defined(to_pointer(value), &defined) == 0;
    *out = defined ? tenon__torch_wrap(api, to_pointer(value)) : NULL;
    if (!*out)
        api->delete_handle(to_pointer(value));
    return known && (*out || !defined);
}

static bool take_stable_list(const tenon__torch_api *api, tenon__torch_stable value, tenon_torch_value *out)
{
    size_t size = 0;
    tenon__torch_list list = to_pointer(value);
    bool good = api->list_size(list, &size) == 0;
    tenon_torch **items = calloc(size + 1, sizeof(void *));
    for (size_t i = 0; good && i < size; i++) {
        tenon__torch_stable item;
        tenon_torch *tensor = NULL;
        good = api->list_get(list, i, &item) == 0 && take_tensor(api, item, &tensor);
        if (items)
            items[i] = tensor;
        else
            tenon_torch_release(tensor);
    }
    api->delete_list(list);
    *out = tenon_torch_list(TENON_TORCH_TENSORS, items, items ? (int64_t)size : 0);
    return good && items;
}

static bool take_stable(const tenon__torch_api *api, const tenon__torch_type *type, tenon__torch_stable value,
                        tenon_torch_value *out)
{
    if (type->list)
        return take_stable_list(api, value, out);
    switch (type->base) {
    case TENON__TORCH_TENSOR:
        *out = tenon_torch_tensor(NULL);
        if (!take_tensor(api, value, &out->as.tensor))
            return false;
        if (!out->as.tensor)
            *out = tenon_torch_value_of(TENON_TORCH_NONE);
        return true;
    case TENON__TORCH_FLOAT:
        *out = tenon_torch_float(to_double(value));
        return true;
    case TENON__TORCH_BOOL:
        *out = tenon_torch_bool(value & 0xff);
        return true;
    default:
        *out = tenon_torch_int((int64_t)value);
        return true;
    }
}

tenon_status tenon__torch_call_stable(const tenon_torch_op *op, const tenon_torch_value *args,
                                      tenon_torch_value *results, tenon_error *err)
{
    enum { MOST_STACKED = 64 };
    const tenon__torch_api *api = op->api;
    tenon__torch_stable stack[MOST_STACKED];
    for (size_t i = 0; i < op->nparams; i++) {
        /* If this fails, memory for a single word was exhausted. The arguments that are already packed leak. */
        if (!pack(api, &op->params[i].type, &args[i], &stack[i]))
            return tenon_error_set(err, TENON_EINVAL, "%s: torch %s does not accept argument '%s'", op->full_name,
                                   api->report.version, op->params[i].name);
    }
    /* The schema was read from this torch, so the stack is in the format of this version. */
    if (api->call(op->name, op->overload, stack, api->abi_version()) != 0)
        return tenon__torch_failed(api, op->full_name, err);
    bool good = true;
    for (size_t i = 0; i < op->nresults; i++)
        good &= take_stable(api, &op->results[i], stack[i], &results[i]);
    for (size_t i = 0; !good && i < op->nresults; i++)
        tenon_torch_value_release(&results[i]);
    if (good && op->nresults == 1 && results[0].kind == TENON_TORCH_NONE)
        return tenon_error_set(err, TENON_EFAILED, "%s: its only result is an undefined tensor", op->full_name);
    return good ? TENON_OK : tenon_error_set(err, TENON_ENOMEM, "%s: out of memory", op->full_name);
}
