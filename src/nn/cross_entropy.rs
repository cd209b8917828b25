use burn::module::Module;
use burn::nn::loss;
use burn::tensor::{FloatDType, Int, Tensor};

/// [`burn::nn::loss::CrossEntropyLoss`] with a fused kernel, made by `.into()`.
///
/// A loss with weights of classes, with several padding tokens or of probabilities runs Burn's own operations.
///
/// ```
/// use burn::nn::loss::CrossEntropyLossConfig;
/// use burn::tensor::{Device, Int, Tensor};
/// use burn_kernels::nn::CrossEntropyLoss;
///
/// let device = Device::flex();
/// let loss: CrossEntropyLoss = CrossEntropyLossConfig::new().init(&device).into();
/// let targets = Tensor::<1, Int>::from_ints([1, 0], &device);
/// assert_eq!(loss.forward(Tensor::zeros([2, 3], &device), targets).dims(), [1]);
/// ```
#[derive(Module, Debug)]
pub struct CrossEntropyLoss {
    /// Burn's loss.
    pub inner: loss::CrossEntropyLoss,
}

impl From<loss::CrossEntropyLoss> for CrossEntropyLoss {
    fn from(inner: loss::CrossEntropyLoss) -> Self {
        Self { inner }
    }
}

impl CrossEntropyLoss {
    /// Returns the mean loss, `[1]`, in the dtype of the logits, `[tokens, classes]`, for the class of each token.
    /// Padding tokens don't count.
    ///
    /// # Panics
    /// Panics if the shapes don't fit together, or if a target is neither a class nor the padding token.
    pub fn forward(&self, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        let inner = &self.inner;
        let ignored = match inner.pad_tokens.as_deref() {
            None | Some([]) => Some(NO_CLASS),
            Some([token]) => i64::try_from(*token).ok(),
            Some(_) => None,
        };
        match ignored {
            Some(ignored) if inner.weights.is_none() && inner.logits => {
                let dtype = FloatDType::from(logits.dtype());
                let smoothing = f64::from(inner.smoothing.unwrap_or(0.0));
                mean(logits, targets, ignored, smoothing).cast(dtype)
            }
            _ => inner.forward(logits, targets),
        }
    }
}

/// An ignored index that no target has.
const NO_CLASS: i64 = i64::MIN;

/// Computes what Burn's loss does, of half types in f32.
#[kernels_macros::fused_kernel(
    "npu_fused_cross_entropy",
    crate = crate,
    layer = "CrossEntropyLoss"
)]
fn mean(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    ignore_index: i64,
    smoothing: f64,
) -> Tensor<1> {
    let logits = match FloatDType::from(logits.dtype()) {
        FloatDType::F64 => logits,
        _ => logits.cast(FloatDType::F32),
    };
    let loss = loss::CrossEntropyLoss {
        pad_tokens: usize::try_from(ignore_index).ok().map(|token| vec![token]),
        weights: None,
        smoothing: (smoothing != 0.0).then_some(smoothing as f32),
        logits: true,
    };
    loss.forward(logits, targets)
}
