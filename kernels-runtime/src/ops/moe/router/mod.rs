//! Routers: the experts a token goes to, and their weights, from the logits `[tokens, experts]`.
//!
//! A router scores the experts, chooses the `top_k` best of every token and weighs them by their
//! scores; [`RouterKey`](crate::semantics::RouterKey) says how, [`Routing`] with which numbers.
//!
//! **Order.** The chosen experts are in descending order of what they were chosen by; of equal
//! ones the lower index comes first. Experts are compared by their logits wherever that is the
//! order of their scores as well (no correction, no sum of two): scores that are rounded to the
//! same number still have different logits.
//!
//! **NaN.** A NaN counts as +∞ when experts are chosen and stays NaN as a weight, so the fault shows.
//!
//! **Gradients.** With the scores `s` of the chosen experts, their weights `w = c · s / S`,
//! `S = Σs + 1e-20` (1 without renormalisation) and the weights' gradients `g`:
//! `ds = c · (g − Σ(g·s) / S) / S` (`c · g` without), and for the logits
//! `dl = s · (ds − Σ(ds·s))` of a softmax, over all experts with `ds = 0` for those not chosen, and
//! `dl = ds · s · (1 − s)` of a sigmoid. The choice itself has no gradient, nor has the correction.

mod autodiff;
pub(crate) mod cases;
#[cfg(feature = "cpu")]
mod cpu;
pub(crate) mod key;
pub(crate) mod live;
#[cfg(feature = "npu")]
pub mod npu;
mod operands;
mod reference;
#[cfg(feature = "remote")]
pub(crate) mod remote;
mod routing;
mod settled;

pub use autodiff::{RouterBackend, RouterKernel, Tensors};
#[cfg(feature = "cpu")]
pub(crate) use cpu::IMPLEMENTATION;
pub(crate) use operands::check;
#[cfg(feature = "remote")]
pub(crate) use operands::weights_dtype;
pub use operands::{Backward, Operands};
pub use reference::reference;
pub use routing::{Routing, RoutingError};

pub(crate) use settled::{Among, mask, settled};

use crate::ops::define::launched;
use crate::ops::implementation;
use crate::reason::Reason;
use crate::semantics::{MoeBlockKey, SharedExpert};
use burn::backend::{Dispatch, DispatchTensor};
use burn::tensor::{Int, Tensor};

/// Where the tokens go.
#[derive(Clone, Debug)]
pub struct Routed {
    /// `[tokens, top_k]`, in the dtype that the key says.
    pub weights: Tensor<2>,
    /// The experts, `[tokens, top_k]`, best first, in the integer type of the device's settings.
    pub indices: Tensor<2, Int>,
}

impl From<(DispatchTensor, DispatchTensor)> for Routed {
    fn from((weights, indices): (DispatchTensor, DispatchTensor)) -> Self {
        Self {
            weights: Tensor::from_dispatch(weights),
            indices: Tensor::from_dispatch(indices),
        }
    }
}

/// Routes tokens: by the fused kernel where the device has one for the logits' dtype, else by the
/// [`reference`](reference()). See [`fused`] for shapes.
///
/// # Panics
/// The shapes don't fit together.
pub fn route(logits: Tensor<2>, bias: Option<Tensor<1>>, routing: &Routing) -> Routed {
    fused(logits.clone(), bias.clone(), routing)
        .unwrap_or_else(|_| reference(logits, bias, routing))
}

/// Routes tokens by the fused kernel of their device.
///
/// `logits` is `[tokens, experts]`; `bias`, the correction of the choice if the key has one, is
/// `[experts]` in any float dtype and gets no gradient. Scores are computed in f32 (f64 for f64).
///
/// # Errors
/// The reason why no kernel can run: none for the device, or a dtype it does not take.
///
/// # Panics
/// The shapes don't fit together, or there is a bias where the key has none or the reverse.
pub fn fused(
    logits: Tensor<2>,
    bias: Option<Tensor<1>>,
    routing: &Routing,
) -> Result<Routed, Reason> {
    let key = MoeBlockKey::new(routing.key(), SharedExpert::None);
    let operands = Operands::of(logits, bias, routing);
    let found = implementation(super::experts::KERNEL, key, [operands.logits()])?;
    Ok(operands.run(found).into())
}

launched!(
    Operands<DispatchTensor> => (DispatchTensor, DispatchTensor),
    <Dispatch as RouterBackend>::route
);
