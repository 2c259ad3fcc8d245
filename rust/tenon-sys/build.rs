//! Compiles the C bundle: that of the crate, or that which tools/bundle writes in the repository.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn has(feature: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{feature}")).is_some()
}

fn python() -> String {
    env::var("PYO3_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// The output of a program, without the spaces around it.
fn output(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

fn bundle(out: &Path) -> PathBuf {
    println!("cargo:rerun-if-env-changed=TENON_BUNDLE");
    if let Some(folder) = env::var_os("TENON_BUNDLE") {
        return folder.into();
    }
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    if here.join("bundle/tenon.c").exists() {
        return here.join("bundle");
    }
    let root = here.join("../..");
    for folder in ["core", "python/src", "python/include", "frameworks"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
    }
    let folder = out.join("bundle");
    output(Command::new(python()).arg(root.join("tools/bundle")).arg("--output").arg(&folder));
    folder
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=bridge.c");
    println!("cargo:rerun-if-changed=host.c");
    if !has("CORE") || env::var_os("DOCS_RS").is_some() {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let folder = bundle(&out);
    let mut build = cc::Build::new();
    build.std("gnu11").include(&folder).warnings(false).file(folder.join("tenon.c")).file("host.c");
    // At least -O2: calls should cost what they cost in Python's own package.
    if env::var("OPT_LEVEL").is_ok_and(|level| level != "0") {
        build.opt_level(3);
    }
    if has("PYTHON") {
        println!("cargo:rerun-if-env-changed=PYO3_PYTHON");
        let query = "import sysconfig; print(sysconfig.get_path('include'))";
        build.include(output(Command::new(python()).args(["-c", query]))).file("bridge.c");
        if has("ABI3") {
            build.define("Py_LIMITED_API", "0x030C0000");
        }
    }
    if has("TORCH") {
        build.file(folder.join("tenon_torch.c"));
    }
    build.compile("tenon");
}
