#include "bridge.h"

int tenon_py_stream(const tenon_py_borrowed *borrowed, void **stream)
{
    *stream = NULL;
    if (tenon_device_on_host(borrowed->view.device))
        return 0;
    const tenon_dl_exchange *table = borrowed->table;
    if (!table || !table->current_work_stream)
        return 0; /* __dlpack__ was asked for the default stream */
    tenon_device device = borrowed->view.device;
    int status = table->current_work_stream(device.device_type, device.device_id, stream);
    bool raised = PyErr_Occurred() != NULL; /* also by one that said yes */
    if (status == 0 && !raised)
        return 0;
    if (!raised)
        tenon__py_complain(PyExc_RuntimeError, borrowed->object, "its framework did not tell its current stream");
    return -1;
}
