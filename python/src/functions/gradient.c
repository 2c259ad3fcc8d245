/* Gradients are never lost silently: no framework sees what a C function does. */
#include "host.h"

/* Whether the framework's autograd records now: 1, also where it cannot be asked; 0; or -1 with an exception. */
static int autograd_records(const char *framework)
{
    PyObject *module = tenon__py_loaded(framework);
    PyObject *enabled = module ? PyObject_CallMethod(module, "is_grad_enabled", NULL) : NULL;
    if (!enabled && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    int truth = enabled ? PyObject_IsTrue(enabled) : PyErr_Occurred() ? -1 : 1;
    Py_XDECREF(module);
    Py_XDECREF(enabled);
    return truth;
}

/* What stands behind torch.Tensor's attribute, found once: looking an attribute up takes longer than its answer. The
 * type, which it belongs to, lives as long as the process. */
static _Atomic(PyObject *) torch_question;

static PyObject *ask_tensor(PyObject *object, PyObject *name)
{
    PyObject *question = atomic_load_explicit(&torch_question, memory_order_acquire);
    if (!question) {
        question = PyObject_GetAttr((PyObject *)Py_TYPE(object), name);
        if (!question || Py_TYPE(question) != &PyGetSetDescr_Type) {
            Py_XDECREF(question);
            tenon__py_forgive();
            return PyErr_Occurred() ? NULL : PyObject_GetAttr(object, name);
        }
        PyObject *expected = NULL;
        if (!atomic_compare_exchange_strong(&torch_question, &expected, question))
            Py_DECREF(question); /* the type holds it too */
    }
#ifdef Py_LIMITED_API
    descrgetfunc answer = (descrgetfunc)(uintptr_t)PyType_GetSlot(&PyGetSetDescr_Type, Py_tp_descr_get);
    return answer(question, object, (PyObject *)Py_TYPE(object));
#else
    const PyGetSetDef *answer = ((PyGetSetDescrObject *)question)->d_getset; /* of this very type: nothing to check */
    return answer->get(object, answer->closure);
#endif
}

/* Whether the tensor requires grad: 1, 0, or -1 with an exception. */
static int requires_grad(PyObject *object, PyObject *name)
{
    PyObject *answer =
        Py_TYPE(object) == tenon__py_torch_tensor ? ask_tensor(object, name) : PyObject_GetAttr(object, name);
    int truth = answer ? (answer == Py_False ? 0 : PyObject_IsTrue(answer)) : -1;
    Py_XDECREF(answer);
    return truth;
}

/* Whether forward-mode differentiation goes on anywhere: 1, 0, or -1 with an exception. The module's names are kept, since
 * finding a module costs more than the rest of the check. */
static int in_dual_level(const tenon__py_function *function)
{
    PyObject *names = atomic_load_explicit(&function->library->forward_ad, memory_order_acquire);
    if (!names) {
        PyObject *module = tenon__py_loaded("torch.autograd.forward_ad");
        if (!module)
            return PyErr_Occurred() ? -1 : 0;
        PyObject *expected = NULL;
        names = PyModule_GetDict(module);
        Py_INCREF(names);
        if (!atomic_compare_exchange_strong(&function->library->forward_ad, &expected, names)) {
            Py_DECREF(names);
            names = expected;
        }
        Py_DECREF(module);
    }
    PyObject *level = PyDict_GetItemWithError(names, function->current_level);
    return level && PyLong_Check(level) ? PyLong_AsLong(level) >= 0 : PyErr_Occurred() ? -1 : 0;
}

static int check_torch(const tenon__py_function *function, const char *argument, PyObject *object, bool *flat)
{
    int followed = requires_grad(object, function->requires_grad);
    if (followed > 0)
        followed = autograd_records("torch");
    if (followed > 0)
        return tenon__py_argument_error(function, argument, PyExc_RuntimeError,
                                        "it requires grad, and autograd does not see what this function does; pass "
                                        "x.detach(), use torch.no_grad(), "
                                        "or register a backward with tenon.torch_ops()");
    if (followed == 0 && *flat)
        return 0;
    int tangent = followed < 0 ? -1 : in_dual_level(function);
    *flat = tangent == 0;
    if (tangent > 0)
        tangent = tenon__py_torch_tangent(object);
    if (tangent > 0)
        return tenon__py_argument_error(
            function, argument, PyExc_RuntimeError,
            "it carries a tangent (torch.autograd.forward_ad), which this function does not "
            "see; pass unpack_dual(x).primal");
    return tangent;
}

/* A gradient tape of TensorFlow's that watches the tensor. Its question is not public: without it there is no check. */
static int check_tensorflow(const tenon__py_function *function, const char *argument, PyObject *object)
{
    PyObject *module = tenon__py_loaded("tensorflow.python.eager.record");
    PyObject *answer = module ? PyObject_CallMethod(module, "should_record_backprop", "((O))", object) : NULL;
    int watched = answer ? PyObject_IsTrue(answer) : 0;
    Py_XDECREF(module);
    Py_XDECREF(answer);
    tenon__py_forgive();
    if (watched <= 0)
        return PyErr_Occurred() ? -1 : 0;
    return tenon__py_argument_error(function, argument, PyExc_RuntimeError,
                                    "a GradientTape watches it, and does not see what this function does; pass "
                                    "tf.stop_gradient(x), or call it outside of the tape");
}

/* A tensor of another framework that has torch's words for it, as Paddle has. */
static int check_other(const tenon__py_function *function, const char *argument, PyObject *object)
{
    PyObject *answer;
    char package[32];
    int followed = tenon__py_attribute(object, "requires_grad", &answer);
    if (followed > 0) {
        followed = answer == Py_True; /* in another framework it may be a method */
        Py_DECREF(answer);
    }
    if (followed > 0)
        followed = autograd_records(tenon__py_package(Py_TYPE(object), package, sizeof package));
    if (followed <= 0)
        return followed;
    return tenon__py_argument_error(function, argument, PyExc_RuntimeError,
                                    "it requires grad, and autograd does not see what this function does; pass "
                                    "x.detach(), or call it within no_grad()");
}

int tenon__py_check_gradient(const tenon__py_function *function, const char *argument, PyObject *object, bool *flat)
{
    if (!tenon__py_checks_gradients(function))
        return 0;
    int framework = Py_TYPE(object) == tenon__py_torch_tensor ? TENON__PY_IN_TORCH : tenon__py_framework(object);
    if (framework == TENON__PY_IN_TORCH)
        return check_torch(function, argument, object, flat);
    if (framework == TENON__PY_IN_TENSORFLOW)
        return check_tensorflow(function, argument, object);
    if (framework == TENON__PY_IN_TABLE)
        return check_other(function, argument, object);
    return framework < 0 ? -1 : 0;
}
