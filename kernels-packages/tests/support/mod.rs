//! Packages, libraries in C, and a library by hand.
#![allow(dead_code, missing_docs, unused_imports)] // Each program of tests uses a part.

mod by_hand;

pub use by_hand::ByHand;

use kernels_packages::{
    Algorithm, Backend, BackendInfo, Digest, Error, Metadata, Package, Variant,
};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Returns the variant of this machine, which tests have packages for.
pub fn here() -> Variant {
    let mut variant = Variant::here(Backend::Cpu);
    variant.os = "linux".into();
    variant
}

pub fn metadata(files: &[(&str, &[u8])]) -> Metadata {
    let digests = files
        .iter()
        .map(|(name, bytes)| ((*name).to_owned(), Algorithm::Sha256.of(bytes)));
    Metadata {
        name: "test-kernels".into(),
        id: "_test_kernels_1".into(),
        version: 1,
        license: "MIT".into(),
        upstream: None,
        source: None,
        python_depends: vec!["tvm-ffi".into()],
        kernel_depends: vec![],
        backend: BackendInfo {
            kind: "cpu".into(),
            archs: None,
        },
        digest: Some(Digest {
            algorithm: Algorithm::Sha256,
            files: digests.collect(),
        }),
    }
}

/// Writes a variant with these files, and metadata with their digests.
pub fn write(build: &Path, variant: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let folder = build.join(variant);
    write_files(&folder, files);
    fs::write(folder.join("metadata.json"), metadata(files).to_json()).expect("metadata");
    folder
}

pub fn write_files(folder: &Path, files: &[(&str, &[u8])]) {
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }
}

/// Makes a package with these files for this machine.
pub fn package(files: &[(&str, &[u8])]) -> TempDir {
    let place = tempfile::tempdir().expect("a folder");
    write(&place.path().join("build"), &here().to_string(), files);
    place
}

pub fn open(place: &TempDir) -> Result<Package, Error> {
    Package::open(place.path(), &here())
}

#[track_caller]
pub fn fails<T>(result: Result<T, Error>, says: &str) {
    let error = match result {
        Ok(_) => panic!("no error, but one that says `{says}`"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains(says), "`{error}` does not say `{says}`");
    assert!(
        error.chars().all(|c| c == '\n' || !c.is_control()),
        "{error:?}"
    );
}

/// Says what a test leaves out. Unlike what `println!` prints, it is seen if the test passes.
pub fn not_checked(what: &str) {
    let line = format!("NOT CHECKED: {what}\n");
    std::io::stdout()
        .write_all(line.as_bytes())
        .expect("standard output");
}

/// Compiles a library. Returns `None`, with a message, on systems other than Linux.
///
/// # Panics
/// Panics without a C compiler.
pub fn compile(source: &str, options: &[&str]) -> Option<Vec<u8>> {
    if !cfg!(target_os = "linux") {
        not_checked("libraries in C: packages are loaded on Linux alone");
        return None;
    }
    let place = tempfile::tempdir().expect("a folder");
    let [from, to] = ["kernels.c", "kernels.so"].map(|name| place.path().join(name));
    fs::write(&from, source).expect("a source");
    let mut command = Command::new("cc");
    command
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .arg(&to)
        .arg(&from)
        .args(options);
    match command.output() {
        // It also linked this program.
        Err(error) => panic!("cc does not run: {error}"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            Some(fs::read(&to).expect("a library"))
        }
    }
}

/// The types of DLPack and TVM-FFI in C, and kernels of tests.
pub const KERNELS: &str = include_str!("kernels.c");

/// Numbers that a seed repeats.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, most: usize) -> usize {
        // Knuth's generator, whose upper bits are good.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most.max(1)
    }

    /// Changes, cuts or repeats bytes.
    pub fn mutate(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..1 + self.below(4) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => bytes.truncate(at),
                1 if !bytes.is_empty() => {
                    bytes[at] = [0, 0xff, 0x7f, b'"', b'}', 0x1b][self.below(6)]
                }
                2 => {
                    let end = (at + self.below(16)).min(bytes.len());
                    let part = bytes[at.min(end)..end].to_vec();
                    bytes.splice(at..at, part);
                }
                _ if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                _ => {}
            }
        }
        bytes
    }
}
