//! A Rust program calls the library in examples/functions/kernels.c and one in Rust.
#![cfg(feature = "host")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tenon::host::{Argument, Library};

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
