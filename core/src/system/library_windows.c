/* Opens libraries with LoadLibrary. Windows locks the files of open libraries, so they cannot be overwritten. They can be
 * renamed, though, and LoadLibrary would return the old library for the path of a new build. */
#include "system.h"

#ifdef TENON__WINDOWS
#include <errno.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN /* without macros such as `interface` */
#include <windows.h>
#endif

#ifdef TENON__WINDOWS

enum { WIDE_PATH = 32768 };

/* An open library. It stays open, unless it has no module. */
typedef struct loaded_library {
    struct loaded_library *next;
    HMODULE handle;
    const tenon_module *module; /* NULL until it is known */
    size_t opened;              /* how often */
    tenon__hash hash;
} loaded_library;

static loaded_library *loaded_libraries;
static SRWLOCK loaded_lock = SRWLOCK_INIT;

static int errno_of(DWORD code)
{
    switch (code) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_NO_UNICODE_TRANSLATION:
        return ENOENT;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
        return EACCES;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
        return ENOMEM;
    default:
        return EIO;
    }
}

int64_t tenon__file_read(tenon__file file, void *memory, size_t size, int64_t at)
{
    size_t done = 0;
    while (done < size) {
        uint64_t place = (uint64_t)at + done;
        OVERLAPPED where = {0};
        where.Offset = (DWORD)place;
        where.OffsetHigh = (DWORD)(place >> 32);
        DWORD wanted = size - done < 1 << 30 ? (DWORD)(size - done) : 1 << 30, got = 0;
        if (!ReadFile(file, (char *)memory + done, wanted, &got, &where) && GetLastError() != ERROR_HANDLE_EOF) {
            errno = errno_of(GetLastError());
            return -1;
        }
        if (got == 0)
            break;
        done += got;
    }
    return (int64_t)done;
}

static HANDLE open_file(const wchar_t *path)
{
    return CreateFileW(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
}

/* Check and hash the file at an absolute path. */
static tenon_status inspect_path(const wchar_t *path, tenon__hash *hash, tenon_error *err)
{
    DWORD attributes = GetFileAttributesW(path);
    if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY))
        return tenon__system_failure(EISDIR, NULL, err);
    HANDLE file = open_file(path);
    if (file == INVALID_HANDLE_VALUE)
        return tenon__system_failure(errno_of(GetLastError()), NULL, err);
    LARGE_INTEGER size;
    tenon_status status = TENON_OK;
    if (!GetFileSizeEx(file, &size))
        status = tenon__system_failure(errno_of(GetLastError()), NULL, err);
    if (!status)
        status = tenon__file_check(file, (uint64_t)size.QuadPart, err);
    if (!status && !tenon__file_hash(file, hash))
        status = tenon__system_failure(errno, NULL, err);
    int code = errno;
    CloseHandle(file);
    errno = code;
    return status;
}

/* Add the library to the list. One that is there must have been opened from the same content. */
static tenon_status note_loaded(HMODULE handle, const tenon__hash *hash, tenon_error *err)
{
    tenon_status status = TENON_OK;
    AcquireSRWLockExclusive(&loaded_lock);
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
    ReleaseSRWLockExclusive(&loaded_lock);
    return status;
}

/* Close a library that has no module: Windows locks its file, so that a better build could not replace it. */
static void close_loaded(HMODULE handle)
{
    loaded_library *gone = NULL;
    AcquireSRWLockExclusive(&loaded_lock);
    loaded_library **link = &loaded_libraries;
    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    if (*link && --(*link)->opened == 0) { /* otherwise another thread is at the same point */
        gone = *link;
        *link = gone->next;
    }
    ReleaseSRWLockExclusive(&loaded_lock);
    if (gone)
        tenon__free(gone, sizeof *gone);
    FreeLibrary(handle);
}

static void note_loaded_module(HMODULE handle, const tenon_module *module)
{
    AcquireSRWLockExclusive(&loaded_lock);
    for (loaded_library *o = loaded_libraries; o; o = o->next)
        if (o->handle == handle)
            o->module = module;
    ReleaseSRWLockExclusive(&loaded_lock);
}

/* Open the library at an absolute path. */
static tenon_status open_path(const wchar_t *path, HMODULE *handle, tenon_error *err)
{
    tenon__hash hash;
    tenon_status status = inspect_path(path, &hash, err);
    if (status)
        return status;
    *handle = LoadLibraryExW(path, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    if (!*handle)
        return tenon_error_set(err, TENON_EINVAL, "Windows cannot load it, or a library that it needs: error %lu",
                               GetLastError());
    status = note_loaded(*handle, &hash, err);
    if (status)
        FreeLibrary(*handle);
    return status;
}

tenon_status tenon_library_open(const char *path, const tenon_module **out, tenon_error *err)
{
    const char *function = "tenon_library_open";
    if (!path || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL", path ? "out" : "path");
    size_t half = WIDE_PATH * sizeof(wchar_t);
    wchar_t *given = tenon__alloc(2 * half, false), *whole = given + WIDE_PATH;
    if (!given)
        return tenon__error_rename(err, tenon__system_failure(ENOMEM, NULL, err), function);
    DWORD length = 0;
    HMODULE handle = NULL;
    tenon_status status;
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, given, WIDE_PATH) > 0)
        length = GetFullPathNameW(given, WIDE_PATH, whole, NULL);
    if (length > 0 && length < WIDE_PATH)
        status = open_path(whole, &handle, err);
    else
        status = tenon__system_failure(ENOENT, NULL, err);
    tenon__free(given, 2 * half);
    if (!status) {
        FARPROC symbol = GetProcAddress(handle, TENON_MODULE_SYMBOL);
        tenon_module_fn get = NULL;
        memcpy(&get, &symbol, sizeof get);
        status = tenon__library_module(get, out, err);
        if (status)
            close_loaded(handle);
        else
            note_loaded_module(handle, *out);
    }
    return tenon__error_rename(err, status, function);
}

int tenon__library_hash(const tenon_module *module, tenon__hash *out)
{
    int known = 0;
    AcquireSRWLockExclusive(&loaded_lock);
    for (loaded_library *o = loaded_libraries; o && known == 0; o = o->next) {
        if (o->module == module) {
            known = 1;
            *out = o->hash;
        }
    }
    ReleaseSRWLockExclusive(&loaded_lock);
    return known;
}

bool tenon__module_file_hash(const tenon_module *module, tenon__hash *out)
{
    const DWORD how = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    HMODULE handle = NULL;
    wchar_t *path = tenon__alloc(WIDE_PATH * sizeof *path, false);
    DWORD length = 0;
    if (path && GetModuleHandleExW(how, (const wchar_t *)module, &handle))
        length = GetModuleFileNameW(handle, path, WIDE_PATH);
    HANDLE file = length > 0 && length < WIDE_PATH ? open_file(path) : INVALID_HANDLE_VALUE;
    bool done = file != INVALID_HANDLE_VALUE && tenon__file_hash(file, out);
    if (file != INVALID_HANDLE_VALUE)
        CloseHandle(file);
    if (path)
        tenon__free(path, WIDE_PATH * sizeof *path);
    return done;
}

#endif
