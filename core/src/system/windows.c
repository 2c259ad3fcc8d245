/* Files and the loader of Windows. */
#include "internal.h"

#ifdef TENON__WINDOWS
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN /* without macros such as `interface` */
#include <windows.h>
#undef near /* sources that follow in the bundle use these names */
#undef far
#endif

#ifdef TENON__WINDOWS

enum { WIDE_PATH = 32768 };

/* ----------------------------------------------------------------------------------------------------------- files */

static void set_errno(DWORD code)
{
    switch (code) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_NO_UNICODE_TRANSLATION:
        errno = ENOENT;
        break;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
        errno = EACCES;
        break;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
        errno = ENOMEM;
        break;
    default:
        errno = EIO;
    }
}

wchar_t *tenon__path_absolute(const char *path)
{
    wchar_t *whole = malloc(2 * WIDE_PATH * sizeof *whole);
    if (!whole) {
        errno = ENOMEM;
        return NULL;
    }
    DWORD length = 0;
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, whole + WIDE_PATH, WIDE_PATH) > 0)
        length = GetFullPathNameW(whole + WIDE_PATH, WIDE_PATH, whole, NULL);
    if (length > 0 && length < WIDE_PATH)
        return whole;
    free(whole);
    errno = ENOENT;
    return NULL;
}

bool tenon__path_is_folder(const wchar_t *path)
{
    DWORD attributes = GetFileAttributesW(path);
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY);
}

bool tenon__file_exists(const char *path)
{
    int code = errno;
    wchar_t *whole = tenon__path_absolute(path);
    bool exists = whole && GetFileAttributesW(whole) != INVALID_FILE_ATTRIBUTES;
    free(whole);
    errno = code;
    return exists;
}

tenon__file tenon__file_open(const wchar_t *path)
{
    HANDLE file = CreateFileW(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE)
        set_errno(GetLastError());
    return file;
}

void tenon__file_close(tenon__file file)
{
    int code = errno;
    if (file != TENON__NO_FILE)
        CloseHandle(file);
    errno = code;
}

int64_t tenon__file_size(tenon__file file)
{
    LARGE_INTEGER size;
    if (GetFileSizeEx(file, &size))
        return size.QuadPart;
    set_errno(GetLastError());
    return -1;
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
            set_errno(GetLastError());
            return -1;
        }
        if (got == 0)
            break;
        done += got;
    }
    return (int64_t)done;
}

tenon__file tenon__file_of_code(const void *address)
{
    const DWORD how = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    HMODULE handle = NULL;
    wchar_t *path = malloc(WIDE_PATH * sizeof *path);
    DWORD length = 0;
    if (path && GetModuleHandleExW(how, (const wchar_t *)address, &handle))
        length = GetModuleFileNameW(handle, path, WIDE_PATH);
    tenon__file file = length > 0 && length < WIDE_PATH ? tenon__file_open(path) : TENON__NO_FILE;
    free(path);
    return file;
}

/* ---------------------------------------------------------------------------------------------------------- loader */

static SRWLOCK loader_lock = SRWLOCK_INIT;

void tenon__loader_lock(void)
{
    AcquireSRWLockExclusive(&loader_lock);
}

void tenon__loader_unlock(void)
{
    ReleaseSRWLockExclusive(&loader_lock);
}

void *tenon__loader_open(const wchar_t *path, unsigned long *code)
{
    HMODULE handle = LoadLibraryExW(path, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    *code = handle ? 0 : GetLastError();
    return handle;
}

tenon_module_fn tenon__loader_find_module(void *library)
{
    FARPROC symbol = GetProcAddress(library, TENON_MODULE_SYMBOL);
    tenon_module_fn get = NULL;
    memcpy(&get, &symbol, sizeof get);
    return get;
}

void tenon__loader_close(void *library)
{
    FreeLibrary(library);
}

#endif
