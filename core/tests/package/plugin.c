/* The plugin of program.c. */
#include <tenon/tenon.h>

int work(void);

int work(void)
{
    static float data[4] = {1, 2, 3, 4};
    int64_t shape[] = {4};
    tenon_tensor *all = NULL, *half = NULL, *copy = NULL;
    tenon_blob blob = {.data = data, .dtype = TENON_F32, .ndim = 1, .shape = shape};
    if (tenon_tensor_from_blob(&blob, &all, NULL) || tenon_tensor_slice(all, 0, 0, 4, 2, &half, NULL) ||
        tenon_tensor_contiguous(half, &copy, NULL))
        return 1;
    tenon_tensor_release(all);
    tenon_tensor_release(half);
    int status = ((float *)tenon_tensor_view(copy)->data)[1] != 3;
    tenon_tensor_release(copy);
    return status || tenon_stats_read().tensors != 0;
}
