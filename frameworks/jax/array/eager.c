/* Calls on JAX arrays that return some: they run a program that JAX has compiled, which has the memory of its results
 * (tenon._jax_eager makes it). The usual call is as short as JAX's own: its arrays and a packed operand with all numbers.
 * Whatever is unusual is left to the steps that every other call takes, and so are errors about arguments. */
#include "../../../python/src/call/internal.h"
#include "internal.h"

#include <string.h>

enum { EAGER_DEVICES = 4, EAGER_OPERANDS = 4 };

/* The packed operand for some numbers, on a device. It is made when they come for the second time, because that takes longer
 * than a call. */
typedef struct eager_operand {
    bool is_set;
    uint64_t numbers
        [TENON__PY_INLINE_PARAMS]; /* their bits: those of a number are the same in JAX's modes of 32 and 64 bits */
    PyObject *array;               /* NULL: they came once */
} eager_operand;

/* What a function's calls need. Made for its first call on JAX arrays. */
typedef struct jax_eager {
    tenon__py_prepared base;
    bool is_packable; /* all parameters are tensors or numbers that can be packed */
    bool is_alone;    /* there is only one device, so that all arrays are on it */
    int32_t nnumbers; /* of a packable one */
    PyObject *parts;  /* the tuple that holds the next six */
    PyObject *single; /* jax.sharding.SingleDeviceSharding */
    PyObject *find, *call, *is_unusual, *missing, *put;
    PyObject *sharding_name, *device_name;
    atomic_flag lock; /* guards additions to the programs, which are read without it, and all of the operands */
    struct {
        _Atomic(PyObject *) device; /* set after the program, never changed */
        PyObject *program;
        eager_operand operands[EAGER_OPERANDS];
        int next_operand;      /* the one that is replaced next */
    } programs[EAGER_DEVICES]; /* of a packable one */
} jax_eager;

static void eager_keep(tenon__py_prepared *prepared)
{
    (void)prepared;
}

/* A function that has none. */
static jax_eager eager_none = {.base = {eager_keep}};

static void eager_free(tenon__py_prepared *prepared)
{
    jax_eager *self = (jax_eager *)prepared;
    for (int i = 0; i < EAGER_DEVICES; i++) {
        Py_XDECREF(self->programs[i].device);
        Py_XDECREF(self->programs[i].program);
        for (int k = 0; k < EAGER_OPERANDS; k++)
            Py_XDECREF(self->programs[i].operands[k].array);
    }
    Py_XDECREF(self->parts);
    Py_XDECREF(self->sharding_name);
    Py_XDECREF(self->device_name);
    PyMem_Free(self);
}

/* ----------------------------------------------------------------------------------------------------------- making */

/* Ask the package. NULL without an exception if JAX cannot run the function, or with one that must not be replaced. */
static PyObject *eager_ask(const tenon__py_function *function)
{
    PyObject *self = (PyObject *)(uintptr_t)function;
    PyMethodDef *method = (PyMethodDef *)(uintptr_t)&function->method;
    PyObject *module = PyImport_ImportModule("tenon._jax_eager");
    PyObject *builtin = module ? PyCFunction_NewEx(method, self, function->module_name) : NULL;
    PyObject *parts = builtin ? PyObject_CallMethod(module, "prepare", "O", builtin) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(builtin);
    if (parts && !PyTuple_Check(parts))
        Py_CLEAR(parts);
    tenon__py_clear_ignorable_error(); /* an extension may be used without the package */
    return parts;
}

static jax_eager *eager_new(const tenon__py_function *function, PyObject *parts)
{
    jax_eager *eager = PyMem_Calloc(1, sizeof *eager);
    int is_packable = 0, is_alone = 0;
    if (!eager) {
        PyErr_NoMemory();
        return NULL;
    }
    eager->base.release = eager_free;
    eager->sharding_name = PyUnicode_InternFromString("_sharding");
    eager->device_name = PyUnicode_InternFromString("_device");
    if (!eager->sharding_name || !eager->device_name ||
        !PyArg_ParseTuple(parts, "OppOOOOO", &eager->single, &is_packable, &is_alone, &eager->find, &eager->call,
                          &eager->is_unusual, &eager->missing, &eager->put)) {
        eager_free(&eager->base);
        return NULL;
    }
    Py_INCREF(parts);
    eager->parts = parts;
    eager->is_packable = is_packable && !function->is_large;
    eager->is_alone = is_alone;
    eager->nnumbers = function->signature->nparams - function->signature->ntensors;
    return eager;
}

/* Two threads may come here at the same time. */
static TENON__PY_NOINLINE jax_eager *eager_make(const tenon__py_function *function)
{
    _Atomic(tenon__py_prepared *) *place = (_Atomic(tenon__py_prepared *) *)(uintptr_t)&function->prepared;
    bool may = function->takes_like && !function->takes_handle && !function->signature->nlists &&
               !function->signature->ncallables && !function->signature->nconverted &&
               !function->is_overload && /* its program is found by the name */
               !(function->function.flags & TENON_KEEP_LOCK);
    PyObject *parts = may ? eager_ask(function) : NULL;
    if (PyErr_Occurred())
        return NULL;
    jax_eager *made = parts ? eager_new(function, parts) : &eager_none;
    tenon__py_prepared *none = NULL;
    Py_XDECREF(parts);
    if (made && !atomic_compare_exchange_strong(place, &none, &made->base)) {
        made->base.release(&made->base);
        made = (jax_eager *)none;
    }
    return made;
}

/* The program for a device, which *made holds. NULL without an exception if the function has none, or with one. */
static TENON__PY_NOINLINE PyObject *eager_find(jax_eager *eager, PyObject *device, PyObject **made)
{
    *made = PyObject_CallFunctionObjArgs(eager->find, device, NULL);
    if (!*made || *made == Py_None)
        return NULL;
    tenon__py_spin_lock(&eager->lock);
    int i = 0;
    while (i < EAGER_DEVICES && eager->programs[i].device && eager->programs[i].device != device)
        i++;
    if (i < EAGER_DEVICES && !eager->programs[i].device) {
        Py_INCREF(*made);
        Py_INCREF(device);
        eager->programs[i].program = *made;
        atomic_store_explicit(&eager->programs[i].device, device, memory_order_release);
    }
    tenon__py_spin_unlock(&eager->lock);
    return *made;
}

/* -------------------------------------------------------------------------------------------------------- arguments */

/* The device of an array that is on only one: a new reference. NULL, perhaps with an exception, if it is on several, or
 * this JAX has other attributes. */
static PyObject *eager_device(const jax_eager *eager, PyObject *array)
{
    PyObject *sharding = PyObject_GetAttr(array, eager->sharding_name), *device = NULL;
    if (sharding && (PyObject *)Py_TYPE(sharding) == eager->single)
        device = PyObject_GetAttr(sharding, eager->device_name);
    Py_XDECREF(sharding);
    return device;
}

/* A number as a call reads it. False, perhaps with an exception, if it is not one. */
static bool eager_number(tenon__py_frame *f, const tenon_parameter *param, PyObject *object, tenon_value *value)
{
    if (tenon__py_take_number(param->kind, object, value))
        return true;
    if (tenon__py_enter_recursion(" while the arguments of a Tenon function were read") < 0)
        return false;
    tenon_block *blocks = NULL; /* numbers need neither */
    PyObject *held = NULL;
    int status = tenon__py_to_value(f->function, param, object, &held, &blocks, value);
    tenon__py_leave_recursion();
    return status == 0;
}

/* The device of all tensors, each exactly of JAX's type: a new reference, or NULL as above. */
static PyObject *eager_common_device(const jax_eager *eager, const tenon__py_frame *f, const PyTypeObject *array)
{
    const tenon_signature *s = f->function->signature;
    PyObject *device = NULL;
    for (int32_t i = 0; i < s->nparams; i++) {
        PyObject *object = f->argument_objects[i];
        if (!s->params[i].spec || !object || (object == Py_None && (s->params[i].flags & TENON_PARAMETER_OPTIONAL)))
            continue;
        if (device && eager->is_alone && Py_TYPE(object) == array)
            continue;
        PyObject *own = Py_TYPE(object) == array ? eager_device(eager, object) : NULL;
        bool good = own && (!device || own == device);
        Py_XDECREF(device ? own : NULL);
        if (!good) {
            Py_XDECREF(device);
            return NULL;
        }
        device = device ? device : own;
    }
    return device;
}

/* ------------------------------------------------------------------------------------------------------------ calls */

/* A new array of NumPy, which JAX itself needs, borrowed to be written. */
static PyObject *eager_new_operand(const int64_t *length, tenon_py_borrowed *out)
{
    if (atomic_load_explicit(&tenon__py_global.array_layout.type, memory_order_acquire))
        return tenon__py_global.array_layout.empty(TENON_U32, 1, length, out);
    PyObject *module = PyImport_ImportModule("numpy");
    PyObject *array = module ? tenon__py_call_empty(module, NULL, TENON_U32, 1, length) : NULL;
    Py_XDECREF(module);
    return tenon__py_borrow_made(array, TENON_U32, out);
}

/* Read the bits of all numbers. False, perhaps with an exception, if one is not a number. */
static bool eager_read_numbers(tenon__py_frame *f, uint64_t numbers[TENON__PY_INLINE_PARAMS])
{
    const tenon_signature *s = f->function->signature;
    int32_t count = 0;
    for (int32_t i = 0; i < s->nparams; i++) {
        tenon_value value;
        if (s->params[i].spec)
            continue;
        if (!eager_number(f, &s->params[i], f->argument_objects[i], &value))
            return false;
        memcpy(&numbers[count++], &value.as, sizeof *numbers);
    }
    return true;
}

/* The operand with these numbers: a new array of NumPy. */
static PyObject *eager_pack(const jax_eager *eager, const uint64_t *numbers)
{
    int64_t length = 2 * (int64_t)eager->nnumbers;
    tenon_py_borrowed made;
    PyObject *array = eager_new_operand(&length, &made);
    if (array) {
        memcpy(made.view.data, numbers, (size_t)eager->nnumbers * sizeof *numbers);
        tenon_py_unborrow(&made);
    }
    return array;
}

/* Find the operand with these numbers that is on the device of a program: a new reference, or NULL. *again: they came before. */
static PyObject *eager_find_operand(jax_eager *eager, int at, const uint64_t *numbers, bool *again)
{
    size_t size = (size_t)eager->nnumbers * sizeof *numbers;
    PyObject *found = NULL, *old = NULL;
    *again = false;
    tenon__py_spin_lock(&eager->lock);
    eager_operand *all = eager->programs[at].operands;
    for (int i = 0; i < EAGER_OPERANDS && !*again; i++) {
        if (all[i].is_set && memcmp(all[i].numbers, numbers, size) == 0) {
            *again = true;
            found = all[i].array;
            Py_XINCREF(found);
        }
    }
    if (!*again) {
        eager_operand *next = &all[eager->programs[at].next_operand];
        eager->programs[at].next_operand = (eager->programs[at].next_operand + 1) % EAGER_OPERANDS;
        old = next->array;
        next->array = NULL;
        next->is_set = true;
        memcpy(next->numbers, numbers, size);
    }
    tenon__py_spin_unlock(&eager->lock);
    Py_XDECREF(old);
    return found;
}

/* Copy an operand to the device of a program, and keep it. Takes `packed`, and returns it if JAX does not copy it now. */
static TENON__PY_NOINLINE PyObject *eager_keep_operand(jax_eager *eager, int at, const uint64_t *numbers,
                                                       PyObject *packed)
{
    PyObject *device = atomic_load_explicit(&eager->programs[at].device, memory_order_acquire);
    PyObject *array = PyObject_CallFunctionObjArgs(eager->put, packed, device, NULL);
    if (!array || Py_TYPE(array) != atomic_load_explicit(&tenon__py_jax.array, memory_order_relaxed)) {
        Py_XDECREF(array); /* a tracer, or JAX refuses to copy */
        tenon__py_clear_ignorable_error();
        if (!PyErr_Occurred())
            return packed;
        Py_DECREF(packed);
        return NULL;
    }
    tenon__py_spin_lock(&eager->lock);
    eager_operand *all = eager->programs[at].operands;
    for (int i = 0; i < EAGER_OPERANDS; i++) {
        if (all[i].is_set && !all[i].array &&
            memcmp(all[i].numbers, numbers, (size_t)eager->nnumbers * sizeof *numbers) == 0) {
            Py_INCREF(array);
            all[i].array = array;
            break;
        }
    }
    tenon__py_spin_unlock(&eager->lock);
    Py_DECREF(packed);
    return array;
}

/* The operand with all numbers, for the program at `at`, or -1 if that is not kept: a new reference. */
static PyObject *eager_operand_of(tenon__py_frame *f, jax_eager *eager, int at)
{
    uint64_t numbers[TENON__PY_INLINE_PARAMS];
    if (!eager_read_numbers(f, numbers))
        return NULL;
    bool again = false;
    PyObject *found = at < 0 ? NULL : eager_find_operand(eager, at, numbers, &again);
    if (found)
        return found;
    PyObject *packed = eager_pack(eager, numbers);
    return packed && again ? eager_keep_operand(eager, at, numbers, packed) : packed;
}

/* The usual call. *began: JAX has got it. */
static PyObject *eager_call_program(tenon__py_frame *f, jax_eager *eager, PyObject *program, int at, bool *began)
{
    const tenon_signature *s = f->function->signature;
    PyObject *operands[TENON__PY_INLINE_PARAMS + 2], *packed = NULL;
    size_t count = 1; /* the first one is the callee's to use */
    for (int32_t i = 0; i < s->nparams; i++)
        if (s->params[i].spec)
            operands[count++] = f->argument_objects[i];
    if (eager->nnumbers) {
        packed = eager_operand_of(f, eager, at);
        if (!packed)
            return NULL;
        operands[count++] = packed;
    }
    *began = true;
    PyObject *result = PyObject_Vectorcall(program, operands + 1, (count - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    Py_XDECREF(packed);
    return result;
}

/* The arguments as a tuple; `missing` for those that were left out. */
static PyObject *eager_arguments(const tenon__py_frame *f, const jax_eager *eager)
{
    int32_t count = f->function->signature->nparams;
    PyObject *given = PyTuple_New(count);
    for (int32_t i = 0; given && i < count; i++) {
        PyObject *object = f->argument_objects[i] ? f->argument_objects[i] : eager->missing;
        Py_INCREF(object);
        PyTuple_SetItem(given, i, object);
    }
    return given;
}

/* A call whose arguments the package reads. */
static PyObject *eager_call_general(const tenon__py_frame *f, const jax_eager *eager, PyObject *device)
{
    PyObject *given = eager_arguments(f, eager);
    PyObject *result = given ? PyObject_CallFunctionObjArgs(eager->call, device, given, NULL) : NULL;
    Py_XDECREF(given);
    return result;
}

static PyObject *eager_run(tenon__py_frame *f, jax_eager *eager, PyObject *device, bool *began)
{
    const tenon_signature *s = f->function->signature;
    PyObject *program = NULL, *found = NULL;
    int at = -1;
    bool is_packable = eager->is_packable;
    for (int32_t i = 0; is_packable && i < s->nparams; i++)
        is_packable = f->argument_objects[i] && f->argument_objects[i] != Py_None;
    for (int i = 0; is_packable && !program && i < EAGER_DEVICES; i++)
        if (atomic_load_explicit(&eager->programs[i].device, memory_order_acquire) == device)
            program = eager->programs[at = i].program;
    if (is_packable && !program)
        program = eager_find(eager, device, &found);
    PyObject *result = NULL;
    if (program) {
        result = eager_call_program(f, eager, program, at, began);
    } else if (!PyErr_Occurred()) {
        *began = true;
        result = eager_call_general(f, eager, device);
    }
    Py_XDECREF(found);
    return result;
}

/* ---------------------------------------------------------------------------------------------------------- results */

/* Clear the pending exception if the function has not run, so that the call can go the other way. */
static TENON__PY_NOINLINE void eager_clear_exception(const tenon__py_frame *f, const jax_eager *eager, bool began)
{
    if (!began) {
        tenon__py_clear_ignorable_error();
        return;
    }
    if (!tenon__py_may_replace())
        return;
    PyObject *error = tenon__py_take_exception(), *given = eager_arguments(f, eager);
    PyObject *answer = given ? PyObject_CallFunctionObjArgs(eager->is_unusual, error, given, NULL) : NULL;
    if (answer == Py_True)
        Py_DECREF(error);
    else
        tenon__py_raise_again(error);
    Py_XDECREF(given);
    Py_XDECREF(answer);
}

/* Whether the results have data. While JAX traces a function around this call, its programs give tracers. */
static bool eager_has_data(const tenon__py_frame *f, PyObject *result, const PyTypeObject *array)
{
    const tenon_signature *s = f->function->signature;
    PyObject *first = s->nresults > 1 && PyTuple_Check(result) ? PyTuple_GetItem(result, 0) : result;
    return Py_TYPE(first) == array;
}

/* Several results, or one with a name, in the function's own type. Takes the result. */
static PyObject *eager_named(const tenon__py_frame *f, PyObject *result)
{
    PyObject *items = f->function->signature->nresults > 1 ? result : PyTuple_Pack(1, result);
    PyObject *named = items ? PyObject_CallObject(f->function->result_type, items) : NULL;
    if (items != result)
        Py_XDECREF(items);
    Py_DECREF(result);
    return named;
}

bool tenon__py_jax_try_call(tenon__py_frame *f, PyObject **result)
{
    const tenon_signature *s = f->function->signature;
    const PyTypeObject *array = atomic_load_explicit(&tenon__py_jax.array, memory_order_relaxed);
    jax_eager *eager = (jax_eager *)atomic_load_explicit(&f->function->prepared, memory_order_acquire);
    int32_t first = 0;
    *result = NULL;
    while (first < s->nparams && (!s->params[first].spec || !f->argument_objects[first]))
        first++;
    if (eager == &eager_none || f->out || f->wanted_like || first == s->nparams ||
        Py_TYPE(f->argument_objects[first]) != array)
        return false;
    if (!eager && !(eager = eager_make(f->function)))
        return true;
    PyObject *device = eager == &eager_none ? NULL : eager_common_device(eager, f, array);
    bool began = false;
    if (device)
        *result = eager_run(f, eager, device, &began);
    Py_XDECREF(device);
    if (!*result) {
        if (PyErr_Occurred())
            eager_clear_exception(f, eager, began);
        return PyErr_Occurred() != NULL;
    }
    if (!eager_has_data(f, *result, array)) {
        Py_CLEAR(*result);
        return false;
    }
    if (f->function->result_type)
        *result = eager_named(f, *result);
    return true;
}
