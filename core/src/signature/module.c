/* Checks of a module before a host uses it. */
#include "compiled_spec.h"

#include <string.h>

/* The sizes in the first version of the ABI. Anything smaller is invalid. */
enum { LEAST_MODULE = 88, LEAST_FUNCTION = 24 };

static const char module_check[] = "tenon_module_check";

static tenon_status invalid_module(tenon_error *err, const char *what)
{
    return tenon_error_set_in(err, TENON_EINVAL, module_check, "the module is broken: %s", what);
}

/* --------------------------------------------------------------------------------------------------------- classes */

/* The first names of a signature: "class Name", "Name.member" or "name". */
typedef struct entry_head {
    bool is_class, is_constant;
    tenon__word name;
    tenon__word member; /* empty if the entry has only one name */
} entry_head;

static entry_head head_of(const char *signature)
{
    tenon__parser p = {.text = signature};
    entry_head out = {.name = tenon__parse_word(&p)};
    tenon__skip_spaces(&p);
    out.is_class = tenon__word_is(out.name, "class") && p.text[p.at] != '(';
    if (out.is_class)
        out.name = tenon__parse_word(&p);
    else if (tenon__accept(&p, '.'))
        out.member = tenon__parse_word(&p);
    out.is_constant = !out.is_class && tenon__accept(&p, '=');
    return out;
}

static bool same_name(tenon__word a, tenon__word b)
{
    return a.length == b.length && memcmp(a.start, b.start, a.length) == 0;
}

bool tenon__module_class(const tenon_module *module, const char *name, size_t length, uint64_t *flags)
{
    for (int64_t i = 0; module && i < module->nfunctions; i++) {
        tenon_function function;
        tenon_module_function(module, i, &function);
        entry_head h = function.signature ? head_of(function.signature) : (entry_head){0};
        if (!h.is_class || !same_name(h.name, (tenon__word){name, length, 0}))
            continue;
        if (flags)
            *flags = function.flags;
        return true;
    }
    return false;
}

bool tenon__module_member(const tenon_module *module, const char *class_name, const char *member)
{
    for (int64_t i = 0; module && i < module->nfunctions; i++) {
        tenon_function function;
        tenon_module_function(module, i, &function);
        entry_head h = function.signature ? head_of(function.signature) : (entry_head){0};
        if (h.member.length && tenon__word_is(h.name, class_name) && tenon__word_is(h.member, member))
            return true;
    }
    return false;
}

/* Check what concerns more than one entry: entry `index` against the earlier ones. The rest is the signature's. */
static tenon_status check_head(const tenon_module *module, int64_t index, const entry_head *h, tenon_error *err)
{
    int shown = (int)(h->name.length < TENON_NAME_SIZE ? h->name.length : TENON_NAME_SIZE);
    if (h->member.length && !tenon__module_class(module, h->name.start, h->name.length, NULL))
        return tenon_error_set_in(err, TENON_EINVAL, module_check,
                                  "function %lld is a member of '%.*s', which is not a class of the module; add "
                                  "TENON_CLASS(\"%.*s\", ...)",
                                  (long long)index, shown, h->name.start, shown, h->name.start);
    for (int64_t i = 0; h->is_class && i < index; i++) {
        tenon_function function;
        tenon_module_function(module, i, &function);
        entry_head other = head_of(function.signature);
        if (other.is_class && same_name(other.name, h->name))
            return tenon_error_set_in(err, TENON_EINVAL, module_check, "there are two classes called '%.*s'", shown,
                                      h->name.start);
    }
    return TENON_OK;
}

/* ---------------------------------------------------------------------------------------------------------- checks */

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
            "compile it with this host's tenon/function.h",
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
    tenon_status status = TENON_OK;
    for (int64_t i = 0; !status && i < module->nfunctions; i++) {
        tenon_function function;
        tenon_module_function(module, i, &function);
        entry_head h = function.signature ? head_of(function.signature) : (entry_head){0};
        if (!function.signature || (!function.call && !h.is_class && !h.is_constant))
            return tenon_error_set_in(err, TENON_EINVAL, module_check, "the module is broken: function %lld has no %s",
                                      (long long)i, function.signature ? "code" : "signature");
        status = check_head(module, i, &h, err);
    }
    return status ? status : tenon__check_overloads(module, err);
}

void tenon_module_function(const tenon_module *module, int64_t index, tenon_function *out)
{
    size_t size = module->function_size < sizeof *out ? module->function_size : sizeof *out;
    memset(out, 0, sizeof *out);
    memcpy(out, (const char *)module->functions + index * (int64_t)module->function_size, size);
}
