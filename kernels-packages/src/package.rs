//! A package that was read and checked, and of which nothing has run.

use crate::binding::{self, Binding, Call};
use crate::digest::{Sum, content_id, hex, sha256};
use crate::elf;
use crate::error::Error;
use crate::folder::{find, read_files};
use crate::metadata::{self, Metadata};
use crate::repository::Origin;
use crate::variant::{Backend, Variant};
use kernels_io::{escape, read};
use std::fmt;
use std::path::Path;

/// A package: one variant of it, with the bytes of its libraries.
pub struct Package {
    pub(crate) origin: Origin,
    pub(crate) variant: Variant,
    pub(crate) metadata: Metadata,
    pub(crate) metadata_sum: Sum,
    id: Sum,
    pub(crate) libraries: Vec<Library>,
    pub(crate) bindings: Vec<Binding>,
}

/// A library that was checked.
pub struct Library {
    /// The name of the file in the variant.
    pub name: String,
    /// The SHA-256 of the file.
    pub sum: Sum,
    pub(crate) bytes: Vec<u8>,
    pub(crate) needs_runtime: bool,
    symbols: Vec<String>,
}

impl Package {
    /// Reads the package in a folder: `place/build/<variant>`, `place/<variant>`, or the variant itself.
    ///
    /// All files of the variant are read. None runs.
    ///
    /// # Errors
    /// Returns an error if no variant is the wanted one, if a file can't be read, if `metadata.json` says what is not
    /// so, if a digest is not that of its file, or if a library or `burn-kernels.json` is refused.
    pub fn open(place: &Path, wanted: &Variant) -> Result<Self, Error> {
        Self::of(place, wanted, Origin::Folder(place.to_owned()))
    }

    /// Reads the package in a folder that came from somewhere.
    pub(crate) fn of(place: &Path, wanted: &Variant, origin: Origin) -> Result<Self, Error> {
        let (folder, variant) = find(place, wanted)?;
        let file = folder.join(metadata::FILE);
        let json = read(&file, metadata::LIMIT)?;
        let wrong = |problem: String| Error::Malformed {
            file: file.clone(),
            problem,
        };
        let metadata = Metadata::from_json(&json).map_err(wrong)?;
        says_so(&metadata, &variant, &origin).map_err(wrong)?;
        let digest = metadata.digest.as_ref();
        let files = read_files(&folder, digest.map(|digest| digest.algorithm))?;
        if let Some(digest) = digest {
            digest.validate(&files.digests).map_err(wrong)?;
        }
        let sums = files.sums.iter().map(|(name, sum)| (name.as_str(), sum));
        let id = content_id(&variant.to_string(), sums);
        let mut libraries = Vec::new();
        for (name, bytes) in files.libraries {
            let facts = elf::check(&bytes, &variant.cpu, variant.backend);
            let facts = facts.map_err(|problem| Error::Malformed {
                file: folder.join(&name),
                problem,
            })?;
            libraries.push(Library {
                sum: files.sums[&name],
                name,
                bytes,
                needs_runtime: facts.needs_runtime,
                symbols: facts.symbols,
            });
        }
        if libraries.is_empty() {
            return Err(Error::Malformed {
                file: folder,
                problem: "the variant has no library, a file whose name ends in .so".into(),
            });
        }
        let npu = matches!(variant.backend, Backend::Cann { .. });
        let bindings = match &files.bindings {
            Some(json) => binding::read(json, npu),
            None => Ok(Vec::new()),
        };
        let bindings = bindings.map_err(|problem| Error::Malformed {
            file: folder.join(binding::FILE),
            problem,
        })?;
        let package = Self {
            origin,
            variant,
            metadata_sum: sha256(&json),
            metadata,
            id,
            libraries,
            bindings,
        };
        package
            .has_functions()
            .map_err(|problem| Error::Malformed {
                file: folder.join(binding::FILE),
                problem,
            })?;
        Ok(package)
    }

    /// Checks that each bound function is in one library.
    fn has_functions(&self) -> Result<(), String> {
        for symbol in self.bindings.iter().flat_map(symbols) {
            match self.libraries_with(symbol).count() {
                1 => {}
                0 => {
                    let functions: Vec<_> = self.functions().collect();
                    let functions: Vec<_> = functions.iter().map(String::as_str).take(50).collect();
                    return Err(crate::strict::unknown("function", symbol, &functions));
                }
                _ => return Err(format!("the function `{symbol}` is in several libraries")),
            }
        }
        Ok(())
    }

    pub(crate) fn libraries_with<'a>(
        &'a self,
        function: &str,
    ) -> impl Iterator<Item = &'a Library> {
        let symbol = format!("{}{function}", kernels_abi::PREFIX);
        (self.libraries.iter())
            .filter(move |library| library.symbols.binary_search(&symbol).is_ok())
    }

    /// Returns where the package comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the variant.
    pub fn variant(&self) -> &Variant {
        &self.variant
    }

    /// Returns what the package says about itself.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the SHA-256 of `metadata.json`.
    pub fn metadata_sum(&self) -> &Sum {
        &self.metadata_sum
    }

    /// Returns the id of the contents, see [`content_id`]. It does not depend on `metadata.json`.
    pub fn id(&self) -> &Sum {
        &self.id
    }

    /// Returns the libraries.
    pub fn libraries(&self) -> &[Library] {
        &self.libraries
    }

    /// Returns the operations that functions are bound to.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// Returns the names of all functions, without the prefix of their symbols.
    pub fn functions(&self) -> impl Iterator<Item = String> {
        let symbols = self.libraries.iter().flat_map(|library| &library.symbols);
        let names = symbols.filter_map(|symbol| symbol.strip_prefix(kernels_abi::PREFIX));
        // `__tvm_ffi__metadata_f` and the like are about functions.
        names
            .filter(|name| !name.starts_with('_'))
            .map(str::to_owned)
    }
}

/// Shows name, version, origin, variant and the beginning of the id, escaped, in one line.
impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Metadata { name, version, .. } = &self.metadata;
        let id = &hex(&self.id)[..16];
        write!(
            f,
            "{name} v{version} ({}, {}, {id})",
            self.origin,
            escape(&self.variant.to_string())
        )
    }
}

impl fmt::Debug for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Library {
    /// Returns `true` if the library needs `libtvm_ffi.so`.
    pub fn needs_runtime(&self) -> bool {
        self.needs_runtime
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", escape(&self.name), hex(&self.sum))
    }
}

/// Returns the functions of a binding.
fn symbols(binding: &Binding) -> impl Iterator<Item = &str> {
    let calls = [Some(&binding.forward), binding.backward.as_ref()];
    calls.into_iter().flatten().flat_map(Call::symbols)
}

/// Checks what metadata says against what is known.
fn says_so(metadata: &Metadata, variant: &Variant, origin: &Origin) -> Result<(), String> {
    let (said, is) = (&metadata.backend.kind, variant.backend.name());
    if said != is {
        return Err(format!(
            "backend.type: `{}` is not that of the variant {variant}, `{is}`",
            metadata::short(said)
        ));
    }
    if let Some(wanted) = origin
        .version()
        .filter(|wanted| *wanted != metadata.version)
    {
        return Err(format!(
            "version: the package says {}, and is that of version {wanted}",
            metadata.version
        ));
    }
    if let Some(other) = metadata.kernel_depends.first() {
        return Err(format!(
            "kernel-depends: the package calls kernels of {}, which is not supported",
            metadata::short(&other.repo_id)
        ));
    }
    Ok(())
}
