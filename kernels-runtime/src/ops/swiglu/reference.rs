use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::{Activation, GluKey};
use burn::tensor::{Tensor, activation};

/// A gated linear unit composed of plain tensor operations, on any backend: the definition that
/// kernels are verified against.
///
/// `gate` and `up` have one shape and dtype, and so has the result. On half types the activation
/// is computed in f32 and rounded once, as Hugging Face models do, then multiplied.
///
/// # Panics
/// `gate` and `up` have different shapes.
pub fn reference<const D: usize>(gate: Tensor<D>, up: Tensor<D>, key: GluKey) -> Tensor<D> {
    super::check(&gate, &up);
    let dtype = gate.dtype();
    let gate = same_dtype_as(gate, compute_dtype(dtype));
    let activated = match key.activation {
        Activation::Silu => activation::silu(gate),
        _ => todo!(),
    };
    same_dtype_as(activated, dtype) * up
}
