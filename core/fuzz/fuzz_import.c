/* Imports DLPack structs with arbitrary contents. The arrays have exactly ndim entries, and a struct of another major
 * version ends after its deleter, so AddressSanitizer detects every read that goes too far. The elements are never read,
 * because most data pointers are invalid. */
#include "fuzz.h"

static int deleted;

static void count_legacy(tenon_dl_managed_legacy *self)
{
    (void)self;
    deleted++;
}

static void count_versioned(tenon_dl_managed *self)
{
    (void)self;
    deleted++;
}

static int64_t *numbers(fuzz_input *in, int32_t ndim, bool wanted)
{
    if (!wanted || ndim <= 0)
        return NULL;
    int32_t count = ndim <= TENON_MAX_NDIM ? ndim : 1;
    int64_t *values = malloc((size_t)count * sizeof *values);
    FUZZ_CHECK(values);
    for (int32_t i = 0; i < count; i++)
        values[i] = fuzz_number(in);
    return values;
}

static tenon_dl_tensor any_tensor(fuzz_input *in)
{
    static char memory[256];
    tenon_dl_tensor t = {0};
    int shape = fuzz_byte(in), where = fuzz_byte(in) % 8;
    t.data = where == 0 ? NULL : where < 5 ? memory : (void *)(uintptr_t)fuzz_number(in);
    int device = fuzz_byte(in);
    t.device = device < 180   ? tenon_device_of(TENON_CPU, 0)
               : device < 230 ? tenon_device_of(device % 19, 0)
                              : tenon_device_of((int32_t)fuzz_bytes(in, 4), (int32_t)fuzz_bytes(in, 4));
    t.ndim = shape < 200 ? shape % 7 : shape < 230 ? shape % 67 : (int32_t)fuzz_number(in);
    t.dtype = fuzz_dtype(in);
    t.byte_offset = where < 4 ? 0 : (uint64_t)fuzz_number(in);
    int arrays = fuzz_byte(in);
    t.shape = numbers(in, t.ndim, arrays < 250);
    t.strides = numbers(in, t.ndim, arrays % 3 > 0);
    return t;
}

/* Use a tensor as a consumer may, without reading its elements. */
static void use(fuzz_input *in, tenon_tensor *tensor)
{
    tenon_tensor *tensors[12] = {tensor};
    int count = 1;
    while (count < 12 && in->size > 0) {
        int base = fuzz_byte(in) % count;
        tenon_tensor *made = fuzz_operate(in, tensors[base]);
        if (made)
            tensors[count++] = made;
    }
    for (int i = 0; i < count; i++) {
        const tenon_view *view = tenon_tensor_view(tensors[i]);
        fuzz_ask(view);
        tenon_view_overlaps(view, tenon_tensor_view(tensors[(i + 1) % count]));
        tenon_dl_managed *managed = NULL;
        FUZZ_CHECK(tenon_tensor_export(tensors[i], &managed, NULL) == TENON_OK);
        FUZZ_CHECK(managed->version.major == TENON_DL_MAJOR && managed->dl_tensor.data == view->data);
        tenon_tensor *back = NULL;
        FUZZ_CHECK(tenon_tensor_import(managed, &back, NULL) == TENON_OK && back == tensors[i]);
        tenon_tensor_release(back);
        tenon_dl_managed_legacy *legacy = NULL;
        if (tenon_tensor_export_legacy(tensors[i], &legacy, NULL) == TENON_OK)
            legacy->deleter(legacy);
    }
    for (int i = 0; i < count; i++) {
        FUZZ_CHECK(deleted == 0);
        tenon_tensor_release(tensors[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    tenon_error err = {0};
    tenon_tensor *tensor = NULL;
    int kind = fuzz_byte(&in);
    bool has_deleter = kind % 5 > 0;
    deleted = 0;
    tenon_status status;
    tenon_dl_tensor body = {0};
    size_t room;
    void *block, *before;

    if (kind & 0x80) {
        body = any_tensor(&in);
        room = sizeof(tenon_dl_managed_legacy);
        tenon_dl_managed_legacy *managed = calloc(1, room);
        FUZZ_CHECK(managed);
        managed->dl_tensor = body;
        managed->deleter = has_deleter ? count_legacy : NULL;
        block = managed;
    } else {
        uint32_t major = (kind & 0x70) == 0x70 ? (uint32_t)fuzz_bytes(&in, 4) : TENON_DL_MAJOR;
        room = major == TENON_DL_MAJOR ? sizeof(tenon_dl_managed) : offsetof(tenon_dl_managed, flags);
        tenon_dl_managed *managed = calloc(1, room);
        FUZZ_CHECK(managed);
        managed->version.major = major;
        managed->version.minor = (uint32_t)fuzz_byte(&in);
        managed->deleter = has_deleter ? count_versioned : NULL;
        if (major == TENON_DL_MAJOR) {
            managed->flags = (kind & 0x60) == 0x60 ? (uint64_t)fuzz_number(&in) : fuzz_bytes(&in, 1) & 7;
            managed->dl_tensor = body = any_tensor(&in);
        }
        block = managed;
    }
    before = malloc(room);
    FUZZ_CHECK(before);
    memcpy(before, block, room);
    status =
        (kind & 0x80) ? tenon_tensor_import_legacy(block, &tensor, &err) : tenon_tensor_import(block, &tensor, &err);
    fuzz_check_error(status, &err);
    FUZZ_CHECK((status == TENON_OK) == (tensor != NULL));
    FUZZ_CHECK(deleted == 0);
    if (tensor) {
        use(&in, tensor);
        FUZZ_CHECK(deleted == (has_deleter ? 1 : 0));
    }
    FUZZ_CHECK(memcmp(before, block, room) == 0);
    free(before);
    free(block);
    free(body.shape);
    free(body.strides);
    fuzz_nothing_left();
    return 0;
}
