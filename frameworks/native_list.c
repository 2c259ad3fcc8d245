/* The frameworks whose Python files have functions in C. */
#include "list.h"

#include "../python/tenon/internal.h"

#define NOTHING(name)
#define DECLARE(name) extern const tenon__native_framework tenon__native_##name;
#define ADDRESS(name) &tenon__native_##name,

TENON__FRAMEWORKS(NOTHING, DECLARE)

const tenon__native_framework *const tenon__native_frameworks[] = {TENON__FRAMEWORKS(NOTHING, ADDRESS) NULL};
