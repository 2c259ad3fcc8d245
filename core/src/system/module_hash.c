/* The hash that identifies the code of a module. */
#include "system.h"

#ifndef TENON_NO_SYSTEM
#include <stdio.h>
#include <string.h>
#endif

#ifndef TENON_NO_SYSTEM

/* Hash what the module shows of itself. Signatures are short; each is padded to whole blocks. */
static void hash_signatures(const tenon_module *module, tenon__hash *out)
{
    *out = (tenon__hash){0, 0, 0};
    for (int64_t i = 0; i < module->nfunctions; i++) {
        tenon_function function;
        tenon_module_function(module, i, &function);
        const char *text = function.signature;
        for (size_t left = strlen(text) + 1; left > 0;) {
            char block[16] = {0};
            size_t size = left < sizeof block ? left : sizeof block;
            memcpy(block, text, size);
            tenon__hash_add(out, block, sizeof block);
            text += size;
            left -= size;
        }
    }
    tenon__hash_end(out);
}

tenon_status tenon_module_hash(const tenon_module *module, char text[TENON_HASH_SIZE], tenon_error *err)
{
    tenon__hash hash;
    if (!module || !text)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_module_hash", "argument '%s' is NULL",
                                  module ? "text" : "module");
    int known = tenon__library_hash(module, &hash);
    if (known < 0)
        return tenon_error_set(err, TENON_EFAILED, "its file was changed after it was loaded; load it again");
    if (known == 0 && !tenon__module_file_hash(module, &hash))
        hash_signatures(module, &hash);
    snprintf(text, TENON_HASH_SIZE, "%016llx%016llx", (unsigned long long)hash.a, (unsigned long long)hash.b);
    return TENON_OK;
}

#endif
