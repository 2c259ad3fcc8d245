#include <dlpack.h>
#include <tenon/tenon.h>

#include "dlpack_compare.h"
