/* Opens libraries with LoadLibrary. Windows locks the files of open libraries, so they cannot be overwritten. They can be
 * renamed, though, and LoadLibrary would return the old library for the path of a new build. */
#include "internal.h"

#ifdef TENON__WINDOWS
#include <errno.h>
#include <stdlib.h>
#endif

#ifdef TENON__WINDOWS

/* An open library. It stays open, unless it has no module. */
typedef struct loaded_library {
    struct loaded_library *next;
    void *handle;
    const tenon_module *module; /* NULL until it is known */
    size_t opened;              /* how often */
    tenon__hash hash;
} loaded_library;

static loaded_library *loaded_libraries;

/* Check and hash the file at an absolute path. */
static tenon_status inspect_path(const wchar_t *path, tenon__hash *hash, tenon_error *err)
{
    if (tenon__path_is_folder(path))
        return tenon__system_failure(EISDIR, NULL, err);
    tenon__file file = tenon__file_open(path);
    if (file == TENON__NO_FILE)
        return tenon__system_failure(errno, NULL, err);
    int64_t size = tenon__file_size(file);
    tenon_status status =
        size < 0 ? tenon__system_failure(errno, NULL, err) : tenon__file_check(file, (uint64_t)size, err);
    if (!status && !tenon__file_hash(file, hash))
        status = tenon__system_failure(errno, NULL, err);
    tenon__file_close(file);
    return status;
}

/* Add the library to the list. One that is there must have been opened from the same content. */
static tenon_status note_loaded(void *handle, const tenon__hash *hash, tenon_error *err)
{
    tenon_status status = TENON_OK;
    tenon__loader_lock();
    loaded_library *o = loaded_libraries;
    while (o && o->handle != handle)
        o = o->next;
    if (!o && (o = tenon__alloc(sizeof *o, true))) {
        *o = (loaded_library){.next = loaded_libraries, .handle = handle, .hash = *hash};
        loaded_libraries = o;
    } else if (!o) {
        status = tenon__system_failure(ENOMEM, NULL, err);
    } else if (o->hash.a != hash->a || o->hash.b != hash->b || o->hash.length != hash->length) {
        status =
            tenon__system_failure(EBUSY,
                                  "an earlier build of it is open under this name; give the new build another name, "
                                  "or restart the program",
                                  err);
    }
    if (!status)
        o->opened++;
    tenon__loader_unlock();
    return status;
}

/* Close a library that has no module: Windows locks its file, so that a better build could not replace it. */
static void close_loaded(void *handle)
{
    loaded_library *gone = NULL;
    tenon__loader_lock();
    loaded_library **link = &loaded_libraries;
    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    if (*link && --(*link)->opened == 0) { /* otherwise another thread is at the same point */
        gone = *link;
        *link = gone->next;
    }
    tenon__loader_unlock();
    if (gone)
        tenon__free(gone, sizeof *gone);
    tenon__loader_close(handle);
}

static void note_loaded_module(void *handle, const tenon_module *module)
{
    tenon__loader_lock();
    for (loaded_library *o = loaded_libraries; o; o = o->next)
        if (o->handle == handle)
            o->module = module;
    tenon__loader_unlock();
}

/* Open the library at an absolute path. */
static tenon_status open_path(const wchar_t *path, void **handle, tenon_error *err)
{
    tenon__hash hash;
    tenon_status status = inspect_path(path, &hash, err);
    if (status)
        return status;
    unsigned long code = 0;
    *handle = tenon__loader_open(path, &code);
    if (!*handle)
        return tenon_error_set(err, TENON_EINVAL, "Windows cannot load it, or a library that it needs: error %lu",
                               code);
    status = note_loaded(*handle, &hash, err);
    if (status)
        tenon__loader_close(*handle);
    return status;
}

tenon_status tenon__library_open_file(const char *path, const tenon_module **out, tenon_error *err)
{
    void *handle = NULL;
    wchar_t *whole = tenon__path_absolute(path);
    tenon_status status = whole ? open_path(whole, &handle, err) : tenon__system_failure(errno, NULL, err);
    int code = errno;
    free(whole);
    errno = code;
    if (!status) {
        status = tenon__library_module(handle, out, err);
        if (status)
            close_loaded(handle);
        else
            note_loaded_module(handle, *out);
    }
    return status;
}

int tenon__library_hash(const tenon_module *module, tenon__hash *out)
{
    int known = 0;
    tenon__loader_lock();
    for (loaded_library *o = loaded_libraries; o && known == 0; o = o->next) {
        if (o->module == module) {
            known = 1;
            *out = o->hash;
        }
    }
    tenon__loader_unlock();
    return known;
}

#endif
