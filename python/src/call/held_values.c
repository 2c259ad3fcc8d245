/* Arguments whose memory belongs to Python objects that the call must hold: bytes, and strings from other objects. */
#include "internal.h"

#include <string.h>

int tenon__py_hold(PyObject **held, PyObject *object)
{
    if (!*held)
        *held = PyList_New(0);
    return *held ? PyList_Append(*held, object) : -1;
}

/* ----------------------------------------------------------------------------------------------------------- bytes */

#define BUFFER_CAPSULE "tenon.buffer"

static void release_buffer(PyObject *capsule)
{
    Py_buffer *buffer = PyCapsule_GetPointer(capsule, BUFFER_CAPSULE);
    PyBuffer_Release(buffer);
    PyMem_Free(buffer);
}

/* Hold an exported buffer, which is in memory of PyMem_Malloc. Takes it, even on failure. */
static int hold_buffer(PyObject **held, Py_buffer *buffer)
{
    PyObject *capsule = PyCapsule_New(buffer, BUFFER_CAPSULE, release_buffer);
    if (!capsule) {
        PyBuffer_Release(buffer);
        PyMem_Free(buffer);
        return -1;
    }
    int status = tenon__py_hold(held, capsule);
    Py_DECREF(capsule);
    return status;
}

/* The pending exception is the exporter's. If it is a BufferError, say for which argument. */
static int raise_not_exported(const tenon__py_function *function, const tenon_parameter *param, PyObject *object)
{
    if (!PyErr_ExceptionMatches(PyExc_BufferError) && !PyErr_ExceptionMatches(PyExc_ValueError))
        return -1;
    PyObject *error = tenon__py_take_exception(), *name = tenon__py_type_name(object);
    if (name)
        tenon__py_argument_error(function, param->name, (PyObject *)Py_TYPE(error),
                                 "expected %s, that is, a buffer without gaps in C order, got %U: %S", param->type,
                                 name, error);
    Py_XDECREF(name);
    tenon__py_add_context(error);
    Py_DECREF(error);
    return -1;
}

/* Whether a format of the struct module has references to Python objects. The names of fields are between colons. */
static bool has_objects(const char *format)
{
    bool in_name = false;
    for (; format && *format; format++) {
        if (*format == ':')
            in_name = !in_name;
        else if (*format == 'O' && !in_name)
            return true;
    }
    return false;
}

/* Whether the items of a buffer are Python objects, whose addresses are not data: 1, 0, or -1 with an exception. */
static int exports_objects(PyObject *object, const Py_buffer *simple)
{
    Py_buffer described;
    if (simple->itemsize < (Py_ssize_t)sizeof(PyObject *))
        return 0;
    if (PyObject_GetBuffer(object, &described, PyBUF_FULL_RO) < 0) { /* not every dtype has a format */
        tenon__py_clear_ignorable_error();
        return PyErr_Occurred() ? -1 : 0;
    }
    bool found = has_objects(described.format);
    PyBuffer_Release(&described);
    return found;
}

int tenon__py_to_bytes(const tenon__py_function *function, const tenon_parameter *param, PyObject *object,
                       PyObject **held, tenon_value *value)
{
    if (PyBytes_Check(object)) { /* they never change, and the caller holds them */
        value->as.list.data = PyBytes_AsString(object);
        value->as.list.length = PyBytes_Size(object);
        return 0;
    }
    if (!PyObject_CheckBuffer(object))
        return tenon__py_wrong_type(function, param, object);
    Py_buffer *buffer = PyMem_Malloc(sizeof *buffer);
    if (!buffer)
        return PyErr_NoMemory(), -1;
    if (PyObject_GetBuffer(object, buffer, PyBUF_SIMPLE) < 0) {
        PyMem_Free(buffer);
        return raise_not_exported(function, param, object);
    }
    value->as.list.data = buffer->buf;
    value->as.list.length = buffer->len;
    int objects = exports_objects(object, buffer);
    if (hold_buffer(held, buffer) < 0 || objects < 0)
        return -1;
    return objects ? tenon__py_argument_error(function, param->name, PyExc_TypeError,
                                              "expected %s, got a buffer of Python objects", param->type)
                   : 0;
}

/* --------------------------------------------------------------------------------------------------------- strings */

/* Read the string as UTF-8, which lives as long as the object. */
static int read_text(const tenon__py_function *function, const char *argument, PyObject *object, tenon_text *out)
{
    Py_ssize_t length;
    out->data = PyUnicode_AsUTF8AndSize(object, &length);
    out->length = out->data ? (size_t)length : 0;
    if (out->data || !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        return out->data ? 0 : -1;
    PyObject *error = tenon__py_take_exception();
    tenon__py_argument_error(function, argument, PyExc_ValueError, "expected a string that UTF-8 can encode; %S",
                             error);
    tenon__py_add_context(error);
    Py_XDECREF(error);
    return -1;
}

/* The path of an object that has `__fspath__`, as a str: a new reference. NULL with a TypeError if it has none. */
static PyObject *read_path(const tenon__py_function *function, const tenon_parameter *param, PyObject *object)
{
    PyObject *found;
    int has = tenon__py_attribute((PyObject *)Py_TYPE(object), "__fspath__", &found);
    if (has < 1) {
        if (has == 0)
            tenon__py_wrong_type(function, param, object);
        return NULL;
    }
    Py_DECREF(found);
    PyObject *path = PyOS_FSPath(object);
    if (!path || PyUnicode_Check(path))
        return path;
    PyObject *text = PyUnicode_DecodeFSDefaultAndSize(PyBytes_AsString(path), PyBytes_Size(path));
    Py_DECREF(path);
    return text;
}

int tenon__py_to_text(const tenon__py_function *function, const tenon_parameter *param, PyObject *object,
                      PyObject **held, tenon_value *value)
{
    tenon_text text;
    PyObject *path = NULL;
    int status = 0;
    if (!PyUnicode_Check(object)) {
        object = path = read_path(function, param, object);
        status = path ? tenon__py_hold(held, path) : -1;
    }
    if (status == 0)
        status = read_text(function, param->name, object, &text);
    Py_XDECREF(path);
    value->as.list.data = status < 0 ? NULL : text.data;
    value->as.list.length = status < 0 ? 0 : (int64_t)text.length;
    return status;
}

int tenon__py_to_texts(const tenon__py_function *function, const tenon_parameter *param, PyObject *object,
                       PyObject **held, tenon_block **blocks, tenon_value *value)
{
    int is_list = tenon__py_is_sequence(object);
    if (is_list < 1)
        return is_list < 0 ? -1 : tenon__py_wrong_type(function, param, object);
    PyObject *items = tenon__py_read_sequence(object);
    if (!items)
        return -1;
    Py_ssize_t length = PyTuple_Size(items);
    int status = tenon__py_hold(held, items);
    tenon_text *texts = status == 0 ? tenon_block_alloc(blocks, (size_t)length * sizeof *texts, 0) : NULL;
    if (status == 0 && !texts)
        status = (PyErr_NoMemory(), -1);
    for (Py_ssize_t i = 0; status == 0 && i < length; i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        char name[TENON_NAME_SIZE + 24];
        PyOS_snprintf(name, sizeof name, "%s[%zd]", param->name, i);
        tenon_parameter one = {.name = name, .type = "str"};
        status = PyUnicode_Check(item) ? read_text(function, name, item, &texts[i])
                                       : tenon__py_wrong_type(function, &one, item);
    }
    Py_DECREF(items);
    value->as.list.data = texts;
    value->as.list.length = length;
    return status;
}
