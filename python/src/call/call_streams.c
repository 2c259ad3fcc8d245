/* The streams of a call on a device: it runs on one of them, and uses memory of frameworks that may work on others. */
#include "internal.h"

intptr_t tenon__py_call_stream(const tenon__py_frame *f)
{
    intptr_t stream = (intptr_t)f->base.call.stream;
    return stream == 0 && f->base.call.device.device_type == TENON_CUDA ? 1 : stream;
}

int tenon__py_join_device(tenon__py_frame *f, int32_t index, int64_t item, const tenon_py_borrowed *borrowed)
{
    int met = item < 0 ? tenon_frame_join_device(&f->base, index, borrowed->view.device)
                       : tenon_frame_join_item_device(&f->base, index, item, borrowed->view.device);
    if (met <= 0)
        return met;
    f->like = borrowed->private_.object; /* the results are there too */
    f->stream_from = borrowed;
    return tenon_py_stream(borrowed, &f->base.call.stream);
}

/* Whether what was borrowed may be used on another stream than the call's: by another framework, on CUDA. */
static bool is_elsewhere(const tenon__py_frame *f, const tenon_py_borrowed *borrowed)
{
    const tenon_py_borrowed *from = f->stream_from;
    if (borrowed->view.device.device_type != TENON_CUDA || borrowed == from || !borrowed->private_.object)
        return false;
    return Py_TYPE(borrowed->private_.object) != Py_TYPE(from->private_.object) &&
           (!borrowed->private_.table || borrowed->private_.table != from->private_.table);
}

int tenon__py_begin_result(const tenon__py_frame *f, const tenon_py_borrowed *made)
{
    if (!f->stream_from || !is_elsewhere(f, made))
        return 0;
    PyObject *stream = PyLong_FromSsize_t(tenon__py_call_stream(f));
    int status = stream ? tenon__py_ask_to_order(made->private_.object, stream) : -1;
    Py_XDECREF(stream);
    return status < 0 ? -1 : 0;
}

/* The framework of the array takes its first byte as a consumer does, from the stream of the call: so its own stream
 * waits. Of frameworks that have no such stream the CPU waits for what was written. */
static int end_use(const tenon__py_frame *f, const tenon_py_borrowed *used, bool is_written)
{
    const tenon__py_producer *owner;
    if (tenon__py_owner(used->private_.object, &owner) < 0)
        return -1;
    if (!owner || !owner->waits)
        return is_written ? tenon__py_cuda_order(used->view.device.device_id, tenon__py_call_stream(f), TENON__PY_HOST)
                          : 0;
    tenon_error err;
    tenon_tensor *byte = NULL;
    const tenon_blob blob = {.data = used->view.data,
                             .dtype = TENON_U8,
                             .device = used->view.device,
                             .ndim = 1,
                             .shape = (int64_t[]){1},
                             .stream = f->base.call.stream};
    if (tenon_tensor_from_blob(&blob, &byte, &err))
        return tenon_py_raise(&err), -1;
    PyObject *taken = owner->wrap(byte);
    tenon_tensor_release(byte);
    Py_XDECREF(taken);
    return taken ? 0 : -1;
}

static int end_use_elsewhere(const tenon__py_frame *f, const tenon_py_borrowed *borrowed, bool is_written)
{
    return borrowed->view.numel > 0 && is_elsewhere(f, borrowed) ? end_use(f, borrowed, is_written) : 0;
}

/* An item of a list has two views, and the one that the function gets says whether it writes to it. */
static int end_use_of_item(const tenon__py_frame *f, const tenon__py_list *list, Py_ssize_t i)
{
    bool is_written = list->is_result || (list->views[i].flags & TENON_VIEW_WRITTEN);
    return list->borrows[i] ? end_use_elsewhere(f, list->borrows[i], is_written) : 0;
}

int tenon__py_end_uses(tenon__py_frame *f)
{
    PyObject *error = tenon__py_take_exception(); /* of the function: what it launched runs all the same */
    int status = 0;
    for (int32_t i = 0; i < f->nborrowed && status == 0; i++)
        status = end_use_elsewhere(f, &f->borrowed[i], f->borrowed[i].view.flags & TENON_VIEW_WRITTEN);
    for (const tenon__py_list *list = f->function->has_lists ? f->lists : NULL; list && status == 0; list = list->next)
        for (Py_ssize_t i = 0; list->borrows && i < list->count && status == 0; i++)
            status = end_use_of_item(f, list, i);
    if (!error)
        return status;
    tenon__py_raise_again(error);
    return -1;
}
