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

#[cfg(feature = "cpu")]
mod autodiff;
#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "npu")]
pub mod npu;
mod reference;
mod routing;
mod settled;

#[cfg(feature = "cpu")]
pub use autodiff::{RouterBackend, RouterKernel};
#[cfg(feature = "cpu")]
pub(crate) use cpu::IMPLEMENTATION;
pub use reference::reference;
pub use routing::{Routing, RoutingError};

pub(crate) use settled::{Among, settled};

use crate::dispatch::Reason;
use crate::ops::{compute_dtype, same_dtype_as};
use crate::registry::{Implementation, Launch};
use crate::semantics::{Correction, MoeBlockKey, SemanticsKey, SharedExpert};
use burn::backend::DispatchTensor;
use burn::tensor::{Int, IntDType, Tensor};

/// Where the tokens go.
#[derive(Clone, Debug)]
pub struct Routed {
    /// `[tokens, top_k]`, in the dtype that the key says.
    pub weights: Tensor<2>,
    /// The experts, `[tokens, top_k]`, best first, in the integer type of the device's settings.
    pub indices: Tensor<2, Int>,
}

/// The operands of one call, as an implementation gets them.
#[derive(Debug)]
pub struct Call {
    /// `[tokens, experts]`.
    pub logits: DispatchTensor,
    /// The correction of the choice, `[experts]` in what scores are computed in; `[0]` if the key
    /// has none.
    pub bias: DispatchTensor,
    /// What to compute, with its numbers.
    pub routing: Routing,
    /// The type of the experts' indices.
    pub ints: IntDType,
}

impl Call {
    pub(crate) fn new(logits: Tensor<2>, bias: Option<Tensor<1>>, routing: &Routing) -> Self {
        let (compute, device) = (compute_dtype(logits.dtype()), logits.device());
        let bias = match bias {
            Some(bias) => same_dtype_as(bias.detach(), compute),
            None => Tensor::empty([0], (&device, compute)),
        };
        Self {
            logits: logits.into_dispatch(),
            bias: bias.into_dispatch(),
            routing: *routing,
            ints: device.settings().int_dtype,
        }
    }

    /// Runs an implementation that dispatch chose for these tensors.
    pub(crate) fn run(self, implementation: &Implementation) -> Routed {
        let (weights, indices) = match implementation.launch {
            Launch::Router(launch) => launch(self),
            other => crate::ops::wrong_launch(implementation.name, "moe", &other),
        };
        Routed {
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
    check(&logits, bias.as_ref(), routing);
    let key = MoeBlockKey::new(routing.key(), SharedExpert::None);
    let call = Call::new(logits, bias, routing);
    let found = crate::ops::implementation(
        super::experts::KERNEL,
        SemanticsKey::MoeBlock(key),
        [&call.logits],
    );
    Ok(call.run(found?))
}

/// Runs the kernel. Dispatch has found one for these tensors.
#[cfg(feature = "cpu")]
pub(crate) fn launch(call: Call) -> (DispatchTensor, DispatchTensor) {
    <burn::backend::Dispatch as RouterBackend>::route(
        call.logits,
        call.bias,
        call.routing,
        call.ints,
    )
}

/// Refuses operands that don't fit the routing.
#[track_caller]
pub(crate) fn check(logits: &Tensor<2>, bias: Option<&Tensor<1>>, routing: &Routing) {
    let ([tokens, width], experts) = (logits.dims(), routing.num_experts());
    assert!(
        width == experts,
        "router: logits are [{tokens}, {width}], but there are {experts} experts"
    );
    match (routing.key().correction, bias.map(Tensor::dims)) {
        (Correction::None, None) => {}
        (Correction::Bias, Some([length])) => assert!(
            length == experts,
            "router: the bias has {length} elements, but there are {experts} experts"
        ),
        (Correction::None, Some(_)) => panic!(
            "router: there is a bias, but {} has no correction; add a bias of the logits to them",
            routing.key()
        ),
        (Correction::Bias, None) => panic!("router: {} needs a bias", routing.key()),
    }
}
