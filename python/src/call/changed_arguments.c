/* The check for changed arguments. They are borrowed one after the other, and Python code that runs in between may
 * change one that is already borrowed. */
#include "internal.h"

bool tenon__py_is_unchanged(PyObject *object, const tenon_py_borrowed *borrowed)
{
    tenon_py_borrowed now;
    tenon__py_kind room;
    switch (borrowed->private_.holds) {
    case TENON__PY_HOLDS_NOTHING:
        if (tenon__py_borrow_in_c(object, borrowed, &now) < 0)
            return false;
        break;
    case TENON__PY_HOLDS_MANAGED:
    case TENON__PY_HOLDS_LEGACY: {
        const tenon__py_producer *owner =
            borrowed->private_.table ? NULL : tenon__py_kind_again(object, NULL, &room)->owner;
        return !owner || !owner->has_data || owner->has_data(object, borrowed->view.data);
    }
    case TENON__PY_HOLDS_TENSOR: {
        const tenon__py_holder *holder = tenon__py_holder_of(borrowed->private_.held.tensor);
        return !holder || !tenon__py_attached_to(holder->interp) ||
               tenon__py_is_unchanged(holder->borrowed.private_.object, &holder->borrowed);
    }
    default:
        return true;
    }
    /* If anything is held now, Python code described it: its class is another one. */
    bool same = now.private_.holds == TENON__PY_HOLDS_NOTHING && tenon_view_equal(&now.view, &borrowed->view) &&
                !((now.view.flags ^ borrowed->view.flags) & TENON_READ_ONLY);
    tenon_py_unborrow(&now);
    return same;
}

/* The object has changed, or could not be read again. `what` is its name in messages: "argument 'x'". Returns -1. */
static int raise_changed(const tenon__py_frame *f, const char *what, const char *when)
{
    tenon__py_clear_ignorable_error();
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "%s(): %s: its memory, shape, dtype or flags changed while %s",
                     f->function->signature->name, what, when);
    return -1;
}

/* The results that have been made, or `out`. Their borrows come after those of the arguments. A result that the caller cannot
 * reach is not held by its borrow. */
static int compare_results(const tenon__py_frame *f, int32_t first)
{
    char name[32];
    for (int32_t i = first; i < f->nborrowed; i++) {
        PyObject *object = f->borrowed[i].private_.object;
        if (!object || tenon__py_is_unchanged(object, &f->borrowed[i]))
            continue;
        if (f->out)
            return raise_changed(f, "argument 'out'", "the call was running; do not change it before the call returns");
        int index = 0;
        while (index < f->function->signature->nresults - 1 && f->result_objects[index] != object)
            index++;
        PyOS_snprintf(name, sizeof name, "result %d", index);
        return raise_changed(f, name, "the call was running; do not change it before the call returns");
    }
    return 0;
}

tenon_py_borrowed *tenon__py_argument_borrow(const tenon__py_frame *f, int32_t index)
{
    return f->base.args[index].kind == TENON_KIND_TENSOR
               ? (tenon_py_borrowed *)(uintptr_t)tenon_frame_given_view(&f->base, index) /* its first member */
               : NULL;
}

static int check_gradients(tenon__py_frame *f, tenon__py_items items)
{
    f->checks.no_forward_ad = false;
    for (int32_t i = 0; i < f->function->signature->nparams; i++) {
        const tenon_py_borrowed *borrowed = tenon__py_argument_borrow(f, i);
        if (borrowed && tenon__py_check_argument_gradient(f, i, f->argument_objects[i], borrowed) < 0)
            return -1;
    }
    if (f->function->has_lists && tenon__py_check_list_gradients(f, items) < 0)
        return -1;
    return f->out ? tenon__py_check_gradient(f->function, "out", f->out, &f->checks) : 0;
}

/* No Python code may run between the first comparison and the function. */
static int compare_memory(const tenon__py_frame *f, tenon__py_items items)
{
    const tenon_signature *s = f->function->signature;
    int32_t count = 0;
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_py_borrowed *borrowed = tenon__py_argument_borrow(f, i);
        count += borrowed != NULL;
        if (!borrowed || tenon__py_is_unchanged(f->argument_objects[i], borrowed))
            continue;
        char name[TENON_NAME_SIZE + 16];
        PyOS_snprintf(name, sizeof name, "argument '%s'", s->params[i].name);
        return raise_changed(f, name, "the other arguments were read or the results were made; pass a copy");
    }
    char name[TENON_NAME_SIZE + 40];
    bool is_result;
    if (f->function->has_lists && tenon__py_changed_item(f, items, name, sizeof name, &is_result))
        return raise_changed(f, name,
                             is_result ? "the call was running; do not change it before the call returns"
                                       : "the other arguments were read or the results were made; pass a copy");
    return compare_results(f, count);
}

/* Gradients first: asking for them may run the user's code. */
static int check_with_items(tenon__py_frame *f, tenon__py_items items)
{
    if (check_gradients(f, items) < 0)
        return -1;
    int enabled = tenon__py_pause_gc();
    int status = compare_memory(f, items);
    tenon__py_resume_gc(enabled);
    return status;
}

int tenon__py_check_changed_arguments(tenon__py_frame *f)
{
    int status = check_with_items(f, (tenon__py_items){f->function->has_lists ? f->lists : NULL, 0, -1});
    if (status == 0)
        f->checks.may_have_changed = false;
    return status;
}

int tenon__py_check_after_callback(tenon__py_frame *f)
{
    tenon__py_items some;
    return f->function->has_lists && tenon__py_next_items(f, &some) ? check_with_items(f, some)
                                                                    : tenon__py_check_changed_arguments(f);
}
