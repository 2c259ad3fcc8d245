/* Included before each source by clang-tidy only. Its analyzer sees one file at a time and does not know that these
 * functions return the status that they are given, so it would follow impossible paths. */
#include <tenon/tenon.h>
#define tenon_error_set(err, status, ...)    (tenon_error_set(err, status, __VA_ARGS__), (status))
#define tenon_error_set_in(err, status, ...) (tenon_error_set_in(err, status, __VA_ARGS__), (status))
