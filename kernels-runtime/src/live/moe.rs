//! The experts of a mixture and their router, as operands of a checked call.

use crate::kernel::{Operands, Tensors, Visitor};
use crate::ops::compute_dtype;
use crate::ops::moe::Stack;
use crate::ops::moe::experts::{self, GateUp, Projection, Weights};
use crate::ops::moe::router::{self, Among, Routed, Routing, settled};
use crate::registry::Implementation;
use crate::semantics::MoeKey;
use burn::tensor::{DType, Int, Tensor};

/// The experts of a mixture.
#[derive(Clone)]
pub(crate) struct Experts {
    pub(crate) x: Tensor<2>,
    pub(crate) indices: Tensor<2, Int>,
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
        } = self;
        experts::Call::new(x, indices, routing, weights, limit, key).run(implementation)
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
        let call = router::Call::new(self.logits, self.bias, &self.routing);
        let routed = call.run(implementation);
        Choice { routed, of }
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
    let data = burn::tensor::TensorData::new(ones, [rows.len(), 1]).convert_dtype(like.dtype());
    Tensor::from_data(data, (&like.device().inner(), like.dtype()))
}
