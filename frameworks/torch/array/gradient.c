/* Gradients are never lost silently: autograd does not see what a C function does. */
#include "internal.h"

/* Looking a module or an attribute up takes longer than the rest. */
PyObject *tenon__py_torch_keep(_Atomic(PyObject *) *place, PyObject *made)
{
    PyObject *there = NULL;
    if (!made || atomic_compare_exchange_strong(place, &there, made))
        return made;
    Py_DECREF(made);
    return there;
}

static PyObject *torch_keep_name(_Atomic(PyObject *) *place, const char *name)
{
    PyObject *there = atomic_load_explicit(place, memory_order_acquire);
    // cppcheck-suppress CastIntegerToAddressAtReturn
    return there ? there : tenon__py_torch_keep(place, PyUnicode_InternFromString(name));
}

/* --------------------------------------------------------------------------------------------------- requires_grad */

/* The attribute of torch.Tensor itself, for a tensor of any class. */
static PyObject *torch_ask_tensor(PyObject *object)
{
    PyObject *requires_grad_getter = atomic_load_explicit(&tenon__py_torch.requires_grad_getter, memory_order_acquire);
    if (!requires_grad_getter) {
        PyTypeObject *tensor = tenon__py_loaded_class("torch", "Tensor");
        requires_grad_getter = tensor ? PyObject_GetAttrString((PyObject *)tensor, "requires_grad") : NULL;
        Py_XDECREF((PyObject *)tensor);
        if (!requires_grad_getter || Py_TYPE(requires_grad_getter) != &PyGetSetDescr_Type) {
            Py_XDECREF(requires_grad_getter);
            tenon__py_clear_ignorable_error();
            return PyErr_Occurred() ? NULL : PyObject_GetAttrString(object, "requires_grad");
        }
        requires_grad_getter = tenon__py_torch_keep(&tenon__py_torch.requires_grad_getter, requires_grad_getter);
    }
    return tenon__py_get_by(requires_grad_getter, object);
}

static PyObject *torch_ask_other(PyObject *object)
{
    PyObject *name = torch_keep_name(&tenon__py_torch.grad_name, "requires_grad");
    return name ? PyObject_GetAttr(object, name) : NULL;
}

/* Takes the answer, which may be NULL. */
static int torch_truth(PyObject *answer)
{
    int truth = answer ? (answer == Py_False ? 0 : PyObject_IsTrue(answer)) : -1;
    Py_XDECREF(answer);
    return truth;
}

int tenon__py_torch_requires_grad(PyObject *object)
{
    return torch_truth(torch_ask_tensor(object));
}

/* The same, by the code of a subclass if it has some. */
static int torch_requires_grad(PyObject *object)
{
    return torch_truth(Py_TYPE(object) == tenon__py_torch.tensor ? torch_ask_tensor(object) : torch_ask_other(object));
}

/* ------------------------------------------------------------------------------------------------------- grad mode */

static TENON__PY_NOINLINE int torch_find_records(void)
{
    void *library = tenon__py_torch_library();
    tenon__py_torch_flag records = NULL;
    if (!library || !tenon__py_symbol(library, "aoti_torch_grad_mode_is_enabled", &records))
        return tenon__py_autograd_records("torch");
    atomic_store_explicit(&tenon__py_torch.records, records, memory_order_release);
    return records();
}

int tenon__py_torch_records(void)
{
    tenon__py_torch_flag records = atomic_load_explicit(&tenon__py_torch.records, memory_order_acquire);
    return records ? records() : torch_find_records();
}

/* ---------------------------------------------------------------------------------------------------- forward mode */

/* NULL without an exception if the module has not been imported. */
static TENON__PY_NOINLINE PyObject *torch_find_forward_ad(void)
{
    PyObject *module = tenon__py_loaded("torch.autograd.forward_ad");
    PyObject *names =
        module && torch_keep_name(&tenon__py_torch.level_name, "_current_level") ? PyModule_GetDict(module) : NULL;
    Py_XINCREF(names);
    Py_XDECREF(module);
    // cppcheck-suppress CastIntegerToAddressAtReturn
    return tenon__py_torch_keep(&tenon__py_torch.forward_ad, names);
}

/* Whether forward-mode differentiation goes on anywhere: 1, 0, or -1 with an exception. There are no tangents outside of
 * torch.autograd.forward_ad.dual_level(). */
static int torch_in_dual_level(void)
{
    PyObject *names = atomic_load_explicit(&tenon__py_torch.forward_ad, memory_order_acquire);
    if (!names && !(names = torch_find_forward_ad()))
        return PyErr_Occurred() ? -1 : 0;
    PyObject *name = atomic_load_explicit(&tenon__py_torch.level_name, memory_order_relaxed);
    PyObject *level = PyDict_GetItemWithError(names, name);
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

static TENON__PY_NOINLINE int torch_followed(const char **why)
{
    *why = "it requires grad, and autograd does not see what this function does; pass x.detach(), use torch.no_grad(), "
           "or register a backward with tenon.torch_ops()";
    return tenon__py_torch_records();
}

static TENON__PY_NOINLINE int torch_has_tangent(PyObject *object, const char **why)
{
    *why = "it carries a tangent (torch.autograd.forward_ad), which this function does not see; pass "
           "unpack_dual(x).primal";
    return tenon__py_torch_tangent(object);
}

bool tenon__py_torch_has_function_mode(void)
{
    tenon__py_torch_count modes = atomic_load_explicit(&tenon__py_torch.function_modes, memory_order_acquire);
    if (!modes) {
        void *library = tenon__py_torch_library();
        if (!library || !tenon__py_symbol(library, "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", &modes))
            return true;
        atomic_store_explicit(&tenon__py_torch.function_modes, modes, memory_order_release);
    }
    return modes() != 0;
}

bool tenon__py_torch_is_untracked(const void *impl, bool *no_forward_ad)
{
    tenon__py_torch_impl_flag requires_grad =
        atomic_load_explicit(&tenon__py_torch.requires_grad, memory_order_acquire);
    tenon__py_torch_flag records = atomic_load_explicit(&tenon__py_torch.records, memory_order_acquire);
    if (!requires_grad || (requires_grad(impl) && (!records || records())))
        return false;
    int inside = *no_forward_ad ? 0 : torch_in_dual_level();
    if (inside < 0)
        PyErr_Clear(); /* the gradient check reports it */
    *no_forward_ad = inside == 0;
    return inside == 0;
}

/* Whether a tensor that autograd has recorded requires grad now: 1, 0, or -1 with an exception. */
static int torch_is_followed(PyObject *object, tenon__py_checks *checks)
{
    tenon__py_torch_impl_flag requires_grad =
        atomic_load_explicit(&tenon__py_torch.requires_grad, memory_order_acquire);
    const void *impl = requires_grad ? tenon__py_torch_impl_of(object) : NULL;
    if (impl)
        return requires_grad(impl);
    int followed = torch_requires_grad(object);
    checks->may_have_changed |= tenon__py_torch_has_function_mode();
    return followed;
}

int tenon__py_torch_gradient(PyObject *object, tenon__py_checks *checks, const char **why)
{
    if (tenon__py_torch_is_unrecorded(object))
        return 0;
    int followed = torch_is_followed(object, checks);
    if (followed > 0)
        followed = torch_followed(why);
    if (followed || checks->no_forward_ad)
        return followed;
    int inside = torch_in_dual_level();
    checks->no_forward_ad = inside == 0;
    checks->may_have_changed |= inside != 0;
    return inside > 0 ? torch_has_tangent(object, why) : inside;
}
