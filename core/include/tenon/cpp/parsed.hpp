// What a signature says, as cpp/signature.hpp reads it.
#ifndef TENON_CPP_PARSED_HPP
#define TENON_CPP_PARSED_HPP

#include <tenon/cpp/tokens.hpp>

namespace tenon
{
namespace impl TENON__HIDDEN
{

enum class kind : unsigned char {
    none,
    tensor,
    integer,
    number,
    boolean,
    text,
    choice,
    integers,
    numbers,
    handle,
    uinteger,
    complex,
    bytes,
    texts,
    dtype,
    tensors,
    callable
};

// A parameter or a result.
struct slot {
    impl::kind kind;
    bool optional;     // "?": None is allowed
    bool written;      // "rw", of a parameter, or of a result "of(self)"
    bool kept;         // "keep"
    bool converted;    // "convert"
    bool owned;        // "own"
    bool shown;        // "of(...)"
    bool contiguous;   // "c", and every result that the host allocates
    bool open;         // a tensor result that the host does not allocate, or a list of them that the function makes
    bool unaligned;    // "unaligned"
    bool defaulted;    // has a default, which may be None
    bool batch;        // a tensor that begins with "**b"
    int rank;          // of a tensor: the number of dimensions, or -1 for any (a "*b" or "**b")
    int dims;          // as they are written
    int star;          // the place of a "*b" or "**b" among them, or -1
    int star_name;     // the index of its name, or -1
    int type;          // the index of the dtype variable, or -1
    tenon_dtype dtype; // if `type` is -1: the only dtype; of a dtype: the default. Its bits are 0 without one
    const char *name;  // NULL for a result without a name
    int name_length;
    const char *class_name; // of a handle; of a callable, its signature
    int class_length;
    int choices;  // the number of alternatives of an enum, or of a choice of integers
    int length;   // of ints[N] and floats[N]: N; otherwise 0
    int position; // of the type in the signature
};

// A dtype variable, with the dtypes of its where clause in their order, each once. "real", "integer" and "any" stand
// for the dtypes that have a C++ type (numbers.hpp).
struct variable {
    const char *name;
    int length;
    int count;
    bool whole; // "real", "integer" or "any" is among them: a call may have a dtype that has no C++ type
    tenon_dtype dtypes[40];
};

enum { max_parameters = 64, max_results = 16, max_variables = 8, max_dims = 32 };

struct signature {
    bool ok;
    int position;               // of the first mistake, if it is not ok
    bool is_class;              // "class Name", which has no parameters and no results
    bool is_constant;           // "Name.LEAF = 16" or "LEAF = 16", which has none either
    bool member;                // "Name.…": a method, a static method, a property or a constant
    bool method;                // a method or a property: parameter 0 is self, a handle of the class
    bool constructor_candidate; // a function without results: a constructor if a class has its name
    const char *name;           // of the function, method or class
    int name_length;
    const char *class_name; // of a member
    int class_length;
    int parameters, results, variables;
    slot parameter[max_parameters];
    slot result[max_results];
    impl::variable variable[max_variables];
};

} // namespace impl
} // namespace tenon

#endif
