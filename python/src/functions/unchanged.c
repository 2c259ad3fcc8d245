/* The check for changed arguments. They are borrowed one after the other, and Python code that runs in between may
 * change one that is already borrowed. */
#include "host.h"

bool tenon__py_is_unchanged(PyObject *object, const tenon_py_borrowed *borrowed)
{
    tenon_py_borrowed now;
    const tenon__py_producer *owner = NULL;
    switch (borrowed->private_.holds) {
    case TENON__PY_HOLDS_NOTHING: /* reading the object again runs only C code */
        if (tenon_py_borrow(object, TENON_PY_ANY_DEVICE, &now) < 0)
            return false;
        break;
    case TENON__PY_HOLDS_MANAGED:
    case TENON__PY_HOLDS_LEGACY:
        if (!borrowed->private_.table && tenon__py_owner(object, &owner) < 0)
            return false;
        return !owner || !owner->has_data || owner->has_data(object, borrowed->view.data);
    case TENON__PY_HOLDS_TENSOR: {
        const tenon__py_holder *holder = tenon__py_holder_of(borrowed->private_.held.tensor);
        return !holder || !tenon__py_attached_to(holder->interp) ||
               tenon__py_is_unchanged(holder->borrowed.private_.object, &holder->borrowed);
    }
    default:
        return true;
    }
    bool same =
        tenon_view_equal(&now.view, &borrowed->view) && !((now.view.flags ^ borrowed->view.flags) & TENON_READ_ONLY);
    tenon_py_unborrow(&now);
    return same;
}

int tenon__py_check_unchanged(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    f->disturbed = false;
    for (int32_t i = 0; i < s->nparams; i++) {
        PyObject *object = f->given[i];
        if (f->base.args[i].kind != TENON_KIND_TENSOR)
            continue;
        const tenon_py_borrowed *borrowed = (const tenon_py_borrowed *)(const void *)f->base.args[i].as.view;
        if (!tenon__py_is_unchanged(object, borrowed)) {
            tenon__py_clear_ignorable_error();
            if (PyErr_Occurred())
                return -1;
            return tenon__py_argument_error(f->function, s->params[i].name, PyExc_RuntimeError,
                                            "its memory, shape, dtype or flags changed while the other arguments were "
                                            "read or the results were made; pass a copy");
        }
        if (tenon__py_check_argument_gradient(f, i, object, borrowed) < 0)
            return -1;
    }
    return 0;
}
