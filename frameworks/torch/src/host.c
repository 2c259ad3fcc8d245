/* handle("torch.Tensor") in functions that Python hosts. */
#include "torch_bridge.h"

static int take_handle(PyObject *object, void **out)
{
    tenon_torch *tensor;
    if (tenon_torch_import(object, &tensor) < 0)
        return -1;
    *out = tensor;
    return 0;
}

static int give(void *handle, PyObject **out)
{
    return tenon_torch_export(handle, out);
}

static void release(void *handle)
{
    tenon_torch_release(handle);
}

int tenon_torch_register(void)
{
    static const tenon_py_foreign foreign = {.type = "torch.Tensor",
                                             .extension = TENON_TORCH_EXTENSION,
                                             .services = &tenon_torch_services,
                                             .take = take_handle,
                                             .give = give,
                                             .release = release};
    return tenon_py_add_foreign(&foreign);
}
