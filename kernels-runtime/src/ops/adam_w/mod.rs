//! A step of AdamW (Loshchilov & Hutter, arXiv:1711.05101), Adam (Kingma & Ba, arXiv:1412.6980) with
//! decoupled weight decay.
//!
//! With the gradient `g`, the learning rate `η`, the weight decay `λ` and the number of the step `t`,
//!
//! `m ← β₁·m + (1 − β₁)·g`, `v ← β₂·v + (1 − β₂)·g²`,
//! `θ ← θ·(1 − η·λ) − η · m̂ / (√v̂ + ε)` with `m̂ = m / (1 − β₁ᵗ)` and `v̂ = v / (1 − β₂ᵗ)`.
//!
//! `torch.optim.AdamW` and Burn's `AdamW` compute the same. On half types, kernels read and write the half type and
//! compute in f32, whereas separate operations would round every term. The step has no gradient, because it runs on
//! tensors without autodiff.
//!
//! In each step, kernels read four tensors and write three. They write in place if the storage is not shared.

pub(crate) mod cases;
#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "gpu")]
mod cube;
pub(crate) mod key;
pub(crate) mod live;
#[cfg(feature = "npu")]
pub mod npu;
mod operands;
mod reference;
pub(crate) mod site;
#[cfg(all(test, feature = "cpu"))]
mod tests;

use operands::check;
#[cfg(feature = "remote")]
pub(crate) use operands::remote;
pub use operands::{AdamW, Each, Launch, Operands};
pub use reference::reference;

use crate::ops::fused::Made;
use crate::ops::implementation;
use crate::ops::operands::array;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::AdamWKey;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

declare_kernel! {
    /// The kernel `npu_fused_adam_w`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_adam_w",
        op: "adam_w",
        version: 1,
        summary: "A step of AdamW on one parameter",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
            #[cfg(feature = "gpu")]
            cube::IMPLEMENTATION,
            #[cfg(feature = "npu")]
            npu::IMPLEMENTATION,
        ],
    };
}

/// The tensors that a step changes, all of one shape and dtype.
#[derive(Clone, Debug)]
pub struct State<T> {
    /// θ, the parameter.
    pub parameter: T,
    /// m, the moving average of the gradient; zeros before the first step.
    pub moment_1: T,
    /// v, the moving average of the gradient's square; zeros before the first step.
    pub moment_2: T,
}

impl<T> From<Made<T>> for State<T> {
    fn from(made: Made<T>) -> Self {
        let [moment_1, moment_2] = array(made.others);
        Self {
            parameter: made.y,
            moment_1,
            moment_2,
        }
    }
}

impl<T> State<T> {
    pub(crate) fn map<U>(self, mut each: impl FnMut(T) -> U) -> State<U> {
        State {
            parameter: each(self.parameter),
            moment_1: each(self.moment_1),
            moment_2: each(self.moment_2),
        }
    }
}

/// The numbers of one step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// η, the learning rate.
    pub learning_rate: f64,
    /// β₁, from 0 to below 1.
    pub beta_1: f64,
    /// β₂, from 0 to below 1.
    pub beta_2: f64,
    /// ε, finite and not negative.
    pub epsilon: f64,
    /// λ, the weight decay.
    pub weight_decay: f64,
    /// t, the number of the step, 1 for the first.
    pub step: usize,
}

impl Settings {
    /// Returns `1 − βᵗ` for both betas. The moments are divided by these.
    pub(crate) fn corrections(&self) -> (f64, f64) {
        let steps = i32::try_from(self.step).unwrap_or(i32::MAX);
        (1.0 - self.beta_1.powi(steps), 1.0 - self.beta_2.powi(steps))
    }
}

/// Runs a step by the fused kernel of the tensors' device. Returns the parameter and the moments after the step.
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, a dtype it does not take,
/// different dtypes, or tensors with autodiff enabled.
///
/// # Panics
/// Panics if the shapes differ, or if a number is outside the range that [`Settings`] documents.
#[track_caller]
pub fn fused<const D: usize>(
    state: State<Tensor<D>>,
    gradient: Tensor<D>,
    settings: Settings,
) -> Result<State<Tensor<D>>, Reason> {
    let operands = Operands::of(state, gradient, settings);
    let found = implementation(KERNEL, AdamWKey, operands.all())?;
    Ok(State::from(AdamW::run(operands, found)).map(Tensor::from_dispatch))
}
