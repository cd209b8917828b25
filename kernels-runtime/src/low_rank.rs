//! Low-rank adapters of the experts of a mixture.

use crate::semantics::ExpertLayout;
use burn::module::{Module, Param, Reparameterization};
use burn::tensor::Tensor;

/// A low-rank adapter of the frozen weights of all experts of a mixture (LoRA, Hu et al., arXiv:2106.09685), each with
/// factors of its own: a layer with `#[fused_kernel("npu_fused_moe")]` computes `x · W_e + scale · (x · a_e) · b_e` for the
/// rows `x` of expert `e`. It makes no tensor of the size of the weights, forward or backward.
///
/// Attach it with Burn's [`Module::apply_reparameterization`] to the parameter that holds the weights. [`Param::val`] is
/// then `W + scale · a · b`, as after training.
#[derive(Module, Debug)]
pub struct LowRankExperts {
    /// The first factors, `[E, inputs, rank]`.
    pub a: Param<Tensor<3>>,
    /// The second factors, `[E, rank, outputs]`.
    pub b: Param<Tensor<3>>,
    /// The factor of their products.
    pub scale: f64,
    /// The layout of the weights.
    #[module(skip)]
    pub layout: ExpertLayout,
}

impl Reparameterization for LowRankExperts {
    const NAME: &'static str = "lora";

    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        let product = self.a.val().matmul(self.b.val()).mul_scalar(self.scale);
        let product = match self.layout {
            ExpertLayout::Linear => product.swap_dims(1, 2),
            ExpertLayout::Matmul => product,
        };
        let product: Tensor<D> = product.reshape(base.shape());
        // A packed base is left as it is: the sum unpacks it to the product's type.
        let is_other = base.dtype().is_float() && base.dtype() != product.dtype();
        let base = match is_other {
            true => base.cast(product.dtype()),
            false => base,
        };
        base + product
    }
}
