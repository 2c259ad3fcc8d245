/* The record of each interpreter, and releases that never wait for the interpreter lock. */
#include "../internal.h"

#include <stdlib.h>
#include <string.h>

#define CAPSULE_NAME "tenon.interpreter"

tenon__py_globals tenon__py_global = {.lock = ATOMIC_FLAG_INIT, .sleepers_lock = ATOMIC_FLAG_INIT};
_Thread_local const PyThreadState *tenon__py_own_state;

int64_t tenon_py_leaked(void)
{
    return atomic_load_explicit(&tenon__py_global.leaked, memory_order_relaxed);
}

bool tenon__py_is_attached(void)
{
    return tenon__py_attached_state() != NULL;
}

/* ------------------------------------------------------------------------------------------------------- releasing */

/* One spare holder saves most imports an allocation. The interpreter lock guards it, so free-threaded Python has no
 * spare. */
tenon__py_holder *tenon__py_holder_new(void)
{
    tenon__py_interp *interp = tenon__py_interp_state();
    if (!interp)
        return NULL;
    tenon__py_holder *holder = TENON__PY_HAS_LOCK ? interp->spare : NULL;
    if (holder)
        interp->spare = NULL;
    else
        holder = PyMem_Malloc(sizeof *holder);
    if (!holder)
        return PyErr_NoMemory(), NULL;
    holder->interp = interp;
    return holder;
}

void tenon__py_holder_free(tenon__py_holder *holder)
{
    tenon__py_interp *interp = holder->interp;
    if (!TENON__PY_HAS_LOCK || interp->spare || atomic_load_explicit(&interp->dead, memory_order_relaxed))
        PyMem_Free(holder);
    else
        interp->spare = holder;
}

static void release_holder(void *pointer)
{
    tenon__py_holder *holder = pointer;
    tenon_py_unborrow(&holder->borrowed);
    tenon__py_holder_free(holder);
}

static void run_deferred_release(void *pointer)
{
    atomic_fetch_sub_explicit(&tenon__py_global.waiting, 1, memory_order_relaxed);
    release_holder(pointer);
}

static int drain_pending(void *pointer)
{
    (void)pointer;
    tenon__py_drain();
    return 0;
}

bool tenon__py_defer(tenon__py_interp *interp, tenon_deferred_node *node, void (*job)(void *), void *pointer)
{
    /* The atexit hook sets `dead`, then waits until no thread is between the two changes of `pushing`. So no push comes
     * too late. */
    atomic_fetch_add(&interp->pushing, 1);
    bool alive = !atomic_load(&interp->dead);
    if (alive) {
        atomic_fetch_add_explicit(&tenon__py_global.waiting, 1, memory_order_relaxed);
        bool first = tenon_deferred_push(&interp->pending, node, job, pointer);
        /* Pending calls run only in the main interpreter; in others, the next call of the bridge drains. */
        if (first && interp->is_main)
            Py_AddPendingCall(drain_pending, NULL);
    }
    atomic_fetch_sub(&interp->pushing, 1);
    return alive;
}

static TENON__PY_NOINLINE void defer_holder(tenon__py_holder *holder)
{
    if (!tenon__py_defer(holder->interp, &holder->node, run_deferred_release, holder))
        atomic_fetch_add_explicit(&tenon__py_global.leaked, 1, memory_order_relaxed);
}

void tenon__py_holder_release(void *pointer)
{
    tenon__py_holder *holder = pointer;
    if (tenon__py_attached_to(holder->interp))
        release_holder(holder);
    else
        defer_holder(holder);
}

void tenon__py_release(tenon_tensor *tensor)
{
    if (!PyErr_Occurred() && !atomic_load_explicit(&tenon__py_global.has_subinterpreters, memory_order_relaxed)) {
        tenon_tensor_release(tensor);
        return;
    }
    tenon__py_scope scope = tenon__py_enter_scope();
    const PyThreadState *before = tenon__py_own_state;
    tenon__py_own_state = PyThreadState_Get();
    tenon_tensor_release(tensor);
    tenon__py_own_state = before;
    tenon__py_leave_scope(scope);
}

void tenon__py_drain(void)
{
    tenon__py_scope scope = tenon__py_enter_scope();
    tenon__py_interp *interp = tenon__py_interp_state();
    if (interp)
        tenon_deferred_drain(&interp->pending);
    tenon__py_leave_scope(scope);
}

/* --------------------------------------------------------------------------------------------------------- records */

/* Stop further pushes, and run those that have arrived. A push takes less than a microsecond, but in the child of a
 * fork the thread that was pushing no longer exists, so the wait is limited. */
static void close_record(tenon__py_interp *interp)
{
    enum { LONG_ENOUGH = 10000000 };
    atomic_store(&interp->dead, true);
    for (int turns = 0; turns < LONG_ENOUGH && atomic_load(&interp->pushing); turns++) {
    }
    tenon_deferred_drain(&interp->pending);
    PyMem_Free(interp->spare);
    interp->spare = NULL;
}

static void capsule_free(PyObject *capsule)
{
    tenon__py_interp *interp = PyCapsule_GetPointer(capsule, CAPSULE_NAME);
    if (interp) {
        tenon__py_interp *expected = interp;
        atomic_compare_exchange_strong(&tenon__py_global.main, &expected, NULL);
        close_record(interp);
        atomic_store_explicit(&interp->gone, true, memory_order_release);
        Py_XDECREF((PyObject *)atomic_load(&interp->tensor_type));
        Py_XDECREF((PyObject *)atomic_load(&interp->function_type));
        Py_XDECREF((PyObject *)atomic_load(&interp->handle_type));
        Py_XDECREF((PyObject *)atomic_load(&interp->method_type));
        Py_XDECREF((PyObject *)atomic_load(&interp->meta_type));
        Py_XDECREF(atomic_load(&interp->dlpack_constants));
        for (int i = 0; i < TENON__PY_KNOWN_DTYPES; i++)
            Py_XDECREF(interp->dtypes[i].object);
    }
}

/* The interpreter's atexit hook: the last moment at which releases of other threads can be run. */
static PyObject *at_exit(PyObject *capsule, PyObject *unused)
{
    (void)unused;
    tenon__py_interp *interp = PyCapsule_GetPointer(capsule, CAPSULE_NAME);
    if (!interp)
        return NULL;
    close_record(interp);
    Py_RETURN_NONE;
}

static PyMethodDef at_exit_method = {"tenon_at_exit", at_exit, METH_NOARGS, NULL};

static int register_at_exit(PyObject *capsule)
{
    PyObject *hook = PyCFunction_New(&at_exit_method, capsule);
    PyObject *module = hook ? PyImport_ImportModule("atexit") : NULL;
    PyObject *result = module ? PyObject_CallMethod(module, "register", "O", hook) : NULL;
    Py_XDECREF(hook);
    Py_XDECREF(module);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* The record in the interpreter's dict, created if it is missing. In free-threaded Python two threads may create one at
 * the same time; the dict keeps one of them. */
static PyObject *find_record(PyObject *dict, PyObject *key)
{
    PyObject *found = PyDict_GetItemWithError(dict, key);
    if (found || PyErr_Occurred())
        return found;
    tenon__py_interp *interp = calloc(1, sizeof *interp);
    if (!interp)
        return PyErr_NoMemory();
    interp->state = PyInterpreterState_Get();
    interp->is_main = PyInterpreterState_GetID(interp->state) == 0;
    if (!interp->is_main)
        atomic_store_explicit(&tenon__py_global.has_subinterpreters, true, memory_order_relaxed);
    PyObject *capsule = PyCapsule_New(interp, CAPSULE_NAME, capsule_free);
    if (!capsule) {
        free(interp);
        return NULL;
    }
    interp->next = atomic_load(&tenon__py_global.interpreters);
    while (!atomic_compare_exchange_weak(&tenon__py_global.interpreters, &interp->next, interp)) {
    }
    found = tenon__py_set_default(dict, key, capsule);
    Py_DECREF(capsule);
    return found;
}

/* The record of an interpreter that is not the main one, or has none yet. */
static TENON__PY_NOINLINE tenon__py_interp *other_interp_state(PyInterpreterState *state)
{
    PyObject *dict = PyInterpreterState_GetDict(state);
    if (!dict) {
        PyErr_SetString(PyExc_RuntimeError, "tenon: this interpreter is shutting down");
        return NULL;
    }
    /* A process may have several copies of the bridge, so the key is an address in this one. */
    PyObject *key = PyLong_FromVoidPtr(&tenon__py_global.main);
    PyObject *capsule = key ? find_record(dict, key) : NULL;
    Py_XDECREF(key);
    tenon__py_interp *interp = capsule ? PyCapsule_GetPointer(capsule, CAPSULE_NAME) : NULL;
    if (!interp)
        return NULL;
    if (!atomic_load(&interp->hooked)) {
        if (register_at_exit(capsule) < 0)
            return NULL;
        atomic_store(&interp->hooked, true);
        if (interp->is_main)
            atomic_store_explicit(&tenon__py_global.main, interp, memory_order_release);
    }
    return interp;
}

tenon__py_interp *tenon__py_interp_state(void)
{
    PyInterpreterState *state = PyInterpreterState_Get();
    tenon__py_interp *interp = atomic_load_explicit(&tenon__py_global.main, memory_order_acquire);
    bool is_main = interp && interp->state == state && !atomic_load_explicit(&interp->dead, memory_order_relaxed);
    return is_main ? interp : other_interp_state(state);
}

PyTypeObject *tenon__py_make_type(_Atomic(PyTypeObject *) *place, PyType_Spec *spec)
{
    PyTypeObject *made = atomic_load_explicit(place, memory_order_acquire);
    PyObject *type = made ? NULL : tenon__py_type_of(PyType_FromSpec(spec));
    /* Another thread may have been faster. */
    if (type && !atomic_compare_exchange_strong(place, &made, (PyTypeObject *)type))
        Py_DECREF(type);
    else if (type)
        made = (PyTypeObject *)type;
    return made;
}
