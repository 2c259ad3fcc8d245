#include <tenon/tenon.h>

#include <dlpack.h>

#include "dlpack_compare.h"
