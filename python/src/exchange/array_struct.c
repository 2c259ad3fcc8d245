/* The dtypes of the array struct, and comparing one with a view. */
#include "array_struct.h"

#define INTEGER(code, type)                                                                                            \
    {                                                                                                                  \
        {code, 8 * sizeof(type), 1},                                                                                   \
            sizeof(type) == 1   ? 0                                                                                    \
            : sizeof(type) == 2 ? 1                                                                                    \
            : sizeof(type) == 4 ? 2                                                                                    \
                                : 3,                                                                                   \
            sizeof(type) == 1 ? '|' : '='                                                                              \
    }

const tenon__py_number tenon__py_numbers[TENON__PY_NUMBERS] = {
    [0] = {{TENON_CODE_BOOL, 8, 1}, 0, '|'},
    [1] = INTEGER(TENON_CODE_INT, signed char),
    [2] = INTEGER(TENON_CODE_UINT, unsigned char),
    [3] = INTEGER(TENON_CODE_INT, short),
    [4] = INTEGER(TENON_CODE_UINT, unsigned short),
    [5] = INTEGER(TENON_CODE_INT, int),
    [6] = INTEGER(TENON_CODE_UINT, unsigned),
    [7] = INTEGER(TENON_CODE_INT, long),
    [8] = INTEGER(TENON_CODE_UINT, unsigned long),
    [9] = INTEGER(TENON_CODE_INT, long long),
    [10] = INTEGER(TENON_CODE_UINT, unsigned long long),
    [11] = {{TENON_CODE_FLOAT, 32, 1}, 2, '='},
    [12] = {{TENON_CODE_FLOAT, 64, 1}, 3, '='},
    [14] = {{TENON_CODE_COMPLEX, 64, 1}, 3, '='},
    [15] = {{TENON_CODE_COMPLEX, 128, 1}, 4, '='},
    [23] = {{TENON_CODE_FLOAT, 16, 1}, 1, '='},
};
