//! The choice of the kernel for an id that several crates register.

use super::declare::is_id;
use super::{KERNELS, KernelSpec};
use std::fmt;
use std::sync::OnceLock;
use thiserror::Error;

/// All problems of the kernels that are linked into a program.
#[derive(Clone, PartialEq, Eq, Error)]
pub struct RegistryError {
    problems: Vec<RegistryProblem>,
}

impl RegistryError {
    /// Returns the problems, in the order of the ids.
    pub fn problems(&self) -> &[RegistryProblem] {
        &self.problems
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kernels of this program don't go together")?;
        for problem in &self.problems {
            write!(f, "; {problem}")?;
        }
        Ok(())
    }
}

/// A problem of the registered kernels. A crate is named with its version.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum RegistryProblem {
    /// Two kernels of the same id, neither of which replaces the other.
    #[error(
        "kernel `{id}` is registered by {first} and by {second}: rename one, or let one say \
         `replaces: Some(\"package of the other\")`"
    )]
    Duplicate {
        /// The id.
        id: &'static str,
        /// A crate that registers it.
        first: String,
        /// Another one.
        second: String,
    },
    /// Kernels of the same id that replace one another in a circle.
    #[error("the kernels `{id}` of {crates} replace one another: one must stay")]
    Circle {
        /// The id.
        id: &'static str,
        /// The crates.
        crates: String,
    },
    /// A kernel that replaces one that does not exist.
    #[error(
        "kernel `{id}` of {krate} replaces the one of {replaces}, which registers no such kernel"
    )]
    ReplacesNothing {
        /// The id.
        id: &'static str,
        /// The crate that registers it.
        krate: String,
        /// The package it names.
        replaces: &'static str,
    },
    /// An implementation with the launch of another operation.
    #[error(
        "implementation `{implementation}` of kernel `{id}` of {krate} has a launch that does not \
         belong to operation `{op}`"
    )]
    Launch {
        /// The id.
        id: &'static str,
        /// The crate that registers it.
        krate: String,
        /// The implementation.
        implementation: &'static str,
        /// The kernel's operation.
        op: &'static str,
    },
    /// An id that policies can't name.
    #[error("invalid kernel id `{id}` of {krate}: ids have letters, digits, `_` and `-`")]
    Id {
        /// The id.
        id: &'static str,
        /// The crate that registers it.
        krate: String,
    },
}

type Specs = Vec<&'static KernelSpec>;

/// Returns the kernels in force, sorted by id, or the problems. The result is computed once, because the linked kernels
/// do not change. From then on, nothing can be added.
fn resolved() -> &'static Result<Specs, RegistryError> {
    static RESOLVED: OnceLock<Result<Specs, RegistryError>> = OnceLock::new();
    RESOLVED.get_or_init(resolve_all)
}

#[cfg(not(feature = "packages"))]
fn resolve_all() -> Result<Specs, RegistryError> {
    resolve(&KERNELS)
}

#[cfg(feature = "packages")]
fn resolve_all() -> Result<Specs, RegistryError> {
    let added = super::added::close();
    resolve(&KERNELS).map(|kernels| super::added::extended(&kernels, &added))
}

/// Checks that the registry of kernels is consistent.
///
/// [`init`](crate::init), plans and the first decision of every site make the same check.
///
/// # Errors
/// Returns an error if two crates register the same id and neither replaces the other, or if a kernel is malformed.
pub fn check() -> Result<(), RegistryError> {
    resolved().as_ref().map(|_| ()).map_err(Clone::clone)
}

/// Returns every kernel in force, sorted by id. If [`check`] fails, returns every kernel that is linked in.
pub fn kernels() -> impl Iterator<Item = &'static KernelSpec> {
    let kernels = match resolved() {
        Ok(kernels) => kernels.clone(),
        Err(_) => sorted(&KERNELS),
    };
    kernels.into_iter()
}

/// Returns every replaced kernel, together with the one that replaces it.
pub fn replaced() -> impl Iterator<Item = (&'static KernelSpec, &'static KernelSpec)> {
    sorted(&KERNELS).into_iter().filter_map(|spec| {
        let winner = kernel(spec.id)?;
        // A kernel to which packages added implementations is a copy of the linked one.
        let is_winner = (spec.krate, spec.crate_version) == (winner.krate, winner.crate_version);
        (!is_winner).then_some((spec, winner))
    })
}

/// Returns the kernel in force under `id`. Returns `None` if [`check`] fails.
pub fn kernel(id: &str) -> Option<&'static KernelSpec> {
    let kernels = resolved().as_ref().ok()?;
    let index = kernels.binary_search_by_key(&id, |kernel| kernel.id).ok()?;
    Some(kernels[index])
}

fn sorted(specs: &[&'static KernelSpec]) -> Specs {
    let mut specs = specs.to_vec();
    specs.sort_by_key(|spec| (spec.id, spec.krate, spec.crate_version));
    specs
}

fn resolve(specs: &[&'static KernelSpec]) -> Result<Specs, RegistryError> {
    let specs = sorted(specs);
    let mut problems: Vec<_> = specs.iter().flat_map(|spec| malformed(spec)).collect();
    let mut kernels = Vec::new();
    for same_id in specs.chunk_by(|a, b| a.id == b.id) {
        match in_force(same_id) {
            Ok(kernel) => kernels.push(kernel),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(kernels)
    } else {
        Err(RegistryError { problems })
    }
}

fn malformed(spec: &'static KernelSpec) -> Vec<RegistryProblem> {
    let krate = spec.origin();
    let id = (!is_id(spec.id)).then(|| RegistryProblem::Id {
        id: spec.id,
        krate: krate.clone(),
    });
    let launches = spec
        .implementations
        .iter()
        .filter(|implementation| !implementation.launch.belongs_to(spec.op))
        .map(|implementation| RegistryProblem::Launch {
            id: spec.id,
            krate: krate.clone(),
            implementation: implementation.name,
            op: spec.op,
        });
    id.into_iter().chain(launches).collect()
}

/// Returns the one kernel of an id that no other replaces.
fn in_force(same_id: &[&'static KernelSpec]) -> Result<&'static KernelSpec, RegistryProblem> {
    let id = same_id[0].id;
    for spec in same_id {
        if let Some(replaces) = spec.replaces
            && (replaces == spec.krate || !same_id.iter().any(|other| other.krate == replaces))
        {
            return Err(RegistryProblem::ReplacesNothing {
                id,
                krate: spec.origin(),
                replaces,
            });
        }
    }
    let is_replaced = |spec: &KernelSpec| {
        same_id
            .iter()
            .any(|other| other.replaces == Some(spec.krate))
    };
    let mut left = same_id.iter().filter(|spec| !is_replaced(spec));
    match (left.next(), left.next()) {
        (Some(spec), None) => Ok(spec),
        (Some(first), Some(second)) => Err(RegistryProblem::Duplicate {
            id,
            first: first.origin(),
            second: second.origin(),
        }),
        (None, _) => Err(RegistryProblem::Circle {
            id,
            crates: same_id
                .iter()
                .map(|spec| spec.origin())
                .collect::<Vec<_>>()
                .join(", "),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceKinds;
    use crate::ops::operations;
    use crate::registry::{CapabilityRange, FloatType, Implementation, Launch};

    const fn spec(krate: &'static str, replaces: Option<&'static str>) -> KernelSpec {
        KernelSpec {
            id: "norm",
            op: "acme_norm",
            version: 1,
            summary: "",
            krate,
            crate_version: "1.0.0",
            replaces,
            implementations: &[],
        }
    }

    static A: KernelSpec = spec("a", None);
    static B: KernelSpec = spec("b", None);
    static B_FOR_A: KernelSpec = spec("b", Some("a"));
    static A_FOR_B: KernelSpec = spec("a", Some("b"));
    static C_FOR_B: KernelSpec = spec("c", Some("b"));
    static ODD: KernelSpec = KernelSpec {
        id: "norm.odd",
        op: "rope",
        implementations: &[Implementation {
            device: DeviceKinds::CPU,
            name: "odd",
            dtypes: &[FloatType::F32],
            gradient: super::super::Gradient::None,
            deterministic: true,
            fusion_barrier: false,
            capability: CapabilityRange::ANY,
            accepts: |_| true,
            limits: None,
            operators: None,
            launch: Launch::Custom,
        }],
        ..spec("a", None)
    };

    fn winner(specs: &[&'static KernelSpec]) -> Result<&'static str, String> {
        match resolve(specs) {
            Ok(kernels) => {
                assert_eq!(kernels.len(), 1);
                Ok(kernels[0].krate)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_second_kernel_of_an_id_is_an_error_that_names_both_crates() {
        assert_eq!(winner(&[&A]).unwrap(), "a");
        for specs in [[&A, &B], [&B, &A]] {
            let message = winner(&specs).unwrap_err();
            assert!(
                message.contains("`norm` is registered by a 1.0.0 and by b 1.0.0"),
                "{message}"
            );
            assert!(message.contains("replaces: Some("), "{message}");
        }
        assert!(winner(&[&A, &A]).unwrap_err().contains("a 1.0.0 and by a"));
    }

    #[test]
    fn an_explicit_replacement_wins_whatever_the_order() {
        assert_eq!(winner(&[&A, &B_FOR_A]).unwrap(), "b");
        assert_eq!(winner(&[&B_FOR_A, &A]).unwrap(), "b");
        assert_eq!(winner(&[&C_FOR_B, &A, &B_FOR_A]).unwrap(), "c");
    }

    #[test]
    fn replacements_that_make_no_sense_are_errors() {
        let message = winner(&[&B_FOR_A]).unwrap_err();
        assert!(message.contains("replaces the one of a, which registers no"));
        let message = winner(&[&A_FOR_B, &B_FOR_A]).unwrap_err();
        assert!(message.contains("of a 1.0.0, b 1.0.0 replace one another"));
    }

    #[test]
    fn malformed_kernels_are_told_all_at_once() {
        let error = resolve(&[&ODD, &A, &B]).unwrap_err();
        let message = error.to_string();
        assert_eq!(error.problems().len(), 3, "{message}");
        assert!(message.contains("invalid kernel id `norm.odd` of a 1.0.0"));
        assert!(message.contains("does not belong to operation `rope`"));
    }

    macro_rules! names {
        (
            sites { $(
                #[doc = $doc:literal]
                $Op:ident {
                    name: $name:ident, at: $($at:ident)::+, kernel: $Kernel:path, key: $Key:ident of $op:literal,
                }
            )+ }
            parts { $($parts:tt)+ }
        ) => {
            const OPERATIONS: &[&str] = &[$($op),+];
        };
    }
    operations!(names);

    /// Checks that every operation has one kernel. One is declared as kernels of other crates are.
    #[test]
    fn the_kernels_of_this_crate_go_together() {
        assert_eq!(check(), Ok(()));
        assert_eq!(replaced().count(), 0);
        let ids = kernels().map(|kernel| kernel.id);
        assert!(ids.is_sorted_by(|a, b| a < b), "each id once");
        let others = kernels().filter(|kernel| !OPERATIONS.contains(&kernel.op));
        assert!(others.map(|kernel| kernel.id).eq([
            "npu_fused_quantized_embedding",
            "npu_fused_quantized_linear",
            "npu_fused_quantized_linear_cross_entropy",
            "npu_fused_quantized_linear_int8"
        ]));
        for op in OPERATIONS {
            let of_op = kernels().filter(|kernel| kernel.op == *op);
            assert_eq!(of_op.count(), 1, "{op}");
        }
        assert_eq!(kernel("npu_fused_rope").unwrap().krate, "kernels-runtime");
        assert!(kernel("npu_fused_rop").is_none());
    }
}
