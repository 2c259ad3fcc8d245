/* The gradient check. No framework can follow what a C function does, so gradients would be lost silently. */
#include "host.h"

int tenon__py_raise_lost_gradient(const tenon__py_function *function, const char *argument, const char *why)
{
    return tenon__py_argument_error(function, argument, PyExc_RuntimeError, "%s", why);
}

int tenon__py_check_gradient(const tenon__py_function *function, const char *argument, PyObject *object, bool *flat)
{
    const tenon__py_producer *owner;
    if (tenon__py_owner(object, &owner) < 0)
        return -1;
    return tenon__py_check_gradient_of(owner, function, argument, object, flat);
}
