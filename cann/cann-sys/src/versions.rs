//! The versions of CANN that have a function, as far as known.
//!
//! The sources are the headers of 8.1.RC1 and of 8.5 to 9.1, and torch_npu's conditions for the versions between.
//! Nothing was tried on an installation.

use std::fmt;

/// The known facts about a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The versions that have the function.
    pub versions: &'static str,
    /// A remark, such as the function to use instead.
    pub note: Option<&'static str>,
}

impl fmt::Display for Known {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "CANN has it in {}", self.versions)?;
        match self.note {
            Some(note) => write!(out, "; {note}"),
            None => Ok(()),
        }
    }
}

/// The facts about functions that are not listed below.
const USUAL: Known = Known {
    versions: "8.1.RC1 to 9.1, as far as is known",
    note: None,
};

const EXCEPTIONS: &[(&str, Known)] = &[
    (
        "aclsysGetVersionStr",
        entry("8.5 and later", Some("before, aclsysGetCANNVersion")),
    ),
    (
        "aclsysGetVersionNum",
        entry("8.5 and later", Some("before, aclsysGetCANNVersion")),
    ),
    (
        "aclFinalizeReference",
        entry("8.5 and later", Some("before, aclFinalize")),
    ),
    (
        "aclnnRotaryPositionEmbedding",
        entry(
            "8.1.RC1 and later",
            Some("without a header before 8.3, on Ascend910B and later"),
        ),
    ),
    (
        "aclnnRotaryPositionEmbeddingGrad",
        entry(
            "8.1.RC1 and later",
            Some("without a header before 8.3, on Ascend910B and later"),
        ),
    ),
    (
        "aclnnRotaryPositionEmbeddingV2",
        entry(
            "9.0 and later",
            Some("before, aclnnRotaryPositionEmbedding"),
        ),
    ),
    (
        "aclnnApplyRotaryPosEmbV2",
        entry(
            "8.3 or 8.5 and later",
            Some("before, aclnnApplyRotaryPosEmb"),
        ),
    ),
    (
        "aclnnGroupedMatmulV5",
        entry("8.3 or 8.5 and later", Some("before, aclnnGroupedMatmulV4")),
    ),
    (
        "aclnnGroupedMatmulV4",
        entry("8.0.RC3 and later", Some("newer ones replace it by V5")),
    ),
    (
        "aclnnGroupedMatmulAddV2",
        entry("9.0 and later", Some("before, aclnnGroupedMatmulAdd")),
    ),
    (
        "aclnnFlashAttentionScoreV3",
        entry(
            "8.5 and later",
            Some("before, aclnnFlashAttentionScore, which has no sinks"),
        ),
    ),
    (
        "aclnnFlashAttentionScoreGradV3",
        entry(
            "8.5 and later",
            Some("before, aclnnFlashAttentionScoreGrad, which has no sinks"),
        ),
    ),
    (
        "aclnnFusedInferAttentionScoreV4",
        entry(
            "8.3 or 8.5 and later",
            Some("before, aclnnFusedInferAttentionScoreV3, which has no sinks"),
        ),
    ),
    ("aclnnLeftShift", entry("versions after 8.1.RC1", None)),
    ("aclnnRightShift", entry("versions after 8.1.RC1", None)),
    ("aclnnMoeGatingTopK", entry("versions after 8.1.RC1", None)),
    (
        "aclnnMoeInitRoutingV3",
        entry(
            "versions after 8.1.RC1",
            Some("before, aclnnMoeInitRoutingV2"),
        ),
    ),
    (
        "aclnnInplaceAddRmsNorm",
        entry("versions after 8.1.RC1", Some("before, aclnnAddRmsNorm")),
    ),
];

const fn entry(versions: &'static str, note: Option<&'static str>) -> Known {
    Known { versions, note }
}

/// Returns the known facts about function `name`. Both phases of an operator share them.
pub fn known(name: &str) -> Known {
    let operator = name.strip_suffix("GetWorkspaceSize").unwrap_or(name);
    let found = EXCEPTIONS.iter().find(|(other, _)| *other == operator);
    found.map_or(USUAL, |(_, known)| *known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exception_is_a_function_that_is_bound() {
        let all = crate::bindings::all_names();
        for (name, _) in EXCEPTIONS {
            assert!(all.iter().any(|other| other == name), "{name} is not bound");
        }
    }
}
