//! The newest version of operators of which CANN has several.
//!
//! A toolkit counts as having a version only if it has both phases.

use std::ffi::c_void;

use crate::bindings::{GroupedMatmul, Rotary, grouped_matmul, rotary};
use crate::meta::{aclOpExecutor, aclnnStatus, aclrtStream};
use crate::symbol::{MissingSymbol, Symbol};

/// Phase two, which has the same prototype for every operator.
pub type PhaseTwo = unsafe extern "C" fn(
    workspace: *mut c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;

/// The grouped matrix product whose list of groups is on the device.
#[derive(Debug, Clone, Copy)]
pub enum NewestGroupedMatmul {
    /// V5: V4 with one more operand.
    V5(
        grouped_matmul::aclnnGroupedMatmulV5GetWorkspaceSize,
        PhaseTwo,
    ),
    /// V4, of CANN 8.0.RC3 and later.
    V4(
        grouped_matmul::aclnnGroupedMatmulV4GetWorkspaceSize,
        PhaseTwo,
    ),
}

impl GroupedMatmul {
    /// Returns V5, or V4 if the toolkit has no V5.
    ///
    /// # Errors
    ///
    /// Returns an error for V4 if the toolkit has neither.
    pub fn newest(&self) -> Result<NewestGroupedMatmul, MissingSymbol> {
        let v5 = both(
            &self.aclnnGroupedMatmulV5GetWorkspaceSize,
            &self.aclnnGroupedMatmulV5,
        );
        let v4 = || {
            both(
                &self.aclnnGroupedMatmulV4GetWorkspaceSize,
                &self.aclnnGroupedMatmulV4,
            )
        };
        v5.map(|(one, two)| NewestGroupedMatmul::V5(one, two))
            .or_else(|_| v4().map(|(one, two)| NewestGroupedMatmul::V4(one, two)))
    }
}

/// The rotary position embedding of one tensor.
#[derive(Debug, Clone, Copy)]
pub enum NewestRotary {
    /// V2: has an optional matrix of the rotation.
    V2(
        rotary::aclnnRotaryPositionEmbeddingV2GetWorkspaceSize,
        PhaseTwo,
    ),
    /// The first version.
    V1(
        rotary::aclnnRotaryPositionEmbeddingGetWorkspaceSize,
        PhaseTwo,
    ),
}

impl Rotary {
    /// Returns V2, or the first version if the toolkit has no V2.
    ///
    /// # Errors
    ///
    /// Returns an error for the first version if the toolkit has neither.
    pub fn newest(&self) -> Result<NewestRotary, MissingSymbol> {
        let v2 = both(
            &self.aclnnRotaryPositionEmbeddingV2GetWorkspaceSize,
            &self.aclnnRotaryPositionEmbeddingV2,
        );
        let v1 = || {
            both(
                &self.aclnnRotaryPositionEmbeddingGetWorkspaceSize,
                &self.aclnnRotaryPositionEmbedding,
            )
        };
        v2.map(|(one, two)| NewestRotary::V2(one, two))
            .or_else(|_| v1().map(|(one, two)| NewestRotary::V1(one, two)))
    }
}

fn both<F: Copy>(one: &Symbol<F>, two: &Symbol<PhaseTwo>) -> Result<(F, PhaseTwo), MissingSymbol> {
    Ok((one.get()?, two.get()?))
}
