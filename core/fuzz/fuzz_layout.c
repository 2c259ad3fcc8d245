/* Runs view operations on real memory: no view may leave it, copies must equal a copy bit by bit, and no overlap may be
 * missed. */
#include "fuzz.h"

enum { MAX_BYTES = 256, MAX_TENSORS = 12, MAX_NUMEL = 2048 };

static int released;

static void count_release(void *owner)
{
    (void)owner;
    released++;
}

/* List the elements in C order: element i starts at bit bits[i] from `origin`. */
static void places(const tenon_view *view, const unsigned char *origin, int64_t *bits)
{
    int64_t index[TENON_MAX_NDIM] = {0};
    int64_t item = tenon_view_item_bits(view), start = 8 * (int64_t)((intptr_t)view->data - (intptr_t)origin);
    for (int64_t i = 0; i < view->numel; i++) {
        bits[i] = start;
        for (int32_t d = 0; d < view->ndim; d++)
            bits[i] += index[d] * view->strides[d] * item;
        for (int32_t d = view->ndim - 1; d >= 0 && ++index[d] == view->shape[d]; d--)
            index[d] = 0;
    }
}

static int bit_at(const unsigned char *memory, int64_t bit)
{
    return memory[bit / 8] >> (bit % 8) & 1;
}

static void set_bit(unsigned char *memory, int64_t bit, int value)
{
    memory[bit / 8] = (unsigned char)((memory[bit / 8] & ~(1 << (bit % 8))) | value << (bit % 8));
}

/* Check that the contiguous copy has the same elements. */
static void check_twin(tenon_tensor *tensor, const unsigned char *memory)
{
    static int64_t from[MAX_NUMEL];
    const tenon_view *view = tenon_tensor_view(tensor);
    tenon_tensor *twin = NULL, *copy = NULL;
    FUZZ_CHECK(tenon_tensor_contiguous(tensor, &twin, NULL) == TENON_OK);
    const tenon_view *dense = tenon_tensor_view(twin);
    FUZZ_CHECK(dense->flags & TENON_VIEW_C);
    FUZZ_CHECK(dense->numel == view->numel && tenon_view_nbytes(dense) == tenon_view_nbytes(view));
    places(view, memory, from);
    int64_t item = tenon_view_item_bits(view);
    for (int64_t i = 0; i < view->numel; i++)
        for (int64_t bit = 0; bit < item; bit++)
            FUZZ_CHECK(bit_at(dense->data, i * item + bit) == bit_at(memory, from[i] + bit));
    FUZZ_CHECK(tenon_tensor_copy(tensor, &copy, NULL) == TENON_OK && copy != tensor);
    size_t nbytes = (size_t)tenon_view_nbytes(view);
    FUZZ_CHECK(view->numel == 0 || tenon_view_item_bits(view) % 8 ||
               memcmp(tenon_tensor_view(copy)->data, dense->data, nbytes) == 0);
    tenon_tensor_release(copy);
    tenon_tensor_release(twin);
}

/* Check the overlap of two views against a map of bits, then copy one to the other in the same buffer. */
static void check_pair(const tenon_view *a, const tenon_view *b, unsigned char *memory, size_t size)
{
    static int64_t to[MAX_NUMEL], from[MAX_NUMEL];
    unsigned char seen[MAX_BYTES] = {0}, before[MAX_BYTES];
    places(a, memory, to);
    places(b, memory, from);
    int64_t item = tenon_view_item_bits(a);
    bool meets = false, folds = false;
    for (int64_t i = 0; i < a->numel; i++) {
        for (int64_t bit = 0; bit < item; bit++) {
            folds |= bit_at(seen, to[i] + bit);
            set_bit(seen, to[i] + bit, 1);
        }
    }
    for (int64_t i = 0; i < b->numel; i++)
        for (int64_t bit = 0; bit < tenon_view_item_bits(b); bit++)
            meets |= bit_at(seen, from[i] + bit);
    FUZZ_CHECK(!meets || (tenon_view_overlaps(a, b) && tenon_view_overlaps(b, a)));
    FUZZ_CHECK(!folds || tenon_view_self_overlaps(a));

    memcpy(before, memory, size);
    bool itself = memcmp(to, from, (size_t)a->numel * sizeof *to) == 0;
    bool same = tenon_dtype_equal(a->dtype, b->dtype) && item == tenon_view_item_bits(b);
    if (tenon_copy(a, b, NULL) == TENON_OK && !(itself && same)) {
        FUZZ_CHECK(!folds && !meets && a->numel == b->numel);
        /* Values of another dtype are converted, and only the bits beside them are compared. */
        for (int64_t i = 0; i < a->numel; i++)
            for (int64_t bit = 0; bit < item; bit++)
                set_bit(before, to[i] + bit, same ? bit_at(before, from[i] + bit) : bit_at(memory, to[i] + bit));
    }
    FUZZ_CHECK(memcmp(before, memory, size) == 0);
}

static tenon_tensor *first_tensor(fuzz_input *in, unsigned char *memory, size_t size, size_t *low, size_t *high)
{
    int64_t shape[6], strides[6];
    int kind = fuzz_byte(in);
    tenon_blob blob = {.data = memory, .dtype = fuzz_dtype(in), .ndim = kind % 7, .shape = shape};
    for (int32_t i = 0; i < blob.ndim; i++) {
        shape[i] = fuzz_number(in);
        strides[i] = kind >= 64 ? fuzz_number(in) : 0;
    }
    blob.strides = kind >= 64 ? strides : NULL;
    blob.byte_offset = (uint64_t)fuzz_byte(in) % size;
    blob.flags = (uint64_t)fuzz_byte(in) & 7;
    blob.data_size = size;
    blob.release = count_release;
    tenon_tensor *tensor = NULL;
    tenon_error err = {0};
    fuzz_check_error(tenon_tensor_from_blob(&blob, &tensor, &err), &err);
    if (!tensor)
        return NULL;
    *low = 0;
    *high = size;
    if (kind % 2) { /* the same without data_size: views stay inside the first one */
        tenon_extent extent = tenon_view_extent(tenon_tensor_view(tensor));
        *low = (size_t)((int64_t)blob.byte_offset + extent.low);
        *high = (size_t)((int64_t)blob.byte_offset + extent.high);
        tenon_tensor_release(tensor);
        FUZZ_CHECK(released == 1);
        released = 0;
        blob.data_size = 0;
        FUZZ_CHECK(tenon_tensor_from_blob(&blob, &tensor, NULL) == TENON_OK);
    }
    return tensor;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    size_t bytes = 1 + (size_t)fuzz_byte(&in) % MAX_BYTES, low = 0, high = 0;
    unsigned char *memory = malloc(bytes);
    FUZZ_CHECK(memory);
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)(i * 151 + 7);
    released = 0;
    tenon_tensor *tensors[MAX_TENSORS] = {first_tensor(&in, memory, bytes, &low, &high)};
    int count = tensors[0] ? 1 : 0;
    while (count > 0 && count < MAX_TENSORS && in.size > 0) {
        int base = fuzz_byte(&in);
        tenon_tensor *made = fuzz_operate(&in, tensors[base < 128 ? count - 1 : base % count]);
        if (made)
            tensors[count++] = made;
    }
    for (int i = 0; i < count; i++) {
        const tenon_view *view = tenon_tensor_view(tensors[i]);
        fuzz_ask(view);
        if (view->numel > 0) {
            tenon_extent extent = tenon_view_extent(view);
            int64_t at = (int64_t)((intptr_t)view->data - (intptr_t)memory);
            FUZZ_CHECK(at + extent.low >= (int64_t)low && at + extent.high <= (int64_t)high);
        }
        if (view->numel > MAX_NUMEL)
            continue;
        check_twin(tensors[i], memory);
        for (int k = 0; k <= i; k++) {
            const tenon_view *other = tenon_tensor_view(tensors[k]);
            if (other->numel <= MAX_NUMEL)
                check_pair(view, other, memory, bytes);
        }
    }
    for (int i = 0; i < count; i++) {
        FUZZ_CHECK(released == 0);
        tenon_tensor_release(tensors[i]);
    }
    FUZZ_CHECK(released == (count > 0 ? 1 : 0));
    free(memory);
    fuzz_nothing_left();
    return 0;
}
