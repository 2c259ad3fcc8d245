/* The hash that identifies the code of a module. */
#define _GNU_SOURCE 1 /* dladdr */

#include "system.h"

#ifdef TENON__POSIX
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#endif

#ifdef TENON__POSIX

/* Hash the file that the loader has mapped where the module is: an extension that Python imported. False if there is no
 * such file any more. */
static bool hash_mapped_file(const tenon_module *module, tenon__hash *out)
{
    Dl_info info;
    if (!dladdr(module, &info) || !info.dli_fname || !*info.dli_fname)
        return false;
    int file = open(info.dli_fname, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool done = file >= 0 && tenon__file_hash(file, out);
    if (file >= 0)
        close(file);
    return done;
}

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
    int known = tenon__library_hash(module, &hash);
    if (known < 0)
        return tenon_error_set(err, TENON_EFAILED, "its file was changed after it was loaded; load it again");
    if (known == 0 && !hash_mapped_file(module, &hash))
        hash_signatures(module, &hash);
    snprintf(text, TENON_HASH_SIZE, "%016llx%016llx", (unsigned long long)hash.a, (unsigned long long)hash.b);
    return TENON_OK;
}

#endif
