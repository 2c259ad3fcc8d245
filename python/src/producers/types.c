/* What is known of a type, remembered in a fixed table. */
#include "../internal.h"

#include <string.h>

/* Written under `writing`, read without a lock: an entry's type is stored last. Entries hold their types for ever, so
 * that no address can come to mean another type, and come from the main interpreter only, whose types live as long. */
enum { TABLE_SIZE = 64, MOST_ENTRIES = 48 };
static tenon__py_kind table[TABLE_SIZE];
static int entries;
static atomic_flag writing = ATOMIC_FLAG_INIT;

static size_t slot_of(const PyTypeObject *type)
{
    return ((uintptr_t)type >> 4 ^ (uintptr_t)type >> 12) % TABLE_SIZE;
}

static const tenon__py_kind *remembered(const PyTypeObject *type)
{
    for (size_t i = slot_of(type);; i = (i + 1) % TABLE_SIZE) {
        PyTypeObject *found = atomic_load_explicit(&table[i].type, memory_order_acquire);
        if (found == type)
            return &table[i];
        if (!found) /* the table is never full */
            return NULL;
    }
}

static void remember(const tenon__py_kind *kind)
{
    PyTypeObject *type = atomic_load_explicit(&kind->type, memory_order_relaxed);
    while (atomic_flag_test_and_set_explicit(&writing, memory_order_acquire)) {
    }
    if (entries < MOST_ENTRIES && !remembered(type)) {
        size_t i = slot_of(type);
        while (atomic_load_explicit(&table[i].type, memory_order_relaxed))
            i = (i + 1) % TABLE_SIZE;
        table[i].ways = kind->ways;
        table[i].framework = kind->framework;
        table[i].device_type = kind->device_type;
        table[i].table = kind->table;
        table[i].reason = kind->reason;
        Py_INCREF((PyObject *)type);
        atomic_store_explicit(&table[i].type, type, memory_order_release);
        entries++;
    }
    atomic_flag_clear_explicit(&writing, memory_order_release);
}

/* --------------------------------------------------------------------------------------------------- finding out */

PyObject *tenon__py_loaded(const char *module)
{
    PyObject *name = PyUnicode_FromString(module);
    PyObject *found = name ? PyImport_GetModule(name) : NULL;
    Py_XDECREF(name);
    if (!found)
        tenon__py_forgive();
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
    tenon__py_forgive();
    return buffer;
}

/* The class of `module` if it has been imported, as a new reference. */
static PyTypeObject *loaded_class(const char *module, const char *name)
{
    PyObject *found = tenon__py_loaded(module);
    PyObject *type = found ? PyObject_GetAttrString(found, name) : NULL;
    Py_XDECREF(found);
    if (!type)
        tenon__py_forgive();
    if (type && !PyType_Check(type)) {
        Py_DECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

/* Whether the type has another `name` than `base` has; -1 with an exception. */
static int overrides(PyTypeObject *type, PyTypeObject *base, const char *name)
{
    PyObject *own = NULL, *theirs = NULL, *own_function = NULL, *their_function = NULL;
    int differ = tenon__py_attribute((PyObject *)type, name, &own);
    if (differ == 1)
        differ = tenon__py_attribute((PyObject *)base, name, &theirs);
    if (differ == 1)
        differ = own != theirs;
    /* Bound class methods are made anew at each look-up; what they wrap is what counts. */
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

static int look_for_numpy(PyTypeObject *type, tenon__py_kind *kind)
{
    const tenon__py_numpy *api = tenon__py_numpy_api();
    if (!api || !PyType_IsSubtype(type, api->ndarray))
        return PyErr_Occurred() ? -1 : 0;
    kind->ways = TENON__PY_NUMPY;
    if (type == api->ndarray)
        return 0;
    PyTypeObject *masked = loaded_class("numpy.ma", "MaskedArray");
    bool is_masked = masked && PyType_IsSubtype(type, masked);
    Py_XDECREF((PyObject *)masked);
    int overridden = PyErr_Occurred() ? -1 : overrides(type, api->ndarray, "__array_ufunc__");
    if (overridden < 0)
        return -1;
    if (is_masked || overridden)
        kind->ways = TENON__PY_REFUSED;
    kind->reason = is_masked ? "its mask would be lost; pass x.filled() or x.data"
                             : "its class gives the numbers another meaning (it overrides __array_ufunc__); pass "
                               "x.view(numpy.ndarray)";
    return 0;
}

/* The table of our major version, through `prev_api` where it is not the first. */
static const tenon_dl_exchange *usable_table(const tenon_dl_exchange_header *header)
{
    for (int hops = 0; header && hops < 16; hops++) { /* a list that long is a circle */
        if (header->version.major == TENON_DL_MAJOR)
            return (const tenon_dl_exchange *)header;
        header = header->prev_api;
    }
    return NULL;
}

static int look_for_table(PyTypeObject *type, tenon__py_kind *kind)
{
    PyObject *capsule;
    int found = tenon__py_attribute((PyObject *)type, TENON_DL_EXCHANGE_ATTRIBUTE, &capsule);
    if (found < 1)
        return found;
    if (PyCapsule_IsValid(capsule, TENON_DL_EXCHANGE_CAPSULE))
        kind->table = usable_table(PyCapsule_GetPointer(capsule, TENON_DL_EXCHANGE_CAPSULE));
    if (kind->table)
        kind->ways |= TENON__PY_TABLE;
    Py_DECREF(capsule);
    return 0;
}

/* 1: the type is torch.Tensor itself; 0; or -1 with an exception. */
static int look_for_torch(PyTypeObject *type, tenon__py_kind *kind)
{
    PyTypeObject *tensor = loaded_class("torch", "Tensor");
    if (!tensor || !PyType_IsSubtype(type, tensor)) {
        Py_XDECREF((PyObject *)tensor);
        return PyErr_Occurred() ? -1 : 0;
    }
    kind->ways |= TENON__PY_TORCH;
    int overridden = type == tensor ? 0 : overrides(type, tensor, "__torch_dispatch__");
    if (overridden == 1) {
        kind->ways |= TENON__PY_REFUSED;
        kind->reason = "it is a fake or wrapper tensor (its class has its own __torch_dispatch__) and may have no "
                       "memory; pass the tensor inside it";
    }
    PyTypeObject *later = overridden ? NULL : loaded_class("torch.nn.parameter", "UninitializedTensorMixin");
    if (later && PyType_IsSubtype(type, later)) {
        kind->ways |= TENON__PY_REFUSED;
        kind->reason = "a lazy module's parameter has neither shape nor memory yet; run the module once, or call "
                       "x.materialize(shape)";
    }
    Py_XDECREF((PyObject *)later);
    Py_DECREF((PyObject *)tensor);
    return overridden < 0 || PyErr_Occurred() ? -1 : type == tensor;
}

/* JAX's tracers, which its transformations pass instead of arrays. -1 with an exception. */
static int look_for_tracer(PyTypeObject *type, tenon__py_kind *kind)
{
    PyTypeObject *tracer = loaded_class("jax.core", "Tracer");
    if (tracer && PyType_IsSubtype(type, tracer)) {
        kind->ways = TENON__PY_REFUSED;
        kind->reason = "it is a JAX tracer, which has no memory: call the function outside of jax.jit, jax.grad and "
                       "jax.vmap, or through jax.pure_callback";
    }
    Py_XDECREF((PyObject *)tracer);
    return PyErr_Occurred() ? -1 : 0;
}

/* Arrow's arrays have no buffer protocol; its buffers and tensors have, and say themselves what they are. */
static bool is_immutable(PyTypeObject *type, uint32_t ways)
{
    char package[32];
    tenon__py_package(type, package, sizeof package);
    return strcmp(package, "jaxlib") == 0 || strcmp(package, "jax") == 0 || strcmp(package, "tensorflow") == 0 ||
           (strcmp(package, "pyarrow") == 0 && !(ways & TENON__PY_BUFFER));
}

/* The framework of a type whose ways are known; -1 with an exception. */
static int framework_of(PyTypeObject *type, const tenon__py_kind *kind)
{
    uint32_t ways = kind->ways;
    if (ways & (TENON__PY_OURS | TENON__PY_NUMPY | TENON__PY_TORCH))
        return ways & TENON__PY_OURS    ? TENON__PY_IN_OURS
               : ways & TENON__PY_NUMPY ? TENON__PY_IN_NUMPY
                                        : TENON__PY_IN_TORCH;
    char package[32];
    tenon__py_package(type, package, sizeof package);
    if (PyErr_Occurred())
        return -1;
    if (strcmp(package, "jaxlib") == 0 || strcmp(package, "jax") == 0)
        return TENON__PY_IN_JAX;
    if (strcmp(package, "tensorflow") == 0)
        return TENON__PY_IN_TENSORFLOW;
    if (strcmp(package, "cupy") == 0)
        return ways & TENON__PY_DLPACK ? TENON__PY_IN_CUPY : TENON__PY_IN_NONE;
    if (kind->table && kind->table->managed_tensor_allocator && kind->table->managed_tensor_to_py_object_no_sync)
        return TENON__PY_IN_TABLE;
    PyObject *method;
    int found = tenon__py_attribute((PyObject *)type, "__array_namespace__", &method);
    if (found == 1)
        Py_DECREF(method);
    return found < 0 ? -1 : found ? TENON__PY_IN_NAMESPACE : TENON__PY_IN_NONE;
}

static int find_out(PyObject *object, tenon__py_kind *kind)
{
    PyTypeObject *type = Py_TYPE(object);
    atomic_init(&kind->type, type);
    kind->ways = 0;
    kind->device_type = TENON_CPU;
    kind->table = NULL;
    kind->reason = NULL;
    if (tenon__py_is_tensor(object)) {
        kind->ways = TENON__PY_OURS;
        return 0;
    }
    if (PyCapsule_CheckExact(object)) {
        kind->ways = TENON__PY_CAPSULE;
        return 0;
    }
    if (look_for_numpy(type, kind) < 0)
        return -1;
    if (kind->ways)
        return 0;
    PyTypeObject *when = loaded_class("numpy", "datetime64"), *span = loaded_class("numpy", "timedelta64");
    if ((when && PyType_IsSubtype(type, when)) || (span && PyType_IsSubtype(type, span))) {
        kind->ways = TENON__PY_REFUSED; /* its buffer is eight bytes that say nothing */
        kind->reason = "dates and times have no DLPack dtype; pass x.view('int64')";
    }
    Py_XDECREF((PyObject *)when);
    Py_XDECREF((PyObject *)span);
    if (PyErr_Occurred() || kind->ways)
        return PyErr_Occurred() ? -1 : 0;
    int is_torch_tensor = look_for_torch(type, kind);
    if (is_torch_tensor < 0 || (kind->ways & TENON__PY_REFUSED))
        return is_torch_tensor < 0 ? -1 : 0;
    if (look_for_table(type, kind) < 0)
        return -1;
    if (is_torch_tensor && kind->table && kind->table->dltensor_from_py_object_no_sync)
        tenon__py_remember_torch(kind);
    char package[32];
    bool on_devices = strcmp(tenon__py_package(type, package, sizeof package), "cupy") == 0;
    if (PyErr_Occurred() || (strcmp(package, "jax") == 0 && look_for_tracer(type, kind) < 0))
        return -1;
    if (kind->ways & TENON__PY_REFUSED)
        return 0;
    if (PyObject_CheckBuffer(object) && !on_devices) /* CuPy's has an exception for each array on the GPU */
        kind->ways |= TENON__PY_BUFFER;
    if ((kind->ways & TENON__PY_BUFFER) && strcmp(package, "jaxlib") == 0)
        atomic_store_explicit(&tenon__py_jax_array, type, memory_order_release);
    PyObject *method;
    int found = tenon__py_attribute((PyObject *)type, "__dlpack__", &method);
    if (found < 0)
        return -1;
    if (found && method != Py_None)
        kind->ways |= TENON__PY_DLPACK;
    if (found)
        Py_DECREF(method);
    if (on_devices && (kind->ways & TENON__PY_DLPACK) && (kind->device_type = tenon__py_device_type(object)) < 0)
        return -1;
    if ((kind->ways | TENON__PY_TORCH) == TENON__PY_TORCH)
        kind->ways |= TENON__PY_INTERFACE;
    if (is_immutable(type, kind->ways))
        kind->ways |= TENON__PY_IMMUTABLE;
    return PyErr_Occurred() ? -1 : 0;
}

const tenon__py_kind *tenon__py_kind_of(PyObject *object, tenon__py_kind *room)
{
    const tenon__py_kind *known = remembered(Py_TYPE(object));
    if (known)
        return known;
    tenon__py_interp *interp = tenon__py_here();
    if (!interp || find_out(object, room) < 0)
        return NULL;
    room->framework = framework_of(Py_TYPE(object), room);
    if (room->framework < 0)
        return NULL;
    /* Types without a quick way would only fill the table. */
    if (interp->is_main && (room->ways & (TENON__PY_OURS | TENON__PY_NUMPY | TENON__PY_TABLE | TENON__PY_BUFFER |
                                          TENON__PY_DLPACK | TENON__PY_CAPSULE)))
        remember(room);
    return room;
}

const char *tenon__py_writable_advice(PyObject *object)
{
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    tenon__py_forgive();
    /* Of bytes, say, copies are read-only too. */
    bool needs_another = kind && ((kind->ways & TENON__PY_IMMUTABLE) ||
                                  (kind->framework == TENON__PY_IN_NONE && (kind->ways & TENON__PY_BUFFER)));
    return needs_another ? "pass a NumPy copy, numpy.array(x)" : "pass a copy";
}

int tenon__py_is_arraylike(PyObject *object)
{
    static const char *const attributes[] = {"__dlpack__", "__cuda_array_interface__", "__array_interface__",
                                             "__array_struct__", "__array__"};
    int found = PyObject_CheckBuffer(object);
    for (size_t i = 0; found == 0 && i < sizeof attributes / sizeof *attributes; i++) {
        PyObject *attribute = PyObject_GetAttrString(object, attributes[i]);
        Py_XDECREF(attribute);
        tenon__py_forgive();
        found = PyErr_Occurred() ? -1 : attribute != NULL;
    }
    return found;
}
