/* Our declarations of XLA's structs have the layout of its own header. It only has to compile: as C, or as C++ for the header
 * of jaxlib 0.4, which is not valid C. */
#ifdef __cplusplus
#define _Static_assert static_assert
#endif

#include "xla_ffi.h"

#include "xla/ffi/api/c_api.h"

#define SAME_FIELD(ours, field, theirs, their_field)                                                                   \
    _Static_assert(offsetof(ours, field) == offsetof(theirs, their_field) &&                                           \
                       sizeof(((ours *)0)->field) == sizeof(((theirs *)0)->their_field),                               \
                   #ours "." #field)
#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)

SAME_FIELD(xla_extension, size, XLA_FFI_Extension_Base, struct_size);
SAME_FIELD(xla_extension, type, XLA_FFI_Extension_Base, type);
SAME_FIELD(xla_extension, next, XLA_FFI_Extension_Base, next);
SAME_NUMBER(xla_extension_metadata, XLA_FFI_Extension_Metadata);

SAME_FIELD(xla_version, size, XLA_FFI_Api_Version, struct_size);
SAME_FIELD(xla_version, major, XLA_FFI_Api_Version, major_version);
SAME_FIELD(xla_version, minor, XLA_FFI_Api_Version, minor_version);
SAME_NUMBER(sizeof(xla_version), sizeof(XLA_FFI_Api_Version));

SAME_FIELD(xla_buffer, size, XLA_FFI_Buffer, struct_size);
SAME_FIELD(xla_buffer, dtype, XLA_FFI_Buffer, dtype);
SAME_FIELD(xla_buffer, data, XLA_FFI_Buffer, data);
SAME_FIELD(xla_buffer, rank, XLA_FFI_Buffer, rank);
SAME_FIELD(xla_buffer, dims, XLA_FFI_Buffer, dims);
SAME_NUMBER(xla_argument_buffer, XLA_FFI_ArgType_BUFFER);
SAME_NUMBER(xla_argument_buffer, XLA_FFI_RetType_BUFFER);

SAME_NUMBER(xla_attr_array, XLA_FFI_AttrType_ARRAY);
SAME_NUMBER(xla_attr_dictionary, XLA_FFI_AttrType_DICTIONARY);
SAME_NUMBER(xla_attr_scalar, XLA_FFI_AttrType_SCALAR);
SAME_NUMBER(xla_attr_string, XLA_FFI_AttrType_STRING);
SAME_FIELD(xla_span, text, XLA_FFI_ByteSpan, ptr);
SAME_FIELD(xla_span, length, XLA_FFI_ByteSpan, len);
SAME_FIELD(xla_scalar, dtype, XLA_FFI_Scalar, dtype);
SAME_FIELD(xla_scalar, value, XLA_FFI_Scalar, value);
SAME_FIELD(xla_array, dtype, XLA_FFI_Array, dtype);
SAME_FIELD(xla_array, length, XLA_FFI_Array, size);
SAME_FIELD(xla_array, data, XLA_FFI_Array, data);

SAME_NUMBER(xla_invalid_argument, XLA_FFI_Error_Code_INVALID_ARGUMENT);
SAME_NUMBER(xla_not_found, XLA_FFI_Error_Code_NOT_FOUND);
SAME_NUMBER(xla_resource_exhausted, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED);
SAME_NUMBER(xla_out_of_range, XLA_FFI_Error_Code_OUT_OF_RANGE);
SAME_NUMBER(xla_unimplemented, XLA_FFI_Error_Code_UNIMPLEMENTED);
SAME_NUMBER(xla_internal, XLA_FFI_Error_Code_INTERNAL);
SAME_FIELD(xla_error_create, size, XLA_FFI_Error_Create_Args, struct_size);
SAME_FIELD(xla_error_create, message, XLA_FFI_Error_Create_Args, message);
SAME_FIELD(xla_error_create, code, XLA_FFI_Error_Create_Args, errc);
SAME_FIELD(xla_error_destroy, error, XLA_FFI_Error_Destroy_Args, error);

SAME_FIELD(xla_stream_get, context, XLA_FFI_Stream_Get_Args, ctx);
SAME_FIELD(xla_stream_get, stream, XLA_FFI_Stream_Get_Args, stream);
SAME_FIELD(xla_memory_allocate, context, XLA_FFI_DeviceMemory_Allocate_Args, ctx);
SAME_FIELD(xla_memory_allocate, bytes, XLA_FFI_DeviceMemory_Allocate_Args, size);
SAME_FIELD(xla_memory_allocate, alignment, XLA_FFI_DeviceMemory_Allocate_Args, alignment);
SAME_FIELD(xla_memory_allocate, data, XLA_FFI_DeviceMemory_Allocate_Args, data);
SAME_FIELD(xla_memory_free, context, XLA_FFI_DeviceMemory_Free_Args, ctx);
SAME_FIELD(xla_memory_free, bytes, XLA_FFI_DeviceMemory_Free_Args, size);
SAME_FIELD(xla_memory_free, data, XLA_FFI_DeviceMemory_Free_Args, data);
SAME_FIELD(xla_task_schedule, context, XLA_FFI_ThreadPool_Schedule_Args, ctx);
SAME_FIELD(xla_task_schedule, task, XLA_FFI_ThreadPool_Schedule_Args, task);
SAME_FIELD(xla_task_schedule, data, XLA_FFI_ThreadPool_Schedule_Args, data);
SAME_FIELD(xla_thread_count, context, XLA_FFI_ThreadPool_NumThreads_Args, ctx);
SAME_FIELD(xla_thread_count, count, XLA_FFI_ThreadPool_NumThreads_Args, num_threads);

SAME_FIELD(xla_api, size, XLA_FFI_Api, struct_size);
SAME_FIELD(xla_api, version, XLA_FFI_Api, api_version);
SAME_FIELD(xla_api, internal, XLA_FFI_Api, internal_api);
SAME_FIELD(xla_api, create_error, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME_FIELD(xla_api, destroy_error, XLA_FFI_Api, XLA_FFI_Error_Destroy);
SAME_FIELD(xla_api, get_stream, XLA_FFI_Api, XLA_FFI_Stream_Get);
SAME_FIELD(xla_api, allocate, XLA_FFI_Api, XLA_FFI_DeviceMemory_Allocate);
SAME_FIELD(xla_api, free, XLA_FFI_Api, XLA_FFI_DeviceMemory_Free);
SAME_FIELD(xla_api, schedule, XLA_FFI_Api, XLA_FFI_ThreadPool_Schedule);
SAME_FIELD(xla_api, count_threads, XLA_FFI_Api, XLA_FFI_ThreadPool_NumThreads);
#ifdef HAS_ORDINAL
SAME_FIELD(xla_ordinal_get, context, XLA_FFI_DeviceOrdinal_Get_Args, ctx);
SAME_FIELD(xla_ordinal_get, ordinal, XLA_FFI_DeviceOrdinal_Get_Args, device_ordinal);
SAME_FIELD(xla_api, get_ordinal, XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get);
#else
_Static_assert(sizeof(XLA_FFI_Api) <= offsetof(xla_api, get_ordinal), "an XLA without it has nothing at its place");
#endif

SAME_FIELD(xla_buffers, size, XLA_FFI_Args, struct_size);
SAME_FIELD(xla_buffers, count, XLA_FFI_Args, size);
SAME_FIELD(xla_buffers, types, XLA_FFI_Args, types);
SAME_FIELD(xla_buffers, items, XLA_FFI_Args, args);
SAME_FIELD(xla_buffers, items, XLA_FFI_Rets, rets);
SAME_NUMBER(sizeof(xla_buffers), sizeof(XLA_FFI_Args));
SAME_NUMBER(sizeof(xla_buffers), sizeof(XLA_FFI_Rets));
SAME_FIELD(xla_attributes, count, XLA_FFI_Attrs, size);
SAME_FIELD(xla_attributes, types, XLA_FFI_Attrs, types);
SAME_FIELD(xla_attributes, names, XLA_FFI_Attrs, names);
SAME_FIELD(xla_attributes, items, XLA_FFI_Attrs, attrs);
SAME_NUMBER(sizeof(xla_attributes), sizeof(XLA_FFI_Attrs));
SAME_NUMBER(xla_stage_execute, XLA_FFI_ExecutionStage_EXECUTE);
SAME_FIELD(xla_frame, size, XLA_FFI_CallFrame, struct_size);
SAME_FIELD(xla_frame, extensions, XLA_FFI_CallFrame, extension_start);
SAME_FIELD(xla_frame, api, XLA_FFI_CallFrame, api);
SAME_FIELD(xla_frame, context, XLA_FFI_CallFrame, ctx);
SAME_FIELD(xla_frame, stage, XLA_FFI_CallFrame, stage);
SAME_FIELD(xla_frame, arguments, XLA_FFI_CallFrame, args);
SAME_FIELD(xla_frame, results, XLA_FFI_CallFrame, rets);
SAME_FIELD(xla_frame, attributes, XLA_FFI_CallFrame, attrs);

SAME_FIELD(xla_metadata, size, XLA_FFI_Metadata, struct_size);
SAME_FIELD(xla_metadata, version, XLA_FFI_Metadata, api_version);
SAME_FIELD(xla_metadata, traits, XLA_FFI_Metadata, traits);
SAME_FIELD(xla_metadata_extension, base, XLA_FFI_Metadata_Extension, extension_base);
SAME_FIELD(xla_metadata_extension, metadata, XLA_FFI_Metadata_Extension, metadata);
SAME_NUMBER(xla_trait_capturable, XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);

SAME_NUMBER(xla_pred, XLA_FFI_DataType_PRED);
SAME_NUMBER(xla_s8, XLA_FFI_DataType_S8);
SAME_NUMBER(xla_s16, XLA_FFI_DataType_S16);
SAME_NUMBER(xla_s32, XLA_FFI_DataType_S32);
SAME_NUMBER(xla_s64, XLA_FFI_DataType_S64);
SAME_NUMBER(xla_u8, XLA_FFI_DataType_U8);
SAME_NUMBER(xla_u16, XLA_FFI_DataType_U16);
SAME_NUMBER(xla_u32, XLA_FFI_DataType_U32);
SAME_NUMBER(xla_u64, XLA_FFI_DataType_U64);
SAME_NUMBER(xla_f16, XLA_FFI_DataType_F16);
SAME_NUMBER(xla_f32, XLA_FFI_DataType_F32);
SAME_NUMBER(xla_f64, XLA_FFI_DataType_F64);
SAME_NUMBER(xla_bf16, XLA_FFI_DataType_BF16);
SAME_NUMBER(xla_c64, XLA_FFI_DataType_C64);
SAME_NUMBER(xla_c128, XLA_FFI_DataType_C128);
SAME_NUMBER(xla_token, XLA_FFI_DataType_TOKEN);
SAME_NUMBER(xla_f8e5m2, XLA_FFI_DataType_F8E5M2);
SAME_NUMBER(xla_f8e4m3fn, XLA_FFI_DataType_F8E4M3FN);
SAME_NUMBER(xla_f8e4m3b11fnuz, XLA_FFI_DataType_F8E4M3B11FNUZ);
SAME_NUMBER(xla_f8e5m2fnuz, XLA_FFI_DataType_F8E5M2FNUZ);
SAME_NUMBER(xla_f8e4m3fnuz, XLA_FFI_DataType_F8E4M3FNUZ);
SAME_NUMBER(xla_f8e4m3, XLA_FFI_DataType_F8E4M3);
SAME_NUMBER(xla_f8e3m4, XLA_FFI_DataType_F8E3M4);
#ifdef HAS_F8E8M0FNU
SAME_NUMBER(xla_f8e8m0fnu, XLA_FFI_DataType_F8E8M0FNU);
#endif
