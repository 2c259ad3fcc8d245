/* Lists of tensors in a call: arguments, results "for" each item of one, and results that the function makes. */
#include "library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In blocks of the call. */
typedef struct tenon_nif_list {
    struct tenon_nif_list *next;
    int32_t index; /* of the argument, or of the result */
    bool is_result;
    int64_t count; /* items that were read or made */
    int64_t room;
    tenon_view *views;         /* of an argument */
    tenon_nif_tensor **pinned; /* of an argument: the tensor of each item; NULL: a binary */
    tenon_tensor **made;       /* of a result: NULL once the item is a term */
} tenon_nif_list;

tenon_nif_name tenon_nif_name_item(const char *argument, int64_t item)
{
    tenon_nif_name name;
    if (item < 0)
        snprintf(name.text, sizeof name.text, "%s", argument);
    else
        snprintf(name.text, sizeof name.text, "%s[%lld]", argument, (long long)item);
    return name;
}

static tenon_nif_list *find_list(const tenon_nif_frame *f, int32_t index, bool is_result)
{
    tenon_nif_list *list = f->lists;
    while (list && (list->index != index || list->is_result != is_result))
        list = list->next;
    return list;
}

/* NULL: no memory. */
static tenon_nif_list *new_list(tenon_nif_frame *f, int32_t index, bool is_result)
{
    tenon_nif_list *list = tenon_block_alloc(&f->base.blocks, sizeof *list, 0);
    if (!list)
        return NULL;
    *list = (tenon_nif_list){.next = f->lists, .index = index, .is_result = is_result};
    f->lists = list;
    return list;
}

void tenon_nif_release_lists(tenon_nif_frame *f)
{
    for (const tenon_nif_list *list = f->lists; list; list = list->next) {
        for (int64_t i = 0; i < list->count; i++) {
            if (list->is_result)
                tenon_tensor_release(list->made[i]);
            else if (list->pinned[i])
                tenon_nif_tensor_unpin(list->pinned[i]);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------- arguments */

/* Read the next item of the list. */
static bool take_item(tenon_nif_frame *f, tenon_nif_list *list, const tenon_parameter *item, ERL_NIF_TERM term)
{
    tenon_nif_reader *r = &f->reader;
    int64_t i = list->count++; /* even if it is not accepted: it may be pinned */
    tenon_view *view = &list->views[i];
    bool taken = tenon_nif_view_argument(f, item, term, view, &list->pinned[i]);
    if (!taken && !r->go_dirty && !enif_is_atom(r->env, r->error)) {
        /* Names are made for messages only, so read it once more for a message that names the item. */
        tenon_nif_name name = tenon_nif_name_item(item->name, i);
        tenon_parameter named = *item;
        named.name = name.text;
        if (list->pinned[i])
            tenon_nif_tensor_unpin(list->pinned[i]);
        taken = tenon_nif_view_argument(f, &named, term, view, &list->pinned[i]);
    }
    return taken && (tenon_device_on_host(view->device) ||
                     tenon_frame_join_item_device(&f->base, list->index, i, view->device) >= 0);
}

bool tenon_nif_take_list(tenon_nif_frame *f, int32_t index, ERL_NIF_TERM term)
{
    tenon_nif_reader *r = &f->reader;
    const tenon_parameter *param = &f->function->signature->params[index];
    tenon_parameter item = *param; /* what an item would be by itself */
    item.type = param->items->text;
    item.spec = param->items;
    ERL_NIF_TERM first;
    unsigned count;
    if (!tenon_nif_list_length(r, index, term, sizeof(tenon_view), &count))
        return false;
    tenon_nif_list *list = new_list(f, index, false);
    if (list) {
        list->views = tenon_block_alloc(r->blocks, count * sizeof *list->views, 0);
        list->pinned = tenon_block_alloc(r->blocks, count * sizeof(tenon_nif_tensor *), 0);
    }
    if (!list || !list->views || !list->pinned)
        return tenon_nif_no_memory(r);
    while (enif_get_list_cell(r->env, term, &first, &term))
        if (!take_item(f, list, &item, first))
            return false;
    tenon_frame_set_list(&f->base, index, list->views, list->count);
    return true;
}

tenon_device tenon_nif_list_device(const tenon_nif_frame *f, int32_t index)
{
    const tenon_nif_list *list = find_list(f, index, false);
    return list->views[list->count - 1].device;
}

const char *tenon_nif_describe_item(tenon_frame *base, int32_t index, int64_t item)
{
    tenon_nif_frame *f = tenon_nif_frame_of(base);
    ERL_NIF_TERM first = 0, rest = f->given[index];
    for (int64_t i = 0; i <= item; i++)
        if (!enif_get_list_cell(f->reader.env, rest, &first, &rest))
            return NULL;
    return first ? tenon_nif_phrase(f, first) : NULL;
}

/* -------------------------------------------------------------------------------------------------------- storages */

/* By the state, and then in the order of the arguments. */
static int compare_taken(const void *left, const void *right)
{
    const tenon_nif_taken *a = left, *b = right;
    uintptr_t x = (uintptr_t)a->storage->state, y = (uintptr_t)b->storage->state;
    if (x != y)
        return x < y ? -1 : 1;
    return a->item < b->item ? -1 : a->item > b->item;
}

bool tenon_nif_list_storages(tenon_nif_frame *f)
{
    int64_t count = f->ntaken, kept = 0;
    for (const tenon_nif_list *list = f->lists; list; list = list->next)
        count += list->is_result ? 0 : list->count;
    tenon_nif_taken *all = tenon_block_alloc(&f->base.blocks, (size_t)count * sizeof *all, 0);
    if (!all)
        return tenon_nif_no_memory(&f->reader);
    memcpy(all, f->storages, (size_t)f->ntaken * sizeof *all);
    count = f->ntaken;
    for (const tenon_nif_list *list = f->lists; list; list = list->next) {
        if (list->is_result)
            continue;
        const tenon_parameter *param = &f->function->signature->params[list->index];
        bool written = param->items->flags & TENON_SPEC_WRITE;
        for (int64_t i = 0; i < list->count; i++)
            if (list->pinned[i])
                all[count++] = (tenon_nif_taken){list->pinned[i]->storage, param->name, i, written};
    }
    qsort(all, (size_t)count, sizeof *all, compare_taken);
    for (int64_t i = 0; i < count; i++) {
        if (kept && all[kept - 1].storage->state == all[i].storage->state)
            all[kept - 1].written |= all[i].written;
        else
            all[kept++] = all[i];
    }
    f->taken = all;
    f->ntaken = kept;
    return true;
}

/* --------------------------------------------------------------------------------------------------------- results */

/* Room for one more item. */
static bool grow_list(tenon_nif_frame *f, tenon_nif_list *list, int64_t wanted)
{
    if (list->count < list->room)
        return true;
    int64_t room = list->room ? 2 * list->room : wanted;
    tenon_tensor **made = tenon_block_alloc(&f->base.blocks, (size_t)room * sizeof(tenon_tensor *), 0);
    if (!made)
        return false;
    if (list->count)
        memcpy(made, list->made, (size_t)list->count * sizeof(tenon_tensor *));
    list->made = made;
    list->room = room;
    return true;
}

int tenon_nif_open_item(tenon_frame *base, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim,
                        const int64_t *shape, tenon_view *view)
{
    (void)item; /* they are made in order */
    tenon_nif_frame *f = tenon_nif_frame_of(base);
    const tenon_parameter *result = &base->signature->results[index];
    tenon_nif_list *list = find_list(f, index, true);
    int64_t wanted = result->flags & TENON_PARAMETER_EACH ? base->args[result->owner].as.list.length : 16;
    if (!list)
        list = new_list(f, index, true);
    if (!list || !grow_list(f, list, wanted)) {
        tenon_fail(&base->call, TENON_ENOMEM, "no memory for another tensor of result %d", (int)index);
        return -1;
    }
    if (!tenon_nif_alloc_result(base, dtype, ndim, shape, &list->made[list->count]))
        return -1;
    *view = *tenon_tensor_view(list->made[list->count++]);
    return 0;
}

int tenon_nif_make_item(tenon_frame *base, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim,
                        const int64_t *shape, tenon_view *view)
{
    if (!tenon_nif_may_make(tenon_nif_frame_of(base), index, dtype, ndim, shape))
        return -1;
    return tenon_nif_open_item(base, index, item, dtype, ndim, shape, view)
               ? tenon_frame_refuse_failure(base, TENON_EFAILED)
               : 0;
}

bool tenon_nif_list_term(tenon_nif_frame *f, int32_t index, ERL_NIF_TERM *out)
{
    ErlNifEnv *env = f->reader.env;
    const tenon_nif_list *list = find_list(f, index, true);
    *out = enif_make_list(env, 0);
    for (int64_t i = list ? list->count - 1 : -1; i >= 0; i--) {
        f->returned_bytes += (uint64_t)tenon_view_nbytes(tenon_tensor_view(list->made[i]));
        ERL_NIF_TERM term = tenon_nif_make_owned(env, list->made[i], f->function->signature->name);
        list->made[i] = NULL;
        if (!enif_is_map(env, term)) {
            f->reader.error = term;
            return false;
        }
        *out = enif_make_list_cell(env, term, *out);
    }
    return true;
}
