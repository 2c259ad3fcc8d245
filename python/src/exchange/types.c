/* Types: the producers are asked once which of them has to do with one, and the answer is remembered in a fixed table. */
#include "../internal.h"

#include <string.h>

/* The table is written under the lock, and read without it: an entry's type is stored last. Entries hold their types until the
 * process ends, so that no address can come to mean another type, and come from the main interpreter only, whose types live
 * as long. */
enum { MOST_KINDS = 48 };

static size_t slot_of(const PyTypeObject *type)
{
    return ((uintptr_t)type >> 4 ^ (uintptr_t)type >> 12) % TENON__PY_KINDS;
}

const tenon__py_kind *tenon__py_known_kind(const PyTypeObject *type)
{
    for (size_t i = slot_of(type);; i = (i + 1) % TENON__PY_KINDS) {
        PyTypeObject *found = atomic_load_explicit(&tenon__py_global.kinds[i].type, memory_order_acquire);
        if (found == type)
            return &tenon__py_global.kinds[i];
        if (!found) /* the table is never full */
            return NULL;
    }
}

static void remember(const tenon__py_kind *kind)
{
    PyTypeObject *type = atomic_load_explicit(&kind->type, memory_order_relaxed);
    tenon__py_spin_lock(&tenon__py_global.lock);
    if (tenon__py_global.nkinds < MOST_KINDS && !tenon__py_known_kind(type)) {
        size_t i = slot_of(type);
        while (atomic_load_explicit(&tenon__py_global.kinds[i].type, memory_order_relaxed))
            i = (i + 1) % TENON__PY_KINDS;
        tenon__py_kind *entry = &tenon__py_global.kinds[i];
        entry->owner = kind->owner;
        entry->readers = kind->readers;
        entry->guesses = kind->guesses;
        entry->is_immutable = kind->is_immutable;
        entry->has_dlpack = kind->has_dlpack;
        entry->device_type = kind->device_type;
        entry->table = kind->table;
        entry->peek = kind->peek;
        entry->read_c_tensor = kind->read_c_tensor;
        Py_INCREF((PyObject *)type);
        atomic_store_explicit(&entry->type, type, memory_order_release);
        tenon__py_global.nkinds++;
    }
    tenon__py_spin_unlock(&tenon__py_global.lock);
}

/* --------------------------------------------------------------------------------------------------- finding out */

PyObject *tenon__py_loaded(const char *module)
{
    PyObject *name = PyUnicode_FromString(module);
    PyObject *found = name ? PyImport_GetModule(name) : NULL;
    Py_XDECREF(name);
    if (!found)
        tenon__py_clear_ignorable_error();
    if (found != Py_None)
        return found;
    Py_DECREF(found);
    return NULL;
}

const char *tenon__py_package(PyTypeObject *type, char *buffer, size_t size)
{
    buffer[0] = '\0';
    PyObject *name = PyObject_GetAttrString((PyObject *)type, "__module__");
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    if (text) {
        size_t length = strcspn(text, ".");
        if (length < size) {
            memcpy(buffer, text, length);
            buffer[length] = '\0';
        }
    }
    Py_XDECREF(name);
    tenon__py_clear_ignorable_error();
    return buffer;
}

PyTypeObject *tenon__py_loaded_class(const char *module, const char *name)
{
    PyObject *found = tenon__py_loaded(module);
    PyObject *type = found ? PyObject_GetAttrString(found, name) : NULL;
    Py_XDECREF(found);
    if (!type)
        tenon__py_clear_ignorable_error();
    if (type && !PyType_Check(type)) {
        Py_DECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

int tenon__py_overrides(PyTypeObject *type, PyTypeObject *base, const char *name)
{
    PyObject *own = NULL, *theirs = NULL, *own_function = NULL, *their_function = NULL;
    int differ = tenon__py_attribute((PyObject *)type, name, &own);
    if (differ == 1)
        differ = tenon__py_attribute((PyObject *)base, name, &theirs);
    if (differ == 1)
        differ = own != theirs;
    /* Bound class methods are made again at each look-up; what they wrap is what counts. */
    if (differ == 1 && (tenon__py_attribute(own, "__func__", &own_function) < 0 ||
                        tenon__py_attribute(theirs, "__func__", &their_function) < 0))
        differ = -1;
    if (differ == 1 && own_function == their_function)
        differ = own_function ? 0 : PyObject_RichCompareBool(own, theirs, Py_NE);
    Py_XDECREF(own);
    Py_XDECREF(theirs);
    Py_XDECREF(own_function);
    Py_XDECREF(their_function);
    return differ;
}

enum { NFIRST = 2, NLAST = 6 };
static const tenon__py_producer *const first_protocols[NFIRST] = {&tenon__py_producer_tensor,
                                                                  &tenon__py_producer_capsule};
static const tenon__py_producer *const last_protocols[NLAST] = {
    &tenon__py_producer_exchange_table, &tenon__py_producer_buffer,          &tenon__py_producer_dlpack,
    &tenon__py_producer_array_api,      &tenon__py_producer_array_interface, &tenon__py_producer_arrow,
};
/* Producer `i` in the order in which types are shown to them and objects are read, or NULL after the last one. */
static const tenon__py_producer *producer_at(int i)
{
    if (i < NFIRST)
        return first_protocols[i];
    i -= NFIRST;
    if (i < tenon__py_nframeworks)
        return tenon__py_frameworks[i]->producer;
    i -= tenon__py_nframeworks;
    return i < NLAST ? last_protocols[i] : NULL;
}

static int find_out(PyObject *object, tenon__py_kind *kind)
{
    *kind = (tenon__py_kind){.device_type = TENON_CPU};
    atomic_init(&kind->type, Py_TYPE(object));
    const tenon__py_producer *producer;
    for (int i = 0; (producer = producer_at(i)); i++) {
        int found = producer->recognise(object, kind);
        if (found < 0)
            return -1;
        if (kind->reason)
            return 0;
        kind->readers |= found ? 1u << i : 0;
        kind->guesses |= found == TENON__PY_PERHAPS ? 1u << i : 0;
        if (found == TENON__PY_ALONE)
            return 0;
    }
    return 0;
}

const tenon__py_kind *tenon__py_kind_of(PyObject *object, tenon__py_kind *room)
{
    const tenon__py_kind *known = tenon__py_known_kind(Py_TYPE(object));
    if (known)
        return known;
    tenon__py_interp *interp = tenon__py_interp_state();
    if (!interp || find_out(object, room) < 0)
        return NULL;
    /* Types that nothing is known of would only fill the table. */
    if (interp->is_main && !room->reason && !room->is_of_object && (room->readers & ~room->guesses))
        remember(room);
    return room;
}

const tenon__py_kind *tenon__py_kind_again(PyObject *object, const tenon_dl_exchange *table, tenon__py_kind *room)
{
    const tenon__py_kind *known = tenon__py_known_kind(Py_TYPE(object));
    if (known)
        return known;
    *room = (tenon__py_kind){.device_type = TENON_CPU, .table = table};
    atomic_init(&room->type, Py_TYPE(object));
    const tenon__py_producer *producer;
    for (int i = 0; (producer = producer_at(i)); i++) {
        bool is_owner = producer->recognise_again && producer->recognise_again(Py_TYPE(object), room);
        if (is_owner)
            room->owner = producer;
        if (is_owner || (room->table && producer == &tenon__py_producer_exchange_table))
            room->readers |= 1u << i;
    }
    return room;
}

int tenon__py_owner(PyObject *object, const tenon__py_producer **out)
{
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    *out = kind ? kind->owner : NULL;
    return kind ? 0 : -1;
}

int tenon__py_guard(tenon_tensor *tensor)
{
    int status = 0;
    for (int i = 0; i < tenon__py_nframeworks && status == 0; i++) {
        const tenon__py_producer *producer = tenon__py_frameworks[i]->producer;
        status = producer->guard ? producer->guard(tensor) : 0;
    }
    return status;
}

bool tenon__py_is_deleted(PyObject *object, const tenon__py_producer **owner)
{
    PyObject *error = tenon__py_take_exception();
    bool deleted =
        tenon__py_owner(object, owner) == 0 && *owner && (*owner)->is_deleted && (*owner)->is_deleted(object);
    if (!deleted)
        tenon__py_raise_again(error);
    else
        Py_XDECREF(error);
    return deleted;
}

int tenon__py_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request, tenon_py_borrowed *out)
{
    int result = 1;
    for (uint32_t left = kind->readers; left && result == 1; left &= left - 1) {
        request->is_last = !(left & (left - 1) & ~kind->guesses);
        result = producer_at(tenon__py_lowest_bit(left))->read(object, kind, request, out);
    }
    return result;
}

/* ------------------------------------------------------------------------------------------------------------ names */

const tenon__py_producer *tenon__py_producer_as(tenon_py_as as)
{
    if (as == TENON_PY_AS_TENSOR)
        return &tenon__py_producer_tensor;
    if (as == TENON_PY_AS_MEMORYVIEW)
        return &tenon__py_producer_buffer;
    for (int i = 0; i < tenon__py_nframeworks; i++)
        if (tenon__py_frameworks[i]->as == as)
            return tenon__py_frameworks[i]->producer;
    return NULL;
}

static bool can(const tenon__py_producer *producer, bool make_new)
{
    return producer->name && (make_new ? producer->empty != NULL : producer->wrap != NULL);
}

/* "'numpy', 'torch', …, 'tenon'": ours, the first, comes last. */
static PyObject *all_names(bool make_new)
{
    PyObject *text = NULL;
    const tenon__py_producer *producer = NULL;
    for (int i = 1; producer != producer_at(0); i++) {
        producer = producer_at(i) ? producer_at(i) : producer_at(0);
        if (!can(producer, make_new))
            continue;
        PyObject *longer = text ? PyUnicode_FromFormat("%U, '%s'", text, producer->name)
                                : PyUnicode_FromFormat("'%s'", producer->name);
        Py_XDECREF(text);
        if (!(text = longer))
            return NULL;
    }
    return text;
}

const tenon__py_producer *tenon__py_producer_named(PyObject *name, bool make_new, const char *what)
{
    PyObject *module_name = PyModule_Check(name) ? PyModule_GetNameObject(name) : NULL;
    if (PyErr_Occurred())
        return NULL;
    PyObject *wanted = module_name ? module_name : name;
    const tenon__py_producer *found = NULL, *producer;
    for (int i = 0; PyUnicode_Check(wanted) && (producer = producer_at(i)); i++)
        if (can(producer, make_new) && PyUnicode_CompareWithASCIIString(wanted, producer->name) == 0)
            found = producer;
    PyObject *names = found ? NULL : all_names(make_new);
    if (names)
        PyErr_Format(PyExc_ValueError, "%s one of %U, got %R", what, names, wanted);
    Py_XDECREF(names);
    Py_XDECREF(module_name);
    return found;
}

int tenon__py_is_framework_bool(PyObject *object)
{
    int found = 0;
    for (int i = 0; i < tenon__py_nframeworks && found == 0; i++)
        found = tenon__py_frameworks[i]->is_bool ? tenon__py_frameworks[i]->is_bool(object) : 0;
    return found;
}

int tenon__py_default_producer(const tenon__py_producer **out)
{
    *out = NULL;
    for (int i = 0; i < tenon__py_nframeworks && !*out; i++) {
        PyObject *module =
            tenon__py_frameworks[i]->makes_results ? tenon__py_loaded(tenon__py_frameworks[i]->producer->name) : NULL;
        if (module)
            *out = tenon__py_frameworks[i]->producer;
        else if (PyErr_Occurred())
            return -1;
        Py_XDECREF(module);
    }
    return 0;
}

/* ----------------------------------------------------------------------------------------------------------- advice */

const char *tenon__py_writable_advice(PyObject *object)
{
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    tenon__py_clear_ignorable_error();
    /* Of bytes, say, copies are read-only too. */
    bool needs_another = kind && (kind->is_immutable || (!kind->owner && PyObject_CheckBuffer(object)));
    return needs_another ? "pass a NumPy copy, numpy.array(x)" : "pass a copy";
}

int tenon__py_is_arraylike(PyObject *object)
{
    static const char *const attributes[] = {"__dlpack__", "__cuda_array_interface__", "__array_interface__",
                                             "__array_struct__", "__array__"};
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    tenon__py_clear_ignorable_error();
    if (PyErr_Occurred())
        return -1;
    /* A capsule is one only if DLPack's name is on it. */
    int found = kind && (kind->readers & ~kind->guesses) && !PyCapsule_CheckExact(object);
    for (size_t i = 0; found == 0 && i < sizeof attributes / sizeof *attributes; i++) {
        PyObject *attribute = PyObject_GetAttrString(object, attributes[i]);
        Py_XDECREF(attribute);
        tenon__py_clear_ignorable_error();
        found = PyErr_Occurred() ? -1 : attribute != NULL;
    }
    return found;
}
