//! Gated linear units, and steps of AdamW.

use super::Results;
use super::norm::view_of;
use crate::call::{Error, refused};
use crate::tensor::{Made, Tensor, in_place};
use kernels_simd::keys::{Activation, Projections};
use kernels_simd::{adam_w as adam, glu as unit};

pub(super) fn glu(
    gate: Tensor,
    up: Option<Tensor>,
    activation: Activation,
    projections: Projections,
    limit: Option<f64>,
    up_offset: f64,
    threshold: Option<f64>,
) -> Results<1> {
    let settings = settings(activation, projections, limit, up_offset, threshold);
    let y = unit::forward(&operands(&gate, &up, settings)?);
    let mut sizes = gate.sizes().to_vec();
    if let (Some(last), false) = (sizes.last_mut(), projections == Projections::Separate) {
        *last /= 2;
    }
    Ok([Some(Made::new(y, &sizes))])
}

#[allow(clippy::too_many_arguments)] // The list of functions names them.
pub(super) fn glu_backward(
    gate: Tensor,
    up: Option<Tensor>,
    dy: Tensor,
    activation: Activation,
    projections: Projections,
    limit: Option<f64>,
    up_offset: f64,
    threshold: Option<f64>,
) -> Results<2> {
    let settings = settings(activation, projections, limit, up_offset, threshold);
    let found = unit::backward(&operands(&gate, &up, settings)?, &dy.view()?);
    Ok([
        Some(Made::new(found.gate, gate.sizes())),
        found.up.map(|up| Made::new(up, dy.sizes())),
    ])
}

fn settings(
    activation: Activation,
    projections: Projections,
    limit: Option<f64>,
    up_offset: f64,
    threshold: Option<f64>,
) -> unit::Settings {
    unit::Settings {
        activation,
        projections,
        limit,
        up_offset,
        threshold,
    }
}

fn operands<'a>(
    gate: &'a Tensor,
    up: &'a Option<Tensor>,
    settings: unit::Settings,
) -> Result<unit::Operands<'a>, Error> {
    Ok(unit::Operands {
        gate: gate.view()?,
        up: view_of(up)?,
        settings,
    })
}

#[allow(clippy::too_many_arguments)] // The list of functions names them.
pub(super) fn adam_w(
    mut parameter: Tensor,
    mut moment_1: Tensor,
    mut moment_2: Tensor,
    gradient: Tensor,
    learning_rate: f64,
    beta_1: f64,
    beta_2: f64,
    epsilon: f64,
    weight_decay: f64,
    step: i64,
) -> Results<0> {
    let (Ok(step), true) = (i32::try_from(step), step > 0) else {
        return refused(format!(
            "step: the number of the step must be positive, and not {step}"
        ));
    };
    let sizes = [&parameter, &moment_1, &moment_2].map(Tensor::sizes);
    if sizes.iter().any(|sizes| *sizes != gradient.sizes()) {
        return refused(format!(
            "parameter and moments of shapes {sizes:?} don't go with a gradient of shape {:?}",
            gradient.sizes()
        ));
    }
    let [parameter, moment_1, moment_2] =
        in_place([&mut parameter, &mut moment_1, &mut moment_2], &[&gradient])?;
    let settings = adam::Settings {
        learning_rate,
        beta_1,
        beta_2,
        epsilon,
        weight_decay,
        corrections: [beta_1, beta_2].map(|beta| 1.0 - beta.powi(step)),
    };
    adam::step(settings, parameter, [moment_1, moment_2], &gradient.view()?);
    Ok([])
}
