//! Tests of `kernels packages`.

#[path = "../../../kernels-packages/tests/support/by_hand.rs"]
mod by_hand;
#[cfg(feature = "hub")]
mod hub;

use crate::common::{self, errors};
use burn_kernels::packages::{Algorithm, Backend, BackendInfo, Digest, Metadata, Variant};
use by_hand::ByHand;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn here() -> String {
    Variant::here(Backend::Cpu).to_string()
}

/// Returns a command without variables of Hugging Face's programs, whose cache is this folder.
fn command(cache: &Path) -> Command {
    let mut command = common::command();
    for name in [
        "KERNELS_CACHE",
        "HF_HUB_CACHE",
        "HF_TOKEN",
        "HF_TOKEN_PATH",
        "HF_ENDPOINT",
    ] {
        command.env_remove(name);
    }
    command.env("HF_HOME", cache).env("HF_HUB_OFFLINE", "1");
    command.arg("packages");
    command
}

/// Runs a command in a folder, which is the cache as well.
fn run(place: &Path, args: &[&str]) -> Output {
    let mut command = command(place);
    let output = command.args(args).current_dir(place).output();
    output.expect("the program starts")
}

#[track_caller]
fn passes(output: &Output) -> String {
    assert!(output.status.success(), "{}", errors(output));
    let text = String::from_utf8(output.stdout.clone()).expect("text");
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "{text:?}"
    );
    text
}

#[track_caller]
fn json_of(output: &Output) -> Value {
    serde_json::from_str(&passes(output)).expect("JSON")
}

/// Returns the output of a failure, whose errors say this.
#[track_caller]
fn fails(output: &Output, says: &str) -> String {
    let said = errors(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(says), "`{said}` does not say `{says}`");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut all = said.chars().chain(text.chars());
    assert!(
        all.all(|c| c == '\n' || !c.is_control()),
        "{said:?} {text:?}"
    );
    text
}

/// A norm that this release has, and one that it does not have.
fn bindings() -> Value {
    let binding = |symbol: &str, rounding: &str| {
        json!({
            "symbol": symbol,
            "semantics": {"op": "rms_norm", "offset": "zero", "rounding": rounding, "scale": "weight", "gating": "none",
                          "groups": "one", "shift": "none"},
            "dtypes": ["f32"],
            "arguments": [{"tensor": "x"}, {"tensor": "weight"}, {"number": "eps"}, {"result": "y"}],
            "backward": "reference",
        })
    };
    json!({"format": 1, "bindings": [binding("norm", "llama"), binding("other", "nobody\u{1b}[2J")]})
}

/// Returns the files of a variant with functions of these names, with metadata.
fn files(functions: &[&str], bindings: Option<Value>) -> Vec<(String, Vec<u8>)> {
    let library = ByHand {
        functions,
        ..ByHand::default()
    };
    let mut files = vec![("_k.so".to_owned(), library.bytes())];
    files.extend(bindings.map(|json| {
        (
            "burn-kernels.json".to_owned(),
            json.to_string().into_bytes(),
        )
    }));
    let digests = files
        .iter()
        .map(|(name, bytes)| (name.clone(), Algorithm::Sha256.of(bytes)));
    let metadata = Metadata {
        name: "test-kernels".into(),
        id: "_test_kernels_1".into(),
        version: 1,
        license: "MIT\u{1b}[2J".into(),
        upstream: None,
        source: None,
        python_depends: vec![],
        kernel_depends: vec![],
        backend: BackendInfo {
            kind: "cpu".into(),
            archs: None,
        },
        digest: Some(Digest {
            algorithm: Algorithm::Sha256,
            files: digests.collect(),
        }),
    };
    files.push(("metadata.json".into(), metadata.to_json().into_bytes()));
    files
}

fn write(folder: &Path, files: &[(String, Vec<u8>)]) {
    fs::create_dir_all(folder).expect("a folder");
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).expect("a file");
    }
}

/// Makes the package `relu` in a folder, for this machine, with folders for others.
fn place() -> TempDir {
    let place = TempDir::new().expect("a folder");
    let build = place.path().join("relu/build");
    write(
        &build.join(here()),
        &files(&["norm", "other", "helper"], Some(bindings())),
    );
    fs::create_dir_all(build.join("torch-universal")).expect("a folder");
    fs::create_dir_all(build.join("tvm-ffi01-cu132-x86_64-linux")).expect("a folder");
    place
}

#[test]
fn each_variant_is_listed_with_the_reason_against_it() {
    let place = place();
    let text = passes(&run(place.path(), &["list", "relu", "--wide"]));
    for (name, here) in [
        (here().as_str(), "yes"),
        ("torch-universal", "it is for PyTorch"),
        (
            "tvm-ffi01-cu132-x86_64-linux",
            "it is for the backend `cu132`",
        ),
    ] {
        let is_row = |line: &str| line.starts_with(name) && line.contains(here);
        assert!(text.lines().any(is_row), "{name}:\n{text}");
    }
    let listed = json_of(&run(place.path(), &["list", "relu", "--json"]));
    assert_eq!(
        listed["variants"][0],
        json!({"name": here(), "against": null})
    );
    assert_eq!(listed["variants"].as_array().map(Vec::len), Some(3));
    let other = [
        "list",
        "relu",
        "--variant",
        "tvm-ffi01-cann85-aarch64-linux",
        "--json",
    ];
    let listed = json_of(&run(place.path(), &other));
    let against = |one: &Value| one["against"].is_string();
    assert!(
        listed["variants"]
            .as_array()
            .expect("a list")
            .iter()
            .all(against),
        "{listed}"
    );

    fs::create_dir(place.path().join("empty")).expect("a folder");
    fails(
        &run(place.path(), &["list", "empty"]),
        "empty has no variant of a package",
    );
    fails(
        &run(place.path(), &["list", "nothing"]),
        "nothing is neither a folder nor a repository",
    );
    fs::write(place.path().join("file"), "").expect("a file");
    fails(
        &run(place.path(), &["show", "file"]),
        "file is a file; a package is a folder",
    );
    let wrong = run(
        place.path(),
        &["list", "relu", "--variant", "torch-universal"],
    );
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        errors(&wrong).contains("it is for PyTorch"),
        "{}",
        errors(&wrong)
    );
}

#[test]
fn functions_are_shown_with_what_they_compute() {
    let place = place();
    let shown = json_of(&run(place.path(), &["show", "relu", "--json"]));
    assert_eq!(shown["metadata"]["license"], "MIT\u{1b}[2J");
    assert_eq!(shown["variant"], here());
    assert_eq!(shown["functions"], json!(["helper", "norm", "other"]));
    let known = |at: usize| &shown["bindings"][at]["known"];
    assert_eq!([known(0), known(1)], [&json!(true), &json!(false)]);
    let library =
        fs::read(place.path().join("relu/build").join(here()).join("_k.so")).expect("a file");
    let digits: String = Sha256::digest(&library)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        shown["libraries"],
        json!([{"name": "_k.so", "sha256": digits, "needs": null}])
    );

    let text = passes(&run(place.path(), &["show", "relu", "--wide"]));
    for says in [
        "test-kernels v1",
        "MIT\\u{1b}[2J",
        "SHA-256 of 2 files",
        &digits[..16],
        "not known to this release",
    ] {
        assert!(text.contains(says), "`{says}`:\n{text}");
    }
    let helper = text.lines().find(|line| line.starts_with("helper"));
    assert_eq!(
        helper.map(|line| line.split_whitespace().count()),
        Some(4),
        "{text}"
    );
}

#[test]
fn a_check_finds_every_changed_byte() {
    let place = place();
    let text = passes(&run(place.path(), &["check", "relu", "--wide"]));
    let row = |name: &str, text: &str| {
        let row = text.lines().find(|line| line.starts_with(name));
        row.unwrap_or_else(|| panic!("{name}:\n{text}")).to_owned()
    };
    assert!(row(&here(), &text).contains("fits"), "{text}");
    assert!(row("torch-universal", &text).contains("not read"), "{text}");
    assert!(
        text.contains("rms_norm(offset = 0, rounding = llama)"),
        "{text}"
    );

    // Of another machine it is read as well.
    let mut elsewhere = Variant::here(Backend::Cpu);
    elsewhere.os = "freebsd".into();
    let name = elsewhere.to_string();
    let folder = place.path().join("relu/build").join(&name);
    write(&folder, &files(&["f"], None));
    let checked = json_of(&run(place.path(), &["check", "relu", "--json"]));
    let states: Vec<_> = checked["variants"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| &one["state"])
        .collect();
    assert_eq!(
        states,
        ["fits", "not read", "whole", "not read"]
            .map(Value::from)
            .iter()
            .collect::<Vec<_>>()
    );

    // One changed byte of it is enough.
    let library = folder.join("_k.so");
    let mut bytes = fs::read(&library).expect("a file");
    *bytes.last_mut().expect("a byte") ^= 1;
    fs::write(&library, bytes).expect("a file");
    let text = fails(
        &run(place.path(), &["check", "relu", "--wide"]),
        "relu: 1 of 4 variants refused, see above",
    );
    assert!(row(&name, &text).contains("refused"), "{text}");
    assert!(
        text.contains("_k.so is not the file whose digest metadata.json has"),
        "{text}"
    );

    fs::remove_dir_all(folder).expect("a folder");
    let other = [
        "check",
        "relu",
        "--variant",
        "tvm-ffi01-cann85-aarch64-linux",
    ];
    let text = fails(
        &run(place.path(), &other),
        "relu has no variant tvm-ffi01-cann85-aarch64-linux",
    );
    assert!(row(&here(), &text).contains("whole"), "{text}");
}

#[test]
fn a_lock_holds_packages_byte_for_byte() {
    let place = place();
    let lock = place.path().join("burn-kernels.lock");
    assert_eq!(run(place.path(), &["lock"]).status.code(), Some(2));
    let locked = run(place.path(), &["lock", "relu"]);
    passes(&locked);
    assert!(
        errors(&locked).contains("locked: test-kernels v1 (relu, "),
        "{}",
        errors(&locked)
    );
    let first = fs::read(&lock).expect("a lock");
    let again = run(place.path(), &["lock", "relu"]);
    assert!(
        errors(&again).contains("unchanged: test-kernels"),
        "{}",
        errors(&again)
    );
    assert_eq!(fs::read(&lock).expect("a lock"), first);
    let text = passes(&run(place.path(), &["lock", "--check", "relu"]));
    assert!(text.contains("as locked"), "{text}");
    // The lock does not say where a folder is.
    let text = fails(
        &run(place.path(), &["lock", "--check"]),
        "1 of 1 packages differ",
    );
    assert!(text.contains("was not named"), "{text}");
    // A package that is not in the lock.
    write(
        &place.path().join("more").join(here()),
        &files(&["f"], None),
    );
    let metadata = place.path().join("more").join(here()).join("metadata.json");
    let json = fs::read_to_string(&metadata).expect("metadata");
    fs::write(&metadata, json.replace("test-kernels", "more-kernels")).expect("metadata");
    let text = fails(
        &run(place.path(), &["lock", "--check", "relu", "more", "--wide"]),
        "1 of 2 packages differ",
    );
    assert!(text.contains("lock it first"), "{text}");
    // Other bytes, also with digests of their own.
    write(
        &place.path().join("relu/build").join(here()),
        &files(&["norm", "other"], Some(bindings())),
    );
    let text = fails(
        &run(place.path(), &["lock", "--check", "relu", "--wide"]),
        "1 of 1 packages differ",
    );
    assert!(
        text.contains("metadata.json is not the one in the lock"),
        "{text}"
    );
    passes(&run(place.path(), &["lock", "relu", "more"]));
    assert_ne!(fs::read(&lock).expect("a lock"), first);
    passes(&run(place.path(), &["lock", "--check", "more", "relu"]));
    // A mistake leaves the lock as it is.
    fs::write(&lock, "{}").expect("a lock");
    fails(&run(place.path(), &["lock", "relu"]), "burn-kernels.lock: ");
    assert_eq!(fs::read(&lock).expect("a lock"), b"{}");
    fails(
        &run(place.path(), &["lock", "relu", "--file", "none/lock"]),
        "the folder none of --file does not exist",
    );
}

#[test]
fn packages_in_the_cache_need_no_network() {
    let place = TempDir::new().expect("a folder");
    let empty = run(place.path(), &["list"]);
    assert_eq!(passes(&empty), "");
    assert!(
        errors(&empty).contains("there is no package in the cache"),
        "{}",
        errors(&empty)
    );
    let folder = place.path().join("hub/kernels--org--name");
    write(
        &folder
            .join("snapshots")
            .join(COMMIT)
            .join("build")
            .join(here()),
        &files(&["f"], None),
    );
    let named = format!("org/name@{COMMIT}");
    let expected = |revision: Value| json!([{"repository": "org/name", "revision": revision, "commit": COMMIT, "cached": true}]);
    for args in [&["list", "--json"][..], &["list", "org/name", "--json"]] {
        assert_eq!(
            json_of(&run(place.path(), args))["packages"],
            expected(Value::Null)
        );
    }
    fails(
        &run(place.path(), &["show", "org/name@v1"]),
        "`v1` of org/name is not in the cache",
    );
    write(&folder.join("refs"), &[("v1".into(), COMMIT.into())]);
    assert_eq!(
        json_of(&run(place.path(), &["list", "--json"]))["packages"],
        expected("v1".into())
    );
    for name in [&*named, "org/name@v1", "org/name@1"] {
        assert_eq!(
            json_of(&run(place.path(), &["show", name, "--json"]))["commit"],
            COMMIT,
            "{name}"
        );
        passes(&run(place.path(), &["check", name]));
        let listed = json_of(&run(place.path(), &["list", name, "--json"]));
        assert_eq!(
            listed["variants"],
            json!([{"name": here(), "against": null}])
        );
    }
    fails(
        &run(place.path(), &["show", "org/name"]),
        "the version of org/name is missing, as in org/name@v1",
    );
    fails(
        &run(place.path(), &["list", "org/other"]),
        "org/other has no version, and nothing of it is in the cache",
    );
    passes(&run(place.path(), &["lock", "org/name@v1"]));
    passes(&run(place.path(), &["lock", "--check"]));
    fs::remove_dir_all(folder.join("snapshots")).expect("a folder");
    let text = fails(
        &run(place.path(), &["lock", "--check", "--wide"]),
        "1 of 1 packages differ",
    );
    assert!(text.contains("is not in the cache"), "{text}");
}
