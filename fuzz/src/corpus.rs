//! Files of inputs: the committed corpus, and the input that is being read.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target)
}

/// Every case of a target, in the order of the names.
///
/// # Panics
/// There is none.
pub(crate) fn load(target: &str) -> Vec<Vec<u8>> {
    let folder = folder(target);
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a readable corpus").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    let read = |path| fs::read(path).expect("a readable case");
    paths.iter().map(read).collect()
}

/// Keeps a bad input; returns its path.
pub(crate) fn keep(target: &str, input: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let path = folder(target).join(format!("found-{:016x}", hasher.finish()));
    match fs::write(&path, input) {
        Ok(()) => path.display().to_string(),
        Err(error) => format!("nothing ({}: {error}): {input:?}", path.display()),
    }
}

/// The file of the input that is being read. It stays when the process dies.
pub(crate) struct Running {
    path: PathBuf,
    file: File,
}

impl Running {
    pub(crate) fn create(target: &str) -> Self {
        let name = format!("kernels-fuzz-{}-{target}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = File::create(&path).expect("a writable folder for temporary files");
        Self { path, file }
    }

    pub(crate) fn path(&self) -> String {
        self.path.display().to_string()
    }

    pub(crate) fn note(&mut self, input: &[u8]) {
        let file = &mut self.file;
        let noted = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(input));
        noted.expect("a writable folder for temporary files");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
