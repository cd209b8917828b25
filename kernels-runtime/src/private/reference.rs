//! The compositions that struct forms fall back to.

use super::{RopeTable, SectionTable};
use crate::ops::{glu, rms_norm, rope};
use crate::semantics::{GluKey, RmsNormKey, RopeKey};
use burn::tensor::Tensor;

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
