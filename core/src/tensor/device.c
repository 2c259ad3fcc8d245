#include "internal.h"

#include <string.h>

static const char *const device_names[] = {
    [TENON_CPU] = "cpu",
    [TENON_CUDA] = "cuda",
    [TENON_CUDA_HOST] = "cuda_host",
    [TENON_OPENCL] = "opencl",
    [TENON_VULKAN] = "vulkan",
    [TENON_METAL] = "metal",
    [TENON_VPI] = "vpi",
    [TENON_ROCM] = "rocm",
    [TENON_ROCM_HOST] = "rocm_host",
    [TENON_EXT_DEV] = "ext_dev",
    [TENON_CUDA_MANAGED] = "cuda_managed",
    [TENON_ONEAPI] = "oneapi",
    [TENON_WEBGPU] = "webgpu",
    [TENON_HEXAGON] = "hexagon",
    [TENON_MAIA] = "maia",
    [TENON_TRAINIUM] = "trainium",
};

enum { NDEVICES = sizeof device_names / sizeof *device_names };

bool tenon_device_known(tenon_device device)
{
    return tenon__device_in(device, TENON__DEVICES) && device.device_id >= 0;
}

bool tenon_device_has_addresses(tenon_device device)
{
    return tenon__device_in(device, TENON__DEVICES & ~TENON__HANDLE_DEVICES);
}

bool tenon_device_on_host(tenon_device device)
{
    return tenon__device_in(device, TENON__HOST_DEVICES);
}

void tenon__text_add_device(tenon__text *text, tenon_device device)
{
    if (!tenon_device_known(device))
        tenon__text_add(text, "device(%d, %d)", device.device_type, device.device_id);
    else if (device.device_type == TENON_CPU && device.device_id == 0)
        tenon__text_add(text, "cpu");
    else
        tenon__text_add(text, "%s:%d", device_names[device.device_type], device.device_id);
}

const char *tenon__device_name(int32_t type)
{
    return tenon_device_known(tenon_device_of(type, 0)) ? device_names[type] : "another device";
}

bool tenon__device_lookup(const char *text, size_t length, int32_t *out)
{
    for (int32_t type = 0; type < NDEVICES; type++) {
        const char *name = device_names[type];
        if (name && strlen(name) == length && memcmp(name, text, length) == 0) {
            *out = type;
            return true;
        }
    }
    return false;
}

tenon_status tenon_device_parse(const char *text, tenon_device *out, tenon_error *err)
{
    if (!text || !out)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_device_parse", "argument '%s' is NULL",
                                  text ? "out" : "text");
    const char *colon = strchr(text, ':');
    const char *digits = colon ? colon + 1 : "0";
    size_t count = strlen(digits);
    bool valid = count > 0 && count <= 10 && strspn(digits, "0123456789") == count;
    int64_t id = 0;
    for (size_t i = 0; valid && i < count; i++)
        id = id * 10 + (digits[i] - '0');
    int32_t type;
    if (!valid || id > INT32_MAX || !tenon__device_lookup(text, colon ? (size_t)(colon - text) : strlen(text), &type))
        return tenon_error_set_in(err, TENON_EPARSE, "tenon_device_parse",
                                  "argument 'text': expected a device such as cpu, cuda or cuda:1, "
                                  "got \"%.60s\"",
                                  text);
    *out = tenon_device_of(type, (int32_t)id);
    return TENON_OK;
}
