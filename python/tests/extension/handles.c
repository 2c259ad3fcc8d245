/* Two foreign handle types that threads add at the same time, and a function that takes one handle of each. */
#define PY_SSIZE_T_CLEAN
#include <tenon/python.h>

#include <pthread.h>
#include <stdatomic.h>

enum { KINDS = 2, THREADS = 8 };

static int held[KINDS];                        /* handles that were taken and not yet released */
static const int services[KINDS] = {111, 222}; /* the result of `extension` */

/* A handle is the integer itself; 0 is refused. */
static int take(int kind, PyObject *object, void **out)
{
    long number = PyLong_AsLong(object);
    if (number <= 0)
        return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_ValueError, "it is not positive"), -1);
    held[kind]++;
    *out = (void *)(intptr_t)number;
    return 0;
}

static int take_one(PyObject *object, void **out)
{
    return take(0, object, out);
}

static int take_two(PyObject *object, void **out)
{
    return take(1, object, out);
}

static int give(void *handle, PyObject **out)
{
    *out = PyLong_FromLong((long)(intptr_t)handle);
    return *out ? 0 : -1;
}

static void release_one(void *handle)
{
    (void)handle;
    held[0]--;
}

static void release_two(void *handle)
{
    (void)handle;
    held[1]--;
}

static const tenon_py_handle_type kinds[KINDS] = {{"one", "test.one", &services[0], take_one, give, release_one},
                                                  {"two", "test.two", &services[1], take_two, give, release_two}};

static tenon_status both(tenon_call *call)
{
    const int *one = call->host->extension(call, "test.one", 1), *two = call->host->extension(call, "test.two", 1);
    if (!one || !two || *one != 111 || *two != 222 || call->host->extension(call, "test.three", 1))
        return tenon_fail(call, TENON_EFAILED, "the extensions are wrong");
    tenon_return_int(call, 0, 100 * (intptr_t)tenon_arg_handle(call, 0) + (intptr_t)tenon_arg_handle(call, 1));
    return TENON_OK;
}

TENON_MODULE(library, "", TENON_FUNCTION("both(a: handle('one'), b: handle('two')) -> int", both, ""))

static atomic_int arrived, failed;

static void *add(void *kind)
{
    PyGILState_STATE state = PyGILState_Ensure();
    Py_BEGIN_ALLOW_THREADS;
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < THREADS) {
    }
    Py_END_ALLOW_THREADS;
    if (tenon_py_add_handle_type(kind) < 0)
        atomic_fetch_add(&failed, 1);
    PyGILState_Release(state);
    return NULL;
}

/* load(): adds the types from eight threads at once, then loads the module. */
static PyObject *handles_load(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&ids[i], NULL, add, (void *)(uintptr_t)&kinds[i % KINDS]))
            return PyErr_Format(PyExc_RuntimeError, "no thread");
    Py_BEGIN_ALLOW_THREADS;
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    Py_END_ALLOW_THREADS;
    if (failed)
        return PyErr_Format(PyExc_RuntimeError, "%d of the threads failed", (int)failed);
    return tenon_py_module(&tenon__module_library, NULL);
}

/* fill(): adds types until there is no more room, and raises that error. */
static PyObject *handles_fill(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
    static tenon_py_handle_type more[sizeof names / sizeof *names];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        more[i] = kinds[0];
        more[i].type = names[i];
        if (tenon_py_add_handle_type(&more[i]) < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *handles_add_nothing(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return tenon_py_add_handle_type(&(tenon_py_handle_type){.type = "nothing"}) < 0 ? NULL : PyLong_FromLong(0);
}

static PyObject *handles_held(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return Py_BuildValue("ii", held[0], held[1]);
}

static PyMethodDef methods[] = {
    {"load", handles_load, METH_NOARGS, NULL},
    {"fill", handles_fill, METH_NOARGS, NULL},
    {"add_nothing", handles_add_nothing, METH_NOARGS, NULL},
    {"held", handles_held, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {TENON__PY_FREE_SLOTS{0, NULL}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tenon_handles", NULL, 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_tenon_handles(void)
{
    return PyModuleDef_Init(&definition);
}
