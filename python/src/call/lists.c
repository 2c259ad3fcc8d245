/* Lists of tensors in a call: read and borrowed item by item, and made as results. */
#include "internal.h"

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
    size_t each = sizeof(tenon_py_borrowed) + sizeof(tenon_view);
    tenon__py_list *list =
        count < PTRDIFF_MAX / each - 1 ? tenon_block_alloc(&f->base.blocks, sizeof *list + count * each, 0) : NULL;
    if (!list) {
        PyErr_NoMemory();
        return NULL;
    }
    list->index = index;
    list->is_result = false;
    list->first = 0;
    list->count = 0;
    list->items = NULL;
    list->borrowed = (tenon_py_borrowed *)(void *)(list + 1);
    list->views = (tenon_view *)(void *)(list->borrowed + count);
    list->next = f->lists;
    f->lists = list;
    return list;
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

/* Any tensor: the next item of the list. */
static TENON__PY_NOINLINE int read_item(tenon__py_frame *f, tenon__py_list *list, PyObject *object)
{
    const tenon_parameter *param = &f->function->signature->params[list->index];
    tenon_py_borrowed *borrowed = &list->borrowed[list->count];
    const tenon__py_producer *owner = NULL;
    if (tenon__py_borrow_argument(f, object, param->items->flags & TENON_SPEC_WRITE, borrowed) < 0) {
        item_name name = name_item(param, list->count);
        tenon_parameter one = item_parameter(param, &name);
        return tenon__py_raise_not_borrowed(f, &one, object);
    }
    Py_ssize_t item = list->count++; /* it is released with the others from here on */
    if (tenon__py_owner(object, &owner) < 0)
        return -1;
    if (tenon__py_has_gradient(borrowed->view.dtype)) {
        list->count = item; /* which the message names */
        int lost = check_item_gradient(f, list, owner, object);
        list->count = item + 1;
        if (lost < 0)
            return -1;
    }
    if (!tenon_device_on_host(borrowed->view.device) && tenon__py_join_device(f, list->index, item, borrowed) < 0)
        return -1;
    if (!f->like && owner)
        f->like = object;
    return 0;
}

int tenon__py_read_list(tenon__py_frame *f, int32_t index, PyObject *object)
{
    const tenon_parameter *param = &f->function->signature->params[index];
    PyObject *items = read_items_of(f, param, object);
    Py_ssize_t count = items ? PyTuple_Size(items) : 0;
    tenon__py_list *list = items ? list_new(f, index, (size_t)count) : NULL;
    if (!list) {
        Py_XDECREF(items);
        return -1;
    }
    list->items = items;
    int64_t elements = 0;
    while (list->count < count) {
        Py_ssize_t i = list->count;
        PyObject *item = PyTuple_GetItem(items, i);
        tenon_py_borrowed *borrowed = &list->borrowed[i];
        const tenon__py_kind *kind = NULL;
        if (tenon__py_peek(item, &kind, borrowed) && borrowed->view.device.device_type == TENON_CPU) {
            borrowed->private_.object = NULL; /* nothing to hold: the tuple does */
            if (kind && tenon__py_has_gradient(borrowed->view.dtype) &&
                check_item_gradient(f, list, kind->owner, item) < 0)
                return -1;
            list->count++;
            if (!f->like)
                f->like = item;
        } else if (read_item(f, list, item) < 0) {
            return -1;
        }
        list->views[i] = borrowed->view;
        elements += borrowed->view.numel;
    }
    f->elements |= elements;
    tenon_frame_set_list(&f->base, index, list->views, count);
    return 0;
}

tenon_py_borrowed *tenon__py_list_borrow(const tenon__py_frame *f, int32_t index, int64_t item, bool is_result,
                                         PyObject **object)
{
    for (tenon__py_list *list = f->lists; list; list = list->next) {
        int64_t at = is_result ? item - list->first : item;
        if (list->is_result != is_result || list->index != index || at < 0 || at >= list->count)
            continue;
        *object = is_result ? PyList_GetItem(f->result_objects[index], (Py_ssize_t)item)
                            : PyTuple_GetItem(list->items, (Py_ssize_t)item);
        return *object ? &list->borrowed[at] : NULL;
    }
    return NULL;
}

int64_t tenon__py_list_bytes(const tenon__py_frame *f, int64_t most)
{
    int64_t bytes = 0;
    for (const tenon__py_list *list = f->lists; list; list = list->next) {
        for (Py_ssize_t i = 0; i < list->count; i++) {
            int64_t more = tenon_view_nbytes(&list->borrowed[i].view);
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
        tenon_py_unborrow_many((size_t)list->count, list->borrowed);
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
        if (list->is_result || !tenon__py_has_gradient(list->borrowed[i].view.dtype))
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
        PyObject *object = list->is_result ? list->borrowed[i].private_.object : PyTuple_GetItem(list->items, i);
        if (!object || tenon__py_is_unchanged(object, &list->borrowed[i]))
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
    if (!each || item == 0) { /* all of a list "for ...", or the next of one that the function makes */
        list = list_new(f, index, each ? (size_t)base->args[result->owner].as.list.length : 1);
        if (!list)
            return -1;
        list->is_result = true;
        list->first = (Py_ssize_t)item;
    }
    tenon_py_borrowed *borrowed = &list->borrowed[list->count];
    PyObject *object = tenon__py_make_array(f, index, dtype, ndim, shape, borrowed);
    if (!object)
        return -1;
    list->count++;
    f->elements |= borrowed->view.numel;
    int status = PyList_Append(f->result_objects[index], object);
    Py_DECREF(object);
    *view = borrowed->view;
    return status;
}
