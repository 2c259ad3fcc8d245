/* The parts of the type tenon.Tensor. Each is in its own file. */
#ifndef TENON_PY_TENSOR_OBJECT_H
#define TENON_PY_TENSOR_OBJECT_H

#include "../internal.h"

/* tensor_dlpack.c. The exchange table lives as long as the process. */
PyObject *tenon__py_tensor_dlpack(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *tenon__py_tensor_dlpack_device(PyObject *self, PyObject *unused);
extern tenon_dl_exchange tenon__py_tensor_table;

/* tensor_index.c */
extern PyGetSetDef tenon__py_tensor_attributes[];
PyObject *tenon__py_tensor_subscript(PyObject *self, PyObject *key);
Py_ssize_t tenon__py_tensor_length(PyObject *self);
PyObject *tenon__py_tensor_item(PyObject *self, Py_ssize_t index);
PyObject *tenon__py_tensor_iter(PyObject *self);
int tenon__py_tensor_contains(PyObject *self, PyObject *value);

/* tensor_number.c */
PyObject *tenon__py_tensor_int(PyObject *self);
PyObject *tenon__py_tensor_float(PyObject *self);
PyObject *tenon__py_tensor_index_value(PyObject *self);
PyObject *tenon__py_tensor_complex(PyObject *self, PyObject *unused);
PyObject *tenon__py_tensor_tolist(PyObject *self, PyObject *unused);
PyObject *tenon__py_tensor_only_item(PyObject *self, PyObject *unused);
int tenon__py_tensor_bool(PyObject *self);
/* Whether the CPU may read the elements at any time. */
bool tenon__py_is_readable(const tenon_view *view);
/* Read `bits` bits, at most 64, from bit `position` on. The lowest bit of a byte comes first. */
uint64_t tenon__py_read_bits(const char *data, int64_t position, int bits);
/* Decode a signed integer of `bits` bits. */
int64_t tenon__py_decode_int(int bits, uint64_t value);
/* Decode a floating-point number, or one half of a complex number. Returns its number of significant bits, or 0 if the
 * dtype is not a floating-point one. */
int tenon__py_decode_float(tenon_dtype dtype, int bits, uint64_t value, double *out);

/* tensor_cuda.c */
PyObject *tenon__py_tensor_cuda_array_interface(PyObject *self, void *unused);

/* tensor_shared.c */
PyObject *tenon__py_tensor_shared_name(PyObject *self, void *unused);
PyObject *tenon__py_tensor_shared_fd(PyObject *self, void *unused);
PyObject *tenon__py_tensor_freeze(PyObject *self, PyObject *unused);
PyObject *tenon__py_tensor_copy(PyObject *self, PyObject *unused);
PyObject *tenon__py_tensor_reduce(PyObject *self, PyObject *protocol);
/* tensor_type.c: whether a buffer of this object exists through which the memory can be written to. */
bool tenon__py_tensor_has_writable_buffer(PyObject *self);

/* tensor_repr.c */
PyObject *tenon__py_tensor_repr(const tenon_view *view);
/* "cpu", "cuda:0" */
void tenon__py_device_name(tenon_device device, char *buffer, size_t size);

#endif
