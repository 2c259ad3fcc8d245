/* A small client, built against each way of delivery: makes, cuts, copies and releases tensors. */
#ifdef USE_BUNDLE
#include "tenon.h"
#else
#include <tenon/tenon.h>
#endif

#include <stdio.h>
#include <string.h>

static int fail(const char *what, const tenon_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->message);
    return 1;
}

int main(void)
{
    /* Not called through the macro that TENON_ORIGINS adds: the function itself must exist too. */
    tenon_status (*alloc)(tenon_dtype, int32_t, const int64_t *, uint32_t, tenon_tensor **, tenon_error *) =
        tenon_tensor_alloc;
    int64_t shape[2] = {3, 4};
    tenon_tensor *whole = NULL, *part = NULL, *dense = NULL;
    tenon_error err;

    memset(&err, 0, sizeof err);
    if (strcmp(tenon_version(), TENON_VERSION) != 0)
        return fail("header and library differ", &err);
    if (alloc(TENON_F32, 2, shape, TENON_ZEROED, &whole, &err) != TENON_OK)
        return fail("alloc", &err);
    for (int i = 0; i < 12; i++)
        ((float *)tenon_tensor_view(whole)->data)[i] = (float)i;
    if (tenon_tensor_slice(whole, 1, TENON_OMIT, TENON_OMIT, -2, &part, &err) != TENON_OK)
        return fail("slice", &err);
    tenon_tensor_release(whole);
    if (tenon_tensor_contiguous(part, &dense, &err) != TENON_OK)
        return fail("contiguous", &err);
    if (((const float *)tenon_tensor_view(dense)->data)[5] != 9.0f)
        return fail("wrong element", &err);
    tenon_tensor_release(part);
    tenon_tensor_release(dense);
    if (tenon_stats_read().tensors != 0)
        return fail("tensors are left", &err);
    printf("Tenon %s\n", tenon_version());
    return 0;
}
