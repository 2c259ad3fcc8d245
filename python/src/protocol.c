/* __dlpack__: a method that answers with a capsule. */
#include "bridge.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------------- consuming */

/* Looking at a capsule and renaming it are two steps: without a lock of the interpreter's two threads could both win.
 */
static atomic_flag consuming = ATOMIC_FLAG_INIT;

static void begin_consuming(void)
{
    while (atomic_flag_test_and_set_explicit(&consuming, memory_order_acquire)) {
    }
}

static void end_consuming(void)
{
    atomic_flag_clear_explicit(&consuming, memory_order_release);
}

/* Mark the capsule as consumed, so that neither its destructor nor another consumer touches what was in it. */
static void mark_used(PyObject *capsule, const char *name)
{
    if (PyCapsule_SetName(capsule, name) < 0 || PyCapsule_SetDestructor(capsule, NULL) < 0)
        PyErr_Clear(); /* cannot be: the capsule was valid a moment ago */
}

/* Take what is in the capsule: validated first, so that a struct we cannot use stays the producer's. */
static int consume(PyObject *object, PyObject *capsule, tenon_py_borrowed *out)
{
    tenon_error err;
    int32_t ndim = 0;
    tenon_status status = TENON_OK;
    bool versioned = PyCapsule_IsValid(capsule, TENON_DL_CAPSULE);
    bool legacy = !versioned && PyCapsule_IsValid(capsule, TENON_DL_CAPSULE_LEGACY);
    if (!versioned && !legacy) {
        bool used = PyCapsule_IsValid(capsule, TENON_DL_CAPSULE_USED) ||
                    PyCapsule_IsValid(capsule, TENON_DL_CAPSULE_LEGACY_USED);
        return tenon__py_complain(used ? PyExc_BufferError : PyExc_TypeError, object,
                                  used ? "its capsule was consumed before; each is good for one use"
                                       : "its __dlpack__ gave something that is no DLPack capsule");
    }
    const char *name = versioned ? TENON_DL_CAPSULE : TENON_DL_CAPSULE_LEGACY;
    tenon_dl_managed *managed = PyCapsule_GetPointer(capsule, name);
    if (!managed)
        return -1;
    bool readable = !versioned || managed->version.major == TENON_DL_MAJOR;
    if (!readable)
        return tenon__py_complain(PyExc_BufferError, object, "its capsule is of DLPack %u.%u, and 1 was asked for",
                                  (unsigned)managed->version.major, (unsigned)managed->version.minor);
    const tenon_dl_tensor *source =
        versioned ? &managed->dl_tensor : &((tenon_dl_managed_legacy *)(void *)managed)->dl_tensor;
    ndim = source->ndim;
    if (tenon__py_dims(out, ndim) < 0)
        return -1;
    begin_consuming();
    bool still_there = PyCapsule_IsValid(capsule, name);
    if (still_there) {
        status = tenon_view_init(&out->view, source, versioned ? managed->flags : 0, out->dims, &err);
        if (status == TENON_OK)
            mark_used(capsule, versioned ? TENON_DL_CAPSULE_USED : TENON_DL_CAPSULE_LEGACY_USED);
    }
    end_consuming();
    if (still_there && status == TENON_OK) {
        out->way = versioned ? TENON__PY_DLPACK : TENON__PY_DLPACK_LEGACY;
        out->held.managed = managed;
        return 0;
    }
    tenon__py_free_dims(out);
    if (still_there)
        tenon__py_raise_for(object, &err);
    else
        tenon__py_complain(PyExc_BufferError, object, "its capsule was consumed by another thread");
    return -1;
}

/* --------------------------------------------------------------------------------------------------------- calling */

/* The keywords, in the order in which they came into the protocol, last first. */
static const char *const keywords[] = {"copy", "max_version", "stream"};
enum { COPY, MAX_VERSION, STREAM, NKEYWORDS };

/* Which keyword the pending TypeError says that the signature does not have; NKEYWORDS: all of them; -1: another error.
 * An error from inside a producer's Python code has a traceback; one about its signature has none, as nothing has run.
 */
static int rejected_keyword(void)
{
    if (!PyErr_ExceptionMatches(PyExc_TypeError))
        return -1;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = !traceback && value ? PyObject_Str(value) : NULL;
    const char *message = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    int rejected = -1;
    if (message && strstr(message, "takes no keyword arguments"))
        rejected = NKEYWORDS;
    for (int i = 0; message && rejected < 0 && i < NKEYWORDS; i++) {
        char quoted[32];
        PyOS_snprintf(quoted, sizeof quoted, "'%s'", keywords[i]);
        if (strstr(message, "keyword") && strstr(message, quoted))
            rejected = i;
    }
    PyErr_Clear();
    Py_XDECREF(text);
    PyErr_Restore(type, value, traceback);
    return rejected;
}

/* obj.__dlpack__ with the keywords that its signature has. */
static PyObject *call(PyObject *object, PyObject *stream)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
    PyObject *arguments = method ? PyTuple_New(0) : NULL;
    PyObject *given =
        arguments ? Py_BuildValue("{sOs(ii)}", "copy", Py_False, "max_version", TENON_DL_MAJOR, TENON_DL_MINOR) : NULL;
    PyObject *result = NULL;
    if (given && (!stream || PyDict_SetItemString(given, "stream", stream) == 0)) {
        for (int attempts = 0; attempts <= NKEYWORDS; attempts++) {
            result = PyObject_Call(method, arguments, given);
            int rejected = result ? -1 : rejected_keyword();
            if (rejected < 0)
                break;
            if (rejected == NKEYWORDS) {
                if (PyDict_Size(given) == 0)
                    break;
                PyErr_Clear();
                PyDict_Clear(given);
                continue;
            }
            int there = PyMapping_HasKeyString(given, keywords[rejected]);
            if (!there)
                break;
            PyErr_Clear();
            if (PyDict_DelItemString(given, keywords[rejected]) < 0)
                break;
        }
    }
    Py_XDECREF(method);
    Py_XDECREF(arguments);
    Py_XDECREF(given);
    return result;
}

/* The device that the producer names: 1, 0 where it has no __dlpack_device__, -1 with an exception. */
static int device_of(PyObject *object, tenon_device *out)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack_device__");
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
    PyObject *items = PySequence_Tuple(pair);
    Py_DECREF(pair);
    if (!items)
        return -1;
    int result = -1;
    if (PyTuple_Size(items) == 2) {
        long type = PyLong_AsLong(PyTuple_GetItem(items, 0));
        long id = PyErr_Occurred() ? -1 : PyLong_AsLong(PyTuple_GetItem(items, 1));
        if (!PyErr_Occurred()) {
            *out = tenon_device_of((int)type, (int)id);
            result = 1;
        }
    } else {
        tenon__py_complain(PyExc_BufferError, object, "its __dlpack_device__ gave no pair of type and id");
    }
    Py_DECREF(items);
    return result;
}

/* What to pass for `stream`: a new reference; NULL without an exception: nothing. Without a wish of the caller's the
 * default stream is named, never left to the producer's reading of None. */
static PyObject *stream_argument(tenon_device device, intptr_t stream)
{
    bool cuda = device.device_type == TENON_CUDA || device.device_type == TENON_CUDA_MANAGED;
    bool rocm = device.device_type == TENON_ROCM;
    if (stream != TENON__PY_NO_STREAM && !tenon_device_on_host(device))
        return PyLong_FromSsize_t(stream);
    if (cuda)
        return PyLong_FromLong(1);
    if (rocm)
        return PyLong_FromLong(0);
    return NULL;
}

int tenon__py_borrow_dlpack(PyObject *object, intptr_t stream, tenon_py_borrowed *out)
{
    tenon_device device = tenon_device_of(TENON_CPU, 0);
    if (device_of(object, &device) < 0)
        return -1;
    PyObject *argument = stream_argument(device, stream);
    if (!argument && PyErr_Occurred())
        return -1;
    PyObject *capsule = call(object, argument);
    Py_XDECREF(argument);
    if (!capsule) {
        if (tenon__py_is_refusal())
            tenon__py_refused(object, NULL);
        return -1;
    }
    int result = consume(object, capsule, out);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Py_DECREF(capsule);
    PyErr_Restore(type, value, traceback);
    return result;
}
