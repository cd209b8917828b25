//! The operands of the experts of a mixture as live verification checks them.

use super::{GateUp, Projection, Settings, Weights, grouped, reference};
use crate::kernel::{Operands, Rows, Tensors, Visitor, picked};
use crate::live::probe::{append_larger, larger, root_mean_square};
use crate::ops::moe::Stack;
use crate::registry::Implementation;
use crate::semantics::MoeExpertsKey;
use burn::tensor::{Int, Tensor, TensorData};
use std::collections::BTreeSet;

/// The operands of the experts of a mixture.
#[derive(Clone)]
pub(crate) struct Experts {
    pub(crate) x: Tensor<2>,
    /// The experts of each token, numbered as in `weights`.
    pub(crate) indices: Tensor<2, Int>,
    /// The experts of each token, numbered as the site does. `weights` may hold only some of them.
    pub(crate) told: Tensor<2, Int>,
    pub(crate) routing: Tensor<2>,
    pub(crate) weights: Weights,
    pub(crate) limit: Option<f64>,
    pub(crate) key: MoeExpertsKey,
}

impl Experts {
    /// The operands that a body does not take from its argument.
    pub(crate) const CAPTURED: &[&str] = &[
        "gate_up",
        "gate",
        "up",
        "down",
        "gate_up_bias",
        "gate_bias",
        "up_bias",
        "down_bias",
        "adapter_a",
        "adapter_b",
    ];
}

impl Tensors for Experts {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("x", &mut self.x);
        visitor.tensor("routing", &mut self.routing);
        match &mut self.weights.gate_up {
            GateUp::Packed(gate_up) => projection(["gate_up", "gate_up_bias"], gate_up, visitor),
            GateUp::Separate { gate, up } => {
                projection(["gate", "gate_bias"], gate, visitor);
                projection(["up", "up_bias"], up, visitor);
            }
        }
        projection(["down", "down_bias"], &mut self.weights.down, visitor);
    }
}

fn projection(
    [weight, bias]: [&'static str; 2],
    projection: &mut Projection,
    visitor: &mut impl Visitor,
) {
    stack(weight, &mut projection.weight, visitor);
    if let Some(biases) = &mut projection.bias {
        stack(bias, biases, visitor);
    }
    if let Some(adapter) = &mut projection.adapter {
        visitor.tensor("adapter_a", &mut adapter.a);
        visitor.tensor("adapter_b", &mut adapter.b);
    }
}

fn stack<const STACKED: usize, const SINGLE: usize>(
    name: &'static str,
    stack: &mut Stack<STACKED, SINGLE>,
    visitor: &mut impl Visitor,
) {
    match stack {
        Stack::Stacked(tensor) => visitor.tensor(name, tensor),
        Stack::List(tensors) => tensors
            .iter_mut()
            .for_each(|tensor| visitor.tensor(name, tensor)),
    }
}

impl Operands for Experts {
    type Output = Tensor<2>;

    fn reference(self) -> Tensor<2> {
        let Self { limit, key, .. } = self;
        reference(self.x, self.indices, self.routing, self.weights, limit, key)
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<2> {
        let (key, limit) = (self.key, self.limit);
        if self.weights.are_adapted() {
            return grouped::experts(
                self.x,
                self.indices,
                self.routing,
                &self.weights,
                limit,
                key,
            );
        }
        let settings = Settings { key, limit };
        let Self { x, indices, .. } = self;
        let operands = super::Operands::of(x, indices, self.routing, self.weights, settings);
        Tensor::from_dispatch(operands.run(implementation))
    }

    /// Takes the first and the last token, and the experts that they are routed to.
    fn sample(&self, rows: Rows) -> Option<Self> {
        let told = picked(self.told.clone(), 0, 2);
        let (weights, indices) = self.of_experts_in(picked(self.indices.clone(), 0, 2));
        Some(Self {
            x: rows.ends(&self.x, 0),
            indices,
            told,
            routing: rows.ends(&self.routing, 0),
            weights,
            ..self.clone()
        })
    }

    /// Appends the first token, made larger, if its gates are so small that every activation is nearly
    /// linear.
    fn with_probes(self) -> (Self, usize) {
        let Some(factor) = self.larger() else {
            return (self, 0);
        };
        let once_more = |tensor: Tensor<2, Int>| {
            let first = tensor.clone().narrow(0, 0, 1);
            Tensor::cat(vec![tensor, first], 0)
        };
        let operands = Self {
            x: append_larger(self.x, factor),
            indices: once_more(self.indices),
            told: once_more(self.told),
            routing: append_larger(self.routing, 1.0),
            ..self
        };
        (operands, 1)
    }
}

impl Experts {
    /// Returns the weights of the experts in `indices`, and the indices numbered within these weights.
    fn of_experts_in(&self, indices: Tensor<2, Int>) -> (Weights, Tensor<2, Int>) {
        let all = self.weights.experts();
        let numbers: Vec<i64> = indices.to_data().iter::<i64>().collect();
        let is_one = |number: &i64| usize::try_from(*number).is_ok_and(|number| number < all);
        let chosen: BTreeSet<i64> = numbers.iter().copied().filter(is_one).collect();
        if chosen.is_empty() || chosen.len() == all {
            return (self.weights.clone(), indices);
        }
        let chosen: Vec<i64> = chosen.into_iter().collect();
        // A token that is routed to no expert here stays so.
        let place = |number: &i64| chosen.binary_search(number).unwrap_or(chosen.len()) as i64;
        let places: Vec<i64> = numbers.iter().map(place).collect();
        let data = TensorData::new(places, indices.dims()).convert_dtype(indices.dtype());
        let places = Tensor::from_data(data, (&indices.device(), indices.dtype()));
        let chosen: Vec<usize> = chosen.iter().map(|number| *number as usize).collect();
        (self.weights.of_experts(&chosen), places)
    }

    /// Returns the factor that brings the gates of the tokens to the range where activations curve.
    fn larger(&self) -> Option<f64> {
        let (GateUp::Packed(gate) | GateUp::Separate { gate, .. }) = &self.weights.gate_up;
        let (size, hidden) = (root_mean_square(&self.x), self.x.dims()[1] as f64);
        let gate = root_mean_square(&gate.weight.expert(0));
        larger(size * gate * hidden.sqrt(), size)
    }
}
