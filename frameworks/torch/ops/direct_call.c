/* The direct path of operators: call the function itself if torch would do nothing else, otherwise the operator. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- the state */

static struct {
    char off[200];       /* why operators are not called directly, or "" */
    _Atomic bool python; /* the dispatch keys of this torch do not show what is active */
} direct_state;

void tenon__torch_read_switch(void)
{
    const char *value = getenv("TENON_TORCH_DIRECT");
    if (value && strcmp(value, "0") == 0)
        PyOS_snprintf(direct_state.off, sizeof direct_state.off, "TENON_TORCH_DIRECT=0 is set");
}

void tenon__torch_direct_info(const char **direct, const char **why, const char **watch)
{
    PyObject *torch = tenon__py_loaded("torch");
    *why = *direct_state.off || torch ? direct_state.off : "torch has not been imported";
    *direct = **why ? "off" : "on";
    *watch = torch && !atomic_load(&direct_state.python) && tenon__torch_can_read_dispatch_keys() ? "tls" : "python";
    Py_XDECREF(torch);
    tenon__py_clear_ignorable_error();
}

/* ---------------------------------------------------------------------------------------------------------- the object */

enum { DIRECT_DEVICES = 2, DIRECT_WORDS = 4 };

/* The __self__ of the function that is called. Only `parts` holds references; the other objects are in it. */
typedef struct direct {
    PyObject_HEAD PyObject *parts; /* a tuple; NULL once the garbage collector has cleared it */
    PyObject *function;            /* what the operator's kernel calls */
    PyObject *op;                  /* the OpOverload */
    PyObject *record;              /* called with all arguments by position if autograd records; NULL: the operator */
    PyObject *keywords;            /* a tuple with the names of the keyword-only parameters, or NULL */
    PyObject *ask_watch;           /* asked instead of the dispatch keys whether anything is active, or NULL */
    PyObject *ask_index;           /* returns the index of a tensor's key set in `plain`, or -1 */
    PyObject *levels, *level_name; /* the dict of torch.autograd.forward_ad, "_current_level" */
    PyObject *grad_name;           /* "requires_grad" */
    PyTypeObject *tensor, *parameter;
    const char *kinds; /* one letter for each parameter, see has_kind */
    Py_ssize_t nparams, npositional;
    size_t ninactive_keys;
    tenon__torch_dispatch_keys inactive_keys[DIRECT_WORDS]; /* of a thread in which nothing is active */
    uint64_t plain[2 * DIRECT_DEVICES]; /* the key sets of plain tensors, two for each device; 0: not supported */
} direct;

static int direct_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT((PyObject *)Py_TYPE(self));
    Py_VISIT(((direct *)self)->parts);
    return 0;
}

static int direct_clear(PyObject *self)
{
    Py_CLEAR(((direct *)self)->parts);
    return 0;
}

static void direct_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    direct_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF((PyObject *)type);
}

/* ---------------------------------------------------------------------------------------------------------- arguments */

/* Whether the object is exactly an int of 64 bits or, for a float, exactly a float or an int that a double can represent. */
static bool is_number(PyObject *object, bool is_float)
{
    if (is_float && PyFloat_CheckExact(object))
        return true;
    int overflow = 0;
    long long value = PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : (overflow = 1, 0);
    const long long most = 1LL << 53;
    return !overflow && (!is_float || (value >= -most && value <= most));
}

static bool is_number_list(PyObject *object, bool of_floats)
{
    bool is_tuple = PyTuple_CheckExact(object);
    if (!is_tuple && !PyList_CheckExact(object))
        return false;
    Py_ssize_t size = is_tuple ? PyTuple_Size(object) : PyList_Size(object);
    for (Py_ssize_t i = 0; i < size; i++)
        if (!is_number(is_tuple ? PyTuple_GetItem(object, i) : PyList_GetItem(object, i), of_floats))
            return false;
    return true;
}

/* Whether an argument that is not a tensor is exactly of its kind. Capital letters: it may be None. */
static bool has_kind(PyObject *object, char kind)
{
    bool optional = kind < 'a';
    if (object == Py_None)
        return optional;
    switch (optional ? kind - 'A' + 'a' : kind) {
    case 'f':
        return is_number(object, true);
    case 'i':
        return is_number(object, false);
    case 'b':
        return PyBool_Check(object);
    case 's':
        return PyUnicode_CheckExact(object);
    case 'm': /* floats */
        return is_number_list(object, true);
    case 'n': /* ints */
        return is_number_list(object, false);
    default:
        return false;
    }
}

/* The index of the tensor's key set in `plain`; -1 if it is not there; -2 with an exception. */
static TENON__PY_NOINLINE long ask_index(const direct *d, PyObject *tensor)
{
    PyObject *answer = PyObject_CallFunctionObjArgs(d->ask_index, tensor, NULL);
    long index = answer ? PyLong_AsLong(answer) : -2;
    Py_XDECREF(answer);
    return PyErr_Occurred() ? -2 : index;
}

/* The same of a tensor whose struct can be read. */
static long find_index(const direct *d, uint64_t keys)
{
    for (long i = 0; i < 2 * DIRECT_DEVICES; i++)
        if (d->plain[i] == keys)
            return i;
    return -1;
}

static bool is_tensor_kind(char kind)
{
    return kind == 't' || kind == 'T';
}

/* Whether all arguments can be passed to the function: 1, 0, or -1 with an exception. *unrecorded: autograd has never had
 * to do with any of them. */
static int take_arguments(const direct *d, PyObject *const *args, bool *unrecorded)
{
    long device = -1;
    *unrecorded = true;
    for (Py_ssize_t i = 0; i < d->nparams; i++) {
        PyObject *object = args[i];
        if (!is_tensor_kind(d->kinds[i]) || (d->kinds[i] == 'T' && object == Py_None)) {
            if (!is_tensor_kind(d->kinds[i]) && !has_kind(object, d->kinds[i]))
                return 0;
            continue;
        }
        if (Py_TYPE(object) != d->tensor && Py_TYPE(object) != d->parameter)
            return 0;
        uint64_t keys;
        bool is_unrecorded = false;
        bool is_read = tenon__py_torch_peek_keys(object, &keys, &is_unrecorded);
        long index = is_read ? find_index(d, keys) : ask_index(d, object);
        if (index < 0)
            return index == -1 ? 0 : -1;
        if (device >= 0 && device != index / 2)
            return 0; /* on several devices: torch chooses the kernel */
        device = index / 2;
        *unrecorded &= is_unrecorded;
    }
    return 1;
}

/* --------------------------------------------------------------------------------------------------------------- call */

/* Whether anything is active in this thread that must see the operator: 1, 0, or -1 with an exception. */
static int is_watched(const direct *d)
{
    if (!d->ask_watch)
        return tenon__torch_has_active_mode(d->inactive_keys, d->ninactive_keys);
    PyObject *answer = PyObject_CallObject(d->ask_watch, NULL);
    int truth = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return truth;
}

/* Whether forward-mode differentiation goes on: 1, 0, or -1 with an exception. */
static int in_dual_level(const direct *d)
{
    PyObject *level = PyDict_GetItemWithError(d->levels, d->level_name);
    return level && PyLong_Check(level) ? PyLong_AsLong(level) >= 0 : PyErr_Occurred() ? -1 : 1;
}

/* Whether the tensor requires grad: 1, 0, or -1 with an exception. */
static int requires_grad(const direct *d, PyObject *tensor)
{
    tenon__py_torch_impl_flag flag = atomic_load_explicit(&tenon__py_torch.requires_grad, memory_order_acquire);
    const void *impl = flag ? tenon__py_torch_impl_of(tensor) : NULL;
    if (impl)
        return flag(impl);
    PyObject *answer = PyObject_GetAttr(tensor, d->grad_name);
    int truth = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return truth;
}

/* Whether one of the tensors does; likewise. */
static int any_requires_grad(const direct *d, PyObject *const *args)
{
    int truth = 0;
    for (Py_ssize_t i = 0; i < d->nparams && truth == 0; i++) {
        if (!is_tensor_kind(d->kinds[i]) || args[i] == Py_None)
            continue;
        truth = requires_grad(d, args[i]);
    }
    return truth;
}

/* What to call; TENON__TORCH_FAILED with an exception. */
static tenon__torch_way choose_way(const direct *d, PyObject *const *args)
{
    bool unrecorded;
    int watched = is_watched(d);
    int plain = watched ? 0 : take_arguments(d, args, &unrecorded);
    if (watched < 0 || plain < 0)
        return TENON__TORCH_FAILED;
    if (!plain)
        return TENON__TORCH_OPERATOR;
    if (unrecorded)
        return TENON__TORCH_FUNCTION;
    int dual = in_dual_level(d);
    if (dual)
        return dual < 0 ? TENON__TORCH_FAILED : TENON__TORCH_OPERATOR;
    int followed = tenon__py_torch_records();
    if (followed > 0)
        followed = any_requires_grad(d, args);
    if (followed < 1)
        return followed < 0 ? TENON__TORCH_FAILED : TENON__TORCH_FUNCTION;
    return d->record ? TENON__TORCH_RECORD : TENON__TORCH_OPERATOR;
}

static PyObject *call_direct(PyObject *self, PyObject *const *args, Py_ssize_t nargs);

/* The __self__ of a function that make_direct has made, or NULL. */
static const direct *direct_of(PyObject *function)
{
    PyCFunction wanted = (PyCFunction)(void (*)(void))call_direct;
    return PyCFunction_Check(function) && PyCFunction_GetFunction(function) == wanted
               ? (const direct *)PyCFunction_GetSelf(function)
               : NULL;
}

Py_ssize_t tenon__torch_direct_count(PyObject *function)
{
    const direct *d = direct_of(function);
    return d ? d->nparams : -1;
}

tenon__torch_way tenon__torch_direct_way(PyObject *function, PyObject *const *args)
{
    const direct *d = direct_of(function);
    return d && d->parts ? choose_way(d, args) : TENON__TORCH_OPERATOR;
}

/* All arguments come by position, in the order of the parameters. */
static PyObject *call_direct(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    const direct *d = (const direct *)self;
    if (!d->parts || nargs != d->nparams)
        return PyErr_Format(PyExc_TypeError, "direct(): expected one argument for each parameter");
    tenon__torch_way way = choose_way(d, args);
    if (way == TENON__TORCH_FAILED)
        return NULL;
    if (way == TENON__TORCH_RECORD)
        return PyObject_Vectorcall(d->record, args, (size_t)nargs, NULL);
    return PyObject_Vectorcall(way == TENON__TORCH_FUNCTION ? d->function : d->op, args, (size_t)d->npositional,
                               d->keywords);
}

/* ----------------------------------------------------------------------------------------------------- Python's part */

static PyType_Slot direct_slots[] = {
    {Py_tp_traverse, TENON__PY_SLOT(direct_traverse)},
    {Py_tp_clear, TENON__PY_SLOT(direct_clear)},
    {Py_tp_dealloc, TENON__PY_SLOT(direct_dealloc)},
    {0, NULL},
};

static PyType_Spec direct_spec = {
    .name = "tenon.Direct",
    .basicsize = sizeof(direct),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = direct_slots,
};

static PyObject *or_null(PyObject *object)
{
    return object == Py_None ? NULL : object;
}

/* Copy bytes that the package's Python files have packed. */
static bool unpack(PyObject *bytes, void *out, Py_ssize_t room)
{
    Py_ssize_t size = PyBytes_Size(bytes);
    if (size < 0 || size > room)
        return false;
    memcpy(out, PyBytes_AsString(bytes), (size_t)size);
    return true;
}

static PyObject *make_direct(PyObject *module, PyObject *parts)
{
    static PyMethodDef method = {"direct", (PyCFunction)(void (*)(void))call_direct, METH_FASTCALL, NULL};
    static _Atomic(PyTypeObject *) direct_type; /* torch loads only in the main interpreter */
    PyObject *kinds, *keywords, *harmless, *plain, *record, *tensor, *parameter;
    direct made;
    (void)module;
    if (!PyArg_ParseTuple(parts, "OOOSOSOO!OOOOO:direct", &made.function, &made.op, &record, &kinds, &keywords, &plain,
                          &harmless, &PyDict_Type, &made.levels, &made.level_name, &made.grad_name, &tensor, &parameter,
                          &made.ask_index))
        return NULL;
    bool has_key_sets = PyBytes_Check(harmless);
    PyTypeObject *type = tenon__py_make_type(&direct_type, &direct_spec);
    direct *self = type ? PyObject_GC_New(direct, type) : NULL;
    if (!self)
        return NULL;
    self->parts = parts;
    Py_INCREF(parts);
    self->function = made.function;
    self->op = made.op;
    self->record = or_null(record);
    self->keywords = or_null(keywords);
    self->ask_watch = has_key_sets ? NULL : harmless;
    self->ask_index = made.ask_index;
    self->levels = made.levels;
    self->level_name = made.level_name;
    self->grad_name = made.grad_name;
    self->tensor = (PyTypeObject *)tensor;
    self->parameter = (PyTypeObject *)parameter;
    self->kinds = PyBytes_AsString(kinds);
    self->nparams = PyBytes_Size(kinds);
    self->npositional = self->nparams - (self->keywords ? PyTuple_Size(keywords) : 0);
    self->ninactive_keys = has_key_sets ? (size_t)PyBytes_Size(harmless) / sizeof *self->inactive_keys : 0;
    memset(self->plain, 0, sizeof self->plain);
    PyObject *function = NULL;
    if ((has_key_sets && !unpack(harmless, self->inactive_keys, sizeof self->inactive_keys)) ||
        !unpack(plain, self->plain, sizeof self->plain))
        PyErr_SetString(PyExc_ValueError, "direct(): too many sets of dispatch keys");
    else
        function = PyCFunction_NewEx(&method, (PyObject *)self, NULL);
    PyObject_GC_Track((PyObject *)self);
    Py_DECREF((PyObject *)self);
    return function;
}

static PyObject *get_dispatch_keys(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    tenon__torch_dispatch_keys inactive_keys;
    if (!tenon__torch_read_dispatch_keys(&inactive_keys))
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)&inactive_keys, sizeof inactive_keys);
}

static PyObject *watch_by_python(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    atomic_store(&direct_state.python, true);
    Py_RETURN_NONE;
}

static PyObject *switch_off(PyObject *module, PyObject *why)
{
    const char *text = PyUnicode_AsUTF8AndSize(why, NULL);
    (void)module;
    if (!text)
        return NULL;
    PyOS_snprintf(direct_state.off, sizeof direct_state.off, "%s", text);
    Py_RETURN_NONE;
}

PyMethodDef tenon__torch_methods[] = {
    {"direct", make_direct, METH_VARARGS, NULL},
    {"dispatch_keys", get_dispatch_keys, METH_NOARGS, NULL},
    {"watch_by_python", watch_by_python, METH_NOARGS, NULL},
    {"direct_off", switch_off, METH_O, NULL},
    {"skip_autograd", tenon__torch_make_skip_autograd, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
