//! Packages, libraries in C, and a library by hand.
#![allow(dead_code, missing_docs)] // Each program of tests uses a part.

use kernels_packages::{
    Algorithm, Backend, BackendInfo, Digest, Error, Metadata, Package, Variant,
};
use std::fs;
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

/// Compiles a library. Returns `None`, and says so, if there is no compiler.
pub fn compile(source: &str, options: &[&str]) -> Option<Vec<u8>> {
    if !cfg!(target_os = "linux") {
        println!("NOT CHECKED: libraries in C: packages are loaded on Linux alone");
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
        Err(error) => {
            println!("NOT CHECKED: libraries in C: cc does not run: {error}");
            None
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            Some(fs::read(&to).expect("a library"))
        }
    }
}

/// The types of DLPack and TVM-FFI in C, and kernels of tests.
pub const KERNELS: &str = include_str!("kernels.c");

/// A small library by hand, which nothing can run.
pub struct ByHand<'a> {
    pub needed: &'a [&'a str],
    pub soname: Option<&'a str>,
    pub functions: &'a [&'a str],
    /// Entries of the dynamic table.
    pub entries: &'a [(i64, u64)],
    pub machine: u16,
    pub kind: u16,
    pub segment: u32,
    pub stack: u32,
}

impl Default for ByHand<'_> {
    fn default() -> Self {
        let machine = match std::env::consts::ARCH {
            "aarch64" => 183,
            _ => 62,
        };
        Self {
            needed: &["libc.so.6"],
            soname: None,
            functions: &["f"],
            entries: &[],
            machine,
            kind: 3,
            segment: 6,
            stack: 6,
        }
    }
}

impl ByHand<'_> {
    pub fn bytes(&self) -> Vec<u8> {
        let mut strings = vec![0];
        let mut name = |text: &str| {
            let at = strings.len() as u64;
            strings.extend(text.bytes().chain([0]));
            at
        };
        let mut dynamic: Vec<(i64, u64)> =
            self.needed.iter().map(|needed| (1, name(needed))).collect();
        dynamic.extend(self.soname.map(|soname| (14, name(soname))));
        let mut symbols = vec![0; 24];
        for function in self.functions {
            let at = name(&format!("__tvm_ffi_{function}")) as u32;
            symbols.extend(at.to_le_bytes());
            symbols.extend([0x12, 0, 1, 0]); // a global function of the first section
            symbols.extend([0; 16]);
        }
        let count = 1 + self.functions.len() as u32;
        let mut hash = [1, count, 1].map(u32::to_le_bytes).concat();
        hash.resize(hash.len() + 4 * count as usize, 0);
        hash.resize(hash.len().next_multiple_of(8), 0);
        strings.resize(strings.len().next_multiple_of(8), 0);

        let start = 64 + 3 * 56;
        let at_hash = start + symbols.len() as u64;
        let at_strings = at_hash + hash.len() as u64;
        let at_dynamic = at_strings + strings.len() as u64;
        dynamic.extend([
            (4, at_hash),
            (5, at_strings),
            (6, start),
            (10, strings.len() as u64),
        ]);
        dynamic.extend(self.entries);
        dynamic.push((0, 0));
        let size = at_dynamic + 16 * dynamic.len() as u64;

        let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        bytes.extend([self.kind, self.machine].map(u16::to_le_bytes).concat());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend([0_u64, 64, 0].map(u64::to_le_bytes).concat());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend([64_u16, 56, 3, 64, 0, 0].map(u16::to_le_bytes).concat());
        for (kind, flags, offset, size) in [
            (1_u32, self.segment, 0, size),
            (2, 6, at_dynamic, 16 * dynamic.len() as u64),
            (0x6474_e551, self.stack, 0, 0),
        ] {
            bytes.extend([kind, flags].map(u32::to_le_bytes).concat());
            bytes.extend(
                [offset, offset, offset, size, size, 8]
                    .map(u64::to_le_bytes)
                    .concat(),
            );
        }
        bytes.extend(symbols);
        bytes.extend(hash);
        bytes.extend(strings);
        for (tag, value) in dynamic {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        assert_eq!(bytes.len() as u64, size);
        bytes
    }
}

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
