#include "nif.h"

#include <inttypes.h>

/* Makes a view of a pinned tensor: *out is a new tensor of the core, or the result is {:error, …}. */
typedef ERL_NIF_TERM (*view_maker)(ErlNifEnv *env, tenon_tensor *tensor, const ERL_NIF_TERM argv[], tenon_tensor **out);

static ERL_NIF_TERM make_view(ErlNifEnv *env, const ERL_NIF_TERM argv[], const char *function, view_maker maker)
{
    ERL_NIF_TERM result;
    tenon_nif_tensor *handle = tenon_nif_tensor_pin(env, argv[0], function, "tensor", &result);
    if (!handle)
        return result;
    tenon_tensor *view = NULL;
    result = maker(env, handle->tensor, argv, &view);
    if (view)
        result = tenon_nif_ok(env, tenon_nif_make_tensor(env, view, handle->storage));
    tenon_nif_tensor_unpin(handle);
    return result;
}

static ERL_NIF_TERM checked(ErlNifEnv *env, tenon_status status, const tenon_error *err, const char *function,
                            const char *argument)
{
    return status ? tenon_nif_core_error(env, err, function, argument) : tenon_nif_atoms.ok;
}

/* In a chain of views, replace `current` by `next`. `current` may be the tensor that the caller has pinned. */
static void replace(tenon_tensor *pinned, tenon_tensor **current, tenon_tensor *next)
{
    if (*current != pinned)
        tenon_tensor_release(*current);
    *current = next;
}

/* ----------------------------------------------------------------------------------------------------------- slice */

static ERL_NIF_TERM bad_slice(ErlNifEnv *env, const char *argument, int32_t axis, int64_t start, int64_t length,
                              int64_t step, int64_t size)
{
    return tenon_nif_error(env, enif_make_tuple2(env, tenon_nif_atoms.badarg, enif_make_atom(env, argument)), "slice",
                           argument,
                           "slice(): axis %" PRId32 " has %" PRId64 " elements; start %" PRId64 ", length %" PRId64
                           " and stride %" PRId64 " are negative, or reach beyond its end",
                           axis, size, start, length, step);
}

static ERL_NIF_TERM slice(ErlNifEnv *env, tenon_tensor *tensor, const ERL_NIF_TERM argv[], tenon_tensor **out)
{
    static const char *const names[] = {"starts", "lengths", "strides"};
    const tenon_view *view = tenon_tensor_view(tensor);
    int64_t given[3][TENON_MAX_NDIM];
    for (int i = 0; i < 3; i++) {
        int32_t count;
        if (i == 2 && enif_is_identical(argv[3], tenon_nif_atoms.nil)) {
            for (int32_t axis = 0; axis < view->ndim; axis++)
                given[2][axis] = 1;
            break;
        }
        if (!tenon_nif_get_dims(env, argv[i + 1], &count, given[i]) || count != view->ndim)
            return tenon_nif_bad_dims(env, argv[i + 1], "slice", names[i], "a list of one integer for each dimension");
    }
    tenon_tensor *current = tensor, *next;
    tenon_error err;
    for (int32_t axis = 0; axis < view->ndim; axis++) {
        int64_t start = given[0][axis], length = given[1][axis], step = given[2][axis], size = view->shape[axis], stop;
        const char *argument = start < 0 || start > size ? "starts" : step < 1 ? "strides" : "lengths";
        /* As in Nx, `length` is the length without the stride. */
        bool fits =
            start >= 0 && length >= 0 && step >= 1 && !__builtin_add_overflow(start, length, &stop) && stop <= size;
        if (!fits || tenon_tensor_slice(current, axis, start, stop, step, &next, &err)) {
            replace(tensor, &current, NULL);
            return fits ? tenon_nif_core_error(env, &err, "slice", argument)
                        : bad_slice(env, argument, axis, start, length, step, size);
        }
        replace(tensor, &current, next);
    }
    *out = current == tensor ? tenon_tensor_retain(tensor) : current;
    return tenon_nif_atoms.ok;
}

TENON_NIF(slice)
{
    (void)argc;
    return make_view(env, argv, "slice", slice);
}

/* ------------------------------------------------------------------------------------------------------- transpose */

static ERL_NIF_TERM transpose(ErlNifEnv *env, tenon_tensor *tensor, const ERL_NIF_TERM argv[], tenon_tensor **out)
{
    int32_t ndim = tenon_tensor_view(tensor)->ndim, count = ndim, axes[TENON_MAX_NDIM + 1];
    int64_t given[TENON_MAX_NDIM];
    tenon_error err;
    bool reversed = enif_is_identical(argv[1], tenon_nif_atoms.nil);
    if (!reversed && (!tenon_nif_get_dims(env, argv[1], &count, given) || count != ndim))
        return tenon_nif_bad_dims(env, argv[1], "transpose", "axes", "a list that names each axis once");
    for (int32_t i = 0; i < ndim; i++) {
        if (!reversed && (given[i] < -ndim || given[i] >= ndim))
            return tenon_nif_badarg(env, "transpose", "axes", "a list that names each axis once");
        axes[i] = reversed ? ndim - 1 - i : (int32_t)given[i];
    }
    return checked(env, tenon_tensor_permute(tensor, axes, out, &err), &err, "transpose", "axes");
}

TENON_NIF(transpose)
{
    (void)argc;
    return make_view(env, argv, "transpose", transpose);
}

/* ---------------------------------------------------------------------------------------------- reshape, broadcast */

/* Like tenon_nif_get_dims, but :auto means -1. Shapes without :auto cost nothing extra. */
static bool get_new_shape(ErlNifEnv *env, ERL_NIF_TERM term, int32_t *ndim, int64_t shape[TENON_MAX_NDIM])
{
    if (tenon_nif_get_dims(env, term, ndim, shape))
        return true;
    ERL_NIF_TERM automatic = enif_make_atom(env, "auto"), terms[TENON_MAX_NDIM], head;
    const ERL_NIF_TERM *items;
    int count = 0;
    if (enif_get_tuple(env, term, &count, &items)) {
        for (int i = 0; i < count && i < TENON_MAX_NDIM; i++)
            terms[i] = items[i];
    } else {
        for (; count < TENON_MAX_NDIM && enif_get_list_cell(env, term, &head, &term); count++)
            terms[count] = head;
        if (!enif_is_empty_list(env, term))
            return false;
    }
    if (count > TENON_MAX_NDIM)
        return false;
    for (int i = 0; i < count; i++)
        if (enif_is_identical(terms[i], automatic))
            terms[i] = enif_make_int(env, -1);
    return tenon_nif_get_dims(env, enif_make_tuple_from_array(env, terms, (unsigned)count), ndim, shape);
}

static ERL_NIF_TERM reshape(ErlNifEnv *env, tenon_tensor *tensor, const ERL_NIF_TERM argv[], tenon_tensor **out)
{
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM], numel, have = tenon_tensor_view(tensor)->numel;
    tenon_error err;
    if (!get_new_shape(env, argv[1], &ndim, shape))
        return tenon_nif_badarg(env, "reshape", "shape",
                                "a tuple or list of up to 64 integers, one of which may be :auto");
    int open = 0, negative = 0;
    for (int32_t i = 0; i < ndim; i++) {
        open += shape[i] == -1;
        negative += shape[i] < -1;
    }
    if (open > 1)
        return tenon_nif_badarg(env, "reshape", "shape", "at most one dimension that is :auto (or -1)");
    if (!open && !negative && !tenon_shape_numel(ndim, shape, &numel, NULL) && numel != have) {
        ERL_NIF_TERM want = enif_make_int64(env, numel), got = enif_make_int64(env, have);
        return tenon_nif_error(env, enif_make_tuple3(env, tenon_nif_atoms.size_mismatch, want, got), "reshape", "shape",
                               "reshape(): the shape has %" PRId64 " elements, the tensor %" PRId64, numel, have);
    }
    tenon_status status = tenon_tensor_reshape(tensor, ndim, shape, out, &err);
    if (status == TENON_ELAYOUT)
        return tenon_nif_error(
            env, tenon_nif_atoms.not_contiguous, "reshape", "tensor",
            "reshape(): argument 'tensor' needs a copy, because its elements are not contiguous in C order; to "
            "copy it, use to_binary with copy: :allow, and from_binary");
    if (status == TENON_ESHAPE && open && !negative)
        return tenon_nif_error(env, tenon_nif_reason(env, status, "shape"), "reshape", "shape",
                               "reshape(): argument 'shape': the other dimensions do not divide the tensor's %" PRId64
                               " elements, so :auto (or -1) has no size",
                               have);
    return checked(env, status, &err, "reshape", "shape");
}

TENON_NIF(reshape)
{
    (void)argc;
    return make_view(env, argv, "reshape", reshape);
}

static ERL_NIF_TERM broadcast(ErlNifEnv *env, tenon_tensor *tensor, const ERL_NIF_TERM argv[], tenon_tensor **out)
{
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    tenon_error err;
    if (!tenon_nif_get_dims(env, argv[1], &ndim, shape))
        return tenon_nif_bad_dims(env, argv[1], "broadcast", "shape", "a tuple or list of up to 64 integers");
    return checked(env, tenon_tensor_broadcast_to(tensor, ndim, shape, out, &err), &err, "broadcast", "shape");
}

TENON_NIF(broadcast)
{
    (void)argc;
    return make_view(env, argv, "broadcast", broadcast);
}

/* ----------------------------------------------------------------------------------------------- squeeze, new_axis */

static ERL_NIF_TERM squeeze(ErlNifEnv *env, tenon_tensor *tensor, const ERL_NIF_TERM argv[], tenon_tensor **out)
{
    const tenon_view *view = tenon_tensor_view(tensor);
    int32_t ndim = view->ndim, count;
    int64_t axes[TENON_MAX_NDIM];
    bool gone[TENON_MAX_NDIM] = {false};
    tenon_error err;
    if (enif_is_identical(argv[1], tenon_nif_atoms.nil))
        return checked(env, tenon_tensor_squeeze(tensor, TENON_OMIT, out, &err), &err, "squeeze", "axes");
    if (!tenon_nif_get_dims(env, argv[1], &count, axes))
        return tenon_nif_bad_dims(env, argv[1], "squeeze", "axes", "a list of axes");
    for (int32_t i = 0; i < count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + ndim : axes[i];
        if (axis < 0 || axis >= ndim || gone[axis] || view->shape[axis] != 1)
            return tenon_nif_badarg(env, "squeeze", "axes", "a list that names axes of size 1, each once");
        gone[axis] = true;
    }
    tenon_tensor *current = tensor, *next;
    for (int32_t axis = ndim - 1; axis >= 0; axis--) {
        if (!gone[axis])
            continue;
        if (tenon_tensor_squeeze(current, axis, &next, &err)) {
            replace(tensor, &current, NULL);
            return tenon_nif_core_error(env, &err, "squeeze", "axes");
        }
        replace(tensor, &current, next);
    }
    *out = current == tensor ? tenon_tensor_retain(tensor) : current;
    return tenon_nif_atoms.ok;
}

TENON_NIF(squeeze)
{
    (void)argc;
    return make_view(env, argv, "squeeze", squeeze);
}

static ERL_NIF_TERM new_axis(ErlNifEnv *env, tenon_tensor *tensor, const ERL_NIF_TERM argv[], tenon_tensor **out)
{
    ErlNifSInt64 axis;
    tenon_error err;
    if (!enif_get_int64(env, argv[1], &axis))
        return tenon_nif_badarg(env, "new_axis", "axis", "an integer");
    int32_t ndim = tenon_tensor_view(tensor)->ndim;
    if (axis < -ndim - 1 || axis > ndim)
        return tenon_nif_badarg(env, "new_axis", "axis",
                                "an axis from 0 to the number of axes, or a negative one that counts from the end");
    return checked(env, tenon_tensor_expand_dims(tensor, axis, out, &err), &err, "new_axis", "axis");
}

TENON_NIF(new_axis)
{
    (void)argc;
    return make_view(env, argv, "new_axis", new_axis);
}
