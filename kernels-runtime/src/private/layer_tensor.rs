//! The layers of a struct whose `forward` the attribute generates, for tensors of every rank.

use burn::tensor::Tensor;

/// A tensor where the generated `forward` has one of any rank, and a layer may have one of a rank of its own.
#[diagnostic::on_unimplemented(
    message = "a layer of this struct does not take and return tensors of every rank, as the generated `forward` does",
    label = "the layer has another rank: expected `{T}`, found `{Self}`",
    note = "write `forward` for tensors of this rank in an impl block, and move the attribute there"
)]
pub trait LayerTensor<T> {
    /// Returns the tensor itself.
    fn itself(self) -> T;
}

#[diagnostic::do_not_recommend]
impl<const D: usize> LayerTensor<Self> for Tensor<D> {
    fn itself(self) -> Self {
        self
    }
}

/// No tensor. Because there is a second type to choose from, the compiler takes the layer's own, and then looks for
/// [`LayerTensor`]. It would otherwise choose the only type itself, and report mismatched types.
pub enum NoTensor {}

#[diagnostic::do_not_recommend]
impl<const D: usize> LayerTensor<NoTensor> for Tensor<D> {
    fn itself(self) -> NoTensor {
        unreachable!("no layer takes it, as it has no values")
    }
}

/// Returns the input of a layer.
pub fn layer_input<const D: usize, T>(input: Tensor<D>) -> T
where
    Tensor<D>: LayerTensor<T>,
{
    input.itself()
}

/// Returns the result of a layer.
pub fn layer_output<const D: usize, T: LayerTensor<Tensor<D>>>(output: T) -> Tensor<D> {
    output.itself()
}
