/* Checks of a module before a host uses it. */
#include "../internal.h"

#include <string.h>

/* The sizes in version 1.0 of the ABI. Anything smaller is invalid. */
enum { LEAST_MODULE = 88, LEAST_FUNCTION = 24 };

static const char module_check[] = "tenon_module_check";

static tenon_status invalid_module(tenon_error *err, const char *what)
{
    return tenon_error_set_in(err, TENON_EINVAL, module_check, "the module is broken: %s", what);
}

tenon_status tenon_module_check(const tenon_module *module, tenon_error *err)
{
    if (!module)
        return invalid_module(err, TENON_MODULE_SYMBOL "() returned NULL");
    if (module->magic != TENON_MAGIC)
        return invalid_module(err, TENON_MODULE_SYMBOL "() did not return a Tenon module");
    if (module->major != TENON_ABI_MAJOR)
        return tenon_error_set_in(
            err, TENON_EVERSION, module_check,
            "it was compiled for version %u of the function ABI, but this host has version %d; compile "
            "it with this host's tenon/function.h",
            (unsigned)module->major, TENON_ABI_MAJOR);
    if (module->minor_needed > TENON_ABI_MINOR)
        return tenon_error_set_in(
            err, TENON_EVERSION, module_check,
            "it needs version %d.%u of the function ABI, but this host has %d.%d; use a newer host, or "
            "compile it with a lower TENON_TARGET",
            TENON_ABI_MAJOR, (unsigned)module->minor_needed, TENON_ABI_MAJOR, TENON_ABI_MINOR);
    if (module->size < LEAST_MODULE)
        return invalid_module(err, "its size is too small for a module");
    if (module->function_size < LEAST_FUNCTION || module->function_size % sizeof(void *) ||
        module->function_size > 4096)
        return invalid_module(err, "its function_size is invalid");
    if (module->nfunctions < 0 || module->nfunctions > 100000 || (module->nfunctions && !module->functions))
        return invalid_module(err, "its table of functions is invalid");
    if (!module->name)
        return invalid_module(err, "it has no name");
    for (int64_t i = 0; i < module->nfunctions; i++) {
        tenon_function function;
        tenon_module_function(module, i, &function);
        if (!function.signature || !function.call)
            return tenon_error_set_in(err, TENON_EINVAL, module_check, "the module is broken: function %lld has no %s",
                                      (long long)i, function.signature ? "code" : "signature");
    }
    return TENON_OK;
}

void tenon_module_function(const tenon_module *module, int64_t index, tenon_function *out)
{
    size_t size = module->function_size < sizeof *out ? module->function_size : sizeof *out;
    memset(out, 0, sizeof *out);
    memcpy(out, (const char *)module->functions + index * (int64_t)module->function_size, size);
}

tenon_status tenon__library_module(tenon_module_fn get, const tenon_module **out, tenon_error *err)
{
    if (!get)
        return tenon_error_set(err, TENON_EINVAL,
                               "it has no " TENON_MODULE_SYMBOL
                               "(): it is not a library of Tenon functions; define them with TENON_MODULE");
    const tenon_module *module = get();
    tenon_status status = tenon_module_check(module, err);
    if (!status)
        *out = module;
    return status;
}
