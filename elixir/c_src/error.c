#include "nif.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static ERL_NIF_TERM atom_or_nil(ErlNifEnv *env, const char *name)
{
    return name ? enif_make_atom(env, name) : tenon_nif_atoms.nil;
}

ERL_NIF_TERM tenon_nif_argument(ErlNifEnv *env, const char *name)
{
    return name ? enif_make_atom_len(env, name, strcspn(name, "[")) : tenon_nif_atoms.nil;
}

ERL_NIF_TERM tenon_nif_error(ErlNifEnv *env, ERL_NIF_TERM reason, const char *function, const char *argument,
                             const char *format, ...)
{
    char text[sizeof((tenon_error *)0)->message + 1]; /* one more byte than is shown */
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t size = length < 0 ? 0 : tenon_utf8_cut(text, (size_t)length, sizeof text - 2);
    tenon_nif_mend_utf8(text, size); /* names may be Latin-1 */
    ERL_NIF_TERM message, error;
    memcpy(enif_make_new_binary(env, size, &message), text, size);
    const tenon_nif_atom_table *a = &tenon_nif_atoms;
    ERL_NIF_TERM keys[] = {a->__struct__, a->__exception__, a->reason, a->message, a->function, a->argument};
    ERL_NIF_TERM values[] = {
        a->error_module, a->yes, reason, message, atom_or_nil(env, function), tenon_nif_argument(env, argument)};
    enif_make_map_from_arrays(env, keys, values, sizeof keys / sizeof *keys, &error);
    return enif_make_tuple2(env, a->error, error);
}

ERL_NIF_TERM tenon_nif_badarg(ErlNifEnv *env, const char *function, const char *argument, const char *expected)
{
    ERL_NIF_TERM reason = enif_make_tuple2(env, tenon_nif_atoms.badarg, tenon_nif_argument(env, argument));
    return tenon_nif_error(env, reason, function, argument, "%s(): argument '%s': expected %s", function, argument,
                           expected);
}

ERL_NIF_TERM tenon_nif_failed(ErlNifEnv *env, tenon_status status)
{
    char name[32];
    const char *known = tenon_status_name(status) + strlen("TENON_");
    ERL_NIF_TERM what = enif_make_int(env, status);
    if (status == TENON_ENOMEM) {
        what = tenon_nif_atoms.no_memory;
    } else if (status > TENON_OK && status <= TENON_ESYSTEM) {
        size_t i = 0;
        for (; i < sizeof name - 1 && known[i]; i++)
            name[i] = (char)(known[i] | 0x20); /* lower case */
        what = enif_make_atom_len(env, name, i);
    }
    return enif_make_tuple2(env, tenon_nif_atoms.failed, what);
}

ERL_NIF_TERM tenon_nif_failure(ErlNifEnv *env, const char *function, const tenon_error *err)
{
    return tenon_nif_error(env, tenon_nif_failed(env, err->status), function, NULL, "%s(): %s", function, err->message);
}

ERL_NIF_TERM tenon_nif_reason(ErlNifEnv *env, tenon_status status, const char *argument)
{
    const tenon_nif_atom_table *a = &tenon_nif_atoms;
    ERL_NIF_TERM name = tenon_nif_argument(env, argument);
    switch (status) {
    case TENON_ENOMEM:
    case TENON_EFAILED:
        return tenon_nif_failed(env, status);
    case TENON_EOVERFLOW:
        return enif_make_tuple2(env, a->overflow, name);
    default:
        return enif_make_tuple2(env, a->badarg, name);
    }
}

/* Failures of files and memory. */
#define SYSTEM_ERRORS(X)                                                                                               \
    X(EACCES, eacces)                                                                                                  \
    X(EAGAIN, eagain)                                                                                                  \
    X(EBADF, ebadf)                                                                                                    \
    X(EBUSY, ebusy)                                                                                                    \
    X(EEXIST, eexist)                                                                                                  \
    X(EFAULT, efault)                                                                                                  \
    X(EFBIG, efbig)                                                                                                    \
    X(EINTR, eintr)                                                                                                    \
    X(EINVAL, einval)                                                                                                  \
    X(EIO, eio)                                                                                                        \
    X(EISDIR, eisdir)                                                                                                  \
    X(ELOOP, eloop)                                                                                                    \
    X(EMFILE, emfile)                                                                                                  \
    X(ENAMETOOLONG, enametoolong)                                                                                      \
    X(ENFILE, enfile)                                                                                                  \
    X(ENODEV, enodev)                                                                                                  \
    X(ENOENT, enoent)                                                                                                  \
    X(ENOLCK, enolck)                                                                                                  \
    X(ENOSYS, enosys)                                                                                                  \
    X(ENOTDIR, enotdir)                                                                                                \
    X(ENXIO, enxio)                                                                                                    \
    X(EOVERFLOW, eoverflow)                                                                                            \
    X(EPERM, eperm)                                                                                                    \
    X(EROFS, erofs)                                                                                                    \
    X(ESRCH, esrch)                                                                                                    \
    X(ESTALE, estale)                                                                                                  \
    X(ETXTBSY, etxtbsy)

/* {:system, :enoent}; a failure without a name here is its number. */
static ERL_NIF_TERM system_reason(ErlNifEnv *env, int32_t code)
{
    ERL_NIF_TERM what = enif_make_int(env, code);
    switch (code) {
#define NAME_ERROR(number, name)                                                                                       \
    case number:                                                                                                       \
        what = enif_make_atom(env, #name);                                                                             \
        break;
        SYSTEM_ERRORS(NAME_ERROR)
#undef NAME_ERROR
    default:
        break;
    }
    return enif_make_tuple2(env, tenon_nif_atoms.system, what);
}

ERL_NIF_TERM tenon_nif_core_error(ErlNifEnv *env, const tenon_error *err, const char *function, const char *argument)
{
    ERL_NIF_TERM reason =
        err->status == TENON_ESYSTEM ? system_reason(env, err->os_error) : tenon_nif_reason(env, err->status, argument);
    return tenon_nif_error(env, reason, function, argument, "%s(): %s", function, tenon_error_reason(err));
}

ERL_NIF_TERM tenon_nif_ok(ErlNifEnv *env, ERL_NIF_TERM term)
{
    return enif_make_tuple2(env, tenon_nif_atoms.ok, term);
}
