//! The files of a variant's folder, each read once.

use crate::digest::{Algorithm, Sum, sha256};
use crate::error::Error;
use crate::variant::{Decision, Variant, decide};
use crate::{binding, metadata};
use kernels_io::{FileError, Limit, escape_path, is_there, read};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The largest library, and the largest file beside it.
const LIBRARY: Limit = Limit::mib("a library of a package", 512);
const OTHER: Limit = Limit::mib("a file of a package", 512);

/// The most bytes of all files, the most files and the deepest folder of a variant.
pub(crate) const MOST_BYTES: u64 = 2 << 30;
const MOST_FILES: usize = 4096;
const DEEPEST: usize = 8;

/// The files of a variant.
#[derive(Default)]
pub(crate) struct Files {
    /// The SHA-256 of each file that the digest covers.
    pub(crate) sums: BTreeMap<String, Sum>,
    /// The digest of each in the wanted form.
    pub(crate) digests: BTreeMap<String, String>,
    /// The contents of the libraries.
    pub(crate) libraries: Vec<(String, Vec<u8>)>,
    /// The contents of `burn-kernels.json`.
    pub(crate) bindings: Option<Vec<u8>>,
    total: u64,
}

/// A folder that may be a variant.
struct Candidate {
    folder: PathBuf,
    decision: Decision,
    /// The variant, if it is the wanted one.
    variant: Option<Variant>,
}

/// Returns the folder of the variant that is wanted, in `place`, in `place/build`, or `place` itself, as Python's
/// loader does.
///
/// # Errors
/// Returns an error if there is no such folder. It has the reason against each one.
pub(crate) fn find(place: &Path, wanted: &Variant) -> Result<(PathBuf, Variant), Error> {
    let mut refused = Vec::new();
    for candidate in candidates(place, wanted)? {
        let Candidate {
            folder,
            decision: Decision { name, against },
            variant,
        } = candidate;
        match variant {
            Some(variant) => return Ok((folder, variant)),
            None => refused.push((name, against.unwrap_or_default())),
        }
    }
    Err(Error::NoVariant {
        place: escape_path(place),
        wanted: wanted.to_string(),
        variants: refused,
    })
}

/// Decides about each variant of the package in a folder: of those in `place` and in `place/build`, or of `place`
/// itself. One that is in both is that in `place`.
///
/// No file is read.
///
/// # Errors
/// Returns an error if a folder can't be listed.
pub fn variants(place: &Path, wanted: &Variant) -> Result<Vec<Decision>, Error> {
    let found = candidates(place, wanted)?.into_iter();
    Ok(found.map(|candidate| candidate.decision).collect())
}

fn candidates(place: &Path, wanted: &Variant) -> Result<Vec<Candidate>, Error> {
    let mut found = Vec::<Candidate>::new();
    for base in [place.to_owned(), place.join("build")] {
        let names = folders(&base)?;
        for (decision, variant) in decide(names.iter().map(String::as_str), wanted) {
            let name = &decision.name;
            // The folder beside build/ has folders that are no variants. Of one variant in both, the first is taken.
            let is_other = base == place && Variant::parse(name).is_err() && !looks_like_one(name);
            if is_other || found.iter().any(|other| other.decision.name == *name) {
                continue;
            }
            found.push(Candidate {
                folder: base.join(name),
                decision,
                variant,
            });
        }
    }
    let is_found = found.iter().any(|candidate| candidate.variant.is_some());
    match !is_found && is_there(&place.join(metadata::FILE)) {
        true => itself(place, wanted),
        false => Ok(found),
    }
}

/// Takes the folder itself for a variant, whose name must say so.
fn itself(place: &Path, wanted: &Variant) -> Result<Vec<Candidate>, Error> {
    let real = fs::canonicalize(place).map_err(|source| io("open", place, source))?;
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let decisions = decide([&*name], wanted).into_iter();
    let candidate = |(decision, variant)| Candidate {
        folder: place.to_owned(),
        decision,
        variant,
    };
    Ok(decisions.map(candidate).collect())
}

fn looks_like_one(name: &str) -> bool {
    name.starts_with("torch") || name.starts_with("tvm-ffi")
}

/// Returns the names of the folders in a folder, none if it does not exist.
pub(crate) fn folders(base: &Path) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    if !is_there(base) {
        return Ok(names);
    }
    for entry in list(base)? {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        too_many(names.len(), base)?;
    }
    Ok(names)
}

/// Reads the files of a variant.
///
/// # Errors
/// Returns an error if a file can't be read or is too large, there are too many, or a folder is a link: the digest
/// does not cover what is in it.
pub(crate) fn read_files(folder: &Path, algorithm: Option<Algorithm>) -> Result<Files, Error> {
    let mut files = Files::default();
    walk(folder, "", 0, algorithm, &mut files)?;
    Ok(files)
}

fn walk(
    folder: &Path,
    prefix: &str,
    depth: usize,
    algorithm: Option<Algorithm>,
    files: &mut Files,
) -> Result<(), Error> {
    let wrong = |file: PathBuf, problem: &str| {
        let problem = problem.to_owned();
        Err(Error::Malformed { file, problem })
    };
    if depth > DEEPEST {
        return wrong(folder.into(), "the folders of a package may be 8 deep");
    }
    for entry in list(folder)? {
        let path = entry.path();
        let Ok(name) = entry.file_name().into_string() else {
            return wrong(path, "the name is not UTF-8");
        };
        if name.contains('\\') {
            return wrong(
                path,
                "the name has a backslash, which separates folders elsewhere",
            );
        }
        let kind = entry
            .file_type()
            .map_err(|source| io("open", &path, source))?;
        let full = format!("{prefix}{name}");
        if kind.is_dir() {
            if name != "__pycache__" {
                walk(&path, &format!("{full}/"), depth + 1, algorithm, files)?;
            }
            continue;
        }
        if kind.is_symlink() && path.is_dir() {
            return wrong(
                path,
                "this is a link to a folder, which digests do not cover; put the folder in its place",
            );
        }
        if full == metadata::FILE || name.ends_with(".pyc") {
            continue;
        }
        too_many(files.sums.len(), folder)?;
        let is_library = name.ends_with(".so");
        let limit = match full.as_str() {
            binding::FILE => binding::LIMIT,
            _ if is_library => LIBRARY,
            _ => OTHER,
        };
        let bytes = read(&path, limit)?;
        files.total += bytes.len() as u64;
        if files.total > MOST_BYTES {
            return wrong(path, "the files of a package may have 2 GiB together");
        }
        files.sums.insert(full.clone(), sha256(&bytes));
        if let Some(algorithm) = algorithm {
            files.digests.insert(full.clone(), algorithm.of(&bytes));
        }
        if is_library {
            files.libraries.push((full, bytes));
        } else if full == binding::FILE {
            files.bindings = Some(bytes);
        }
    }
    files.libraries.sort();
    Ok(())
}

fn too_many(count: usize, folder: &Path) -> Result<(), Error> {
    match count < MOST_FILES {
        true => Ok(()),
        false => Err(Error::Malformed {
            file: folder.into(),
            problem: format!("a package may have at most {MOST_FILES} files"),
        }),
    }
}

pub(crate) fn list(folder: &Path) -> Result<Vec<fs::DirEntry>, Error> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect);
    entries.map_err(|source| io("list", folder, source))
}

fn io(action: &'static str, file: &Path, source: std::io::Error) -> Error {
    let file = file.to_owned();
    FileError::Io {
        file,
        action,
        source,
    }
    .into()
}
