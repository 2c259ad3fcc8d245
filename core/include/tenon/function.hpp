// Write a C++ function once, call it from every runtime.
//
//   #include <tenon/function.hpp>
//
//   static void saxpy(double a, tenon::in<float, 1> x, tenon::in<float, 1> y, tenon::out<float, 1> z)
//   {
//       for (int64_t i = 0; i < x.size(); i++)
//           z(i) = a * x(i) + y(i);
//   }
//
//   TENON_CPP_MODULE(kernels, "Kernels written once.",
//       TENON_CPP("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."))
//
// The library exports one C symbol and needs nothing but the C++ runtime. docs/signatures.md describes the grammar of
// signatures. A signature is read by the compiler and compared with the C++ function: a wrong number, kind, dtype or rank of
// a parameter is a static assertion. A host that lacks a part of a signature refuses the library when it is loaded.
//
// Parameters, in the order of the signature:
//
//   f32[n, d]           tenon::in<float, 2>; rw<float, 2> if it has 'rw'; kept<float, 2> or in if it has 'keep'
//   f32[*b, n], f32[**b]  tenon::in<float, tenon::any>; tenon::for_each loops over the items of a batch
//   real[n], T[n]       tenon::in<void, 1>, whose view() has the dtype; or a generic lambda: see below
//   [f32[n]]            tenon::list<float, 1>; rw_list<float, 1> if it has 'rw'
//   float, bool         double (or float, which narrows), bool
//   int                 any type of integers (int64_t, int, size_t, ...); a value outside its range is an OverflowError
//   uint, complex       any unsigned type; tenon::complex<double> or std::complex
//   'mean'|'max', 1|2   int or a C++ enum: the index of the string; the integer itself
//   str, bytes, strs    tenon::text, tenon::bytes, tenon::texts; or const char *, std::string, std::string_view
//   ints, floats        tenon::in<int64_t, 1>, tenon::in<double, 1>; or std::vector, std::span
//   dtype               tenon_dtype
//   callable('(x: f64[n]) -> float')   tenon::callback<double(tenon::in<double, 1>)>, which the function calls
//   self, handle('C')   C &, C *, tenon::object<C>; C, which is a copy; a std::shared_ptr: see TENON_CPP_TYPE_SHARED
//
// An argument that may be None ("?") is a std::optional or a tenon::optional. Arrays, text, bytes, texts, callbacks, C * and
// object<C> do not need one: they are falsy if the argument was not given.
//
// Results are the parameters after these, in the order of the signature: tenon::out<float, 1> for a tensor,
// tenon::out_list<float, 1> for a list of tensors, and a reference (`double &`) for every other value. Instead, the function
// may return the results that the host does not allocate: the only one, or several as a std::pair or std::tuple. That is a
// number, a string, a container of bytes, integers, doubles or strings, an object (C, C *, a std::unique_ptr or a
// std::shared_ptr), a std::vector for f32[?] (copied) or for f32[?] own (moved, not copied),
// tenon::owned<float, 2>{std::move(rows), {n, d}}, or an array (tenon::in) of the memory that an 'of(...)' result shows. A
// constructor returns its object.
//
// A function is the name of a function, a method (`&C::query`) or a lambda without captures that is not mutable. A generic
// lambda is instantiated for each dtype of the dtype variables:
//
//   TENON_CPP("scale(a: float, x: T[n] c) -> T[n] where T = f32|f64|f16",
//             [](double a, auto x, auto z) { for (int64_t i = 0; i < x.size(); i++) z(i) = a * x(i); }, "Returns a*x.")
//
// Fail with `throw tenon::error(TENON_EINVAL, "k must be positive")`. Other exceptions fail the call, too: std::bad_alloc
// with TENON_ENOMEM, others with TENON_EFAILED; tenon/stl.hpp knows more of them. Without exceptions, call
// `tenon_fail(tenon::call(), ...)` and return.
#ifndef TENON_FUNCTION_HPP
#define TENON_FUNCTION_HPP

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#if !defined(__cplusplus) || (__cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L))
#error "tenon/function.hpp needs C++17: compile with -std=c++17"
#endif

#ifndef TENON_FUNCTION_H
#define TENON__CPP
#endif
#include <tenon/function.h>

#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" // GCC compares our parameters with the user's global names
#endif
#include <tenon/cpp/bind.hpp>
#include <tenon/cpp/for_each.hpp>
#include <tenon/cpp/parallel.hpp>
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

#undef TENON__CAUGHT
#ifdef TENON__EXCEPTIONS
#define TENON__CAUGHT tenon::impl::caught
#else
#define TENON__CAUGHT nullptr
#endif

// An entry in the table of a module: the signature, the C++ function, and its documentation.
//   TENON_CPP(signature, function, doc)
//   TENON_CPP_FLAGS(signature, function, doc, flags)
// The same, with a `shape` function that allocates the results of unknown size. It has the parameters of a function that
// returns void, and must not read the elements of its arguments.
//   TENON_CPP_SHAPED(signature, function, shape, doc, flags)
//
// The macros have no names for what follows the signature, so that a lambda may have commas.
#define TENON_CPP(signature, ...)        TENON__CPP_ENTRY(signature, __VA_ARGS__)
#define TENON_CPP_FLAGS(signature, ...)  TENON__CPP_ENTRY(signature, __VA_ARGS__)
#define TENON_CPP_SHAPED(signature, ...) TENON__CPP_ENTRY(signature, __VA_ARGS__)
#define TENON__CPP_ENTRY(signature, ...)                                                                               \
    [] {                                                                                                               \
        struct tenon__entry {                                                                                          \
            static constexpr const char *tenon__text()                                                                 \
            {                                                                                                          \
                return signature;                                                                                      \
            }                                                                                                          \
            static constexpr auto tenon__parts()                                                                       \
            {                                                                                                          \
                return tenon::impl::make_parts(__VA_ARGS__);                                                           \
            }                                                                                                          \
        };                                                                                                             \
        return tenon::impl::make_function<tenon__entry, TENON__CAUGHT>();                                              \
    }()

// Tie a C++ type to the class of its name in signatures, or to that of another name. Use these outside of any namespace,
// before the module.
#define TENON_CPP_TYPE(type) TENON_CPP_TYPE_AS(type, #type)
#define TENON_CPP_TYPE_AS(type, name)                                                                                  \
    template <> struct tenon::impl::name_of<type> {                                                                    \
        static_assert(tenon::impl::is_class_name(name),                                                                \
                      "this is not the name of a class: use TENON_CPP_TYPE_AS(space::Type, \"Type\")");                \
        static constexpr const char *get()                                                                             \
        {                                                                                                              \
            return name;                                                                                               \
        }                                                                                                              \
    };

// The same for a type whose objects are held by std::shared_ptr, so that functions may take and return such pointers. Include
// <memory> before.
#define TENON_CPP_TYPE_SHARED(object) TENON_CPP_TYPE_SHARED_AS(object, #object)
#define TENON_CPP_TYPE_SHARED_AS(object, name)                                                                         \
    TENON_CPP_TYPE_AS(object, name)                                                                                    \
    template <> struct tenon::impl::holder_of<object> {                                                                \
        using holder = std::shared_ptr<object>;                                                                        \
    };

// A class: an entry in the table of a module. Its type was tied to its name. The flags are TENON_CLASS_CONCURRENT or 0.
#define TENON_CPP_CLASS(type, doc) TENON_CPP_CLASS_FLAGS(type, doc, 0)
#define TENON_CPP_CLASS_FLAGS(type, doc, flags)                                                                        \
    {                                                                                                                  \
        tenon::impl::class_text<type>::value.text, doc, NULL, NULL, NULL, flags,                                       \
        {                                                                                                              \
            0, 0                                                                                                       \
        }                                                                                                              \
    }

// Define the module of a library, with its entries. Use it once in each library, or TENON_MODULE_STATE of function.h,
// which adds `load` and `unload`.
#define TENON_CPP_MODULE(name, doc, ...) TENON_MODULE(name, doc, __VA_ARGS__)

#endif
