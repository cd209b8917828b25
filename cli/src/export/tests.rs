use super::*;
use data_encoding::BASE64;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

const LINUX: System = System {
    name: "linux",
    end: "so",
};

fn library(bytes: &[u8]) -> Library {
    Library {
        bytes: bytes.to_vec(),
        machine: "x86_64",
        system: LINUX,
    }
}

fn metadata(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("metadata.json")).expect("metadata");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn metadata_has_the_digest_of_every_other_file() {
    let build = tempfile::tempdir().expect("a folder");
    package::write(build.path(), "torch-universal", &[library(b"one")]).expect("a package");
    let folder = build.path().join("torch-universal");
    let found = metadata(&folder);
    let digests = found["digest"]["files"].as_object().expect("digests");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .expect("files")
        .map(|entry| {
            entry
                .expect("a file")
                .file_name()
                .into_string()
                .expect("text")
        })
        .filter(|name| name != "metadata.json")
        .collect();
    names.sort();
    assert!(digests.keys().eq(&names));
    assert!(names.contains(&"_kernels_x86_64.so".to_owned()));
    for (name, digest) in digests {
        let bytes = fs::read(folder.join(name)).expect("a file");
        assert_eq!(*digest, BASE64.encode(&Sha256::digest(bytes)), "{name}");
    }
}

#[test]
fn contents_and_variants_have_ids_of_their_own() {
    let mut ids = Vec::new();
    for bytes in [b"one", b"two"] {
        let build = tempfile::tempdir().expect("a folder");
        for variant in ["torch-universal", "tvm-ffi01-cpu-x86_64-linux"] {
            package::write(build.path(), variant, &[library(bytes)]).expect("a package");
            let id = metadata(&build.path().join(variant))["id"].to_string();
            assert!(
                id.starts_with("\"_burn_kernels_") && !ids.contains(&id),
                "{id}"
            );
            ids.push(id);
        }
    }
}

/// Reads an archive from its end, as readers of zip files do.
fn archive(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let number = |at: usize, count: usize| {
        bytes[at..at + count]
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let end = bytes.len() - 22;
    assert_eq!(&bytes[end..end + 4], b"PK\x05\x06");
    let (count, size, mut at) = (
        number(end + 10, 2),
        number(end + 12, 4),
        number(end + 16, 4),
    );
    assert_eq!(at + size, end);
    let mut files = BTreeMap::new();
    for _ in 0..count {
        assert_eq!(&bytes[at..at + 4], b"PK\x01\x02");
        let (crc, size, name) = (number(at + 16, 4), number(at + 24, 4), number(at + 28, 2));
        let local = number(at + 42, 4);
        let text = |at: usize| String::from_utf8(bytes[at..at + name].to_vec()).expect("text");
        assert_eq!(&bytes[local..local + 4], b"PK\x03\x04");
        // All but the first fields and the last are the same in both headers.
        assert_eq!(bytes[local + 4..local + 30], bytes[at + 6..at + 32]);
        assert_eq!(text(local + 30), text(at + 46));
        let contents = bytes[local + 30 + name..][..size].to_vec();
        assert_eq!(crc, crc32fast::hash(&contents) as usize);
        files.insert(text(at + 46), contents);
        at += 46 + name;
    }
    files
}

#[test]
fn a_wheel_lists_its_files_and_says_which_glibc_it_needs() {
    let dist = tempfile::tempdir().expect("a folder");
    let library = library(b"GLIBC_2.9\0GLIBC_2.31\0GLIBC_2.4\0GLIBC_PRIVATE");
    wheel::write(dist.path(), &library).expect("a wheel");
    let name = wheel::name(&library);
    assert!(
        name.ends_with("-py3-none-manylinux_2_31_x86_64.whl"),
        "{name}"
    );
    let files = archive(&fs::read(dist.path().join(&name)).expect("a wheel"));
    let record = files
        .iter()
        .find(|(name, _)| name.ends_with(".dist-info/RECORD"));
    let record = str::from_utf8(record.expect("a record").1).expect("text");
    assert_eq!(record.lines().count(), files.len());
    for line in record.lines() {
        let [name, digest, size] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let bytes = &files[name];
        if name.ends_with("RECORD") {
            continue;
        }
        let expected = data_encoding::BASE64URL_NOPAD.encode(&Sha256::digest(bytes));
        assert_eq!(digest, format!("sha256={expected}"));
        assert_eq!(size, bytes.len().to_string());
    }
    assert_eq!(files["burn_kernels/_kernels_x86_64.so"], library.bytes);
    assert!(files.contains_key("burn_kernels/__init__.py"));
}

#[test]
fn other_files_are_refused_and_nothing_is_written() {
    let place = tempfile::tempdir().expect("a folder");
    let (text, out) = (place.path().join("text"), place.path().join("out"));
    fs::write(&text, "no library").expect("a file");
    let says = |library: &Path| {
        let error = run(&Args {
            out: out.clone(),
            library: vec![library.to_owned()],
        });
        format!("{:#}", error.expect_err("an error"))
    };
    assert!(says(&text).contains("must be a library"), "{}", says(&text));
    // A program with other symbols: this test.
    let own = std::env::current_exe().expect("this program");
    assert!(
        says(&own).contains("must be that of the crate kernels-export"),
        "{}",
        says(&own)
    );
    assert!(!out.exists());
    fs::create_dir(&out).expect("a folder");
    fs::write(out.join("file"), "").expect("a file");
    assert!(says(&text).contains("is not empty"), "{}", says(&text));
}
