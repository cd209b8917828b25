//! The operators of a device's library that calls make, in words.

use super::{Query, TensorType};
use crate::registry::{FloatType, Implementation, KernelSpec};
use crate::semantics::SemanticsKey;

/// Returns the operators that a call makes, or nothing for a kernel of its own.
pub(crate) fn of(
    implementation: &Implementation,
    key: &SemanticsKey,
    query: Query,
) -> Vec<&'static str> {
    let operators = implementation
        .operators
        .map(|of| of(key, float(query), query.mode));
    operators.and_then(Result::ok).unwrap_or_default()
}

/// Returns what the library of a call's device lacks for the key, if no implementation of the kernel has operators for it.
pub(crate) fn lack(kernel: &KernelSpec, key: &SemanticsKey, query: Query) -> Option<String> {
    let here = kernel
        .implementations
        .iter()
        .filter(|one| one.device.contains(query.device));
    let found = here.filter_map(|one| Some((one.operators?)(key, float(query), query.mode)));
    let lacks: Result<Vec<_>, ()> = found.map(|found| found.err().ok_or(())).collect();
    lacks.ok()?.into_iter().next()
}

fn float(query: Query) -> FloatType {
    match query.tensors {
        TensorType::Float(float) | TensorType::NotOnDevice(float) => float,
        TensorType::Mixed | TensorType::Unsupported => FloatType::F32,
    }
}

/// Returns the path of a call in words. Several operators are composed and not fused.
pub(crate) fn path(implementation: &str, operators: &[&str]) -> String {
    match operators {
        [] => format!("fused {implementation}"),
        [one] => format!("fused {implementation} ({one})"),
        several => format!("composed {implementation} ({})", several.join(", ")),
    }
}

/// Returns the reference's path in words, with what the device's library lacks.
pub(crate) fn reference(reason: crate::reason::Reason, lack: Option<&str>) -> String {
    match lack {
        Some(lack) => format!("reference: {reason} ({lack})"),
        None => format!("reference: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn several_operators_are_not_called_fused() {
        assert_eq!(path("cpu-simd", &[]), "fused cpu-simd");
        assert_eq!(
            path("aclnn", &["aclnnRmsNorm"]),
            "fused aclnn (aclnnRmsNorm)"
        );
        let several = path("aclnn-swiglu", &["aclnnCat", "aclnnSwiGlu"]);
        assert_eq!(several, "composed aclnn-swiglu (aclnnCat, aclnnSwiGlu)");
    }
}
