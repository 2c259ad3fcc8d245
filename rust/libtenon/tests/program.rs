//! A Rust program calls the library in examples/functions/kernels.c and one in Rust.
#![cfg(feature = "host")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tenon::host::{Argument, Array, CallbackValue, Library, Value};

/// One file for all tests: a library must not be overwritten while it is open.
static KERNELS: LazyLock<PathBuf> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels.so");
    let _ = std::fs::remove_file(&out);
    let mut command = Command::new("cc");
    command.args(["-O2", "-shared", "-fPIC", "-I"]).arg(root.join("core/include"));
    command.arg(root.join("examples/functions/kernels.c")).args(["-lm", "-o"]).arg(&out);
    assert!(command.status().unwrap().success());
    out
});

/// The library in rust/tests/library.
static RUST: LazyLock<PathBuf> = LazyLock::new(|| {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rust_kernels");
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--offline", "-p", "rust-kernels", "--manifest-path"]).arg(manifest);
    command.arg("--target-dir").arg(&target);
    assert!(command.status().unwrap().success());
    target.join("debug/librust_kernels.so")
});

fn rust() -> Library {
    Library::open(&*RUST).unwrap()
}

fn call(name: &str, arguments: &[Argument<'_>]) -> tenon::Result<Vec<Value>> {
    rust().get(name)?.call(arguments)
}

#[test]
fn values_of_each_kind() {
    let values = call("values", &[7u64.into(), tenon::Complex::new(1.0, 2.0).into()]).unwrap();
    assert!(matches!(values[..], [Value::Uint(7), Value::Complex(z), Value::Int(2)] if z.re == 2.0));
    let strings = ["a", "é"];
    let texts = call("texts", &[Argument::bytes(b"xyz"), Argument::strs(&strings)]).unwrap();
    let [Value::Bytes(bytes), Value::Strs(strs), Value::Str(dtype)] = &texts[..] else { panic!() };
    assert_eq!(
        (&bytes[..], &strs[..], dtype.as_str()),
        (&b"zyx"[..], &["A".to_owned(), "É".to_owned()][..], "f32")
    );
    let lists = call("lists", &[3i64.into()]).unwrap();
    assert!(
        matches!(&lists[..], [Value::Ints(a), Value::Floats(b)] if a == &[0, 1, 2] && b == &[0.0, 0.5, 1.0])
    );
    let total = call("total", &[Argument::ints(&[1, 2]), Argument::floats(&[0.5, 2.0])]).unwrap();
    assert_eq!(total[0].as_float(), Some(4.5));
    assert_eq!(call("reduce", &[[1.0, 4.0][..].into(), "max".into()]).unwrap()[0].as_float(), Some(4.0));
    assert!(matches!(call("given", &[Argument::none()]).unwrap()[0], Value::None));
    let filled = call("filled", &[2i64.into(), tenon::Dtype::new(2, 64).into()]).unwrap();
    assert_eq!(filled[0].as_slice::<f64>(), Some(&[7.0, 7.0][..]));
}

#[test]
fn overloads_batches_shapes_and_the_state() {
    assert_eq!(call("area", &[3.0.into()]).unwrap()[0].as_float(), Some(9.0));
    assert_eq!(call("area", &[3.0.into(), 2i64.into()]).unwrap()[0].as_float(), Some(6.0));
    assert!(call("area", &["x".into()]).is_err());
    let hypot = call("hypot", &[[3.0, 0.0][..].into(), [4.0][..].into()]).unwrap();
    assert_eq!(hypot[0].as_slice::<f64>(), Some(&[5.0, 4.0][..]));
    let repeated = call("repeat", &[[1.0, 2.0][..].into(), 2i64.into()]).unwrap();
    assert_eq!(repeated[0].as_slice::<f64>(), Some(&[1.0, 2.0, 1.0, 2.0][..]));
    let library = rust();
    let count = || library.get("count").unwrap().call(&[]).unwrap()[0].as_int().unwrap();
    assert_eq!((count(), count()), (100, 101));
}

#[test]
fn lists_of_tensors() {
    let (x, y) = ([1.0, 2.0], [3.0]);
    let rows = Argument::list([Argument::array(&x, &[2, 1]).unwrap(), Argument::array(&y, &[1, 1]).unwrap()]);
    let sums = call("sums", &[rows]).unwrap().remove(0).into_list().unwrap();
    assert_eq!(
        sums.iter().map(|sum| sum.to_vec::<f64>().unwrap()).collect::<Vec<_>>(),
        [vec![1.0, 2.0], vec![3.0]]
    );
    let parts =
        call("split", &[[1.0, 2.0, 3.0][..].into(), 2i64.into()]).unwrap().remove(0).into_list().unwrap();
    assert_eq!(parts.iter().map(|part| part.shape()[0]).collect::<Vec<_>>(), [2, 1]);
    let (mut a, mut b) = ([1.0], [2.0, 3.0]);
    call("clear", &[Argument::list([Argument::from(&mut a[..]), Argument::from(&mut b[..])])]).unwrap();
    assert_eq!((a, b), ([0.0], [0.0, 0.0]));
    assert!(call("clear", &[Argument::list([Argument::from(1.0)])]).is_err());
    assert!(
        call("clear", &[Argument::list([Argument::from(&a[..])])])
            .err()
            .unwrap()
            .to_string()
            .contains("read-only")
    );
}

#[test]
fn objects() {
    let library = rust();
    let rows = Array::from_vec(vec![1f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    let new = library.get("Table").unwrap();
    let table = new.call(&[(&rows).into()]).unwrap().remove(0).into_object().unwrap();
    assert_eq!(table.class(), "Table");
    assert_eq!(table.call("total", &[]).unwrap()[0].as_float(), Some(10.0));
    assert_eq!(table.call("width", &[]).unwrap()[0].as_int(), Some(2));
    let sums = table.call("sums", &[]).unwrap().remove(0).into_array().unwrap();
    // The object may change what it shows: it is copied out.
    assert!(sums.as_slice::<f32>().is_none());
    let other = table.clone();
    let error = table.call("merge", &[(&other).into()]).err().unwrap().to_string();
    assert!(error.contains("are the same Table"), "{error}");
    drop((table, other, library, rows));
    assert_eq!(sums.to_vec::<f32>(), Some(vec![3.0, 7.0]));
    let error = new.call(&[Argument::array(&[1f32], &[1, 1]).unwrap()]).err().unwrap().to_string();
    assert!(
        error.contains("argument 'rows' is kept after the call, so it cannot be a slice; pass an Array"),
        "{error}"
    );
    let error = call("tail", &[[1.0, 2.0][..].into()]).err().unwrap().to_string();
    assert!(
        error.contains("result 0 is memory of argument 'x', which cannot be a slice; pass an Array"),
        "{error}"
    );
    let x = Array::from_vec(vec![1.0, 2.0], &[2]).unwrap();
    let tail = call("tail", &[(&x).into()]).unwrap().remove(0).into_array().unwrap();
    drop(x);
    assert_eq!(tail.to_vec::<f64>(), Some(vec![2.0]));
    let constant = call("constant", &[1.5.into()]).unwrap().remove(0).into_object().unwrap();
    let error = new.call(&[(&constant).into()]).err().unwrap().to_string();
    assert!(error.contains("another kind of value"), "{error}");
}

#[test]
fn callbacks() {
    let mut seen = Vec::new();
    let add = Argument::callback(|arguments| {
        let [CallbackValue::Float(sum), CallbackValue::Int(i)] = arguments else { panic!() };
        seen.push(*i);
        Ok(Value::Float(sum + *i as f64))
    });
    assert_eq!(call("fold", &[add, 4i64.into()]).unwrap()[0].as_float(), Some(6.0));
    assert_eq!(seen, [0, 1, 2, 3]);
    let fails = Argument::callback(|_| Err(tenon::Error::bounds("too far")));
    let error = call("fold", &[fails, 4i64.into()]).err().unwrap();
    assert!(error.to_string().contains("too far") && error.status() == tenon::Error::bounds("").status());
    let wrong = Argument::callback(|_| Ok(Value::None));
    assert!(call("fold", &[wrong, 1i64.into()]).is_err());
    let panics = Argument::callback(|_| panic!("inside"));
    let run = std::panic::AssertUnwindSafe(|| call("fold", &[panics, 1i64.into()]));
    assert_eq!(*std::panic::catch_unwind(run).err().unwrap().downcast::<&str>().unwrap(), "inside");
    let mut total = 0.0;
    let visit = Argument::callback(|arguments| {
        let [CallbackValue::Tensor(x)] = arguments else { panic!() };
        total = x.cells::<f64, 1>().unwrap().iter().sum();
        Ok(Value::None)
    });
    assert_eq!(call("visit", &[[1.0, 2.0][..].into(), visit]).unwrap()[0].as_float(), Some(3.0));
    assert_eq!(total, 3.0);
}

#[test]
fn an_object_in_its_own_call() {
    let rows = Array::from_vec(vec![1f32], &[1, 1]).unwrap();
    let table =
        rust().get("Table").unwrap().call(&[(&rows).into()]).unwrap().remove(0).into_object().unwrap();
    let mut message = String::new();
    let again = Argument::callback(|_| {
        message = table.call("total", &[]).err().unwrap().to_string();
        Ok(Value::None)
    });
    table.call("during", &[again]).unwrap();
    assert!(message.contains("this Table is in use by the call that this code was called from"), "{message}");
    assert_eq!(table.call("total", &[]).unwrap()[0].as_float(), Some(1.0));
}

#[test]
fn a_library_in_c() {
    let library = Library::open(&*KERNELS).unwrap();
    assert!(library.signatures().any(|text| text.starts_with("saxpy(")));
    let saxpy = library.get("saxpy").unwrap();
    let (x, y) = ([1f32, 2.0, 3.0], [10f32, 20.0, 30.0]);
    let z = saxpy.call(&[2.0.into(), x[..].into(), y[..].into()]).unwrap();
    assert_eq!(z[0].as_slice::<f32>(), Some(&[12.0, 24.0, 36.0][..]));
    assert!(z[0].as_slice::<f64>().is_none());
    let dot = library.get("dot").unwrap();
    assert_eq!(dot.call(&[x[..].into(), y[..].into()]).unwrap()[0].as_float(), Some(140.0));
}

#[test]
fn messages_are_those_of_the_driver() {
    let library = Library::open(&*KERNELS).unwrap();
    let dot = library.get("dot").unwrap();
    let (x, y) = ([1f32, 2.0, 3.0], [1f32, 1.0]);
    let error = dot.call(&[x[..].into(), y[..].into()]).err().unwrap();
    assert_eq!(error.to_string(), "dot(): argument 'y': dimension 0 is 2, but n = 3 from argument 'x'");
    let error = dot.call(&[x[..].into(), [1f64][..].into()]).err().unwrap();
    assert!(error.to_string().starts_with("dot(): argument 'y': expected f32[n], got f64[1]"), "{error}");
    let error = dot.call(&[x[..].into(), 1.0.into()]).err().unwrap();
    assert!(error.to_string().starts_with("dot(): argument 'y': expected f32[n]"), "{error}");
    let error = dot.call(&[x[..].into()]).err().unwrap();
    assert!(error.to_string().starts_with("dot(): argument 'y': expected f32[n], got nothing"), "{error}");
    let error = dot.call(&[x[..].into(), x[..].into(), x[..].into()]).err().unwrap();
    assert_eq!(error.to_string(), "dot(): expected 2 arguments, got 3");
    assert!(library.get("nothing").is_err());
    assert!(Library::open("/nowhere.so").err().unwrap().to_string().starts_with("/nowhere.so: "));
}

#[test]
fn shapes() {
    assert!(Argument::array(&[1f32, 2.0], &[3]).is_err());
    let mut elements = [1f64, 2.0];
    assert!(Argument::array_mut(&mut elements, &[2, 1]).is_ok());
    // Sizes and dimensions that no array has.
    assert!(Argument::array::<f32>(&[], &[0, usize::MAX]).is_err());
    assert!(Array::from_vec(Vec::<f32>::new(), &[usize::MAX, 0]).is_err());
    assert!(Array::from_vec(vec![1f32], &[1; 100]).is_err());
    let message =
        call("saxpy", &[1.0.into(), Argument::array(&[1f32], &[1; 100]).unwrap(), (&[1f32][..]).into()]);
    let message = message.err().unwrap().to_string();
    assert!(message.contains("expected 0 to 64, got 100"), "{message}");
}

#[cfg(feature = "ndarray")]
#[test]
fn arrays_of_the_crate_ndarray() {
    let x = ndarray::Array1::from(vec![1f32, 2.0, 3.0, 4.0]);
    let y = ndarray::Array1::from(vec![1f32, 1.0]);
    let library = Library::open(&*KERNELS).unwrap();
    let even = x.slice(ndarray::s![..2]);
    let z = library.get("saxpy").unwrap().call(&[3.0.into(), even.into(), y.view().into()]).unwrap();
    let z = z.into_iter().next().unwrap().into_array().unwrap();
    assert_eq!(
        z.as_ndarray::<f32>().unwrap().into_dimensionality::<ndarray::Ix1>().unwrap().to_vec(),
        [4.0, 7.0]
    );
}
