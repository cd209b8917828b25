use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// [`burn::nn::RmsNorm`] with a fused kernel: `y = x / √(mean(x²) + ε) · γ` over the last axis.
///
/// On half types, Burn divides by a root that it has rounded. This layer rounds where Llama does and is more accurate.
///
/// ```
/// use burn::nn::RmsNormConfig;
/// use burn::tensor::{Device, Tensor};
/// use burn_kernels::nn::RmsNorm;
///
/// let device = Device::flex();
/// let norm: RmsNorm = RmsNormConfig::new(8).init(&device).into();
/// assert_eq!(norm.forward(Tensor::<2>::ones([4, 8], &device)).dims(), [4, 8]);
/// ```
#[kernels_macros::fused_kernel("npu_fused_rmsnorm", crate = crate, layer = "RMSNorm")]
#[derive(Module, Debug)]
pub struct RmsNorm {
    /// The scale, `[n]`.
    pub gamma: Param<Tensor<1>>,
    /// The number added to the mean square.
    pub epsilon: f64,
}

impl From<burn::nn::RmsNorm> for RmsNorm {
    fn from(norm: burn::nn::RmsNorm) -> Self {
        Self {
            gamma: norm.gamma,
            epsilon: norm.epsilon,
        }
    }
}
