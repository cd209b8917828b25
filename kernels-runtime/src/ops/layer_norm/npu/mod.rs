//! LayerNorm over CANN's operators.
//!
//! `N` is `aclnnLayerNorm`, `G` is `aclnnLayerNormBackward`. Both compute in f32 and round once; the statistics between
//! them are f32.
//!
//! | call | forward | backward | why |
//! |---|---|---|---|
//! | with a bias, or without | `N` | `G` | computes exactly this |
//! | strided | `N` | `G`; a strided `dy` is copied if `x` is not strided | both take strides, and `dy` in the shape of `x`, of which a contiguous `x` has two axes |
//! | strided, with more than 8 axes | refused | | `N` takes 8, and only a contiguous tensor can be viewed with fewer |
//! | f64, different types | refused | | CANN computes in f32 |
//! | no elements | nothing, or zeros | | CANN does not take them |
//!
//! `G` always computes the gradients of weight and bias, also where one is not wanted: they are sums of the same rows.
//! CANN sums them in a fixed order.

mod kernel;

pub(crate) use kernel::IMPLEMENTATION;

use super::{Each, LayerNorm, Operands};
use crate::npu::refused::one_float;
use crate::npu::views::{as_rows, in_shape_of, one_per_row};
use crate::npu::{OnNpu, Refused, Result, Seen, Specified, base};
use crate::ops::fused::{Backward, Made};
use burn_cann::ops::layer_norm::{check, check_backward, layer_norm, layer_norm_backward};
use burn_cann::{DType, Platform, Spec, Stream, Tensor};

/// Checks that the operators compute these operands.
///
/// # Errors
/// Returns the reason if they do not.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
) -> Result<(), Refused> {
    let (x, weight) = (operands.x().spec(), operands.weight().spec());
    let bias = operands.bias().map(|bias| bias.spec());
    let others = [("weight", weight)];
    let bias_too = bias.map(|bias| ("bias", bias));
    let dtype = one_float(("x", x), others.into_iter().chain(bias_too))?;
    let eps = operands.settings().eps;
    if x.is_empty() {
        // An empty call runs no operator, but the device must have it: a row of one element is checked instead.
        let (row, one) = (
            Spec::contiguous(dtype, [1, 1])?,
            Spec::contiguous(dtype, [1])?,
        );
        let bias = bias.map(|_| &one);
        check(platform, &row, Some(&one), bias, eps)?;
        return Ok(());
    }
    let rows = Spec {
        dtype,
        layout: as_rows(x)?,
    };
    let statistic = check(platform, &rows, Some(weight), bias, eps)?;
    check_backward(platform, &rows, &rows, &statistic, &statistic, Some(weight))?;
    Ok(())
}

impl OnNpu for LayerNorm {
    fn forward(
        stream: &Stream,
        operands: &Operands<Seen<Tensor>>,
        _: Option<&Each<bool>>,
    ) -> Result<Made<Tensor>> {
        decide(stream.device().platform(), operands)?;
        let x: &Tensor = operands.x();
        if x.spec().is_empty() {
            let (shape, _) = operands.statistic();
            let zeros = || base::filled(stream, DType::F32, shape.as_slice(), 0.0);
            let y = Tensor::empty(stream, x.dtype(), x.shape())?;
            return Ok(Made::new(y).saving([zeros()?, zeros()?]));
        }
        let rows = x.with_layout(as_rows(x.spec())?)?;
        let bias = operands.bias().map(|bias| &bias.0);
        let (weight, eps) = (Some(&operands.weight().0), operands.settings().eps);
        let found = layer_norm(stream, &rows, weight, bias, eps)?;
        Ok(Made::new(found.y.reshape(x.shape())?).saving([found.mean, found.rstd]))
    }

    fn backward(
        stream: &Stream,
        backward: &Backward<Self, Seen<Tensor>>,
    ) -> Result<Each<Option<Tensor>>> {
        let (operands, wanted) = (backward.operands(), backward.wanted());
        let [mean, rstd] = backward.saved();
        decide(stream.device().platform(), operands)?;
        let (x, weight): (&Tensor, &Tensor) = (operands.x(), operands.weight());
        if x.spec().is_empty() {
            let zeros = |wanted: bool| {
                let zeros = || base::filled(stream, weight.dtype(), weight.shape(), 0.0);
                wanted.then(zeros).transpose()
            };
            return Ok(Each {
                x: Some(Tensor::empty(stream, x.dtype(), x.shape())?),
                weight: zeros(wanted.weight)?,
                bias: zeros(wanted.bias)?,
            });
        }
        let rows = |tensor: &Tensor| -> Result<Tensor> {
            Ok(tensor.with_layout(as_rows(tensor.spec())?)?)
        };
        let x_rows = rows(x)?;
        let dy = in_shape_of(stream, &rows(backward.dy())?, &x_rows)?;
        let mean = one_per_row(&x_rows, mean)?;
        let rstd = one_per_row(&x_rows, rstd)?;
        let found = layer_norm_backward(stream, &dy, &x_rows, &mean, &rstd, Some(weight))?;
        Ok(Each {
            x: Some(found.dx.reshape(x.shape())?),
            weight: wanted.weight.then_some(found.dweight),
            bias: wanted.bias.then_some(found.dbias),
        })
    }
}
