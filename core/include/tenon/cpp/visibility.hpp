// Attributes of the C++ functions of these headers.
#ifndef TENON_CPP_VISIBILITY_HPP
#define TENON_CPP_VISIBILITY_HPP

// A function with this attribute never leaves the library that is compiled: another library in the same process may have
// another version of these headers. Classes that a user's class may have as members do not have it, because GCC warns
// about a class that is more visible than its members.
#ifdef __GNUC__
#define TENON__HIDDEN __attribute__((__visibility__("hidden")))
#else
#define TENON__HIDDEN
#endif
// The same for a template that is a member of a template: clang exports it, unless it is always inlined.
#ifdef __clang__
#define TENON__HIDDEN_MEMBER __attribute__((__visibility__("hidden"), __always_inline__))
#else
#define TENON__HIDDEN_MEMBER TENON__HIDDEN
#endif

// A function that a CUDA kernel may call, too.
#ifdef __CUDACC__
#define TENON__DEVICE __host__ __device__
#else
#define TENON__DEVICE
#endif

#endif
