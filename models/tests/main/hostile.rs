//! Tests of directories made to harm: special files, endless files, names with control sequences. Also tests that
//! leftovers of killed processes are removed.
use crate::common::{self, Stored, copy_of, edit_config, edit_tensors, model_dir};
use burn::tensor::{Device, FloatDType};
use kernels_models::{load, save};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

const CONFIG: &str = "config.json";
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Returns the error of loading a directory. Fails instead of waiting forever.
fn error_of(dir: &Path) -> String {
    let dir = PathBuf::from(dir);
    let (done, wait) = channel();
    std::thread::spawn(move || {
        let loaded = load(&dir, &Device::default(), FloatDType::F32);
        done.send(loaded.map(drop).map_err(|error| error.to_string()))
    });
    let answer = wait.recv_timeout(Duration::from_secs(60));
    answer.expect("an answer at once").unwrap_err()
}

fn make_pipe(path: &Path) {
    let _ = fs::remove_file(path);
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// Copies a model into `part.safetensors`, with an index that places each tensor there.
fn with_index() -> tempfile::TempDir {
    let dir = copy_of("llama");
    fs::rename(dir.path().join(SINGLE), dir.path().join("part.safetensors")).unwrap();
    let names = common::read(&model_dir("llama").join(SINGLE)).into_keys();
    let map: serde_json::Map<_, _> = names
        .map(|name| (name, json!("part.safetensors")))
        .collect();
    let index = json!({ "weight_map": map }).to_string();
    fs::write(dir.path().join(INDEX), index).unwrap();
    dir
}

#[test]
fn a_pipe_in_the_place_of_any_file_is_refused_at_once() {
    for (dir, file) in [
        (copy_of("llama"), CONFIG),
        (copy_of("llama"), SINGLE),
        (with_index(), INDEX),
        (with_index(), "part.safetensors"),
    ] {
        let path = dir.path().join(file);
        make_pipe(&path);
        assert_eq!(
            error_of(dir.path()),
            format!("{} is a named pipe; name a plain file", path.display())
        );
    }
}

#[test]
fn a_file_without_end_is_not_read() {
    for (dir, file, limit) in [
        (
            copy_of("llama"),
            CONFIG,
            "a config.json may have at most 16777216",
        ),
        (with_index(), INDEX, "an index may have at most 67108864"),
    ] {
        let path = dir.path().join(file);
        let written = fs::OpenOptions::new().write(true).open(&path).unwrap();
        written.set_len(1 << 40).unwrap();
        let error = error_of(dir.path());
        let start = format!("{} has 1099511627776 bytes", path.display());
        assert!(
            error.starts_with(&start) && error.contains(limit),
            "{error}"
        );
    }
    // The first bytes give a header length far above the limit.
    let dir = copy_of("llama");
    let path = dir.path().join(SINGLE);
    let mut bytes = fs::read(&path).unwrap();
    bytes[..8].copy_from_slice(&(1_u64 << 39).to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let written = fs::OpenOptions::new().write(true).open(&path).unwrap();
    written.set_len(1 << 40).unwrap();
    let error = error_of(dir.path());
    assert!(
        error.contains("longer than the format allows, 100000000"),
        "{error}"
    );
}

const EVIL: &str = "x\x1b]0;owned\x07\nmodel.safetensors: all is well\u{202e}\u{9b}";
const SHOWN: &str = r"x\u{1b}]0;owned\u{7}\nmodel.safetensors: all is well\u{202e}\u{9b}";

#[test]
fn names_that_a_terminal_obeys_are_shown_escaped() {
    let value = copy_of("llama");
    edit_config(value.path(), |config| {
        config.insert("hidden_act".into(), json!(EVIL));
    });
    let field = copy_of("llama");
    edit_config(field.path(), |config| {
        config.insert("rope_parameters".into(), json!({ "rope_type": EVIL }));
    });
    let listed = with_index();
    let index = json!({ "weight_map": { EVIL: 1 } }).to_string();
    fs::write(listed.path().join(INDEX), index).unwrap();
    let tensor = copy_of("llama");
    edit_tensors(tensor.path(), |file| {
        file.insert(format!("model.norm.{EVIL}"), Stored::f32(&[1], &[0.0]));
    });
    let dtype = copy_of("llama");
    let path = dtype.path().join(SINGLE);
    let header = format!(
        "{{\"w\":{{\"dtype\":{},\"shape\":[],\"data_offsets\":[0,0]}}}}",
        json!(EVIL)
    );
    let length = (header.len() as u64).to_le_bytes();
    fs::write(path, [&length[..], header.as_bytes()].concat()).unwrap();
    for (dir, what, lines) in [
        (value, "a value", 1),
        (field, "another value", 1),
        (listed, "a name in an index", 1),
        (tensor, "a tensor", 2),
        (dtype, "a type", 1),
    ] {
        let error = error_of(dir.path());
        assert!(error.contains(SHOWN), "{what}: {error:?}");
        let obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!error.contains(obeyed), "{what}: {error:?}");
        assert_eq!(error.lines().count(), lines, "{what}: {error:?}");
    }
}

#[test]
fn what_a_killed_process_left_of_a_checkpoint_is_removed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join(".saved.4711.aB3xYz.partial");
    fs::create_dir(&left).unwrap();
    fs::write(left.join(SINGLE), "half").unwrap();
    let (config, model) = load(&model_dir("llama"), &Device::default(), FloatDType::F32).unwrap();
    save(&model, &config, &folder.path().join("saved"), None).unwrap();
    let names = fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["saved"]);
}
