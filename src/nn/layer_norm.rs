use burn::module::{Module, Param};
use burn::nn::LayerNormConfig;
use burn::tensor::{DType, Device, FloatDType, Tensor, assert_shape, module};

/// [`burn::nn::LayerNorm`] with a fused kernel: `y = (x − mean(x)) / √(var(x) + ε) · γ + β` over the last axis, with the
/// variance that divides by the number of elements.
///
/// It is made from the configuration of Burn's layer, which keeps its epsilon to itself. A record of Burn's layer loads
/// into it.
///
/// ```
/// use burn::nn::LayerNormConfig;
/// use burn::tensor::{Device, Tensor};
/// use burn_kernels::nn::LayerNorm;
///
/// let device = Device::flex();
/// let norm = LayerNorm::init(&LayerNormConfig::new(8), &device);
/// assert_eq!(norm.forward(Tensor::<2>::ones([4, 8], &device)).dims(), [4, 8]);
/// ```
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// The scale, `[n]`.
    pub gamma: Param<Tensor<1>>,
    /// The bias, `[n]`, if there is one.
    pub beta: Option<Param<Tensor<1>>>,
    /// The number added to the variance.
    pub epsilon: f64,
}

impl LayerNorm {
    /// Makes a layer with the parameters that Burn gives one of this configuration.
    pub fn init(config: &LayerNormConfig, device: &Device) -> Self {
        let burn::nn::LayerNorm { gamma, beta, .. } = config.init(device);
        let epsilon = config.epsilon;
        Self {
            gamma,
            beta,
            epsilon,
        }
    }

    /// Normalises `x`, `[.., n]`.
    ///
    /// # Panics
    /// Panics if the last axis of `x` is not `n`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let gamma = self.gamma.val();
        let [n] = gamma.dims();
        assert_shape!(x, [.., n]);
        match &self.beta {
            Some(beta) => with_bias(x, gamma, beta.val(), self.epsilon),
            None => without_bias(x, gamma, self.epsilon),
        }
    }
}

#[kernels_macros::fused_kernel("npu_fused_layernorm", crate = crate, layer = "LayerNorm")]
fn with_bias<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
) -> Tensor<D> {
    normalise(x, gamma, Some(beta), epsilon)
}

#[kernels_macros::fused_kernel(
    "npu_fused_layernorm",
    crate = crate,
    shift = none,
    layer = "LayerNorm"
)]
fn without_bias<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, epsilon: f64) -> Tensor<D> {
    normalise(x, gamma, None, epsilon)
}

/// Computes what Burn's layer does. Its sums of squares may be beyond the numbers of f16, so it computes f16 in f32.
fn normalise<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Option<Tensor<1>>,
    epsilon: f64,
) -> Tensor<D> {
    if x.dtype() != DType::F16 {
        return module::layer_norm(x, gamma, beta, epsilon);
    }
    let wide = FloatDType::F32;
    let beta = beta.map(|beta| beta.cast(wide));
    module::layer_norm(x.cast(wide), gamma.cast(wide), beta, epsilon).cast(FloatDType::F16)
}
