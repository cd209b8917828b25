//! Experts whose weights are stacked.

use super::same_count;
use crate::__private::{ExpertBiases, ExpertWeights};
use crate::ops::moe::experts::{Adapter, GateUp, Projection, Weights};

/// The weights of all experts, with each projection in one tensor. They are fields or parameters, and are read only
/// when a kernel or the reference takes them.
#[derive(Clone, Copy)]
pub struct StackedExperts<'a> {
    gate: &'a dyn ExpertWeights,
    /// The weights of up, `None` if gate and up are in one tensor.
    up: Option<&'a dyn ExpertWeights>,
    down: &'a dyn ExpertWeights,
    /// The biases in the order of the weights, empty if there are none.
    biases: &'a [&'a dyn ExpertBiases],
    /// The parameters in the order of their first use, if that is not their own order.
    first_used: &'a [usize],
    count: Option<usize>,
}

impl<'a> StackedExperts<'a> {
    /// Makes the weights of experts with gate and up in one tensor.
    pub const fn packed(gate_up: &'a dyn ExpertWeights, down: &'a dyn ExpertWeights) -> Self {
        Self {
            gate: gate_up,
            up: None,
            down,
            biases: &[],
            first_used: &[],
            count: None,
        }
    }

    /// Makes the weights of experts with gate and up in two tensors.
    pub const fn separate(
        gate: &'a dyn ExpertWeights,
        up: &'a dyn ExpertWeights,
        down: &'a dyn ExpertWeights,
    ) -> Self {
        Self {
            gate,
            up: Some(up),
            down,
            biases: &[],
            first_used: &[],
            count: None,
        }
    }

    /// Adds a bias for each projection.
    #[must_use]
    pub const fn biases(mut self, biases: &'a [&'a dyn ExpertBiases]) -> Self {
        self.biases = biases;
        self
    }

    /// Sets the order in which parameters are first used. They are numbered by projection, the weights of each before
    /// its biases.
    #[must_use]
    pub const fn first_used(mut self, order: &'a [usize]) -> Self {
        self.first_used = order;
        self
    }

    /// Sets the number of experts that the annotated item states.
    #[must_use]
    pub const fn num_experts(mut self, count: usize) -> Self {
        self.count = Some(count);
        self
    }

    /// Initialises the parameters that are not initialised yet, in the order of their first use.
    fn initialise(&self) {
        for operand in self.first_used {
            // Each projection has its weights and then its biases, if there are any.
            let (projection, is_bias) = match self.biases {
                [] => (*operand, false),
                _ => (operand / 2, operand % 2 == 1),
            };
            let mut weights = [Some(self.gate), self.up, Some(self.down)]
                .into_iter()
                .flatten();
            match is_bias {
                true => self.biases[projection].initialise(),
                false => weights
                    .nth(projection)
                    .expect("the attribute numbers the projections")
                    .initialise(),
            }
        }
    }

    #[track_caller]
    pub(crate) fn read(&self) -> Weights {
        self.initialise();
        let mut biases = self.biases.iter();
        let mut read = |weights: &dyn ExpertWeights| Projection {
            weight: weights.expert_weights().into(),
            bias: biases.next().map(|biases| biases.expert_biases().into()),
            adapter: weights.low_rank().map(Adapter::from),
            quantised: weights.quantised().cloned(),
        };
        let gate = read(self.gate);
        let gate_up = match self.up {
            Some(up) => GateUp::Separate { gate, up: read(up) },
            None => GateUp::Packed(gate),
        };
        let weights = Weights {
            gate_up,
            down: read(self.down),
        };
        if let Some(expected) = self.count {
            same_count(weights.experts(), expected);
        }
        weights
    }
}
