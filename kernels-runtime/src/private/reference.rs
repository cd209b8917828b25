//! The compositions that struct forms fall back to.

use super::{Block, RopeTable, SectionTable, StackedExperts};
use crate::ops::moe::experts as moe;
use crate::ops::{glu, rms_norm, rope};
use crate::semantics::{GluKey, MoeBlockKey, MoeExpertsKey, RmsNormKey, RopeKey, TopK};
use burn::tensor::{Int, Tensor};

/// [`rms_norm::reference`] without a gate.
#[track_caller]
pub fn rms_norm<const D: usize>(
    x: Tensor<D>,
    weight: Option<Tensor<1>>,
    eps: f64,
    group_size: Option<usize>,
    key: RmsNormKey,
) -> Tensor<D> {
    let inputs = rms_norm::Inputs {
        x,
        weight,
        gate: None,
    };
    rms_norm::reference(inputs, rms_norm::Settings { eps, group_size }, key)
}

/// [`rms_norm::reference`] with a gate.
#[track_caller]
pub fn rms_norm_gated<const D: usize>(
    x: Tensor<D>,
    gate: Tensor<D>,
    weight: Option<Tensor<1>>,
    eps: f64,
    group_size: Option<usize>,
    key: RmsNormKey,
) -> Tensor<D> {
    let inputs = rms_norm::Inputs {
        x,
        weight,
        gate: Some(gate),
    };
    rms_norm::reference(inputs, rms_norm::Settings { eps, group_size }, key)
}

/// [`glu::reference`] of separate projections.
#[track_caller]
pub fn glu<const D: usize>(
    gate: Tensor<D>,
    up: Tensor<D>,
    limit: Option<f64>,
    sparsity: Option<f64>,
    key: GluKey,
) -> Tensor<D> {
    let inputs = glu::Inputs::Separate { gate, up };
    glu::reference(inputs, glu::Settings { limit, sparsity }, key)
}

/// [`glu::reference`] of a packed projection.
#[track_caller]
pub fn glu_packed<const D: usize>(
    gate_up: Tensor<D>,
    limit: Option<f64>,
    key: GluKey,
) -> Tensor<D> {
    let settings = glu::Settings {
        limit,
        sparsity: None,
    };
    glu::reference(glu::Inputs::Packed(gate_up), settings, key)
}

/// [`rope::reference`].
#[track_caller]
pub fn rope(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: impl RopeTable,
    sin: impl RopeTable,
    key: RopeKey,
) -> (Tensor<4>, Tensor<4>) {
    rope::reference(q, k, cos, sin, key)
}

/// [`rope::reference_sections`].
#[track_caller]
pub fn rope_sections(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: impl SectionTable,
    sin: impl SectionTable,
    sections: [usize; 3],
    key: RopeKey,
) -> (Tensor<4>, Tensor<4>) {
    rope::reference_sections(q, k, cos.table(), sin.table(), sections, key)
}

/// [`experts::reference`](moe::reference()) of stacked weights.
#[track_caller]
pub fn experts(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    weights: StackedExperts<'_>,
    limit: Option<f64>,
    key: MoeExpertsKey,
) -> Tensor<2> {
    moe::reference(x, indices, routing, weights.read(), limit, key)
}

/// Gate and up of one expert's rows, as its projections give them.
pub type GateUp = glu::Inputs<2>;

/// [`experts::each`](moe::each()) of `count` layers: `gate_up(e, rows)` and `down(e, hidden)` are
/// the projections of expert `e`, called through their own `forward`.
#[track_caller]
#[allow(clippy::too_many_arguments)] // They are what the operation has.
pub fn experts_list(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    count: usize,
    gate_up: &dyn Fn(usize, Tensor<2>) -> GateUp,
    down: &dyn Fn(usize, Tensor<2>) -> Tensor<2>,
    limit: Option<f64>,
    key: MoeExpertsKey,
) -> Tensor<2> {
    let unit = GluKey {
        activation: key.activation,
        projections: key.projections,
        clamp: key.clamp,
        up_offset: key.up_offset,
        topk: TopK::None,
    };
    let settings = glu::Settings {
        limit,
        sparsity: None,
    };
    moe::each(x, indices, routing, count, |expert, rows| {
        down(
            expert,
            glu::reference(gate_up(expert, rows), settings, unit),
        )
    })
}

/// A sparse block of its own layers and the router's reference.
#[track_caller]
pub fn block<const D: usize>(
    hidden: Tensor<D>,
    block: Block<'_>,
    key: MoeBlockKey,
) -> (Tensor<D>, Tensor<2>) {
    block.composition(hidden, key)
}
