/* The differences between versions of CPython, the stable ABI (3.12 and newer), and free-threaded CPython. */
#ifndef TENON_PY_COMPAT_H
#define TENON_PY_COMPAT_H

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Most sources use only some of these functions. */
#ifdef __GNUC__
#define TENON__PY_INLINE static inline __attribute__((unused))
#else
#define TENON__PY_INLINE static inline
#endif

/* The position of the lowest bit of a number that is not 0. */
TENON__PY_INLINE int tenon__py_lowest_bit(unsigned number)
{
#ifdef __GNUC__
    return __builtin_ctz(number);
#else
    int bit = 0;
    while (!(number >> bit & 1))
        bit++;
    return bit;
#endif
}

#ifdef Py_GIL_DISABLED
enum { TENON__PY_HAS_LOCK = 0 };
#else
enum { TENON__PY_HAS_LOCK = 1 };
#endif

/* Between them, no other thread is in such a section of the same object. That is Python's lock, if it has one; so a section
 * must not release it, nor run Python code. */
#ifdef Py_GIL_DISABLED
#define TENON__PY_BEGIN_SECTION(object) Py_BEGIN_CRITICAL_SECTION(object)
#define TENON__PY_END_SECTION()         Py_END_CRITICAL_SECTION()
#else
#define TENON__PY_BEGIN_SECTION(object) {
#define TENON__PY_END_SECTION()         }
#endif

/* ----------------------------------------------------------------------------------------------------- error scopes */

/* Saves the pending exception, so that code in the scope runs without one. Leaving the scope restores it, and drops any
 * exception that was raised meanwhile. */
#if PY_VERSION_HEX >= 0x030c0000
typedef struct tenon__py_scope {
    PyObject *error;
} tenon__py_scope;

TENON__PY_INLINE tenon__py_scope tenon__py_enter_scope(void)
{
    return (tenon__py_scope){PyErr_GetRaisedException()};
}

TENON__PY_INLINE void tenon__py_leave_scope(tenon__py_scope scope)
{
    PyErr_SetRaisedException(scope.error);
}

/* Take the pending exception as an object: a new reference. */
TENON__PY_INLINE PyObject *tenon__py_take_exception(void)
{
    return PyErr_GetRaisedException();
}

/* Make it the pending exception again. Takes the reference. */
TENON__PY_INLINE void tenon__py_set_exception(PyObject *error)
{
    PyErr_SetRaisedException(error);
}
#else
typedef struct tenon__py_scope {
    PyObject *type, *value, *traceback;
} tenon__py_scope;

TENON__PY_INLINE tenon__py_scope tenon__py_enter_scope(void)
{
    tenon__py_scope scope;
    PyErr_Fetch(&scope.type, &scope.value, &scope.traceback);
    return scope;
}

TENON__PY_INLINE void tenon__py_leave_scope(tenon__py_scope scope)
{
    PyErr_Restore(scope.type, scope.value, scope.traceback);
}

/* Take the pending exception as an object: a new reference. */
TENON__PY_INLINE PyObject *tenon__py_take_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value && traceback)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

/* Make it the pending exception again. Takes the reference. */
TENON__PY_INLINE void tenon__py_set_exception(PyObject *error)
{
    PyObject *type = (PyObject *)Py_TYPE(error);
    Py_INCREF(type);
    PyErr_Restore(type, error, PyException_GetTraceback(error));
}
#endif

/* ------------------------------------------------------------------------------------------------------ interpreters */

/* Before 3.12 the current thread state is one for the whole process, which may belong to another thread, and
 * PyGILState_GetThisThreadState knows only a thread's first state, in most threads that of the main interpreter. So code that
 * knows that it is attached sets this thread's own state while it releases something in a sub-interpreter. */
extern _Thread_local const PyThreadState *tenon__py_own_state;

/* The interpreter that this thread is attached to, or NULL. */
TENON__PY_INLINE PyInterpreterState *tenon__py_attached_state(void)
{
#if defined(Py_LIMITED_API)
    return PyThreadState_GetDict() ? PyInterpreterState_Get() : NULL;
#else
#if PY_VERSION_HEX >= 0x030d0000
    const PyThreadState *thread = PyThreadState_GetUnchecked();
#else
    const PyThreadState *thread = _PyThreadState_UncheckedGet();
#endif
#if PY_VERSION_HEX < 0x030c0000
    if (thread != PyGILState_GetThisThreadState() && thread != tenon__py_own_state)
        return NULL;
#endif
    return thread ? thread->interp : NULL;
#endif
}

/* dict.setdefault(key, value): a borrowed reference, or NULL with an exception. */
TENON__PY_INLINE PyObject *tenon__py_set_default(PyObject *dict, PyObject *key, PyObject *value)
{
#ifdef Py_LIMITED_API
    /* The interpreter lock is held, but the garbage collector may have run while `value` was made, and called this
     * function. */
    PyObject *found = PyDict_GetItemWithError(dict, key);
    return found || PyErr_Occurred() || PyDict_SetItem(dict, key, value) < 0 ? found : value;
#else
    return PyDict_SetDefault(dict, key, value);
#endif
}

/* Of an object that is known to be a float. */
TENON__PY_INLINE double tenon__py_float_value(PyObject *number)
{
#ifdef Py_LIMITED_API
    return PyFloat_AsDouble(number);
#else
    return PyFloat_AS_DOUBLE(number);
#endif
}

/* Of an object that is known to be bytes. */
TENON__PY_INLINE const char *tenon__py_bytes_data(PyObject *bytes)
{
#ifdef Py_LIMITED_API
    return PyBytes_AsString(bytes);
#else
    return PyBytes_AS_STRING(bytes);
#endif
}

TENON__PY_INLINE Py_ssize_t tenon__py_bytes_size(PyObject *bytes)
{
#ifdef Py_LIMITED_API
    return PyBytes_Size(bytes);
#else
    return PyBytes_GET_SIZE(bytes);
#endif
}

/* Of an object that is known to be a tuple; the last one is for a new tuple, and takes `item`. */
TENON__PY_INLINE Py_ssize_t tenon__py_tuple_size(PyObject *tuple)
{
#ifdef Py_LIMITED_API
    return PyTuple_Size(tuple);
#else
    return PyTuple_GET_SIZE(tuple);
#endif
}

TENON__PY_INLINE PyObject *tenon__py_tuple_item(PyObject *tuple, Py_ssize_t index)
{
#ifdef Py_LIMITED_API
    return PyTuple_GetItem(tuple, index);
#else
    return PyTuple_GET_ITEM(tuple, index);
#endif
}

TENON__PY_INLINE void tenon__py_tuple_fill(PyObject *tuple, Py_ssize_t index, PyObject *item)
{
#ifdef Py_LIMITED_API
    PyTuple_SetItem(tuple, index, item);
#else
    PyTuple_SET_ITEM(tuple, index, item);
#endif
}

/* Whether an instance of a subclass of tuple can be allocated first, and then filled with PyTuple_SetItem. Since 3.14 a tuple
 * has a field for its hash, which only tuple's own function initialises. */
TENON__PY_INLINE bool tenon__py_can_fill_tuple(void)
{
#ifdef Py_LIMITED_API
    return Py_Version < 0x030e0000;
#else
    return PY_VERSION_HEX < 0x030e0000;
#endif
}

/* A mutex for steps that the interpreter lock makes atomic. It is real only in free-threaded CPython. */
#ifdef Py_GIL_DISABLED
typedef PyMutex tenon__py_mutex;
#define tenon__py_mutex_lock(mutex)   PyMutex_Lock(mutex)
#define tenon__py_mutex_unlock(mutex) PyMutex_Unlock(mutex)
#else
typedef char tenon__py_mutex;
#define tenon__py_mutex_lock(mutex)   ((void)(mutex))
#define tenon__py_mutex_unlock(mutex) ((void)(mutex))
#endif

/* ----------------------------------------------------------------------------------------------- garbage collection */

/* Before 3.12 the garbage collector may run whenever an object is made, and run the user's code. It does not run
 * between these two calls. In 3.9 it cannot be stopped. */
enum { TENON__PY_CAN_PAUSE_GC = PY_VERSION_HEX >= 0x030a0000 };

TENON__PY_INLINE int tenon__py_pause_gc(void)
{
#if !defined(Py_LIMITED_API) && PY_VERSION_HEX >= 0x030a0000 && PY_VERSION_HEX < 0x030c0000
    return PyGC_Disable();
#else
    return 0;
#endif
}

TENON__PY_INLINE void tenon__py_resume_gc(int enabled)
{
#if !defined(Py_LIMITED_API) && PY_VERSION_HEX >= 0x030a0000 && PY_VERSION_HEX < 0x030c0000
    if (enabled)
        PyGC_Enable();
#else
    (void)enabled;
#endif
}

/* The size of the object header, before the fields of its own type. Interpreters that run the same stable ABI binary
 * may differ in it, so there the caller passes the size that it measured. */
TENON__PY_INLINE size_t tenon__py_object_head(size_t measured)
{
#ifdef Py_LIMITED_API
    return measured;
#else
    (void)measured;
    return sizeof(PyObject);
#endif
}

/* Call the getter of a getset descriptor for an object of its type: a new reference. */
TENON__PY_INLINE PyObject *tenon__py_get_by(PyObject *descriptor, PyObject *object)
{
#ifdef Py_LIMITED_API
    descrgetfunc answer = (descrgetfunc)(uintptr_t)PyType_GetSlot(&PyGetSetDescr_Type, Py_tp_descr_get);
    return answer(descriptor, object, (PyObject *)Py_TYPE(object));
#else
    const PyGetSetDef *answer = ((PyGetSetDescrObject *)descriptor)->d_getset;
    return answer->get(object, answer->closure);
#endif
}

/* --------------------------------------------------------------------------------------------------- classes, methods */

/* A type whose attributes are set one by one, and which is then sealed. Its metaclass `meta`, which adds no fields, refuses to
 * set attributes: the stable ABI cannot make a type immutable after it was made. */
TENON__PY_INLINE PyObject *tenon__py_open_type(PyTypeObject *meta, PyType_Spec *spec)
{
#if PY_VERSION_HEX >= 0x030c0000
    return PyType_FromMetaclass(meta, NULL, spec, NULL);
#else
    PyObject *type = PyType_FromSpec(spec);
    if (type) {
        Py_INCREF((PyObject *)meta);
        Py_SET_TYPE(type, meta);
    }
#if PY_VERSION_HEX < 0x030b0000
    PyTypeObject *made = (PyTypeObject *)type;
    /* The name is the spec's, which need not live as long. The doc may be without its text signature. */
    if (made)
        made->tp_name = PyUnicode_AsUTF8(((PyHeapTypeObject *)type)->ht_name);
    for (const PyType_Slot *slot = spec->slots; made && made->tp_doc && slot->slot; slot++) {
        size_t size = slot->slot == Py_tp_doc ? strlen(slot->pfunc) + 1 : 0;
        char *doc = size ? PyObject_Malloc(size) : NULL;
        if (!doc)
            continue;
        memcpy(doc, slot->pfunc, size);
        PyObject_Free((void *)(uintptr_t)made->tp_doc);
        made->tp_doc = doc;
    }
#endif
    return type;
#endif
}

TENON__PY_INLINE int tenon__py_set_in_type(PyObject *type, PyObject *name, PyObject *value)
{
#ifdef Py_LIMITED_API
    setattrofunc set = (setattrofunc)(uintptr_t)PyType_GetSlot(&PyType_Type, Py_tp_setattro);
#else
    setattrofunc set = PyType_Type.tp_setattro;
#endif
    return set(type, name, value);
}

/* Python 3.9 does not have immutable types of this kind. */
TENON__PY_INLINE void tenon__py_seal_type(PyObject *type)
{
#if !defined(Py_LIMITED_API) && PY_VERSION_HEX >= 0x030a0000
    ((PyTypeObject *)type)->tp_flags |= Py_TPFLAGS_IMMUTABLETYPE;
#endif
    PyType_Modified((PyTypeObject *)type);
}

/* A bound method: a new reference. */
TENON__PY_INLINE PyObject *tenon__py_bind(PyObject *function, PyObject *object)
{
#ifdef Py_LIMITED_API
    PyObject *types = PyImport_ImportModule("types");
    PyObject *type = types ? PyObject_GetAttrString(types, "MethodType") : NULL;
    PyObject *bound = type ? PyObject_CallFunctionObjArgs(type, function, object, NULL) : NULL;
    Py_XDECREF(types);
    Py_XDECREF(type);
    return bound;
#else
    return PyMethod_New(function, object);
#endif
}

#endif
