/* The checked mode of an interpreter: the environment variable TENON_CHECK, and tenon.check().
 *
 * A call does not ask whether the mode is on. Each function knows what to do before it runs, and that is changed for all
 * functions of the interpreter. */
#include "internal.h"

/* In tenon__py_interp.checked. */
enum { CHECKED_UNREAD, CHECKED_OFF, CHECKED_ON };

bool tenon__py_is_checked(tenon__py_interp *interp)
{
    if (atomic_load(&interp->checked) == CHECKED_UNREAD) {
        int expected = CHECKED_UNREAD;
        atomic_compare_exchange_strong(&interp->checked, &expected,
                                       tenon_frame_check_wanted() ? CHECKED_ON : CHECKED_OFF);
    }
    return atomic_load(&interp->checked) == CHECKED_ON;
}

void tenon__py_function_join(tenon__py_function *function)
{
    tenon__py_interp *interp = function->interp;
    tenon__py_mutex_lock(&interp->functions_lock);
    function->next = interp->functions;
    if (function->next)
        function->next->previous = function;
    interp->functions = function;
    tenon__py_function_check(function, tenon__py_is_checked(interp));
    tenon__py_mutex_unlock(&interp->functions_lock);
}

void tenon__py_function_leave(tenon__py_function *function)
{
    tenon__py_interp *interp = function->interp;
    tenon__py_mutex_lock(&interp->functions_lock);
    if (function->previous)
        function->previous->next = function->next;
    else if (interp->functions == function)
        interp->functions = function->next;
    if (function->next)
        function->next->previous = function->previous;
    tenon__py_mutex_unlock(&interp->functions_lock);
}

int tenon__py_check(bool on)
{
    tenon__py_interp *interp = tenon__py_interp_state();
    if (!interp)
        return -1;
    tenon__py_mutex_lock(&interp->functions_lock);
    bool before = tenon__py_is_checked(interp);
    atomic_store(&interp->checked, on ? CHECKED_ON : CHECKED_OFF);
    for (tenon__py_function *function = interp->functions; function; function = function->next)
        tenon__py_function_check(function, on);
    tenon__py_mutex_unlock(&interp->functions_lock);
    return before;
}

int tenon__py_warn(tenon_frame *base, int32_t index, const char *message)
{
    (void)index;
    return PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "%s(): %s", base->signature->name, message);
}
