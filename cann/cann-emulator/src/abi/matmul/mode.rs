//! The modes of the matrix unit, by `cubeMathType`, and the dtype in which two matrices meet.
//!
//! | mode | 910B and later | earlier chips |
//! |---|---|---|
//! | 0 | keeps the dtype | keeps the dtype, f32 is refused |
//! | 1 | f32 is rounded to HF32, with 11 bits behind the point | f32 is rounded to f16 |
//! | 2 | f32 is rounded to f16, bf16 is refused | f32 is rounded to f16 |
//! | 3 | f32 is rounded to HF32, others are refused | refused |
//! | 4 | keeps the dtype: CANN only orders sums of f32 otherwise | keeps the dtype |

use cann_sys::meta::*;

use crate::abi::promotion::promoted;
use crate::error::{Outcome, ensure};
use crate::ops::matmul::{to_half, to_hf32};
use crate::state;
use crate::tensor::{Tensor, name_of};

/// The rounding of a factor before it is multiplied, if there is one.
pub(super) type Rounding = Option<fn(f32) -> f32>;

/// Returns the rounding of factors of a dtype.
pub(super) fn rounding(cube_math: i8, dtype: aclDataType) -> Outcome<Rounding> {
    let newer = state::config()?.has_bf16();
    let refused = match cube_math {
        0 => dtype == ACL_FLOAT && !newer,
        1 | 4 => false,
        2 => dtype == ACL_BF16,
        3 => dtype != ACL_FLOAT || !newer,
        _ => true,
    };
    ensure!(!refused;
        "cubeMathType {cube_math} is not one of the modes for {} on this chip", name_of(dtype));
    Ok(match cube_math {
        1 | 3 if dtype == ACL_FLOAT && newer => Some(to_hf32),
        1 | 2 if dtype == ACL_FLOAT => Some(to_half),
        _ => None,
    })
}

/// Returns the dtype in which the factors meet. bf16 meets no other.
pub(super) fn common(left: &Tensor, right: &Tensor) -> Outcome<aclDataType> {
    ensure!(left.dtype == right.dtype || ![left.dtype, right.dtype].contains(&ACL_BF16);
        "matrices of {} and {} are not multiplied", name_of(left.dtype), name_of(right.dtype));
    promoted(left.dtype, right.dtype)
}
