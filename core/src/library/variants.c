/* Variants of a library: kernels.x86-64-v3.so beside kernels.so has the same functions, compiled for newer CPUs.
 *
 * They are files and not symbols, so that the linker never merges inline functions of two variants. The library itself, the
 * baseline, is opened first: its table is the reference, and its file and hash name the library on every CPU. */
#include "internal.h"

#ifndef TENON_NO_SYSTEM
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#endif

#ifndef TENON_NO_SYSTEM

/* The best ones first. */
static const char *const variant_names[] = {"x86-64-v4", "x86-64-v3", "x86-64-v2", "sve", "armv8.2-a"};
enum { NVARIANTS = sizeof variant_names / sizeof *variant_names, LONGEST_VARIANT_PATH = 4096 };

/* A variant that is open, in a list that only grows. */
typedef struct open_variant {
    struct open_variant *next;
    const tenon_module *module, *baseline;
    const char *name;
} open_variant;

static open_variant *open_variants;

/* With the lock. */
static open_variant *find_variant(const tenon_module *module)
{
    open_variant *v = open_variants;
    while (v && v->module != module)
        v = v->next;
    return v;
}

const tenon_module *tenon__library_baseline(const tenon_module *module)
{
    tenon__loader_lock();
    const open_variant *v = find_variant(module);
    const tenon_module *baseline = v ? v->baseline : module;
    tenon__loader_unlock();
    return baseline;
}

const char *tenon_library_variant(const tenon_module *module)
{
    tenon__loader_lock();
    const open_variant *v = find_variant(module);
    const char *name = v ? v->name : "baseline";
    tenon__loader_unlock();
    return name;
}

/* A variant that was open already may have another baseline now: only that was built again. */
static bool note_variant(const tenon_module *module, const tenon_module *baseline, const char *name)
{
    tenon__loader_lock();
    open_variant *v = find_variant(module);
    if (!v && (v = tenon__alloc(sizeof *v, false))) {
        *v = (open_variant){.next = open_variants, .module = module, .name = name};
        open_variants = v;
    }
    if (v)
        v->baseline = baseline;
    tenon__loader_unlock();
    return v;
}

/* ----------------------------------------------------------------------------------------------------- file names */

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');
#ifdef TENON__WINDOWS
    const char *other = strrchr(path, '\\');
    slash = !slash || (other && other > slash) ? other : slash;
#endif
    return slash ? slash + 1 : path;
}

/* "kernels.x86-64-v3.so" for "kernels.so". False: it has no dot, or is too long. */
static bool variant_path(const char *path, const char *name, char out[LONGEST_VARIANT_PATH])
{
    const char *dot = strrchr(file_of(path), '.');
    if (!dot)
        return false;
    int length = snprintf(out, LONGEST_VARIANT_PATH, "%.*s.%s%s", (int)(dot - path), path, name, dot);
    return length > 0 && length < LONGEST_VARIANT_PATH;
}

/* The library that this file is a variant of, if it exists, and which variant; otherwise NULL. */
static const char *baseline_path(const char *path, char out[LONGEST_VARIANT_PATH])
{
    const char *file = file_of(path), *dot = strrchr(file, '.');
    for (int i = 0; dot && i < NVARIANTS; i++) {
        size_t length = strlen(variant_names[i]);
        if ((size_t)(dot - file) <= length + 1 || dot[-1 - (ptrdiff_t)length] != '.' ||
            strncmp(dot - length, variant_names[i], length) != 0)
            continue;
        int made = snprintf(out, LONGEST_VARIANT_PATH, "%.*s%s", (int)(dot - path) - (int)length - 1, path, dot);
        return made > 0 && made < LONGEST_VARIANT_PATH && tenon__file_exists(out) ? variant_names[i] : NULL;
    }
    return NULL;
}

/* -------------------------------------------------------------------------------------------------------- choosing */

static const char *known_variant(const char *name)
{
    for (int i = 0; i < NVARIANTS; i++)
        if (strcmp(name, variant_names[i]) == 0)
            return variant_names[i];
    return NULL;
}

/* Choose the variant of the library at `path`: *name is NULL for the baseline. */
static tenon_status choose_variant(const char *path, const char **name, char out[LONGEST_VARIANT_PATH],
                                   tenon_error *err)
{
    const char *wanted = getenv("TENON_VARIANT");
    *name = NULL;
    if (wanted && *wanted) {
        const char *known = known_variant(wanted);
        if (strcmp(wanted, "baseline") == 0)
            return TENON_OK;
        if (!known)
            return tenon_error_set(err, TENON_EINVAL,
                                   "TENON_VARIANT is '%.60s', which is not a variant; set it to baseline, x86-64-v2, "
                                   "x86-64-v3, x86-64-v4, armv8.2-a or sve, or unset it",
                                   wanted);
        if (!variant_path(path, known, out) || !tenon__file_exists(out))
            return TENON_OK;
        if (!tenon__cpu_has(known))
            return tenon_error_set(
                err, TENON_EINVAL,
                "TENON_VARIANT is '%s', but this CPU does not have its instructions; unset it, or set "
                "it to baseline",
                known);
        *name = known;
        return TENON_OK;
    }
    for (int i = 0; i < NVARIANTS && !*name; i++)
        if (variant_path(path, variant_names[i], out) && tenon__file_exists(out) && tenon__cpu_has(variant_names[i]))
            *name = variant_names[i];
    return TENON_OK;
}

/* --------------------------------------------------------------------------------------------------------- checking */

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Whether both have the same functions. */
static tenon_status compare_tables(const tenon_module *baseline, const tenon_module *variant, tenon_error *err)
{
    if (!same_text(baseline->name, variant->name) || !same_text(baseline->version, variant->version))
        return tenon_error_set(err, TENON_EINVAL, "it is %s %s, but the library is %s %s; build both from one source",
                               variant->name, variant->version ? variant->version : "without a version", baseline->name,
                               baseline->version ? baseline->version : "without a version");
    if (baseline->nfunctions != variant->nfunctions)
        return tenon_error_set(err, TENON_EINVAL,
                               "it has %lld functions, but the library has %lld; build both from one source",
                               (long long)variant->nfunctions, (long long)baseline->nfunctions);
    for (int64_t i = 0; i < baseline->nfunctions; i++) {
        tenon_function a, b;
        tenon_module_function(baseline, i, &a);
        tenon_module_function(variant, i, &b);
        if (!same_text(a.signature, b.signature))
            return tenon_error_set(err, TENON_EINVAL,
                                   "it has '%.200s' where the library has '%.200s'; build both from one source",
                                   b.signature, a.signature);
        if (a.flags != b.flags || !a.shape != !b.shape)
            return tenon_error_set(
                err, TENON_EINVAL,
                "the flags or the shape function of '%.200s' are not those of the library; build both "
                "from one source",
                a.signature);
    }
    return TENON_OK;
}

/* Replace *out, the baseline's module, with that of the variant. */
static tenon_status use_variant(const char *path, const char *name, const tenon_module **out, tenon_error *err)
{
    const tenon_module *variant = NULL;
    tenon_error why;
    tenon_status status = tenon__library_open_file(path, &variant, &why);
    int code = errno;
    if (!status)
        status = compare_tables(*out, variant, &why);
    if (!status && !note_variant(variant, *out, name))
        status = tenon_error_set(&why, TENON_ENOMEM, "there is no memory");
    if (!status) {
        *out = variant;
        return TENON_OK;
    }
    tenon_error_set(err, status, "its variant %.200s: %s", file_of(path), tenon_error_reason(&why));
    if (err && status == TENON_EFAILED)
        err->os_error = code;
    errno = code;
    return status;
}

tenon_status tenon_library_open(const char *path, const tenon_module **out, tenon_error *err)
{
    const char *function = "tenon_library_open", *name = NULL;
    char other[LONGEST_VARIANT_PATH];
    if (!path || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL", path ? "out" : "path");
    if ((name = baseline_path(path, other)))
        return tenon_error_set_in(err, TENON_EINVAL, function,
                                  "it is the %s variant of %.200s; load that instead, which chooses the variant", name,
                                  file_of(other));
    const tenon_module *module = NULL;
    tenon_status status = tenon__library_open_file(path, &module, err);
    if (!status)
        status = choose_variant(path, &name, other, err);
    if (!status && name)
        status = use_variant(other, name, &module, err);
    if (!status)
        *out = module;
    int code = errno;
    tenon__error_rename(err, status, function);
    errno = code;
    return status;
}

#endif
