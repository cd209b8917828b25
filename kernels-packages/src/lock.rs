//! `burn-kernels.lock`: the packages of a program, byte for byte.
//!
//! ```json
//! {
//!   "format": 1,
//!   "packages": [
//!     {
//!       "name": "rms-norm",
//!       "repository": "org/rms-norm",
//!       "revision": "v1",
//!       "commit": "0123456789abcdef0123456789abcdef01234567",
//!       "variant": "tvm-ffi01-cpu-x86_64-linux",
//!       "contents": "<the id of the contents>",
//!       "metadata": "<SHA-256 of metadata.json>",
//!       "libraries": {"_rms_norm.so": "<SHA-256>"}
//!     }
//!   ]
//! }
//! ```
//!
//! A package of a folder has no `repository`, `revision` and `commit`, and is known by its name. `contents` is the id
//! that [`content_id`](crate::content_id) computes, which covers every file but `metadata.json`.
//!
//! `kernels.lock` of Hugging Face's `kernels` has repositories and commits, and no digests: it refuses other fields.
//! So the two files are side by side. [`read_python`] takes the commits of one, and [`Lock::to_python`] writes it.

use crate::digest::{Sum, hex};
use crate::error::Error;
use crate::package::Package;
use crate::repository::{Commit, Origin, Repository, Revision};
use crate::strict::{Fields, parse};
use crate::variant::Variant;
use data_encoding::HEXLOWER;
use kernels_io::{Limit, read, write_whole};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The usual name of the file.
pub const FILE: &str = "burn-kernels.lock";

const LIMIT: Limit = Limit::mib("a lock", 4);
const MOST: usize = 10_000;
const FORMAT: u64 = 1;

/// The packages of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lock {
    packages: Vec<Locked>,
}

/// A package in a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Locked {
    /// The name of the package.
    pub name: String,
    /// The repository with the revision that was asked for and its commit. `None` for a folder.
    pub source: Option<(Repository, Revision, Commit)>,
    /// The variant.
    pub variant: String,
    /// The id of the contents.
    pub contents: Sum,
    /// The SHA-256 of `metadata.json`.
    pub metadata: Sum,
    /// The SHA-256 of each library.
    pub libraries: BTreeMap<String, Sum>,
}

impl Lock {
    /// Reads a lock.
    ///
    /// # Errors
    /// Returns an error that names the field, also if the file is one of Python's.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let json = read(path, LIMIT)?;
        Self::from_json(&json).map_err(|problem| Error::Malformed {
            file: path.into(),
            problem,
        })
    }

    /// Reads a lock from JSON.
    ///
    /// # Errors
    /// Returns what is wrong with which field.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        let root = parse(json)?;
        if root.is_array() {
            return Err(format!(
                "this is a lock of Hugging Face's kernels, which has no digests; lock the packages into {FILE}"
            ));
        }
        let fields = Fields::of(&root, "the file", &["format", "packages"])?;
        let format = fields.count("format")?;
        if format != FORMAT {
            return Err(format!(
                "format {format} is not supported: this release reads format {FORMAT}"
            ));
        }
        let mut packages = Vec::<Locked>::new();
        for (i, value) in fields.list("packages", MOST)?.iter().enumerate() {
            let place = format!("packages[{i}]");
            let locked = read_locked(value, &place)?;
            if packages.iter().any(|other| other.replaces(&locked)) {
                return Err(format!("{place}: the package is there already"));
            }
            packages.push(locked);
        }
        Ok(Self { packages })
    }

    /// Returns the lock as JSON.
    pub fn to_json(&self) -> String {
        let packages: Vec<_> = self.packages.iter().map(Locked::to_json).collect();
        format!("{:#}\n", json!({"format": FORMAT, "packages": packages}))
    }

    /// Writes the lock, completely or not at all.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        Ok(write_whole(path, self.to_json().as_bytes())?)
    }

    /// Returns the packages.
    pub fn packages(&self) -> &[Locked] {
        &self.packages
    }

    /// Adds a package as it is, in the place of an earlier state of it.
    pub fn add(&mut self, package: &Package) {
        let locked = Locked::of(package);
        self.packages.retain(|other| !other.replaces(&locked));
        self.packages.push(locked);
    }

    /// Returns the commit of a repository that is locked for a revision and a variant.
    pub fn commit(
        &self,
        repository: &Repository,
        revision: &Revision,
        variant: &Variant,
    ) -> Option<&Commit> {
        let variant = variant.to_string();
        self.packages.iter().find_map(|locked| {
            let (own, of, commit) = locked.source.as_ref()?;
            (own == repository && of == revision && locked.variant == variant).then_some(commit)
        })
    }

    /// Checks that the package is in the lock, with the same bytes.
    ///
    /// # Errors
    /// Returns an error that says what differs.
    pub fn check(&self, package: &Package) -> Result<(), Error> {
        let refused = |problem: String| {
            Err(Error::Refused {
                package: package.to_string(),
                problem,
            })
        };
        let is = Locked::of(package);
        let Some(locked) = self.packages.iter().find(|locked| locked.replaces(&is)) else {
            return refused("the lock does not have this package; lock it first".into());
        };
        if locked.source != is.source {
            return refused("the lock has another commit of this package".into());
        }
        if locked.metadata != is.metadata {
            return refused("metadata.json is not the one in the lock".into());
        }
        for (name, sum) in &is.libraries {
            if locked.libraries.get(name) != Some(sum) {
                return refused(format!("{name} is not the library in the lock"));
            }
        }
        match *locked == is {
            true => Ok(()),
            false => refused("the files of the package are not those in the lock".into()),
        }
    }

    /// Returns the commits as a `kernels.lock` of Hugging Face's `kernels`, which has one for each repository and
    /// revision.
    pub fn to_python(&self) -> String {
        let mut entries = Vec::new();
        for (repository, revision, commit) in self
            .packages
            .iter()
            .filter_map(|locked| locked.source.as_ref())
        {
            let mut dependency = json!({"repo-id": repository.to_string()});
            match revision {
                Revision::Version(version) => dependency["version"] = json!(version),
                Revision::Name(name) => dependency["revision"] = json!(name),
            }
            let entry = json!({"dependency": dependency, "lock": {"commit": commit.as_str()}});
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        format!("{:#}\n", Value::Array(entries))
    }
}

/// Reads the commits of a `kernels.lock` of Hugging Face's `kernels`.
///
/// # Errors
/// Returns an error that names the field.
pub fn read_python(path: &Path) -> Result<Vec<(Repository, Revision, Commit)>, Error> {
    let json = read(path, LIMIT)?;
    let read = || {
        let root = parse(&json)?;
        let list = root.as_array().filter(|list| list.len() <= MOST);
        let list = list.ok_or("a list of dependencies is expected")?;
        let one = |(i, value)| read_python_entry(value, &format!("[{i}]"));
        list.iter()
            .enumerate()
            .map(one)
            .collect::<Result<Vec<_>, String>>()
    };
    read().map_err(|problem| Error::Malformed {
        file: path.into(),
        problem,
    })
}

fn read_python_entry(value: &Value, place: &str) -> Result<(Repository, Revision, Commit), String> {
    let fields = Fields::of(value, place, &["dependency", "lock"])?;
    let place = fields.place("dependency");
    let dependency = Fields::of(
        fields.required("dependency")?,
        &place,
        &["repo-id", "version", "revision"],
    )?;
    let revision = match (
        dependency.optional("version"),
        dependency.optional("revision"),
    ) {
        (Some(_), None) => Revision::Version(dependency.count("version")?),
        (None, Some(_)) => in_field(Revision::parse(dependency.text("revision")?), &place)?,
        _ => {
            return Err(format!(
                "{place}: one of `version` and `revision` is expected"
            ));
        }
    };
    let lock = Fields::of(fields.required("lock")?, &fields.place("lock"), &["commit"])?;
    Ok((
        in_field(Repository::parse(dependency.text("repo-id")?), &place)?,
        revision,
        in_field(Commit::parse(lock.text("commit")?), &lock.place("commit"))?,
    ))
}

fn in_field<T>(read: Result<T, Error>, place: &str) -> Result<T, String> {
    read.map_err(|error| format!("{place}: {error}"))
}

impl Locked {
    fn of(package: &Package) -> Self {
        let source = match &package.origin {
            Origin::Folder(_) => None,
            Origin::Repository {
                repository,
                revision,
                commit,
            } => Some((repository.clone(), revision.clone(), commit.clone())),
        };
        let libraries = package.libraries.iter();
        Self {
            name: package.metadata.name.clone(),
            source,
            variant: package.variant.to_string(),
            contents: *package.id(),
            metadata: package.metadata_sum,
            libraries: libraries
                .map(|library| (library.name.clone(), library.sum))
                .collect(),
        }
    }

    /// Returns `true` if both are states of one package: of a repository and a revision, or of a folder's package by
    /// name.
    fn replaces(&self, other: &Self) -> bool {
        let of = |locked: &Self| {
            let source = locked.source.clone();
            source.map(|(repository, revision, _)| (repository, revision))
        };
        let same = match (of(self), of(other)) {
            (None, None) => self.name == other.name,
            (a, b) => a == b,
        };
        same && self.variant == other.variant
    }

    fn to_json(&self) -> Value {
        let libraries = self
            .libraries
            .iter()
            .map(|(name, sum)| (name.clone(), hex(sum).into()));
        let mut locked = json!({
            "name": self.name,
            "variant": self.variant,
            "contents": hex(&self.contents),
            "metadata": hex(&self.metadata),
            "libraries": Map::from_iter(libraries),
        });
        if let Some((repository, revision, commit)) = &self.source {
            locked["repository"] = repository.to_string().into();
            locked["revision"] = revision.to_string().into();
            locked["commit"] = commit.as_str().into();
        }
        locked
    }
}

fn read_locked(value: &Value, place: &str) -> Result<Locked, String> {
    const KNOWN: &[&str] = &[
        "name",
        "repository",
        "revision",
        "commit",
        "variant",
        "contents",
        "metadata",
        "libraries",
    ];
    let fields = Fields::of(value, place, KNOWN)?;
    let source = match fields.optional("repository") {
        None => match fields.optional("commit").or(fields.optional("revision")) {
            None => None,
            Some(_) => return Err(format!("{place}: the field `repository` is missing")),
        },
        Some(_) => Some((
            in_field(Repository::parse(fields.text("repository")?), place)?,
            in_field(Revision::parse(fields.text("revision")?), place)?,
            in_field(Commit::parse(fields.text("commit")?), place)?,
        )),
    };
    let Some(libraries) = fields.required("libraries")?.as_object() else {
        return Err(format!(
            "{}: an object is expected",
            fields.place("libraries")
        ));
    };
    let libraries = libraries.iter().map(|(name, value)| {
        let place = format!("{}.{name}", fields.place("libraries"));
        Ok((
            name.clone(),
            sum(value.as_str().unwrap_or_default(), &place)?,
        ))
    });
    Ok(Locked {
        name: fields.text("name")?.into(),
        source,
        variant: fields.text("variant")?.into(),
        contents: sum(fields.text("contents")?, &fields.place("contents"))?,
        metadata: sum(fields.text("metadata")?, &fields.place("metadata"))?,
        libraries: libraries.collect::<Result<_, String>>()?,
    })
}

fn sum(text: &str, place: &str) -> Result<Sum, String> {
    let decoded = HEXLOWER.decode(text.as_bytes()).ok();
    let sum = decoded.and_then(|bytes| bytes.try_into().ok());
    sum.ok_or_else(|| format!("{place}: 64 hexadecimal digits are expected"))
}
