/* The direct path of operators: call the function itself if torch would do nothing else, otherwise the operator. */
#include "torch_bridge.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- the state */

static struct {
    const char *off;     /* why the switch is off, or NULL; read when the package is imported */
    _Atomic bool python; /* the words of this torch do not show what is active */
} direct_state;

void tenon__torch_read_switch(void)
{
    const char *value = getenv("TENON_TORCH_DIRECT");
    direct_state.off = value && strcmp(value, "0") == 0 ? "TENON_TORCH_DIRECT=0 is set" : NULL;
}

void tenon__torch_direct_info(const char **direct, const char **why, const char **watch)
{
    PyObject *torch = tenon__py_loaded("torch");
    *why = direct_state.off ? direct_state.off : torch ? "" : "torch has not been imported";
    *direct = **why ? "off" : "on";
    *watch = torch && !atomic_load(&direct_state.python) && tenon__torch_can_watch() ? "tls" : "python";
    Py_XDECREF(torch);
    tenon__py_clear_ignorable_error();
}

/* ---------------------------------------------------------------------------------------------------------- arguments */

/* What the function that is called holds: its __self__ is a tuple of these, which the garbage collector knows. */
enum {
    DIRECT_FUNCTION, /* what the operator's kernel calls */
    DIRECT_OPERATOR, /* the OpOverload */
    DIRECT_RECORD,   /* called with all arguments by position if autograd records, or None: the operator */
    DIRECT_KINDS,    /* bytes: one letter for each parameter, see has_kind */
    DIRECT_KEYWORDS, /* a tuple with the names of the keyword-only parameters, or None */
    DIRECT_PLAIN, /* bytes: uint64_t[]; the key sets of plain tensors, two for each device; 0 if it is not supported */
    DIRECT_HARMLESS, /* bytes: tenon__torch_words[], or a function; see look_around */
    DIRECT_LEVELS,   /* the dict of torch.autograd.forward_ad, and "_current_level" */
    DIRECT_LEVEL_NAME,
    DIRECT_GRAD_NAME, /* "requires_grad" */
    DIRECT_TENSOR,    /* torch.Tensor */
    DIRECT_PARAMETER, /* torch.nn.Parameter */
    DIRECT_INDEX,     /* a function that returns the index of a tensor's key set in DIRECT_PLAIN, or -1 */
    DIRECT_PARTS
};

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

static bool is_list(PyObject *object, bool of_floats)
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
        return is_list(object, true);
    case 'n': /* ints */
        return is_list(object, false);
    default:
        return false;
    }
}

/* The index of the tensor's key set in DIRECT_PLAIN; -1 if it is not plain; -2 with an exception. */
static TENON__PY_NOINLINE long ask_index(PyObject *self, PyObject *tensor)
{
    PyObject *answer = PyObject_CallFunctionObjArgs(PyTuple_GetItem(self, DIRECT_INDEX), tensor, NULL);
    long index = answer ? PyLong_AsLong(answer) : -2;
    Py_XDECREF(answer);
    return PyErr_Occurred() ? -2 : index;
}

/* The same of a tensor whose struct can be read. */
static long find_index(PyObject *self, uint64_t keys)
{
    PyObject *plain = PyTuple_GetItem(self, DIRECT_PLAIN);
    const char *all = PyBytes_AsString(plain);
    long count = (long)(PyBytes_Size(plain) / (Py_ssize_t)sizeof keys);
    for (long i = 0; i < count; i++)
        if (memcmp(all + (size_t)i * sizeof keys, &keys, sizeof keys) == 0)
            return i;
    return -1;
}

/* Whether the tensor requires grad: 1, 0, or -1 with an exception. */
static int requires_grad(PyObject *self, PyObject *tensor)
{
    PyObject *answer = PyObject_GetAttr(tensor, PyTuple_GetItem(self, DIRECT_GRAD_NAME));
    int truth = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return truth;
}

/* Whether the tensors can be passed to the function: 1, 0, or -1 with an exception. *records: autograd records, and is set
 * to false if no tensor requires grad. */
static int take_tensors(PyObject *self, PyObject *const *args, const char *kinds, Py_ssize_t count, bool *records)
{
    PyTypeObject *tensor = (PyTypeObject *)PyTuple_GetItem(self, DIRECT_TENSOR);
    PyTypeObject *parameter = (PyTypeObject *)PyTuple_GetItem(self, DIRECT_PARAMETER);
    long device = -1;
    int followed = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *object = args[i];
        if ((kinds[i] != 't' && kinds[i] != 'T') || (kinds[i] == 'T' && object == Py_None))
            continue;
        if (Py_TYPE(object) != tensor && Py_TYPE(object) != parameter)
            return 0;
        uint64_t keys;
        bool unrecorded = false;
        bool is_read = tenon__py_torch_peek_keys(object, &keys, &unrecorded);
        long index = is_read ? find_index(self, keys) : ask_index(self, object);
        if (index < 0)
            return index == -1 ? 0 : -1;
        if (device >= 0 && device != index / 2)
            return 0; /* on several devices: torch chooses the kernel */
        device = index / 2;
        if (*records && !followed && !unrecorded && (followed = requires_grad(self, object)) < 0)
            return -1;
    }
    *records = followed;
    return 1;
}

/* --------------------------------------------------------------------------------------------------------------- call */

/* Whether forward-mode differentiation goes on: 1, 0, or -1 with an exception. */
static int in_dual_level(PyObject *self)
{
    PyObject *level =
        PyDict_GetItemWithError(PyTuple_GetItem(self, DIRECT_LEVELS), PyTuple_GetItem(self, DIRECT_LEVEL_NAME));
    return level && PyLong_Check(level) ? PyLong_AsLong(level) >= 0 : PyErr_Occurred() ? -1 : 1;
}

/* Whether anything is active in this thread that must see the operator, and whether autograd records: 1, 0, or -1 with an
 * exception. The function that is asked instead of the words returns None or whether autograd records. */
static int look_around(PyObject *self, bool *records)
{
    PyObject *harmless = PyTuple_GetItem(self, DIRECT_HARMLESS);
    if (PyBytes_Check(harmless)) {
        const void *words = PyBytes_AsString(harmless);
        if (tenon__torch_is_watched(words, (size_t)PyBytes_Size(harmless) / sizeof(tenon__torch_words)))
            return 1;
        *records = tenon__torch_records();
        return in_dual_level(self);
    }
    PyObject *answer = PyObject_CallObject(harmless, NULL);
    if (!answer)
        return -1;
    *records = answer == Py_True;
    int watched = answer == Py_None ? 1 : in_dual_level(self);
    Py_DECREF(answer);
    return watched;
}

/* All arguments come by position, in the order of the parameters. */
static PyObject *call_direct(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *kinds_object = PyTuple_GetItem(self, DIRECT_KINDS), *keywords = PyTuple_GetItem(self, DIRECT_KEYWORDS);
    const char *kinds = PyBytes_AsString(kinds_object);
    bool records = false;
    if (nargs != PyBytes_Size(kinds_object))
        return PyErr_Format(PyExc_TypeError, "direct(): expected one argument for each parameter");
    int watched = look_around(self, &records);
    int plain = watched ? 0 : take_tensors(self, args, kinds, nargs, &records);
    if (watched < 0 || plain < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < nargs && plain; i++)
        plain = kinds[i] == 't' || kinds[i] == 'T' || has_kind(args[i], kinds[i]);
    PyObject *record = PyTuple_GetItem(self, DIRECT_RECORD);
    if (plain && records && record != Py_None)
        return PyObject_Vectorcall(record, args, (size_t)nargs, NULL);
    PyObject *target = PyTuple_GetItem(self, plain && !records ? DIRECT_FUNCTION : DIRECT_OPERATOR);
    if (keywords == Py_None)
        return PyObject_Vectorcall(target, args, (size_t)nargs, NULL);
    return PyObject_Vectorcall(target, args, (size_t)(nargs - PyTuple_Size(keywords)), keywords);
}

/* ----------------------------------------------------------------------------------------------------- Python's part */

static PyObject *make_direct(PyObject *module, PyObject *parts)
{
    static PyMethodDef method = {"direct", (PyCFunction)(void (*)(void))call_direct, METH_FASTCALL, NULL};
    (void)module;
    if (PyTuple_Size(parts) != DIRECT_PARTS)
        return PyErr_Format(PyExc_TypeError, "torch_direct(): expected %d arguments", (int)DIRECT_PARTS);
    return PyCFunction_NewEx(&method, parts, NULL);
}

static PyObject *get_words(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    tenon__torch_words words;
    if (!tenon__torch_read_words(&words))
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)&words, sizeof words);
}

static PyObject *watch_by_python(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    atomic_store(&direct_state.python, true);
    Py_RETURN_NONE;
}

PyMethodDef tenon__torch_methods[] = {
    {"torch_direct", make_direct, METH_VARARGS, NULL},
    {"torch_words", get_words, METH_NOARGS, NULL},
    {"torch_watch_by_python", watch_by_python, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
