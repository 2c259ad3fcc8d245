/* Included before each source by clang-tidy only. Its analyzer sees one file at a time and does not know that
 * tenon_error_set returns the status that it is given, so it would follow impossible paths. */
#include <tenon/tenon.h>
#define tenon_error_set(err, status, ...) (tenon_error_set(err, status, __VA_ARGS__), (status))
