/* A module with two classes, and signatures compiled in it. */
#ifndef TENON_TESTS_CLASS_MODULE_H
#define TENON_TESTS_CLASS_MODULE_H

#include "check.h"

#define ENTRY(text)                                                                                                    \
    {                                                                                                                  \
        .signature = (text)                                                                                            \
    }

static const tenon_function class_entries[] = {
    ENTRY("class KDTree"), {.signature = "class  Free", .flags = TENON_CLASS_CONCURRENT}, ENTRY("f()")};

static inline tenon_module module_of(const tenon_function *functions, size_t count)
{
    return (tenon_module){.magic = TENON_MAGIC,
                          .major = TENON_ABI_MAJOR,
                          .size = sizeof(tenon_module),
                          .function_size = sizeof(tenon_function),
                          .nfunctions = (int64_t)count,
                          .functions = functions,
                          .name = "spatial"};
}

static inline tenon_module class_module(void)
{
    return module_of(class_entries, sizeof class_entries / sizeof *class_entries);
}

static inline tenon_signature *compiled_in_module(const char *text)
{
    tenon_module module = class_module();
    tenon_signature *signature = NULL;
    OK(tenon_signature_alloc(text, &module, TENON_HOST_LAYOUT, &signature, &err));
    return signature;
}

#endif
