//! Linear layers.

use super::Results;
use super::norm::view_of;
use crate::call::{Error, refused};
use crate::made::Made;
use crate::tensor::Tensor;
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
    [wants_x, wants_weight, wants_bias]: [bool; 3],
) -> Results<3> {
    let [inputs, outputs] = sizes(&weight, layout)?;
    // Each gradient is of two of the three only.
    let fits = x.sizes().last() == Some(&inputs) && dy.sizes() == with_last(&x, outputs)?;
    if !fits || [x.dtype(), dy.dtype()] != [weight.dtype(); 2] {
        return refused(format!(
            "x of shape {:?} in {:?} and dy of shape {:?} in {:?} don't go with a weight of {inputs} inputs and {outputs} outputs in {:?}",
            x.sizes(),
            x.dtype(),
            dy.sizes(),
            dy.dtype(),
            weight.dtype()
        ));
    }
    let (x_view, dy_view, weight_view) = (x.view()?, dy.view()?, weight.view()?);
    let dx = wants_x.then(|| linear::gradient_of_x(&dy_view, &weight_view, layout));
    let dweight = wants_weight.then(|| linear::gradient_of_weight(&x_view, &dy_view, layout));
    let dbias = wants_bias.then(|| linear::gradient_of_bias(&dy_view));
    Ok([
        dx.map(|values| Made::new(values, x.sizes())),
        dweight.map(|values| Made::new(values, weight.sizes())),
        dbias.map(Made::flat),
    ])
}

/// Returns the numbers of inputs and outputs of a weight.
pub(super) fn sizes(weight: &Tensor, layout: OutputLayout) -> Result<[usize; 2], Error> {
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
        [] => refused("x: a tensor without axes has no rows".into()),
    }
}
