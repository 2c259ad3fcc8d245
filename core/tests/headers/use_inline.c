/* The parts of the headers that are code: they too must compile in every language, without a warning. */
#include <tenon/tenon.h>

tenon_status use_inline(tenon_bindings *bindings, tenon_names *names, tenon_tensor **out);

tenon_status use_inline(tenon_bindings *bindings, tenon_names *names, tenon_tensor **out)
{
    int64_t shape[2] = {2, 3};
    tenon_tensor *tensor = NULL;
    tenon_status status = tenon_tensor_alloc(TENON_F32, 2, shape, TENON_ZEROED, &tensor, NULL);

    if (status != TENON_OK)
        return status;
    tenon_bindings_reset(bindings, names);
    if (!tenon_dtype_equal(tenon_tensor_view(tensor)->dtype, TENON_BF16) &&
        tenon_device_equal(tenon_tensor_view(tensor)->device, tenon_device_of(TENON_CPU, 0)) &&
        tenon_dltensor(tenon_tensor_view(tensor)))
        status = tenon_tensor_slice(tensor, 0, TENON_OMIT, TENON_OMIT, -1, out, NULL);
    tenon_tensor_release(tensor);
    return status;
}
