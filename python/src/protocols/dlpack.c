/* __dlpack__, a method that answers with a capsule; and capsules by themselves. */
#include "../internal.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------------- consuming */

/* Looking at a capsule, reading what is in it and renaming it are several steps. A capsule belongs to one interpreter,
 * whose lock makes them one; without such a lock two threads could both win, or one could read what the other has given
 * back. */
/* Mark the capsule as consumed, so that neither its destructor nor another consumer touches what was in it. */
static void dlpack_mark_used(PyObject *capsule, const char *name)
{
    if (PyCapsule_SetName(capsule, name) < 0 || PyCapsule_SetDestructor(capsule, NULL) < 0)
        PyErr_Clear(); /* cannot happen: the capsule was valid a moment ago */
}

/* What came of an attempt to consume a capsule. */
enum { TAKEN, NO_CAPSULE, USED_BEFORE, WRONG_MAJOR, INVALID };

/* Take what is in the capsule, or only look at it: validated first, so that a struct we cannot use stays the producer's. */
static int dlpack_take(PyObject *capsule, bool only_look, tenon_py_borrowed *out, tenon_dl_version *version,
                       tenon_error *err)
{
    bool versioned = PyCapsule_IsValid(capsule, TENON_DL_CAPSULE);
    if (!versioned && !PyCapsule_IsValid(capsule, TENON_DL_CAPSULE_LEGACY))
        return PyCapsule_IsValid(capsule, TENON_DL_CAPSULE_USED) ||
                       PyCapsule_IsValid(capsule, TENON_DL_CAPSULE_LEGACY_USED)
                   ? USED_BEFORE
                   : NO_CAPSULE;
    tenon_dl_managed *managed = PyCapsule_GetPointer(capsule, versioned ? TENON_DL_CAPSULE : TENON_DL_CAPSULE_LEGACY);
    if (versioned) {
        *version = managed->version;
        if (version->major != TENON_DL_MAJOR)
            return WRONG_MAJOR;
    }
    const tenon_dl_tensor *source =
        versioned ? &managed->dl_tensor : &((tenon_dl_managed_legacy *)(void *)managed)->dl_tensor;
    if (tenon__py_try_make_view(source, TENON__PY_ELEMENTS, versioned ? managed->flags : 0, out, err))
        return INVALID;
    if (!only_look)
        dlpack_mark_used(capsule, versioned ? TENON_DL_CAPSULE_USED : TENON_DL_CAPSULE_LEGACY_USED);
    out->private_.holds = versioned ? TENON__PY_HOLDS_MANAGED : TENON__PY_HOLDS_LEGACY;
    out->private_.held.managed = managed;
    return TAKEN;
}

static int dlpack_consume(PyObject *object, PyObject *capsule, bool only_look, tenon_py_borrowed *out)
{
    tenon_error err;
    tenon_dl_version version;
    tenon__py_mutex_lock(&tenon__py_global.capsule);
    int outcome = dlpack_take(capsule, only_look, out, &version, &err);
    tenon__py_mutex_unlock(&tenon__py_global.capsule);
    switch (outcome) {
    case TAKEN:
        return 0;
    case USED_BEFORE:
        return tenon__py_set_error(PyExc_BufferError, object,
                                   "the DLPack capsule has already been consumed; a capsule can be used only once");
    case NO_CAPSULE:
        return tenon__py_set_error(PyExc_TypeError, object,
                                   object == capsule ? "this is not a DLPack capsule; expected an array"
                                                     : "its __dlpack__ did not return a DLPack capsule");
    case WRONG_MAJOR:
        return tenon__py_set_error(PyExc_BufferError, object, "the capsule is of DLPack %u.%u; expected version 1",
                                   (unsigned)version.major, (unsigned)version.minor);
    default:
        /* As the array API standard has it for a dtype that cannot be exchanged. */
        if (err.status == TENON_EDTYPE)
            return tenon__py_set_error(PyExc_BufferError, object, "%s", tenon_error_reason(&err));
        tenon__py_raise_for(object, &err);
        return -1;
    }
}

/* --------------------------------------------------------------------------------------------------------- calling */

/* The keywords, in the order in which they came into the protocol, last first. A borrow does not give the device. */
static const char *const dlpack_keywords[] = {"dl_device", "copy", "max_version", "stream"};
enum { DL_DEVICE, COPY, MAX_VERSION, STREAM, NKEYWORDS };

/* Which of the `given` keywords to leave out after a TypeError with this message; -1: it does not say that a keyword was
 * rejected, so it is about something else. Any function may have raised it, since wrappers hand the keywords on. If the
 * message does not name the keyword, or names one that was not given, the newest is left out. */
static int dlpack_keyword_in(const char *message, const bool *given)
{
    bool named = strstr(message, "unexpected keyword argument") || strstr(message, "invalid keyword argument") ||
                 strstr(message, "passed as keyword argument");
    bool unnamed = strstr(message, "takes no keyword arguments") ||
                   (strstr(message, "takes at most") && strstr(message, "given)")) || /* PyArg_ParseTupleAndKeywords */
                   strstr(message, "incompatible function arguments");                /* pybind11, nanobind */
    int newest = -1, rejected = -1;
    const char *quote = named ? strchr(message, '\'') : NULL;
    for (int i = NKEYWORDS - 1; i >= 0; i--) {
        size_t length = strlen(dlpack_keywords[i]);
        if (given[i])
            newest = i;
        if (quote && strncmp(quote + 1, dlpack_keywords[i], length) == 0 &&
            (quote[1 + length] == '\'' || quote[1 + length] == ','))
            rejected = i;
    }
    if (rejected >= 0)
        return given[rejected] ? rejected : newest;
    return unnamed ? newest : -1;
}

/* As dlpack_keyword_in, for the pending exception. */
static int dlpack_rejected_keyword(const bool *given)
{
    if (!PyErr_ExceptionMatches(PyExc_TypeError))
        return -1;
    PyObject *error = tenon__py_take_exception();
    PyObject *text = PyObject_Str(error);
    const char *message = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    int rejected = message ? dlpack_keyword_in(message, given) : -1;
    Py_XDECREF(text);
    tenon__py_raise_again(error);
    return rejected;
}

/* What each call needs, made once for an interpreter. */
enum { CONSTANT_DLPACK, CONSTANT_DEVICE, CONSTANT_VERSION, CONSTANT_TWO_NAMES, CONSTANT_THREE_NAMES };

/* One of them, borrowed, or NULL with an exception. */
static PyObject *dlpack_constant(int index)
{
    tenon__py_interp *interp = tenon__py_interp_state();
    PyObject *constants = interp ? atomic_load_explicit(&interp->dlpack_constants, memory_order_acquire) : NULL;
    if (interp && !constants) {
        PyObject *made = Py_BuildValue("(NN(ii)(ss)(sss))", PyUnicode_InternFromString("__dlpack__"),
                                       PyUnicode_InternFromString("__dlpack_device__"), TENON_DL_MAJOR, TENON_DL_MINOR,
                                       "copy", "max_version", "copy", "max_version", "stream");
        if (made && atomic_compare_exchange_strong(&interp->dlpack_constants, &constants, made))
            constants = made;
        else
            Py_XDECREF(made);
    }
    return constants ? PyTuple_GetItem(constants, index) : NULL;
}

/* obj.__dlpack__ with those keywords. */
static PyObject *dlpack_call_with(PyObject *method, PyObject *stream, const bool *given)
{
    PyObject *values[NKEYWORDS] = {Py_None, Py_False, dlpack_constant(CONSTANT_VERSION), stream};
    PyObject *arguments = values[MAX_VERSION] ? PyTuple_New(0) : NULL;
    PyObject *keywords = arguments ? PyDict_New() : NULL;
    bool complete = keywords;
    for (int i = 0; complete && i < NKEYWORDS; i++)
        complete = !given[i] || PyDict_SetItemString(keywords, dlpack_keywords[i], values[i]) == 0;
    PyObject *result = complete ? PyObject_Call(method, arguments, keywords) : NULL;
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    return result;
}

/* obj.__dlpack__ with the keywords that the producer knows: all, then without those that it rejects. */
static PyObject *dlpack_call(PyObject *object, PyObject *stream)
{
    bool given[NKEYWORDS] = {false, true, true, stream != NULL};
    PyObject *name = dlpack_constant(CONSTANT_DLPACK); /* if it is there, so are the others */
    if (!name)
        return NULL;
    PyObject *values[] = {object, Py_False, dlpack_constant(CONSTANT_VERSION), stream};
    PyObject *result =
        PyObject_VectorcallMethod(name, values, 1, dlpack_constant(stream ? CONSTANT_THREE_NAMES : CONSTANT_TWO_NAMES));
    if (result)
        return result;
    PyObject *error = tenon__py_take_exception();
    PyObject *method = PyObject_GetAttr(object, name);
    tenon__py_raise_again(error);
    while (method && !result) {
        int rejected = dlpack_rejected_keyword(given);
        if (rejected < 0)
            break;
        given[rejected] = false;
        PyErr_Clear();
        result = dlpack_call_with(method, stream, given);
    }
    Py_XDECREF(method);
    return result;
}

/* The device that the producer names: 1, 0 if it has no __dlpack_device__, -1 with an exception. */
static int dlpack_device(PyObject *object, tenon_device *out)
{
    PyObject *name = dlpack_constant(CONSTANT_DEVICE);
    PyObject *method = name ? PyObject_GetAttr(object, name) : NULL;
    if (!method) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    PyObject *pair = PyObject_CallObject(method, NULL);
    Py_DECREF(method);
    if (!pair)
        return -1;
    long numbers[2] = {0, 0};
    Py_ssize_t size = PyTuple_Check(pair) || PyList_Check(pair) ? PySequence_Size(pair) : -1;
    for (int i = 0; size == 2 && i < 2; i++) {
        PyObject *item = PySequence_GetItem(pair, i);
        numbers[i] = item && PyLong_Check(item) ? PyLong_AsLong(item) : -1;
        Py_XDECREF(item);
    }
    Py_DECREF(pair);
    tenon__py_clear_ignorable_error(); /* a number too large for a long is -1 */
    if (PyErr_Occurred())
        return -1;
    if (size != 2 || numbers[0] < 0 || numbers[0] > INT32_MAX || numbers[1] < 0 || numbers[1] > INT32_MAX)
        return tenon__py_set_error(PyExc_BufferError, object, "its __dlpack_device__ did not return a pair (type, id)");
    *out = tenon_device_of((int)numbers[0], (int)numbers[1]);
    return 1;
}

/* After one of the producer's methods raised. Returns -1. */
static int dlpack_refused(PyObject *object, const tenon__py_kind *kind)
{
    if (tenon__py_is_refusal())
        tenon__py_refused(object, kind->owner && kind->owner->advice ? kind->owner->advice(object) : NULL);
    return -1;
}

/* The object to ask instead of this one: a new reference, or NULL with an exception. */
static PyObject *dlpack_alias(PyObject *object, const tenon__py_kind *kind)
{
    if (kind->owner && kind->owner->alias)
        return kind->owner->alias(object);
    Py_INCREF(object);
    return object;
}

static int dlpack_ask(PyObject *object, const tenon__py_kind *kind, intptr_t stream, tenon_py_borrowed *out)
{
    tenon_device device = tenon_device_of(kind->device_type, 0);
    if (kind->device_type == TENON_CPU && dlpack_device(object, &device) < 0)
        return kind->owner && kind->owner->advice ? dlpack_refused(object, kind) : -1;
    /* The default stream is named, never left to the producer's reading of None. */
    intptr_t number = tenon__py_stream_number(device, stream);
    PyObject *argument = number == TENON__PY_NO_STREAM ? NULL : PyLong_FromSsize_t(number);
    if (!argument && PyErr_Occurred())
        return -1;
    PyObject *capsule = dlpack_call(object, argument);
    Py_XDECREF(argument);
    if (!capsule)
        return dlpack_refused(object, kind);
    int result = dlpack_consume(object, capsule, false, out);
    tenon__py_scope scope = tenon__py_enter_scope();
    Py_DECREF(capsule);
    tenon__py_leave_scope(scope);
    return result;
}

int tenon__py_read_dlpack(PyObject *object, const tenon__py_kind *kind, intptr_t stream, tenon_py_borrowed *out)
{
    PyObject *alias = dlpack_alias(object, kind);
    int result = alias ? dlpack_ask(alias, kind, stream, out) : -1;
    Py_XDECREF(alias); /* what came out of it holds the memory */
    return result;
}

/* obj.__dlpack__(max_version=…, copy=…[, dl_device=…][, stream=…]). A producer that does not have these keywords cannot copy. */
static PyObject *dlpack_call_for_copy(PyObject *object, tenon_device own, const tenon_device *device, bool copy)
{
    /* A copy on the CPU is finished when the call returns. */
    bool leaves = device && device->device_type == TENON_CPU;
    intptr_t number = leaves ? TENON__PY_NO_STREAM : tenon__py_stream_number(own, TENON__PY_NO_STREAM);
    PyObject *name = dlpack_constant(CONSTANT_DLPACK);
    PyObject *method = name ? PyObject_GetAttr(object, name) : NULL;
    PyObject *arguments = method ? PyTuple_New(0) : NULL;
    PyObject *keywords = arguments ? Py_BuildValue("{sOsO}", "max_version", dlpack_constant(CONSTANT_VERSION), "copy",
                                                   copy ? Py_True : Py_None)
                                   : NULL;
    PyObject *pair = keywords && device ? Py_BuildValue("(ii)", device->device_type, device->device_id) : NULL;
    PyObject *stream = keywords && number != TENON__PY_NO_STREAM ? PyLong_FromSsize_t(number) : NULL;
    bool complete = keywords && !PyErr_Occurred() &&
                    (!pair || PyDict_SetItemString(keywords, "dl_device", pair) == 0) &&
                    (!stream || PyDict_SetItemString(keywords, "stream", stream) == 0);
    PyObject *capsule = complete ? PyObject_Call(method, arguments, keywords) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    Py_XDECREF(pair);
    Py_XDECREF(stream);
    return capsule;
}

int tenon__py_read_dlpack_copy(PyObject *object, const tenon__py_kind *kind, tenon_device own,
                               const tenon_device *device, bool copy, tenon_py_borrowed *out)
{
    PyObject *alias = dlpack_alias(object, kind);
    PyObject *capsule = alias ? dlpack_call_for_copy(alias, own, device, copy) : NULL;
    Py_XDECREF(alias);
    if (!capsule) {
        static const bool all[NKEYWORDS] = {true, true, true, true};
        if (dlpack_rejected_keyword(all) >= 0 || PyErr_ExceptionMatches(PyExc_NotImplementedError))
            tenon__py_refused(object, NULL);
        else
            dlpack_refused(object, kind);
        return -1;
    }
    int result = dlpack_consume(object, capsule, false, out);
    tenon__py_scope scope = tenon__py_enter_scope();
    Py_DECREF(capsule);
    tenon__py_leave_scope(scope);
    return result;
}

int tenon__py_capsule_device(PyObject *capsule, tenon_device *out)
{
    tenon_py_borrowed looked_at;
    if (dlpack_consume(capsule, capsule, true, &looked_at) < 0)
        return -1;
    *out = looked_at.view.device;
    tenon__py_free_dims(&looked_at);
    return 0;
}

int tenon__py_device_type(PyObject *object)
{
    tenon_device device = tenon_device_of(TENON_CPU, 0);
    return dlpack_device(object, &device) < 0 ? -1 : device.device_type;
}

int tenon__py_ask_to_order(PyObject *object, PyObject *stream)
{
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    if (!kind)
        return -1;
    if (!kind->has_dlpack)
        return 1;
    PyObject *alias = dlpack_alias(object, kind);
    PyObject *capsule = alias ? dlpack_call(alias, stream) : NULL;
    bool asked = alias;
    Py_XDECREF(alias);
    if (!capsule)
        return asked ? dlpack_refused(object, kind) : -1;
    Py_DECREF(capsule);
    return 0;
}

/* ---------------------------------------------------------------------------------------------------- the producers */

static int dlpack_recognise(PyObject *object, tenon__py_kind *kind)
{
    PyObject *method;
    int found = tenon__py_attribute((PyObject *)Py_TYPE(object), "__dlpack__", &method);
    if (found < 1)
        return found;
    kind->has_dlpack = method != Py_None;
    Py_DECREF(method);
    return kind->has_dlpack;
}

static int dlpack_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request, tenon_py_borrowed *out)
{
    int result = tenon__py_read_dlpack(object, kind, request->stream, out);
    if (result == 0 || request->is_last || !PyErr_ExceptionMatches(PyExc_BufferError))
        return result;
    /* pyarrow's array of lists, say, which Arrow's own interface has. */
    Py_XDECREF(request->refusal);
    request->refusal = tenon__py_take_exception();
    return 1;
}

const tenon__py_producer tenon__py_producer_dlpack = {.recognise = dlpack_recognise, .read = dlpack_read};

static int dlpack_recognise_capsule(PyObject *object, tenon__py_kind *kind)
{
    (void)kind;
    return PyCapsule_CheckExact(object) ? TENON__PY_ALONE : 0;
}

/* The flags are checked, and the stream is ordered, before it is taken: a capsule that is refused stays good. */
static int dlpack_read_capsule(PyObject *capsule, const tenon__py_kind *kind, tenon__py_request *request,
                               tenon_py_borrowed *out)
{
    (void)kind;
    if (dlpack_consume(capsule, capsule, true, out) < 0)
        return -1;
    int refused = tenon__py_check_flags(capsule, request->flags, &out->view);
    if (!refused)
        refused = tenon__py_order_default(out->view.device, request->stream);
    tenon__py_free_dims(out);
    return refused ? -1 : dlpack_consume(capsule, capsule, false, out);
}

const tenon__py_producer tenon__py_producer_capsule = {.recognise = dlpack_recognise_capsule,
                                                       .read = dlpack_read_capsule};
