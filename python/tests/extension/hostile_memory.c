/* Buffers, array structs, and allocators that fail. */
#include "hostile.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------------- buffers */

static int buffer_get(PyObject *self, Py_buffer *buffer, int flags)
{
    const hostile_plan *plan = &hostile_now;
    (void)flags;
    buffer->obj = NULL;
    hostile_set_error(plan->error);
    if (strcmp(plan->answer, "fail") == 0)
        return -1;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    hostile_box *box = hostile_box_new();
    PyErr_Restore(type, value, traceback);
    if (!box)
        return -1;
    buffer->buf = plan->data == 1 ? box->memory : (void *)(uintptr_t)plan->data;
    buffer->len = plan->len;
    buffer->itemsize = plan->itemsize;
    buffer->readonly = plan->read_only;
    buffer->ndim = plan->ndim;
    buffer->format = box->format[0] ? box->format : NULL;
    buffer->shape = plan->has_shape ? box->sizes : NULL;
    buffer->strides = plan->has_strides ? box->steps : NULL;
    buffer->suboffsets = plan->has_suboffsets ? box->suboffsets : NULL;
    buffer->internal = box;
    Py_INCREF(self);
    buffer->obj = self;
    return 0;
}

static void buffer_release(PyObject *self, Py_buffer *buffer)
{
    (void)self;
    hostile_box_free(buffer->internal);
}

static PyType_Slot buffer_slots[] = {
    {Py_bf_getbuffer, __extension__((void *)buffer_get)},
    {Py_bf_releasebuffer, __extension__((void *)buffer_release)},
    {0, NULL},
};

static PyType_Spec buffer_spec = {
    .name = "tenon_hostile.Buffer",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = buffer_slots,
};

int hostile_add_buffer(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&buffer_spec);
    if (!type)
        return -1;
    if (PyModule_AddObject(module, "Buffer", type) == 0)
        return 0;
    Py_DECREF(type);
    return -1;
}

/* --------------------------------------------------------------------------------------------------- array structs */

typedef struct array_struct {
    int two;
    int nd;
    char typekind;
    int itemsize;
    int flags;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    void *data;
    PyObject *descr;
    hostile_box *box;
} array_struct;

static void array_struct_destroy(PyObject *capsule)
{
    array_struct *array = PyCapsule_GetPointer(capsule, NULL);
    hostile_box_free(array->box);
    free(array);
}

/* array_struct(**plan): the result of an __array_struct__. */
static PyObject *hostile_array_struct(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    const hostile_plan *plan = &hostile_now;
    (void)module;
    if (hostile_read_plan(arguments, keywords) < 0)
        return NULL;
    array_struct *array = malloc(sizeof *array);
    hostile_box *box = hostile_box_new();
    if (!array || !box) {
        free(array);
        if (box)
            hostile_box_free(box);
        return PyErr_NoMemory();
    }
    *array = (array_struct){
        .two = plan->two,
        .nd = plan->ndim,
        .typekind = (char)plan->typekind,
        .itemsize = (int)plan->itemsize,
        .flags = plan->array_flags,
        .shape = plan->has_shape ? box->sizes : NULL,
        .strides = plan->has_strides ? box->steps : NULL,
        .data = plan->data == 1 ? box->memory : (void *)(uintptr_t)plan->data,
        .box = box,
    };
    PyObject *capsule = PyCapsule_New(array, NULL, array_struct_destroy);
    if (!capsule) {
        hostile_box_free(box);
        free(array);
    }
    return capsule;
}

/* ------------------------------------------------------------------------------------------------------ allocators */

enum { DOMAINS = 2 };
static const PyMemAllocatorDomain domains[DOMAINS] = {PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ};
static PyMemAllocatorEx real[DOMAINS];
static atomic_llong seen, first_failure, end_of_failures;

static bool must_fail(void)
{
    long long number = atomic_fetch_add(&seen, 1);
    return number >= atomic_load(&first_failure) && number < atomic_load(&end_of_failures);
}

static void *starved_malloc(void *domain, size_t size)
{
    const PyMemAllocatorEx *next = domain;
    return must_fail() ? NULL : next->malloc(next->ctx, size);
}

static void *starved_calloc(void *domain, size_t count, size_t size)
{
    const PyMemAllocatorEx *next = domain;
    return must_fail() ? NULL : next->calloc(next->ctx, count, size);
}

static void *starved_realloc(void *domain, void *pointer, size_t size)
{
    const PyMemAllocatorEx *next = domain;
    return must_fail() ? NULL : next->realloc(next->ctx, pointer, size);
}

static void starved_free(void *domain, void *pointer)
{
    const PyMemAllocatorEx *next = domain;
    next->free(next->ctx, pointer);
}

/* starve(first, count, function, *arguments): calls the function while `count` of Python's allocations, from number
 * `first` on, fail. Returns (reached, result, exception): whether there were that many allocations, and the outcome of
 * the call. The exception has no traceback: CPython has 16 spare MemoryErrors, and if all are in use it raises one
 * that is never freed. Since 3.12 that one keeps its traceback, whose frames hold the function's arguments. */
static PyObject *hostile_starve(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *function = PyTuple_GetItem(arguments, 2);
    long long first = function ? PyLong_AsLongLong(PyTuple_GetItem(arguments, 0)) : -1;
    long long count = function ? PyLong_AsLongLong(PyTuple_GetItem(arguments, 1)) : -1;
    PyObject *rest = PyErr_Occurred() ? NULL : PyTuple_GetSlice(arguments, 3, PyTuple_Size(arguments));
    if (!rest)
        return NULL;
    atomic_store(&seen, 0);
    atomic_store(&first_failure, first);
    atomic_store(&end_of_failures, count > LLONG_MAX - first ? LLONG_MAX : first + count);
    for (int i = 0; i < DOMAINS; i++) {
        PyMem_GetAllocator(domains[i], &real[i]);
        PyMemAllocatorEx starved = {&real[i], starved_malloc, starved_calloc, starved_realloc, starved_free};
        PyMem_SetAllocator(domains[i], &starved);
    }
    PyObject *result = PyObject_Call(function, rest, NULL);
    bool reached = atomic_load(&seen) > first;
    for (int i = 0; i < DOMAINS; i++)
        PyMem_SetAllocator(domains[i], &real[i]);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value)
        PyException_SetTraceback(value, Py_None);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    Py_DECREF(rest);
    if (!result && !value) {
        PyErr_SetString(PyExc_AssertionError, "the function failed without an exception");
        return NULL;
    }
    if (result && value) {
        PyErr_SetString(PyExc_AssertionError, "the function succeeded with an exception");
        return NULL;
    }
    PyObject *answer = Py_BuildValue("(iOO)", (int)reached, result ? result : Py_None, value ? value : Py_None);
    Py_XDECREF(result);
    Py_XDECREF(value);
    return answer;
}

PyMethodDef hostile_memory_methods[] = {
    {"array_struct", (PyCFunction)(void (*)(void))hostile_array_struct, METH_VARARGS | METH_KEYWORDS, NULL},
    {"starve", hostile_starve, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
