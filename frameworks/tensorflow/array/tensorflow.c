/* TensorFlow. Its tensors are immutable, and are read by the buffer protocol or as legacy capsules. */
#include "../../../python/src/internal.h"

#include <string.h>

static const tenon__py_producer tensorflow_producer;

static int tensorflow_recognise(PyObject *object, tenon__py_kind *kind)
{
    char package[32];
    if (strcmp(tenon__py_package(Py_TYPE(object), package, sizeof package), "tensorflow") == 0) {
        kind->owner = &tensorflow_producer;
        kind->is_immutable = true;
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* Whether a gradient tape watches the tensor. The question is not public: without it there is no check. */
static int tensorflow_gradient(PyObject *object, tenon__py_checks *checks, const char **why)
{
    (void)checks;
    PyObject *module = tenon__py_loaded("tensorflow.python.eager.record");
    PyObject *answer = module ? PyObject_CallMethod(module, "should_record_backprop", "((O))", object) : NULL;
    int watched = answer ? PyObject_IsTrue(answer) : 0;
    Py_XDECREF(module);
    Py_XDECREF(answer);
    tenon__py_clear_ignorable_error();
    *why = "a GradientTape watches it, and does not see what this function does; pass tf.stop_gradient(x), or call it "
           "outside of the tape";
    return PyErr_Occurred() ? -1 : watched > 0;
}

static PyObject *tensorflow_wrap(tenon_tensor *tensor)
{
    if (tenon_tensor_view(tensor)->flags & TENON_READ_ONLY)
        return PyErr_Format(PyExc_BufferError,
                            "tensorflow takes legacy capsules only, which cannot say read-only; pass a copy");
    if (tenon_tensor_view(tensor)->dtype.lanes != 1) /* it would not look at them, and show the first of each */
        return PyErr_Format(PyExc_BufferError,
                            "tensorflow has no dtypes of several lanes; it did not accept the tensor");
    if (tenon__py_order(tensor, TENON__PY_HOST) < 0) /* its function has no stream */
        return NULL;
    return tenon__py_call_import("tensorflow.experimental.dlpack", "from_dlpack", tenon__py_capsule(tensor, true),
                                 false);
}

static PyObject *tensorflow_empty(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                                  const int64_t *shape, tenon_py_borrowed *out)
{
    (void)like;
    if (!tenon_device_on_host(device))
        return PyErr_Format(PyExc_ValueError, "memory on the GPU cannot be given to TensorFlow from outside; use out= "
                                              "instead of a new array");
    return tenon__py_empty_ours(&tensorflow_producer, dtype, ndim, shape, out);
}

static const tenon__py_producer tensorflow_producer = {
    .name = "tensorflow",
    .title = "TensorFlow",
    .noun = "tensor",
    .recognise = tensorflow_recognise,
    .gradient = tensorflow_gradient,
    .empty = tensorflow_empty,
    .wrap = tensorflow_wrap,
};

const tenon__py_framework tenon__py_framework_tensorflow = {.producer = &tensorflow_producer,
                                                            .as = TENON_PY_AS_TENSORFLOW};
