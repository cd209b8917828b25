//! Linear layers.

use super::Results;
use super::norm::{flat, view_of};
use crate::call::{Error, refused};
use crate::tensor::{Made, Tensor};
use kernels_simd::keys::OutputLayout;
use kernels_simd::linear;

pub(super) fn forward(
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    layout: OutputLayout,
) -> Results<1> {
    let [_, outputs] = sizes(&weight, layout)?;
    let y = linear::forward(
        &x.view()?,
        &weight.view()?,
        layout,
        view_of(&bias)?.as_ref(),
    );
    Ok([Some(Made::new(y, &with_last(&x, outputs)?))])
}

pub(super) fn backward(
    x: Tensor,
    weight: Tensor,
    dy: Tensor,
    layout: OutputLayout,
    wants_x: bool,
    wants_weight: bool,
    wants_bias: bool,
) -> Results<3> {
    let [inputs, _] = sizes(&weight, layout)?;
    let (x_view, dy_view) = (x.view()?, dy.view()?);
    let dx = match wants_x {
        true => {
            let dx = linear::gradient_of_x(&dy_view, &weight.view()?, layout);
            Some(Made::new(dx, &with_last(&dy, inputs)?))
        }
        false => None,
    };
    let dweight = wants_weight.then(|| {
        let gradient = linear::gradient_of_weight(&x_view, &dy_view, layout);
        Made::new(gradient, weight.sizes())
    });
    let dbias = wants_bias.then(|| flat(linear::gradient_of_bias(&dy_view)));
    Ok([dx, dweight, dbias])
}

/// Returns the numbers of inputs and outputs of a weight.
fn sizes(weight: &Tensor, layout: OutputLayout) -> Result<[usize; 2], Error> {
    match (weight.sizes(), layout) {
        (&[outputs, inputs], OutputLayout::OutputMajor)
        | (&[inputs, outputs], OutputLayout::InputMajor) => Ok([inputs, outputs]),
        (sizes, _) => refused(format!("weight: two axes are expected, and not {sizes:?}")),
    }
}

/// Returns the sizes of a tensor with another last one.
fn with_last(x: &Tensor, size: usize) -> Result<Vec<usize>, Error> {
    match x.sizes() {
        [outer @ .., _] => Ok([outer, &[size]].concat()),
        [] => refused("a tensor without axes has no rows".into()),
    }
}
