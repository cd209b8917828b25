//! Rows of other numbers than those of a run. A run may hide mistakes: an epsilon has no effect on large rows, and
//! every activation is nearly linear around zero.
//!
//! The numbers are fixed, or enlarged numbers of the run. Nothing is drawn from Burn's generator.

use crate::registry::FloatType;
use crate::verify::data::values;
use burn::tensor::{FloatDType, Tensor, TensorData};

/// Appends fixed pseudo-random slices along the first axis, one for each of `sizes`. The sizes are the slices' root
/// mean squares.
pub(crate) fn append_fixed<const D: usize>(
    name: &str,
    tensor: Tensor<D>,
    sizes: &[f64],
) -> Tensor<D> {
    let slices = sizes.iter().map(|size| fixed(name, &tensor, |x| x * size));
    append(tensor.clone(), slices.collect())
}

/// Appends one fixed pseudo-random slice along the first axis, with this mean and a standard deviation of about 1.
pub(crate) fn append_around<const D: usize>(name: &str, tensor: Tensor<D>, mean: f64) -> Tensor<D> {
    let slice = fixed(name, &tensor, |x| x + mean);
    append(tensor, vec![slice])
}

/// Returns a slice of fixed pseudo-random numbers along the first axis, each changed by a function.
fn fixed<const D: usize>(name: &str, tensor: &Tensor<D>, change: impl Fn(f64) -> f64) -> Tensor<D> {
    let mut shape = tensor.dims();
    shape[0] = 1;
    let numbers = values(name, shape.iter().product(), FloatType::F64);
    let numbers: Vec<f64> = numbers.into_iter().map(change).collect();
    let data = TensorData::new(numbers, shape).convert_dtype(tensor.dtype());
    Tensor::from_data(data, (&tensor.device(), tensor.dtype()))
}

fn append<const D: usize>(tensor: Tensor<D>, slices: Vec<Tensor<D>>) -> Tensor<D> {
    let parts = std::iter::once(tensor.detach()).chain(slices);
    Tensor::cat(parts.collect(), 0)
}

/// Appends a copy of the first slice along the first axis, multiplied by `factor`.
pub(crate) fn append_larger<const D: usize>(tensor: Tensor<D>, factor: f64) -> Tensor<D> {
    let tensor = tensor.detach();
    let first = tensor.clone().narrow(0, 0, 1);
    Tensor::cat(vec![tensor, first * factor], 0)
}

/// Returns the factor that brings numbers of this root mean square to 2, where activations are not linear, if they are
/// much smaller. `size` is the root mean square of the tensor to be multiplied, which must stay in the range of f16.
pub(crate) fn larger(root_mean_square: f64, size: f64) -> Option<f64> {
    let factor = 2.0 / root_mean_square;
    let fits = factor.is_finite() && factor * size < 1e3;
    (factor > 2.0 && fits).then_some(factor)
}

/// Returns the root mean square of all elements, or 0 if there are none.
pub(crate) fn root_mean_square<const D: usize>(tensor: &Tensor<D>) -> f64 {
    if tensor.shape().num_elements() == 0 {
        return 0.0;
    }
    let numbers = tensor.clone().detach().cast(FloatDType::F32);
    f64::from(numbers.square().mean().sqrt().into_scalar::<f32>())
}
