/* The native objects of handles and of objects of classes: who destroys them, and when. */
#include "object.h"

void tenon__py_native_destroy(const tenon__py_native *native)
{
    tenon__py_scope scope = tenon__py_enter_scope();
    if (native->object && native->destroy)
        native->destroy(native->object);
    tenon__py_library_release(native->library);
    tenon__py_leave_scope(scope);
}

tenon__py_object *tenon__py_object_new(tenon__py_library *library, void *object, void (*destroy)(void *))
{
    tenon__py_interp *interp = tenon__py_interp_state();
    tenon__py_object *made = interp ? PyMem_Malloc(sizeof *made) : NULL;
    if (!made)
        return interp ? (void *)PyErr_NoMemory() : NULL;
    atomic_init(&made->count, 1);
    made->interp = interp;
    made->native = (tenon__py_native){tenon__py_library_retain(library), object, destroy};
    return made;
}

tenon__py_object *tenon__py_object_retain(tenon__py_object *object)
{
    atomic_fetch_add_explicit(&object->count, 1, memory_order_relaxed);
    return object;
}

static void destroy_object(tenon__py_object *object)
{
    tenon__py_native_destroy(&object->native);
    PyMem_Free(object);
}

static void run_deferred_destroy(void *pointer)
{
    atomic_fetch_sub_explicit(&tenon__py_global.waiting, 1, memory_order_relaxed);
    destroy_object(pointer);
}

static bool is_last_share(tenon__py_object *object)
{
    return atomic_fetch_sub_explicit(&object->count, 1, memory_order_acq_rel) == 1;
}

void tenon__py_object_drop(tenon__py_object *object)
{
    if (is_last_share(object))
        destroy_object(object);
}

void tenon__py_object_release(void *pointer)
{
    tenon__py_object *object = pointer;
    if (!is_last_share(object))
        return;
    if (tenon__py_attached_to(object->interp))
        destroy_object(object);
    else if (!tenon__py_defer(object->interp, &object->node, run_deferred_destroy, object))
        atomic_fetch_add_explicit(&tenon__py_global.leaked, 1, memory_order_relaxed);
}
