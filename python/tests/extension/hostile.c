/* tenon_hostile: plays every producer that is hostile or merely odd. It knows DLPack's structs, but nothing about the
 * bridge under test. */
#include "hostile.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Cython calls this function. Since Python 3.13 no header declares it. */
PyAPI_FUNC(void) _PyTraceback_Add(const char *function, const char *file, int line);

hostile_plan hostile_now;
static atomic_llong made, deleted;

/* ------------------------------------------------------------------------------------------------------------ plan */

static int read_dims(PyObject *given, int64_t *values, bool *there, int32_t *count)
{
    *there = given != Py_None;
    *count = 0;
    if (!*there)
        return 0;
    if (!PyTuple_Check(given) || PyTuple_Size(given) > HOSTILE_MOST_DIMS)
        return PyErr_SetString(PyExc_TypeError, "expected a tuple of at most 100 numbers"), -1;
    for (*count = 0; *count < (int32_t)PyTuple_Size(given); ++*count) {
        values[*count] = PyLong_AsLongLong(PyTuple_GetItem(given, *count));
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

static void keep_error(PyObject **slot, PyObject *error)
{
    PyObject *old = *slot;
    *slot = error == Py_None ? NULL : error;
    Py_XINCREF(*slot);
    Py_XDECREF(old);
}

static void keep_word(char *slot, size_t size, const char *word)
{
    PyOS_snprintf(slot, size, "%s", word);
}

int hostile_read_plan(PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"kind",        "name",      "major",         "minor",        "flags",   "data",
                            "device_type", "device_id", "ndim",          "code",         "bits",    "lanes",
                            "shape",       "strides",   "suboffsets",    "byte_offset",  "deleter", "destructor",
                            "answer",      "error",     "stream_answer", "stream_error", "stream",  "format",
                            "itemsize",    "len",       "read_only",     "typekind",     "two",     "array_flags",
                            NULL};
    hostile_plan *plan = &hostile_now;
    const char *kind = "versioned", *name = NULL, *deleter = "count", *destructor = "polite", *answer = "ok";
    const char *stream_answer = "ok", *format = "f";
    unsigned major = 1, minor = 0;
    unsigned long long flags = 0, data = 1, byte_offset = 0, stream = 0;
    int device_type = 1, device_id = 0, ndim = INT_MIN, code = 2, bits = 32, lanes = 1;
    int read_only = 0, typekind = 'f', two = 2, array_flags = 0x700;
    PyObject *shape = NULL, *strides = Py_None, *suboffsets = Py_None, *error = Py_None, *stream_error = Py_None;
    Py_ssize_t itemsize = 4, len = -1;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$szIIKKiiiiiiOOOKsssOsOKznniiii", names, &kind, &name,
                                     &major, &minor, &flags, &data, &device_type, &device_id, &ndim, &code, &bits,
                                     &lanes, &shape, &strides, &suboffsets, &byte_offset, &deleter, &destructor,
                                     &answer, &error, &stream_answer, &stream_error, &stream, &format, &itemsize, &len,
                                     &read_only, &typekind, &two, &array_flags))
        return -1;
    int32_t dims = 1, others;
    plan->shape[0] = 3;
    plan->has_shape = true;
    if (shape && read_dims(shape, plan->shape, &plan->has_shape, &dims) < 0)
        return -1;
    if (read_dims(strides, plan->strides, &plan->has_strides, &others) < 0 ||
        read_dims(suboffsets, plan->suboffsets, &plan->has_suboffsets, &others) < 0)
        return -1;
    if (!name)
        name = strcmp(kind, "legacy") == 0 ? TENON_DL_CAPSULE_LEGACY : TENON_DL_CAPSULE;
    keep_word(plan->kind, sizeof plan->kind, kind);
    keep_word(plan->name, sizeof plan->name, name);
    keep_word(plan->deleter, sizeof plan->deleter, deleter);
    keep_word(plan->destructor, sizeof plan->destructor, destructor);
    keep_word(plan->answer, sizeof plan->answer, answer);
    keep_word(plan->stream_answer, sizeof plan->stream_answer, stream_answer);
    keep_word(plan->format, sizeof plan->format, format ? format : "");
    plan->major = major;
    plan->minor = minor;
    plan->flags = flags;
    plan->data = data;
    plan->device_type = device_type;
    plan->device_id = device_id;
    plan->ndim = ndim == INT_MIN ? dims : ndim;
    plan->code = code;
    plan->bits = bits;
    plan->lanes = lanes;
    plan->byte_offset = byte_offset;
    plan->stream = stream;
    plan->itemsize = itemsize;
    plan->len = len;
    plan->read_only = read_only;
    plan->typekind = typekind;
    plan->two = two;
    plan->array_flags = array_flags;
    keep_error(&plan->error, error);
    keep_error(&plan->stream_error, stream_error);
    return 0;
}

static PyObject *hostile_set_plan(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    (void)module;
    if (hostile_read_plan(arguments, keywords) < 0)
        return NULL;
    Py_RETURN_NONE;
}

void hostile_set_error(PyObject *error)
{
    if (error)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
}

/* ----------------------------------------------------------------------------------------------------------- boxes */

void hostile_box_free(hostile_box *box)
{
    char mode[sizeof box->deleter];
    memcpy(mode, box->deleter, sizeof mode);
    memset(box, 0x5a, sizeof *box); /* a second look at the struct sees nonsense */
    free(box);
    atomic_fetch_add(&deleted, 1);
    if (strcmp(mode, "raise") == 0)
        PyErr_SetString(PyExc_RuntimeError, "the deleter raised");
    else if (strcmp(mode, "clobber") == 0)
        PyErr_Clear();
}

static void delete_versioned(tenon_dl_managed *managed)
{
    hostile_box_free((hostile_box *)(void *)managed);
}

static void delete_legacy(tenon_dl_managed_legacy *managed)
{
    hostile_box_free((hostile_box *)(void *)managed);
}

hostile_box *hostile_box_new(void)
{
    const hostile_plan *plan = &hostile_now;
    hostile_box *box = NULL;
    if (posix_memalign((void **)&box, 64, sizeof *box) != 0)
        return PyErr_NoMemory(), NULL;
    memset(box, 0, sizeof *box);
    for (int i = 0; i < HOSTILE_MOST_DIMS; i++) {
        box->shape[i] = plan->shape[i];
        box->strides[i] = plan->strides[i];
        box->sizes[i] = (Py_ssize_t)plan->shape[i];
        box->steps[i] = (Py_ssize_t)plan->strides[i];
        box->suboffsets[i] = (Py_ssize_t)plan->suboffsets[i];
    }
    memcpy(box->name, plan->name, sizeof box->name);
    memcpy(box->format, plan->format, sizeof box->format);
    memcpy(box->deleter, plan->deleter, sizeof box->deleter);
    tenon_dl_tensor tensor = {
        .data = plan->data == 1 ? box->memory : (void *)(uintptr_t)plan->data,
        .device = tenon_device_of(plan->device_type, plan->device_id),
        .ndim = plan->ndim,
        .dtype = tenon_dtype_of(plan->code, plan->bits, plan->lanes),
        .shape = plan->has_shape ? box->shape : NULL,
        .strides = plan->has_strides ? box->strides : NULL,
        .byte_offset = plan->byte_offset,
    };
    bool no_deleter = strcmp(plan->deleter, "null") == 0;
    if (strcmp(plan->kind, "legacy") == 0) {
        box->managed.legacy.dl_tensor = tensor;
        box->managed.legacy.deleter = no_deleter ? NULL : delete_legacy;
    } else {
        box->managed.versioned.version = (tenon_dl_version){plan->major, plan->minor};
        box->managed.versioned.flags = plan->flags;
        box->managed.versioned.dl_tensor = tensor;
        box->managed.versioned.deleter = no_deleter ? NULL : delete_versioned;
    }
    atomic_fetch_add(&made, 1);
    return box;
}

/* (made, deleted) since the process began. */
static PyObject *hostile_counts(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return Py_BuildValue("(LL)", (long long)atomic_load(&made), (long long)atomic_load(&deleted));
}

/* -------------------------------------------------------------------------------------------------------- capsules */

enum { EDGE_BYTES = 24 };

static void delete_edge(tenon_dl_managed *managed)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    munmap((char *)managed + EDGE_BYTES - page, 2 * page);
    atomic_fetch_add(&deleted, 1);
}

/* The part of a version 2 struct that DLPack lets a reader of version 1 read, and not one byte more. */
static tenon_dl_managed *edge_new(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0)
        return PyErr_NoMemory(), NULL;
    tenon_dl_managed *managed = (tenon_dl_managed *)(void *)(pages + page - EDGE_BYTES);
    managed->version = (tenon_dl_version){2, 0};
    managed->manager_ctx = NULL;
    managed->deleter = delete_edge;
    atomic_fetch_add(&made, 1);
    return managed;
}

static void run_deleter(void *pointer, bool legacy)
{
    tenon_dl_managed *managed = pointer;
    tenon_dl_managed_legacy *old = pointer;
    if (legacy && old->deleter)
        old->deleter(old);
    else if (!legacy && managed->deleter)
        managed->deleter(managed);
}

/* As in the protocol: release only a capsule that was not consumed. */
static void polite_destroy(PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    if (strncmp(name, "used", 4) != 0)
        run_deleter(PyCapsule_GetPointer(capsule, name), PyCapsule_GetContext(capsule) != NULL);
}

static void rude_destroy(PyObject *capsule)
{
    run_deleter(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)), PyCapsule_GetContext(capsule) != NULL);
}

static PyObject *capsule_by_plan(void)
{
    const hostile_plan *plan = &hostile_now;
    static const char edge_name[] = TENON_DL_CAPSULE;
    bool edge = strcmp(plan->kind, "edge") == 0;
    hostile_box *box = edge ? NULL : hostile_box_new();
    void *pointer = edge ? (void *)edge_new() : (void *)box;
    if (!pointer)
        return NULL;
    PyCapsule_Destructor destroy = strcmp(plan->destructor, "rude") == 0   ? rude_destroy
                                   : strcmp(plan->destructor, "none") == 0 ? NULL
                                                                           : polite_destroy;
    /* The name is freed with the box, so a consumer that does not rename the capsule reads freed memory. */
    PyObject *capsule = PyCapsule_New(pointer, edge ? edge_name : box->name, destroy);
    if (capsule && strcmp(plan->kind, "legacy") == 0)
        PyCapsule_SetContext(capsule, pointer);
    if (!capsule)
        run_deleter(pointer, strcmp(plan->kind, "legacy") == 0);
    return capsule;
}

/* capsule(**plan): a DLPack capsule. */
static PyObject *hostile_capsule(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    (void)module;
    return hostile_read_plan(arguments, keywords) < 0 ? NULL : capsule_by_plan();
}

static PyObject *hostile_capsule_name(PyObject *module, PyObject *capsule)
{
    (void)module;
    const char *name = PyCapsule_GetName(capsule);
    return PyErr_Occurred() ? NULL : PyUnicode_FromString(name ? name : "");
}

/* ------------------------------------------------------------------------------------------ __dlpack__ written in C */

static PyObject *dlpack_noargs(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return capsule_by_plan();
}

static PyObject *dlpack_stream(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"stream", NULL};
    PyObject *stream;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$O:__dlpack__", names, &stream))
        return NULL;
    return capsule_by_plan();
}

static PyObject *dlpack_all(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    (void)module;
    (void)arguments;
    (void)keywords;
    return capsule_by_plan();
}

/* Cython adds a traceback entry even if it rejects an argument. */
static PyObject *dlpack_cython(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    static const char *const unknown[] = {"copy", "max_version"};
    (void)module;
    (void)arguments;
    for (int i = 0; keywords && i < 2; i++) {
        if (!PyDict_GetItemString(keywords, unknown[i]))
            continue;
        PyErr_Format(PyExc_TypeError, "__dlpack__() got an unexpected keyword argument '%s'", unknown[i]);
        _PyTraceback_Add("__dlpack__", "producer.pyx", 7);
        return NULL;
    }
    return capsule_by_plan();
}

/* ---------------------------------------------------------------------------------------------------------- tables */

static int table_managed(void *object, tenon_dl_managed **out)
{
    const hostile_plan *plan = &hostile_now;
    (void)object;
    hostile_set_error(plan->error);
    bool fails = strncmp(plan->answer, "fail", 4) == 0;
    if (strcmp(plan->answer, "fail") == 0 || strcmp(plan->answer, "nothing") == 0)
        return fails ? -1 : 0;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    hostile_box *box = hostile_box_new();
    PyErr_Restore(type, value, traceback);
    *out = &box->managed.versioned;
    return fails ? -1 : 0;
}

static int table_plain(void *object, tenon_dl_tensor *out)
{
    static hostile_box *kept; /* the producer owns a borrow: it lives until the next one */
    tenon_dl_managed *managed = NULL;
    int result = table_managed(object, &managed);
    if (managed) {
        free(kept);
        kept = (hostile_box *)(void *)managed;
        *out = managed->dl_tensor;
        atomic_fetch_add(&deleted, 1);
    }
    return result;
}

static int table_stream(int32_t device_type, int32_t device_id, void **out)
{
    const hostile_plan *plan = &hostile_now;
    (void)device_type;
    (void)device_id;
    hostile_set_error(plan->stream_error);
    if (strcmp(plan->stream_answer, "nothing") != 0)
        *out = (void *)(uintptr_t)plan->stream;
    return strcmp(plan->stream_answer, "fail") == 0 ? -1 : 0;
}

static int table_allocate(tenon_dl_tensor *prototype, tenon_dl_managed **out, void *error_ctx,
                          void (*set_error)(void *error_ctx, const char *kind, const char *message))
{
    (void)prototype;
    (void)out;
    set_error(error_ctx, "MemoryError", "a hostile allocator");
    return -1;
}

static int table_to_object(tenon_dl_managed *managed, void **out)
{
    (void)managed;
    (void)out;
    PyErr_SetString(PyExc_RuntimeError, "a hostile table takes nothing");
    return -1;
}

/* table(name=, major=, minor=, null=, prev=): a capsule of a table that is never freed, like every table. `null` names
 * a missing function; `prev` is the capsule of another table, or "self" for a cycle. */
static PyObject *hostile_table(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"name", "major", "minor", "null", "prev", NULL};
    const char *name = TENON_DL_EXCHANGE_CAPSULE, *null = "";
    unsigned major = 1, minor = 3;
    PyObject *prev = Py_None;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$sIIsO", names, &name, &major, &minor, &null, &prev))
        return NULL;
    tenon_dl_exchange *table = malloc(sizeof *table);
    char *own_name = malloc(strlen(name) + 1);
    if (!table || !own_name) {
        free(table);
        free(own_name);
        return PyErr_NoMemory();
    }
    strcpy(own_name, name);
    *table = (tenon_dl_exchange){
        .header = {{major, minor}, NULL},
        .managed_tensor_allocator = table_allocate,
        .managed_tensor_from_py_object_no_sync = strcmp(null, "managed") == 0 ? NULL : table_managed,
        .managed_tensor_to_py_object_no_sync = strcmp(null, "to_object") == 0 ? NULL : table_to_object,
        .dltensor_from_py_object_no_sync = strcmp(null, "plain") == 0 ? NULL : table_plain,
        .current_work_stream = strcmp(null, "stream") == 0 ? NULL : table_stream,
    };
    if (PyUnicode_Check(prev))
        table->header.prev_api = &table->header;
    else if (prev != Py_None)
        table->header.prev_api = PyCapsule_GetPointer(prev, TENON_DL_EXCHANGE_CAPSULE);
    return PyErr_Occurred() ? NULL : PyCapsule_New(table, own_name, NULL);
}

/* ---------------------------------------------------------------------------------------------------------- module */

/* drop_with(list, exception): drops the last reference to the list's only item while the exception is pending, and
 * raises the exception that is pending afterwards. */
static PyObject *hostile_drop_with(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *list, *error;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyList_Type, &list, &error))
        return NULL;
    PyObject *item = PyObject_CallMethod(list, "pop", NULL);
    if (!item)
        return NULL;
    hostile_set_error(error);
    Py_DECREF(item);
    if (!PyErr_Occurred())
        Py_RETURN_NONE; /* lost */
    return NULL;
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS

static PyMethodDef methods[] = {
    {"plan", KEYWORDS(hostile_set_plan), NULL},
    {"counts", hostile_counts, METH_NOARGS, NULL},
    {"capsule", KEYWORDS(hostile_capsule), NULL},
    {"capsule_name", hostile_capsule_name, METH_O, NULL},
    {"dlpack_noargs", dlpack_noargs, METH_NOARGS, NULL},
    {"dlpack_stream", KEYWORDS(dlpack_stream), NULL},
    {"dlpack_all", KEYWORDS(dlpack_all), NULL},
    {"dlpack_cython", KEYWORDS(dlpack_cython), NULL},
    {"table", KEYWORDS(hostile_table), NULL},
    {"drop_with", hostile_drop_with, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int fill_module(PyObject *module)
{
    return PyModule_AddFunctions(module, hostile_memory_methods) < 0 ? -1 : hostile_add_buffer(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, __extension__((void *)fill_module)},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030d0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tenon_hostile", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_tenon_hostile(void);
PyMODINIT_FUNC PyInit_tenon_hostile(void)
{
    return PyModuleDef_Init(&definition);
}
