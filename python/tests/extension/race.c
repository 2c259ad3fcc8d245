/* Threads that borrow the same object at the same time, again and again. */
#define PY_SSIZE_T_CLEAN
#include <tenon/python.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct race {
    PyObject *objects; /* a list */
    Py_ssize_t count;
    int threads;
    _Atomic Py_ssize_t arrived; /* over all rounds */
    atomic_uchar *wins;         /* of each object */
    atomic_llong lost;
    atomic_llong wrong; /* neither a win nor a BufferError */
} race;

static void run_round(race *this, Py_ssize_t i)
{
    tenon_py_borrowed borrowed;
    PyObject *object = PyList_GetItem(this->objects, i);
    /* The last thread to arrive does not wait. Its count releases the others. */
    if (atomic_fetch_add(&this->arrived, 1) + 1 < (i + 1) * this->threads) {
        Py_BEGIN_ALLOW_THREADS for (int spins = 0; atomic_load(&this->arrived) < (i + 1) * this->threads;
                                    spins++) if (spins > 1000) sched_yield();
        Py_END_ALLOW_THREADS
    }
    if (tenon_py_borrow(object, 0, &borrowed) == 0) {
        atomic_fetch_add(&this->wins[i], 1);
        tenon_py_unborrow(&borrowed);
    } else {
        atomic_fetch_add(PyErr_ExceptionMatches(PyExc_BufferError) ? &this->lost : &this->wrong, 1);
        PyErr_Clear();
    }
}

static void *run_thread(void *pointer)
{
    race *this = pointer;
    PyGILState_STATE state = PyGILState_Ensure();
    for (Py_ssize_t i = 0; i < this->count; i++)
        run_round(this, i);
    PyGILState_Release(state);
    return NULL;
}

/* race(objects, threads): the number of threads that won each object, as bytes; the number of losses; other
 * outcomes. */
static PyObject *race_race(PyObject *module, PyObject *arguments)
{
    (void)module;
    enum { MOST = 8 };
    race this = {.objects = NULL};
    pthread_t ids[MOST];
    if (!PyArg_ParseTuple(arguments, "O!i", &PyList_Type, &this.objects, &this.threads))
        return NULL;
    if (this.threads < 1 || this.threads > MOST)
        return PyErr_Format(PyExc_ValueError, "1 to %d threads", (int)MOST);
    this.count = PyList_Size(this.objects);
    this.wins = calloc((size_t)this.count + 1, sizeof *this.wins);
    if (!this.wins)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS for (int i = 0; i < this.threads;
                                i++) if (pthread_create(&ids[i], NULL, run_thread, &this) != 0)
        abort(); /* the others would wait for it permanently */
    for (int i = 0; i < this.threads; i++)
        pthread_join(ids[i], NULL);
    Py_END_ALLOW_THREADS PyObject *result =
        Py_BuildValue("(y#LL)", (const char *)this.wins, this.count, (long long)atomic_load(&this.lost),
                      (long long)atomic_load(&this.wrong));
    free(this.wins);
    return result;
}

/* An object whose __dlpack__ always returns the same capsule, so that no Python code runs between two threads and the
 * capsule. */
typedef struct same_object {
    PyObject ob_base;
    PyObject *capsule;
} same_object;

static PyObject *same_dlpack(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    (void)arguments;
    (void)keywords;
    PyObject *capsule = ((same_object *)self)->capsule;
    Py_INCREF(capsule);
    return capsule;
}

static PyObject *same_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return Py_BuildValue("(ii)", 1, 0);
}

static PyObject *same_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    (void)keywords;
    PyObject *capsule;
    if (!PyArg_ParseTuple(arguments, "O", &capsule))
        return NULL;
    same_object *self = PyObject_New(same_object, type);
    if (!self)
        return NULL;
    Py_INCREF(capsule);
    self->capsule = capsule;
    return (PyObject *)self;
}

static void same_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_DECREF(((same_object *)self)->capsule);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

static PyMethodDef same_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))same_dlpack, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", same_dlpack_device, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot same_slots[] = {
    {Py_tp_new, __extension__((void *)same_new)},
    {Py_tp_dealloc, __extension__((void *)same_dealloc)},
    {Py_tp_methods, same_methods},
    {0, NULL},
};

static PyType_Spec same_spec = {
    .name = "tenon_race.Same", .basicsize = sizeof(same_object), .flags = Py_TPFLAGS_DEFAULT, .slots = same_slots};

static int fill_module(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&same_spec);
    return type ? PyModule_AddObject(module, "Same", type) : -1;
}

static PyMethodDef methods[] = {
    {"race", race_race, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, __extension__((void *)fill_module)},
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tenon_race", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_tenon_race(void);
PyMODINIT_FUNC PyInit_tenon_race(void)
{
    return PyModuleDef_Init(&definition);
}
