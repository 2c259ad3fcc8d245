/* Gradients are never lost silently: autograd does not see what a C function does. */
#include "host.h"

/* Whether the tensor is one that autograd follows now: 1, 0, or -1 with an exception. */
static int is_followed(PyObject *object, PyObject *requires_grad)
{
    PyObject *answer = PyObject_GetAttr(object, requires_grad);
    int truth = answer ? (answer == Py_False ? 0 : PyObject_IsTrue(answer)) : -1;
    Py_XDECREF(answer);
    if (truth < 1)
        return truth;
    PyObject *torch = tenon__py_loaded("torch");
    PyObject *enabled = torch ? PyObject_CallMethod(torch, "is_grad_enabled", NULL) : NULL;
    truth = enabled ? PyObject_IsTrue(enabled) : PyErr_Occurred() ? -1 : 0;
    Py_XDECREF(torch);
    Py_XDECREF(enabled);
    return truth;
}

int tenon__py_check_gradient(const tenon__py_function *function, const char *argument, PyObject *object)
{
    if (!tenon__py_checks_gradients(function))
        return 0;
    if (Py_TYPE(object) != tenon__py_torch_tensor) {
        tenon__py_kind room;
        const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
        if (!kind)
            return -1;
        if (!(kind->ways & TENON__PY_TORCH))
            return 0;
    }
    int followed = is_followed(object, function->requires_grad);
    if (followed > 0)
        return tenon__py_argument_error(function, argument, PyExc_RuntimeError,
                                        "it requires grad, and autograd does not see what this function does; pass "
                                        "x.detach(), use torch.no_grad(), "
                                        "or register a backward with tenon.torch_ops()");
    return followed;
}
