// The exceptions of <stdexcept> as statuses, for functions of function.hpp. Include it before the module:
//
//   std::bad_alloc                      TENON_ENOMEM      MemoryError in Python
//   std::out_of_range                   TENON_EBOUNDS     IndexError
//   std::overflow_error                 TENON_EOVERFLOW   OverflowError
//   std::invalid_argument, domain_error, length_error, range_error
//                                       TENON_EINVAL      ValueError
//   any other exception                 TENON_EFAILED     RuntimeError
//
// They are the same as those of TENON_FUNCTION in function.h. The types of the standard library (std::vector, std::string,
// std::optional, std::complex, ...) are parameters and results without this header: include only theirs.
#ifndef TENON_STL_HPP
#define TENON_STL_HPP

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#include <tenon/function.hpp>

#ifdef TENON__EXCEPTIONS
#include <stdexcept>

namespace tenon
{
namespace impl TENON__HIDDEN
{

inline tenon_status caught_standard(tenon_call *call)
{
    try {
        throw;
    }
    TENON__CATCH_OWN
    TENON__CATCH_STANDARD
    TENON__CATCH_OTHERS
}

} // namespace impl
} // namespace tenon

#undef TENON__CAUGHT
#define TENON__CAUGHT tenon::impl::caught_standard
#endif

#endif
