/* What the sources of the function host share. */
#ifndef TENON_PY_CALL_FRAME_H
#define TENON_PY_CALL_FRAME_H

#include "object.h"

/* What the parts of a module have in common. */
typedef struct tenon__py_origin {
    tenon__py_library *library;
    PyObject *module_name;
    PyObject *owner;   /* see tenon__py_open_as; or NULL */
    PyObject *classes; /* a dict: the types by name */
} tenon__py_origin;

/* The description of a module's entry that is not a class. Takes the signature, even on failure. */
PyObject *tenon__py_function_new(const tenon__py_origin *origin, const tenon_function *entry,
                                 tenon_signature *signature);
/* The callable: a builtin function, which for a constructor is the `__new__` of its class, or a method descriptor. */
PyObject *tenon__py_callable_new(PyObject *function);
PyObject *tenon__py_method_new(PyObject *function);
/* The description of a callable. */
tenon__py_function *tenon__py_described(PyObject *callable);
/* Add another entry of the same name to a callable. 0, or -1 with an exception. */
int tenon__py_add_overload(PyObject *callable, PyObject *function);

/* "(a, x, mode='mean', *, out=None, like=None)" without the parentheses, which inspect.signature reads. `first`: "$self, " or
 * the like for the first parameter, or "". */
PyObject *tenon__py_text_signature(const tenon_signature *signature, const char *first, bool takes_out,
                                   bool takes_like);

/* An entry that is a constructor. */
typedef struct tenon__py_constructor {
    const tenon_signature *signature;
    const char *doc; /* may be NULL */
} tenon__py_constructor;

/* The type of a class with these constructors. `doc` may be NULL. Attributes are added, then it is sealed with
 * tenon__py_seal_type. NULL or -1: with an exception. */
PyObject *tenon__py_class_new(const tenon__py_origin *origin, const char *name, const char *doc,
                              const tenon__py_constructor *constructors, int32_t count);
int tenon__py_class_add(PyObject *type, const char *name, PyObject *value);
/* Add what follows from its special methods, before it is sealed. */
int tenon__py_class_finish(PyObject *type);
/* "<closed spatial.KDTree>" */
PyObject *tenon__py_closed_repr(PyObject *object);

/* Pickling. The builtin of a function reduces to (getattr, (description, name)), so a description has its function as an
 * attribute, and is pickled by its library. */
PyObject *tenon__py_function_reduce(PyObject *self, PyObject *unused);
PyObject *tenon__py_function_getattr(PyObject *self, PyObject *name);
/* Have the classes of this metaclass pickled by their libraries. 0, or -1 with an exception. */
int tenon__py_register_reduce(PyObject *meta);
/* The attribute of a class that is its owner. */
#define TENON__PY_OWNER "_tenon_library"
/* The attribute of a class or a module that describes its constants: a dict of their texts and docs. */
#define TENON__PY_CONSTANTS "_tenon_constants"

/* Its attributes `flags`, `conditions` and `tensors`. */
PyObject *tenon__py_describe_flags(PyObject *self, void *unused);
PyObject *tenon__py_describe_conditions(PyObject *self, void *unused);
PyObject *tenon__py_describe_tensors(PyObject *self, void *unused);

/* The call itself, of any function: METH_FASTCALL | METH_KEYWORDS. */
PyObject *tenon__py_call(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* The same for functions that are `is_plain`, which most calls are of, in fewer instructions. */
PyObject *tenon__py_call_plain(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* Have the calls of a function checked, or not. */
void tenon__py_function_check(tenon__py_function *function, bool checked);

/* Put a function into the list of its interpreter's, checked as they are; and take it out, if it is in. */
void tenon__py_function_join(tenon__py_function *function);
void tenon__py_function_leave(tenon__py_function *function);

/* Call a module's `load`. 0, or -1 with an exception. */
int tenon__py_call_load(const tenon_module *module, void **state);

/* ------------------------------------------------------------------------------------------------------- arguments */

/* One entry of an overloaded function that a call tries. */
typedef struct tenon__py_attempt {
    struct tenon__py_attempt *outer;
    const tenon__py_function *function;
    bool explains; /* exceptions need their messages, because no entry fits */
    bool matched;  /* the arguments fit: exceptions from here on are not about them */
    bool mismatch; /* they do not fit; if it is not set, a pending exception is an argument's own */
} tenon__py_attempt;

/* Begin and end a call that tries one entry after the other. */
void tenon__py_begin_attempts(tenon__py_attempt *attempt);
void tenon__py_end_attempts(const tenon__py_attempt *attempt);
/* Whether the function is an entry that this thread is trying. */
bool tenon__py_is_attempt(const tenon__py_function *function);
/* Note that the arguments do not fit the function, if it is being tried. True: the exception needs no message. */
bool tenon__py_note_mismatch(const tenon__py_function *function);
/* The same for arguments that would be refused even if they fit: another entry may take them, but if none does, the exception is
 * raised as it is. */
bool tenon__py_note_refusal(const tenon__py_function *function);
/* Whether the function takes so many arguments. */
bool tenon__py_may_take(const tenon__py_function *function, Py_ssize_t nargs, PyObject *kwnames);
/* Append the pending exception's message, which is why the function does not fit, to a list. 0, or -1 with an exception. */
int tenon__py_add_reason(PyObject *reasons, const tenon__py_function *function);
/* Raise the TypeError with these reasons. */
void tenon__py_raise_no_overload(const tenon__py_function *function, PyObject *reasons);

/* Sort the arguments into `argument_objects`, by parameter, followed by out and like. NULL means that an argument was left
 * out. 0, or -1 with the TypeError that Python would raise. */
int tenon__py_distribute(const tenon__py_function *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                         PyObject **argument_objects);
/* The same without an exception: whether all is right. */
bool tenon__py_sort_arguments(const tenon__py_function *function, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames, PyObject **argument_objects);

/* Turn an object into a value of the parameter's kind, which is not a tensor. It is valid as long as the object, the blocks
 * and *held, which is NULL or a list: of what else must live. -1 with an exception. */
int tenon__py_to_value(const tenon__py_function *function, const tenon_parameter *param, PyObject *object,
                       PyObject **held, tenon_block **blocks, tenon_value *value);
/* The same for single kinds. */
int tenon__py_to_bytes(const tenon__py_function *function, const tenon_parameter *param, PyObject *object,
                       PyObject **held, tenon_value *value);
int tenon__py_to_text(const tenon__py_function *function, const tenon_parameter *param, PyObject *object,
                      PyObject **held, tenon_value *value);
int tenon__py_to_texts(const tenon__py_function *function, const tenon_parameter *param, PyObject *object,
                       PyObject **held, tenon_block **blocks, tenon_value *value);
int tenon__py_to_dtype(const tenon__py_function *function, const tenon_parameter *param, PyObject *object,
                       tenon_dtype *out);
/* The same for an object of exactly the usual type, which needs no Python code. False: the other steps find out. */
bool tenon__py_take_simply(const tenon__py_function *function, int32_t index, PyObject *object, tenon_value *value);
/* Append the object to *held, which is NULL or a list. 0, or -1 with an exception. */
int tenon__py_hold(PyObject **held, PyObject *object);

/* Raise "saxpy(): argument 'x': …". Returns -1. The argument does not fit: an overloaded function goes on with its next entry. */
int tenon__py_argument_error(const tenon__py_function *function, const char *argument, PyObject *exception,
                             const char *format, ...);
/* The same if the call fails even if the argument fits. */
int tenon__py_argument_failure(const tenon__py_function *function, const char *argument, PyObject *exception,
                               const char *format, ...);
/* Raise "saxpy(): argument 'x': expected float, got str". Returns -1. */
int tenon__py_wrong_type(const tenon__py_function *function, const tenon_parameter *param, PyObject *object);
/* Note which argument the pending exception is about, unless its message says so. */
void tenon__py_note_argument(const tenon__py_function *function, const char *argument);
/* Add "argument 'x'" or "result 0" to the pending exception: to its message if that is one of the bridge, otherwise as a
 * note. Messages of the bridge begin with the type of `object`; without an object, every plain exception counts as one.
 * Whether it is the bridge's, and not caused by an exception of the producer. */
bool tenon__py_name_part(const char *function, const char *part, PyObject *object);
void tenon__py_name_argument(const tenon__py_function *function, const char *argument, PyObject *object);
/* Whether the argument is an array that is gone; then the exception says so instead of the pending one. */
bool tenon__py_raise_deleted(const tenon__py_function *function, const char *argument, PyObject *object);

/* Refuse a tensor whose gradients would end here. The user's Python code may run. 0, or -1 with an exception. */
int tenon__py_check_gradient(const tenon__py_function *function, const char *argument, PyObject *object,
                             tenon__py_checks *checks);
/* Raise it. Returns -1. */
int tenon__py_raise_lost_gradient(const tenon__py_function *function, const char *argument, const char *why);
/* The same if the owner of the object is known. */
static inline int tenon__py_check_gradient_of(const tenon__py_producer *owner, const tenon__py_function *function,
                                              const char *argument, PyObject *object, tenon__py_checks *checks)
{
    const char *why;
    if (!owner || !owner->gradient || (function->function.flags & TENON_NO_GRAD_CHECK))
        return 0;
    int lost = owner->gradient(object, checks, &why);
    return lost > 0 ? tenon__py_raise_lost_gradient(function, argument, why) : lost;
}

/* ------------------------------------------------------------------------------------------------------- the frame */

/* What most calls need at most; larger signatures take their room from the heap. A call may come from inside another
 * one, so that its frame must leave the stack to a thousand of them. */
enum { TENON__PY_INLINE_PARAMS = 8, TENON__PY_INLINE_RESULTS = 4, TENON__PY_INLINE_BORROWS = 7 };
enum { TENON__PY_INLINE_OBJECTS = 2 };

/* A list of tensors of one call: an argument, or all or some items of a result. It is one of the call's blocks. */
typedef struct tenon__py_list {
    struct tenon__py_list *next;
    int32_t index; /* of the argument or the result */
    bool is_result;
    Py_ssize_t first; /* of a result: the item that the first one here is */
    Py_ssize_t count; /* items that are borrowed */
    PyObject *items;  /* of an argument: a tuple */
    tenon_view *views;
    tenon_py_borrowed *
        *borrows;  /* of each item; NULL, as this pointer, if there is nothing to hold, because the tuple does */
    int64_t *dims; /* room for the sizes and strides of such items, of which `dims_left` numbers are left */
    size_t dims_left;
} tenon__py_list;

/* Items of the lists, from one on. After the last item of all lists comes the first, unless `most` is -1: those to the end. */
typedef struct tenon__py_items {
    tenon__py_list *list;
    Py_ssize_t item, most;
} tenon__py_items;

/* An item that does not match, as a parameter of its own. */
typedef struct tenon__py_item {
    tenon_parameter param;
    PyObject *object; /* borrowed from the call */
} tenon__py_item;

/* Everything of one call, on the stack; nothing fills it with zeros. */
typedef struct tenon__py_frame {
    tenon_frame base;
    const tenon__py_function *function; /* NULL while a module's `load` runs */
    int32_t nborrowed;
    bool held; /* some borrow holds something */
    tenon__py_checks checks;
    PyObject *like;      /* whose framework the results follow, or NULL */
    PyObject *exception; /* an exception that was raised during the call */
    PyObject *kept;      /* a list of what must live until the end, or NULL */
    tenon__py_object
        *self; /* if a result is of(self), a share of the object; set while the function's `has_of_self` is */
    tenon__py_list *lists;             /* the last one first; set while the function's `has_lists` is, as these two */
    bool compares_in_turn;             /* callbacks have compared only some items */
    tenon__py_items next_items;        /* those of the next callback */
    PyThreadState *thread;             /* the thread state, while the lock is released */
    int64_t elements;                  /* of all tensors, or-ed: as large as the largest, or up to twice that */
    int64_t cancel_checked_ns;         /* when `cancelled` last looked, in nanoseconds; 0: never */
    PyObject *const *argument_objects; /* the arguments by parameter; NULL: left out */
    PyObject *out;                     /* these two are NULL if they are None or were left out */
    PyObject *wanted_like;
    const tenon_py_borrowed
        *stream_from;            /* the first device tensor, whose framework's stream the call runs on, or NULL */
    tenon_py_borrowed *borrowed; /* these three, and the base's arrays, point to the arrays below or into the heap */
    PyObject **result_objects;   /* the results as objects */
    PyObject **sorted;   /* what `argument_objects` points to if the caller's order is another one; then out and like */
    unsigned long ident; /* these four: the objects that the call has entered, if the function has `nobjects` */
    int32_t nentered;
    tenon__py_instance **entered; /* by address, each once */
    tenon__py_instance *inline_entered[TENON__PY_INLINE_OBJECTS];
    tenon_value inline_args[TENON__PY_INLINE_PARAMS];
    tenon_value inline_results[TENON__PY_INLINE_RESULTS];
    PyObject *inline_result_objects[TENON__PY_INLINE_RESULTS];
    PyObject *inline_sorted[TENON__PY_INLINE_PARAMS + 2];
    tenon_py_borrowed inline_borrowed[TENON__PY_INLINE_BORROWS];
} tenon__py_frame;

/* Whether a tensor of that dtype can have a gradient. */
static inline bool tenon__py_has_gradient(tenon_dtype dtype)
{
    return dtype.code != TENON_CODE_INT && dtype.code != TENON_CODE_UINT && dtype.code != TENON_CODE_BOOL;
}

/* Refuse argument `i`, a tensor, if its gradients would end here. 0, or -1 with an exception. */
static inline int tenon__py_check_argument_gradient(tenon__py_frame *f, int32_t i, PyObject *object,
                                                    const tenon_py_borrowed *borrowed)
{
    return !tenon__py_has_gradient(borrowed->view.dtype)
               ? 0
               : tenon__py_check_gradient(f->function, f->function->signature->params[i].name, object, &f->checks);
}

static inline tenon__py_frame *tenon__py_frame_of(tenon_frame *base)
{
    return (tenon__py_frame *)(void *)base; /* it is the first member */
}

/* Read a number that is exactly of the parameter's type, without running Python code. False: the other steps find out. */
TENON__PY_INLINE bool tenon__py_take_number(uint32_t kind, PyObject *object, tenon_value *value)
{
    value->kind = kind;
    value->flags = 0;
    if (kind == TENON_KIND_FLOAT && PyFloat_CheckExact(object)) {
        value->as.number = tenon__py_float_value(object);
        return true;
    }
    if (kind == TENON_KIND_INT && PyLong_CheckExact(object)) {
        int overflow;
        value->as.integer = PyLong_AsLongLongAndOverflow(object, &overflow);
        return !overflow;
    }
    value->as.integer = object == Py_True;
    return kind == TENON_KIND_BOOL && PyBool_Check(object);
}

/* The same for bytes, after tenon__py_take_number. */
TENON__PY_INLINE bool tenon__py_take_exact_bytes(uint32_t kind, PyObject *object, tenon_value *value)
{
    if (kind != TENON_KIND_BYTES || !PyBytes_CheckExact(object))
        return false;
    value->as.list.data = tenon__py_bytes_data(object);
    value->as.list.length = tenon__py_bytes_size(object);
    return true;
}

/* Report what is wrong with a call's arguments. Each raises an exception and returns -1. */

/* A tensor argument that could not be borrowed: names it in the pending exception. For an object that is not an array
 * the signature says more than a list of protocols. */
int tenon__py_raise_not_borrowed(const tenon__py_frame *f, const tenon_parameter *param, PyObject *object);
/* Argument `index` is wrong, as the pending exception says. If an earlier one does not match, that is raised instead. */
int tenon__py_first_mistake(tenon__py_frame *f, int32_t index);
/* `out` did not match. */
int tenon__py_raise_out_mismatch(tenon__py_frame *f, PyObject *object, const tenon_view *view);
/* The client's `refuse` and `describe`. */
void tenon__py_refuse(tenon_frame *base, tenon_refusal why, int32_t index, const tenon_error *err);
const char *tenon__py_describe_argument(tenon_frame *base, int32_t index);
/* The name of an object's type, in a block of the call; NULL for NULL. */
const char *tenon__py_describe_object(tenon_frame *base, PyObject *object);

/* DLPack's number for the stream that the call runs on. */
intptr_t tenon__py_call_stream(const tenon__py_frame *f);
/* A tensor on a device, `item` of a list or -1: the first one says where, and on which stream, the call runs. 0, or -1 with an exception. */
int tenon__py_join_device(tenon__py_frame *f, int32_t index, int64_t item, const tenon_py_borrowed *borrowed);
/* Before new memory of another framework is written: the call's stream waits for that framework's. 0, or -1. */
int tenon__py_begin_result(const tenon__py_frame *f, const tenon_py_borrowed *result_objects);
/* After the function: the streams of all other frameworks wait for the call's. Keeps a pending exception. 0, or -1 with
 * an exception. */
int tenon__py_end_uses(tenon__py_frame *f);

/* The borrow of tensor argument `index`, or NULL if it was not passed. Its view is the caller's; that of the call may be
 * broadcast. */
tenon_py_borrowed *tenon__py_argument_borrow(const tenon__py_frame *f, int32_t index);

/* Look at the tensor arguments, `out` and the results again: 0 if all are as they were borrowed, else -1 with an exception. */
int tenon__py_check_changed_arguments(tenon__py_frame *f);

/* Count a call from which Python code may call this function again: 0, or -1 with a RecursionError. A call takes as much
 * stack as several of CPython's own functions, which count once each. */
enum { TENON__PY_RECURSION = 7 };

static inline void tenon__py_leave_recursion(void)
{
    for (int i = 0; i < TENON__PY_RECURSION; i++)
        Py_LeaveRecursiveCall();
}

static inline int tenon__py_enter_recursion(const char *where)
{
    for (int i = 0; i < TENON__PY_RECURSION; i++) {
        if (Py_EnterRecursiveCall(where)) {
            while (i-- > 0)
                Py_LeaveRecursiveCall();
            return -1;
        }
    }
    return 0;
}

/* Borrow what is not plain, on the stream of the call. `stays`: its memory must stay where it is even if its owner writes to
 * it. Python code may run, and call this function again. 0, or -1 with an exception. */
int tenon__py_borrow_argument(tenon__py_frame *f, PyObject *object, bool stays, tenon_py_borrowed *borrowed);

/* Lists of tensors, of functions that have `has_lists`. */

/* Read argument `index`, and borrow its items. 0, or -1 with an exception. */
int tenon__py_read_list(tenon__py_frame *f, int32_t index, PyObject *object);
/* End the borrows of all lists, in the arguments and in the results. */
void tenon__py_release_lists(tenon__py_frame *f);
/* An item of argument `index`, borrowed, or NULL. */
PyObject *tenon__py_list_item(const tenon__py_frame *f, int32_t index, int64_t item);
/* Whether an object is a list, a tuple, or has a length and items, and is not text, a mapping or an array: 1, 0, or -1 with an
 * exception. */
int tenon__py_is_sequence(PyObject *object);
/* The items of a sequence, as many as its length says, as a new tuple; NULL with an exception. */
PyObject *tenon__py_read_sequence(PyObject *object);
/* Whether the argument that did not match is an item of a list; which one. */
bool tenon__py_mismatched_item(const tenon__py_frame *f, tenon__py_item *out);
/* The bytes of all items, or `most` if there are more. */
int64_t tenon__py_list_bytes(const tenon__py_frame *f, int64_t most);
/* Refuse items whose gradients would end here. 0, or -1 with an exception. */
int tenon__py_check_list_gradients(tenon__py_frame *f, tenon__py_items items);
/* Whether an item is not as it was borrowed; `name` gets its name in messages. */
bool tenon__py_changed_item(const tenon__py_frame *f, tenon__py_items items, char *name, size_t size, bool *is_result);
/* Whether the lists have so many items that a callback compares only some of them. *next are those, and f->next_items moves on. */
bool tenon__py_next_items(tenon__py_frame *f, tenon__py_items *next);
/* tenon__py_check_changed_arguments after a callback, in constant time: of long lists it compares some items, in turn. */
int tenon__py_check_after_callback(tenon__py_frame *f);
/* The borrow of an item of argument or result `index`, which may be in `room`, and its object, borrowed; NULL if it has no such
 * item. */
tenon_py_borrowed *tenon__py_list_borrow(const tenon__py_frame *f, int32_t index, int64_t item, bool is_result,
                                         tenon_py_borrowed *room, PyObject **object);
/* The client's `describe_item`, `make_item` and `open_item`. */
const char *tenon__py_describe_item(tenon_frame *base, int32_t index, int64_t item);
int tenon__py_make_item(tenon_frame *base, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim,
                        const int64_t *shape, tenon_view *view);
int tenon__py_open_item(tenon_frame *base, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim,
                        const int64_t *shape, tenon_view *view);

/* The host's side of a call that runs: what it does for the function, and the client's functions for that. */
extern const tenon_host tenon__py_host;
int tenon__py_open_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape);
int tenon__py_take_handle(tenon_frame *base, int32_t index, void *object, void (*destroy)(void *));
int tenon__py_take_bytes(tenon_frame *base, int32_t index, const void *data, size_t length);
void *tenon__py_device_scratch(tenon_frame *base, size_t bytes, tenon_device device);
bool tenon__py_is_cancelled(tenon_frame *base);
int tenon__py_thread_count(tenon_frame *base);
/* Make a tensor result in the caller's framework: the client's `make_result`. -1 with an exception. */
int tenon__py_make_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape);
/* A new array in the caller's framework for result `index`, or an item of it: a new reference, or NULL with an exception. */
PyObject *tenon__py_make_array(tenon__py_frame *f, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                               tenon_py_borrowed *borrowed);
/* Put it, or the caller's own, in its place; takes `object`. */
void tenon__py_place_result(tenon__py_frame *f, int32_t index, PyObject *object, tenon_py_borrowed *borrowed,
                            uint64_t flags);

/* Take the interpreter lock while the function runs, and give it back, if it was released for the call. */
void tenon__py_attach_call(tenon__py_frame *f);
void tenon__py_detach_call(tenon__py_frame *f);
/* Fail the call with the pending exception, which is raised when the function has returned; the first one stays. */
void tenon__py_keep_exception(tenon__py_frame *f);

/* Take an argument that is a callable. 0, or -1 with an exception. */
int tenon__py_read_callable(tenon__py_frame *f, int32_t index, PyObject *object);
/* The client's `callback`. */
int tenon__py_callback(tenon_frame *base, const tenon_callback_call *call);

/* The client's `warn`. */
int tenon__py_warn(tenon_frame *base, int32_t index, const char *message);

/* Arguments that are "convert". */
int tenon__py_convert(tenon_frame *base, int32_t index, int64_t bytes);
int tenon__py_converted(tenon_frame *base, int32_t index, int64_t bytes);
PyObject *tenon__py_get_conversions(PyObject *self, void *closure);
/* A callable with the same code that takes only arguments that match as they are: for operators. */
PyObject *tenon__py_get_exact(PyObject *self, void *closure);

/* The pending exception says why a framework could not make result `index`: names it. Returns -1. */
int tenon__py_result_not_made(tenon__py_frame *f, int32_t index);

/* Hold the memory of tensor argument `index` beyond the call: a new holder, or NULL with an exception. */
tenon__py_holder *tenon__py_hold_argument(tenon__py_frame *f, int32_t index);
/* The client's `keep_argument`. */
tenon_kept *tenon__py_keep_argument(tenon_frame *base, int32_t index);
/* Result `index`, which is "own" or "of(...)" and is set, as an array: a new reference, or NULL with an exception. */
PyObject *tenon__py_library_result(tenon__py_frame *f, int32_t index);

/* --------------------------------------------------------------------------------------- handles, objects of classes */

/* Check that an argument is an open object of its parameter's class. 0, or -1 with an exception. */
int tenon__py_check_object(const tenon__py_function *function, const tenon_parameter *param, PyObject *object);
/* Enter the objects of a call, whose arguments are taken and whose results are made: wait until no other call uses them, and
 * give the function its native objects. 0, or -1 with an exception. Leaving them needs no interpreter lock, and may be
 * repeated. */
int tenon__py_enter_all(tenon__py_frame *f);
void tenon__py_leave_all(tenon__py_frame *f);
/* Let the call leave its objects while it does not have the interpreter lock, or end that. Needs the lock. */
void tenon__py_allow_unlocked(tenon__py_frame *f, int32_t nentered, int32_t change);

static inline int tenon__py_enter_objects(tenon__py_frame *f)
{
    f->ident = PyThread_get_thread_ident();
    f->entered = f->inline_entered;
    f->nentered = 0;
    if (!f->function->enters_self)
        return tenon__py_enter_all(f);
    tenon__py_instance *self = (tenon__py_instance *)f->argument_objects[0];
    const tenon__py_object *native = tenon__py_enter_fast(self, f->ident);
    if (!native)
        return tenon__py_enter_all(f);
    f->inline_entered[0] = self;
    f->nentered = 1;
    f->base.args[0].as.handle.object = native->native.object;
    return 0;
}

static inline void tenon__py_leave_objects(tenon__py_frame *f)
{
    if (f->nentered == 1 && tenon__py_leave_fast(f->entered[0]))
        f->nentered = 0;
    else if (f->nentered)
        tenon__py_leave_all(f);
}

/* A result that is a uint, a complex number or a list, and set: a new reference. */
PyObject *tenon__py_value_result(const tenon_value *value);

/* An object of a library, destroyed once. Takes `object` on success. */
PyObject *tenon__py_handle_new(tenon__py_library *library, const char *type, void *object, void (*destroy)(void *));
/* The object inside, or NULL with a TypeError if it is not a handle of this library and type. */
void *tenon__py_handle_object(const tenon__py_function *function, const tenon_parameter *param, PyObject *handle);

/* A new share of the object that is the call's self, for a result of(self). Only if the function's `has_of_self` is set, and
 * after the function has run; the Python object may have been closed since. */
static inline tenon__py_object *tenon__py_share_self(const tenon__py_frame *f)
{
    return tenon__py_object_retain(f->self);
}

/* The framework whose handles have this name, or NULL. */
const tenon_py_handle_type *tenon__py_find_handle_type(const char *type);
/* An argument's handle, to be released with all of the call's; NULL with an exception. */
void *tenon__py_framework_handle(const tenon__py_function *function, const tenon_parameter *param, PyObject *object);
void tenon__py_release_framework_handles(const tenon__py_frame *f);
/* A result: takes `handle` on success. */
PyObject *tenon__py_framework_handle_result(const tenon_py_handle_type *foreign, void *handle, void (*destroy)(void *));

#endif
