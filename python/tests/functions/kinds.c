/* Functions for test_function_kinds.py: each kind of value in and out. */
#include <tenon/function.h>

#include <string.h>

static tenon_status uint_(tenon_call *call)
{
    return tenon_return_uint(call, 0, tenon_arg_uint(call, 0));
}

static tenon_status complex_(tenon_call *call)
{
    double parts[2];
    tenon_arg_complex(call, 0, parts);
    return tenon_return_complex(call, 0, parts[0], parts[1]);
}

static tenon_status choice(tenon_call *call)
{
    return tenon_return_int(call, 0, tenon_has_arg(call, 0) ? tenon_arg_int(call, 0) : -100);
}

/* code * 1000000 + bits * 1000 + lanes */
static tenon_status dtype_(tenon_call *call)
{
    tenon_dtype dtype = tenon_has_arg(call, 0) ? tenon_arg_dtype(call, 0) : tenon_dtype_of(0, 0, 0);
    return tenon_return_int(call, 0, dtype.code * 1000000 + dtype.bits * 1000 + dtype.lanes);
}

static tenon_status zeros(tenon_call *call)
{
    const tenon_view *result = tenon_result(call, 0);
    memset(result->data, 0, (size_t)result->numel * result->dtype.bits / 8);
    return TENON_OK;
}

static tenon_status ones(tenon_call *call)
{
    float *out = tenon_result_data(call, 0, float);
    for (int64_t i = 0; out && i < tenon_result(call, 0)->numel; i++)
        out[i] = 1;
    return TENON_OK;
}

static tenon_status bytes_(tenon_call *call)
{
    size_t length;
    const void *data = tenon_arg_bytes(call, 0, &length);
    return tenon_has_arg(call, 0) ? tenon_return_bytes(call, 0, data, length) : TENON_OK;
}

static tenon_status address(tenon_call *call)
{
    return tenon_return_uint(call, 0, (uint64_t)(uintptr_t)tenon_arg_bytes(call, 0, NULL));
}

static tenon_status xored(tenon_call *call)
{
    size_t length;
    const unsigned char *data = (const unsigned char *)tenon_arg_bytes(call, 0, &length);
    int64_t all = 0;
    for (size_t i = 0; i < length; i++)
        all ^= data[i];
    return tenon_return_int(call, 0, all);
}

static tenon_status twice(tenon_call *call)
{
    tenon_return_bytes(call, 0, "first", 5);
    return tenon_return_bytes(call, 0, "second", 6);
}

static tenon_status fails(tenon_call *call)
{
    tenon_return_bytes(call, 0, "lost", 4);
    return tenon_fail(call, TENON_EINVAL, "after the bytes");
}

static tenon_status huge(tenon_call *call)
{
    return tenon_return_bytes(call, 0, "", (size_t)PTRDIFF_MAX - 100);
}

static tenon_status str_(tenon_call *call)
{
    size_t length;
    const char *text = tenon_arg_str(call, 0, &length);
    return tenon_return_str(call, 0, text, length);
}

static tenon_status strs_(tenon_call *call)
{
    int64_t length;
    const tenon_text *texts = tenon_arg_strs(call, 0, &length);
    tenon_return_int(call, 1, length);
    return tenon_return_strs(call, 0, texts, length);
}

static tenon_status ints_(tenon_call *call)
{
    int64_t length;
    const int64_t *numbers = tenon_arg_ints(call, 0, &length);
    return tenon_return_ints(call, 0, numbers, length);
}

static tenon_status floats_(tenon_call *call)
{
    int64_t length;
    const double *numbers = tenon_arg_floats(call, 0, &length);
    return tenon_return_floats(call, 0, numbers, length);
}

static tenon_status nothing(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

static tenon_status not_utf8(tenon_call *call)
{
    tenon_text bad = {"\xff", 1};
    return tenon_return_strs(call, 0, &bad, 1);
}

/* What an argument of bytes shows while the function writes to another one. */
static tenon_status overwrite(tenon_call *call)
{
    uint8_t *x = tenon_rw_data(call, 0, uint8_t);
    const uint8_t *data = (const uint8_t *)tenon_arg_bytes(call, 1, NULL);
    x[0]++;
    return tenon_return_int(call, 0, data[0]);
}

#define UNLOCKED(signature, function) TENON_FUNCTION_FLAGS(signature, function, "", TENON_RELEASE_LOCK)

static tenon_status zeros_of(tenon_call *call)
{
    memset(tenon_result_data(call, 0, uint8_t), 0, (size_t)tenon_dim(call, 0));
    return TENON_OK;
}

TENON_MODULE(kinds, "Every kind of value.", TENON_FUNCTION("uint_(a: uint = 18446744073709551615) -> uint", uint_, ""),
             TENON_FUNCTION("complex_(a: complex = 1+2j) -> complex", complex_, ""),
             TENON_FUNCTION("choice(k: 1|2|-4? = 2) -> int", choice, ""),
             TENON_FUNCTION("dtype_(t: dtype? = 'f32') -> int", dtype_, ""),
             TENON_FUNCTION("zeros(n: int, t: dtype(T) = 'f32') -> T[n] where T = f32|f64|i8", zeros, ""),
             TENON_FUNCTION("zeros_like(x: T[n], t: dtype(U)) -> U[n] where T = any, U = f32|f64", zeros, ""),
             TENON_FUNCTION("same(x: T[n], t: dtype(T)) -> T[n] where T = f32|f64", zeros, ""),
             TENON_FUNCTION("ones(k: 2|4) -> f32[k]", ones, ""),
             TENON_FUNCTION("bytes_(data: bytes?) -> bytes?", bytes_, ""),
             UNLOCKED("bytes_unlocked(data: bytes?) -> bytes?", bytes_),
             TENON_FUNCTION("address(data: bytes) -> uint", address, ""), UNLOCKED("xored(data: bytes) -> int", xored),
             TENON_FUNCTION("twice() -> bytes", twice, ""), TENON_FUNCTION("fails() -> bytes", fails, ""),
             UNLOCKED("huge() -> bytes", huge), TENON_FUNCTION("str_(path: str) -> str", str_, ""),
             TENON_FUNCTION("strs_(names: strs = ('a', 'b')) -> names: strs, count: int", strs_, ""),
             TENON_FUNCTION("ints_(k: ints) -> ints", ints_, ""),
             TENON_FUNCTION("ints_3(k: ints) -> ints[3]", ints_, ""),
             TENON_FUNCTION("floats_(k: floats) -> floats", floats_, ""),
             TENON_FUNCTION("none_set() -> uint?, complex?, bytes?, strs?, ints?, floats?", nothing, ""),
             TENON_FUNCTION("unset() -> bytes", nothing, ""), TENON_FUNCTION("not_utf8() -> strs", not_utf8, ""),
             TENON_FUNCTION("overwrite(x: u8[n] rw, data: bytes) -> int", overwrite, ""),
             TENON_FUNCTION("overwrite_alias(x: u8[n] rw alias, data: bytes) -> int", overwrite, ""),
             TENON_FUNCTION("overwrite_all(xs: [u8[_] rw], data: bytes)", nothing, ""),
             TENON_FUNCTION("into(data: bytes, n: int) -> u8[n]", zeros_of, ""))
