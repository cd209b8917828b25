//! Triangles, reversed dimensions and repeated rows.

use super::aclnn::aclnn;
use super::check;
use super::types::USUAL;
use super::{Checked, Refusal};
use crate::call::Constant;
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// Checks the operand of [`triu`] and [`tril`] and returns the spec of the result. `x` may have any dtype but u16, u32
/// and u64, and has two dimensions or more.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_triangle(platform: &Platform, x: &Spec) -> Checked<Spec> {
    check::processor(platform, "Triu")?;
    check::view(("x", x), USUAL)?;
    check::rank(("x", x), 2, check::MOST_DIMENSIONS)?;
    Ok(Spec::contiguous(x.dtype, x.shape())?)
}

/// Checks the operands of [`flip`] and returns the spec of its result. `x` may have any dtype but u16, u32 and u64.
/// Each dimension may be named once.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_flip(platform: &Platform, x: &Spec, dims: &[usize]) -> Checked<Spec> {
    check::processor(platform, "Flip")?;
    check::view(("x", x), USUAL)?;
    for (place, &dim) in dims.iter().enumerate() {
        check::dimension(x, dim)?;
        if dims[..place].contains(&dim) {
            return Err(Refusal::Value {
                what: "dims",
                found: format!("{dims:?}"),
                expected: "each dimension once",
            });
        }
    }
    Ok(Spec::contiguous(x.dtype, x.shape())?)
}

macro_rules! triangles {
    ($($(#[$doc:meta])* $function:ident: $one:ident, $two:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// Returns an error if [`check_triangle`] refuses the operands or a call fails.
        pub fn $function(stream: &Stream, x: &Tensor, diagonal: i64) -> Result<Tensor> {
            let spec = check_triangle(stream.device().platform(), x.spec())?;
            let out = Tensor::like(stream, &spec)?;
            if spec.is_empty() {
                return Ok(out);
            }
            let y = &out;
            aclnn!(
                stream, shape.$one, $two,
                tensors [x, y], constants [], attributes [diagonal],
                call(x, diagonal, y), out.clone(),
            )
        }
    )*};
}

triangles! {
    /// Returns the upper triangle of the last two dimensions, from a diagonal on, with zeros below. 0 is the main
    /// diagonal.
    triu: aclnnTriuGetWorkspaceSize, aclnnTriu;
    /// Returns the lower triangle of the last two dimensions, up to a diagonal, with zeros above. 0 is the main
    /// diagonal.
    tril: aclnnTrilGetWorkspaceSize, aclnnTril;
}

/// Returns `x` with the given dimensions reversed.
///
/// # Errors
///
/// Returns an error if [`check_flip`] refuses the operands or a call fails.
pub fn flip(stream: &Stream, x: &Tensor, dims: &[usize]) -> Result<Tensor> {
    let spec = check_flip(stream.device().platform(), x.spec(), dims)?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    let y = &out;
    aclnn!(
        stream, shape.aclnnFlipGetWorkspaceSize, aclnnFlip,
        tensors [x, y], constants [dims: ints = Constant::sizes(dims)], attributes [],
        call(x, dims, y), out.clone(),
    )
}
