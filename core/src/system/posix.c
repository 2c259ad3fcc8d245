/* Files, the loader, forks and processes of POSIX systems. */
#define _GNU_SOURCE      1       /* dladdr */
#define _POSIX_C_SOURCE  200809L /* pread, O_CLOEXEC, st_mtim */
#define _DARWIN_C_SOURCE         /* st_mtimespec */

#include "internal.h"

#ifdef TENON__POSIX
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#endif

#ifdef TENON__POSIX

/* ----------------------------------------------------------------------------------------------------------- files */

tenon__file tenon__file_open(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

void tenon__file_close(tenon__file file)
{
    int code = errno;
    if (file >= 0)
        close(file);
    errno = code;
}

int64_t tenon__file_read(tenon__file file, void *memory, size_t size, int64_t at)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(file, (char *)memory + done, size - done, (off_t)at + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

tenon__file tenon__file_of_code(const void *address)
{
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname || !*info.dli_fname)
        return TENON__NO_FILE;
    return tenon__file_open(info.dli_fname);
}

static void fill_state(const struct stat *about, tenon__file_state *out)
{
#ifdef __APPLE__
    struct timespec written = about->st_mtimespec, changed = about->st_ctimespec;
#else
    struct timespec written = about->st_mtim, changed = about->st_ctim;
#endif
    *out = (tenon__file_state){
        .device = (uint64_t)about->st_dev,
        .inode = (uint64_t)about->st_ino,
        .links = (uint64_t)about->st_nlink,
        .mode = (uint64_t)about->st_mode,
        .size = about->st_size,
        .seconds = written.tv_sec,
        .nanoseconds = written.tv_nsec,
        .changed_seconds = changed.tv_sec,
        .changed_nanoseconds = changed.tv_nsec,
        .is_folder = S_ISDIR(about->st_mode),
        .is_regular = S_ISREG(about->st_mode),
    };
}

bool tenon__file_state_read(tenon__file file, tenon__file_state *out)
{
    struct stat about;
    if (fstat(file, &about) != 0)
        return false;
    fill_state(&about, out);
    return true;
}

bool tenon__path_state_read(const char *path, tenon__file_state *out)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return false;
    fill_state(&about, out);
    return true;
}

bool tenon__file_exists(const char *path)
{
    struct stat about;
    int code = errno;
    bool exists = stat(path, &about) == 0;
    errno = code;
    return exists;
}

bool tenon__current_folder(char *out, size_t size)
{
    return getcwd(out, size) != NULL;
}

/* ---------------------------------------------------------------------------------------------------------- loader */

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

/* In the child, the thread has another id than the one that locked the mutex. */
static void reset_lock(void)
{
    init_lock();
}

static void start_lock(void)
{
    init_lock();
    pthread_atfork(acquire_lock, tenon__loader_unlock, reset_lock);
}

void tenon__loader_lock(void)
{
    pthread_once(&lock_once, start_lock);
    acquire_lock();
}

void tenon__loader_unlock(void)
{
    pthread_mutex_unlock(&open_lock);
}

void *tenon__loader_open(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

void *tenon__loader_open_loaded(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_NOLOAD);
}

const char *tenon__loader_error(void)
{
    return dlerror();
}

tenon_module_fn tenon__loader_find_module(void *library)
{
    tenon_module_fn get = NULL;
    void *symbol = dlsym(library, TENON_MODULE_SYMBOL);
    memcpy(&get, &symbol, sizeof get);
    return get;
}

void tenon__loader_close(void *library)
{
    dlclose(library);
}

/* ----------------------------------------------------------------------------------------------- clocks, processes */

int64_t tenon__clock_seconds(void)
{
    return (int64_t)time(NULL);
}

int tenon__process_id(void)
{
    return (int)getpid();
}

int tenon__thread_count(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

void tenon__at_fork(void (*before)(void), void (*after)(void))
{
    pthread_atfork(before, after, after);
}

#endif
