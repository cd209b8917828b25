//! Metadata and digests.

use crate::support::{ByHand, Random, fails, here, metadata, open, package, write_files};
use kernels_packages::{Algorithm, Metadata, Package, content_id};
use std::fs;
use tempfile::TempDir;

fn library() -> Vec<u8> {
    ByHand::default().bytes()
}

/// Changes the metadata of a package.
fn say(place: &TempDir, change: impl FnOnce(&mut serde_json::Value)) {
    let file = variant(place).join("metadata.json");
    let mut json = serde_json::from_slice(&fs::read(&file).expect("metadata")).expect("JSON");
    change(&mut json);
    fs::write(file, json.to_string()).expect("metadata");
}

fn variant(place: &TempDir) -> std::path::PathBuf {
    place.path().join("build").join(here().to_string())
}

#[test]
fn a_package_is_what_its_digest_says() {
    let files = [
        ("__init__.py", &b"import sys"[..]),
        ("_k.so", &library()),
        ("sub/data", b"1"),
    ];
    let place = package(&files);
    // The digest covers none of these.
    write_files(
        &variant(&place),
        &[("a.pyc", b""), ("__pycache__/b.so", b"")],
    );
    let first = open(&place).expect("a package");
    assert_eq!(first.metadata().name, "test-kernels");
    assert_eq!(first.libraries().len(), 1);
    let sums = first.libraries()[0].sum;
    assert_eq!(Algorithm::Sha256.of(&library()), base64(&sums));
    // The id is that of the contents, whatever metadata says.
    say(&place, |json| json["id"] = "other".into());
    assert_eq!(open(&place).expect("a package").id(), first.id());

    let folder = variant(&place);
    for (name, bytes, says) in [
        (
            "_k.so",
            &b"\x7fELF"[..],
            "_k.so is not the file whose digest",
        ),
        ("sub/data", b"2", "sub/data is not the file whose digest"),
        ("more.py", b"", "metadata.json has no digest of more.py"),
    ] {
        let before = fs::read(folder.join(name)).ok();
        fs::write(folder.join(name), bytes).expect("a file");
        fails(open(&place), says);
        match before {
            Some(before) => fs::write(folder.join(name), before),
            None => fs::remove_file(folder.join(name)),
        }
        .expect("a file");
    }
    fs::remove_file(folder.join("__init__.py")).expect("a file");
    fails(
        open(&place),
        "__init__.py, whose digest metadata.json has, is missing",
    );
    say(&place, |json| json["digest"] = serde_json::Value::Null);
    assert_ne!(open(&place).expect("a package").id(), first.id());
}

fn base64(sum: &[u8; 32]) -> String {
    data_encoding::BASE64.encode(sum)
}

#[test]
fn metadata_that_lies_is_refused() {
    type Change = fn(&mut serde_json::Value);
    let cases: [(Change, &str); 13] = [
        (
            |json| json["backend"]["type"] = "cann".into(),
            "backend.type: `cann` is not that of the variant",
        ),
        (
            |json| json["name"] = "Test".into(),
            "name: `Test` must have lower-case",
        ),
        (|json| json["name"] = "a".into(), "name: `a` must"),
        (
            |json| json["name"] = "a-\u{1b}[2J".into(),
            "name: `a-\\u{1b}[2J` must",
        ),
        (
            |json| json["id"] = "1 2".into(),
            "id: `1 2` must be the name of a module",
        ),
        (|json| json["id"] = "".into(), "id: `` must"),
        (
            |json| json["version"] = (-1).into(),
            "invalid value: integer `-1`",
        ),
        (
            |json| json["license"] = serde_json::Value::Null,
            "invalid type: null",
        ),
        (
            |json| {
                drop(
                    json.as_object_mut()
                        .expect("an object")
                        .remove("python-depends"),
                )
            },
            "missing field `python-depends`",
        ),
        (
            |json| json["digest"]["algorithm"] = "md5".into(),
            "unknown variant `md5`",
        ),
        (
            |json| json["digest"]["files"]["_k.so"] = "AAAA".into(),
            "digest: `AAAA` of _k.so is not 32 bytes",
        ),
        (
            |json| json["digest"]["algorithm"] = "sha512".into(),
            "is not 64 bytes",
        ),
        (
            |json| json["kernel-depends"] = serde_json::json!([{"repo-id": "a/b", "version": 1}]),
            "kernel-depends: the package calls kernels of a/b",
        ),
    ];
    for (change, says) in cases {
        let place = package(&[("_k.so", &library())]);
        say(&place, change);
        fails(open(&place), says);
    }
    // Python's loader ignores unknown fields as well.
    let place = package(&[("_k.so", &library())]);
    say(&place, |json| {
        json["provenance"] = serde_json::json!({"kernel-builder": {}})
    });
    open(&place).expect("a package");
    let name = variant(&place).join("metadata.json");
    fs::remove_file(&name).expect("metadata");
    fails(open(&place), "metadata.json: cannot");
    fs::write(&name, "{").expect("metadata");
    fails(open(&place), "EOF while parsing");
}

#[test]
fn digests_of_512_bits_are_compared_too() {
    let bytes = library();
    let place = package(&[("_k.so", &bytes)]);
    let digest = Algorithm::Sha512.of(&bytes);
    say(
        &place,
        |json| {
            json["digest"] = serde_json::json!({"algorithm": "sha512", "files": {"_k.so": digest}})
        },
    );
    open(&place).expect("a package");
    fs::write(
        variant(&place).join("_k.so"),
        ByHand {
            functions: &["g"],
            ..ByHand::default()
        }
        .bytes(),
    )
    .expect("a file");
    fails(open(&place), "_k.so is not the file whose digest");
}

#[test]
fn folders_that_digests_do_not_cover_are_refused() {
    let place = package(&[("_k.so", &library())]);
    #[cfg(unix)]
    {
        let other = tempfile::tempdir().expect("a folder");
        let link = variant(&place).join("linked");
        std::os::unix::fs::symlink(other.path(), &link).expect("a link");
        fails(open(&place), "linked: this is a link to a folder");
        fs::remove_file(link).expect("a link");
    }
    let deep = "a/".repeat(12) + "b";
    write_files(&variant(&place), &[(&deep, b"")]);
    fails(open(&place), "may be 8 deep");
}

#[test]
fn a_package_without_a_library_is_none() {
    fails(
        open(&package(&[("__init__.py", b"")])),
        "the variant has no library",
    );
    fails(
        open(&package(&[("_k.so", b"text")])),
        "_k.so: this is not an ELF library",
    );
}

#[test]
fn metadata_is_what_python_reads() {
    let written = metadata(&[("a", b"1")]);
    let read = Metadata::from_json(written.to_json().as_bytes()).expect("metadata");
    assert_eq!(read, written);
    let json: serde_json::Value = serde_json::from_str(&written.to_json()).expect("JSON");
    assert_eq!(json["python-depends"], serde_json::json!(["tvm-ffi"]));
    // Of Hugging Face's own validator, for a file `a` with the byte 1.
    assert_eq!(
        json["digest"]["files"]["a"],
        "a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s="
    );
    assert_eq!(content_id("a", []), content_id("a", []));
    assert_ne!(
        content_id("a", [("b", &[0; 32])]),
        content_id("a", [("c", &[0; 32])])
    );
    // The bytes `a` and `b` alone do not say where the name of the variant ends.
    assert_ne!(
        content_id("a", [("b", &[0; 32])]),
        content_id("ab", [("", &[0; 32])])
    );
}

#[test]
fn mutated_metadata_never_panics() {
    let json = metadata(&[("_k.so", b"1")]).to_json();
    let mut random = Random(7);
    let mut read = 0;
    for _ in 0..5000 {
        let bytes = random.mutate(json.as_bytes());
        match Metadata::from_json(&bytes) {
            Ok(metadata) => {
                read += 1;
                Metadata::from_json(metadata.to_json().as_bytes()).expect("what was read");
            }
            Err(problem) => assert!(problem.len() < 2000, "{problem}"),
        }
    }
    assert!((10..4990).contains(&read), "{read}");
    let place = package(&[("_k.so", &library())]);
    assert!(Package::open(place.path(), &here()).is_ok());
}
