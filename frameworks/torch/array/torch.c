/* torch: which tensors are plain memory. Its exchange table lets some through that are not, and refuses others with a page
 * of text. */
#include "internal.h"

#include <string.h>

/* A method without arguments or an attribute, as a truth value: 0 if the object does not have it, -1 with an exception. */
static int torch_is_true(PyObject *object, const char *name, bool call)
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

/* The same while another exception is being reported: it may not be replaced. */
static bool torch_seems(PyObject *object, const char *name)
{
    int truth = PyErr_Occurred() ? 0 : torch_is_true(object, name, false);
    tenon__py_clear_ignorable_error();
    return truth == 1;
}

static bool torch_layout_is(PyObject *object, const char *word)
{
    PyObject *layout = PyErr_Occurred() ? NULL : PyObject_GetAttrString(object, "layout");
    PyObject *text = layout ? PyObject_Str(layout) : NULL;
    const char *name = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    bool found = name && strstr(name, word);
    Py_XDECREF(layout);
    Py_XDECREF(text);
    tenon__py_clear_ignorable_error();
    return found;
}

/* Inside torch.vmap, torch.func.grad and their like. */
static bool torch_is_functorch(PyObject *object)
{
    PyObject *module = PyErr_Occurred() ? NULL : tenon__py_loaded("torch._C._functorch");
    PyObject *answer = module ? PyObject_CallMethod(module, "is_functorch_wrapped_tensor", "O", object) : NULL;
    bool found = answer && PyObject_IsTrue(answer) == 1;
    Py_XDECREF(module);
    Py_XDECREF(answer);
    tenon__py_clear_ignorable_error();
    return found;
}

/* Before 2.10 torch has no table, and its __dlpack__ refuses what requires grad. An alias does not, and is the same
 * memory; whether a write would be lost is found out afterwards, from the tensor itself. */
static PyObject *torch_alias(PyObject *object)
{
    int recorded = torch_is_true(object, "requires_grad", false);
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
    if (torch_seems(object, "is_meta"))
        advice = "a meta tensor has no memory: make it on a device";
    else if (torch_seems(object, "is_nested"))
        advice = "a nested tensor is not a single block of memory; pass its parts, x.unbind()";
    else if (torch_layout_is(object, "sparse"))
        advice = "a sparse tensor is not a single block of memory; pass x.to_dense()";
    else if (torch_layout_is(object, "mkldnn"))
        advice = "a oneDNN tensor has a layout of its own: pass x.to_dense()";
    else if (torch_seems(object, "is_quantized"))
        advice = "pass x.int_repr() or x.dequantize()";
    else if (torch_is_functorch(object))
        advice = "inside torch.vmap and torch.func a tensor has no memory of its own: call it outside of them";
    else if (!PyErr_Occurred() && torch_is_true(object, "is_conj", true) == 1)
        advice = "a conjugate view holds numbers that are not conjugated yet; pass x.resolve_conj()";
    tenon__py_raise_again(error);
    return advice;
}

/* --------------------------------------------------------------------------------------------------------- the tensor itself
 *
 * A subclass or a mode may answer for the tensor by Python code. Here only C code of torch's runs: a tensor is asked after its
 * memory was read, and that code could replace it. */

/* The result of a method of torch.Tensor without arguments: a new reference, or NULL with an exception. */
static PyObject *torch_call_own(PyObject *object, _Atomic(PyObject *) *place, const char *name)
{
    PyObject *method = atomic_load_explicit(place, memory_order_acquire);
    if (!method) {
        PyTypeObject *tensor = tenon__py_loaded_class("torch", "Tensor");
        method = tensor ? tenon__py_torch_keep(place, PyObject_GetAttrString((PyObject *)tensor, name)) : NULL;
        Py_XDECREF((PyObject *)tensor);
    }
    if (!method && !PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "tenon: this torch has no torch.Tensor");
    return method ? PyObject_CallFunctionObjArgs(method, object, NULL) : NULL;
}

/* Whether a method of torch.Tensor returns true: 1, 0, or -1 with an exception. */
static int torch_has_bit(PyObject *object, _Atomic(PyObject *) *place, const char *name)
{
    PyObject *answer = torch_call_own(object, place, name);
    int truth = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return truth;
}

/* Return ask(object, context), a number or -1 with an exception, while no subclass and no mode is asked. */
static int torch_ask_itself(PyObject *object, int (*ask)(PyObject *object, const void *context), const void *context)
{
    if (Py_TYPE(object) == tenon__py_torch.tensor && !tenon__py_torch_has_function_mode())
        return ask(object, context);
    PyObject *module = tenon__py_loaded("torch._C");
    if (!module && !PyErr_Occurred()) /* not torch itself: it has neither subclasses nor modes that could be asked */
        return ask(object, context);
    PyObject *guard = module ? PyObject_CallMethod(module, "DisableTorchFunction", NULL) : NULL;
    PyObject *entered = guard ? PyObject_CallMethod(guard, "__enter__", NULL) : NULL;
    int result = entered ? ask(object, context) : -1;
    if (entered) {
        PyObject *error = result < 0 ? tenon__py_take_exception() : NULL;
        PyObject *left = PyObject_CallMethod(guard, "__exit__", "OOO", Py_None, Py_None, Py_None);
        if (!left)
            result = -1;
        else if (error)
            PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_XDECREF(left);
        Py_XDECREF(error);
    }
    Py_XDECREF(module);
    Py_XDECREF(guard);
    Py_XDECREF(entered);
    return result;
}

/* Refuse a conjugated or negated view. */
static int torch_refuse_bits(PyObject *object, const tenon_view *view)
{
    int conjugated =
        view->dtype.code == TENON_CODE_COMPLEX ? torch_has_bit(object, &tenon__py_torch.is_conj, "is_conj") : 0;
    if (conjugated > 0)
        tenon__py_set_error(PyExc_BufferError, object,
                            "a conjugate view holds numbers that are not conjugated yet; pass x.resolve_conj()");
    int negated = conjugated ? 0 : torch_has_bit(object, &tenon__py_torch.is_neg, "is_neg");
    if (negated > 0)
        tenon__py_set_error(PyExc_BufferError, object,
                            "a negated view holds numbers that are not negated yet; pass x.resolve_neg()");
    return conjugated || negated ? -1 : 0;
}

/* The dtype as torch.Tensor says it, for a tensor of any class: a new reference, or NULL with an exception. */
static PyObject *torch_own_dtype(PyObject *object)
{
    PyObject *descriptor = atomic_load_explicit(&tenon__py_torch.dtype, memory_order_acquire);
    if (!descriptor) {
        PyTypeObject *tensor = tenon__py_loaded_class("torch", "Tensor");
        descriptor = tensor ? PyObject_GetAttrString((PyObject *)tensor, "dtype") : NULL;
        Py_XDECREF((PyObject *)tensor);
        if (descriptor && Py_TYPE(descriptor) == &PyGetSetDescr_Type)
            descriptor = tenon__py_torch_keep(&tenon__py_torch.dtype, descriptor);
        else
            Py_CLEAR(descriptor);
    }
    if (!descriptor && !PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "tenon: this torch has no torch.Tensor.dtype");
    return descriptor ? tenon__py_get_by(descriptor, object) : NULL;
}

/* torch describes the integers of 1 to 7 bits as if they had 8. */
static int torch_refuse_dtype(PyObject *object, const tenon_view *view)
{
    bool is_signed = view->dtype.code == TENON_CODE_INT;
    if (view->dtype.bits != 8 || (!is_signed && view->dtype.code != TENON_CODE_UINT))
        return 0;
    const char *name = is_signed ? "int8" : "uint8";
    PyObject *torch = tenon__py_loaded("torch");
    PyObject *expected = torch ? PyObject_GetAttrString(torch, name) : NULL;
    PyObject *found = expected ? torch_own_dtype(object) : NULL;
    bool same = found == expected;
    if (found && !same)
        tenon__py_set_error(PyExc_TypeError, object, "Tenon does not know its dtype, %R; pass x.view(torch.%s)", found,
                            name);
    Py_XDECREF(torch);
    Py_XDECREF(expected);
    Py_XDECREF(found);
    return found && same ? 0 : -1;
}

/* The storage of a tensor with elements may have been resized to 0. torch then computes an address from NULL and the offset. */
static int torch_refuse_freed(PyObject *object, const tenon_view *view)
{
    PyObject *number = view->numel ? torch_call_own(object, &tenon__py_torch.storage_offset, "storage_offset") : NULL;
    if (!number)
        return view->numel ? -1 : 0;
    uint64_t offset = PyLong_AsUnsignedLongLong(number) * view->dtype.bits * view->dtype.lanes / 8;
    Py_DECREF(number);
    if (PyErr_Occurred())
        return -1;
    return offset != (uintptr_t)view->data + view->byte_offset
               ? 0
               : tenon__py_set_error(PyExc_BufferError, object, TENON__PY_NO_MEMORY);
}

static int torch_ask_memory(PyObject *object, const void *context)
{
    const tenon_view *view = context;
    if (!tenon__py_torch_has_dense_keys(object) && torch_refuse_bits(object, view) < 0)
        return -1;
    if (tenon__py_torch_struct_agrees(object, view))
        return 0;
    return torch_refuse_dtype(object, view) < 0 ? -1 : torch_refuse_freed(object, view);
}

int tenon__py_torch_check_memory(PyObject *object, const tenon_view *view)
{
    return torch_ask_itself(object, torch_ask_memory, view);
}

static int torch_refuse_write(PyObject *object)
{
    int recorded = tenon__py_torch_requires_grad(object);
    if (recorded > 0)
        recorded = tenon__py_autograd_records("torch");
    if (recorded > 0)
        tenon__py_set_error(PyExc_RuntimeError, object,
                            "it requires grad, and a write would not be seen by autograd; pass x.detach() or use "
                            "torch.no_grad()");
    int tangent = recorded ? 0 : tenon__py_torch_tangent(object);
    if (tangent > 0)
        tenon__py_set_error(PyExc_RuntimeError, object,
                            "it carries a tangent (torch.autograd.forward_ad), which a write would not change; pass "
                            "unpack_dual(x).primal");
    return recorded || tangent ? -1 : 0;
}

static int torch_ask(PyObject *object, const void *context)
{
    const tenon_py_borrowed *borrowed = context;
    if (torch_ask_memory(object, &borrowed->view) < 0)
        return -1;
    return borrowed->private_.flags & TENON_PY_WRITE ? torch_refuse_write(object) : 0;
}

static int torch_check(PyObject *object, const tenon_py_borrowed *borrowed)
{
    bool writes = borrowed->private_.flags & TENON_PY_WRITE;
    if (tenon__py_torch_has_dense_keys(object) && tenon__py_torch_struct_agrees(object, &borrowed->view) &&
        (!writes || tenon__py_torch_is_unrecorded(object)))
        return 0;
    return torch_ask_itself(object, torch_ask, borrowed);
}

/* autograd counts what is written, so that it notices. */
static void torch_after_write(PyObject *object)
{
    PyObject *module = tenon__py_loaded("torch.autograd.graph");
    PyObject *done = module ? PyObject_CallMethod(module, "increment_version", "O", object) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(done);
    tenon__py_clear_ignorable_error(); /* inference tensors have no counter, nor has autograd anything to do with them */
}

static int torch_points_to(PyObject *object, const void *data)
{
    PyObject *address = torch_call_own(object, &tenon__py_torch.data_ptr, "data_ptr");
    int same = address ? PyLong_AsVoidPtr(address) == data : -1;
    Py_XDECREF(address);
    return PyErr_Occurred() ? -1 : same;
}

/* A capsule holds the storage, but a storage can be resized. */
static bool torch_has_data(PyObject *object, const void *data)
{
    return torch_ask_itself(object, torch_points_to, data) == 1;
}

static PyObject *torch_pin(PyObject *object)
{
    return PyObject_CallMethod(object, "detach", NULL);
}

/* ------------------------------------------------------------------------------------------------------------ types */

/* Why objects of a subclass are refused, or NULL; perhaps with an exception. */
static const char *torch_refusal(PyTypeObject *type, PyTypeObject *tensor)
{
    int overridden = tenon__py_overrides(type, tensor, "__torch_dispatch__");
    if (overridden)
        return "it is a fake or wrapper tensor (its class has its own __torch_dispatch__) and may have no memory; pass "
               "the tensor inside it";
    PyTypeObject *later = tenon__py_loaded_class("torch.nn.parameter", "UninitializedTensorMixin");
    bool is_lazy = later && PyType_IsSubtype(type, later);
    Py_XDECREF((PyObject *)later);
    return is_lazy ? "a lazy module's parameter has neither shape nor memory yet; run the module once, or call "
                     "x.materialize(shape)"
                   : NULL;
}

/* Objects of torch.nn.Parameter itself are tensors like others. */
static int torch_learn_parameter(PyTypeObject *type, tenon__py_kind *kind)
{
    PyTypeObject *parameter = tenon__py_loaded_class("torch.nn.parameter", "Parameter");
    int readable = parameter == type ? tenon__py_torch_learn_struct(kind) : 0;
    if (readable > 0)
        atomic_store_explicit(&tenon__py_torch.parameter, type, memory_order_release);
    Py_XDECREF((PyObject *)parameter);
    return readable;
}

/* Learn torch.Tensor itself from the first tensor of any class, so that it is known which classes are torch's. */
static int torch_learn_base(PyTypeObject *tensor)
{
    tenon__py_kind kind = {.device_type = TENON_CPU};
    if (atomic_load_explicit(&tenon__py_torch.tensor, memory_order_acquire))
        return 0;
    atomic_init(&kind.type, tensor);
    return tenon__py_exchange_table(tensor, &kind.table) < 0 ? -1 : tenon__py_torch_learn_type(&kind);
}

static bool torch_recognise_again(PyTypeObject *type, tenon__py_kind *kind)
{
    PyTypeObject *tensor = atomic_load_explicit(&tenon__py_torch.tensor, memory_order_acquire);
    if (!tensor || !PyType_IsSubtype(type, tensor))
        return false;
    kind->table = atomic_load_explicit(&tenon__py_torch.table, memory_order_relaxed);
    return true;
}

static int torch_recognise(PyObject *object, tenon__py_kind *kind)
{
    PyTypeObject *type = Py_TYPE(object), *tensor = tenon__py_loaded_class("torch", "Tensor");
    int readable = 0;
    if (tensor && PyType_IsSubtype(type, tensor)) {
        kind->owner = &tenon__py_torch_producer;
        if (tenon__py_exchange_table(type, &kind->table) < 0)
            readable = -1;
        else if (type == tensor)
            readable = tenon__py_torch_learn_type(kind);
        else if (!(kind->reason = torch_refusal(type, tensor)) && !PyErr_Occurred())
            readable = torch_learn_base(tensor) < 0 ? -1 : torch_learn_parameter(type, kind);
    }
    Py_XDECREF((PyObject *)tensor);
    return PyErr_Occurred() ? -1 : readable;
}

const tenon__py_producer tenon__py_torch_producer = {
    .name = "torch",
    .title = "torch",
    .takes_device = true,
    .waits = true,
    .is_writable = true,
    .cast = "to(torch.",
    .cast_end = ")",
    .to_cpu = {"", ".cpu()"},
    .to_cuda = {"", ".cuda()"},
    .to_c_order = {"", ".contiguous()"},
    .recognise = torch_recognise,
    .recognise_again = torch_recognise_again,
    .read = tenon__py_torch_read,
    .is_read_only = tenon__py_torch_is_read_only,
    .check = torch_check,
    .advice = tenon__py_torch_advice,
    .alias = torch_alias,
    .pin = torch_pin,
    .has_data = torch_has_data,
    .gradient = tenon__py_torch_gradient,
    .after_write = torch_after_write,
    .empty_in_c = tenon__py_torch_empty_in_c,
    .empty = tenon__py_torch_empty,
    .wrap = tenon__py_torch_wrap,
    .receive = tenon__py_torch_receive,
    .guard = tenon__py_torch_guard,
};

tenon__py_torch_state tenon__py_torch = {.ranges_lock = ATOMIC_FLAG_INIT};

const tenon__py_framework tenon__py_framework_torch = {
    .producer = &tenon__py_torch_producer,
    .as = TENON_PY_AS_TORCH,
    .table = tenon__py_torch_table,
    .thread_count = tenon__py_torch_thread_count,
};
