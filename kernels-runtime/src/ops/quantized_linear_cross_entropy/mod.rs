//! The cross-entropy of hidden states and an output layer whose weight `[classes, width]` stays in quantised form: the
//! loss of each token, `[tokens]`, zero for ignored ones.
//!
//! Some classes of the weight are decoded at a time, once for the logits of a chunk of tokens and once for their
//! gradient, which is computed while the logits are there, as in [`linear_cross_entropy`](super::linear_cross_entropy).
//! The only gradient is that of the hidden states. It is kept for the gradient 1 of each loss, in f32, and rounded
//! once. Neither all logits nor the weight are ever in memory in floats.
//!
//! It is declared as kernels of other crates are, with operands that are not all tensors: servers have no message for
//! it, and a device other than the CPU computes the reference.

mod backend;
#[cfg(feature = "cpu")]
mod cpu;
pub(crate) mod live;
mod reference;

pub use backend::{Labels, QuantizedLinearCrossEntropyBackend, QuantizedLinearCrossEntropyKernel};
pub use kernels_quant::OwnedWeight;
pub use live::Operands;
pub use reference::reference;

use super::cross_entropy::{Settings, Targets, read};
use super::operands::{Mismatch, checked, require};
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::{CustomKey, LogitCap};
use burn::tensor::{Int, Tensor};

/// The id of the kernel in policies and reports.
pub const ID: &str = "npu_fused_quantized_linear_cross_entropy";

const OP: &str = "QuantizedLinearCrossEntropy";

/// The semantics key. The encoding decides the weight's numbers, not what is computed of them.
pub const KEY: CustomKey = CustomKey::new(
    "quantized_linear_cross_entropy",
    &[
        ("reduction", "none"),
        ("layout", "output_major"),
        ("sums", "f32"),
    ],
);

declare_kernel! {
    /// The kernel `npu_fused_quantized_linear_cross_entropy`.
    pub static KERNEL = KernelSpec {
        id: ID,
        op: KEY.op(),
        version: 1,
        summary: "Cross-entropy of hidden states and quantised output weights, and the states' gradient",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
        ],
    };
}

/// Returns the numbers of a loss with an ignored index and a cap.
fn settings(ignore_index: i64, softcap: Option<f64>) -> Settings {
    Settings {
        ignore_index,
        cap: softcap,
        ..Settings::default()
    }
}

/// Reads the targets of hidden states.
///
/// # Panics
/// Panics if the hidden states don't go together with the weight or the targets, if a target is neither a class nor the
/// ignored index, or if the cap is not a number above 0.
#[track_caller]
fn labels(
    hidden: &Tensor<2>,
    weight: &OwnedWeight,
    targets: &Tensor<1, Int>,
    settings: Settings,
) -> Targets {
    checked(fit(hidden, weight, targets, settings));
    let [classes, _] = weight.shape();
    read(OP, targets, classes, settings)
}

fn fit(
    hidden: &Tensor<2>,
    weight: &OwnedWeight,
    targets: &Tensor<1, Int>,
    settings: Settings,
) -> Result<(), Mismatch> {
    let ([tokens, width], [classes, inputs]) = (hidden.dims(), weight.shape());
    require!(
        inputs == width,
        "{OP}: the weight, {classes} classes of {inputs} inputs, takes hidden states of {inputs} elements, but \
         they have {width}"
    );
    let [count] = targets.dims();
    require!(
        count == tokens,
        "{OP}: there are {tokens} hidden states, but {count} targets"
    );
    let cap = match settings.cap {
        Some(_) => LogitCap::Tanh,
        None => LogitCap::None,
    };
    settings.check(OP, cap, KEY.op())
}
