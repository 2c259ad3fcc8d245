/* Callbacks: Python callables that a function calls while it runs. */
#include "internal.h"

#include <string.h>

int tenon__py_read_callable(tenon__py_frame *f, int32_t index, PyObject *object)
{
    if (!PyCallable_Check(object))
        return tenon__py_wrong_type(f->function, &f->function->signature->params[index], object);
    tenon_frame_set_callable(&f->base, index, object);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------- arguments */

static void release_tensor(void *tensor)
{
    tenon_tensor_release(tensor);
}

/* A share of the memory that a tensor is in, and its release function. NULL with an exception, or if nothing has to be kept. */
static void *hold_memory(tenon__py_frame *f, const tenon_memory *memory, tenon_release_fn *release)
{
    PyObject *object = NULL;
    tenon_py_borrowed *borrowed = NULL, room;
    *release = tenon__py_holder_release;
    if (memory->where == TENON_MEMORY_NONE)
        return NULL;
    if (memory->where == TENON_MEMORY_SCRATCH) {
        *release = release_tensor;
        return tenon_tensor_retain(memory->scratch);
    }
    bool is_result = memory->where == TENON_MEMORY_RESULT;
    if (!is_result && memory->item < 0)
        return tenon__py_hold_argument(f, memory->index);
    if (memory->item >= 0) {
        borrowed = tenon__py_list_borrow(f, memory->index, memory->item, is_result, &room, &object);
    } else {
        object = f->result_objects[memory->index];
        borrowed = (tenon_py_borrowed *)(uintptr_t)f->base.results[memory->index].as.view; /* its first member */
    }
    if (borrowed && object)
        return tenon__py_hold_borrowed(object, borrowed);
    PyErr_Format(PyExc_RuntimeError, "%s(): its code passes memory to a callback that no array has",
                 f->function->signature->name);
    return NULL;
}

/* Whether the array cannot be written to although the callback is to write to it: 1, 0, or -1 with an exception. */
static int is_immutable(PyObject *array)
{
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_has_array_struct(array) ? NULL : tenon__py_kind_of(array, &room);
    return kind ? kind->is_immutable : PyErr_Occurred() ? -1 : 0;
}

/* Whether the caller could not write to the memory either. */
static bool is_read_only(const tenon__py_frame *f, const tenon_memory *memory)
{
    if (memory->where != TENON_MEMORY_ARGUMENT)
        return false;
    const tenon_value *arg = &f->base.args[memory->index];
    const tenon_view *view = memory->item < 0 ? arg->as.view : (const tenon_view *)arg->as.list.data + memory->item;
    return view->flags & TENON_READ_ONLY;
}

/* The tensor as an array of the framework that results have: a new reference, or NULL with an exception. A framework that has
 * no read-only arrays gets a writable one if the memory is the caller's to write to. */
static PyObject *make_array_of(tenon__py_frame *f, const tenon_view *source, const tenon_memory *memory)
{
    tenon_view view = *source;
    tenon_release_fn release;
    tenon_tensor *tensor = NULL;
    tenon_error err;
    int is_writable = view.flags & TENON_READ_ONLY ? tenon__py_is_writable_like(f->like) : 0;
    if (is_writable < 0)
        return NULL;
    if (is_writable && !is_read_only(f, memory))
        view.flags &= ~TENON_READ_ONLY;
    void *owner = hold_memory(f, memory, &release);
    if (!owner && memory->where != TENON_MEMORY_NONE)
        return NULL;
    if (tenon_tensor_from_view(&view, owner, owner ? release : NULL, &tensor, &err)) {
        if (owner)
            release(owner);
        return tenon_py_raise(&err);
    }
    PyObject *array = tenon__py_adopt_like(f->like, tensor);
    tenon__py_release(tensor);
    return array;
}

static PyObject *make_argument(tenon__py_frame *f, const tenon_callback_call *call, int32_t index)
{
    const tenon_value *value = &call->args[index];
    switch (value->kind) {
    case TENON_KIND_INT:
        return PyLong_FromLongLong(value->as.integer);
    case TENON_KIND_FLOAT:
        return PyFloat_FromDouble(value->as.number);
    case TENON_KIND_BOOL:
        return PyBool_FromLong(value->as.integer != 0);
    case TENON_KIND_STR:
        return PyUnicode_DecodeUTF8(value->as.list.data, (Py_ssize_t)value->as.list.length, NULL);
    default:
        break;
    }
    char part[2 * TENON_NAME_SIZE + 40];
    const char *name = call->signature->params[index].name;
    PyObject *array = make_array_of(f, value->as.view, &call->memory[index]);
    int immutable = array && !(value->as.view->flags & TENON_READ_ONLY) ? is_immutable(array) : 0;
    if (array && !immutable)
        return array;
    if (immutable > 0)
        tenon__py_argument_error(f->function, call->signature->name, PyExc_TypeError,
                                 "it has to write to '%s', and the arrays of this framework are immutable; pass NumPy "
                                 "arrays",
                                 name);
    if (!array) {
        PyOS_snprintf(part, sizeof part, "argument '%s' of '%s'", name, call->signature->name);
        tenon__py_name_part(f->function->signature->name, part, NULL);
    }
    Py_XDECREF(array);
    return NULL;
}

/* --------------------------------------------------------------------------------------------------------- results */

/* What the callback returned as result `index`. */
static int take_result(tenon__py_frame *f, const tenon_callback_call *call, int32_t index, PyObject *object)
{
    tenon_parameter param = call->signature->results[index];
    tenon_value *value = &call->results[index];
    char type[TENON_NAME_SIZE + 40];
    PyOS_snprintf(type, sizeof type, "a callable that returns %s", param.type);
    param.name = call->signature->name;
    param.type = type;
    if (tenon__py_to_value(f->function, &param, object, &f->kept, &f->base.blocks, value) < 0)
        return -1;
    if (param.kind != TENON_KIND_STR)
        return 0;
    size_t length = (size_t)value->as.list.length;
    char *copy = tenon_block_alloc(&f->base.blocks, length + 1, 0); /* the string is gone when this returns */
    if (!copy)
        return PyErr_NoMemory(), -1;
    memcpy(copy, value->as.list.data, length + 1);
    value->as.list.data = copy;
    return 0;
}

static int take_results(tenon__py_frame *f, const tenon_callback_call *call, PyObject *returned)
{
    int32_t count = call->signature->nresults;
    if (count == 0)
        return 0;
    if (count == 1)
        return take_result(f, call, 0, returned);
    if (!PyTuple_Check(returned) || PyTuple_Size(returned) != count) {
        PyObject *name = tenon__py_type_name(returned);
        if (name)
            tenon__py_argument_error(f->function, call->signature->name, PyExc_TypeError,
                                     "expected a callable that returns a tuple of %d results, got %U", (int)count,
                                     name);
        Py_XDECREF(name);
        return -1;
    }
    int status = 0;
    for (int32_t i = 0; status == 0 && i < count; i++)
        status = take_result(f, call, i, PyTuple_GetItem(returned, i));
    return status;
}

/* -------------------------------------------------------------------------------------------------------- the call */

static int call_python(tenon__py_frame *f, const tenon_callback_call *call)
{
    PyObject *callable = f->base.args[call->index].as.handle.object;
    int32_t count = call->signature->nparams;
    PyObject *args = PyTuple_New(count);
    for (int32_t i = 0; args && i < count; i++) {
        PyObject *item = make_argument(f, call, i);
        if (!item) {
            Py_DECREF(args);
            return -1;
        }
        PyTuple_SetItem(args, i, item);
    }
    PyObject *returned = args ? PyObject_CallObject(callable, args) : NULL;
    Py_XDECREF(args);
    int status = returned ? take_results(f, call, returned) : -1;
    Py_XDECREF(returned);
    return status;
}

typedef struct attached_call {
    tenon__py_frame *frame;
    const tenon_callback_call *call;
    int status;
} attached_call;

/* With the interpreter lock. */
static void run_callback(void *context)
{
    attached_call *attached = context;
    tenon__py_frame *f = attached->frame;
    int status = tenon__py_enter_recursion(" while a Tenon function called a callback");
    if (status == 0) {
        status = call_python(f, attached->call);
        tenon__py_leave_recursion();
    }
    if (status == 0) /* the function has the arguments' pointers: it must stop if they are wrong now */
        status = tenon__py_check_after_callback(f);
    if (status < 0)
        tenon__py_keep_exception(f);
    attached->status = status;
}

int tenon__py_callback(tenon_frame *base, const tenon_callback_call *call)
{
    attached_call attached = {tenon__py_frame_of(base), call, -1};
    tenon__py_attach_call(attached.frame);
    tenon__py_run_at_exit_too(run_callback, &attached); /* Python code may release the lock, and want it again */
    tenon__py_detach_call(attached.frame);
    return attached.status;
}
