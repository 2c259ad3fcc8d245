#include "nif.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Longer lists take at least 8 GiB, and making them cannot be interrupted. */
#define MOST_CELLS ((int64_t)1 << 28)

static ERL_NIF_TERM no_terms(ErlNifEnv *env, ERL_NIF_TERM type, const char *function, const char *argument)
{
    return tenon_nif_error(env, enif_make_tuple2(env, tenon_nif_atoms.unsupported_type, type), function, argument,
                           "%s(): argument '%s': Elixir has no numbers of this type; use from_binary and to_binary",
                           function, argument);
}

/* ------------------------------------------------------------------------------------------------------- from_list */

/* The kinds of numbers in a list. Without a given type it gets one that holds all of them, as in Nx. */
enum { HAS_BOOL = 1, HAS_INTEGER = 2, HAS_FLOAT = 4, HAS_COMPLEX = 8 };

typedef struct reader {
    ErlNifEnv *env;
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    tenon_dtype dtype;
    char *start; /* the place of the first element; NULL while only the kinds are collected */
    char *data;  /* the place of the next one */
    unsigned kinds;
    ERL_NIF_TERM error; /* 0: none */
} reader;

static bool fail(reader *r, ERL_NIF_TERM error)
{
    r->error = error;
    return false;
}

static bool note_kind(reader *r, ERL_NIF_TERM term)
{
    double unused;
    if (enif_is_identical(term, tenon_nif_atoms.yes) || enif_is_identical(term, tenon_nif_atoms.no))
        r->kinds |= HAS_BOOL;
    else if (enif_is_tuple(r->env, term))
        r->kinds |= HAS_COMPLEX;
    else if (enif_is_atom(r->env, term) || enif_get_double(r->env, term, &unused))
        r->kinds |= HAS_FLOAT;
    else
        r->kinds |= HAS_INTEGER;
    return true;
}

/* Integers of more than 64 bits are not written out: that takes time that grows with the square of their size. */
static void show_element(ErlNifEnv *env, ERL_NIF_TERM term, char *buffer, size_t size)
{
    ErlNifSInt64 integer;
    ErlNifUInt64 natural;
    double number;
    if (enif_get_int64(env, term, &integer) || enif_get_uint64(env, term, &natural))
        enif_snprintf(buffer, size, "%T", term);
    else if (enif_get_double(env, term, &number))
        snprintf(buffer, size, "%.15g", number);
    else if (enif_is_number(env, term))
        enif_snprintf(buffer, size, "an integer of more than 64 bits");
    else
        tenon_nif_describe(env, term, buffer, size);
}

/* The place of the next element, such as "[0][12]". */
static void show_place(const reader *r, char *buffer, size_t size)
{
    int64_t number = (r->data - r->start) / (r->dtype.bits / 8), index[TENON_MAX_NDIM];
    size_t used = 0;
    buffer[0] = '\0';
    for (int32_t dim = r->ndim - 1; dim >= 0; dim--) {
        index[dim] = number % r->shape[dim];
        number /= r->shape[dim];
    }
    for (int32_t dim = 0; dim < r->ndim && used < size; dim++)
        used += (size_t)snprintf(buffer + used, size - used, "[%" PRId64 "]", index[dim]);
}

static bool bad_element(reader *r, ERL_NIF_TERM term)
{
    char type[32], shown[300], place[500], why[200];
    bool is_signed = r->dtype.code == TENON_CODE_INT, is_unsigned = r->dtype.code == TENON_CODE_UINT;
    uint64_t all = UINT64_MAX >> (64 - r->dtype.bits % 64) % 64;
    tenon_nif_type_name(r->dtype, type, sizeof type);
    show_element(r->env, term, shown, sizeof shown);
    show_place(r, place, sizeof place);
    if ((is_signed || is_unsigned) && enif_term_type(r->env, term) == ERL_NIF_TERM_TYPE_INTEGER)
        snprintf(why, sizeof why, "out of the range of %s, %" PRId64 " to %" PRIu64, type,
                 is_signed ? -(int64_t)(all / 2) - 1 : 0, is_signed ? all / 2 : all);
    else
        snprintf(why, sizeof why, "not a value of type %s, or is out of its range", type);
    ERL_NIF_TERM reason = enif_make_tuple2(r->env, tenon_nif_atoms.badarg, enif_make_atom(r->env, "list"));
    return fail(r, tenon_nif_error(r->env, reason, "from_list", "list", "from_list(): argument 'list': %s%s%s%s is %s",
                                   *place ? "element " : "", place, *place ? ": " : "", shown, why));
}

static bool read_element(reader *r, ERL_NIF_TERM term)
{
    if (!r->start)
        return note_kind(r, term);
    if (!tenon_nif_get_element(r->env, term, r->dtype, r->data))
        return bad_element(r, term);
    r->data += r->dtype.bits / 8;
    return true;
}

static bool read_level(reader *r, ERL_NIF_TERM term, int32_t dim)
{
    if (dim == r->ndim)
        return read_element(r, term);
    ERL_NIF_TERM head;
    int64_t count = 0;
    while (count < r->shape[dim] && enif_get_list_cell(r->env, term, &head, &term)) {
        if (!read_level(r, head, dim + 1))
            return false;
        count++;
    }
    if (count == r->shape[dim] && enif_is_empty_list(r->env, term))
        return true;
    return fail(r, tenon_nif_badarg(r->env, "from_list", "list", "lists that are equally long at each level"));
}

/* Depth and lengths are those of the first elements; read_level checks the others. */
static bool find_shape(reader *r, ERL_NIF_TERM term)
{
    while (enif_is_list(r->env, term)) {
        unsigned length;
        if (r->ndim == TENON_MAX_NDIM || !enif_get_list_length(r->env, term, &length))
            return fail(r, tenon_nif_badarg(r->env, "from_list", "list", "proper lists, at most 64 levels"));
        r->shape[r->ndim++] = length;
        ERL_NIF_TERM tail;
        if (!enif_get_list_cell(r->env, term, &term, &tail))
            break;
    }
    return true;
}

static tenon_dtype type_for(unsigned kinds)
{
    if (kinds & HAS_COMPLEX)
        return TENON_C64;
    if (kinds & HAS_FLOAT || kinds == 0)
        return TENON_F32;
    return kinds & HAS_INTEGER ? TENON_I64 : TENON_BOOL;
}

static ERL_NIF_TERM from_list(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    const char *function = "from_list";
    reader r = {.env = env};
    bool has_type = !enif_is_identical(argv[1], tenon_nif_atoms.nil);
    if (has_type && !tenon_nif_get_type(env, argv[1], &r.dtype))
        return tenon_nif_bad_type(env, argv[1], function, "type");
    if (has_type && !tenon_nif_type_has_terms(r.dtype))
        return no_terms(env, argv[1], function, "type");
    if (!find_shape(&r, argv[0]))
        return r.error;
    if (!has_type) {
        if (!read_level(&r, argv[0], 0))
            return r.error;
        r.dtype = type_for(r.kinds);
    }
    tenon_tensor *tensor;
    tenon_error err;
    if (tenon_nif_alloc(r.dtype, r.ndim, r.shape, 0, &tensor, &err))
        return tenon_nif_core_error(env, &err, function, "list");
    r.start = r.data = tenon_tensor_view(tensor)->data;
    if (!read_level(&r, argv[0], 0)) {
        tenon_tensor_release(tensor);
        return r.error;
    }
    uint64_t bytes = (uint64_t)tenon_view_nbytes(tenon_tensor_view(tensor));
    ERL_NIF_TERM term = tenon_nif_make_owned(env, tensor, function);
    return enif_is_map(env, term) ? tenon_nif_charged(env, tenon_nif_ok(env, term), bytes) : term;
}

/* Estimate the number of elements of nested lists without walking all of them. Above TENON_NIF_DIRTY_ELEMENTS the
 * result only means that there are more. */
static int64_t estimate_elements(ErlNifEnv *env, ERL_NIF_TERM list)
{
    int64_t product = 1;
    ERL_NIF_TERM head, tail;
    for (int level = 0; level < TENON_MAX_NDIM && enif_get_list_cell(env, list, &head, &tail); level++) {
        int64_t length = 1;
        ERL_NIF_TERM unused;
        while (length <= TENON_NIF_DIRTY_ELEMENTS && enif_get_list_cell(env, tail, &unused, &tail))
            length++;
        product *= length;
        if (product > TENON_NIF_DIRTY_ELEMENTS)
            break;
        list = head;
    }
    return product;
}

TENON_NIF(from_list)
{
    int64_t elements = estimate_elements(env, argv[0]);
    if (elements > TENON_NIF_DIRTY_ELEMENTS)
        return tenon_nif_dirty(env, "from_list", from_list, argc, argv);
    tenon_nif_report(env, (uint64_t)elements / TENON_NIF_ELEMENTS_PER_MICROSECOND);
    return from_list(env, argc, argv);
}

/* --------------------------------------------------------------------------------------------------------- to_list */

/* The number of list cells to make, at most `limit`. Lists of empty lists have cells but no elements. */
static int64_t count_cells(const tenon_view *view, int64_t limit)
{
    int64_t cells = 1;
    for (int32_t i = 0; i < view->ndim && view->shape[i]; i++) {
        if (__builtin_mul_overflow(cells, view->shape[i], &cells) || cells > limit)
            return limit;
    }
    return cells;
}

static ERL_NIF_TERM list_level(ErlNifEnv *env, const tenon_view *view, int32_t dim, const char *data)
{
    if (dim == view->ndim)
        return tenon_nif_make_element(env, view->dtype, data);
    /* The stride of a dimension of size 1 means nothing, and may be any number. */
    int64_t step = view->shape[dim] > 1 ? view->strides[dim] * (view->dtype.bits / 8) : 0;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (int64_t i = view->shape[dim] - 1; i >= 0; i--)
        list = enif_make_list_cell(env, list_level(env, view, dim + 1, data + i * step), list);
    return list;
}

static ERL_NIF_TERM list_pinned(ErlNifEnv *env, tenon_nif_tensor *tensor)
{
    const tenon_view *view = tenon_tensor_view(tensor->tensor);
    tenon_nif_access access = tenon_nif_read_begin(tensor->storage);
    if (access != TENON_NIF_GRANTED)
        return tenon_nif_access_error(env, access, "to_list", "tensor");
    ERL_NIF_TERM list = list_level(env, view, 0, view->data);
    tenon_nif_read_end(tensor->storage);
    return tenon_nif_ok(env, list);
}

static ERL_NIF_TERM to_list(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    ERL_NIF_TERM result;
    tenon_nif_tensor *tensor = tenon_nif_tensor_pin(env, argv[0], "to_list", "tensor", &result);
    if (!tensor)
        return result;
    result = list_pinned(env, tensor);
    tenon_nif_tensor_unpin(tensor);
    return result;
}

TENON_NIF(to_list)
{
    ERL_NIF_TERM result;
    tenon_nif_tensor *tensor = tenon_nif_tensor_pin(env, argv[0], "to_list", "tensor", &result);
    if (!tensor)
        return result;
    const tenon_view *view = tenon_tensor_view(tensor->tensor);
    if (!tenon_device_on_host(view->device)) {
        ERL_NIF_TERM device = tenon_nif_make_device(env, view->device);
        result =
            tenon_nif_error(env, enif_make_tuple3(env, tenon_nif_atoms.device_mismatch, tenon_nif_atoms.cpu, device),
                            "to_list", "tensor", "to_list(): argument 'tensor' is in memory that the CPU cannot read");
    } else if (!tenon_nif_type_has_terms(view->dtype)) {
        result = no_terms(env, tenon_nif_make_type(env, view->dtype), "to_list", "tensor");
    } else if (count_cells(view, MOST_CELLS) == MOST_CELLS) {
        result = tenon_nif_error(env, tenon_nif_failed(env, TENON_ENOMEM), "to_list", "tensor",
                                 "to_list(): no memory for lists of 2^28 elements or more");
    } else if (count_cells(view, MOST_CELLS) > TENON_NIF_DIRTY_ELEMENTS) {
        result = tenon_nif_dirty(env, "to_list", to_list, argc, argv);
    } else {
        tenon_nif_report(env, (uint64_t)count_cells(view, MOST_CELLS) / TENON_NIF_ELEMENTS_PER_MICROSECOND);
        result = list_pinned(env, tensor);
    }
    tenon_nif_tensor_unpin(tensor);
    return result;
}
