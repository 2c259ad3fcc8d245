/* The parts of the type tenon.Tensor, each in a file of its own. */
#ifndef TENON_PY_TENSOR_OBJECT_H
#define TENON_PY_TENSOR_OBJECT_H

#include "bridge.h"

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
int tenon__py_tensor_bool(PyObject *self);

/* tensor_repr.c */
PyObject *tenon__py_tensor_repr(const tenon_view *view);
/* "cpu", "cuda:0" */
void tenon__py_device_name(tenon_device device, char *buffer, size_t size);

#endif
