/* Gradients are never lost silently: no framework sees what a C function does. */
#include "host.h"

int tenon__py_check_gradient(const tenon__py_function *function, const char *argument, PyObject *object, bool *flat)
{
    const tenon__py_producer *owner;
    const char *why;
    if (!tenon__py_checks_gradients(function))
        return 0;
    if (tenon__py_owner(object, &owner) < 0)
        return -1;
    int lost = owner && owner->gradient ? owner->gradient(object, flat, &why) : 0;
    return lost > 0 ? tenon__py_argument_error(function, argument, PyExc_RuntimeError, "%s", why) : lost;
}
