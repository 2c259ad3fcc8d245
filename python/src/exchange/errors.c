#include "../internal.h"

#include <string.h>

PyObject *tenon__py_type_name(PyObject *object)
{
    PyObject *type = (PyObject *)Py_TYPE(object);
    PyObject *module = PyObject_GetAttrString(type, "__module__"); /* a metaclass may run code here */
    tenon__py_clear_ignorable_error();
    PyObject *name = PyErr_Occurred() ? NULL : PyObject_GetAttrString(type, "__qualname__");
    tenon__py_clear_ignorable_error();
    PyObject *result;
    if (PyErr_Occurred())
        result = NULL;
    else if (!name)
        result = PyUnicode_FromString("an object");
    else if (!module || !PyUnicode_Check(module) || PyUnicode_CompareWithASCIIString(module, "builtins") == 0)
        result = PyUnicode_FromFormat("%S", name);
    else
        result = PyUnicode_FromFormat("%U.%S", module, name);
    Py_XDECREF(module);
    Py_XDECREF(name);
    return result;
}

bool tenon__py_may_replace(void)
{
    return PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError) &&
           !PyErr_ExceptionMatches(PyExc_RecursionError);
}

void tenon__py_clear_ignorable_error(void)
{
    if (PyErr_Occurred() && tenon__py_may_replace())
        PyErr_Clear();
}

void tenon__py_raise_again(PyObject *error)
{
    tenon__py_clear_ignorable_error();
    if (!error || PyErr_Occurred()) {
        Py_XDECREF(error);
        return;
    }
    tenon__py_set_exception(error);
}

void tenon__py_add_context(PyObject *earlier)
{
    PyObject *value = tenon__py_take_exception();
    PyObject *context = value ? PyException_GetContext(value) : NULL;
    if (value && !context && value != earlier) {
        Py_INCREF(earlier);
        PyException_SetContext(value, earlier); /* takes the reference */
    }
    Py_XDECREF(context);
    tenon__py_raise_again(value);
}

int tenon__py_attribute(PyObject *object, const char *name, PyObject **out)
{
    *out = PyObject_GetAttrString(object, name);
    if (*out)
        return 1;
    if (!PyErr_ExceptionMatches(PyExc_AttributeError))
        return -1;
    PyErr_Clear();
    return 0;
}

int tenon__py_set_error(PyObject *exception, PyObject *object, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    PyObject *what = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    PyObject *name = what ? tenon__py_type_name(object) : NULL;
    if (name)
        PyErr_Format(exception, "%U: %U", name, what);
    Py_XDECREF(name);
    Py_XDECREF(what);
    return -1;
}

PyObject *tenon__py_exception_for(tenon_status status)
{
    switch (status) {
    case TENON_ENOMEM:
        return PyExc_MemoryError;
    case TENON_EDTYPE:
        return PyExc_TypeError;
    case TENON_EBOUNDS:
        return PyExc_IndexError;
    case TENON_EOVERFLOW:
        return PyExc_OverflowError;
    case TENON_EVERSION:
        return PyExc_BufferError;
    case TENON_ESYSTEM:
        return PyExc_OSError;
    default:
        return PyExc_ValueError;
    }
}

/* Takes `message`, which may be NULL with an exception. */
static void *raise_message(const tenon_error *err, PyObject *message)
{
    bool has_number = message && err->status == TENON_ESYSTEM; /* the class depends on errno: FileNotFoundError, … */
    PyObject *value = has_number ? Py_BuildValue("(iO)", (int)err->os_error, message) : message;
    if (value)
        PyErr_SetObject(tenon__py_exception_for(err->status), value);
    if (has_number)
        Py_XDECREF(value);
    Py_XDECREF(message);
    return NULL;
}

void *tenon_py_raise(const tenon_error *err)
{
    if (err)
        return raise_message(err, PyUnicode_FromString(err->message));
    PyErr_SetString(PyExc_RuntimeError, "tenon_py_raise(): argument 'err' is NULL");
    return NULL;
}

void *tenon__py_raise_in(const char *where, const tenon_error *err)
{
    return raise_message(err, PyUnicode_FromFormat("%s: %s", where, tenon_error_reason(err)));
}

void tenon__py_raise_for(PyObject *object, const tenon_error *err)
{
    PyObject *exception = tenon__py_exception_for(err->status);
    /* A wrong array from a producer is not the caller's mistake, except for its dtype and its layout. */
    if (exception != PyExc_TypeError && exception != PyExc_MemoryError && err->status != TENON_ELAYOUT)
        exception = PyExc_BufferError;
    tenon__py_set_error(exception, object, "%s", tenon_error_reason(err));
}

bool tenon__py_is_refusal(void)
{
    /* A TypeError is usually a bug in the producer. But pyarrow refuses with its own class, which derives from it. */
    bool of_its_own = PyErr_ExceptionMatches(PyExc_TypeError) && PyErr_Occurred() != PyExc_TypeError;
    return (of_its_own || PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_RuntimeError) ||
            PyErr_ExceptionMatches(PyExc_ValueError)) &&
           !PyErr_ExceptionMatches(PyExc_RecursionError);
}

/* Make `cause` the cause of the pending exception. Takes the reference, which may be NULL. */
static void set_cause(PyObject *cause)
{
    PyObject *value = tenon__py_take_exception();
    if (value && cause) {
        Py_INCREF(cause);
        PyException_SetContext(value, cause);
        PyException_SetCause(value, cause); /* takes the reference; SetContext took the other */
        cause = NULL;
    }
    tenon__py_raise_again(value);
    Py_XDECREF(cause);
}

/* Replace the pending exception by a BufferError: "object: before: its first line; advice". Without an object, `before`
 * is the name of the framework that did not accept a tensor. */
static void replace_by_buffer_error(PyObject *object, const char *before, const char *advice)
{
    PyObject *cause = tenon__py_take_exception();
    PyObject *text = cause ? PyObject_Str(cause) : NULL;
    const char *line = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    char first[200] = "no reason given";
    if (line) {
        size_t length = strcspn(line, "\n");
        length = length < sizeof first - 1 ? length : sizeof first - 1;
        while (length > 0 && ((unsigned char)line[length] & 0xc0) == 0x80) /* not inside a character */
            length--;
        memcpy(first, line, length);
        first[length] = '\0';
    }
    tenon__py_clear_ignorable_error();
    if (PyErr_Occurred()) { /* the exception's own __str__ was interrupted */
        Py_XDECREF(text);
        Py_XDECREF(cause);
        return;
    }
    if (object)
        tenon__py_set_error(PyExc_BufferError, object, "%s: %s%s%s", before, first, advice ? "; " : "",
                            advice ? advice : "");
    else
        PyErr_Format(PyExc_BufferError, "%s did not accept the tensor: %s", before, first);
    Py_XDECREF(text);
    set_cause(cause);
}

void tenon__py_refused(PyObject *object, const char *advice)
{
    if (tenon__py_may_replace())
        replace_by_buffer_error(object, "the producer refused", advice);
}

void tenon__py_raise_not_exported(const char *framework)
{
    if (tenon__py_may_replace() && !PyErr_ExceptionMatches(PyExc_BufferError))
        replace_by_buffer_error(NULL, framework, NULL);
}

bool tenon__py_raise_missing(const char *framework, const char *where)
{
    if (!PyErr_ExceptionMatches(PyExc_ModuleNotFoundError))
        return false;
    PyObject *error = tenon__py_take_exception(), *missing = NULL;
    /* A framework that is installed may lack a module that it needs itself. */
    bool is_this = tenon__py_attribute(error, "name", &missing) == 1 && PyUnicode_Check(missing) &&
                   PyUnicode_CompareWithASCIIString(missing, framework) == 0;
    if (is_this) {
        PyObject *text = PyUnicode_FromFormat(
            "%s needs %s, which is not installed; install it, or use another framework", where, framework);
        if (text)
            PyErr_SetImportErrorSubclass(PyExc_ModuleNotFoundError, text, missing, NULL);
        Py_XDECREF(text);
        set_cause(error);
    } else {
        tenon__py_raise_again(error);
    }
    Py_XDECREF(missing);
    return is_this;
}
