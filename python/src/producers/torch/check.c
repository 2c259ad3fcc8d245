/* What torch's exchange table lets through, or refuses with a page of text. */
#include "../../internal.h"

#include <string.h>

/* A method without arguments or an attribute, as a truth value: 0 where there is none; -1 with an exception. */
static int is_true(PyObject *object, const char *name, bool call)
{
    PyObject *value;
    int found = tenon__py_attribute(object, name, &value);
    if (found < 1)
        return found;
    if (call) {
        PyObject *method = value;
        value = PyObject_CallObject(method, NULL);
        Py_DECREF(method);
    }
    int truth = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return truth;
}

/* The same where another exception is being told already: nothing may come in its way. */
static bool seems(PyObject *object, const char *name)
{
    int truth = PyErr_Occurred() ? 0 : is_true(object, name, false);
    tenon__py_forgive();
    return truth == 1;
}

static bool layout_is(PyObject *object, const char *word)
{
    PyObject *layout = PyErr_Occurred() ? NULL : PyObject_GetAttrString(object, "layout");
    PyObject *text = layout ? PyObject_Str(layout) : NULL;
    const char *name = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    bool found = name && strstr(name, word);
    Py_XDECREF(layout);
    Py_XDECREF(text);
    tenon__py_forgive();
    return found;
}

/* Inside torch.vmap, torch.func.grad and their like. */
static bool is_functorch(PyObject *object)
{
    PyObject *module = PyErr_Occurred() ? NULL : tenon__py_loaded("torch._C._functorch");
    PyObject *answer = module ? PyObject_CallMethod(module, "is_functorch_wrapped_tensor", "O", object) : NULL;
    bool found = answer && PyObject_IsTrue(answer) == 1;
    Py_XDECREF(module);
    Py_XDECREF(answer);
    tenon__py_forgive();
    return found;
}

/* Before 2.10 torch has no table, and its __dlpack__ refuses what requires grad. An alias does not, and is the same
 * memory; that a write would be lost is found out afterwards, from the tensor itself. */
PyObject *tenon__py_torch_alias(PyObject *object)
{
    int recorded = is_true(object, "requires_grad", false);
    if (recorded > 0)
        return PyObject_CallMethod(object, "detach", NULL);
    if (recorded < 0)
        return NULL;
    Py_INCREF(object);
    return object;
}

const char *tenon__py_torch_advice(PyObject *object)
{
    PyObject *error = tenon__py_take_exception();
    const char *advice = NULL;
    if (seems(object, "is_meta"))
        advice = "a meta tensor has no memory: make it on a device";
    else if (seems(object, "is_nested"))
        advice = "a nested tensor is no single block: pass its parts, x.unbind()";
    else if (layout_is(object, "sparse"))
        advice = "a sparse tensor is no single block: pass x.to_dense()";
    else if (layout_is(object, "mkldnn"))
        advice = "a oneDNN tensor has a layout of its own: pass x.to_dense()";
    else if (seems(object, "is_quantized"))
        advice = "pass x.int_repr() or x.dequantize()";
    else if (is_functorch(object))
        advice = "inside torch.vmap and torch.func a tensor has no memory of its own: call it outside of them";
    else if (!PyErr_Occurred() && is_true(object, "is_conj", true) == 1)
        advice = "a conjugate view holds numbers that are not conjugated yet; pass x.resolve_conj()";
    tenon__py_raise_again(error);
    return advice;
}

/* A neg view is the imaginary part of a conjugate: its strides count halves of complex numbers, so all are even. */
static bool may_be_negated(const tenon_view *view)
{
    if (view->numel <= 1)
        return true;
    int64_t odd = 0;
    for (int32_t i = 0; i < view->ndim; i++)
        odd |= view->shape[i] > 1 ? view->strides[i] & 1 : 0;
    return !odd;
}

/* Whether autograd records now: 1, 0, or -1 with an exception. */
static int grad_mode(void)
{
    PyObject *torch = tenon__py_loaded("torch");
    int on = torch ? is_true(torch, "is_grad_enabled", true) : PyErr_Occurred() ? -1 : 0;
    Py_XDECREF(torch);
    return on;
}

/* There is none outside of torch.autograd.forward_ad.dual_level(). */
int tenon__py_torch_tangent(PyObject *object)
{
    PyObject *module = tenon__py_loaded("torch.autograd.forward_ad");
    if (!module)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *level = NULL, *pair = NULL, *tangent = NULL;
    int found = tenon__py_attribute(module, "_current_level", &level);
    bool inside = found == 1 && PyLong_Check(level) && PyLong_AsLong(level) >= 0;
    if (inside && (pair = PyObject_CallMethod(module, "unpack_dual", "O", object)))
        tangent = PySequence_GetItem(pair, 1);
    found = found < 0 || (inside && !tangent) ? -1 : inside && tangent != Py_None;
    Py_DECREF(module);
    Py_XDECREF(level);
    Py_XDECREF(pair);
    Py_XDECREF(tangent);
    return found;
}

static int ask(PyObject *object, const tenon_py_borrowed *borrowed)
{
    const tenon_view *view = &borrowed->view;
    int conjugated = view->dtype.code == TENON_CODE_COMPLEX ? is_true(object, "is_conj", true) : 0;
    if (conjugated > 0)
        tenon__py_complain(PyExc_BufferError, object,
                           "a conjugate view holds numbers that are not conjugated yet; pass x.resolve_conj()");
    int negated = !conjugated && may_be_negated(view) ? is_true(object, "is_neg", true) : 0;
    if (negated > 0)
        tenon__py_complain(PyExc_BufferError, object,
                           "a negated view holds numbers that are not negated yet; pass x.resolve_neg()");
    if (conjugated || negated)
        return -1;
    int recorded = borrowed->flags & TENON_PY_WRITE ? is_true(object, "requires_grad", false) : 0;
    if (recorded > 0)
        recorded = grad_mode();
    if (recorded > 0)
        tenon__py_complain(PyExc_RuntimeError, object,
                           "it requires grad, and a write would not be seen by autograd; pass x.detach() or use "
                           "torch.no_grad()");
    int tangent = recorded || !(borrowed->flags & TENON_PY_WRITE) ? 0 : tenon__py_torch_tangent(object);
    if (tangent > 0)
        tenon__py_complain(PyExc_RuntimeError, object,
                           "it carries a tangent (torch.autograd.forward_ad), which a write would not change; pass "
                           "unpack_dual(x).primal");
    return recorded || tangent ? -1 : 0;
}

int tenon__py_torch_check(PyObject *object, const tenon_py_borrowed *borrowed)
{
    bool nothing_to_ask = borrowed->view.dtype.code != TENON_CODE_COMPLEX && !may_be_negated(&borrowed->view) &&
                          !(borrowed->flags & TENON_PY_WRITE);
    if (nothing_to_ask)
        return 0;
    /* The tensor itself is asked, not what a subclass or a mode would have it say. */
    PyObject *module = tenon__py_loaded("torch._C");
    PyObject *guard = module ? PyObject_CallMethod(module, "DisableTorchFunction", NULL) : NULL;
    PyObject *entered = guard ? PyObject_CallMethod(guard, "__enter__", NULL) : NULL;
    int result = entered ? ask(object, borrowed) : -1;
    if (entered) {
        PyObject *error = result < 0 ? tenon__py_take_exception() : NULL;
        PyObject *left = PyObject_CallMethod(guard, "__exit__", "OOO", Py_None, Py_None, Py_None);
        if (!left)
            result = -1;
        else if (error)
            PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_XDECREF(left);
        Py_XDECREF(error);
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_RuntimeError, "tenon: this torch has no torch._C");
    }
    Py_XDECREF(module);
    Py_XDECREF(guard);
    Py_XDECREF(entered);
    return result;
}

void tenon__py_torch_written(PyObject *object)
{
    bool torch = Py_TYPE(object) != tenon__py_ndarray && tenon__py_framework(object) == TENON__PY_IN_TORCH;
    PyObject *module = torch ? tenon__py_loaded("torch.autograd.graph") : NULL;
    PyObject *done = module ? PyObject_CallMethod(module, "increment_version", "O", object) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(done);
    tenon__py_forgive(); /* inference tensors have no counter, nor has autograd anything to do with them */
}
