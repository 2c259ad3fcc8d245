/* What differs between the versions of CPython, the stable ABI (3.12 and newer), and CPython without its lock. */
#ifndef TENON_PY_COMPAT_H
#define TENON_PY_COMPAT_H

#include <Python.h>

#include <stdbool.h>

/* Each source uses some of these functions. */
#define TENON__PY_INLINE static inline __attribute__((unused))

#ifdef Py_GIL_DISABLED
enum { TENON__PY_HAS_LOCK = 0 };
#else
enum { TENON__PY_HAS_LOCK = 1 };
#endif

/* ----------------------------------------------------------------------------------------------------- error scopes */

/* The pending exception, put aside so that what runs in the scope does not meet it. It comes back as it was; what was raised
 * meanwhile is dropped. */
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

/* The pending exception, taken, as an object: a new reference. */
TENON__PY_INLINE PyObject *tenon__py_take_exception(void)
{
    return PyErr_GetRaisedException();
}

/* Make it the pending one again; takes the reference. */
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

/* The pending exception, taken, as an object: a new reference. */
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

/* Make it the pending one again; takes the reference. */
TENON__PY_INLINE void tenon__py_set_exception(PyObject *error)
{
    PyObject *type = (PyObject *)Py_TYPE(error);
    Py_INCREF(type);
    PyErr_Restore(type, error, PyException_GetTraceback(error));
}
#endif

/* ------------------------------------------------------------------------------------------------------ interpreters */

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
    /* The current state is one for the whole process there: it is ours only if it is this thread's own. */
    if (thread != PyGILState_GetThisThreadState())
        return NULL;
#endif
    return thread ? thread->interp : NULL;
#endif
}

/* dict.setdefault(key, value): what is in the dict, borrowed, or NULL with an exception. */
TENON__PY_INLINE PyObject *tenon__py_set_default(PyObject *dict, PyObject *key, PyObject *value)
{
#ifdef Py_LIMITED_API
    /* Here the lock of the interpreter is held, but making `value` may have run a collection, and that this function. */
    PyObject *found = PyDict_GetItemWithError(dict, key);
    return found || PyErr_Occurred() || PyDict_SetItem(dict, key, value) < 0 ? found : value;
#else
    return PyDict_SetDefault(dict, key, value);
#endif
}

/* A mutex for what the interpreter's lock makes one step; without such a lock it takes one. */
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

/* Before 3.12 the garbage collector may run while objects are made, and with it code of the user's: not between these two. In
 * 3.9 that cannot be helped. */
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

/* How many bytes an object has before the fields of its own type. With the stable ABI one binary serves interpreters that
 * differ in it, and the caller says what was measured. */
TENON__PY_INLINE size_t tenon__py_object_head(size_t measured)
{
#ifdef Py_LIMITED_API
    return measured;
#else
    (void)measured;
    return sizeof(PyObject);
#endif
}

/* What a descriptor of the kind "getset" answers for an object of the type that it belongs to: a new reference. */
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

#endif
