//! Rotary position embeddings, alone and after a norm.

use super::Results;
use super::norm::{flat, view_of};
use crate::call::Error;
use crate::tensor::{Made, Tensor};
use kernels_simd::keys::{HeadLayout, RopeStyle, Rounding, TableLayout};
use kernels_simd::{Values, qk_norm_rope as normed, rope as rotation};

pub(super) fn rope(
    q: Tensor,
    k: Option<Tensor>,
    cos: Tensor,
    sin: Tensor,
    style: RopeStyle,
    layout: HeadLayout,
    table: TableLayout,
) -> Results<2> {
    let settings = rotation::Settings {
        style,
        layout,
        table,
    };
    both(
        [Some(&q), k.as_ref()],
        [&cos, &sin],
        settings,
        rotation::forward,
    )
}

pub(super) fn rope_backward(
    dq: Tensor,
    dk: Option<Tensor>,
    cos: Tensor,
    sin: Tensor,
    style: RopeStyle,
    layout: HeadLayout,
    table: TableLayout,
) -> Results<2> {
    let settings = rotation::Settings {
        style,
        layout,
        table,
    };
    both(
        [Some(&dq), dk.as_ref()],
        [&cos, &sin],
        settings,
        rotation::backward,
    )
}

fn both(
    tensors: [Option<&Tensor>; 2],
    [cos, sin]: [&Tensor; 2],
    settings: rotation::Settings,
    rotate: fn(&rotation::Operands<'_>) -> Values,
) -> Results<2> {
    let rotated = |x: &Tensor| -> Result<Made, Error> {
        let y = rotate(&rotation::Operands {
            x: x.view()?,
            cos: cos.view()?,
            sin: sin.view()?,
            settings,
        });
        Ok(Made::new(y, x.sizes()))
    };
    let [first, second] = tensors.map(|x| x.map(rotated).transpose());
    Ok([first?, second?])
}

#[allow(clippy::too_many_arguments)] // The list of functions names them.
pub(super) fn qk_norm_rope(
    x: Tensor,
    weight: Option<Tensor>,
    cos: Tensor,
    sin: Tensor,
    eps: f64,
    offset: f64,
    rounding: Rounding,
    together: bool,
    style: RopeStyle,
    layout: HeadLayout,
    table: TableLayout,
) -> Results<1> {
    let rotation = rotation::Settings {
        style,
        layout,
        table,
    };
    let settings = normed::Settings {
        eps,
        offset,
        rounding,
        together,
        rotation,
    };
    let y = normed::forward(&operands(&x, &weight, [&cos, &sin], settings)?);
    let sizes = match (layout, x.sizes()) {
        (HeadLayout::Bnsd, &[b, s, heads, d]) => vec![b, heads, s, d],
        (_, sizes) => sizes.to_vec(),
    };
    Ok([Some(Made::new(y, &sizes))])
}

#[allow(clippy::too_many_arguments)] // The list of functions names them.
pub(super) fn qk_norm_rope_backward(
    x: Tensor,
    weight: Option<Tensor>,
    cos: Tensor,
    sin: Tensor,
    dy: Tensor,
    eps: f64,
    offset: f64,
    rounding: Rounding,
    together: bool,
    style: RopeStyle,
    layout: HeadLayout,
    table: TableLayout,
    wants_weight: bool,
) -> Results<2> {
    let rotation = rotation::Settings {
        style,
        layout,
        table,
    };
    let settings = normed::Settings {
        eps,
        offset,
        rounding,
        together,
        rotation,
    };
    let operands = operands(&x, &weight, [&cos, &sin], settings)?;
    let found = normed::backward(&operands, &dy.view()?, wants_weight);
    Ok([Some(Made::new(found.x, x.sizes())), found.weight.map(flat)])
}

fn operands<'a>(
    x: &'a Tensor,
    weight: &'a Option<Tensor>,
    [cos, sin]: [&'a Tensor; 2],
    settings: normed::Settings,
) -> Result<normed::Operands<'a>, Error> {
    Ok(normed::Operands {
        x: x.view()?,
        weight: view_of(weight)?,
        cos: cos.view()?,
        sin: sin.view()?,
        settings,
    })
}
