use super::{LowRank, Quantized};
use burn::module::{Module, Param};
use burn::tensor::{FloatDType, Tensor};
use kernels_runtime::ops::linear::{self, Inputs, in_parts};
use kernels_runtime::semantics::{LinearKey, OutputLayout, Shift};

/// [`burn::nn::Linear`] with a fused kernel: `y = x · weight + bias` over the last axis.
///
/// In f32 and f64 on the CPU, results are Burn's, bit for bit, but for a few rows. On half types sums are in f32 and rounded
/// once, and where the processor multiplies pairs of bf16, nothing is converted. A quantised weight is multiplied as Burn
/// does.
///
/// A weight with an adapter, Burn's or a [`LowRank`], is never composed: the layer computes `x · W + scale · (x · a) · b`,
/// forward and backward without a temporary tensor of the weight's size. A weight that is [`Quantized`] stays in its bytes.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Device, Tensor};
/// use burn_kernels::nn::Linear;
///
/// let device = Device::flex();
/// let layer: Linear = LinearConfig::new(8, 16).init(&device).into();
/// assert_eq!(layer.forward(Tensor::<2>::ones([4, 8], &device)).dims(), [4, 16]);
/// ```
#[derive(Module, Debug)]
pub struct Linear {
    /// The weight, `[inputs, outputs]`.
    pub weight: Param<Tensor<2>>,
    /// The bias, `[outputs]`, if there is one.
    pub bias: Option<Param<Tensor<1>>>,
}

impl Linear {
    /// Computes the layer, from `[.., inputs]` to `[.., outputs]`.
    ///
    /// # Panics
    /// Panics if the last axis of `x` is not `inputs`, or if the weight is quantised and shall be trained itself.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        if let Some(weight) = self.weight.reparameterization::<Quantized>() {
            return self.quantized(x, weight);
        }
        match LowRank::of(&self.weight) {
            Some(adapter) => self.adapted(x, &adapter),
            None => self.plain(x, &self.weight),
        }
    }

    fn plain<const D: usize>(&self, x: Tensor<D>, weight: &Param<Tensor<2>>) -> Tensor<D> {
        match &self.bias {
            Some(bias) => with_bias(x, weight, bias),
            None => without_bias(x, weight),
        }
    }

    fn adapted<const D: usize>(&self, x: Tensor<D>, adapter: &LowRank) -> Tensor<D> {
        let weight = Param::initialized(self.weight.id, self.weight.base());
        let base = self.plain(x.clone(), &weight);
        with_adapter(base, x, adapter)
    }

    fn quantized<const D: usize>(&self, x: Tensor<D>, weight: &Quantized) -> Tensor<D> {
        assert!(
            !self.weight.base().is_require_grad(),
            "a quantised weight has no gradient of its own; train a low-rank adapter of it (QLoRA), or load the model without \
             quantised weights"
        );
        let y = weight.forward(x.clone());
        let y = match &self.bias {
            Some(bias) => y + bias.val().unsqueeze::<D>(),
            None => y,
        };
        match weight.adapter() {
            Some(adapter) => with_adapter(y, x, adapter),
            None => y,
        }
    }
}

/// Adds what an adapter computes of `x` to the result of its layer.
fn with_adapter<const D: usize>(y: Tensor<D>, x: Tensor<D>, adapter: &LowRank) -> Tensor<D> {
    // Adapters of half types may be in f32. The factor goes where elements are fewest.
    let (dtype, own) = (x.dtype(), adapter.a.val().dtype());
    let x = adapter.dropped(x).cast(FloatDType::from(own));
    let inner = without_bias(x, &adapter.a).mul_scalar(adapter.scale);
    y + without_bias(inner, &adapter.b).cast(FloatDType::from(dtype))
}

#[kernels_macros::fused_kernel("npu_fused_linear", crate = crate, shift = bias, layer = "Linear")]
fn with_bias<const D: usize>(
    x: Tensor<D>,
    weight: &Param<Tensor<2>>,
    bias: &Param<Tensor<1>>,
) -> Tensor<D> {
    product(x, weight.val(), Some(bias.val()))
}

#[kernels_macros::fused_kernel("npu_fused_linear", crate = crate, layer = "Linear")]
fn without_bias<const D: usize>(x: Tensor<D>, weight: &Param<Tensor<2>>) -> Tensor<D> {
    product(x, weight.val(), None)
}

/// Computes a layer by Burn's product, which may end the program without elements. It does not run then.
fn product<const D: usize>(x: Tensor<D>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<D> {
    if x.shape().num_elements() > 0 {
        return in_parts(x, weight, bias);
    }
    let weight = match weight.dtype().is_float() {
        true => weight,
        false => weight.dequantize(),
    };
    let key = LinearKey {
        layout: OutputLayout::InputMajor,
        shift: match bias {
            Some(_) => Shift::Bias,
            None => Shift::None,
        },
    };
    linear::reference(Inputs { x, weight, bias }, key)
}

/// Calls Burn's layer, or computes an empty result without it.
pub(super) fn forward<const D: usize>(layer: &burn::nn::Linear, x: Tensor<D>) -> Tensor<D> {
    if x.shape().num_elements() > 0 {
        return layer.forward(x);
    }
    let bias = layer.bias.as_ref().map(|bias| bias.val());
    product(x, layer.weight.val(), bias)
}

impl From<burn::nn::Linear> for Linear {
    fn from(layer: burn::nn::Linear) -> Self {
        Self {
            weight: layer.weight,
            bias: layer.bias,
        }
    }
}
