/* Arrays whose struct is read in place: that of NumPy, which many programs use. A framework says by the globals' array_layout
 * which type has it. Everything is inline, because the fast paths of borrows and calls are made of it. */
#ifndef TENON_PY_ARRAY_STRUCT_H
#define TENON_PY_ARRAY_STRUCT_H

#include "globals.h"
#include "producer_view.h"

#include <limits.h>

/* The fields of an array and of its dtype after the object head: the same from NumPy 1.23 to 2.x. */
typedef struct tenon__py_array {
    char *data;
    int nd;
    Py_ssize_t *dimensions;
    Py_ssize_t *strides;
    PyObject *base;
    PyObject *descr;
    int flags;
} tenon__py_array;

typedef struct tenon__py_descr {
    PyTypeObject *typeobj;
    char kind;
    char type;
    char byteorder;
    char flags;
    int type_num;
} tenon__py_descr;

/* Bits of an array's flags. The sign is NumPy's mark on arrays whose writing it warns of: broadcast ones. */
enum { TENON__PY_ARRAY_C = 0x1, TENON__PY_ARRAY_WRITEABLE = 0x400, TENON__PY_ARRAY_WARNS = INT_MIN };

/* By type number: our dtype, the shift that divides by its size, and what NumPy writes for this machine's byte order; all
 * zeros if there is no such dtype. */
typedef struct tenon__py_number {
    tenon_dtype dtype;
    int16_t shift;
    char order;
} tenon__py_number;

enum { TENON__PY_NUMBERS = 24 };
extern const tenon__py_number tenon__py_numbers[TENON__PY_NUMBERS];

/* Whether it is an array of that type. False for the first one, before the type is known. */
TENON__PY_INLINE bool tenon__py_has_array_struct(PyObject *object)
{
    return Py_TYPE(object) == tenon__py_global.array_layout.type;
}

TENON__PY_INLINE void *tenon__py_object_data(PyObject *object)
{
    return (char *)object + tenon__py_object_head(tenon__py_global.array_layout.head);
}

TENON__PY_INLINE tenon__py_array *tenon__py_array_of(PyObject *object)
{
    return tenon__py_object_data(object);
}

TENON__PY_INLINE const tenon__py_descr *tenon__py_descr_of(const tenon__py_array *array)
{
    return tenon__py_object_data(array->descr);
}

/* DLPack's flags for it. */
TENON__PY_INLINE uint64_t tenon__py_array_flags(const tenon__py_array *array)
{
    int writable = array->flags & (TENON__PY_ARRAY_WRITEABLE | TENON__PY_ARRAY_WARNS);
    return writable == TENON__PY_ARRAY_WRITEABLE ? 0 : TENON_READ_ONLY;
}

/* The fast path: an array of a known dtype in C order, borrowed without holding anything. False means "unknown". NumPy keeps
 * its flags true to the strides (its own loops run by them), so those of an array in C order need not be read. */
TENON__PY_INLINE bool tenon__py_borrow_array_struct(PyObject *object, tenon_py_borrowed *out)
{
    const tenon__py_array *array = tenon__py_array_of(object);
    const tenon__py_descr *descr = tenon__py_descr_of(array);
    unsigned number = (unsigned)descr->type_num;
    if (number >= TENON__PY_NUMBERS || descr->byteorder != tenon__py_numbers[number].order ||
        !(array->flags & TENON__PY_ARRAY_C))
        return false;
    out->private_.holds = TENON__PY_HOLDS_NOTHING;
    out->private_.table = NULL;
    return tenon__py_make_view_fast(array->data, &tenon__py_numbers[number].dtype, array->nd,
                                    tenon__py_numbers_of(array->dimensions), NULL, 0, tenon__py_array_flags(array),
                                    out);
}

/* Whether such an array still has this view. False if it has changed, or is not ordinary enough to tell. */
TENON__PY_INLINE bool tenon__py_array_struct_is(PyObject *object, const tenon_view *view)
{
    const tenon__py_array *array = tenon__py_array_of(object);
    const tenon__py_descr *descr = tenon__py_descr_of(array);
    if (array->data != view->data || array->nd != view->ndim || (unsigned)descr->type_num >= TENON__PY_NUMBERS ||
        (descr->byteorder != '=' && descr->byteorder != '|'))
        return false;
    const tenon__py_number *number = &tenon__py_numbers[descr->type_num];
    bool is_ordered = (array->flags & TENON__PY_ARRAY_C) && (view->flags & TENON_VIEW_C);
    for (int i = 0; i < array->nd; i++)
        if (array->dimensions[i] != view->shape[i] ||
            (!is_ordered && view->shape[i] != 1 && array->strides[i] >> number->shift != view->strides[i]))
            return false;
    return tenon_dtype_equal(number->dtype, view->dtype);
}

#endif
