//! Implementations that a program adds before its first decision: functions of packages.

use super::{Implementation, KERNELS, KernelSpec};
use std::sync::{Mutex, PoisonError};

/// An implementation of a package.
pub(crate) struct Addition {
    /// The package, such as `org/rmsnorm`.
    pub(crate) package: &'static str,
    /// The version of the package.
    pub(crate) version: u32,
    /// The id of the linked kernel of the operation.
    pub(crate) kernel: &'static str,
    /// The implementation.
    pub(crate) implementation: Implementation,
}

/// The reason why implementations can't be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The kernels in force were asked for already.
    TooLate,
    /// This version of the package was added already.
    Twice,
    /// A kernel that is linked in has the package's name as its id.
    Taken,
}

/// What was added, until somebody asks for the kernels in force.
static ADDED: Mutex<Option<Vec<Addition>>> = Mutex::new(Some(Vec::new()));

/// Adds all implementations of one version of a package.
///
/// # Errors
/// Returns the reason if they can't be added. Then none is.
pub(crate) fn add(more: Vec<Addition>) -> Result<(), Refusal> {
    let mut added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    let added = added.as_mut().ok_or(Refusal::TooLate)?;
    let is_there = |one: &Addition| added.iter().any(|other| other.is_of_version_of(one));
    if more.iter().any(is_there) {
        return Err(Refusal::Twice);
    }
    if more
        .iter()
        .any(|one| KERNELS.iter().any(|kernel| kernel.id == one.package))
    {
        return Err(Refusal::Taken);
    }
    added.extend(more);
    Ok(())
}

/// Returns everything that was added. From then on, nothing can be.
pub(super) fn close() -> Vec<Addition> {
    let mut added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    added.take().unwrap_or_default()
}

impl Addition {
    fn is_of_version_of(&self, other: &Self) -> bool {
        (self.package, self.version) == (other.package, other.version)
    }
}

/// Returns the kernels with what was added, sorted by id: each implementation after those of the linked kernel of its
/// operation, and once more in a kernel of its package, which mappings name.
///
/// Such a kernel has the id `org/name@2`, and that of the newest version also `org/name`. If the version has
/// functions for several operations, `:` and the operation follow the name, as in `org/name:rms_norm@2`.
pub(super) fn extended(
    kernels: &[&'static KernelSpec],
    added: &[Addition],
) -> Vec<&'static KernelSpec> {
    let mut all = Vec::with_capacity(kernels.len());
    for &kernel in kernels {
        let of_kernel: Vec<_> = added.iter().filter(|one| one.kernel == kernel.id).collect();
        if of_kernel.is_empty() {
            all.push(kernel);
            continue;
        }
        let more = of_kernel.iter().map(|one| one.implementation);
        let both: Vec<_> = kernel.implementations.iter().copied().chain(more).collect();
        all.push(leaked(KernelSpec {
            implementations: both.leak(),
            ..*kernel
        }));
        let versions = of_kernel.chunk_by(|a, b| a.is_of_version_of(b));
        for version in versions {
            all.extend(of_version(kernel, version, added));
        }
    }
    all.sort_by_key(|spec| spec.id);
    all
}

/// Returns the kernels of one version of a package for one operation.
fn of_version(
    linked: &'static KernelSpec,
    version: &[&Addition],
    added: &[Addition],
) -> Vec<&'static KernelSpec> {
    let first = version[0];
    let has_others =
        (added.iter()).any(|one| one.is_of_version_of(first) && one.kernel != first.kernel);
    let is_newest =
        !(added.iter()).any(|one| one.package == first.package && one.version > first.version);
    let name = match has_others {
        true => format!("{}:{}", first.package, linked.op),
        false => first.package.to_owned(),
    };
    let implementations: Vec<_> = version.iter().map(|one| one.implementation).collect();
    let implementations: &'static [Implementation] = implementations.leak();
    let spec = |id: String| {
        leaked(KernelSpec {
            id: id.leak(),
            op: linked.op,
            version: first.version,
            summary: "functions of a package",
            krate: first.package,
            crate_version: first.version.to_string().leak(),
            replaces: None,
            implementations,
        })
    };
    let mut specs = vec![spec(format!("{name}@{}", first.version))];
    if is_newest {
        specs.push(spec(name));
    }
    specs
}

/// Keeps a kernel for as long as the program runs, as decisions do. It happens once.
fn leaked(spec: KernelSpec) -> &'static KernelSpec {
    Box::leak(Box::new(spec))
}
