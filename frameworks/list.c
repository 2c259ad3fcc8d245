/* The frameworks that the bridge knows. */
#include "list.h"

#include "../python/src/internal.h"

#define NOTHING(name)
#define DECLARE(name) extern const tenon__py_framework tenon__py_framework_##name;
#define ADDRESS(name) &tenon__py_framework_##name,
#define COUNT(name)   +1

TENON__FRAMEWORKS(DECLARE, NOTHING)

const tenon__py_framework *const tenon__py_frameworks[] = {TENON__FRAMEWORKS(ADDRESS, NOTHING) NULL};
const int tenon__py_nframeworks = 0 TENON__FRAMEWORKS(COUNT, NOTHING);
