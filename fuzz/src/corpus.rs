//! Files of inputs: the committed corpus, and the current input.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target)
}

/// Returns every case of a target, in the order of their names.
///
/// # Panics
/// Panics if the corpus is missing, empty or unreadable.
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

/// Writes a bad input to the corpus and returns its path.
pub(crate) fn keep(target: &str, input: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let path = folder(target).join(format!("found-{:016x}", hasher.finish()));
    match fs::write(&path, input) {
        Ok(()) => path.display().to_string(),
        Err(error) => format!("nothing ({}: {error}): {input:?}", path.display()),
    }
}

/// The file that holds the current input. It stays if the process dies.
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
