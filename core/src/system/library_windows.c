/* Opens libraries with LoadLibrary. Windows locks the files of open libraries, so they cannot be overwritten. */
#include "system.h"

#ifdef TENON__WINDOWS
#include <errno.h>
#include <string.h>
#include <windows.h>
#endif

#ifdef TENON__WINDOWS

tenon_status tenon_library_open(const char *path, const tenon_module **out, tenon_error *err)
{
    const char *function = "tenon_library_open";
    enum { WIDE_PATH = 32768 };
    if (!path || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL", path ? "out" : "path");
    size_t half = WIDE_PATH * sizeof(wchar_t);
    wchar_t *given = tenon__alloc(2 * half, false), *whole = given + WIDE_PATH;
    if (!given)
        return tenon_error_set_in(err, TENON_ENOMEM, function, "no memory");
    DWORD length = 0, attributes = INVALID_FILE_ATTRIBUTES;
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, given, WIDE_PATH) > 0)
        length = GetFullPathNameW(given, WIDE_PATH, whole, NULL);
    if (length > 0 && length < WIDE_PATH)
        attributes = GetFileAttributesW(whole);
    bool is_file = attributes != INVALID_FILE_ATTRIBUTES && !(attributes & FILE_ATTRIBUTE_DIRECTORY);
    HMODULE handle = is_file ? LoadLibraryExW(whole, NULL, LOAD_WITH_ALTERED_SEARCH_PATH) : NULL;
    DWORD code = GetLastError();
    tenon__free(given, 2 * half);
    if (!is_file) {
        tenon_status status = tenon_error_set_in(err, TENON_EFAILED, function, "there is no such file");
        errno = ENOENT;
        return status;
    }
    if (!handle)
        return tenon_error_set_in(err, TENON_EINVAL, function, "Windows cannot load it: error %lu", code);
    FARPROC symbol = GetProcAddress(handle, TENON_MODULE_SYMBOL);
    tenon_module_fn get = NULL;
    memcpy(&get, &symbol, sizeof get);
    return tenon__error_rename(err, tenon__library_module(get, out, err), function);
}

#endif
