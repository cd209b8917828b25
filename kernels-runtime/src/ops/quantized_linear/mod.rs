//! A linear layer whose weight stays in quantised form: `y = x · wᵀ` over the last axis, for a weight `[outputs, inputs]`.
//!
//! The only gradient is `dx = dy · w`, for which the same bytes are decoded again. Nothing is saved but a handle of them. Sums
//! are in f32, of the numbers that the encoding decodes to in f32, and rounded once.
//!
//! It is declared as kernels of other crates are, with operands that are not all tensors: servers have no message for it, and a
//! device other than the CPU computes the reference.

mod backend;
#[cfg(feature = "cpu")]
mod cpu;
pub(crate) mod live;
#[cfg(feature = "cpu")]
mod measured;
mod reference;

pub use backend::QuantizedLinearBackend;
#[cfg(feature = "cpu")]
pub(super) use cpu::set_last;
pub use kernels_quant::OwnedWeight;
pub use live::Operands;
#[cfg(feature = "cpu")]
pub use measured::{cost_of_rounding, measured_error};
pub(super) use reference::panels;
pub use reference::{decoded, reference};

use crate::device::DeviceKind;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::CustomKey;
use burn::backend::DeviceOps;
use burn::tensor::Device;

/// The id of the kernel in policies and reports.
pub const ID: &str = "npu_fused_quantized_linear";

/// The semantics key. The encoding decides the weight's numbers, not what is computed of them.
pub const KEY: CustomKey = CustomKey::new(
    "quantized_linear",
    &[("layout", "output_major"), ("sums", "f32")],
);

declare_kernel! {
    /// The kernel `npu_fused_quantized_linear`.
    pub static KERNEL = KernelSpec {
        id: ID,
        op: KEY.op(),
        version: 1,
        summary: "Linear layer whose weight stays in quantised form, and the gradient of its input",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
        ],
    };
}

/// Returns `true` if the kernel runs on a device: a CPU of this process, and not one behind a server.
pub fn runs_on(device: &Device) -> bool {
    cfg!(feature = "cpu") && DeviceKind::of_id(device.as_dispatch().id()) == DeviceKind::Cpu
}

/// Checks that rows go together with a weight.
///
/// # Panics
/// Panics if they don't.
#[track_caller]
pub(super) fn check(shape: &[usize], weight: &OwnedWeight) {
    let [outputs, inputs] = weight.shape();
    assert!(
        shape.last() == Some(&inputs),
        "QuantizedLinear: the weight, {outputs} outputs of {inputs} inputs, takes rows of {inputs} elements, but the shape \
         of x is {shape:?}"
    );
}
