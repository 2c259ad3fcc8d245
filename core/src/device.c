#include "internal.h"

#include <string.h>

enum {
    HANDLE = 1, /* `data` is no address */
    HOST = 2    /* the CPU can read it */
};

static const struct {
    const char *name;
    int traits;
} devices[] = {
    [TENON_CPU] = {"cpu", HOST},
    [TENON_CUDA] = {"cuda", 0},
    [TENON_CUDA_HOST] = {"cuda_host", HOST},
    [TENON_OPENCL] = {"opencl", HANDLE},
    [TENON_VULKAN] = {"vulkan", HANDLE},
    [TENON_METAL] = {"metal", HANDLE},
    [TENON_VPI] = {"vpi", 0},
    [TENON_ROCM] = {"rocm", 0},
    [TENON_ROCM_HOST] = {"rocm_host", HOST},
    [TENON_EXT_DEV] = {"ext_dev", 0},
    [TENON_CUDA_MANAGED] = {"cuda_managed", HOST},
    [TENON_ONEAPI] = {"oneapi", 0},
    [TENON_WEBGPU] = {"webgpu", HANDLE},
    [TENON_HEXAGON] = {"hexagon", 0},
    [TENON_MAIA] = {"maia", 0},
    [TENON_TRAINIUM] = {"trainium", 0},
};

enum { NDEVICES = sizeof devices / sizeof *devices };

static bool known_type(int32_t type)
{
    return type > 0 && type < NDEVICES && devices[type].name;
}

bool tenon_device_known(tenon_device device)
{
    return known_type(device.device_type) && device.device_id >= 0;
}

bool tenon_device_has_addresses(tenon_device device)
{
    return known_type(device.device_type) && !(devices[device.device_type].traits & HANDLE);
}

bool tenon_device_on_host(tenon_device device)
{
    return known_type(device.device_type) && (devices[device.device_type].traits & HOST);
}

void tenon__text_add_device(tenon__text *text, tenon_device device)
{
    if (!known_type(device.device_type))
        tenon__text_add(text, "device(%d, %d)", device.device_type, device.device_id);
    else if (device.device_type == TENON_CPU && device.device_id == 0)
        tenon__text_add(text, "cpu");
    else
        tenon__text_add(text, "%s:%d", devices[device.device_type].name, device.device_id);
}

bool tenon__device_lookup(const char *text, size_t length, int32_t *out)
{
    for (int32_t type = 0; type < NDEVICES; type++) {
        const char *name = devices[type].name;
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
        return tenon_error_set(err, TENON_EINVAL, "tenon_device_parse(): argument '%s' is NULL", text ? "out" : "text");
    const char *colon = strchr(text, ':');
    const char *digits = colon ? colon + 1 : "0";
    size_t count = strlen(digits);
    bool valid = count > 0 && count <= 10 && strspn(digits, "0123456789") == count;
    int64_t id = 0;
    for (size_t i = 0; valid && i < count; i++)
        id = id * 10 + (digits[i] - '0');
    int32_t type;
    if (!valid || id > INT32_MAX || !tenon__device_lookup(text, colon ? (size_t)(colon - text) : strlen(text), &type))
        return tenon_error_set(err, TENON_EPARSE,
                               "tenon_device_parse(): argument 'text': expected a device such as cpu, cuda or cuda:1, "
                               "got \"%.60s\"",
                               text);
    *out = tenon_device_of(type, (int32_t)id);
    return TENON_OK;
}
