/* What the folder gives to the others: numbers, text and errors, dtypes and layout, tensors, memory, debug mode. */
#ifndef TENON_TENSOR_INTERNAL_H
#define TENON_TENSOR_INTERNAL_H

#include "../system/internal.h"

#include <stdarg.h>
#include <stdatomic.h>

_Static_assert(sizeof(void *) == 8 && sizeof(tenon_view) == 64, "Tenon's ABI is for 64-bit machines");

/* -------------------------------------------------------------------------------------------------------- numbers */

#ifdef __GNUC__
#define tenon__add_overflows(a, b, out) __builtin_add_overflow(a, b, out)
#define tenon__sub_overflows(a, b, out) __builtin_sub_overflow(a, b, out)
#define tenon__mul_overflows(a, b, out) __builtin_mul_overflow(a, b, out)
/* For the validation of views, which every borrow runs: failures are rare there. */
#define tenon__unlikely(condition) __builtin_expect(!!(condition), 0)
#define tenon__lowest_bit(number)  __builtin_ctzll(number)
/* For what is rare: inlined, it would take registers from the usual path, or call the memory functions itself. */
#define tenon__noinline __attribute__((__noinline__))
#else
/* The type of `out` decides: it is int64_t, or an unsigned type of 64 bits. */
#define tenon__add_overflows(a, b, out)                                                                                \
    _Generic(*(out), int64_t : tenon__add_signed, default : tenon__add_unsigned)(a, b, (void *)(out))
#define tenon__sub_overflows(a, b, out) tenon__sub_signed(a, b, out)
#define tenon__mul_overflows(a, b, out) tenon__mul_signed(a, b, out)
#define tenon__unlikely(condition)      (condition)
#define tenon__noinline

static inline bool tenon__add_signed(int64_t a, int64_t b, void *out)
{
    *(int64_t *)out = (int64_t)((uint64_t)a + (uint64_t)b);
    return b >= 0 ? a > INT64_MAX - b : a < INT64_MIN - b;
}

static inline bool tenon__add_unsigned(uint64_t a, uint64_t b, void *out)
{
    *(uint64_t *)out = a + b;
    return a > UINT64_MAX - b;
}

static inline bool tenon__sub_signed(int64_t a, int64_t b, int64_t *out)
{
    *out = (int64_t)((uint64_t)a - (uint64_t)b);
    return b >= 0 ? a < INT64_MIN + b : a > INT64_MAX + b;
}

static inline bool tenon__mul_signed(int64_t a, int64_t b, int64_t *out)
{
    *out = (int64_t)((uint64_t)a * (uint64_t)b);
    if (a == 0 || b == 0)
        return false;
    if (a > 0)
        return b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a;
    return b > 0 ? a < INT64_MIN / b : b < INT64_MAX / a;
}

static inline int tenon__lowest_bit(uint64_t number)
{
    int bit = 0;
    while (!(number >> bit & 1))
        bit++;
    return bit;
}
#endif

/* A product that may wrap, for strides that are never used. */
static inline int64_t tenon__mul_wrapping(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* ----------------------------------------------------------------------------------------------------------- text */

/* The length of text[0..length) without an incomplete UTF-8 character at its end. */
size_t tenon__whole_characters(const char *text, size_t length);
/* Replace the end of a string that filled its buffer with "...", without splitting a character. */
void tenon__truncate(char *text, size_t size);
/* Let the message of a failure begin with the name of this function instead of the one that it called. Returns `status`. */
tenon_status tenon__error_rename(tenon_error *err, tenon_status status, const char *function);

/* A string that grows in a fixed buffer. `length` keeps counting after the buffer is full. */
typedef struct tenon__text {
    char *buffer;
    size_t size;
    size_t length;
} tenon__text;

void tenon__text_add(tenon__text *text, const char *format, ...) TENON_PRINTF(2, 3);
void tenon__text_add_va(tenon__text *text, const char *format, va_list arguments) TENON_PRINTF(2, 0);
void tenon__text_add_list(tenon__text *text, int32_t count, const int64_t *values);
void tenon__text_add_dtype(tenon__text *text, tenon_dtype dtype);
void tenon__text_add_device(tenon__text *text, tenon_device device);

/* A dtype with its shape, or a similar phrase, for use in a message. Longer ones are truncated. */
typedef struct tenon__phrase {
    char text[320];
} tenon__phrase;

/* "f32[2, 3]" */
tenon__phrase tenon__type_phrase(tenon_dtype dtype, int32_t ndim, const int64_t *shape);
tenon__phrase tenon__list_phrase(int32_t count, const int64_t *values);
tenon__phrase tenon__dtype_phrase(tenon_dtype dtype);
tenon__phrase tenon__device_phrase(tenon_device device);

/* -------------------------------------------------------------------------------------------------- dtypes, layout */

/* tenon_dtype_known, inline. */
static inline bool tenon__dtype_known(tenon_dtype dtype)
{
    /* Bit k of sizes[c]: code c may have 2^k bits. Only the float6 dtypes have a size that is not a power of two. */
    enum { SUBBYTE = 0x07, BYTES = 0xf8, ONLY4 = 0x04, ONLY8 = 0x08, ONLY16 = 0x10 };
    static const uint8_t sizes[TENON_CODE_F4_E2M1FN + 1] = {
        SUBBYTE | BYTES, SUBBYTE | BYTES, BYTES & ~ONLY8, BYTES, ONLY16, 0xe0,  ONLY8, ONLY8, ONLY8,
        ONLY8,           ONLY8,           ONLY8,          ONLY8, ONLY8,  ONLY8, 0,     0,     ONLY4};
    unsigned bits = dtype.bits;
    if (dtype.code > TENON_CODE_F4_E2M1FN || dtype.lanes == 0 || bits == 0)
        return false;
    if ((bits & (bits - 1)) == 0)
        return sizes[dtype.code] >> tenon__lowest_bit(bits) & 1;
    return bits == 6 && (dtype.code == TENON_CODE_F6_E2M3FN || dtype.code == TENON_CODE_F6_E3M2FN);
}

/* tenon_dtype_alignment of a known dtype, inline. */
static inline uint64_t tenon__dtype_alignment(tenon_dtype dtype)
{
    uint64_t bits = dtype.code == TENON_CODE_COMPLEX ? dtype.bits / 2u : dtype.bits;
    uint64_t bytes = bits / 8 * dtype.lanes | 16; /* at most 16 */
    return bits < 8 ? 1 : bytes & (~bytes + 1);
}

/* One bit per device type: all devices, those whose data is a handle, and those whose memory the CPU can read. */
#define TENON__DEVICES        0x7ff9eu
#define TENON__HANDLE_DEVICES (1u << TENON_OPENCL | 1u << TENON_VULKAN | 1u << TENON_METAL | 1u << TENON_WEBGPU)
#define TENON__HOST_DEVICES   (1u << TENON_CPU | 1u << TENON_CUDA_HOST | 1u << TENON_ROCM_HOST | 1u << TENON_CUDA_MANAGED)

static inline bool tenon__device_in(tenon_device device, uint32_t types)
{
    return (uint32_t)device.device_type < 32 && (types >> device.device_type & 1);
}

/* The dtype whose short or long name is exactly text[0..length). */
bool tenon__dtype_lookup(const char *text, size_t length, tenon_dtype *out);
/* The device type of a name without an id. */
bool tenon__device_lookup(const char *text, size_t length, int32_t *out);
/* "cuda" for TENON_CUDA. */
const char *tenon__device_name(int32_t type);

/* Bits of storage per element. */
static inline int64_t tenon__item_bits(tenon_dtype dtype, uint64_t flags)
{
    int64_t lane = (dtype.bits < 8 && (flags & TENON_SUBBYTE_PADDED)) ? 8 : dtype.bits;
    return lane * dtype.lanes;
}

/* tenon_view_init; errors name `function`. */
tenon_status tenon__view_init(tenon_view *view, const tenon_dl_tensor *source, uint64_t flags, int64_t *dims,
                              const char *function, tenon_error *err);
tenon_status tenon__check_dtype(tenon_dtype dtype, const char *function, tenon_error *err);
tenon_status tenon__check_shape(int32_t ndim, const int64_t *shape, const char *function, tenon_error *err);
/* The number of elements of a checked shape, and their size in bytes. */
tenon_status tenon__shape_bytes(tenon_dtype dtype, uint64_t flags, int32_t ndim, const int64_t *shape, int64_t *numel,
                                int64_t *bytes, const char *function, tenon_error *err);
/* The strides of a contiguous tensor. False on overflow. */
bool tenon__fill_strides(int32_t ndim, const int64_t *shape, char order, int64_t *strides);
/* The position of the first element: an address, or an offset if `data` is a handle. */
uint64_t tenon__view_position(const tenon_view *view);

/* --------------------------------------------------------------------------------------------------------- tensors */

struct tenon_tensor {
    tenon_view view;
    _Atomic int64_t count;
    tenon_tensor *root; /* the tensor that owns the memory: itself, unless it is a view */
    uint64_t low;       /* of the root: the range of positions that views may use */
    uint64_t high;
    void *owner; /* of the root */
    tenon_release_fn release;
    void *stream;       /* of the root: the stream whose work fills device memory */
    int64_t data_bytes; /* of the root: bytes that tenon_tensor_alloc allocated */
    size_t block_size;  /* of this allocation */
    char *origin;       /* this and the next two are used only in debug mode */
    tenon_tensor *previous;
    tenon_tensor *next;
    int64_t dims[]; /* shape, then strides */
};

/* Allocate the block of a tensor with `ndim` dimensions and `extra` bytes after its dims. It is not a tensor yet. */
tenon_tensor *tenon__tensor_alloc_block(int32_t ndim, size_t extra, bool zeroed, const char *function,
                                        tenon_error *err);
void tenon__tensor_free_block(tenon_tensor *block);
/* Turn a block whose view is complete into a tensor with one reference. If `root` is NULL it owns its memory. Cannot
 * fail. */
void tenon__tensor_init(tenon_tensor *block, tenon_tensor *root);
/* Create a tensor that owns the memory of a producer. */
tenon_status tenon__tensor_wrap(const tenon_dl_tensor *source, uint64_t flags, uint64_t block_size, void *owner,
                                tenon_release_fn release, const char *function, tenon_tensor **out, tenon_error *err);
/* tenon_tensor_alloc with DLPack flags. */
tenon_status tenon__tensor_alloc(tenon_dtype dtype, uint64_t flags, int32_t ndim, const int64_t *shape, bool zeroed,
                                 const char *function, tenon_tensor **out, tenon_error *err);

/* --------------------------------------------------------------------------------------------------------- memory */

/* Most tensors are made and released by one thread, the first one that counts. It adds to a number of its own, without an
 * atomic addition, which would take as long as the rest of a release; the other threads share another number. A thread is
 * known by its thread pointer, which no other thread has while it lives. */
typedef struct tenon__counter {
    _Atomic int64_t first, others;
} tenon__counter;

typedef struct tenon__counters {
    _Atomic(void *) first_thread; /* NULL: nothing has been counted */
    tenon__counter tensors;
    tenon__counter exports;
    tenon__counter bytes;
    tenon__counter deferred;
} tenon__counters;

extern tenon__counters tenon__live;

#if defined(__linux__) && defined(__has_builtin)
#if __has_builtin(__builtin_thread_pointer)
#define TENON__HAS_THREAD_POINTER
#endif
#endif

static inline bool tenon__is_first_thread(void)
{
#ifdef TENON__HAS_THREAD_POINTER
    void *self = __builtin_thread_pointer(), *none = NULL;
    void *first = atomic_load_explicit(&tenon__live.first_thread, memory_order_relaxed);
    return first == self || (!first && atomic_compare_exchange_strong(&tenon__live.first_thread, &none, self));
#else
    return false;
#endif
}

static inline void tenon__count(tenon__counter *counter, int64_t change)
{
    if (tenon__is_first_thread())
        atomic_store_explicit(&counter->first, atomic_load_explicit(&counter->first, memory_order_relaxed) + change,
                              memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&counter->others, change, memory_order_relaxed);
}

void *tenon__alloc(size_t size, bool zeroed);
void tenon__free(void *memory, size_t size);

/* A spin lock, to be held only for a few instructions. Initialise it with ATOMIC_FLAG_INIT. */
static inline void tenon__spin_lock(atomic_flag *lock)
{
    while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire)) {
    }
}

static inline void tenon__spin_unlock(atomic_flag *lock)
{
    atomic_flag_clear_explicit(lock, memory_order_release);
}

/* --------------------------------------------------------------------------------------------------------- copies */

/* The loops of a copy, which copy.c passes to copy_kernels.c. `item` and the strides are in bytes, or in bits for
 * tenon__copy_bits. No dimension has size 0 or 1. The strides of dst are positive, and the dimensions are ordered by them,
 * the smallest first. Dimensions that can be merged are merged. */
typedef struct tenon__loops {
    char *dst;
    const char *src;
    int64_t item; /* contiguous on both sides: one element, or several */
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    int64_t to[TENON_MAX_NDIM];   /* strides of dst */
    int64_t from[TENON_MAX_NDIM]; /* strides of src */
} tenon__loops;

/* Add a dimension to the loops of dst and src, in its place by the stride of dst. */
void tenon__loops_add(tenon__loops *loops, int64_t size, int64_t to, int64_t from);
/* Add the dimensions of the views. `to` and `from` are the sizes of an element on each side, in bytes or in bits. */
void tenon__loops_add_views(tenon__loops *loops, const tenon_view *dst, const tenon_view *src, int64_t to,
                            int64_t from);
/* Merge dimensions that are contiguous with each other on both sides, and extend the item over contiguous elements, unless
 * it is 0. */
void tenon__loops_merge(tenon__loops *loops);

/* Run the loops over whole bytes. Changes the order of the dimensions. */
void tenon__copy_bytes(tenon__loops *loops);

/* Run the loops over items of any number of bits, starting with the lowest bit of a byte. The first items are at bit
 * `to` of dst and bit `from` of src. All other bits of dst are preserved. */
void tenon__copy_bits(const tenon__loops *loops, int64_t to, int64_t from);

/* ---------------------------------------------------------------------------------------------------- conversions */

/* A binary float of at most 8 bits: a sign, an exponent, and a mantissa in the lowest bits. The members after `sign` are codes
 * without the sign. */
typedef struct tenon__float_format {
    int mantissa;  /* bits */
    int exponent;  /* of the smallest normal number */
    int32_t limit; /* the largest number that does not overflow, as the bits of an f32 */
    uint8_t sign;  /* the bit */
    uint8_t largest;
    uint8_t overflow;
    uint8_t nan;
    uint8_t infinity;   /* 0xff: it has none */
    uint16_t lone_sign; /* the sign bit if the code of -0 is NaN; otherwise 0x100 */
} tenon__float_format;

/* A number, which is a lane of an element, or a part of a complex one. */
typedef struct tenon__number {
    tenon_dtype dtype; /* with one lane */
    int bits;
    int bytes; /* in a buffer, in which sub-byte values have a byte each */
    bool is_signed;
    bool is_integer;                   /* or bool */
    const tenon__float_format *format; /* NULL: the dtype is not such a float */
} tenon__number;

enum { TENON__CHUNK = 128, TENON__MAX_STEPS = 4 };

/* Convert so many times TENON__CHUNK contiguous numbers. */
typedef void tenon__kernel(char *restrict to, const char *restrict from, int64_t chunks, const tenon__number *number);

/* One step of a conversion. */
typedef struct tenon__step {
    tenon__kernel *kernel;
    const tenon__number *number;
} tenon__step;

/* Describe a number of this dtype. False if it is not converted: opaque values, and numbers of 128 bits. */
bool tenon__number_init(tenon__number *number, tenon_dtype dtype);
/* Which vectors this CPU has: 0 is what every CPU has for which this was compiled, and 1 is AVX2. */
int tenon__convert_level(void);
/* Fill in the steps. Returns how many there are: none if the bits stay as they are. */
int tenon__convert_plan(const tenon__number *to, const tenon__number *from, int level,
                        tenon__step steps[TENON__MAX_STEPS]);
/* Whether a copy between views of these dtypes has to convert, and can. */
bool tenon__convert_needed(const tenon_view *dst, const tenon_view *src);
tenon_status tenon__convert_check(const tenon_view *dst, const tenon_view *src, tenon_error *err);
/* Whether "convert" converts arguments of one dtype to the other: from bool to any; between floats, and from integers to
 * floats, which may round; between integers if every value fits; between complex numbers. */
bool tenon__dtype_converts(tenon_dtype from, tenon_dtype to);
/* Copy the numbers of src to dst, which are checked and do not overlap. */
void tenon__convert(const tenon_view *dst, const tenon_view *src);

/* ---------------------------------------------------------------------------------------------------------- debug */

/* Whether TENON_DEBUG is on. It is read once; every tensor asks. */
enum { TENON__DEBUG_UNKNOWN, TENON__DEBUG_OFF, TENON__DEBUG_ON };
extern _Atomic int tenon__debug_mode;
bool tenon__debug_read_mode(void);
/* Whether it is known that it is off. */
static inline bool tenon__debug_is_off(void)
{
    return atomic_load_explicit(&tenon__debug_mode, memory_order_relaxed) == TENON__DEBUG_OFF;
}
static inline bool tenon__debug(void)
{
    return !tenon__debug_is_off() && tenon__debug_read_mode();
}
void tenon__debug_add(tenon_tensor *tensor);
/* Clear the origin after a call that was going to create a tensor but did not. */
void tenon__debug_forget_origin(void);
/* Remove a released tensor from the list. Its block is kept for some time, to detect further releases. */
void tenon__debug_retire(tenon_tensor *tensor);
/* Free the blocks that tenon__debug_retire keeps. */
void tenon__debug_flush(void);
/* Abort the program if the tensor was already released. `count` is its reference count before the call. */
void tenon__debug_check(const tenon_tensor *tensor, int64_t count, const char *function);

#endif
