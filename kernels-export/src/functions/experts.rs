//! The experts of a mixture.

use super::Results;
use crate::call::{Error, refused};
use crate::tensor::{Made, Tensor};
use kernels_simd::View;
use kernels_simd::keys::{Activation, ExpertLayout, Projections};
use kernels_simd::moe::experts::{self as moe, Operands, Settings, Wanted};
use kernels_simd::moe::{Groups, Integers};

#[allow(clippy::too_many_arguments)] // The list of functions names them.
pub(super) fn forward(
    x: Tensor,
    routing: Tensor,
    experts: Tensor,
    gate: Tensor,
    up: Option<Tensor>,
    down: Tensor,
    gate_bias: Option<Tensor>,
    up_bias: Option<Tensor>,
    down_bias: Option<Tensor>,
    activation: Activation,
    projections: Projections,
    layout: ExpertLayout,
    limit: Option<f64>,
    up_offset: f64,
    keep: bool,
) -> Results<2> {
    let weights = Weights([Some(gate), up, Some(down), gate_bias, up_bias, down_bias]);
    let groups = weights.groups(&routing, &experts)?;
    let settings = Settings {
        activation,
        projections,
        layout,
        limit,
        up_offset,
    };
    let found = moe::forward(&weights.operands(&x, &routing, &groups, settings)?, keep);
    let kept = found.kept.map(|kept| {
        let rows = groups.slots().len();
        let width = kept.len().checked_div(rows).unwrap_or(0);
        Made::new(kept, &[rows, width])
    });
    Ok([Some(Made::new(found.y, x.sizes())), kept])
}

#[allow(clippy::too_many_arguments)] // The list of functions names them.
pub(super) fn backward(
    x: Tensor,
    routing: Tensor,
    experts: Tensor,
    gate: Tensor,
    up: Option<Tensor>,
    down: Tensor,
    gate_bias: Option<Tensor>,
    up_bias: Option<Tensor>,
    down_bias: Option<Tensor>,
    dy: Tensor,
    kept: Tensor,
    activation: Activation,
    projections: Projections,
    layout: ExpertLayout,
    limit: Option<f64>,
    up_offset: f64,
    wants_x: bool,
    wants_routing: bool,
    wants_weights: bool,
) -> Results<8> {
    let weights = Weights([Some(gate), up, Some(down), gate_bias, up_bias, down_bias]);
    let groups = weights.groups(&routing, &experts)?;
    let settings = Settings {
        activation,
        projections,
        layout,
        limit,
        up_offset,
    };
    let operands = weights.operands(&x, &routing, &groups, settings)?;
    let wanted = Wanted {
        x: wants_x,
        routing: wants_routing,
        weights: weights
            .0
            .each_ref()
            .map(|weight| vec![wants_weights; weight.iter().len()])
            .into(),
    };
    let found = moe::backward(&operands, &dy.view()?, &kept.view()?, &wanted).by_token();
    let mut of_weights = found
        .weights
        .into_iter()
        .zip(&weights.0)
        .map(|(mut found, weight)| {
            let (values, weight) = (found.pop()??, weight.as_ref()?);
            Some(Made::new(values, weight.sizes()))
        });
    let mut next = || of_weights.next().flatten();
    Ok([
        found.x.map(|values| Made::new(values, x.sizes())),
        found
            .routing
            .map(|values| Made::new(values, routing.sizes())),
        next(),
        next(),
        next(),
        next(),
        next(),
        next(),
    ])
}

/// The stacked weights: gate, up, down, and their biases.
struct Weights([Option<Tensor>; 6]);

impl Weights {
    /// Sorts the choices of tokens by expert.
    fn groups(&self, routing: &Tensor, experts: &Tensor) -> Result<Groups, Error> {
        let count = self.0[moe::GATE]
            .as_ref()
            .and_then(|gate| gate.sizes().first());
        let (Some(count), &[_, choices]) = (count, experts.sizes()) else {
            return refused(format!(
                "experts: numbers [tokens, choices] are expected, and not a shape of {:?}",
                experts.sizes()
            ));
        };
        if experts.sizes() != routing.sizes() {
            return refused(format!(
                "routing: a shape of {:?} is expected, and not {:?}",
                experts.sizes(),
                routing.sizes()
            ));
        }
        Ok(Groups::by_expert(
            Integers::I64(&experts.integers()?),
            choices,
            *count,
        ))
    }

    fn operands<'a>(
        &'a self,
        x: &'a Tensor,
        routing: &'a Tensor,
        groups: &'a Groups,
        settings: Settings,
    ) -> Result<Operands<'a>, Error> {
        let views = self
            .0
            .iter()
            .map(|weight| weight.iter().map(Tensor::view).collect());
        Ok(Operands {
            x: x.view()?,
            routing: routing.view()?,
            groups,
            weights: views.collect::<Result<Vec<Vec<View<'a>>>, _>>()?,
            settings,
        })
    }
}
