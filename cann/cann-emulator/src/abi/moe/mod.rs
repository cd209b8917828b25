//! Moving tokens to experts and back, with gradients, and the choice of experts.

mod finalize;
mod finalize_grad;
mod gating;
mod gating_top_k;
mod init_routing;
mod init_routing_v3;
mod permute;
mod quantised;
mod tokens;

pub use self::finalize::aclnnMoeFinalizeRoutingV2;
pub use self::finalize::aclnnMoeFinalizeRoutingV2GetWorkspaceSize;
pub use self::finalize_grad::*;
pub use self::gating::*;
pub use self::gating_top_k::*;
pub use self::init_routing::*;
pub use self::init_routing_v3::*;
pub use self::permute::*;
pub use self::tokens::*;

use crate::abi::prelude::*;

const FLOATS: [aclDataType; 3] = [ACL_FLOAT16, ACL_BF16, ACL_FLOAT];

/// Checks an operand of routing. `misfit` is the status for a wrong shape.
fn check_operand(
    name: &str,
    tensor: &Tensor,
    dtype: aclDataType,
    shape: &[usize],
    misfit: aclnnStatus,
) -> Outcome<()> {
    check_dtype(name, tensor, &[dtype])?;
    check_shape_or(misfit, name, tensor, shape)
}

/// Checks an output of routing, which is contiguous.
fn check_output(
    name: &str,
    tensor: &Tensor,
    dtype: aclDataType,
    shape: &[usize],
    misfit: aclnnStatus,
) -> Outcome<()> {
    check_operand(name, tensor, dtype, shape, misfit)?;
    check_contiguous(name, tensor)
}

/// Returns the two axes of an operand. `misfit` is the status for another number of them.
fn two_axes(name: &str, tensor: &Tensor, misfit: aclnnStatus) -> Outcome<[usize; 2]> {
    ensure!(tensor.rank() == 2, misfit; "{name} has {} axes; it takes 2", tensor.rank());
    Ok([tensor.shape[0], tensor.shape[1]])
}
