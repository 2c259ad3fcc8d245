/* Opens libraries with dlopen, which identifies a file by the names that it was opened with and by its inode:
 *
 * - Usually a file is opened in place, under its own name.
 * - If a new file has replaced an open one, dlopen would return the old library for that name. A path with a "./" in it is
 *   a different name for the same file, so the new file is opened in place too.
 * - If an open file has been overwritten, dlopen would return the old library for that inode, and its code and data are
 *   damaged. It is never used again, and the new content is opened through a copy.
 *
 * Libraries that have a module are never closed, so other files cannot reuse the inodes of open files. One that was refused
 * is closed, because its file is likely to be built again and overwritten. */
#define _POSIX_C_SOURCE  200809L /* O_CLOEXEC, st_mtim */
#define _DARWIN_C_SOURCE         /* st_mtimespec */

#include "system.h"

#ifdef TENON__POSIX
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#endif

#ifdef TENON__POSIX

enum { LONGEST_PATH = 4096 };
/* Files up to SMALL are always hashed, which is faster than opening them. Files up to MEDIUM are hashed only if they were
 * just written: the clock of a file system may have a resolution of milliseconds, so a second write may not show in the
 * times of the file. */
static const int64_t SMALL = (int64_t)1 << 20, MEDIUM = (int64_t)1 << 26;

/* The state of a file when it was opened. Its size and times show whether it has been written since. Programs can reset the
 * time of the last write, as `cp -p` does, but not the time of the last change. That one also changes when the file is
 * linked or renamed. */
typedef struct file_state {
    dev_t device;
    ino_t inode;
    int64_t size, seconds, nanoseconds;
    int64_t changed_seconds, changed_nanoseconds;
} file_state;

/* An open library, in a list with the newest first. */
typedef struct open_library {
    struct open_library *next;
    void *handle;
    file_state state;
    tenon__hash hash;
    bool hashed;
    bool copied;
    bool rewritten;             /* its file has been overwritten since it was opened in place */
    const tenon_module *module; /* NULL until it is known, or if it has none */
    char path[];
} open_library;

/* The file that is to be opened. */
typedef struct candidate {
    int file;
    file_state state;
    tenon__hash hash;
    bool hashed;
    bool rewritten; /* the file is open, with its earlier content */
    char path[LONGEST_PATH];
} candidate;

static open_library *open_libraries;
static unsigned long names_made;

/* ---------------------------------------------------------------------------------------------------------- the lock
 *
 * One thread at a time opens libraries. The lock is recursive, because the constructors of a library may open others. A
 * fork waits for the lock; otherwise the child could inherit a loader that is in the middle of its work. */

static pthread_once_t lock_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t open_lock;

static void init_lock(void)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&open_lock, &kind);
    pthread_mutexattr_destroy(&kind);
}

static void acquire_lock(void)
{
    pthread_mutex_lock(&open_lock);
}

static void release_lock(void)
{
    pthread_mutex_unlock(&open_lock);
}

/* In the child, the thread has another id than the one that locked the mutex. */
static void reset_lock(void)
{
    init_lock();
}

static void start_lock(void)
{
    init_lock();
    pthread_atfork(acquire_lock, release_lock, reset_lock);
}

/* ---------------------------------------------------------------------------------------------------------- the file */

static file_state state_of(const struct stat *about)
{
#ifdef __APPLE__
    struct timespec written = about->st_mtimespec, changed = about->st_ctimespec;
#else
    struct timespec written = about->st_mtim, changed = about->st_ctim;
#endif
    return (file_state){about->st_dev,   about->st_ino,  about->st_size, written.tv_sec,
                        written.tv_nsec, changed.tv_sec, changed.tv_nsec};
}

static bool same_file(file_state a, file_state b)
{
    return a.device == b.device && a.inode == b.inode;
}

static bool same_hash(tenon__hash x, tenon__hash y)
{
    return x.a == y.a && x.b == y.b && x.length == y.length;
}

static bool same_state(file_state a, file_state b)
{
    return same_file(a, b) && a.size == b.size && a.seconds == b.seconds && a.nanoseconds == b.nanoseconds;
}

static bool same_change(file_state a, file_state b)
{
    return a.changed_seconds == b.changed_seconds && a.changed_nanoseconds == b.changed_nanoseconds;
}

static bool make_absolute(const char *path, char absolute[LONGEST_PATH])
{
    size_t length = 0;
    if (path[0] != '/') {
        if (!getcwd(absolute, LONGEST_PATH - 1))
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
    struct stat about;
    c->hashed = c->rewritten = false;
    c->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: do not wait for the other end of a pipe */
    if (c->file < 0 || fstat(c->file, &about) != 0 || !make_absolute(path, c->path))
        return tenon__system_failure(errno, NULL, err);
    if (S_ISDIR(about.st_mode))
        return tenon__system_failure(EISDIR, NULL, err);
    if (!S_ISREG(about.st_mode))
        return tenon__system_failure(EINVAL, "it is not a regular file", err);
    c->state = state_of(&about);
    return TENON_OK;
}

static bool hash_content(candidate *c)
{
    return c->hashed || (c->hashed = tenon__file_hash(c->file, &c->hash));
}

static bool is_worth_hashing(const candidate *c)
{
    return c->state.size <= SMALL || (c->state.size <= MEDIUM && (int64_t)time(NULL) - c->state.changed_seconds <= 1);
}

/* Find the open library of this file, or of an earlier file with this name and content, or return NULL. */
static const open_library *find_open(candidate *c)
{
    for (open_library *o = open_libraries; o; o = o->next) {
        bool has_content = o->hashed && c->state.size <= MEDIUM; /* there are hashes to compare */
        bool unchanged = same_state(o->state, c->state) && (has_content || same_change(o->state, c->state));
        if (o->rewritten || (!unchanged && !o->copied && same_file(o->state, c->state))) {
            o->rewritten = true;
            c->rewritten = c->rewritten || same_file(o->state, c->state);
            continue;
        }
        if (!unchanged && (strcmp(o->path, c->path) != 0 || o->state.size != c->state.size || !o->hashed))
            continue;
        if (unchanged && !has_content)
            return o;
        if (hash_content(c) ? same_hash(o->hash, c->hash) : unchanged)
            return o;
        if (unchanged && !o->copied)
            o->rewritten = c->rewritten = true;
    }
    return NULL;
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
    const char *reason = dlerror();
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
    if (dlopen(name, RTLD_NOW | RTLD_NOLOAD) && !make_alias(c->path, name))
        return tenon__system_failure(ENAMETOOLONG, NULL, err);
    *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return *handle ? TENON_OK : loader_failure(name, err);
}

/* Copy the file into its own folder, so that $ORIGIN stays the same, or into a folder for temporary files. Returns a file
 * descriptor, or -1 with errno. */
static int make_copy(const candidate *c, char name[LONGEST_PATH])
{
    const char *temporary = getenv("TMPDIR");
    int length = (int)(strrchr(c->path, '/') - c->path), copy = -1, code = ENAMETOOLONG;
    const char *folders[] = {c->path, temporary && *temporary ? temporary : "/tmp", "/tmp"};
    for (int i = 0; i < 3 && copy < 0; i++) {
        int written = snprintf(name, LONGEST_PATH, "%.*s/.tenon-%ld-%lx-%lu.so", i ? LONGEST_PATH : length, folders[i],
                               (long)getpid(), number_of_this_copy(), ++names_made);
        if (written < 0 || written >= LONGEST_PATH)
            continue;
        copy = tenon__file_copy(c->file, name);
        code = errno;
    }
    errno = code;
    return copy;
}

static tenon_status open_copy(candidate *c, void **handle, tenon_error *err)
{
    char name[LONGEST_PATH];
    struct stat about;
    tenon_status status = tenon__file_check(c->file, (uint64_t)c->state.size, err);
    if (status)
        return status;
    int copy = make_copy(c, name);
    c->hashed = copy >= 0 && fstat(copy, &about) == 0 && tenon__file_hash(copy, &c->hash);
    int code = errno;
    if (c->hashed)
        status = tenon__file_check(copy, (uint64_t)about.st_size, err); /* the file may have become shorter meanwhile */
    else
        status = tenon_error_set(err, TENON_EFAILED,
                                 "it was overwritten while it was open, and cannot be copied to another file: %s; "
                                 "replace it with a new file instead of overwriting it, or restart the program",
                                 strerror(code));
    if (!status) {
        *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        status = *handle ? TENON_OK : loader_failure(name, err);
    }
    if (copy >= 0) {
        close(copy);
        unlink(name);
    }
    errno = code;
    return status;
}

/* Whether the path still leads to the same, unchanged file. */
static bool file_is_unchanged(const candidate *c)
{
    struct stat about;
    return stat(c->path, &about) == 0 && same_state(state_of(&about), c->state);
}

/* Try to open the file. *again is true if it changed meanwhile, so that it is unclear what was opened. */
static tenon_status open_candidate(candidate *c, void **handle, bool *again, tenon_error *err)
{
    const open_library *found = find_open(c);
    if (found) {
        *handle = found->handle;
        return TENON_OK;
    }
    size_t size = sizeof *found + strlen(c->path) + 1;
    open_library *o = tenon__alloc(size, true);
    if (!o)
        return tenon__system_failure(ENOMEM, NULL, err);
    tenon_status status = c->rewritten ? open_copy(c, handle, err) : open_in_place(c, handle, err);
    int code = errno;
    *again = !file_is_unchanged(c);
    errno = code;
    if (status || (*again && c->rewritten)) {
        tenon__free(o, size);
        return status;
    }
    o->handle = *handle;
    o->state = c->state;
    o->hash = c->hash;
    o->hashed = c->hashed;
    o->copied = c->rewritten;
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
    void *named = o->copied ? NULL : dlopen(o->path, RTLD_NOW | RTLD_NOLOAD);
    if (named)
        dlclose(named);
    if (!named || named != o->handle)
        return;
    dlclose(o->handle);
    if (dlopen(o->path, RTLD_NOW | RTLD_NOLOAD))
        return;
    *link = o->next;
    tenon__free(o, sizeof *o + strlen(o->path) + 1);
}

/* Find the module of an open library. Other threads cannot open the library until it is known whether it has one. */
static tenon_status find_module(void *handle, const tenon_module **out, tenon_error *err)
{
    tenon_module_fn get = NULL;
    void *symbol = dlsym(handle, TENON_MODULE_SYMBOL);
    memcpy(&get, &symbol, sizeof get);
    tenon_status status = tenon__library_module(get, out, err);
    open_library **link = &open_libraries;
    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    if (*link && status)
        close_library(link);
    else if (*link)
        (*link)->module = *out;
    return status;
}

tenon_status tenon_library_open(const char *path, const tenon_module **out, tenon_error *err)
{
    enum { ATTEMPTS = 10 };
    void *handle = NULL;
    bool again = true;
    tenon_status status = TENON_OK;
    if (!path || !out)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_library_open", "argument '%s' is NULL",
                                  path ? "out" : "path");
    pthread_once(&lock_once, start_lock);
    acquire_lock();
    for (int i = 0; i < ATTEMPTS && again; i++) {
        candidate c;
        again = false;
        status = inspect_file(path, &c, err);
        if (!status)
            status = open_candidate(&c, &handle, &again, err);
        int code = errno;
        if (c.file >= 0)
            close(c.file);
        errno = code;
    }
    if (again)
        status = tenon__system_failure(EBUSY, "the file is being written; load it when it is complete", err);
    if (!status)
        status = find_module(handle, out, err);
    release_lock();
    return tenon__error_rename(err, status, "tenon_library_open");
}

/* ------------------------------------------------------------------------------------------------------- the content */

/* A large file is hashed only now. It must be the one that was opened. */
static bool hash_later(open_library *o)
{
    candidate c;
    bool same = !o->rewritten && inspect_file(o->path, &c, NULL) == TENON_OK && same_state(o->state, c.state) &&
                same_change(o->state, c.state);
    o->hashed = same && tenon__file_hash(c.file, &o->hash) && file_is_unchanged(&c);
    if (!o->rewritten && c.file >= 0)
        close(c.file);
    return o->hashed;
}

int tenon__library_hash(const tenon_module *module, tenon__hash *out)
{
    int known = 0;
    pthread_once(&lock_once, start_lock);
    acquire_lock();
    for (open_library *o = open_libraries; o && known == 0; o = o->next) {
        if (o->module == module) {
            known = o->hashed || hash_later(o) ? 1 : -1;
            *out = o->hash;
        }
    }
    release_lock();
    return known;
}

#endif
