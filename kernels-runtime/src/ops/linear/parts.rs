use crate::device::DeviceKind;
use burn::tensor::{DType, Tensor, module};

/// The number of elements of a weight that counts as large.
pub(super) const LARGE: usize = 1 << 22;

/// The number of elements of a part.
const PART: usize = 1 << 19;

/// Computes `x · weight + bias` for a weight `[inputs, outputs]`, as [`burn::tensor::module::linear`] does. The result is
/// `[.., outputs]`.
///
/// On the CPU, Burn copies a transposed weight if `x` has more than two axes, and converts one in bf16 to f32. If nothing needs
/// gradients, a large weight is multiplied so that no more than a part of it is in memory twice.
pub fn in_parts<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<D> {
    let [inputs, outputs] = weight.dims();
    let is_copied = DeviceKind::of(&weight.device()) == DeviceKind::Cpu
        && !weight.is_tracked()
        && !x.is_tracked();
    if !is_copied || inputs * outputs <= LARGE {
        return module::linear(x, weight, bias);
    }
    let mut shape = x.dims();
    shape[D - 1] = outputs;
    let rows = x.reshape([-1, inputs as i64]);
    let step = match weight.dtype() {
        DType::BF16 => (PART / inputs).max(1),
        _ => outputs,
    };
    let parts = (0..outputs).step_by(step).map(|at| {
        let count = step.min(outputs - at);
        let bias = bias.clone().map(|bias| bias.narrow(0, at, count));
        module::linear(rows.clone(), weight.clone().narrow(1, at, count), bias)
    });
    Tensor::cat(parts.collect(), 1).reshape(shape)
}
