/* The module tenon._jax_native, which binds the host of XLA's programs. */
#include "../../../python/tenon/internal.h"
#include "../host/internal.h"

#include <string.h>

/* The handler for a platform, or NULL with an exception. */
static tenon__jax_handler handler_for(const char *platform, int capturable)
{
    if (strcmp(platform, "cpu") == 0 && !capturable)
        return tenon__jax_handle_cpu;
    if (strcmp(platform, "CUDA") == 0)
        return capturable ? tenon__jax_handle_capturable : tenon__jax_handle_cuda;
    PyErr_Format(PyExc_ValueError, "expected the platform 'cpu' or 'CUDA', got '%s'%s", platform,
                 capturable ? "; only functions on CUDA can be capturable" : "");
    return NULL;
}

/* Messages name the type of JAX's arrays as kernels.f does. */
static int find_array_name(void)
{
    static const char *const modules[] = {"jaxlib._jax", "jaxlib.xla_extension"};
    static const char *const names[] = {"jaxlib._jax.ArrayImpl", "jaxlib.xla_extension.ArrayImpl"};
    for (int i = 0; i < 2; i++) {
        PyTypeObject *type = tenon__py_loaded_class(modules[i], "ArrayImpl");
        if (type) {
            atomic_store(&tenon__jax_array_name, names[i]);
            Py_DECREF((PyObject *)type);
            return 0;
        }
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

static PyObject *jax_handler(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char platform_name[] = "platform", capturable_name[] = "capturable";
    static char *names[] = {platform_name, capturable_name, NULL};
    const char *platform = "cpu";
    int capturable = 0;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|sp:handler", names, &platform, &capturable))
        return NULL;
    tenon__jax_handler handler = handler_for(platform, capturable);
    void *address;
    memcpy(&address, &handler, sizeof address);
    return handler && find_array_name() == 0 ? PyCapsule_New(address, NULL, NULL) : NULL;
}

static PyObject *jax_probe(PyObject *self, PyObject *arguments)
{
    int major, minor, with_api, capturable = 0;
    const char *platform = "cpu";
    (void)self;
    if (!PyArg_ParseTuple(arguments, "iip|sp:probe", &major, &minor, &with_api, &platform, &capturable))
        return NULL;
    tenon__jax_handler handler = handler_for(platform, capturable);
    if (!handler)
        return NULL;
    xla_api api = {.size = sizeof api, .version = {.size = sizeof api.version, .major = major, .minor = minor}};
    xla_metadata metadata = {.size = XLA_END(xla_metadata, traits), .version = {.major = -1, .minor = -1}};
    xla_metadata_extension extension = {
        .base = {.size = sizeof extension, .type = xla_extension_metadata},
        .metadata = &metadata,
    };
    xla_frame frame = {.size = sizeof frame, .extensions = &extension.base, .api = with_api ? &api : NULL};
    bool succeeded = handler(&frame) == NULL;
    return succeeded ? Py_BuildValue("(iiI)", metadata.version.major, metadata.version.minor, metadata.traits)
                     : PyErr_Format(PyExc_RuntimeError, "the handler failed");
}

static PyObject *jax_register(PyObject *self, PyObject *arguments)
{
    PyObject *object;
    const char *fn;
    char hash[TENON_HASH_SIZE];
    tenon_error err;
    bool added = false;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "Os:register", &object, &fn) || !tenon__native_is_function(object))
        return NULL;
    const tenon__py_function *function = (const tenon__py_function *)object;
    tenon__py_library *library = tenon__py_library_retain(function->library); /* for as long as the process lives */
    tenon_status status = tenon_module_hash(library->module, hash, &err);
    if (!status)
        status = tenon__jax_register(fn, hash, &function->function, library->state, library, &added, &err);
    if (!added)
        tenon__py_library_release(library);
    if (tenon__py_is_checked(function->interp)) /* TENON_CHECK may have been read only now */
        atomic_store(&tenon__jax_checked, true);
    if (status == TENON_ENOMEM)
        return PyErr_NoMemory();
    return status ? PyErr_Format(PyExc_ValueError, "%s", err.message) : PyUnicode_FromString(hash);
}

static PyObject *jax_capturable(PyObject *self, PyObject *object)
{
    (void)self;
    if (!tenon__native_is_function(object))
        return NULL;
    return PyBool_FromLong((((const tenon__py_function *)object)->function.flags & TENON_CAPTURABLE) != 0);
}

static PyMethodDef methods[] = {
    {"handler", (PyCFunction)(void (*)(void))jax_handler, METH_VARARGS | METH_KEYWORDS,
     "handler(platform='cpu', capturable=False)\n--\n\nReturn a capsule with the handler of XLA's custom calls."},
    {"probe", jax_probe, METH_VARARGS,
     "probe(major, minor, with_api, platform='cpu', capturable=False, /)\n--\n\nAsk the handler for its version "
     "as "
     "an XLA of this version does. Return (major, minor, traits)."},
    {"register", jax_register, METH_VARARGS,
     "register(function, fn, /)\n--\n\nLet compiled programs call a function under this name. Return the hash of "
     "its library. A ValueError says why it cannot be called."},
    {"capturable", jax_capturable, METH_O,
     "capturable(function, /)\n--\n\nReturn whether a function may become part of a CUDA graph."},
    {NULL, NULL, 0, NULL},
};

static void set_checked(bool on)
{
    atomic_store(&tenon__jax_checked, on);
}

const tenon__native_framework tenon__native_jax = {
    .module = "tenon._jax_native",
    .methods = methods,
    .set_checked = set_checked,
};
