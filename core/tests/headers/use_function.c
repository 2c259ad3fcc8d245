/* All of function.h in use, from a folder that has no other header of Tenon's: today's header before the library of
 * version 1.0 of the ABI, whose own copy of it is then left out. So what was written for that version still compiles. */
#include <tenon/function.h>

#include "../abi/1.0/library.c"

void use_later(tenon_call *call);

/* The accessors of kinds that no host has yet. */
void use_later(tenon_call *call)
{
    size_t bytes = 0;
    int64_t length = 0;
    double parts[2];
    const tenon_view *views = tenon_arg_tensors(call, 0, &length);
    const tenon_text *texts = tenon_arg_strs(call, 1, &length);
    tenon_arg_complex(call, 2, parts);
    tenon_return_complex(call, 0, parts[0], parts[1]);
    tenon_return_uint(call, 1, tenon_arg_uint(call, 3) + tenon_arg_dtype(call, 4).bits);
    tenon_return_bytes(call, 2, tenon_arg_bytes(call, 5, &bytes), bytes);
    tenon_return_ints(call, 3, &length, 1);
    tenon_return_floats(call, 4, parts, 2);
    tenon_return_strs(call, 5, texts, length);
    if (views && views->ndim == 2)
        tenon_at(views, float, 0, 1) = 0;
}
