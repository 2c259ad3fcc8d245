/* Lists of tensors in a call: read and borrowed item by item, and made as results. */
#include "plan.h"

#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- names */

/* "xs[3]" */
typedef struct item_name {
    char text[TENON_NAME_SIZE + 24];
} item_name;

static item_name name_item(const tenon_parameter *param, Py_ssize_t item)
{
    item_name name;
    PyOS_snprintf(name.text, sizeof name.text, "%s[%zd]", param->name, item);
    return name;
}

/* The parameter that an item of a list would be by itself, for messages. */
static tenon_parameter item_parameter(const tenon_parameter *param, const item_name *name)
{
    tenon_parameter one = *param;
    one.name = name->text;
    one.type = param->items->text;
    one.spec = param->items;
    return one;
}

static const tenon__py_list *find_list(const tenon__py_frame *f, int32_t index)
{
    const tenon__py_list *list = f->lists;
    while (list && (list->is_result || list->index != index))
        list = list->next;
    return list;
}

PyObject *tenon__py_list_item(const tenon__py_frame *f, int32_t index, int64_t item)
{
    const tenon__py_list *list = find_list(f, index);
    return list && item >= 0 && item < PyTuple_Size(list->items) ? PyTuple_GetItem(list->items, (Py_ssize_t)item)
                                                                 : NULL;
}

/* --------------------------------------------------------------------------------------------------------- reading */

/* Whatever has keys is a mapping, as for dict(). */
int tenon__py_is_sequence(PyObject *object)
{
    PyObject *keys;
    if (PyList_CheckExact(object) || PyTuple_CheckExact(object))
        return 1;
    if (PyUnicode_Check(object) || PyBytes_Check(object) || PyByteArray_Check(object) || !PySequence_Check(object))
        return 0;
    int has_keys = tenon__py_attribute(object, "keys", &keys);
    if (has_keys) {
        Py_XDECREF(has_keys > 0 ? keys : NULL);
        return has_keys < 0 ? -1 : 0;
    }
    int arraylike = tenon__py_is_arraylike(object);
    return arraylike < 0 ? -1 : !arraylike;
}

PyObject *tenon__py_read_sequence(PyObject *object)
{
    if (PyList_CheckExact(object) || PyTuple_CheckExact(object))
        return PySequence_Tuple(object);
    Py_ssize_t count = PySequence_Size(object);
    PyObject *items = count < 0 ? NULL : PyTuple_New(count);
    for (Py_ssize_t i = 0; items && i < count; i++) {
        PyObject *item = PySequence_GetItem(object, i);
        if (!item) {
            Py_DECREF(items);
            return NULL;
        }
        PyTuple_SetItem(items, i, item);
    }
    return items;
}

/* A new tuple of the items, which stay alive and the same even if the list changes; NULL with an exception. */
static PyObject *read_items_of(tenon__py_frame *f, const tenon_parameter *param, PyObject *object)
{
    if (PyList_CheckExact(object) || PyTuple_CheckExact(object))
        return PySequence_Tuple(object);
    f->checks.may_have_changed = true; /* Python code runs */
    int fits = tenon__py_is_sequence(object);
    if (fits < 1) {
        PyObject *name = fits < 0 ? NULL : tenon__py_type_name(object);
        if (name)
            tenon__py_argument_error(f->function, param->name, PyExc_TypeError,
                                     "expected %s, got %U; pass a list or a tuple of arrays", param->type, name);
        Py_XDECREF(name);
        return NULL;
    }
    if (tenon__py_enter_recursion(" while the arguments of a Tenon function were read") < 0)
        return NULL;
    PyObject *items = tenon__py_read_sequence(object);
    tenon__py_leave_recursion();
    if (!items)
        tenon__py_note_argument(f->function, param->name);
    return items;
}

static tenon__py_list *list_new(tenon__py_frame *f, int32_t index, size_t count)
{
    tenon__py_list *list = count < PTRDIFF_MAX / sizeof(tenon_view) - 1
                               ? tenon_block_alloc(&f->base.blocks, sizeof *list + count * sizeof(tenon_view), 0)
                               : NULL;
    if (!list) {
        PyErr_NoMemory();
        return NULL;
    }
    list->index = index;
    list->is_result = false;
    list->first = 0;
    list->count = 0;
    list->items = NULL;
    list->views = (tenon_view *)(void *)(list + 1);
    list->borrows = NULL;
    list->dims = (int64_t *)(void *)list; /* of scalars, which have none: an address, and no room */
    list->dims_left = 0;
    list->next = f->lists;
    f->lists = list;
    return list;
}

/* A borrow for the next item of a list that has `most` items, in a block of the call. NULL with an exception. */
static tenon_py_borrowed *new_borrow(tenon__py_frame *f, tenon__py_list *list, size_t most)
{
    if (!list->borrows) {
        list->borrows = tenon_block_alloc(&f->base.blocks, most * sizeof(tenon_py_borrowed *), 0);
        for (size_t i = 0; list->borrows && i < most; i++)
            list->borrows[i] = NULL;
    }
    tenon_py_borrowed *borrowed = list->borrows ? tenon_block_alloc(&f->base.blocks, sizeof *borrowed, 0) : NULL;
    if (!borrowed)
        PyErr_NoMemory();
    return borrowed;
}

/* Room for the sizes and strides of the next item, and of as many as there are after it if they have as many dimensions. NULL
 * with an exception. */
static TENON__PY_NOINLINE int64_t *more_dims(tenon__py_frame *f, tenon__py_list *list, int32_t ndim)
{
    size_t rest = (size_t)(tenon__py_tuple_size(list->items) - list->count);
    list->dims_left = 2 * (size_t)ndim * rest;
    list->dims = tenon_block_alloc(&f->base.blocks, list->dims_left * sizeof *list->dims, 0);
    if (!list->dims)
        PyErr_NoMemory();
    return list->dims;
}

static int check_item_gradient(tenon__py_frame *f, const tenon__py_list *list, const tenon__py_producer *owner,
                               PyObject *object)
{
    const char *why;
    if (!owner || !owner->gradient || (f->function->function.flags & TENON_NO_GRAD_CHECK))
        return 0;
    int lost = owner->gradient(object, &f->checks, &why);
    if (lost <= 0)
        return lost;
    item_name name = name_item(&f->function->signature->params[list->index], list->count);
    return tenon__py_raise_lost_gradient(f->function, name.text, why);
}

/* Take a borrowed tensor as the next item of the list. */
static int add_item(tenon__py_frame *f, tenon__py_list *list, tenon_py_borrowed *borrowed,
                    const tenon__py_producer *owner, PyObject *object)
{
    list->views[list->count] = borrowed->view;
    list->borrows[list->count] = borrowed;
    f->elements |= borrowed->view.numel;
    int lost = tenon__py_has_gradient(borrowed->view.dtype) ? check_item_gradient(f, list, owner, object) : 0;
    Py_ssize_t item = list->count++; /* it is released with the others from here on */
    if (lost < 0 ||
        (!tenon_device_on_host(borrowed->view.device) && tenon__py_join_device(f, list->index, item, borrowed) < 0))
        return -1;
    if (!f->like && owner)
        f->like = object;
    return 0;
}

/* Any tensor: the next item of the list. */
static TENON__PY_NOINLINE int read_item(tenon__py_frame *f, tenon__py_list *list, PyObject *object)
{
    const tenon_parameter *param = &f->function->signature->params[list->index];
    tenon_py_borrowed *borrowed = new_borrow(f, list, (size_t)PyTuple_Size(list->items));
    const tenon__py_producer *owner = NULL;
    const tenon__py_kind *kind;
    if (!borrowed)
        return -1;
    if (tenon__py_peek(object, &kind, borrowed) && kind && borrowed->view.device.device_type == TENON_CPU) {
        borrowed->private_.object = NULL; /* nothing to hold: the tuple does */
        return add_item(f, list, borrowed, kind->owner, object);
    }
    if (tenon__py_borrow_argument(f, object, param->items->flags & TENON_SPEC_WRITE, borrowed) < 0) {
        item_name name = name_item(param, list->count);
        tenon_parameter one = item_parameter(param, &name);
        return tenon__py_raise_not_borrowed(f, &one, object);
    }
    if (tenon__py_owner(object, &owner) < 0) {
        tenon_py_unborrow(borrowed);
        return -1;
    }
    return add_item(f, list, borrowed, owner, object);
}

/* Describe an array or tensor in C order in memory of the CPU whose framework has a struct that is read in place. `read` is what
 * the framework's function fills in: it is not `tensor`, so that the compiler keeps that in registers. */
static TENON__PY_ALWAYS_INLINE bool read_struct(PyObject *object, const tenon__py_kind **kind, tenon__py_c_tensor *read,
                                                tenon__py_c_tensor *tensor, uint64_t *flags)
{
    *flags = 0;
    if (!tenon__py_has_array_struct(object)) {
        if (!tenon__py_read_c_tensor(object, kind, read))
            return false;
        *tensor = *read;
        return true;
    }
    const tenon__py_array *array = tenon__py_array_of(object);
    tensor->dtype = tenon__py_array_dtype(array);
    tensor->data = array->data;
    tensor->ndim = array->nd;
    tensor->shape = tenon__py_numbers_of(array->dimensions);
    *flags = tenon__py_array_flags(array);
    return tensor->dtype && (array->flags & TENON__PY_ARRAY_C);
}

/* The next items of the list, up to one that has no such struct. 0, or -1 with an exception. */
static int read_plain_items(tenon__py_frame *f, tenon__py_list *list, tenon__py_c_tensor *read)
{
    PyObject *items = list->items;
    Py_ssize_t first = list->count, i = first, count = tenon__py_tuple_size(items);
    const tenon__py_kind *kind = NULL;
    tenon__py_c_tensor tensor;
    tenon_view *view = &list->views[i];
    int64_t *dims = list->dims, elements = 0;
    size_t dims_left = list->dims_left;
    uint64_t flags;
    for (; i < count && read_struct(tenon__py_tuple_item(items, i), &kind, read, &tensor, &flags); i++, view++) {
        size_t needed = 2 * (size_t)tensor.ndim;
        if (dims_left < needed) {
            list->count = i;
            dims = more_dims(f, list, tensor.ndim);
            if (!dims)
                return -1;
            dims_left = list->dims_left;
        }
        if (!tenon_view_init_fast(view, tensor.data, tensor.dtype, tensor.ndim, tensor.shape, NULL, 0, flags, dims))
            break;
        elements |= view->numel;
        dims += needed;
        dims_left -= needed;
    }
    if (!f->like && i > first)
        f->like = tenon__py_tuple_item(items, first);
    f->elements |= elements;
    list->dims = dims;
    list->dims_left = dims_left;
    list->count = i;
    return 0;
}

int tenon__py_read_list(tenon__py_frame *f, int32_t index, PyObject *object)
{
    const tenon_parameter *param = &f->function->signature->params[index];
    PyObject *items = read_items_of(f, param, object);
    Py_ssize_t count = items ? tenon__py_tuple_size(items) : 0;
    tenon__py_list *list = items ? list_new(f, index, (size_t)count) : NULL;
    if (!list) {
        Py_XDECREF(items);
        return -1;
    }
    list->items = items;
    tenon__py_c_tensor tensor;
    tensor.no_forward_ad = f->checks.no_forward_ad;
    while (list->count < count) {
        if (read_plain_items(f, list, &tensor) < 0 ||
            (list->count < count && read_item(f, list, tenon__py_tuple_item(items, list->count)) < 0))
            return -1;
    }
    int64_t elements = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        elements += list->views[i].numel;
    f->elements |= elements;
    tenon_frame_set_list(&f->base, index, list->views, count);
    return 0;
}

/* The borrow of item `i`, or one of what there is to know of it, in `room`. */
static tenon_py_borrowed *borrow_of(const tenon__py_list *list, Py_ssize_t i, tenon_py_borrowed *room)
{
    if (list->borrows && list->borrows[i])
        return list->borrows[i];
    room->view = list->views[i];
    room->private_.holds = TENON__PY_HOLDS_NOTHING;
    room->private_.table = NULL;
    room->private_.object = NULL;
    return room;
}

tenon_py_borrowed *tenon__py_list_borrow(const tenon__py_frame *f, int32_t index, int64_t item, bool is_result,
                                         tenon_py_borrowed *room, PyObject **object)
{
    for (tenon__py_list *list = f->lists; list; list = list->next) {
        int64_t at = is_result ? item - list->first : item;
        if (list->is_result != is_result || list->index != index || at < 0 || at >= list->count)
            continue;
        *object = is_result ? PyList_GetItem(f->result_objects[index], (Py_ssize_t)item)
                            : PyTuple_GetItem(list->items, (Py_ssize_t)item);
        return *object ? borrow_of(list, (Py_ssize_t)at, room) : NULL;
    }
    return NULL;
}

int64_t tenon__py_list_bytes(const tenon__py_frame *f, int64_t most)
{
    int64_t bytes = 0;
    for (const tenon__py_list *list = f->lists; list; list = list->next) {
        for (Py_ssize_t i = 0; i < list->count; i++) {
            int64_t more = tenon_view_nbytes(&list->views[i]);
            if (more >= most - bytes)
                return most;
            bytes += more;
        }
    }
    return bytes;
}

void tenon__py_release_lists(tenon__py_frame *f)
{
    for (tenon__py_list *list = f->lists; list; list = list->next) {
        for (Py_ssize_t i = 0; list->borrows && i < list->count; i++)
            if (list->borrows[i])
                tenon_py_unborrow(list->borrows[i]);
        Py_XDECREF(list->items);
    }
    f->lists = NULL;
}

/* --------------------------------------------------------------------------------------------------------- messages */

const char *tenon__py_describe_item(tenon_frame *base, int32_t index, int64_t item)
{
    return tenon__py_describe_object(base, tenon__py_list_item(tenon__py_frame_of(base), index, item));
}

bool tenon__py_mismatched_item(const tenon__py_frame *f, tenon__py_item *out)
{
    const tenon_bindings *b = &f->base.bindings;
    if (b->argument != b->label)
        return false;
    const tenon_parameter *param = &f->function->signature->params[b->list];
    out->object = tenon__py_list_item(f, b->list, b->item);
    out->param = *param;
    out->param.name = b->label;
    out->param.spec = param->items;
    return out->object != NULL;
}

/* --------------------------------------------------------------------------------------------------------- changes */

enum { ITEMS_IN_TURN = 256 };

/* The next item, or false after the last one. */
static bool next_item(const tenon__py_frame *f, tenon__py_items *items, tenon__py_list **list, Py_ssize_t *item)
{
    if (items->most == 0)
        return false;
    items->most -= items->most > 0;
    while (items->list && items->item >= items->list->count) {
        items->list = items->list->next;
        items->item = 0;
        if (!items->list && items->most >= 0)
            items->list = f->lists;
    }
    *list = items->list;
    *item = items->item++;
    return *list != NULL;
}

bool tenon__py_next_items(tenon__py_frame *f, tenon__py_items *next)
{
    Py_ssize_t count = 0;
    for (const tenon__py_list *list = f->lists; list && count <= ITEMS_IN_TURN; list = list->next)
        count += list->count;
    if (count <= ITEMS_IN_TURN)
        return false;
    *next = f->compares_in_turn ? f->next_items : (tenon__py_items){f->lists, 0, 0};
    next->most = ITEMS_IN_TURN;
    f->compares_in_turn = true;
    f->next_items = *next;
    tenon__py_list *list;
    Py_ssize_t item;
    while (next_item(f, &f->next_items, &list, &item)) {
    }
    return true;
}

int tenon__py_check_list_gradients(tenon__py_frame *f, tenon__py_items items)
{
    tenon__py_list *list;
    Py_ssize_t i;
    while (next_item(f, &items, &list, &i)) {
        const tenon__py_producer *owner;
        if (list->is_result || !tenon__py_has_gradient(list->views[i].dtype))
            continue;
        PyObject *object = PyTuple_GetItem(list->items, i);
        if (tenon__py_owner(object, &owner) < 0)
            return -1;
        Py_ssize_t count = list->count;
        list->count = i; /* which the message names */
        int lost = check_item_gradient(f, list, owner, object);
        list->count = count;
        if (lost < 0)
            return -1;
    }
    return 0;
}

bool tenon__py_changed_item(const tenon__py_frame *f, tenon__py_items items, char *name, size_t size, bool *is_result)
{
    tenon__py_list *list;
    Py_ssize_t i;
    while (next_item(f, &items, &list, &i)) {
        tenon_py_borrowed room, *borrowed = borrow_of(list, i, &room);
        PyObject *object = list->is_result ? borrowed->private_.object : PyTuple_GetItem(list->items, i);
        if (!object || tenon__py_is_unchanged(object, borrowed))
            continue;
        *is_result = list->is_result;
        if (list->is_result)
            PyOS_snprintf(name, size, "result %d[%zd]", (int)list->index, list->first + i);
        else
            PyOS_snprintf(name, size, "argument '%s[%zd]'", f->function->signature->params[list->index].name, i);
        return true;
    }
    return false;
}

/* --------------------------------------------------------------------------------------------------------- results */

int tenon__py_make_item(tenon_frame *base, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim,
                        const int64_t *shape, tenon_view *view)
{
    tenon__py_frame *f = tenon__py_frame_of(base);
    const tenon_parameter *result = &base->signature->results[index];
    bool each = result->flags & TENON_PARAMETER_EACH;
    tenon__py_list *list = f->lists;
    if (!f->result_objects[index] && !(f->result_objects[index] = PyList_New(0)))
        return -1;
    size_t most = each ? (size_t)base->args[result->owner].as.list.length : 1;
    if (!each || item == 0) { /* all of a list "for ...", or the next of one that the function makes */
        list = list_new(f, index, most);
        if (!list)
            return -1;
        list->is_result = true;
        list->first = (Py_ssize_t)item;
    }
    tenon_py_borrowed *borrowed = new_borrow(f, list, most);
    PyObject *object = borrowed ? tenon__py_make_array(f, index, dtype, ndim, shape, borrowed) : NULL;
    if (!object)
        return -1;
    list->borrows[list->count] = borrowed;
    f->elements |= borrowed->view.numel;
    list->views[list->count++] = borrowed->view;
    int status = PyList_Append(f->result_objects[index], object);
    Py_DECREF(object);
    *view = borrowed->view;
    return status;
}
