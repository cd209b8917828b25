//! Cross-entropies.

use super::Results;
use super::norm::{flat, view_of};
use crate::call::{Error, refused};
use crate::tensor::{Made, Tensor, Type};
use kernels_simd::Values;
use kernels_simd::cross_entropy::{self as plain, Settings};
use kernels_simd::keys::{LossReduction, OutputLayout};
use kernels_simd::linear_cross_entropy::{self as fused, Gradients, Wanted};

#[allow(clippy::too_many_arguments)] // The list of functions names them.
pub(super) fn cross_entropy(
    logits: Tensor,
    targets: Tensor,
    ignore_index: i64,
    label_smoothing: f64,
    cap: Option<f64>,
    z_loss: f64,
    reduction: LossReduction,
) -> Results<2> {
    let found = plain::forward(&plain::Operands {
        logits: logits.view()?,
        targets: &classes(&targets, ignore_index, last(&logits))?,
        settings: Settings {
            label_smoothing,
            cap,
            z_loss,
        },
        reduction,
    });
    Ok([Some(loss(found.loss, reduction)), Some(flat(found.lse))])
}

#[allow(clippy::too_many_arguments)] // The list of functions names them.
pub(super) fn cross_entropy_backward(
    logits: Tensor,
    targets: Tensor,
    lse: Tensor,
    dy: Tensor,
    ignore_index: i64,
    label_smoothing: f64,
    cap: Option<f64>,
    z_loss: f64,
    reduction: LossReduction,
) -> Results<1> {
    let operands = plain::Operands {
        logits: logits.view()?,
        targets: &classes(&targets, ignore_index, last(&logits))?,
        settings: Settings {
            label_smoothing,
            cap,
            z_loss,
        },
        reduction,
    };
    let gradient = plain::backward(&operands, &lse.view()?, &dy.view()?);
    Ok([Some(Made::new(gradient, logits.sizes()))])
}

#[allow(clippy::too_many_arguments)] // The list of functions names them.
pub(super) fn linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    targets: Tensor,
    layout: OutputLayout,
    ignore_index: i64,
    label_smoothing: f64,
    cap: Option<f64>,
    z_loss: f64,
    reduction: LossReduction,
    wants_hidden: bool,
    wants_weight: bool,
    wants_bias: bool,
) -> Results<4> {
    let wanted = Wanted {
        hidden: wants_hidden,
        weight: wants_weight,
        bias: wants_bias,
    };
    if reduction == LossReduction::None && wanted.any() {
        return refused(
            "losses that are not reduced have their gradients by linear_cross_entropy_backward"
                .into(),
        );
    }
    let (found, gradients) = fused::forward(
        &fused::Operands {
            hidden: hidden.view()?,
            weight: weight.view()?,
            layout,
            bias: view_of(&bias)?,
            targets: &classes(&targets, ignore_index, outputs(&weight, layout))?,
            settings: Settings {
                label_smoothing,
                cap,
                z_loss,
            },
            reduction,
        },
        wanted,
    );
    let [dhidden, dweight, dbias] = made(gradients, &hidden, &weight, layout);
    Ok([Some(loss(found, reduction)), dhidden, dweight, dbias])
}

#[allow(clippy::too_many_arguments)] // The list of functions names them.
pub(super) fn linear_cross_entropy_backward(
    hidden: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    targets: Tensor,
    dy: Tensor,
    layout: OutputLayout,
    ignore_index: i64,
    label_smoothing: f64,
    cap: Option<f64>,
    z_loss: f64,
    reduction: LossReduction,
    wants_hidden: bool,
    wants_weight: bool,
    wants_bias: bool,
) -> Results<3> {
    let gradients = fused::backward(
        &fused::Operands {
            hidden: hidden.view()?,
            weight: weight.view()?,
            layout,
            bias: view_of(&bias)?,
            targets: &classes(&targets, ignore_index, outputs(&weight, layout))?,
            settings: Settings {
                label_smoothing,
                cap,
                z_loss,
            },
            reduction,
        },
        &dy.view()?,
        Wanted {
            hidden: wants_hidden,
            weight: wants_weight,
            bias: wants_bias,
        },
    );
    Ok(made(gradients, &hidden, &weight, layout))
}

pub(super) fn scaled(kept: Tensor, dy: Tensor, like: Tensor) -> Results<1> {
    let Type::Float(dtype) = like.dtype() else {
        return refused(format!(
            "like: the elements must be floats, and not {:?}",
            like.dtype()
        ));
    };
    let values = fused::scaled(&kept.view()?, &dy.view()?, dtype);
    Ok([Some(Made::new(values, kept.sizes()))])
}

/// Returns the gradients, that of the weight as `[classes, width]`, whatever its layout.
fn made(
    gradients: Gradients,
    hidden: &Tensor,
    weight: &Tensor,
    layout: OutputLayout,
) -> [Option<Made>; 3] {
    let of_weight = [outputs(weight, layout), last(hidden)];
    [
        gradients
            .hidden
            .map(|values| Made::new(values, hidden.sizes())),
        gradients.weight.map(|values| Made::new(values, &of_weight)),
        gradients.bias.map(flat),
    ]
}

fn loss(values: Values, reduction: LossReduction) -> Made {
    match reduction {
        LossReduction::None => flat(values),
        LossReduction::Mean | LossReduction::Sum => Made::new(values, &[]),
    }
}

fn last(tensor: &Tensor) -> usize {
    tensor.sizes().last().copied().unwrap_or(0)
}

/// Returns the number of classes of a weight.
fn outputs(weight: &Tensor, layout: OutputLayout) -> usize {
    match layout {
        OutputLayout::OutputMajor => weight.sizes().first().copied().unwrap_or(0),
        OutputLayout::InputMajor => last(weight),
    }
}

/// Reads the class of each token.
fn classes(targets: &Tensor, ignored: i64, count: usize) -> Result<Vec<Option<usize>>, Error> {
    let numbers = targets.integers()?;
    let class = |(token, number): (usize, i64)| match usize::try_from(number) {
        _ if number == ignored => Ok(None),
        Ok(class) if class < count => Ok(Some(class)),
        _ => refused(format!(
            "targets: token {token} has the class {number}; there are {count} classes, and {ignored} is ignored"
        )),
    };
    numbers.into_iter().enumerate().map(class).collect()
}
