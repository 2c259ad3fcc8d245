/* Overloaded functions: entries of one name, which are tried in the order of the module's table. */
#include "internal.h"

#include <string.h>

/* -------------------------------------------------------------------------------------------------------- attempts */

/* The innermost attempt of this thread. Calls nest: an argument's code may call an overloaded function. */
static _Thread_local tenon__py_attempt *current_attempt;

void tenon__py_begin_attempts(tenon__py_attempt *attempt)
{
    *attempt = (tenon__py_attempt){.outer = current_attempt};
    current_attempt = attempt;
}

void tenon__py_end_attempts(const tenon__py_attempt *attempt)
{
    current_attempt = attempt->outer;
}

/* The attempt to call this function, which has not matched its arguments yet; or NULL. */
static tenon__py_attempt *attempt_of(const tenon__py_function *function)
{
    tenon__py_attempt *attempt = function->is_overload ? current_attempt : NULL;
    return attempt && attempt->function == function && !attempt->matched ? attempt : NULL;
}

bool tenon__py_is_attempt(const tenon__py_function *function)
{
    return attempt_of(function) != NULL;
}

bool tenon__py_note_mismatch(const tenon__py_function *function)
{
    tenon__py_attempt *attempt = attempt_of(function);
    if (!attempt)
        return false;
    attempt->mismatch = true;
    return !attempt->explains;
}

bool tenon__py_note_refusal(const tenon__py_function *function)
{
    tenon__py_attempt *attempt = attempt_of(function);
    if (!attempt || attempt->explains)
        return false;
    attempt->mismatch = true;
    return true;
}

bool tenon__py_may_take(const tenon__py_function *function, Py_ssize_t nargs, PyObject *kwnames)
{
    const tenon_signature *s = function->signature;
    return nargs <= s->npositional && nargs + (kwnames ? PyTuple_Size(kwnames) : 0) >= s->nrequired;
}

/* -------------------------------------------------------------------------------------------------------- messages */

/* A string without its lines: "a\n  b" becomes "a; b". */
static PyObject *in_one_line(PyObject *text, const char *between)
{
    PyObject *lines = PyUnicode_Splitlines(text, 0), *separator = lines ? PyUnicode_FromString(between) : NULL;
    Py_ssize_t count = separator ? PyList_Size(lines) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *line = PyObject_CallMethod(PyList_GetItem(lines, i), "strip", NULL);
        if (!line || PyList_SetItem(lines, i, line) < 0)
            Py_CLEAR(separator);
        if (!separator)
            break;
    }
    PyObject *line = separator ? PyUnicode_Join(separator, lines) : NULL;
    Py_XDECREF(lines);
    Py_XDECREF(separator);
    return line;
}

/* What an exception says, without the name of the function before it. */
static PyObject *reason_of(const tenon_signature *s, PyObject *error)
{
    PyObject *message = PyObject_Str(error);
    const char *text = message ? PyUnicode_AsUTF8AndSize(message, NULL) : NULL;
    size_t length = strlen(s->name);
    PyObject *reason = NULL;
    if (text && strncmp(text, s->name, length) == 0 && strncmp(text + length, "()", 2) == 0)
        reason = PyUnicode_FromString(text + length + (text[length + 2] == ':' ? 4 : 3));
    else if (text)
        reason = PyUnicode_FromString(text);
    PyObject *line = reason ? in_one_line(reason, "; ") : NULL;
    Py_XDECREF(message);
    Py_XDECREF(reason);
    return line;
}

int tenon__py_add_reason(PyObject *reasons, const tenon__py_function *function)
{
    const tenon_signature *s = function->signature;
    PyObject *error = tenon__py_take_exception();
    PyObject *reason = error ? reason_of(s, error) : PyUnicode_FromString("the arguments changed");
    PyObject *text = reason ? PyUnicode_FromString(s->text) : NULL;
    PyObject *signature = text ? in_one_line(text, " ") : NULL;
    PyObject *line = signature ? PyUnicode_FromFormat("\n  %U: %U", signature, reason) : NULL;
    int status = line ? PyList_Append(reasons, line) : -1;
    Py_XDECREF(error);
    Py_XDECREF(reason);
    Py_XDECREF(text);
    Py_XDECREF(signature);
    Py_XDECREF(line);
    return status;
}

void tenon__py_raise_no_overload(const tenon__py_function *function, PyObject *reasons)
{
    PyObject *empty = PyUnicode_FromString("");
    PyObject *all = empty ? PyUnicode_Join(empty, reasons) : NULL;
    if (all)
        PyErr_Format(PyExc_TypeError, "%s(): no signature fits the arguments%U", function->signature->name, all);
    Py_XDECREF(empty);
    Py_XDECREF(all);
}
