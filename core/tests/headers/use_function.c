/* All of function.h in use, from a folder that has no other header of Tenon's: today's header before the library of the
 * first release, whose own copy of it is then left out. So what was written for that release still compiles. */
#include <tenon/function.h>

#include "../abi/1.0/library.c"
