//! Compares the layout of every struct of `abi` with C's.
#![cfg(all(not(miri), target_os = "linux"))]

use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use tenon::abi;

/// The C names of the struct and its members, with the sizes and offsets in Rust.
macro_rules! table {
    ($($c:ident = $rust:ident { $($member:ident = $field:ident),* $(,)? })*) => {
        [$((stringify!($c), size_of::<abi::$rust>(),
            vec![$((stringify!($member), offset_of!(abi::$rust, $field))),*])),*]
    };
}

#[test]
fn every_struct_is_as_in_c() {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../core/include");
    if !include.join("tenon/abi.h").exists() || Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no tenon/abi.h, or no C compiler");
        return;
    }
    let structs = table! {
        tenon_dtype = Dtype { code = code, bits = bits, lanes = lanes }
        tenon_device = Device { device_type = kind, device_id = index }
        tenon_view = View {
            data = data, device = device, ndim = ndim, dtype = dtype, shape = shape, strides = strides,
            byte_offset = byte_offset, flags = flags, numel = numel,
        }
        tenon_text = Text { data = data, length = length }
        tenon_value = Value { kind = kind, flags = flags, as = payload, reserved = reserved }
        tenon_call = Call {
            size = size, minor = minor, host = host, function = function, state = state, args = args, results = results,
            nargs = nargs, nresults = nresults, dims = dims, types = types, ndims = ndims, ntypes = ntypes, device = device,
            stream = stream, flags = flags, reserved = reserved, host_private = host_private,
        }
        tenon_kept = KeptShare { size = size, reserved = reserved, view = view, release = release }
        tenon_host = Host {
            size = size, minor = minor, name = name, fail = fail, result_alloc = result_alloc,
            result_handle = result_handle, result_str = result_str, scratch = scratch,
            cancelled = cancelled, extension = extension, find = find, arg_keep = arg_keep, result_memory = result_memory,
            result_bytes = result_bytes, result_list = result_list, parallel = parallel, result_push = result_push,
            callback = callback, for_each = for_each,
        }
        tenon_function = Function {
            signature = signature, doc = doc, call = call, shape = shape, data = data, flags = flags, reserved = reserved,
        }
        tenon_module = Module {
            magic = magic, major = major, minor_needed = minor_needed, size = size, function_size = function_size,
            nfunctions = nfunctions, functions = functions, name = name, doc = doc, version = version, load = load,
            unload = unload, flags = flags,
        }
    };
    let mut source = "#include <stdio.h>\n#include <tenon/abi.h>\nint main(void) {\n".to_owned();
    let mut wanted = String::new();
    for (name, size, members) in &structs {
        source += &format!("printf(\"{name} %zu\\n\", sizeof(struct {name}));\n");
        wanted += &format!("{name} {size}\n");
        for (member, offset) in members {
            source += &format!("printf(\"{name}.{member} %zu\\n\", offsetof(struct {name}, {member}));\n");
            wanted += &format!("{name}.{member} {offset}\n");
        }
    }
    for (name, number) in numbers() {
        source += &format!("printf(\"{name} %llu\\n\", (unsigned long long){name});\n");
        wanted += &format!("{name} {number}\n");
    }
    source += "return 0; }\n";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(folder.join("layout.c"), source).unwrap();
    let program = folder.join("layout");
    let command = ["-I", include.to_str().unwrap(), "layout.c", "-o", program.to_str().unwrap()];
    assert!(Command::new("cc").args(command).current_dir(folder).status().unwrap().success());
    let done = Command::new(program).output().unwrap();
    assert_eq!(String::from_utf8(done.stdout).unwrap(), wanted);
}

/// Constants with the same name in C.
fn numbers() -> Vec<(&'static str, u64)> {
    use abi::{flag, kind, view_flag};
    vec![
        ("TENON_ABI_MAJOR", abi::MAJOR.into()),
        ("TENON_ABI_MINOR", abi::MINOR.into()),
        ("TENON_MAGIC", abi::MAGIC),
        ("TENON_EINVAL", abi::EINVAL as u64),
        ("TENON_ENOMEM", abi::ENOMEM as u64),
        ("TENON_EOVERFLOW", abi::EOVERFLOW as u64),
        ("TENON_EDTYPE", abi::EDTYPE as u64),
        ("TENON_EBOUNDS", abi::EBOUNDS as u64),
        ("TENON_EOVERLAP", abi::EOVERLAP as u64),
        ("TENON_EFAILED", abi::EFAILED as u64),
        ("TENON_KIND_NONE", kind::NONE.into()),
        ("TENON_KIND_TENSOR", kind::TENSOR.into()),
        ("TENON_KIND_INT", kind::INT.into()),
        ("TENON_KIND_FLOAT", kind::FLOAT.into()),
        ("TENON_KIND_BOOL", kind::BOOL.into()),
        ("TENON_KIND_STR", kind::STR.into()),
        ("TENON_KIND_ENUM", kind::ENUM.into()),
        ("TENON_KIND_INTS", kind::INTS.into()),
        ("TENON_KIND_FLOATS", kind::FLOATS.into()),
        ("TENON_KIND_TENSORS", kind::TENSORS.into()),
        ("TENON_KIND_HANDLE", kind::HANDLE.into()),
        ("TENON_KIND_COMPLEX", kind::COMPLEX.into()),
        ("TENON_KIND_UINT", kind::UINT.into()),
        ("TENON_KIND_BYTES", kind::BYTES.into()),
        ("TENON_KIND_STRS", kind::STRS.into()),
        ("TENON_KIND_DTYPE", kind::DTYPE.into()),
        ("TENON_KIND_CALLABLE", kind::CALLABLE.into()),
        ("TENON_READ_ONLY", view_flag::READ_ONLY),
        ("TENON_VIEW_C", view_flag::C),
        ("TENON_VIEW_WRITTEN", view_flag::WRITTEN),
        ("TENON_RELEASE_LOCK", flag::RELEASE_LOCK),
        ("TENON_KEEP_LOCK", flag::KEEP_LOCK),
        ("TENON_NO_GRAD_CHECK", flag::NO_GRAD_CHECK),
        ("TENON_CAPTURABLE", flag::CAPTURABLE),
        ("TENON_CLASS_CONCURRENT", flag::CONCURRENT),
        ("TENON_VALUE_UNSET", abi::VALUE_UNSET.into()),
        ("TENON_CALL_FAILED", abi::CALL_FAILED.into()),
        ("TENON_CALL_UNLOCKED", abi::CALL_UNLOCKED.into()),
    ]
}
