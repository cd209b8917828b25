//! A linear layer whose weight stays in quantised form, of rows that are rounded to 8 bits: `y = round(x) · wᵀ` over
//! the last axis. Each block of 32 elements of a row has 1/127 of its largest size as scale, and its elements are
//! rounded to whole multiples of that, ties to even.
//!
//! It is a kernel of its own because it computes something else than [`quantized_linear`](super::quantized_linear):
//! rounding `x` costs some tenths of a percent of a result. It is never chosen by default. Layers call it under a
//! policy that prefers its implementation, `prefer:cpu-simd-int8`, where it [`applies`]. It has no gradient.

#[cfg(feature = "cpu")]
mod cpu;
pub(crate) mod live;
mod reference;

pub use kernels_quant::OwnedWeight;
pub use live::Operands;
pub use reference::of_rounded;

use super::quantized_linear::runs_on;
use crate::context;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::CustomKey;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};
use burn::tensor::{DType, Tensor};

/// The id of the kernel in policies and reports.
pub const ID: &str = "npu_fused_quantized_linear_int8";

/// The name of the implementation in policies.
pub const IMPLEMENTATION: &str = "cpu-simd-int8";

/// The semantics key.
pub const KEY: CustomKey = CustomKey::new(
    "quantized_linear_int8",
    &[
        ("layout", "output_major"),
        ("rows", "int8_in_blocks_of_32"),
        ("sums", "f32"),
    ],
);

declare_kernel! {
    /// The kernel `npu_fused_quantized_linear_int8`.
    pub static KERNEL = KernelSpec {
        id: ID,
        op: KEY.op(),
        version: 1,
        summary: "Linear layer whose weight stays in quantised form, of rows that are rounded to 8 bits",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
        ],
    };
}

/// Returns `true` if the policy in force prefers the implementation, and it takes the weight and `x`: integers with
/// scales that are stored row by row, and rows of a CPU of this process in f32 or a half type, without autodiff.
pub fn applies<const D: usize>(x: &Tensor<D>, weight: &OwnedWeight) -> bool {
    let device = x.device();
    context::prefers(IMPLEMENTATION)
        && runs_on(&device)
        && !device.is_autodiff()
        && x.dtype() != DType::F64
        && takes(weight)
}

/// Returns `true` if the kernel takes a weight: its elements are integers with scales that are stored row by row.
#[cfg(feature = "cpu")]
pub fn takes(weight: &OwnedWeight) -> bool {
    kernels_simd::quantized::int8::takes(&weight.view())
}

/// Returns `false`: without the feature `cpu` there is no kernel.
#[cfg(not(feature = "cpu"))]
pub fn takes(_: &OwnedWeight) -> bool {
    false
}

/// The product of rounded rows as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"))]
pub trait QuantizedLinearInt8Backend: Backend {
    /// Returns `round(x) · weightᵀ`, `[.., outputs]`, in the dtype of `x`.
    ///
    /// # Panics
    /// Panics if the last axis of `x` is not the weight's inputs, or if no kernel takes its dtype or the weight.
    fn quantized_linear_int8(x: FloatTensor<Self>, weight: OwnedWeight) -> FloatTensor<Self>;
}
