use super::{Inputs, Settings, check, sparsity};
use crate::kernel::{rounded, rounded_sum};
use crate::ops::{compute_dtype, mean, same_dtype_as};
use crate::semantics::{Activation, Clamp, GluKey, Offset, Projections};
use burn::tensor::{Tensor, activation};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// Computes a gated linear unit with plain tensor operations, on any backend: the definition that
/// kernels are verified against.
///
/// The result has the dtype of the inputs and the shape of the gate. On half types, the activation
/// and the steps before it are computed in f32 and rounded once, as Hugging Face models do; the
/// product follows. A clamp and an offset of up are computed in f32 too.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, if gate and up have different shapes, or if a
/// number is outside its range.
#[track_caller]
pub fn reference<const D: usize>(inputs: Inputs<D>, settings: Settings, key: GluKey) -> Tensor<D> {
    check(&inputs, settings, key);
    let (gate, up) = unpack(inputs, key.projections);
    let dtype = gate.dtype();
    let compute = compute_dtype(dtype);

    let mut gate = rounded(same_dtype_as(gate, compute));
    if let Some(limit) = settings.limit {
        gate = at_most(gate, limit);
    }
    let multiplier = settings
        .sparsity
        .and_then(|sparsity| sparsity::multiplier(sparsity, dtype));
    if let Some(multiplier) = multiplier {
        gate = gaussian_topk(gate, multiplier);
    }
    let activated = same_dtype_as(rounded(activate(gate, key.activation)), dtype);

    if key.clamp == Clamp::None && key.up_offset == Offset::Zero {
        return activated * up;
    }
    let mut up = same_dtype_as(up, compute);
    if let Some(limit) = settings.limit {
        up = within(up, limit);
    }
    let up = up.add_scalar(key.up_offset.value());
    same_dtype_as(same_dtype_as(activated, compute) * up, dtype)
}

/// Returns gate and up.
pub(in crate::ops) fn unpack<const D: usize>(
    inputs: Inputs<D>,
    projections: Projections,
) -> (Tensor<D>, Tensor<D>) {
    let packed = match inputs {
        Inputs::Separate { gate, up } => return (gate, up),
        Inputs::Packed(packed) => packed,
    };
    let mut shape = packed.dims();
    shape[D - 1] /= 2;
    let (n, count) = (shape[D - 1], shape.iter().product::<usize>());
    if n == 0 {
        return (packed.clone(), packed);
    }
    // An empty tensor has no elements to tell apart.
    if projections == Projections::Chunked || count == 0 {
        let gate = packed.clone().narrow(D - 1, 0, n);
        return (gate, packed.narrow(D - 1, n, n));
    }
    let pairs = packed.reshape([count, 2]);
    let gate = pairs.clone().narrow(1, 0, 1).reshape(shape);
    (gate, pairs.narrow(1, 1, 1).reshape(shape))
}

/// Returns the smaller of `x` and `limit`. At exactly the limit, the gradient is zero.
pub(in crate::ops) fn at_most<const D: usize>(x: Tensor<D>, limit: f64) -> Tensor<D> {
    let not_below = x.clone().greater_equal_elem(limit);
    x.mask_fill(not_below, limit)
}

/// Returns `x` between the limit and its negative. At exactly these, the gradient is zero.
pub(in crate::ops) fn within<const D: usize>(x: Tensor<D>, limit: f64) -> Tensor<D> {
    at_most(at_most(x, limit).neg(), limit).neg()
}

/// Returns `max(gate − (μ + multiplier · σ), 0)` with the mean and population standard deviation of the
/// last axis.
fn gaussian_topk<const D: usize>(gate: Tensor<D>, multiplier: f64) -> Tensor<D> {
    let average = rounded(mean(gate.clone()));
    let variance = rounded(mean((gate.clone() - average.clone()).square()));
    // The slope of the root is infinite at zero. If all gates are equal, the deviation counts as the
    // constant zero.
    let equal = variance.clone().equal_elem(0.0);
    let deviation = variance
        .mask_fill(equal.clone(), 1.0)
        .sqrt()
        .mask_fill(equal, 0.0);
    activation::relu(gate - (average + deviation * multiplier))
}

/// Returns the activation of a gate, in the dtype of the gate.
pub(in crate::ops) fn activate<const D: usize>(x: Tensor<D>, activation: Activation) -> Tensor<D> {
    match activation {
        Activation::Silu => activation::silu(x),
        // Far below zero, the sum of 1 and the error function cancels.
        Activation::Gelu => rounded_sum(activation::gelu(x.clone()), x * 0.5),
        Activation::GeluTanh => {
            let cube = x.clone() * x.clone() * x.clone();
            let inner = (x.clone() + cube * 0.044715) * (FRAC_2_SQRT_PI * FRAC_1_SQRT_2);
            x * (rounded(inner.tanh()) + 1.0) * 0.5
        }
        Activation::QuickGelu => activation::sigmoid(x.clone() * 1.702) * x,
        Activation::Relu => activation::relu(x),
        Activation::Relu2 => activation::relu(x).square(),
        Activation::Sigmoid => activation::sigmoid(x),
        Activation::Identity => x,
    }
}
