//! Norms.

use super::Results;
use crate::tensor::{Made, Tensor};
use kernels_simd::keys::{Gating, Rounding};
use kernels_simd::{layer_norm as layer, rms_norm as rms};

#[allow(clippy::too_many_arguments)] // The list of functions names them.
pub(super) fn rms_norm(
    x: Tensor,
    weight: Option<Tensor>,
    residual: Option<Tensor>,
    gate: Option<Tensor>,
    eps: f64,
    group_size: i64,
    offset: f64,
    rounding: Rounding,
    gating: Gating,
) -> Results<3> {
    let operands = rms::Operands {
        x: x.view()?,
        weight: view_of(&weight)?,
        gate: view_of(&gate)?,
        bias: None,
        settings: settings(eps, group_size, offset, rounding, gating),
    };
    let found = rms::forward(&operands, view_of(&residual)?.as_ref());
    Ok([
        Some(Made::new(found.y, x.sizes())),
        Some(flat(found.rstd)),
        found.sum.map(|sum| Made::new(sum, x.sizes())),
    ])
}

#[allow(clippy::too_many_arguments)] // The list of functions names them.
pub(super) fn rms_norm_backward(
    x: Tensor,
    weight: Option<Tensor>,
    gate: Option<Tensor>,
    dy: Tensor,
    rstd: Tensor,
    before: Option<Tensor>,
    eps: f64,
    group_size: i64,
    offset: f64,
    rounding: Rounding,
    gating: Gating,
    wants_weight: bool,
) -> Results<3> {
    let found = rms::backward(&rms::Backward {
        operands: rms::Operands {
            x: x.view()?,
            weight: view_of(&weight)?,
            gate: view_of(&gate)?,
            bias: None,
            settings: settings(eps, group_size, offset, rounding, gating),
        },
        dy: dy.view()?,
        rstd: rstd.view()?,
        before: view_of(&before)?,
        wants_weight,
        wants_bias: false,
    });
    Ok([
        Some(Made::new(found.x, x.sizes())),
        found.weight.map(flat),
        found.gate.map(|gate| Made::new(gate, x.sizes())),
    ])
}

fn settings(
    eps: f64,
    group_size: i64,
    offset: f64,
    rounding: Rounding,
    gating: Gating,
) -> rms::Settings {
    rms::Settings {
        eps,
        group_size: usize::try_from(group_size).ok().filter(|size| *size > 0),
        offset,
        rounding,
        gating,
    }
}

pub(super) fn layer_norm(x: Tensor, weight: Tensor, bias: Option<Tensor>, eps: f64) -> Results<3> {
    let found = layer::forward(&x.view()?, &weight.view()?, view_of(&bias)?.as_ref(), eps);
    Ok([
        Some(Made::new(found.y, x.sizes())),
        Some(flat(found.mean)),
        Some(flat(found.rstd)),
    ])
}

pub(super) fn layer_norm_backward(
    x: Tensor,
    weight: Tensor,
    dy: Tensor,
    mean: Tensor,
    rstd: Tensor,
    wants_weight: bool,
    wants_bias: bool,
) -> Results<3> {
    let found = layer::backward(&layer::Backward {
        dy: dy.view()?,
        x: x.view()?,
        mean: mean.view()?,
        rstd: rstd.view()?,
        weight: weight.view()?,
        wants_weight,
        wants_bias,
    });
    Ok([
        Some(Made::new(found.x, x.sizes())),
        found.weight.map(flat),
        found.bias.map(flat),
    ])
}

/// Returns the view of a tensor that may be absent.
pub(super) fn view_of(
    tensor: &Option<Tensor>,
) -> Result<Option<kernels_simd::View<'_>>, crate::call::Error> {
    tensor.as_ref().map(Tensor::view).transpose()
}

/// Returns a result of one axis.
pub(super) fn flat(values: kernels_simd::Values) -> Made {
    let count = values.len();
    Made::new(values, &[count])
}
