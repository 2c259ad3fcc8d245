/* The frameworks of this build, in the order in which types are shown to them: a line for each folder that has C code.
 *
 * ARRAY: its arrays (tenon__py_framework_NAME, in NAME/array), in every build and in the bundle.
 * NATIVE: functions for its Python files (tenon__native_NAME, in NAME/package), in the package. */
#ifndef TENON_FRAMEWORKS_LIST_H
#define TENON_FRAMEWORKS_LIST_H

/* A line each. */
/* clang-format off */
#ifndef TENON__FRAMEWORKS /* CMake's TENON_FRAMEWORKS chooses some of these lines */
#define TENON__FRAMEWORKS(ARRAY, NATIVE)                                                                               \
    ARRAY(numpy)                                                                                                       \
    ARRAY(torch) NATIVE(torch)                                                                                         \
    ARRAY(jax) NATIVE(jax)                                                                                             \
    ARRAY(tensorflow)                                                                                                  \
    ARRAY(cupy)
#endif
/* clang-format on */

#endif
