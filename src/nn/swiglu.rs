use super::linear;
use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Tensor, activation};

/// [`burn::nn::SwiGlu`] with a fused kernel: `y = silu(inner(x)) · outer(x)`.
///
/// ```
/// use burn::nn::SwiGluConfig;
/// use burn::tensor::{Device, Tensor};
/// use burn_kernels::nn::SwiGlu;
///
/// let device = Device::flex();
/// let layer: SwiGlu = SwiGluConfig::new(8, 16).init(&device).into();
/// assert_eq!(layer.forward(Tensor::<2>::ones([4, 8], &device)).dims(), [4, 16]);
/// ```
#[derive(Module, Debug)]
pub struct SwiGlu {
    /// The projection that is activated.
    pub linear_inner: Linear,
    /// The projection that is multiplied by the activated one.
    pub linear_outer: Linear,
}

impl SwiGlu {
    /// Computes the layer, from `[.., d_input]` to `[.., d_output]`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let gate = linear::forward(&self.linear_inner, x.clone());
        swiglu(gate, linear::forward(&self.linear_outer, x))
    }
}

#[kernels_macros::fused_kernel("npu_fused_swiglu", crate = crate, layer = "SiluAndMul")]
fn swiglu<const D: usize>(gate: Tensor<D>, up: Tensor<D>) -> Tensor<D> {
    activation::silu(gate) * up
}

impl From<burn::nn::SwiGlu> for SwiGlu {
    fn from(layer: burn::nn::SwiGlu) -> Self {
        Self {
            linear_inner: layer.linear_inner,
            linear_outer: layer.linear_outer,
        }
    }
}
