//! Each file of tests/compile_fail is a program that must not compile. Its first line has a part of the message, and the line with
//! the mistake ends with `//~`.
#![cfg(not(miri))]

use std::fs;
use std::path::Path;
use std::process::Command;

fn join(message: &str) -> String {
    let message = message.replace(": evaluation of `kernels::_` failed here", "");
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn programs_that_must_not_compile() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_fail");
    let bins = folder.join("src/bin");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&bins).unwrap();
    let manifest = format!(
        "[package]\nname = \"compile-fail\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\nlibtenon = {{ path = {here:?} }}\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    let mut cases = Vec::new();
    for file in fs::read_dir(here.join("tests/compile_fail")).unwrap() {
        let path = file.unwrap().path();
        let source = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        fs::write(bins.join(&name), &source).unwrap();
        cases.push((name, source));
    }
    assert!(cases.len() > 20);
    let done = Command::new(env!("CARGO"))
        .args([
            "check",
            "--offline",
            "--bins",
            "--keep-going",
            "--quiet",
            "--message-format=short",
            "--jobs=2",
        ])
        .current_dir(&folder)
        .env("RUSTFLAGS", "-Awarnings")
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stderr);
    let mut wrong = Vec::new();
    for (name, source) in &cases {
        let wanted = source.lines().next().unwrap().trim_start_matches("// ");
        let line = source.lines().position(|line| line.trim_end().ends_with("//~")).map(|line| line + 1);
        // A message may have several lines; the next one begins with a path.
        let place = format!("src/bin/{name}:{}", line.map_or(String::new(), |line| format!("{line}:")));
        let found = text
            .split("src/bin/")
            .map(|part| format!("src/bin/{part}"))
            .any(|message| message.starts_with(&place) && join(&message).contains(&join(wanted)));
        if !found {
            wrong.push(format!("{name}: no message has {wanted:?} at {place}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{text}", wrong.join("\n"));
}
