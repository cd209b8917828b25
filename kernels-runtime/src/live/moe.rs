//! The experts of a mixture and their router, as operands of a checked call.

use super::probe::{append_larger, larger, root_mean_square};
use crate::kernel::{Operands, Rows, Tensors, Visitor, picked};
use crate::ops::compute_dtype;
use crate::ops::moe::Stack;
use crate::ops::moe::experts::{self, GateUp, Projection, Weights};
use crate::ops::moe::router::{self, Among, Routed, Routing, settled};
use crate::registry::Implementation;
use crate::semantics::MoeKey;
use burn::tensor::{DType, Int, Tensor, TensorData};
use std::collections::BTreeSet;

/// The experts of a mixture.
#[derive(Clone)]
pub(crate) struct Experts {
    pub(crate) x: Tensor<2>,
    /// The experts of each token, in the order of `weights`.
    pub(crate) indices: Tensor<2, Int>,
    /// The same as the site counts its experts: `weights` may be those of some.
    pub(crate) told: Tensor<2, Int>,
    pub(crate) routing: Tensor<2>,
    pub(crate) weights: Weights,
    pub(crate) limit: Option<f64>,
    pub(crate) key: MoeKey,
}

impl Experts {
    /// What a body does not take from its argument.
    pub(crate) const CAPTURED: &[&str] = &[
        "gate_up",
        "gate",
        "up",
        "down",
        "gate_up_bias",
        "gate_bias",
        "up_bias",
        "down_bias",
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
        let Self {
            x,
            indices,
            routing,
            weights,
            limit,
            key,
            ..
        } = self;
        experts::reference(x, indices, routing, weights, limit, key)
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<2> {
        let Self {
            x,
            indices,
            routing,
            weights,
            limit,
            key,
            ..
        } = self;
        let settings = experts::Settings { key, limit };
        experts::Operands::of(x, indices, routing, weights, settings).run(implementation)
    }

    /// The first and the last token, and the experts that they go to.
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

    /// The first token made larger, if its gates are so small that any activation is a straight
    /// line.
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
    /// The weights of the experts among `indices`, and the indices as they count those.
    fn of_experts_in(&self, indices: Tensor<2, Int>) -> (Weights, Tensor<2, Int>) {
        let all = self.weights.experts();
        let numbers: Vec<i64> = indices.to_data().iter::<i64>().collect();
        let is_one = |number: &i64| usize::try_from(*number).is_ok_and(|number| number < all);
        let chosen: BTreeSet<i64> = numbers.iter().copied().filter(is_one).collect();
        if chosen.is_empty() || chosen.len() == all {
            return (self.weights.clone(), indices);
        }
        let chosen: Vec<i64> = chosen.into_iter().collect();
        // Whoever goes to no expert goes to none of these.
        let place = |number: &i64| chosen.binary_search(number).unwrap_or(chosen.len()) as i64;
        let places: Vec<i64> = numbers.iter().map(place).collect();
        let data = TensorData::new(places, indices.dims()).convert_dtype(indices.dtype());
        let places = Tensor::from_data(data, (&indices.device(), indices.dtype()));
        let chosen: Vec<usize> = chosen.iter().map(|number| *number as usize).collect();
        (self.weights.of_experts(&chosen), places)
    }

    /// The factor that brings the gates of the tokens to where activations bend.
    fn larger(&self) -> Option<f64> {
        let (GateUp::Packed(gate) | GateUp::Separate { gate, .. }) = &self.weights.gate_up;
        let (size, hidden) = (root_mean_square(&self.x), self.x.dims()[1] as f64);
        let gate = root_mean_square(&gate.weight.expert(0));
        larger(size * gate * hidden.sqrt(), size)
    }
}

/// A router.
#[derive(Clone)]
pub(crate) struct Router {
    pub(crate) logits: Tensor<2>,
    /// The correction of the choice, which has no gradient.
    pub(crate) bias: Option<Tensor<1>>,
    pub(crate) routing: Routing,
}

impl Tensors for Router {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("logits", &mut self.logits);
    }
}

impl Operands for Router {
    type Output = Choice;

    fn reference(self) -> Choice {
        let of = self.clone();
        let routed = router::reference(self.logits, self.bias, &self.routing);
        Choice { routed, of }
    }

    fn launch(self, implementation: &'static Implementation) -> Choice {
        let of = self.clone();
        let operands = router::Operands::of(self.logits, self.bias, &self.routing);
        let routed = operands.run(implementation);
        Choice { routed, of }
    }

    fn sample(&self, rows: Rows) -> Option<Self> {
        Some(Self {
            logits: rows.more().of(&self.logits),
            ..self.clone()
        })
    }
}

/// What a router chose, and of what.
#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) routed: Routed,
    of: Router,
}

impl Tensors for Choice {
    /// The weights and the experts of the tokens whose choice no rounding changes; zeros for others.
    fn visit(&mut self, visitor: &mut impl Visitor) {
        let dtype = self.routed.weights.dtype();
        let mut weights = self.routed.weights.clone();
        let mut experts = self.routed.indices.clone().float().cast(dtype);
        if let Some(mask) = self.mask() {
            weights = weights * mask.clone();
            experts = experts * mask;
        }
        visitor.tensor("weights", &mut weights);
        visitor.tensor("experts", &mut experts);
    }
}

impl Choice {
    /// `[tokens, 1]`, where scores are compared, which are rounded. Logits are compared as they are.
    fn mask(&self) -> Option<Tensor<2>> {
        let Router {
            logits,
            bias,
            routing,
        } = &self.of;
        if routing.chooses_by_logits() {
            return None;
        }
        let tolerance = match compute_dtype(logits.dtype()) {
            DType::F64 => 2.0_f64.powi(-44),
            _ => 2.0_f64.powi(-18),
        };
        let settled = settled(logits, bias.as_ref(), routing, Among::Order, tolerance);
        Some(mask(&settled, &self.routed.weights))
    }
}

/// Ones for what is true, `[rows, 1]`, on the device and in the dtype of `like`.
pub(crate) fn mask<const D: usize>(rows: &[bool], like: &Tensor<D>) -> Tensor<2> {
    let ones: Vec<f32> = rows.iter().map(|row| f32::from(u8::from(*row))).collect();
    let data = TensorData::new(ones, [rows.len(), 1]).convert_dtype(like.dtype());
    Tensor::from_data(data, (&like.device().inner(), like.dtype()))
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use crate::live::{VerifyError, verify};
    use crate::registry::Launch;
    use crate::semantics::RouterKey;
    use burn::backend::DispatchTensor;
    use burn::tensor::{Device, Distribution};

    /// The kernel of the CPU.
    fn right(call: router::Operands<DispatchTensor>) -> (DispatchTensor, DispatchTensor) {
        let implementations = experts::KERNEL.implementations.iter();
        let mut launches = implementations.filter_map(|one| match one.launch {
            Launch::Router(launch) => Some(launch),
            _ => None,
        });
        launches.next().expect("the CPU has a router")(call)
    }

    /// The experts that score worst.
    fn worst(call: router::Operands<DispatchTensor>) -> (DispatchTensor, DispatchTensor) {
        let mut first = true;
        // The logits come first.
        right(call.map(|tensor| match std::mem::take(&mut first) {
            true => (-Tensor::<2>::from_dispatch(tensor)).into_dispatch(),
            false => tensor,
        }))
    }

    /// The right experts, weighted as those that score worst.
    fn weights_of_others(
        call: router::Operands<DispatchTensor>,
    ) -> (DispatchTensor, DispatchTensor) {
        (worst(call.clone()).0, right(call).1)
    }

    /// The right weights of the next experts.
    fn others(call: router::Operands<DispatchTensor>) -> (DispatchTensor, DispatchTensor) {
        let (weights, indices) = right(call);
        let next = Tensor::<2, Int>::from_dispatch(indices).add_scalar(1);
        (weights, next.into_dispatch())
    }

    fn check(
        launch: fn(router::Operands<DispatchTensor>) -> (DispatchTensor, DispatchTensor),
        router: &Router,
    ) -> Result<f64, VerifyError> {
        let implementation = Implementation {
            launch: Launch::Router(launch),
            ..router::IMPLEMENTATION
        };
        verify(Box::leak(Box::new(implementation)), router)
    }

    fn router(key: RouterKey) -> Router {
        let device = Device::flex().autodiff();
        let random = |shape| Tensor::random(shape, Distribution::Normal(0.0, 1.0), &device);
        let logits: Tensor<2> = random([21, 16]);
        let routing = Routing::new(key, 16, 3).expect("numbers that fit together");
        Router {
            logits,
            bias: None,
            routing,
        }
    }

    #[test]
    fn a_router_that_chooses_or_weighs_otherwise_is_found() {
        let plain = router(RouterKey::QWEN3_MOE);
        let grouped = router(RouterKey::DEEPSEEK_V3);
        let device = grouped.logits.device();
        let grouped = Router {
            bias: Some(Tensor::random([16], Distribution::Default, &device)),
            routing: grouped
                .routing
                .limited_to_groups(4, 2)
                .expect("four groups"),
            ..grouped
        };
        for router in [&plain, &grouped] {
            check(right, router).expect("the kernel is right");
            for wrong in [worst, weights_of_others, others] {
                let error = check(wrong, router).expect_err("it is not");
                assert!(matches!(error, VerifyError::Differs { .. }), "{error}");
            }
        }
    }

    /// In f32 the scores and their corrections are equal, in f64 they are not.
    #[test]
    fn a_choice_that_rounding_decides_is_not_compared() {
        let device = Device::flex();
        let key = RouterKey {
            grouping: crate::semantics::Grouping::None,
            ..RouterKey::DEEPSEEK_V3
        };
        let router = Router {
            logits: Tensor::from_floats([[0.0, 1e-7, -3.0], [2.0, 0.0, -3.0]], &device),
            bias: Some(Tensor::from_floats([0.0; 3], &device)),
            routing: Routing::new(key, 3, 1).expect("numbers that fit together"),
        };
        check(right, &router).expect("the second token is right");
        let mut choice = router.reference();
        let mut seen = Seen(Vec::new());
        choice.visit(&mut seen);
        assert_eq!(seen.0[0], [0.0, 1.0]);
    }

    struct Seen(Vec<Vec<f32>>);

    impl Visitor for Seen {
        fn tensor<const D: usize>(&mut self, _: &'static str, tensor: &mut Tensor<D>) {
            let values = tensor.to_data().iter::<f32>().collect();
            self.0.push(values);
        }
    }
}
