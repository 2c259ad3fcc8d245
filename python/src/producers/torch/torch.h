/* What the files of this folder share. */
#ifndef TENON_PY_TORCH_H
#define TENON_PY_TORCH_H

#include "../../internal.h"

/* An object of torch.Tensor itself is met for the first time. */
void tenon__py_torch_met(tenon__py_kind *kind);

/* Parts of the producer. */
int tenon__py_torch_gradient(PyObject *object, bool *flat, const char **why);
PyObject *tenon__py_torch_empty(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                                const int64_t *shape, tenon_py_borrowed *out);
PyObject *tenon__py_torch_wrap(tenon_tensor *tensor);

/* A new tensor on the CPU or a CUDA device by torch's C functions, borrowed: a new reference, or NULL without an exception
 * if this torch has none, or they failed: torch.empty knows why. */
PyObject *tenon__py_torch_empty_in_c(tenon_device device, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                     tenon_py_borrowed *out);
/* Whether the tensor carries a tangent of forward-mode differentiation: 1, 0, or -1 with an exception. */
int tenon__py_torch_tangent(PyObject *object);

#endif
