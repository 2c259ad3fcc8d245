/* Included before each source by clang-tidy only. Its analyzer sees one file at a time and has to be told that
 * tenon_error_set returns the status that it is given, or it follows paths that cannot be. */
#include <tenon/tenon.h>
#define tenon_error_set(err, status, ...) (tenon_error_set(err, status, __VA_ARGS__), (status))
