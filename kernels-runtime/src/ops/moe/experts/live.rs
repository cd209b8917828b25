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
    /// Visits the tensors in the order of the checked operands, which the limits of implementations read: all weights, then
    /// all biases. Adapters, which are not among the operands, come last.
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("x", &mut self.x);
        visitor.tensor("routing", &mut self.routing);
        let mut projections = named(&mut self.weights);
        for (names, one) in projections.iter_mut().flatten() {
            stack(names[0], &mut one.weight, visitor);
        }
        for (names, one) in projections.iter_mut().flatten() {
            if let Some(biases) = &mut one.bias {
                stack(names[1], biases, visitor);
            }
        }
        for (_, one) in projections.iter_mut().flatten() {
            if let Some(adapter) = &mut one.adapter {
                visitor.tensor("adapter_a", &mut adapter.a);
                visitor.tensor("adapter_b", &mut adapter.b);
            }
        }
    }
}

/// A projection with the names of its weight and its bias.
type Named<'a> = ([&'static str; 2], &'a mut Projection);

/// Returns the projections gate (with up, if they are packed), up (if it is separate) and down.
fn named(weights: &mut Weights) -> [Option<Named<'_>>; 3] {
    let Weights { gate_up, down } = weights;
    let (gate, up): (Named<'_>, Option<Named<'_>>) = match gate_up {
        GateUp::Packed(both) => ((["gate_up", "gate_up_bias"], both), None),
        GateUp::Separate { gate, up } => {
            ((["gate", "gate_bias"], gate), Some((["up", "up_bias"], up)))
        }
    };
    [Some(gate), up, Some((["down", "down_bias"], down))]
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
        Tensor::from_dispatch(super::Experts::run(operands, implementation).y)
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

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use crate::kernel::Collect;
    use crate::ops::operands::Described;
    use crate::semantics::{ExpertBias, ExpertLayout, Projections};
    use burn::tensor::Device;

    /// The tensors of a site are those of a direct call, in the same order: limits of implementations read both.
    #[test]
    fn tensors_have_the_order_of_the_checked_operands() {
        const EXPERTS: usize = 3;
        let device = Device::flex();
        let ones = |shape: [usize; 2]| Tensor::<2>::ones(shape, &device);
        let weight = |listed: bool, shape: [usize; 2]| -> Stack<3, 2> {
            match listed {
                true => Stack::List(vec![ones(shape); EXPERTS]),
                false => Stack::Stacked(ones(shape).unsqueeze::<3>().repeat_dim(0, EXPERTS)),
            }
        };
        let bias = |listed: bool, features: usize| -> Stack<2, 1> {
            match listed {
                true => Stack::List(vec![Tensor::ones([features], &device); EXPERTS]),
                false => Stack::Stacked(ones([EXPERTS, features])),
            }
        };
        for listed in [false, true] {
            for separate in [false, true] {
                let projection = |inputs: usize, features: usize| {
                    let weight = weight(listed, [inputs, features]);
                    Projection::new(weight).with_bias(bias(listed, features))
                };
                let (weights, projections) = match separate {
                    true => {
                        let [gate, up] = [projection(4, 5), projection(4, 5)];
                        (
                            Weights::separate(gate, up, projection(5, 4)),
                            Projections::Separate,
                        )
                    }
                    false => (
                        Weights::packed(projection(4, 10), projection(5, 4)),
                        Projections::Chunked,
                    ),
                };
                let key = MoeExpertsKey {
                    projections,
                    layout: ExpertLayout::Matmul,
                    bias: ExpertBias::All,
                    ..MoeExpertsKey::QWEN3
                };
                let indices = Tensor::<2, Int>::from_data([[0, 1], [2, 0]], &device);
                let (x, routing) = (ones([2, 4]), ones([2, 2]));
                let settings = Settings { key, limit: None };
                let direct = super::super::Operands::of(
                    x.clone(),
                    indices.clone(),
                    routing.clone(),
                    weights.clone(),
                    settings,
                );
                let mut of_site = Experts {
                    x,
                    told: indices.clone(),
                    indices,
                    routing,
                    weights,
                    limit: None,
                    key,
                };
                let of_site = Collect::of(&mut of_site);
                let of_site: Vec<_> = of_site
                    .tensors()
                    .into_iter()
                    .map(Described::shape)
                    .collect();
                let direct: Vec<_> = direct.all().into_iter().map(Described::shape).collect();
                assert_eq!(of_site, direct, "listed {listed}, separate {separate}");
            }
        }
    }
}
