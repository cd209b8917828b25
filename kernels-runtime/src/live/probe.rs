//! Rows of other numbers than those of a run. A run may hide mistakes: an epsilon has no effect on large rows, and
//! every activation is nearly linear around zero.
//!
//! The numbers are fixed, or enlarged numbers of the run. Nothing is drawn from Burn's generator.

use crate::kernel::any_rank::{cat, flat, from_data, narrow, sizes};
use crate::registry::FloatType;
use crate::verify::data::values;
use burn::backend::{DispatchTensor, TensorMetadata};
use burn::tensor::{FloatDType, Tensor, TensorData};

/// Appends fixed pseudo-random slices along the first axis, one for each of `sizes`. The sizes are the slices' root
/// mean squares.
pub(crate) fn append_fixed<const D: usize>(
    name: &str,
    tensor: Tensor<D>,
    sizes: &[f64],
) -> Tensor<D> {
    let tensor = tensor.into_dispatch();
    let slices = sizes.iter().map(|size| fixed(name, &tensor, |x| x * size));
    Tensor::from_dispatch(append(&tensor, slices.collect()))
}

/// Appends one fixed pseudo-random slice along the first axis, with this mean and a standard deviation of about 1.
pub(crate) fn append_around<const D: usize>(name: &str, tensor: Tensor<D>, mean: f64) -> Tensor<D> {
    let tensor = tensor.into_dispatch();
    let slice = fixed(name, &tensor, |x| x + mean);
    Tensor::from_dispatch(append(&tensor, vec![slice]))
}

/// Returns a slice of fixed pseudo-random numbers along the first axis, each changed by a function.
fn fixed(name: &str, tensor: &DispatchTensor, change: impl Fn(f64) -> f64) -> DispatchTensor {
    let mut shape = sizes(tensor);
    shape[0] = 1;
    let numbers = values(name, shape.iter().product(), FloatType::F64);
    let numbers: Vec<f64> = numbers.into_iter().map(change).collect();
    let data = TensorData::new(numbers, shape);
    from_data(data, &flat(tensor).device(), tensor.dtype())
}

fn append(tensor: &DispatchTensor, slices: Vec<DispatchTensor>) -> DispatchTensor {
    let parts = std::iter::once(flat(tensor).detach().into_dispatch()).chain(slices);
    cat(parts.collect(), 0)
}

/// Appends a copy of the first slice along the first axis, multiplied by `factor`.
pub(crate) fn append_larger<const D: usize>(tensor: Tensor<D>, factor: f64) -> Tensor<D> {
    Tensor::from_dispatch(append_larger_erased(&tensor.into_dispatch(), factor))
}

/// Does what [`append_larger`] does with a tensor of any rank.
pub(super) fn append_larger_erased(tensor: &DispatchTensor, factor: f64) -> DispatchTensor {
    let first = narrow(flat(tensor).detach().into_dispatch(), 0, 0, 1);
    append(tensor, vec![(flat(&first) * factor).into_dispatch()])
}

/// Returns the factor that brings numbers of this root mean square to 2, where activations are not linear, if they are
/// much smaller. `size` is the root mean square of the tensor to be multiplied, which must stay in the range of f16.
pub(crate) fn larger(root_mean_square: f64, size: f64) -> Option<f64> {
    let factor = 2.0 / root_mean_square;
    let fits = factor.is_finite() && factor * size < 1e3;
    (factor > 2.0 && fits).then_some(factor)
}

/// Returns the root mean square of all elements, or 0 without elements.
pub(crate) fn root_mean_square<const D: usize>(tensor: &Tensor<D>) -> f64 {
    root_mean_square_erased(&tensor.clone().into_dispatch())
}

/// Does what [`root_mean_square`] does with a tensor of any rank.
pub(super) fn root_mean_square_erased(tensor: &DispatchTensor) -> f64 {
    if tensor.shape().num_elements() == 0 {
        return 0.0;
    }
    let numbers = flat(tensor).detach().cast(FloatDType::F32);
    f64::from(numbers.square().mean().sqrt().into_scalar::<f32>())
}
