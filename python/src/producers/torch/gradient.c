/* Gradients are never lost silently: autograd does not see what a C function does. */
#include "torch.h"

int tenon__py_autograd_records(const char *framework)
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

/* Names, interned, since they are asked for with every tensor. */
enum { TORCH_REQUIRES_GRAD, TORCH_CURRENT_LEVEL };

static PyObject *torch_make_names(void)
{
    return Py_BuildValue("(NN)", PyUnicode_InternFromString("requires_grad"),
                         PyUnicode_InternFromString("_current_level"));
}

/* One of them, borrowed, or NULL with an exception. */
static PyObject *torch_name(int index)
{
    PyObject *names = tenon__py_kept(TENON__PY_KEPT_TORCH_NAMES, torch_make_names);
    return names ? PyTuple_GetItem(names, index) : NULL;
}

/* --------------------------------------------------------------------------------------------------- requires_grad */

/* What stands behind torch.Tensor's attribute, found once: looking an attribute up takes longer than its answer. The
 * type, which it belongs to, lives as long as the process. */
static _Atomic(PyObject *) torch_question;

static PyObject *torch_ask_tensor(PyObject *object)
{
    PyObject *question = atomic_load_explicit(&torch_question, memory_order_acquire);
    if (!question) {
        PyObject *name = torch_name(TORCH_REQUIRES_GRAD);
        question = name ? PyObject_GetAttr((PyObject *)Py_TYPE(object), name) : NULL;
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

static PyObject *torch_ask_other(PyObject *object)
{
    PyObject *name = torch_name(TORCH_REQUIRES_GRAD);
    return name ? PyObject_GetAttr(object, name) : NULL;
}

/* Whether the tensor requires grad: 1, 0, or -1 with an exception. */
static int torch_requires_grad(PyObject *object)
{
    PyObject *answer = Py_TYPE(object) == tenon__py_torch_type() ? torch_ask_tensor(object) : torch_ask_other(object);
    int truth = answer ? (answer == Py_False ? 0 : PyObject_IsTrue(answer)) : -1;
    Py_XDECREF(answer);
    return truth;
}

/* ---------------------------------------------------------------------------------------------------- forward mode */

/* The names of the module, kept since finding a module costs more than the rest of the check. NULL without an exception if
 * it has not been imported. */
static PyObject *torch_make_forward_ad(void)
{
    PyObject *module = tenon__py_loaded("torch.autograd.forward_ad");
    PyObject *names = module ? PyModule_GetDict(module) : NULL;
    Py_XINCREF(names);
    Py_XDECREF(module);
    return names;
}

/* Whether forward-mode differentiation goes on anywhere: 1, 0, or -1 with an exception. There are no tangents outside of
 * torch.autograd.forward_ad.dual_level(). */
static int torch_in_dual_level(void)
{
    PyObject *names = tenon__py_kept(TENON__PY_KEPT_FORWARD_AD, torch_make_forward_ad);
    PyObject *name = names ? torch_name(TORCH_CURRENT_LEVEL) : NULL;
    PyObject *level = name ? PyDict_GetItemWithError(names, name) : NULL;
    return level && PyLong_Check(level) ? PyLong_AsLong(level) >= 0 : PyErr_Occurred() ? -1 : 0;
}

int tenon__py_torch_tangent(PyObject *object)
{
    int inside = torch_in_dual_level();
    if (inside < 1)
        return inside;
    PyObject *module = tenon__py_loaded("torch.autograd.forward_ad");
    PyObject *pair = module ? PyObject_CallMethod(module, "unpack_dual", "O", object) : NULL;
    PyObject *tangent = pair ? PySequence_GetItem(pair, 1) : NULL;
    int found = tangent ? tangent != Py_None : PyErr_Occurred() ? -1 : 0;
    Py_XDECREF(module);
    Py_XDECREF(pair);
    Py_XDECREF(tangent);
    return found;
}

int tenon__py_torch_gradient(PyObject *object, bool *flat, const char **why)
{
    int followed = torch_requires_grad(object);
    if (followed > 0)
        followed = tenon__py_autograd_records("torch");
    *why = "it requires grad, and autograd does not see what this function does; pass x.detach(), use torch.no_grad(), "
           "or register a backward with tenon.torch_ops()";
    if (followed || *flat)
        return followed;
    *why = "it carries a tangent (torch.autograd.forward_ad), which this function does not see; pass "
           "unpack_dual(x).primal";
    int tangent = torch_in_dual_level();
    *flat = tangent == 0;
    return tangent > 0 ? tenon__py_torch_tangent(object) : tangent;
}
