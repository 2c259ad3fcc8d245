/* Conversion of Python arguments to the values that a signature asks for. */
#include "internal.h"

#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- errors */

static int raise_argument(const tenon__py_function *function, const char *argument, PyObject *exception,
                          const char *format, va_list arguments)
{
    PyObject *what = PyUnicode_FromFormatV(format, arguments);
    if (what)
        PyErr_Format(exception, "%s(): argument '%s': %U", function->signature->name, argument, what);
    Py_XDECREF(what);
    return -1;
}

int tenon__py_argument_error(const tenon__py_function *function, const char *argument, PyObject *exception,
                             const char *format, ...)
{
    va_list arguments;
    if (tenon__py_note_mismatch(function)) {
        PyErr_SetNone(exception);
        return -1;
    }
    va_start(arguments, format);
    raise_argument(function, argument, exception, format, arguments);
    va_end(arguments);
    return -1;
}

int tenon__py_argument_failure(const tenon__py_function *function, const char *argument, PyObject *exception,
                               const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    raise_argument(function, argument, exception, format, arguments);
    va_end(arguments);
    return -1;
}

int tenon__py_wrong_type(const tenon__py_function *function, const tenon_parameter *param, PyObject *object)
{
    PyObject *name = tenon__py_type_name(object);
    if (name)
        tenon__py_argument_error(function, param->name, PyExc_TypeError, "expected %s, got %U", param->type, name);
    Py_XDECREF(name);
    return -1;
}

/* Whether the message is one of the bridge's: those begin with the name of the object's type. */
static bool is_ours(PyObject *error, PyObject *object)
{
    PyObject *message = PyObject_Str(error), *name = message ? tenon__py_type_name(object) : NULL;
    const char *text = name ? PyUnicode_AsUTF8AndSize(message, NULL) : NULL;
    const char *start = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    size_t length = start ? strlen(start) : 0;
    bool ours = text && start && strncmp(text, start, length) == 0 && strncmp(text + length, ": ", 2) == 0;
    Py_XDECREF(message);
    Py_XDECREF(name);
    return ours;
}

/* Only if Python has notes (3.11) and no other exception was raised. */
static void add_note(PyObject *error, const char *function, const char *part)
{
    tenon__py_clear_ignorable_error();
    if (PyErr_Occurred())
        return;
    PyObject *note = PyUnicode_FromFormat("%s(): %s", function, part);
    PyObject *done = note ? PyObject_CallMethod(error, "add_note", "O", note) : NULL;
    Py_XDECREF(note);
    Py_XDECREF(done);
}

void tenon__py_note_argument(const tenon__py_function *function, const char *argument)
{
    char part[TENON_NAME_SIZE + 40], start[TENON_NAME_SIZE + 4];
    PyOS_snprintf(part, sizeof part, "argument '%s'", argument);
    PyOS_snprintf(start, sizeof start, "%s(): ", function->signature->name);
    PyObject *error = tenon__py_take_exception();
    PyObject *message = error ? PyObject_Str(error) : NULL;
    const char *text = message ? PyUnicode_AsUTF8AndSize(message, NULL) : NULL;
    if (error && !(text && strncmp(text, start, strlen(start)) == 0))
        add_note(error, function->signature->name, part);
    Py_XDECREF(message);
    tenon__py_raise_again(error);
}

bool tenon__py_name_part(const char *function, const char *part, PyObject *object)
{
    const tenon__py_producer *owner;
    if (object && tenon__py_is_deleted(object, &owner)) {
        PyErr_Format(PyExc_ValueError, "%s(): %s: this %s array was deleted or donated", function, part, owner->title);
        return false;
    }
    PyObject *error = tenon__py_take_exception();
    if (!error)
        return false;
    PyObject *type = (PyObject *)Py_TYPE(error);
    bool is_builtin = type == PyExc_TypeError || type == PyExc_ValueError || type == PyExc_BufferError ||
                      type == PyExc_RuntimeError || type == PyExc_OverflowError;
    PyObject *named_message = is_builtin ? PyUnicode_FromFormat("%s(): %s: %S", function, part, error) : NULL;
    bool ours = named_message && (!object || is_ours(error, object));
    if (ours) {
        PyObject *arguments = PyTuple_Pack(1, named_message);
        if (arguments)
            PyObject_SetAttrString(error, "args", arguments);
        Py_XDECREF(arguments);
    } else { /* leave the producer's own exception as it is */
        add_note(error, function, part);
    }
    PyObject *cause = PyException_GetCause(error); /* what the producer raised */
    bool refused_by_us = ours && !cause;
    Py_XDECREF(cause);
    Py_XDECREF(named_message);
    tenon__py_raise_again(error);
    return refused_by_us;
}

bool tenon__py_raise_deleted(const tenon__py_function *function, const char *argument, PyObject *object)
{
    const tenon__py_producer *owner;
    if (!tenon__py_is_deleted(object, &owner))
        return false;
    tenon__py_argument_failure(function, argument, PyExc_ValueError, "this %s array was deleted or donated",
                               owner->title);
    return true;
}

void tenon__py_name_argument(const tenon__py_function *function, const char *argument, PyObject *object)
{
    char part[TENON_NAME_SIZE + 40];
    PyOS_snprintf(part, sizeof part, "argument '%s'", argument);
    if (tenon__py_name_part(function->signature->name, part, object))
        (void)tenon__py_note_mismatch(function);
}

/* ---------------------------------------------------------------------------------------- which argument is which */

/* The index of the parameter that a keyword names, or -1. `out` and `like` come after the parameters. */
static int32_t keyword_index(const tenon__py_function *function, PyObject *keyword)
{
    int32_t count = function->signature->nparams;
    for (int32_t i = 0; i < count + 2; i++)
        if (function->names[i] == keyword) /* both are usually interned */
            return i;
    for (int32_t i = 0; i < count; i++)
        if (PyUnicode_CompareWithASCIIString(keyword, function->signature->params[i].name) == 0)
            return i;
    if (PyUnicode_CompareWithASCIIString(keyword, "out") == 0)
        return count;
    return PyUnicode_CompareWithASCIIString(keyword, "like") == 0 ? count + 1 : -1;
}

static int raise_too_many(const tenon__py_function *function, Py_ssize_t nargs, PyObject *const *given)
{
    const tenon_signature *s = function->signature;
    char takes[48], more[64] = "";
    int named = 0;
    for (int32_t i = s->npositional; i < s->nparams + 2; i++)
        named += given[i] != NULL;
    if (named)
        PyOS_snprintf(more, sizeof more, " positional argument%s (and %d keyword-only argument%s)",
                      nargs == 1 ? "" : "s", named, named == 1 ? "" : "s");
    if (s->nrequired == s->npositional)
        PyOS_snprintf(takes, sizeof takes, "%d", s->npositional);
    else
        PyOS_snprintf(takes, sizeof takes, "from %d to %d", s->nrequired, s->npositional);
    PyErr_Format(PyExc_TypeError, "%s() takes %s positional argument%s but %zd%s %s given", s->name, takes,
                 s->npositional == 1 && s->nrequired == 1 ? "" : "s", nargs, more,
                 nargs == 1 && !named ? "was" : "were");
    return -1;
}

/* The missing names, as Python lists them: 'a', 'b', and 'c'. */
static int raise_missing(const tenon__py_function *function, PyObject *const *given, bool keyword_only)
{
    const tenon_signature *s = function->signature;
    int32_t from = keyword_only ? s->npositional : 0, to = keyword_only ? s->nparams : s->npositional;
    int32_t count = 0, listed = 0;
    for (int32_t i = from; i < to; i++)
        count += !given[i] && !(s->params[i].flags & TENON_PARAMETER_DEFAULT);
    PyObject *list = PyUnicode_FromString("");
    for (int32_t i = from; list && i < to; i++) {
        if (given[i] || (s->params[i].flags & TENON_PARAMETER_DEFAULT))
            continue;
        const char *between = listed == 0 ? "" : listed < count - 1 ? ", " : count == 2 ? " and " : ", and ";
        PyObject *longer = PyUnicode_FromFormat("%U%s'%s'", list, between, s->params[i].name);
        Py_DECREF(list);
        list = longer;
        listed++;
    }
    if (list)
        PyErr_Format(PyExc_TypeError, "%s() missing %d required %s argument%s: %U", s->name, count,
                     keyword_only ? "keyword-only" : "positional", count == 1 ? "" : "s", list);
    Py_XDECREF(list);
    return -1;
}

/* The keywords of a call name the last parameters in order, so that its arguments need no sorting. */
static void keep_ordered_keywords(const tenon__py_function *function, PyObject *kwnames)
{
    _Atomic(PyObject *) *place = (_Atomic(PyObject *) *)(uintptr_t)&function->ordered_keywords;
    PyObject *old = atomic_load_explicit(place, memory_order_relaxed);
    Py_INCREF(kwnames);
    if (TENON__PY_HAS_LOCK)
        atomic_store_explicit(place, kwnames, memory_order_relaxed);
    else
        old = atomic_exchange_explicit(place, kwnames, memory_order_relaxed);
    Py_XDECREF(old);
}

bool tenon__py_sort_arguments(const tenon__py_function *function, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames, PyObject **given)
{
    const tenon_signature *s = function->signature;
    int32_t next = (int32_t)nargs, found = (int32_t)nargs; /* keywords are usually in the order of the parameters */
    if (nargs > s->npositional)
        return false;
    for (int32_t i = 0; i < next; i++)
        given[i] = args[i];
    for (int32_t i = next; i < s->nparams + 2; i++)
        given[i] = NULL;
    Py_ssize_t nkeywords = kwnames ? tenon__py_tuple_size(kwnames) : 0;
    bool is_ordered = nkeywords && nargs + nkeywords == s->nparams;
    for (Py_ssize_t k = 0; k < nkeywords; k++) {
        PyObject *keyword = tenon__py_tuple_item(kwnames, k);
        int32_t i = function->names[next] == keyword ? next : keyword_index(function, keyword);
        is_ordered &= function->names[nargs + k] == keyword; /* not an equal string, which may hold other objects */
        if (i < 0 || given[i] || (i >= s->nparams && !(i == s->nparams ? function->takes_out : function->takes_like)))
            return false;
        given[i] = args[nargs + k];
        found += i < s->nparams;
        next = i < s->nparams ? i + 1 : i;
    }
    for (int32_t i = (int32_t)nargs; found < s->nparams && i < s->nparams; i++)
        if (!given[i] && !(s->params[i].flags & TENON_PARAMETER_DEFAULT))
            return false;
    if (is_ordered)
        keep_ordered_keywords(function, kwnames);
    return true;
}

int tenon__py_distribute(const tenon__py_function *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                         PyObject **given)
{
    const tenon_signature *s = function->signature;
    if (tenon__py_sort_arguments(function, args, nargs, kwnames, given))
        return 0;
    for (int32_t i = 0; i < s->nparams + 2; i++)
        given[i] = i < nargs && i < s->npositional ? args[i] : NULL;
    Py_ssize_t nkeywords = kwnames ? PyTuple_Size(kwnames) : 0;
    for (Py_ssize_t k = 0; k < nkeywords; k++) {
        PyObject *keyword = PyTuple_GetItem(kwnames, k);
        int32_t i = keyword_index(function, keyword);
        bool known = i >= 0 && (i < s->nparams || (i == s->nparams ? function->takes_out : function->takes_like));
        if (!known) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", s->name, keyword);
            return -1;
        }
        if (given[i]) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", s->name, keyword);
            return -1;
        }
        given[i] = args[nargs + k];
    }
    if (nargs > s->npositional) /* after the keywords, as in Python */
        return raise_too_many(function, nargs, given);
    int32_t first = (int32_t)nargs;
    while (given[first] || (s->params[first].flags & TENON_PARAMETER_DEFAULT))
        first++;
    return raise_missing(function, given, first >= s->npositional);
}

/* --------------------------------------------------------------------------------------------------------- numbers */

/* Reading a number from device memory means waiting for it and copying it. The caller decides when to do that. */
static int refuse_device(const tenon__py_function *function, const char *argument, PyObject *object)
{
    PyObject *method, *answer = NULL;
    int found = tenon__py_attribute(object, "__dlpack_device__", &method);
    if (found < 1)
        return found;
    answer = PyObject_CallObject(method, NULL);
    Py_DECREF(method);
    int type = 0, id = 0;
    int result = answer && PyTuple_Check(answer) && PyArg_ParseTuple(answer, "ii", &type, &id) ? 0 : -1;
    Py_XDECREF(answer);
    if (result < 0)
        return PyErr_Occurred() ? -1 : 0;
    tenon_device device = tenon_device_of(type, id);
    if (tenon_device_on_host(device))
        return 0;
    char name[64];
    tenon_device_format(device, name, sizeof name);
    return tenon__py_argument_error(function, argument, PyExc_TypeError,
                                    "expected a number, got a tensor on %s; fetch it with x.item()", name);
}

/* Whether the dtype of an array or of a NumPy scalar is complex: 1, 0, or -1 with an exception. */
static int is_complex(PyObject *object)
{
    PyObject *dtype = PyObject_GetAttrString(object, "dtype");
    PyObject *kind = dtype ? PyObject_GetAttrString(dtype, "kind") : NULL;
    bool found = kind && PyUnicode_Check(kind) && PyUnicode_CompareWithASCIIString(kind, "c") == 0;
    Py_XDECREF(dtype);
    Py_XDECREF(kind);
    tenon__py_clear_ignorable_error();
    return PyErr_Occurred() ? -1 : found || PyComplex_Check(object);
}

/* Whether an object that is not a Python number may be converted to one: 1, 0, or -1 with an exception. */
static int may_be_number(const tenon__py_function *function, const char *argument, PyObject *object, uint32_t wanted)
{
    PyObject *type = (PyObject *)Py_TYPE(object), *found;
    int has = tenon__py_attribute(type, "__index__", &found);
    if (has == 0 && wanted != TENON_KIND_INT)
        has = tenon__py_attribute(type, "__float__", &found);
    if (has == 0 && wanted == TENON_KIND_COMPLEX)
        has = tenon__py_attribute(type, "__complex__", &found);
    if (has < 1)
        return has;
    Py_DECREF(found);
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    if (!kind)
        return -1;
    if (kind->is_abstract)
        return tenon__py_argument_error(function, argument, PyExc_TypeError, "%s", kind->reason);
    int complex_number = wanted != TENON_KIND_FLOAT ? 0 : is_complex(object); /* NumPy would drop the imaginary part */
    if (complex_number)
        return complex_number < 0 ? -1 : 0;
    tenon__py_checks checks = {false, false};
    if (refuse_device(function, argument, object) < 0 ||
        tenon__py_check_gradient(function, argument, object, &checks) < 0) {
        tenon__py_raise_deleted(function, argument, object);
        return -1;
    }
    return 1;
}

/* Accepts True, False and NumPy's bools, but not numbers: 2 is neither true nor false. */
static int to_bool(const tenon__py_function *function, const tenon_parameter *param, PyObject *object, int64_t *out)
{
    if (!PyBool_Check(object)) {
        int is_bool = tenon__py_is_framework_bool(object);
        if (is_bool < 1)
            return is_bool < 0 ? -1 : tenon__py_wrong_type(function, param, object);
    }
    int truth = PyObject_IsTrue(object);
    *out = truth;
    return truth < 0 ? -1 : 0;
}

/* After a conversion failed. If a framework refused to convert its array, say for which argument; an exception of any
 * other object stays as it is. Returns -1. */
static int not_a_number(const tenon__py_function *function, const tenon_parameter *param, PyObject *object)
{
    if (tenon__py_raise_deleted(function, param->name, object))
        return -1;
    PyObject *error = tenon__py_take_exception(), *type = (PyObject *)Py_TYPE(error), *name = NULL;
    const tenon__py_producer *owner = NULL;
    bool is_builtin = type == PyExc_TypeError || type == PyExc_ValueError || type == PyExc_RuntimeError;
    if (is_builtin && tenon__py_owner(object, &owner) == 0 && owner && (name = tenon__py_type_name(object))) {
        tenon__py_argument_error(function, param->name, type, "expected %s, got %U: %S", param->type, name, error);
        tenon__py_add_context(error);
        Py_DECREF(error);
    } else {
        tenon__py_raise_again(error);
    }
    Py_XDECREF(name);
    return -1;
}

/* An object that is not a Python int as one: a new reference, or NULL with an exception. */
static PyObject *to_index(const tenon__py_function *function, const tenon_parameter *param, PyObject *object)
{
    int may = may_be_number(function, param->name, object, TENON_KIND_INT),
        truth = may ? 0 : tenon__py_is_framework_bool(object);
    int64_t is_true = 0;
    PyObject *index = NULL;
    if (may < 0 || truth < 0)
        return NULL;
    if (truth)
        return to_bool(function, param, object, &is_true) < 0 ? NULL : PyLong_FromLongLong(is_true);
    if (!may)
        tenon__py_wrong_type(function, param, object);
    else if (!(index = PyNumber_Index(object)))
        not_a_number(function, param, object);
    return index;
}

static int to_int(const tenon__py_function *function, const tenon_parameter *param, PyObject *object, int64_t *out)
{
    PyObject *index = NULL;
    if (!PyLong_Check(object)) {
        object = index = to_index(function, param, object);
        if (!index)
            return -1;
    }
    int overflow = 0;
    *out = PyLong_AsLongLongAndOverflow(object, &overflow);
    Py_XDECREF(index);
    if (overflow)
        return tenon__py_argument_error(function, param->name, PyExc_OverflowError,
                                        "expected an integer from -2**63 to 2**63 - 1, got a %s one",
                                        overflow > 0 ? "larger" : "smaller");
    return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static int to_uint(const tenon__py_function *function, const tenon_parameter *param, PyObject *object, int64_t *out)
{
    PyObject *index = NULL;
    int overflow = 0;
    if (!PyLong_Check(object)) {
        object = index = to_index(function, param, object);
        if (!index)
            return -1;
    }
    *out = PyLong_AsLongLongAndOverflow(object, &overflow);
    bool negative = overflow < 0 || (!overflow && *out < 0), larger = false;
    if (overflow > 0) {
        unsigned long long bits = PyLong_AsUnsignedLongLong(object);
        larger = bits == (unsigned long long)-1 && PyErr_Occurred();
        *out = (int64_t)bits;
        if (larger)
            PyErr_Clear();
    }
    Py_XDECREF(index);
    return negative || larger ? tenon__py_argument_error(function, param->name, PyExc_OverflowError,
                                                         "expected an integer from 0 to 2**64 - 1, got a %s one",
                                                         negative ? "negative" : "larger")
                              : 0;
}

static int to_double(const tenon__py_function *function, const tenon_parameter *param, PyObject *object, double *out)
{
    if (!PyFloat_Check(object) && !PyLong_Check(object)) {
        int may = may_be_number(function, param->name, object, TENON_KIND_FLOAT);
        if (may < 1)
            return may < 0 ? -1 : tenon__py_wrong_type(function, param, object);
    }
    *out = PyFloat_AsDouble(object);
    if (*out != -1 || !PyErr_Occurred())
        return 0;
    if (!PyErr_ExceptionMatches(PyExc_OverflowError) || !PyLong_Check(object))
        return not_a_number(function, param, object);
    PyErr_Clear();
    return tenon__py_argument_error(function, param->name, PyExc_OverflowError, "the integer is too large for a float");
}

static int to_complex(const tenon__py_function *function, const tenon_parameter *param, PyObject *object,
                      double parts[2])
{
    PyObject *made = NULL;
    parts[1] = 0;
    if (PyFloat_Check(object) || PyLong_Check(object))
        return to_double(function, param, object, parts);
    if (!PyComplex_Check(object)) {
        int may = may_be_number(function, param->name, object, TENON_KIND_COMPLEX);
        if (may < 1)
            return may < 0 ? -1 : tenon__py_wrong_type(function, param, object);
        made = PyObject_CallFunctionObjArgs((PyObject *)&PyComplex_Type, object, NULL);
        if (!made)
            return not_a_number(function, param, object);
        object = made;
    }
    parts[0] = PyComplex_RealAsDouble(object);
    parts[1] = PyComplex_ImagAsDouble(object);
    Py_XDECREF(made);
    return parts[0] == -1 && PyErr_Occurred() ? -1 : 0;
}

/* ---------------------------------------------------------------------------------------------------- text and lists */

static bool find_choice(const tenon_parameter *param, const char *text, Py_ssize_t length, int64_t *out)
{
    for (int32_t i = 0; i < param->count; i++) {
        *out = i;
        if ((size_t)length == strlen(param->choices[i]) && memcmp(text, param->choices[i], (size_t)length) == 0)
            return true;
    }
    return false;
}

static int to_choice(const tenon__py_function *function, const tenon_parameter *param, PyObject *object, int64_t *out)
{
    if (!PyUnicode_Check(object))
        return tenon__py_wrong_type(function, param, object);
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(object, &length);
    if (!text && !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) /* no choice has lone surrogates */
        return -1;
    if (text && find_choice(param, text, length, out))
        return 0;
    PyErr_Clear();
    return tenon__py_argument_error(function, param->name, PyExc_ValueError, "expected %s, got %R", param->type,
                                    object);
}

/* Whether the object is a list of numbers: a sequence that is not a mapping, or an array of one dimension; -1 with an
 * exception. */
static int is_list_of_numbers(PyObject *object)
{
    const tenon__py_producer *owner = NULL;
    PyObject *attribute;
    if (PyList_CheckExact(object) || PyTuple_CheckExact(object))
        return 1;
    if (PyUnicode_Check(object) || PyBytes_Check(object) || PyByteArray_Check(object) || PyDict_Check(object))
        return 0;
    /* Arrays are iterable, but PySequence_Check may not accept them: torch's tensors are not sequences. */
    if (!PySequence_Check(object) && (tenon__py_owner(object, &owner) < 0 || !owner))
        return PyErr_Occurred() ? -1 : 0;
    int found = tenon__py_attribute(object, "keys", &attribute);
    if (found) {
        Py_XDECREF(found > 0 ? attribute : NULL);
        return found < 0 ? -1 : 0;
    }
    found = tenon__py_attribute(object, "ndim", &attribute);
    if (found < 1)
        return found < 0 ? -1 : 1;
    int overflow = 0;
    bool fits = !PyLong_Check(attribute) || PyLong_AsLongAndOverflow(attribute, &overflow) == 1;
    Py_DECREF(attribute);
    return fits;
}

/* The numbers of a list as a new tuple, or NULL with an exception. Reads no more of them than the list says that it has,
 * or `most` + 1 if that is not -1, because an iterator may be endless. */
static PyObject *read_items(PyObject *object, Py_ssize_t most)
{
    if (PyTuple_CheckExact(object) || PyList_CheckExact(object))
        return PySequence_Tuple(object);
    Py_ssize_t size = most < 0 ? PyObject_Size(object) : most + 1;
    if (size < 0)
        return NULL;
    PyObject *iterator = PyObject_GetIter(object), *item = NULL;
    PyObject *list = iterator ? PyList_New(0) : NULL;
    int status = list ? 0 : -1;
    while (status == 0 && PyList_Size(list) < size && (item = PyIter_Next(iterator))) {
        status = PyList_Append(list, item);
        Py_DECREF(item);
    }
    PyObject *items = status == 0 && !PyErr_Occurred() ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(iterator);
    Py_XDECREF(list);
    return items;
}

/* `length` numbers were read; there may be more. */
static int raise_wrong_length(const tenon__py_function *function, const tenon_parameter *param, PyObject *object,
                              Py_ssize_t length)
{
    Py_ssize_t all = length > param->count ? PyObject_Size(object) : length;
    tenon__py_clear_ignorable_error();
    if (PyErr_Occurred())
        return -1;
    const char *least = all < length ? "at least " : "";
    all = all < length ? length : all;
    return tenon__py_argument_error(function, param->name, PyExc_ValueError, "expected %s, got %s%zd number%s",
                                    param->type, least, all, all == 1 ? "" : "s");
}

/* An item of a list. Errors name it 'k[3]'; the name is made only if there may be one. */
static int to_item(const tenon__py_function *function, const tenon_parameter *param, PyObject *item, Py_ssize_t index,
                   void *list)
{
    int64_t *integer = (int64_t *)list + index;
    double *number = (double *)list + index;
    bool integers = param->kind == TENON_KIND_INTS;
    int overflow = 0;
    if (integers && PyLong_Check(item)) {
        *integer = PyLong_AsLongLongAndOverflow(item, &overflow);
        if (!overflow)
            return 0;
    } else if (!integers && PyFloat_Check(item)) {
        *number = PyFloat_AsDouble(item);
        return 0;
    }
    char name[TENON_NAME_SIZE + 24];
    PyOS_snprintf(name, sizeof name, "%s[%zd]", param->name, index);
    tenon_parameter one = *param;
    one.name = name;
    one.type = integers ? "int" : "float";
    return integers ? to_int(function, &one, item, integer) : to_double(function, &one, item, number);
}

static int to_list(const tenon__py_function *function, const tenon_parameter *param, PyObject *object,
                   tenon_block **blocks, tenon_value *value)
{
    int is_list = is_list_of_numbers(object);
    if (is_list < 1)
        return is_list < 0 ? -1 : tenon__py_wrong_type(function, param, object);
    PyObject *items = read_items(object, param->count);
    if (!items) {
        if (!tenon__py_raise_deleted(function, param->name, object))
            tenon__py_note_argument(function, param->name);
        return -1;
    }
    Py_ssize_t length = PyTuple_Size(items);
    int result = 0;
    if (param->count >= 0 && length != param->count) {
        result = raise_wrong_length(function, param, object, length);
    } else {
        void *list = tenon_block_alloc(blocks, (size_t)length * sizeof(int64_t), 0);
        if (!list)
            result = (PyErr_NoMemory(), -1);
        for (Py_ssize_t i = 0; result == 0 && i < length; i++)
            result = to_item(function, param, PyTuple_GetItem(items, i), i, list);
        value->as.list.data = list;
        value->as.list.length = length;
    }
    Py_DECREF(items);
    return result;
}

/* After a conversion that failed or gave this value: whether it failed. */
static bool clear_failure(void)
{
    bool failed = PyErr_Occurred();
    PyErr_Clear();
    return failed;
}

bool tenon__py_take_simply(const tenon__py_function *function, int32_t index, PyObject *object, tenon_value *value)
{
    const tenon_parameter *param = &function->signature->params[index];
    Py_ssize_t length = 0;
    value->kind = param->kind;
    value->flags = 0;
    switch (param->kind) {
    case TENON_KIND_HANDLE:
        value->as.handle.object = NULL; /* set when the call enters it */
        value->as.handle.type = param->handle;
        return (param->flags & TENON_PARAMETER_CLASS) && Py_TYPE(object) == function->classes[index];
    case TENON_KIND_FLOAT:
        if (!PyLong_CheckExact(object))
            return false;
        value->as.number = PyLong_AsDouble(object);
        return value->as.number != -1.0 || !clear_failure();
    case TENON_KIND_UINT:
        if (!PyLong_CheckExact(object))
            return false;
        value->as.integer = (int64_t)PyLong_AsUnsignedLongLong(object);
        return value->as.integer != -1 || !clear_failure();
    case TENON_KIND_STR:
    case TENON_KIND_ENUM: {
        const char *text = PyUnicode_CheckExact(object) ? PyUnicode_AsUTF8AndSize(object, &length) : NULL;
        if (!text) {
            PyErr_Clear();
            return false;
        }
        if (param->kind == TENON_KIND_ENUM)
            return find_choice(param, text, length, &value->as.integer);
        value->as.list.data = text;
        value->as.list.length = length;
        return true;
    }
    default:
        return false;
    }
}

int tenon__py_to_value(const tenon__py_function *function, const tenon_parameter *param, PyObject *object,
                       PyObject **held, tenon_block **blocks, tenon_value *value)
{
    value->kind = param->kind;
    value->flags = 0;
    switch (param->kind) {
    case TENON_KIND_INT:
        return to_int(function, param, object, &value->as.integer);
    case TENON_KIND_FLOAT:
        return to_double(function, param, object, &value->as.number);
    case TENON_KIND_BOOL:
        return to_bool(function, param, object, &value->as.integer);
    case TENON_KIND_ENUM:
        return to_choice(function, param, object, &value->as.integer);
    case TENON_KIND_INTS:
    case TENON_KIND_FLOATS:
        return to_list(function, param, object, blocks, value);
    case TENON_KIND_STR:
        return tenon__py_to_text(function, param, object, held, value);
    case TENON_KIND_BYTES:
        return tenon__py_to_bytes(function, param, object, held, value);
    case TENON_KIND_STRS:
        return tenon__py_to_texts(function, param, object, held, blocks, value);
    case TENON_KIND_UINT:
        return to_uint(function, param, object, &value->as.integer);
    case TENON_KIND_COMPLEX:
        return to_complex(function, param, object, value->as.parts);
    case TENON_KIND_DTYPE:
        return tenon__py_to_dtype(function, param, object, &value->as.dtype);
    default:
        if (param->flags & TENON_PARAMETER_CLASS) { /* the object itself when the call enters it */
            value->as.handle.object = NULL;
            value->as.handle.type = param->handle;
            return tenon__py_check_object(function, param, object);
        }
        value->as.handle.object = tenon__py_find_handle_type(param->handle)
                                      ? tenon__py_framework_handle(function, param, object)
                                      : tenon__py_handle_object(function, param, object);
        value->as.handle.type = param->handle;
        return value->as.handle.object ? 0 : -1;
    }
}
