//! The experts of a mixture.

use super::Results;
use crate::call::{Error, refused};
use crate::made::Made;
use crate::numbers::{Finite, Limit};
use crate::tensor::Tensor;
use kernels_simd::View;
use kernels_simd::keys::{Activation, ExpertLayout, Projections};
use kernels_simd::moe::experts::{self as moe, Operands, Settings, Wanted};
use kernels_simd::moe::{Groups, Integers};

/// The experts of a mixture, and the tokens that are routed to them.
pub(super) struct Experts {
    pub(super) x: Tensor,
    pub(super) routing: Tensor,
    /// The numbers of the experts of each token.
    pub(super) experts: Tensor,
    /// The stacked weights: gate, up, down, and their biases.
    pub(super) weights: [Option<Tensor>; 6],
    pub(super) activation: Activation,
    pub(super) projections: Projections,
    pub(super) layout: ExpertLayout,
    pub(super) limit: Option<Limit>,
    pub(super) up_offset: Finite,
}

impl Experts {
    pub(super) fn forward(self, keep: bool) -> Results<2> {
        let groups = self.groups()?;
        let found = moe::forward(&self.operands(&groups)?, keep);
        let kept = found
            .kept
            .map(|kept| Made::new(kept, &[groups.slots().len(), 2 * self.width()]));
        Ok([Some(Made::new(found.y, self.x.sizes())), kept])
    }

    pub(super) fn backward(
        self,
        dy: Tensor,
        kept: Tensor,
        [wants_x, wants_routing, wants_weights]: [bool; 3],
    ) -> Results<8> {
        let groups = self.groups()?;
        let flags = |weight: &Option<Tensor>| vec![wants_weights; weight.iter().len()];
        let wanted = Wanted {
            x: wants_x,
            routing: wants_routing,
            weights: self.weights.iter().map(flags).collect(),
        };
        let operands = self.operands(&groups)?;
        let found = moe::backward(&operands, &dy.view()?, &kept.view()?, &wanted).by_token();
        let mut of_weights = found
            .weights
            .into_iter()
            .zip(&self.weights)
            .map(|(mut found, weight)| Made::like(found.pop()?, weight));
        let mut next = || of_weights.next().flatten();
        Ok([
            found.x.map(|values| Made::new(values, self.x.sizes())),
            (found.routing).map(|values| Made::new(values, self.routing.sizes())),
            next(),
            next(),
            next(),
            next(),
            next(),
            next(),
        ])
    }

    /// Sorts the choices of tokens by expert.
    fn groups(&self) -> Result<Groups, Error> {
        let gate = self.weights[moe::GATE].as_ref();
        let count = gate.and_then(|gate| gate.sizes().first());
        let (Some(count), &[_, choices]) = (count, self.experts.sizes()) else {
            return refused(format!(
                "experts: numbers [tokens, choices] and stacked weights are expected, and not a shape of {:?}",
                self.experts.sizes()
            ));
        };
        if self.experts.sizes() != self.routing.sizes() {
            return refused(format!(
                "routing: a shape of {:?} is expected, and not {:?}",
                self.experts.sizes(),
                self.routing.sizes()
            ));
        }
        Ok(Groups::by_expert(
            Integers::I64(&self.experts.integers()?),
            choices,
            *count,
        ))
    }

    /// Returns the number of features of an expert, whose operands are checked.
    fn width(&self) -> usize {
        let down = self.weights[moe::DOWN].as_ref().map(Tensor::sizes);
        match (down, self.layout) {
            (Some(&[_, _, width]), ExpertLayout::Linear)
            | (Some(&[_, width, _]), ExpertLayout::Matmul) => width,
            _ => 0,
        }
    }

    fn operands<'a>(&'a self, groups: &'a Groups) -> Result<Operands<'a>, Error> {
        let views = self
            .weights
            .iter()
            .map(|weight| weight.iter().map(Tensor::view).collect());
        Ok(Operands {
            x: self.x.view()?,
            routing: self.routing.view()?,
            groups,
            weights: views.collect::<Result<Vec<Vec<View<'a>>>, _>>()?,
            settings: Settings {
                activation: self.activation,
                projections: self.projections,
                layout: self.layout,
                limit: self.limit.map(|limit| limit.0),
                up_offset: self.up_offset.0,
            },
        })
    }
}
