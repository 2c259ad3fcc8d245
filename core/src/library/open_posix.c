/* Opens libraries with dlopen, which identifies a file by the names that it was opened with and by its inode:
 *
 * - Usually a file is opened in place, under its own name.
 * - If a new file has replaced an open one, dlopen would return the old library for that name. A path with a "./" in it is
 *   a different name for the same file, so the new file is opened in place too.
 * - If an open file has been overwritten, dlopen would return the old library for that inode, and its code and data are
 *   damaged. That is an error.
 *
 * Libraries that have a module are never closed, so other files cannot reuse the inodes of open files. One that was refused
 * is closed, because its file is likely to be built again and overwritten, unless it has started threads, which run its
 * code. */
#include "internal.h"

#ifdef TENON__POSIX
#include <errno.h>
#include <string.h>
#endif

#ifdef TENON__POSIX

enum { LONGEST_PATH = 4096 };
/* Files up to SMALL are always hashed, which is faster than opening them. Files up to MEDIUM are hashed only if they were
 * just written: the clock of a file system may have a resolution of milliseconds, so a second write may not show in the
 * times of the file. */
static const int64_t SMALL = (int64_t)1 << 20, MEDIUM = (int64_t)1 << 26;

/* An open library, in a list with the newest first. */
typedef struct open_library {
    struct open_library *next;
    void *handle;
    tenon__file_state state; /* when it was opened */
    tenon__hash hash;
    bool hashed;
    bool rewritten;             /* its file has been overwritten since it was opened */
    const tenon_module *module; /* NULL until it is known, or if it has none */
    char path[];
} open_library;

/* The file that is to be opened. */
typedef struct candidate {
    tenon__file file;
    tenon__file_state state;
    tenon__hash hash;
    bool hashed;
    char path[LONGEST_PATH];
} candidate;

static open_library *open_libraries;
static unsigned long names_made;

/* ---------------------------------------------------------------------------------------------------------- the file */

static bool same_file(tenon__file_state a, tenon__file_state b)
{
    return a.device == b.device && a.inode == b.inode;
}

static bool same_hash(tenon__hash x, tenon__hash y)
{
    return x.a == y.a && x.b == y.b && x.length == y.length;
}

/* The size and times of a file show whether it has been written since it was opened. Programs can reset the time of the last
 * write, as `cp -p` does, but not the time of the last change. That one also changes when the file is linked or renamed, or
 * gets another mode. */
static bool same_state(tenon__file_state a, tenon__file_state b)
{
    return same_file(a, b) && a.size == b.size && a.seconds == b.seconds && a.nanoseconds == b.nanoseconds;
}

static bool same_change(tenon__file_state a, tenon__file_state b)
{
    return a.changed_seconds == b.changed_seconds && a.changed_nanoseconds == b.changed_nanoseconds;
}

static bool make_absolute(const char *path, char absolute[LONGEST_PATH])
{
    size_t length = 0;
    if (path[0] != '/') {
        if (!tenon__current_folder(absolute, LONGEST_PATH - 1))
            return false;
        length = strlen(absolute);
        absolute[length++] = '/';
    }
    if (strlen(path) >= LONGEST_PATH - length) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(absolute + length, path);
    return true;
}

static tenon_status inspect_file(const char *path, candidate *c, tenon_error *err)
{
    c->hashed = false;
    c->file = tenon__file_open(path);
    if (c->file == TENON__NO_FILE || !tenon__file_state_read(c->file, &c->state) || !make_absolute(path, c->path))
        return tenon__system_failure(errno, NULL, err);
    if (c->state.is_folder)
        return tenon__system_failure(EISDIR, NULL, err);
    if (!c->state.is_regular)
        return tenon__system_failure(EINVAL, "it is not a regular file", err);
    return TENON_OK;
}

static bool hash_content(candidate *c)
{
    return c->hashed || (c->hashed = tenon__file_hash(c->file, &c->hash));
}

static bool is_worth_hashing(const candidate *c)
{
    return c->state.size <= SMALL ||
           (c->state.size <= MEDIUM && tenon__clock_seconds() - c->state.changed_seconds <= 1);
}

/* Whether the file of an open library still has the content that was opened. Without a hash, a change that is not of the
 * content may show: another name, link or mode. */
static bool has_same_content(const open_library *o, candidate *c)
{
    if (!same_state(o->state, c->state))
        return false;
    if (o->hashed && c->state.size <= MEDIUM && hash_content(c))
        return same_hash(o->hash, c->hash);
    return same_change(o->state, c->state) || o->state.links != c->state.links || o->state.mode != c->state.mode ||
           strcmp(o->path, c->path) != 0;
}

/* Find the open library of this file, or of an earlier file with this name and content. *out is NULL if neither is open. */
static tenon_status find_open(candidate *c, const open_library **out, tenon_error *err)
{
    *out = NULL;
    for (open_library *o = open_libraries; o && !*out; o = o->next) {
        if (same_file(o->state, c->state)) {
            o->rewritten = o->rewritten || !has_same_content(o, c);
            if (o->rewritten)
                return tenon__system_failure(EBUSY,
                                             "it was overwritten while it was open, which damages the functions that "
                                             "are loaded; restart the program, and replace the file with a new one "
                                             "instead of overwriting it",
                                             err);
            *out = o;
        } else if (!o->rewritten && o->hashed && o->state.size == c->state.size && strcmp(o->path, c->path) == 0 &&
                   hash_content(c) && same_hash(o->hash, c->hash)) {
            *out = o;
        }
    }
    return TENON_OK;
}

/* ----------------------------------------------------------------------------------------------------------- opening */

/* A number that differs between copies of this code in the same process. */
static unsigned long number_of_this_copy(void)
{
    return (unsigned long)((uintptr_t)&open_libraries >> 6);
}

/* Make another name for the same file: insert "./" and "/" before the last component, as the bits of an unused number. */
static bool make_alias(const char *path, char name[LONGEST_PATH])
{
    size_t folder = (size_t)(strrchr(path, '/') - path) + 1, length = folder;
    memcpy(name, path, folder);
    for (unsigned long number = ++names_made << 16 | (number_of_this_copy() & 0xffff); number; number >>= 1) {
        if (length + 2 + strlen(path + folder) >= LONGEST_PATH)
            return false;
        if (number & 1)
            name[length++] = '.';
        name[length++] = '/';
    }
    strcpy(name + length, path + folder);
    return true;
}

static tenon_status loader_failure(const char *name, tenon_error *err)
{
    const char *reason = tenon__loader_error();
    size_t length = strlen(name);
    if (!reason)
        reason = "the loader gave no reason";
    if (strncmp(reason, name, length) == 0 &&
        strncmp(reason + length, ": ", 2) == 0) /* the host adds the path itself */
        reason += length + 2;
    return tenon_error_set(err, TENON_EINVAL, "%s", reason);
}

static tenon_status open_in_place(candidate *c, void **handle, tenon_error *err)
{
    char name[LONGEST_PATH];
    tenon_status status = tenon__file_check(c->file, (uint64_t)c->state.size, err);
    if (status)
        return status;
    if (is_worth_hashing(c) && !hash_content(c))
        return tenon__system_failure(errno, NULL, err);
    strcpy(name, c->path);
    if (tenon__loader_open_loaded(name) && !make_alias(c->path, name))
        return tenon__system_failure(ENAMETOOLONG, NULL, err);
    *handle = tenon__loader_open(name);
    return *handle ? TENON_OK : loader_failure(name, err);
}

/* Whether the path still leads to the same, unchanged file. */
static bool file_is_unchanged(const candidate *c)
{
    tenon__file_state now;
    return tenon__path_state_read(c->path, &now) && same_state(now, c->state);
}

static bool file_is_replaced(const candidate *c)
{
    tenon__file_state now;
    return !tenon__path_state_read(c->path, &now) || !same_file(now, c->state);
}

/* Try to open the file. *again is true if it changed meanwhile, so that it is unclear what was opened. */
static tenon_status open_candidate(candidate *c, void **handle, bool *again, tenon_error *err)
{
    const open_library *found;
    tenon_status status = find_open(c, &found, err);
    if (status)
        return status;
    if (found) {
        *handle = found->handle;
        return TENON_OK;
    }
    size_t size = sizeof *found + strlen(c->path) + 1;
    open_library *o = tenon__alloc(size, true);
    if (!o)
        return tenon__system_failure(ENOMEM, NULL, err);
    status = open_in_place(c, handle, err);
    int code = errno;
    *again = !file_is_unchanged(c);
    /* If the old file is not the one that was opened, its inode is free for a new file, which was never overwritten. */
    bool is_unknown = *again && file_is_replaced(c);
    errno = code;
    if (status || is_unknown) {
        tenon__free(o, size);
        return status;
    }
    o->handle = *handle;
    o->state = c->state;
    o->hash = c->hash;
    o->hashed = c->hashed;
    o->rewritten = *again;
    strcpy(o->path, c->path);
    o->next = open_libraries;
    open_libraries = o;
    return TENON_OK;
}

/* Close a library that has no module, and forget it. It stays open if it was opened under a name that is not its path, or
 * if the loader keeps it: for other code that has opened it, or because it must not be unloaded (DF_1_NODELETE). */
static void close_library(open_library **link)
{
    open_library *o = *link;
    void *named = tenon__loader_open_loaded(o->path);
    if (named)
        tenon__loader_close(named);
    if (!named || named != o->handle)
        return;
    tenon__loader_close(o->handle);
    if (tenon__loader_open_loaded(o->path))
        return;
    *link = o->next;
    tenon__free(o, sizeof *o + strlen(o->path) + 1);
}

/* Find the module of a library that was opened when there were `threads` threads. Other threads cannot open the library
 * until it is known whether it has one. */
static tenon_status find_module(void *handle, int threads, const tenon_module **out, tenon_error *err)
{
    tenon_status status = tenon__library_module(handle, out, err);
    open_library **link = &open_libraries;
    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    if (*link && !status)
        (*link)->module = *out;
    else if (*link && tenon__thread_count() <= threads) /* otherwise the new threads may run the library's code */
        close_library(link);
    return status;
}

tenon_status tenon__library_open_file(const char *path, const tenon_module **out, tenon_error *err)
{
    enum { ATTEMPTS = 10 };
    void *handle = NULL;
    bool again = true;
    tenon_status status = TENON_OK;
    tenon__loader_lock();
    int threads = tenon__thread_count();
    for (int i = 0; i < ATTEMPTS && again; i++) {
        candidate c;
        again = false;
        status = inspect_file(path, &c, err);
        if (!status)
            status = open_candidate(&c, &handle, &again, err);
        tenon__file_close(c.file);
    }
    if (again)
        status = tenon__system_failure(EBUSY, "the file is being written; load it when it is complete", err);
    if (!status)
        status = find_module(handle, threads, out, err);
    tenon__loader_unlock();
    return status;
}

/* ------------------------------------------------------------------------------------------------------- the content */

/* A large file is hashed only now. It must be the one that was opened. */
static bool hash_later(open_library *o)
{
    candidate c;
    bool same = !o->rewritten && inspect_file(o->path, &c, NULL) == TENON_OK && same_state(o->state, c.state) &&
                same_change(o->state, c.state);
    o->hashed = same && tenon__file_hash(c.file, &o->hash) && file_is_unchanged(&c);
    if (!o->rewritten)
        tenon__file_close(c.file);
    return o->hashed;
}

int tenon__library_hash(const tenon_module *module, tenon__hash *out)
{
    int known = 0;
    tenon__loader_lock();
    for (open_library *o = open_libraries; o && known == 0; o = o->next) {
        if (o->module == module) {
            known = o->hashed || hash_later(o) ? 1 : -1;
            *out = o->hash;
        }
    }
    tenon__loader_unlock();
    return known;
}

#endif
