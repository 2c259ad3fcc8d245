/* Find the file that a module was mapped from. */
#define _GNU_SOURCE 1 /* dladdr */

#include "system.h"

#ifdef TENON__POSIX
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>
#endif

#ifdef TENON__POSIX

bool tenon__module_file_hash(const tenon_module *module, tenon__hash *out)
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

#endif
