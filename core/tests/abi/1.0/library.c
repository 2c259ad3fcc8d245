/* A library of version 1.0 of the ABI: it sees only the header beside it, and every later host must load and call it. */
#include "function.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- tensors */

static tenon_status saxpy(tenon_call *call)
{
    float a = (float)tenon_arg_double(call, 0);
    const float *x = tenon_data(call, 1, float);
    const float *y = tenon_data(call, 2, float);
    float *z = tenon_result_data(call, 0, float);
    int64_t n = tenon_dim(call, 0);
    int64_t i;
    for (i = 0; i < n; i++)
        z[i] = a * x[i] + y[i];
    return TENON_OK;
}

/* Any strides, and a written argument that may be left out. */
static tenon_status row_sums(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    float *count = tenon_rw_data(call, 1, float);
    const tenon_view *sums = tenon_result(call, 0);
    int64_t n = tenon_dim(call, 0), k = tenon_dim(call, 1), i, j;
    if (!x || !sums)
        return TENON_EFAILED;
    for (i = 0; i < n; i++) {
        double sum = 0;
        for (j = 0; j < k; j++)
            sum += tenon_at(x, const float, i, j);
        tenon_at(sums, double, i) = sum;
    }
    if (tenon_has_arg(call, 1))
        *count = (float)k;
    return TENON_OK;
}

/* Those above 0: only the function knows how many. */
static tenon_status positive(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    int64_t n = tenon_dim(call, 0), i, count = 0;
    float *kept = (float *)tenon_scratch(call, (size_t)(n > 0 ? n : 1) * sizeof(float));
    if (!kept)
        return TENON_ENOMEM;
    for (i = 0; i < n && !tenon_cancelled(call); i++)
        if (x[i] > 0)
            kept[count++] = x[i];
    if (!tenon_result_alloc(call, 0, 1, &count))
        return TENON_ENOMEM;
    if (count)
        memcpy(tenon_result_data(call, 0, float), kept, (size_t)count * sizeof(float));
    return TENON_OK;
}

static tenon_status item_bits(tenon_call *call)
{
    tenon_return_int(call, 0, tenon_type(call, 0).bits);
    tenon_return_bool(call, 1, tenon_stream(call) == NULL);
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------------------- all other kinds */

static tenon_status describe(tenon_call *call)
{
    static const char *const modes[] = {"mean", "sum"};
    char text[256];
    size_t length = 0;
    int64_t nints = 0, nfloats = 0;
    const char *name = tenon_arg_str(call, 2, &length);
    const int64_t *ints = tenon_arg_ints(call, 4, &nints);
    const double *floats = tenon_arg_floats(call, 5, &nfloats);
    int used = snprintf(text, sizeof text, "%d %d %.*s(%d) %s %d:%d %d:%g", (int)tenon_arg_int(call, 0),
                        (int)tenon_arg_bool(call, 1), name ? (int)length : 1, name ? name : "-", (int)length,
                        modes[tenon_arg_enum(call, 3)], (int)nints, nints ? (int)ints[nints - 1] : 0, (int)nfloats,
                        nfloats ? floats[nfloats - 1] : 0.0);
    tenon_return_str(call, 0, text, (size_t)used);
    return TENON_OK;
}

static tenon_status half(tenon_call *call)
{
    int64_t n = tenon_arg_int(call, 0);
    if (n % 2)
        return tenon_fail(call, TENON_EINVAL, "%d is odd", (int)n);
    tenon_return_double(call, 0, (double)n / 2);
    return TENON_OK;
}

/* --------------------------------------------------------------------------------------------------- what is shared */

typedef struct counter {
    int64_t value;
} counter;

static tenon_status counter_new(tenon_call *call)
{
    counter *made = (counter *)malloc(sizeof *made);
    if (!made)
        return tenon_fail(call, TENON_ENOMEM, "no memory");
    made->value = tenon_arg_int(call, 0);
    if (tenon_return_handle(call, 0, made, free) != TENON_OK) {
        free(made);
        return TENON_EFAILED;
    }
    return TENON_OK;
}

static tenon_status counter_next(tenon_call *call)
{
    counter *self = (counter *)tenon_arg_handle(call, 0);
    int64_t *calls = (int64_t *)call->state;
    if (!self)
        return TENON_EFAILED;
    ++*calls;
    tenon_return_int(call, 0, self->value++);
    tenon_return_int(call, 1, *calls);
    return TENON_OK;
}

/* ---------------------------------------------------------------------------------------------------------- classes */

/* Rows that it shares with the caller. */
typedef struct table {
    tenon_kept *rows;
    double scale;
} table;

static void table_free(void *object)
{
    tenon_kept_release(((table *)object)->rows);
    free(object);
}

static tenon_status table_new(tenon_call *call)
{
    table *made = (table *)calloc(1, sizeof *made);
    if (!made)
        return tenon_fail(call, TENON_ENOMEM, "no memory");
    made->rows = tenon_arg_keep(call, tenon_index(call, "rows"));
    made->scale = tenon_arg_double(call, tenon_index(call, "scale"));
    if (!made->rows || tenon_return_handle(call, 0, made, table_free) != TENON_OK) {
        table_free(made);
        return TENON_EFAILED;
    }
    return TENON_OK;
}

static tenon_status table_row(tenon_call *call)
{
    table *self = (table *)tenon_arg_handle(call, 0);
    int64_t i = tenon_arg_int(call, 1);
    const tenon_view *rows = self ? self->rows->view : NULL;
    if (!rows)
        return TENON_EFAILED;
    if (i < 0 || i >= rows->shape[0])
        return tenon_fail(call, TENON_EBOUNDS, "there is no row %d", (int)i);
    return tenon_result_of(call, 0, (float *)rows->data + i * rows->shape[1], 1, &rows->shape[1], NULL);
}

static tenon_status table_length(tenon_call *call)
{
    table *self = (table *)tenon_arg_handle(call, 0);
    tenon_return_int(call, 0, self ? self->rows->view->shape[0] : 0);
    return TENON_OK;
}

static tenon_status table_text(tenon_call *call)
{
    table *self = (table *)tenon_arg_handle(call, 0);
    char text[64];
    int used = snprintf(text, sizeof text, "Table of %d rows", self ? (int)self->rows->view->shape[0] : 0);
    tenon_return_str(call, 0, text, (size_t)used);
    return TENON_OK;
}

/* Adds x to the rows' sums, and those of another table. */
static tenon_status table_sums(tenon_call *call)
{
    table *tables[2];
    const float *x = tenon_data(call, tenon_index(call, "x"), float);
    float *sums = tenon_result_data(call, tenon_result_index(call, "sums"), float);
    int64_t d = tenon_dim_named(call, "d"), i, j;
    double total = 0;
    int k;
    tables[0] = (table *)tenon_arg_handle(call, 0);
    tables[1] = (table *)tenon_arg_handle(call, 2);
    for (j = 0; j < d; j++)
        sums[j] = x[j];
    for (k = 0; k < 2 && d; k++) {
        const tenon_view *rows = tables[k] ? tables[k]->rows->view : NULL;
        if (rows && rows->shape[1] != d)
            return tenon_fail(call, TENON_ESHAPE, "the tables have different widths");
        for (i = 0; rows && i < rows->shape[0]; i++)
            for (j = 0; j < d; j++)
                sums[j] += (float)tables[k]->scale * ((const float *)rows->data)[i * d + j];
    }
    for (j = 0; j < d; j++)
        total += sums[j];
    tenon_return_double(call, tenon_result_index(call, "total"), total);
    return TENON_OK;
}

static tenon_status tally_new(tenon_call *call)
{
    int64_t *made = (int64_t *)malloc(sizeof *made);
    if (!made)
        return tenon_fail(call, TENON_ENOMEM, "no memory");
    *made = tenon_arg_int(call, 0);
    if (tenon_return_handle(call, 0, made, free) != TENON_OK) {
        free(made);
        return TENON_EFAILED;
    }
    return TENON_OK;
}

static tenon_status tally_value(tenon_call *call)
{
    const int64_t *self = (const int64_t *)tenon_arg_handle(call, 0);
    tenon_return_int(call, 0, self ? *self : 0);
    return TENON_OK;
}

/* ----------------------------------------------------------------------------------------------------------- memory */

static tenon_status ramp(tenon_call *call)
{
    int64_t n = tenon_dim_named(call, "n"), i;
    float *made = (float *)malloc(((size_t)n + 1) * sizeof *made);
    if (!made)
        return tenon_fail(call, TENON_ENOMEM, "no memory");
    for (i = 0; i < n; i++)
        made[i] = (float)i;
    if (tenon_result_own(call, 0, made, 1, &n, NULL, made, free) != TENON_OK) {
        free(made);
        return TENON_EFAILED;
    }
    return TENON_OK;
}

/* Backwards, and only the function knows how many. */
static tenon_status reversed(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    int64_t n = tenon_dim(call, 0), stride = -1;
    if (!x)
        return TENON_EFAILED;
    return tenon_result_of(call, 0, (float *)x->data + (n > 0 ? n - 1 : 0), 1, &n, &stride);
}

static tenon_status bits_by_name(tenon_call *call)
{
    tenon_return_int(call, 0, tenon_type_named(call, "T").bits);
    return TENON_OK;
}

static tenon_status add_part(void *context, int64_t begin, int64_t end)
{
    for (; begin < end; begin++)
        *(int64_t *)context += begin;
    return TENON_OK;
}

static tenon_status sum_to(tenon_call *call)
{
    int64_t sum = 0;
    tenon_status status = tenon_parallel_for(call, tenon_arg_int(call, 0), INT64_MAX, add_part, &sum);
    tenon_return_int(call, 0, sum);
    return status;
}

/* Each tensor, twice. */
static tenon_status doubled(tenon_call *call)
{
    int64_t count, k;
    const tenon_view *from = tenon_arg_tensors(call, 0, NULL), *to = tenon_result_tensors(call, 0, &count);
    for (int64_t i = 0; i < count; i++)
        for (k = 0; k < to[i].numel; k++)
            ((float *)to[i].data)[k] = 2 * ((const float *)from[i].data)[k];
    return TENON_OK;
}

static tenon_status units(tenon_call *call)
{
    int64_t one = 1;
    for (int64_t i = 0; i < tenon_arg_int(call, 0); i++) {
        const tenon_view *unit = tenon_result_push(call, 0, 1, &one);
        if (!unit)
            return TENON_EFAILED;
        *(float *)unit->data = (float)i;
    }
    return TENON_OK;
}

static tenon_status load(tenon_call *call, void **state)
{
    *state = calloc(1, sizeof(int64_t));
    return *state ? TENON_OK : tenon_fail(call, TENON_ENOMEM, "no memory");
}

#undef TENON_MODULE_VERSION
#define TENON_MODULE_VERSION "1.0"

TENON_MODULE_STATE(
    abi_1_0, "A library of the first release.", load, free,
    TENON_FUNCTION("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."),
    TENON_FUNCTION("row_sums(x: f32[n, k], count: f32[]? rw) -> f64[n]", row_sums, "The sum of each row."),
    TENON_FUNCTION_FLAGS("positive(x: f32[n] c) -> f32[?]", positive, "Those above 0.", TENON_RELEASE_LOCK),
    TENON_FUNCTION("item_bits(x: T[*b]) -> bits: int, on_cpu: bool where T = any", item_bits, "Of an element."),
    TENON_FUNCTION_FLAGS("describe(a: int, b: bool = True, name: str? = None, mode: 'mean'|'sum' = 'sum', "
                         "ints: ints = (1, 2), floats: floats[2]? = None) -> str",
                         describe, NULL, TENON_KEEP_LOCK),
    TENON_FUNCTION("half(n: int) -> float", half, "Fails for odd numbers."),
    TENON_FUNCTION("counter_new(start: int = 0) -> handle('Counter')", counter_new, "A counter."),
    TENON_FUNCTION("counter_next(counter: handle('Counter')) -> value: int, calls: int", counter_next,
                   "Its value, and how often any counter of this load was asked."),
    TENON_CLASS("Table", "Rows that it shares with the caller."),
             TENON_FUNCTION("Table(rows: f32[n, d] c keep, scale: float = 1)", table_new, "Keeps the rows."),
             TENON_FUNCTION("Table.row(self, i: int) -> f32[?] of(self)", table_row, "One row, without a copy."),
             TENON_FUNCTION("Table.sums(self, x: f32[d] c, other: handle('Table')? = None) -> sums: f32[d], "
                            "total: float",
                            table_sums, "The sum of each column, and of all."),
             TENON_FUNCTION("Table.__getitem__(self, i: int) -> f32[?] of(self)", table_row, NULL),
             TENON_FUNCTION("Table.__len__(self) -> int", table_length, NULL),
             TENON_FUNCTION("Table.__repr__(self) -> str", table_text, NULL),
             TENON_CLASS_FLAGS("Tally", NULL, TENON_CLASS_CONCURRENT),
             TENON_FUNCTION("Tally(start: int = 0)", tally_new, NULL),
             TENON_FUNCTION("Tally.value(self) -> int", tally_value, NULL),
             TENON_FUNCTION("ramp(n: int) -> f32[n] own", ramp, "0, 1, 2, ..."),
             TENON_FUNCTION("reversed(x: f32[n] c) -> f32[?] of(x)", reversed, "x backwards, without a copy."),
             TENON_FUNCTION("bits_by_name(x: T[*b]) -> int where T = any", bits_by_name, "Of an element."),
             TENON_FUNCTION("sum_to(n: int) -> int", sum_to, "0 + 1 + ... + (n - 1)."),
             TENON_FUNCTION("doubled(xs: [f32[_] c]) -> [f32[_]] for xs", doubled, "Each, twice."),
             TENON_FUNCTION("units(n: int) -> [f32[?]]", units, "n tensors with one element."))
