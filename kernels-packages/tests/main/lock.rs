//! Locks.

use crate::support::{ByHand, Random, fails, open, package};
use kernels_packages::{Commit, Lock, Repository, Revision, Trust, read_python};
use std::fs;

fn library(functions: &[&str]) -> Vec<u8> {
    ByHand {
        functions,
        ..ByHand::default()
    }
    .bytes()
}

#[test]
fn a_lock_has_a_package_byte_for_byte() {
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("burn-kernels.lock");
    let first = open(&package(&[("_k.so", &library(&["f"])), ("a.py", b"1")])).expect("a package");
    let mut lock = Lock::default();
    lock.add(&first);
    lock.write(&file).expect("a file");
    let read = Lock::read(&file).expect("a lock");
    assert_eq!(read, lock);
    first.check_trust(Trust::Lock(&read)).expect("trust");
    for (files, says) in [
        (
            &[("_k.so", &library(&["g"])[..]), ("a.py", b"1")][..],
            "metadata.json is not the one in the lock",
        ),
        (
            &[("_k.so", &library(&["f"])), ("a.py", b"2")],
            "metadata.json is not the one in the lock",
        ),
    ] {
        let other = open(&package(files)).expect("a package");
        fails(other.check_trust(Trust::Lock(&read)), says);
        // Locking again takes the place of the first.
        let mut again = read.clone();
        again.add(&other);
        assert_eq!(again.packages().len(), 1);
        other.check_trust(Trust::Lock(&again)).expect("trust");
    }
    fails(
        first.check_trust(Trust::Lock(&Lock::default())),
        "lock it first",
    );
}

#[test]
fn each_mistake_in_a_lock_is_named() {
    let package = open(&package(&[("_k.so", &library(&["f"]))])).expect("a package");
    let mut lock = Lock::default();
    lock.add(&package);
    let good = lock.to_json();
    let sum = lock.packages()[0].libraries["_k.so"];
    let digits: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    for (from, to, says) in [
        (
            "\"format\": 1",
            "\"format\": 2",
            "format 2 is not supported",
        ),
        (
            "\"variant\"",
            "\"variants\"",
            "unknown field `variants`, did you mean `variant`?",
        ),
        (
            "\"contents\"",
            "\"repository\": \"a/b\", \"contents\"",
            "packages[0]: the field `revision` is missing",
        ),
        (
            "\"contents\"",
            "\"commit\": \"a\", \"contents\"",
            "the field `repository` is missing",
        ),
        (
            &digits,
            "abc",
            "packages[0].libraries._k.so: 64 hexadecimal digits",
        ),
        (
            "\"libraries\": {",
            "\"libraries\": [{",
            "expected `,` or `]`",
        ),
    ] {
        let json = good.replacen(from, to, 1);
        assert_ne!(json, good, "{from}");
        let problem = Lock::from_json(json.as_bytes()).expect_err("a problem");
        assert!(problem.contains(says), "{problem}");
    }
    let entry = &good[good.find("    {").expect("an entry")..good.rfind("  ]").expect("an end")];
    let twice = good.replace(entry, &format!("{},{entry}", entry.trim_end()));
    let problem = Lock::from_json(twice.as_bytes()).expect_err("a problem");
    assert!(
        problem.contains("packages[1]: the package is there already"),
        "{problem}"
    );
    let mut random = Random(11);
    for _ in 0..3000 {
        let Ok(read) = Lock::from_json(&random.mutate(good.as_bytes())) else {
            continue;
        };
        assert_eq!(Lock::from_json(read.to_json().as_bytes()), Ok(read));
    }
}

#[test]
fn python_and_rust_have_the_same_commits() {
    let (one, two) = ("0123456789abcdef0123456789abcdef01234567", "f".repeat(64));
    let python = format!(
        r#"[{{"dependency": {{"repo-id": "org/one", "version": 1}}, "lock": {{"commit": "{one}"}}}},
            {{"dependency": {{"repo-id": "org/two", "revision": "main"}}, "lock": {{"commit": "{two}"}}}}]"#
    );
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("kernels.lock");
    fs::write(&file, &python).expect("a file");
    let repository = |name: &str| Repository::parse(name).expect("a repository");
    let [a, b] = [one, &two].map(|commit| Commit::parse(commit).expect("a commit"));
    let commits = read_python(&file).expect("commits");
    assert_eq!(
        commits,
        [
            (repository("org/one"), Revision::Version(1), a),
            (repository("org/two"), Revision::Name("main".into()), b),
        ]
    );
    fails(
        Lock::read(&file),
        "a lock of Hugging Face's kernels, which has no digests",
    );
    // What is locked here goes back.
    let zeros = "0".repeat(64);
    let entry = |repository: &str, revision: &str, commit: &str, variant: &str| {
        format!(
            r#"{{"name": "k", "repository": "{repository}", "revision": "{revision}", "commit": "{commit}",
            "variant": "{variant}", "contents": "{zeros}", "metadata": "{zeros}", "libraries": {{}}}}"#
        )
    };
    let entries = [
        entry("org/one", "v1", one, "a"),
        entry("org/one", "v1", one, "b"),
        entry("org/two", "main", &two, "a"),
    ];
    let lock = format!(r#"{{"format": 1, "packages": [{}]}}"#, entries.join(","));
    let lock = Lock::from_json(lock.as_bytes()).expect("a lock");
    let written: serde_json::Value = serde_json::from_str(&lock.to_python()).expect("JSON");
    assert_eq!(
        written,
        serde_json::from_str::<serde_json::Value>(&python).expect("JSON")
    );
    for (from, to, says) in [
        (
            "\"version\": 1",
            "\"version\": \"1\"",
            "[0].dependency.version: a whole number",
        ),
        ("\"version\": 1", "\"vers\": 1", "unknown field `vers`"),
        (
            "\"version\": 1",
            "\"version\": 1, \"revision\": \"a\"",
            "one of `version` and `revision`",
        ),
        (
            "org/one",
            "org",
            "[0].dependency: `org` is not a repository",
        ),
        (one, "0123", "[0].lock.commit: `0123` is not a commit"),
    ] {
        fs::write(&file, python.replacen(from, to, 1)).expect("a file");
        fails(read_python(&file), says);
    }
}
