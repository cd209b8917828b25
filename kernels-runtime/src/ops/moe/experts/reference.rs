use super::{GateUp, Projection, Weights, each};
use crate::kernel::rounded;
use crate::ops::{compute_dtype, glu, same_dtype_as};
use crate::semantics::{Clamp, MoeExpertsKey};
use burn::tensor::{Int, Tensor};

/// Computes the experts of a mixture with plain tensor operations, on any backend: the definition
/// that kernels are verified against.
///
/// The operands are those of [`fused`](super::fused). On half types, products are rounded. The gated unit is
/// computed in f32 and rounded, and the experts' results are rounded too. The weighted sum is computed in f32 and
/// rounded once. Reads the indices once, see [`each`].
///
/// # Panics
/// Panics as [`fused`](super::fused) does on the CPU, on every device.
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
        let unit = gated_unit(&weights, expert, rows, limit, key);
        weights.down.forward(expert, unit, key.layout)
    })
}

/// Returns `activation(gate) · (up_offset + up)` of one expert's rows, in f32 on half types and rounded once.
fn gated_unit(
    weights: &Weights,
    expert: usize,
    rows: Tensor<2>,
    limit: Option<f64>,
    key: MoeExpertsKey,
) -> Tensor<2> {
    let dtype = rows.dtype();
    let project = |projection: &Projection, rows| {
        let projected = projection.forward(expert, rows, key.layout);
        rounded(same_dtype_as(projected, compute_dtype(dtype)))
    };
    let inputs = match &weights.gate_up {
        GateUp::Separate { gate, up } => glu::Inputs::Separate {
            gate: project(gate, rows.clone()),
            up: project(up, rows),
        },
        GateUp::Packed(gate_up) => glu::Inputs::Packed(project(gate_up, rows)),
    };
    let (mut gate, mut up) = glu::unpack(inputs, key.projections);
    if let (Clamp::Limit, Some(limit)) = (key.clamp, limit) {
        gate = glu::at_most(gate, limit);
        up = glu::within(up, limit);
    }
    let activated = rounded(glu::activate(gate, key.activation));
    same_dtype_as(activated * (up + key.up_offset.value()), dtype)
}
