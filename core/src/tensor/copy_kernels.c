/* The loops of tenon_copy over whole bytes.
 *
 * Every loop is written once, for an item size that is a constant at each call: the compiler turns each memcpy of an item
 * into one load and one store, which need no alignment. Items that are not read in the order of dst are assembled in a
 * small buffer that stays in the first-level cache, and are written from there in whole cache lines. */
#include "internal.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#if defined(__GNUC__) && !defined(TENON__COVERAGE)
#define COPY_INLINE static inline __attribute__((__always_inline__))
#else
#define COPY_INLINE static inline
#endif

/* Put this before a loop over an array that must be kept in registers: -O2 alone does not unroll it. */
#if defined(__GNUC__)
#define COPY_UNROLL _Pragma("GCC unroll 16")
#else
#define COPY_UNROLL
#endif

enum {
    COPY_LINE = 64,            /* bytes of a cache line */
    COPY_PIECE = 1 << 10,      /* bytes of a repeated pattern; a short memcpy starts fast */
    COPY_BUFFER = 16 << 10,    /* half of a small first-level cache */
    COPY_TILE = 128,           /* largest number of items of a tile along src, if dst leaves the choice */
    COPY_TINY = 32,            /* tiles with fewer items are not worth their setup */
    COPY_STREAM_FROM = 8 << 20 /* a larger dst bypasses the caches, to not evict other data */
};

_Static_assert(COPY_BUFFER / COPY_TILE >= COPY_LINE, "a tile has whole lines of dst");

typedef struct copy_job {
    int64_t n[2];
    int64_t to[2];
    int64_t from[2];
    int64_t item;
    bool stream;
} copy_job;

static int64_t copy_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Bytes from `p` to the next cache line. */
static int64_t copy_to_line(const char *p)
{
    return (int64_t)(-(uintptr_t)p % COPY_LINE);
}

#ifdef __SSE2__
COPY_INLINE __m128i copy_load(const char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

COPY_INLINE void copy_store(char *p, __m128i v)
{
    _mm_storeu_si128((__m128i *)(void *)p, v);
}
#endif

/* Write `n` bytes that will not be read soon. Whole lines bypass the caches. */
static void copy_stream(char *dst, const char *src, int64_t n)
{
#ifdef __SSE2__
    int64_t head = copy_to_line(dst);
    if (n >= head + COPY_LINE) {
        memcpy(dst, src, (size_t)head);
        dst += head, src += head, n -= head;
        for (; n >= COPY_LINE; dst += COPY_LINE, src += COPY_LINE, n -= COPY_LINE) {
            __m128i a = copy_load(src);
            __m128i b = copy_load(src + 16);
            __m128i c = copy_load(src + 32);
            __m128i d = copy_load(src + 48);
            _mm_stream_si128((__m128i *)(void *)dst, a);
            _mm_stream_si128((__m128i *)(void *)(dst + 16), b);
            _mm_stream_si128((__m128i *)(void *)(dst + 32), c);
            _mm_stream_si128((__m128i *)(void *)(dst + 48), d);
        }
    }
#endif
    memcpy(dst, src, (size_t)n);
}

static void copy_out(char *dst, const char *src, int64_t n, bool stream)
{
    if (stream)
        copy_stream(dst, src, n);
    else
        memcpy(dst, src, (size_t)n);
}

/* ---------------------------------------------------------------------------------------------------------- SSE2 */

#ifdef __SSE2__
/* The items of `v` in reverse order. */
COPY_INLINE __m128i copy_reversed(__m128i v, int64_t item)
{
    if (item == 8)
        return _mm_shuffle_epi32(v, _MM_SHUFFLE(1, 0, 3, 2));
    v = _mm_shuffle_epi32(v, _MM_SHUFFLE(0, 1, 2, 3));
    if (item <= 2)
        v = _mm_shufflehi_epi16(_mm_shufflelo_epi16(v, _MM_SHUFFLE(2, 3, 0, 1)), _MM_SHUFFLE(2, 3, 0, 1));
    if (item == 1)
        v = _mm_or_si128(_mm_slli_epi16(v, 8), _mm_srli_epi16(v, 8));
    return v;
}

/* The items of `a` and then of `b` that have an even index. */
COPY_INLINE __m128i copy_even(__m128i a, __m128i b, int64_t item)
{
    __m128i mask = _mm_set1_epi16(0xff);
    switch (item) {
    case 1:
        return _mm_packus_epi16(_mm_and_si128(a, mask), _mm_and_si128(b, mask));
    case 2:
        /* Sign-extended, so that packing with saturation keeps all 16 bits. */
        a = _mm_srai_epi32(_mm_slli_epi32(a, 16), 16);
        b = _mm_srai_epi32(_mm_slli_epi32(b, 16), 16);
        return _mm_packs_epi32(a, b);
    case 4:
        return _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(a), _mm_castsi128_ps(b), _MM_SHUFFLE(2, 0, 2, 0)));
    default:
        return _mm_unpacklo_epi64(a, b);
    }
}

COPY_INLINE __m128i copy_unpack(__m128i a, __m128i b, int64_t item, bool high)
{
    switch (item) {
    case 1:
        return high ? _mm_unpackhi_epi8(a, b) : _mm_unpacklo_epi8(a, b);
    case 2:
        return high ? _mm_unpackhi_epi16(a, b) : _mm_unpacklo_epi16(a, b);
    case 4:
        return high ? _mm_unpackhi_epi32(a, b) : _mm_unpacklo_epi32(a, b);
    default:
        return high ? _mm_unpackhi_epi64(a, b) : _mm_unpacklo_epi64(a, b);
    }
}

/* Interleave the rows: new rows 2i and 2i + 1 have the items of row i and of row i + half, alternating. */
COPY_INLINE void copy_interleave(__m128i *rows, int64_t item)
{
    const int side = (int)(16 / item);
    __m128i next[16];
    COPY_UNROLL
    for (int i = 0; i < side / 2; i++) {
        next[2 * i] = copy_unpack(rows[i], rows[i + side / 2], item, false);
        next[2 * i + 1] = copy_unpack(rows[i], rows[i + side / 2], item, true);
    }
    COPY_UNROLL
    for (int i = 0; i < side; i++)
        rows[i] = next[i];
}

/* Transpose a square of 16 / item items: row i is at src + i * from, and column i is written to out + i * pitch. Only the
 * first `count` rows exist. */
COPY_INLINE void copy_square(char *out, int64_t pitch, const char *src, int64_t from, int64_t count, int64_t item)
{
    const int side = (int)(16 / item);
    __m128i rows[16];
    COPY_UNROLL
    for (int i = 0; i < side; i++)
        rows[i] = copy_load(src + (i < count ? i * from : 0));
    copy_interleave(rows, item);
    if (item <= 4)
        copy_interleave(rows, item);
    if (item <= 2)
        copy_interleave(rows, item);
    if (item == 1)
        copy_interleave(rows, item);
    COPY_UNROLL
    for (int i = 0; i < side; i++)
        copy_store(out + i * pitch, rows[i]);
}
#endif

/* --------------------------------------------------------------------------------------------------------- lines */

COPY_INLINE void copy_strided(char *dst, int64_t to, const char *src, int64_t from, int64_t n, int64_t item)
{
    for (; n >= 4; n -= 4, dst += 4 * to, src += 4 * from) {
        memcpy(dst, src, (size_t)item);
        memcpy(dst + to, src + from, (size_t)item);
        memcpy(dst + 2 * to, src + 2 * from, (size_t)item);
        memcpy(dst + 3 * to, src + 3 * from, (size_t)item);
    }
    for (; n > 0; n--, dst += to, src += from)
        memcpy(dst, src, (size_t)item);
}

/* The same for long lines. With larger items they are limited by memory, and prefetchers work better if the loop has one
 * load and one store. */
COPY_INLINE void copy_strided_line(char *dst, int64_t to, const char *src, int64_t from, int64_t n, int64_t item)
{
    if (item <= 2)
        copy_strided(dst, to, src, from, n, item);
    else
        for (; n > 0; n--, dst += to, src += from)
            memcpy(dst, src, (size_t)item);
}

/* Copy n items to a contiguous `out`. */
COPY_INLINE void copy_gather(char *out, const char *src, int64_t from, int64_t n, int64_t item)
{
#ifdef __SSE2__
    const int64_t side = 16 / item;
    const bool fits = item < 16 && 16 % item == 0;
    if (fits && from == -item) {
        for (; n >= side; n -= side, out += 16, src -= 16)
            copy_store(out, copy_reversed(copy_load(src + item - 16), item));
    } else if (fits && from == 2 * item) {
        /* The second vector may reach beyond the last item, so the last items are left to the loop below. */
        for (; n > side; n -= side, out += 16, src += 32)
            copy_store(out, copy_even(copy_load(src), copy_load(src + 16), item));
    }
#endif
    copy_strided_line(out, item, src, from, n, item);
}

/* Fill `n` bytes by repeating one item. */
static void copy_repeat(char *out, const char *src, int64_t item, int64_t n)
{
    memcpy(out, src, (size_t)item);
    for (int64_t done = item; done < n; done *= 2)
        memcpy(out + done, out, (size_t)copy_min(done, n - done));
}

#ifdef __SSE2__
COPY_INLINE void copy_store_line(char *p, __m128i v)
{
    copy_store(p, v);
    copy_store(p + 16, v);
    copy_store(p + 32, v);
    copy_store(p + 48, v);
}

/* Fill n bytes, at least a cache line, by repeating an item whose size divides 16 bytes. */
static void copy_fill_line(char *dst, const char *src, int64_t item, int64_t n)
{
    char pattern[32];
    copy_repeat(pattern, src, item, 32);
    const __m128i ends = copy_load(pattern);
    int64_t at = copy_to_line(dst);
    const __m128i middle = copy_load(pattern + at % item);
    copy_store_line(dst, ends);
    for (; at + COPY_LINE <= n; at += COPY_LINE)
        copy_store_line(dst + at, middle);
    copy_store_line(dst + n - COPY_LINE, ends);
}
#endif

/* For a dst that is contiguous along the first dimension, for at least a cache line, and a src that repeats one item
 * along it. Pieces start at the cache lines of dst, which may be in the middle of an item. */
static void copy_fill_lines(const copy_job *job, char *dst, const char *src)
{
    char pattern[COPY_PIECE + COPY_PIECE / 2];
    const int64_t item = job->item, bytes = job->n[0] * item;
    for (int64_t j = 0; j < job->n[1]; j++, dst += job->to[1], src += job->from[1]) {
#ifdef __SSE2__
        if (16 % item == 0) {
            copy_fill_line(dst, src, item, bytes);
            continue;
        }
#endif
        copy_repeat(pattern, src, item, copy_min(bytes, COPY_PIECE + item));
        int64_t at = copy_to_line(dst);
        memcpy(dst, pattern, (size_t)at);
        for (int64_t now; at < bytes; at += now) {
            now = copy_min(COPY_PIECE, bytes - at);
            memcpy(dst + at, pattern + at % item, (size_t)now);
        }
    }
}

static void copy_fill_bytes(const copy_job *job, char *dst, const char *src)
{
    for (int64_t j = 0; j < job->n[1]; j++, dst += job->to[1], src += job->from[1])
        memset(dst, *src, (size_t)job->n[0]);
}

COPY_INLINE void copy_lines(const copy_job *job, char *dst, const char *src, int64_t item)
{
    const int64_t n = job->n[0], to = job->to[0], from = job->from[0];
    for (int64_t j = 0; j < job->n[1]; j++, dst += job->to[1], src += job->from[1]) {
        if (to == item)
            copy_gather(dst, src, from, n, item);
        else
            copy_strided_line(dst, to, src, from, n, item);
    }
}

/* --------------------------------------------------------------------------------------------------------- tiles */

/* Copy a tile to `out`: its row k has the items src[i * from + k * step] for i from 0 to ni. Up to 16 bytes after the
 * tile are overwritten. */
COPY_INLINE void copy_tile(char *out, const char *src, int64_t from, int64_t step, int64_t ni, int64_t nk, int64_t item)
{
    const int64_t pitch = ni * item;
    int64_t done = 0;
#ifdef __SSE2__
    const int64_t side = 16 / item;
    const int64_t rest = ni % side;
    if (step == item && item < 16 && rest != 0 && ni < 2 * side && ni > side / 2) {
        /* A few rows of src, such as the channels of an image. A square that is not full writes too much, but only to
         * places that are written again later. */
        int64_t k = 0;
        for (; k + side <= nk; k += side) {
            const char *at = src + k * item;
            copy_square(out + k * pitch + (ni - rest) * item, pitch, at + (ni - rest) * from, from, rest, item);
            if (ni > side)
                copy_square(out + k * pitch, pitch, at, from, side, item);
        }
        out += k * pitch, src += k * item, nk -= k;
    } else if (step == item && item < 16 && nk >= side) {
        for (; done + side <= ni; done += side) {
            const char *row = src + done * from;
            int64_t k = 0;
            for (; k + side <= nk; k += side)
                copy_square(out + k * pitch + done * item, pitch, row + k * item, from, side, item);
            for (; k < nk; k++)
                copy_strided(out + k * pitch + done * item, item, row + k * item, from, side, item);
        }
    }
#endif
    if (nk < ni - done) {
        for (int64_t k = 0; k < nk; k++)
            copy_strided(out + k * pitch + done * item, item, src + done * from + k * step, from, ni - done, item);
    } else {
        for (int64_t i = done; i < ni; i++)
            copy_strided(out + i * item, pitch, src + i * from, step, nk, item);
    }
}

/* The first dimension is the one along which dst is contiguous, the second the one along which src is. */
COPY_INLINE void copy_tiles(const copy_job *job, char *dst, const char *src, int64_t item)
{
    _Alignas(COPY_LINE) char buffer[COPY_BUFFER + 16];
    const int64_t room = COPY_BUFFER / item;
    const int64_t line = COPY_LINE / item;
    /* If the rows of dst are contiguous, a tile of whole rows is written as one piece. */
    const bool whole = job->n[0] <= room / 16 && job->to[0] == item && job->to[1] == job->n[0] * item;
    int64_t nk = copy_min(job->n[1], COPY_TILE);
    const int64_t ni = whole ? job->n[0] : copy_min(job->n[0], room / nk / line * line);
    nk = copy_min(job->n[1], room / ni);
    if (nk < job->n[1] && nk > line)
        nk -= nk % line;
    /* Start the tiles at cache lines of dst, if that is possible for all of them. */
    int64_t first = ni;
    if (ni < job->n[0] && job->to[0] == item && job->to[1] % COPY_LINE == 0 && copy_to_line(dst) % item == 0)
        first -= (line - copy_to_line(dst) / item) % line;

    for (int64_t i = 0, now = first; i < job->n[0]; i += now, now = copy_min(ni, job->n[0] - i)) {
        for (int64_t k = 0; k < job->n[1]; k += nk) {
            const int64_t rows = copy_min(nk, job->n[1] - k);
            const int64_t pitch = now * item;
            char *out = dst + i * job->to[0] + k * job->to[1];
            copy_tile(buffer, src + i * job->from[0] + k * job->from[1], job->from[0], job->from[1], now, rows, item);
            if (whole) {
                copy_out(out, buffer, rows * pitch, job->stream);
                continue;
            }
            for (int64_t r = 0; r < rows; r++, out += job->to[1]) {
                if (job->to[0] == item)
                    copy_out(out, buffer + r * pitch, pitch, job->stream);
                else
                    copy_strided(out, job->to[0], buffer + r * pitch, item, now, item);
            }
        }
    }
}

/* --------------------------------------------------------------------------------------------------------- choice */

typedef void copy_kernel(const copy_job *job, char *dst, const char *src);

#define COPY_SIZED(loop, size)                                                                                         \
    static void copy_##loop##_##size(const copy_job *job, char *dst, const char *src)                                  \
    {                                                                                                                  \
        copy_##loop(job, dst, src, size);                                                                              \
    }
COPY_SIZED(lines, 1)
COPY_SIZED(lines, 2)
COPY_SIZED(lines, 3)
COPY_SIZED(lines, 4)
COPY_SIZED(lines, 6)
COPY_SIZED(lines, 8)
COPY_SIZED(lines, 12)
COPY_SIZED(lines, 16)
COPY_SIZED(lines, 24)
COPY_SIZED(lines, 32)
COPY_SIZED(tiles, 1)
COPY_SIZED(tiles, 2)
COPY_SIZED(tiles, 4)
COPY_SIZED(tiles, 8)
COPY_SIZED(tiles, 16)

static void copy_runs(const copy_job *job, char *dst, const char *src)
{
    /* A short run that is repeated stays in the first-level cache, where ordinary stores are faster. */
    const bool stream = job->stream && (job->from[0] != 0 || job->n[0] == 1 || job->item > COPY_BUFFER / 2);
    for (int64_t j = 0; j < job->n[1]; j++) {
        for (int64_t i = 0; i < job->n[0]; i++) {
            copy_out(dst + i * job->to[0] + j * job->to[1], src + i * job->from[0] + j * job->from[1], job->item,
                     stream);
        }
    }
}

static copy_kernel *copy_choose(const copy_job *job, bool tiles)
{
    if (job->from[0] == 0 && job->to[0] == job->item && job->item <= COPY_PIECE / 2 &&
        job->n[0] * job->item >= COPY_LINE)
        return job->item == 1 ? copy_fill_bytes : copy_fill_lines;
    switch (job->item) {
    case 1:
        return tiles ? copy_tiles_1 : copy_lines_1;
    case 2:
        return tiles ? copy_tiles_2 : copy_lines_2;
    case 3:
        return copy_lines_3;
    case 4:
        return tiles ? copy_tiles_4 : copy_lines_4;
    case 6:
        return copy_lines_6;
    case 8:
        return tiles ? copy_tiles_8 : copy_lines_8;
    case 12:
        return copy_lines_12;
    case 16:
        return tiles ? copy_tiles_16 : copy_lines_16;
    case 24:
        return copy_lines_24;
    case 32:
        return copy_lines_32;
    default:
        return copy_runs;
    }
}

static int64_t copy_distance(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* The dimension along which the items of src are closest together. 0 if that is the first one, or if the two dimensions
 * have too few items for a tile. */
static int32_t copy_source_dim(const tenon__loops *loops)
{
    int32_t best = 0;
    for (int32_t i = 1; i < loops->ndim; i++) {
        if (loops->from[i] != 0 && copy_distance(loops->from[i]) < copy_distance(loops->from[best]))
            best = i;
    }
    return best > 0 && loops->shape[best] < COPY_TINY / loops->shape[0] ? 0 : best;
}

/* Move dimension `dim` to the second position; the others keep their order. */
static void copy_move_to_second(tenon__loops *loops, int32_t dim)
{
    int64_t n = loops->shape[dim], to = loops->to[dim], from = loops->from[dim];
    for (int32_t i = dim; i > 1; i--) {
        loops->shape[i] = loops->shape[i - 1];
        loops->to[i] = loops->to[i - 1];
        loops->from[i] = loops->from[i - 1];
    }
    if (from < 0) {
        loops->dst += (n - 1) * to;
        loops->src += (n - 1) * from;
        to = -to, from = -from;
    }
    loops->shape[1] = n, loops->to[1] = to, loops->from[1] = from;
}

void tenon__copy_bytes(tenon__loops *loops)
{
    int64_t total = loops->item;
    for (int32_t i = 0; i < loops->ndim; i++)
        total *= loops->shape[i];
    int32_t near = copy_source_dim(loops);
    if (near > 0)
        copy_move_to_second(loops, near);
    copy_job job = {.n = {1, 1}, .item = loops->item, .stream = total >= COPY_STREAM_FROM};
    for (int32_t d = 0; d < copy_min(loops->ndim, 2); d++) {
        job.n[d] = loops->shape[d];
        job.to[d] = loops->to[d];
        job.from[d] = loops->from[d];
    }
    copy_kernel *kernel = loops->ndim == 0 ? copy_runs : copy_choose(&job, near > 0);

    char *dst = loops->dst;
    const char *src = loops->src;
    int64_t index[TENON_MAX_NDIM] = {0};
    for (int32_t d = -1; d < loops->ndim;) {
        kernel(&job, dst, src);
        for (d = 2; d < loops->ndim; d++) {
            if (++index[d] < loops->shape[d]) {
                dst += loops->to[d];
                src += loops->from[d];
                break;
            }
            index[d] = 0;
            dst -= loops->to[d] * (loops->shape[d] - 1);
            src -= loops->from[d] * (loops->shape[d] - 1);
        }
    }
#ifdef __SSE2__
    if (job.stream)
        _mm_sfence();
#endif
}

/* The loops of tenon_copy over packed sub-byte values, several of which share a byte. */

/* The byte that holds a bit. Both may be negative. */
static int64_t copy_byte_of(int64_t bit)
{
    return (bit - (bit & 7)) / 8;
}

/* Copy 1 to 8 bits. Only bytes that contain some of them are accessed. */
static void copy_few_bits(unsigned char *dst, int64_t to, const unsigned char *src, int64_t from, int count)
{
    const int in = (int)(from & 7), out = (int)(to & 7);
    src += copy_byte_of(from);
    dst += copy_byte_of(to);
    unsigned value = (unsigned)src[0] >> in;
    if (in + count > 8)
        value |= (unsigned)src[1] << (8 - in);
    const unsigned mask = (0xffu >> (8 - count)) << out;
    value <<= out;
    dst[0] = (unsigned char)((dst[0] & ~mask) | (value & mask));
    if (out + count > 8)
        dst[1] = (unsigned char)((dst[1] & ~(mask >> 8)) | ((value & mask) >> 8));
}

static void copy_run_of_bits(char *dst, int64_t to, const char *src, int64_t from, int64_t count)
{
    if ((to & 7) == 0 && (from & 7) == 0) {
        memcpy(dst + copy_byte_of(to), src + copy_byte_of(from), (size_t)(count / 8));
        to += count - count % 8, from += count - count % 8, count %= 8;
    }
    for (; count > 0; to += 8, from += 8, count -= 8)
        copy_few_bits((unsigned char *)dst, to, (const unsigned char *)src, from, count < 8 ? (int)count : 8);
}

void tenon__copy_bits(const tenon__loops *loops, int64_t to, int64_t from)
{
    int64_t index[TENON_MAX_NDIM] = {0};
    for (int32_t d = -1; d < loops->ndim;) {
        copy_run_of_bits(loops->dst, to, loops->src, from, loops->item);
        for (d = 0; d < loops->ndim; d++) {
            if (++index[d] < loops->shape[d]) {
                to += loops->to[d];
                from += loops->from[d];
                break;
            }
            index[d] = 0;
            to -= (loops->shape[d] - 1) * loops->to[d];
            from -= (loops->shape[d] - 1) * loops->from[d];
        }
    }
}
