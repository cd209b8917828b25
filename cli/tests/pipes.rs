//! Tests that a named pipe in the place of an input file is refused at once, and one in the place of an output file is
//! not replaced.
#![cfg(unix)]

mod common;

use common::{command, errors, fixture};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Returns the program's standard error. The program must end by itself.
fn refusal(args: &[&str]) -> String {
    let mut command = command();
    command
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{args:?} waits");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success(), "{args:?}");
    errors(&output)
}

#[test]
fn pipes_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    let pipe = path.to_str().unwrap();
    let policy = format!("@{pipe}");
    let model = fixture("llama");
    let inputs = model.join("golden.safetensors");
    let [model, inputs] = [&model, &inputs].map(|path| path.to_str().unwrap());
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    for args in [
        &["plan", "--check", pipe][..],
        &["plan", "--out", pipe],
        &["plan", "--kernels", &policy],
        &["inspect", pipe],
        &["bench", "compare", pipe, pipe],
        &["run", "--model", model, "--inputs", pipe, "--outputs", out],
        &[
            "run",
            "--model",
            model,
            "--inputs",
            inputs,
            "--outputs",
            pipe,
        ],
        &["train", "--corpus", pipe, "--out", out],
    ] {
        let said = refusal(args);
        assert!(
            said.contains("pipe is a named pipe; name a plain file"),
            "{args:?}: {said}"
        );
    }
}
