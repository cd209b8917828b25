use crate::semantics::{Activation, GluKey};
use burn::tensor::{Tensor, activation};

/// A gated linear unit composed of plain tensor operations, on any backend: the definition that
/// kernels are verified against.
///
/// `gate` and `up` have one shape and dtype, and so has the result.
///
/// # Panics
/// `gate` and `up` have different shapes.
pub fn reference<const D: usize>(gate: Tensor<D>, up: Tensor<D>, key: GluKey) -> Tensor<D> {
    super::check(&gate, &up);
    let activated = match key.activation {
        Activation::Silu => activation::silu(gate),
    };
    activated * up
}
