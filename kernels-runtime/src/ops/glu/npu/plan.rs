//! The operators that compute gated linear units.

use super::steps::Steps;
use crate::npu::Refused;
use crate::reason::Reason;
use crate::semantics::{Activation, GluKey, Projections};
use burn_cann::ops::ge_glu::Approximation;

/// The operators that compute a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The fused operator, on the packed tensor itself or on a contiguous copy.
    Fused(Unit),
    /// The fused operator, on a copy that holds interleaved elements as halves.
    FusedOfNeighbours(Unit),
    /// The fused operator, on a packed copy of two tensors, which the backward pass reads too.
    Packing(Unit),
    /// Forward, activation and product; backward, the fused operator on a packed copy.
    Apart(Unit),
    /// Products only: there is no activation.
    Product,
    /// In f32, steps before the unit, then as [`Apart`](Self::Apart), or as [`Product`](Self::Product) without a unit.
    Stepped(Option<Unit>, Steps),
}

/// An activation with fused operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// SiLU.
    Silu,
    /// GELU.
    Gelu(Approximation),
}

impl Unit {
    /// Returns the operator of the activation alone.
    fn activation(self) -> &'static str {
        match self {
            Self::Silu => "aclnnSilu",
            Self::Gelu(_) => "aclnnGeluV2",
        }
    }

    fn fused(self) -> &'static str {
        match self {
            Self::Silu => "aclnnSwiGlu",
            Self::Gelu(_) => "aclnnGeGluV3",
        }
    }

    fn gradient(self) -> &'static [&'static str] {
        match self {
            Self::Silu => &["aclnnSwiGluGrad"],
            Self::Gelu(_) => &["aclnnGeluV2", "aclnnGeGluV3Backward"],
        }
    }
}

impl Plan {
    /// Returns the operators of the forward pass, for contiguous operands that don't share a buffer. If the plan has
    /// [steps](Self::Stepped), `is_half` adds the casts of half types.
    pub fn forward(self, is_half: bool) -> Vec<&'static str> {
        match self {
            Self::Fused(unit) => vec![unit.fused()],
            Self::FusedOfNeighbours(unit) => vec!["aclnnInplaceCopy", unit.fused()],
            Self::Packing(unit) => vec!["aclnnCat", unit.fused()],
            Self::Apart(unit) => vec![unit.activation(), "aclnnMul"],
            Self::Product => vec!["aclnnMul"],
            Self::Stepped(unit, steps) => {
                let casts =
                    |count| std::iter::repeat_n("aclnnCast", if is_half { count } else { 0 });
                let unit = unit.map(Unit::activation).into_iter().chain(["aclnnMul"]);
                let all = casts(2).chain(steps.forward_operators()).chain(unit);
                all.chain(casts(1)).collect()
            }
        }
    }

    /// Returns the operators of the backward pass, for the same operands. Those of interleaved operands with steps also
    /// join the gradients.
    pub fn backward(self, is_half: bool) -> Vec<&'static str> {
        let after = |first: &[&'static str], unit: Unit| [first, unit.gradient()].concat();
        match self {
            Self::Fused(unit) | Self::Packing(unit) => unit.gradient().to_vec(),
            Self::FusedOfNeighbours(unit) => [
                &after(&["aclnnInplaceCopy"], unit)[..],
                &["aclnnInplaceCopy"],
            ]
            .concat(),
            Self::Apart(unit) => after(&["aclnnCat"], unit),
            Self::Product => vec!["aclnnMul", "aclnnMul"],
            Self::Stepped(unit, steps) => {
                let casts =
                    |count| std::iter::repeat_n("aclnnCast", if is_half { count } else { 0 });
                let unit = match unit {
                    Some(unit) => after(&["aclnnCat"], unit),
                    None => vec!["aclnnMul", "aclnnMul"],
                };
                let all = casts(2).chain(steps.forward_operators()).chain(casts(1));
                let all = all.chain(unit).chain(steps.backward_operators());
                all.chain(casts(2)).collect()
            }
        }
    }

    /// Returns the activation.
    pub(super) fn unit(self) -> Option<Unit> {
        match self {
            Self::Fused(unit)
            | Self::FusedOfNeighbours(unit)
            | Self::Packing(unit)
            | Self::Apart(unit) => Some(unit),
            Self::Product => None,
            Self::Stepped(unit, _) => unit,
        }
    }
}

/// Returns the operators that compute a call of this key, or the reason if none do. Gate and up that are two tensors are
/// kept apart.
pub(crate) fn of_key(key: GluKey) -> Result<Plan, Refused> {
    let unit = match key.activation {
        Activation::Silu | Activation::QuickGelu => Some(Unit::Silu),
        Activation::Gelu => Some(Unit::Gelu(Approximation::None)),
        Activation::GeluTanh => Some(Unit::Gelu(Approximation::Tanh)),
        Activation::Identity => None,
        other => {
            let why = format!(
                "CANN has no gated unit with {}, nor its gradient",
                other.name()
            );
            return Err(Refused::new(Reason::Semantics, why));
        }
    };
    let steps = Steps::of(key);
    if !steps.is_empty() {
        return Ok(Plan::Stepped(unit, steps));
    }
    Ok(match (unit, key.projections) {
        (None, _) => Plan::Product,
        (Some(unit), Projections::Chunked) => Plan::Fused(unit),
        (Some(unit), Projections::Interleaved) => Plan::FusedOfNeighbours(unit),
        (Some(unit), Projections::Separate) => Plan::Apart(unit),
    })
}

/// Returns the operators with which an implementation, [`PACKING`](super::PACKING) or another one, computes a key, or the
/// reason if it does not.
pub(crate) fn of_implementation(key: GluKey, packs: bool) -> Result<Plan, Refused> {
    let plan = of_key(key)?;
    match (packs, plan) {
        (true, Plan::Apart(unit)) => Ok(Plan::Packing(unit)),
        (true, Plan::Fused(_) | Plan::FusedOfNeighbours(_))
        | (false, Plan::Apart(_) | Plan::Product | Plan::Stepped(..)) => Ok(plan),
        (true, _) => {
            let why = format!("aclnnSwiGlu and aclnnGeGluV3 alone do not compute {key}");
            Err(Refused::new(Reason::Semantics, why))
        }
        (false, _) => {
            let why =
                format!("gate and up of {key} are one tensor, which the fused operators read");
            Err(Refused::new(Reason::Semantics, why))
        }
    }
}
