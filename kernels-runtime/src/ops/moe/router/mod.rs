//! Routers: the choice of experts for each token, and their weights, given the logits `[tokens, experts]`.
//!
//! A router scores the experts, chooses the `top_k` best for every token and weights them by their
//! scores. [`RouterKey`](crate::semantics::RouterKey) states how, [`Routing`] with which numbers.
//!
//! **Order.** The chosen experts are in descending order of the values that they were chosen by. Of equal
//! experts, the lower index comes first. Experts are compared by their logits if the scores have the same
//! order (no correction, no sum of two): scores that round to the same number still have different
//! logits.
//!
//! **NaN.** A NaN counts as +∞ in the choice and stays NaN as a weight, so the fault is visible.
//!
//! **Gradients.** Let `s` be the scores of the chosen experts, `w = c · s / S` their weights with the scale `c` and
//! `S = Σs + 1e-20` (1 without renormalisation), and `g` the gradients of the weights. Then
//! `ds = c · (g − Σ(g·s) / S) / S` (`c · g` without renormalisation). The gradient of the logits is
//! `dl = s · (ds − Σ(ds·s))` for a softmax, over all experts with `ds = 0` for those not chosen, and
//! `dl = ds · s · (1 − s)` for a sigmoid. The choice and the correction have no gradient.

pub(crate) mod cases;
#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "gpu")]
pub(crate) mod cube;
pub(crate) mod key;
pub(crate) mod live;
#[cfg(feature = "npu")]
pub mod npu;
mod operands;
mod reference;
mod routing;
mod settled;

#[cfg(feature = "cpu")]
pub(crate) use cpu::IMPLEMENTATION;
pub(crate) use operands::check;
#[cfg(feature = "remote")]
pub(crate) use operands::remote;
pub use operands::{Each, Launch, Operands, Router};
pub use reference::reference;
pub use routing::{Routing, RoutingError};

pub(crate) use settled::{Among, mask, settled};

use super::experts::KERNEL;
use super::steps::ROUTE;
use crate::ops::fused::Made;
use crate::ops::implementation;
use crate::ops::operands::array;
use crate::reason::Reason;
use crate::semantics::{MoeBlockKey, SharedExpert};
use burn::backend::DispatchTensor;
use burn::tensor::{Int, Tensor};

/// The experts of each token and their weights.
#[derive(Clone, Debug)]
pub struct Routed {
    /// The weights, `[tokens, top_k]`, in the dtype that the key states.
    pub weights: Tensor<2>,
    /// The experts, `[tokens, top_k]`, best first, in the integer type of the device's settings.
    pub indices: Tensor<2, Int>,
}

impl From<Made<DispatchTensor>> for Routed {
    fn from(made: Made<DispatchTensor>) -> Self {
        let [indices] = array(made.ints);
        Self {
            weights: Tensor::from_dispatch(made.y),
            indices: Tensor::from_dispatch(indices),
        }
    }
}

/// Routes tokens: with the fused kernel if the device has one for the logits' dtype and the policy allows it, otherwise with
/// the [`reference`](reference()). The report counts the call. See [`fused`] for shapes.
///
/// # Panics
/// Panics if the policy requires the kernel and it can't run. Panics if the shapes don't fit together, or if `bias` is
/// not present exactly when the key has a correction.
pub fn route(logits: Tensor<2>, bias: Option<Tensor<1>>, routing: &Routing) -> Routed {
    let (of, correction) = (logits.clone(), bias.clone());
    ROUTE.run(
        KERNEL,
        &[&logits.clone().into_dispatch()],
        || fused(of, correction, routing),
        || reference(logits, bias, routing),
    )
}

/// Routes tokens with the fused kernel of their device.
///
/// `logits` is `[tokens, experts]`. `bias`, the correction of the choice if the key has one, is
/// `[experts]` in any float dtype and gets no gradient. Scores are computed in f32 (f64 for f64 logits).
///
/// # Errors
/// Returns the reason if no kernel can run: none for the device, or a dtype it does not take.
///
/// # Panics
/// Panics if the shapes don't fit together, or if `bias` is not present exactly when the key has a correction.
pub fn fused(
    logits: Tensor<2>,
    bias: Option<Tensor<1>>,
    routing: &Routing,
) -> Result<Routed, Reason> {
    let key = MoeBlockKey::new(routing.key(), SharedExpert::None);
    let operands = Operands::of(logits, bias, routing);
    let found = implementation(KERNEL, key, [operands.logits()])?;
    Ok(Router::run(operands, found).into())
}
