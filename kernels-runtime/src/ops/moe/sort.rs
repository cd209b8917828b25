//! Sorting of slots by expert: [`Groups`] of indices in tensors.

use crate::ops::operands::{Mismatch, require};
use burn::tensor::TensorData;

pub(crate) use kernels_simd::moe::Groups;
use kernels_simd::moe::MOST_EXPERTS;

/// Returns `$elements` as [`Integers`](kernels_simd::moe::Integers), with `$I` bound to the integer type of `$dtype`.
macro_rules! integers {
    ($dtype:expr, $I:ident => $elements:expr) => {{
        use kernels_simd::moe::Integers;
        macro_rules! with {
            ($type:ty, $Integers:ident) => {{
                type $I = $type;
                Integers::$Integers($elements)
            }};
        }
        match $dtype {
            burn::tensor::DType::I64 => with!(i64, I64),
            burn::tensor::DType::I32 => with!(i32, I32),
            burn::tensor::DType::I16 => with!(i16, I16),
            burn::tensor::DType::I8 => with!(i8, I8),
            burn::tensor::DType::U64 => with!(u64, U64),
            burn::tensor::DType::U32 => with!(u32, U32),
            burn::tensor::DType::U16 => with!(u16, U16),
            burn::tensor::DType::U8 => with!(u8, U8),
            other => unreachable!("{other:?} is not an integer"),
        }
    }};
}
#[cfg(feature = "cpu")]
pub(crate) use integers;

/// Checks that there are at most [`MOST_EXPERTS`] experts.
pub(crate) fn few_experts(op: &str, experts: usize) -> Result<(), Mismatch> {
    require!(
        experts <= MOST_EXPERTS,
        "{op}: {experts} experts are more than {MOST_EXPERTS}"
    );
    Ok(())
}

/// Sorts the slots of indices, `[tokens, choices]`, that were read from a device.
///
/// # Panics
/// Panics as [`Groups::by_expert`] does.
#[track_caller]
pub(crate) fn by_expert(indices: &TensorData, experts: usize) -> Groups {
    let choices = indices.shape()[1];
    let indices = integers!(indices.dtype(), I => {
        indices.as_slice::<I>().expect("of this type")
    });
    Groups::by_expert(indices, choices, experts)
}
