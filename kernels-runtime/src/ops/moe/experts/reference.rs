use super::{GateUp, Weights, each};
use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::{Activation, Clamp, MoeExpertsKey, Projections};
use burn::tensor::{Int, Tensor, activation};

/// The experts of a mixture composed of plain tensor operations, on any backend: the definition
/// that kernels are verified against.
///
/// Operands as for [`fused`](super::fused). On half types, products are rounded, the gated unit is
/// computed in f32 and rounded, and so are the experts' results; the weighted sum is in f32,
/// rounded once. Reads the indices once, see [`each`].
///
/// # Panics
/// As [`fused`](super::fused).
pub fn reference(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    weights: Weights,
    limit: Option<f64>,
    key: MoeExpertsKey,
) -> Tensor<2> {
    super::check(&x, &indices, &routing, &weights, limit, key);
    each(x, indices, routing, weights.experts(), |expert, rows| {
        let (gate, up) = gate_up(&weights, expert, rows, key);
        let unit = gated_unit(gate, up, limit, key);
        weights.down.forward(expert, unit, key.layout)
    })
}

/// Gate and up of one expert's rows.
fn gate_up(
    weights: &Weights,
    expert: usize,
    rows: Tensor<2>,
    key: MoeExpertsKey,
) -> (Tensor<2>, Tensor<2>) {
    let both = match &weights.gate_up {
        GateUp::Separate { gate, up } => {
            let gate = gate.forward(expert, rows.clone(), key.layout);
            return (gate, up.forward(expert, rows, key.layout));
        }
        GateUp::Packed(gate_up) => gate_up.forward(expert, rows, key.layout),
    };
    let [count, both_width] = both.dims();
    let width = both_width / 2;
    if key.projections == Projections::Interleaved {
        let pairs = both.reshape([count, width, 2]);
        let part = |at: usize| {
            pairs
                .clone()
                .slice_dim(2, at..at + 1)
                .reshape([count, width])
        };
        (part(0), part(1))
    } else {
        (
            both.clone().slice_dim(1, 0..width),
            both.slice_dim(1, width..both_width),
        )
    }
}

/// `activation(gate) · (up_offset + up)`, in f32 on half types and rounded once.
fn gated_unit(gate: Tensor<2>, up: Tensor<2>, limit: Option<f64>, key: MoeExpertsKey) -> Tensor<2> {
    let dtype = gate.dtype();
    let compute = compute_dtype(dtype);
    let (mut gate, mut up) = (same_dtype_as(gate, compute), same_dtype_as(up, compute));
    if let (Clamp::Limit, Some(limit)) = (key.clamp, limit) {
        gate = gate.clamp_max(limit);
        up = up.clamp(-limit, limit);
    }
    let activated = match key.activation {
        Activation::Silu => activation::silu(gate),
        Activation::QuickGelu => gate.clone() * activation::sigmoid(gate * 1.702),
        Activation::Gelu => activation::gelu(gate),
        Activation::GeluTanh => {
            let inner = (gate.clone() + gate.clone().powi_scalar(3) * 0.044_715)
                * (2.0 / std::f64::consts::PI).sqrt();
            gate * 0.5 * (inner.tanh() + 1.0)
        }
        Activation::Relu => activation::relu(gate),
        Activation::Relu2 => activation::relu(gate).powi_scalar(2),
        Activation::Sigmoid => activation::sigmoid(gate),
        Activation::Identity => gate,
    };
    same_dtype_as(activated * (up + key.up_offset.value()), dtype)
}
