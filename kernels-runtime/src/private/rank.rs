//! The tensors that layers of a struct take and return.

/// The tensor that a layer takes in place of the kernel's, or returns: the same one. The `forward` that the attribute
/// writes is for tensors of every rank, which a layer of one rank does not take.
#[diagnostic::on_unimplemented(
    message = "a layer has `{Other}` where the `forward` that the attribute writes, for tensors of every rank, has `{Self}`",
    label = "this layer takes or returns tensors of one rank, or of another type",
    note = "annotate an impl block in place of the struct, with a `forward` of your own, such as `fn forward(&self, x: \
            Tensor<3>) -> Tensor<3>`"
)]
pub trait SameTensor<Other> {
    /// Returns the tensor.
    fn same(self) -> Other;
}

impl<T> SameTensor<T> for T {
    fn same(self) -> T {
        self
    }
}

/// Returns the tensor. A layer that takes or returns another type is reported here.
pub fn same_tensor<T: SameTensor<Other>, Other>(tensor: T) -> Other {
    tensor.same()
}
