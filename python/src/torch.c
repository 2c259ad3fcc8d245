/* What torch's exchange table lets through, or refuses with a page of text. */
#include "bridge.h"

#include <string.h>

/* A method without arguments or an attribute, as a truth value; false where there is none. */
static bool is_true(PyObject *object, const char *name, bool call)
{
    PyObject *value = call ? PyObject_CallMethod(object, name, NULL) : PyObject_GetAttrString(object, name);
    bool truth = value && PyObject_IsTrue(value) == 1;
    Py_XDECREF(value);
    PyErr_Clear();
    return truth;
}

static bool layout_is(PyObject *object, const char *word)
{
    PyObject *layout = PyObject_GetAttrString(object, "layout");
    PyObject *text = layout ? PyObject_Str(layout) : NULL;
    const char *name = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    bool found = name && strstr(name, word);
    Py_XDECREF(layout);
    Py_XDECREF(text);
    PyErr_Clear();
    return found;
}

const char *tenon__py_torch_advice(PyObject *object)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    const char *advice = NULL;
    if (is_true(object, "is_meta", false))
        advice = "a meta tensor has no memory: make it on a device";
    else if (is_true(object, "is_nested", false))
        advice = "a nested tensor is no single block: pass its parts, x.unbind()";
    else if (layout_is(object, "sparse"))
        advice = "a sparse tensor is no single block: pass x.to_dense()";
    else if (layout_is(object, "mkldnn"))
        advice = "pass x.to_dense()";
    else if (is_true(object, "is_quantized", false))
        advice = "pass x.int_repr() or x.dequantize()";
    PyErr_Restore(type, value, traceback);
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

static bool grad_mode(void)
{
    PyObject *torch = tenon__py_loaded("torch");
    PyObject *enabled = torch ? PyObject_CallMethod(torch, "is_grad_enabled", NULL) : NULL;
    bool on = !enabled || PyObject_IsTrue(enabled) == 1;
    Py_XDECREF(torch);
    Py_XDECREF(enabled);
    PyErr_Clear();
    return on;
}

int tenon__py_torch_check(PyObject *object, const tenon_py_borrowed *borrowed)
{
    const tenon_view *view = &borrowed->view;
    if (view->dtype.code == TENON_CODE_COMPLEX && is_true(object, "is_conj", true))
        return tenon__py_complain(PyExc_BufferError, object,
                                  "a conjugate view holds numbers that are not conjugated yet; pass x.resolve_conj()");
    if (may_be_negated(view) && is_true(object, "is_neg", true))
        return tenon__py_complain(PyExc_BufferError, object,
                                  "a negated view holds numbers that are not negated yet; pass x.resolve_neg()");
    if ((borrowed->flags & TENON_PY_WRITE) && is_true(object, "requires_grad", false) && grad_mode())
        return tenon__py_complain(PyExc_RuntimeError, object,
                                  "it requires grad, and a write would not be seen by autograd; pass x.detach() or use "
                                  "torch.no_grad()");
    return 0;
}
