use super::Quantized;
use burn::module::{Module, Param};
use burn::tensor::module::embedding;
use burn::tensor::{Int, Tensor};
use kernels_runtime::ops::quantized_embedding::{self, OwnedWeight};

/// [`burn::nn::Embedding`], whose table may be [`Quantized`]: then only the rows that are asked for are decoded, to the
/// bits that the table would have in the parameter's dtype. Such a table is frozen.
///
/// ```
/// use burn::nn::EmbeddingConfig;
/// use burn::tensor::{Device, Tensor};
/// use burn_kernels::nn::Embedding;
///
/// let device = Device::flex();
/// let layer: Embedding = EmbeddingConfig::new(10, 8).init(&device).into();
/// assert_eq!(layer.forward(Tensor::from_data([[1, 2, 9]], &device)).dims(), [1, 3, 8]);
/// ```
#[derive(Module, Debug)]
pub struct Embedding {
    /// The table, `[rows, width]`.
    pub weight: Param<Tensor<2>>,
}

impl Embedding {
    /// Returns the rows of ids `[b, s]`, `[b, s, width]`.
    ///
    /// # Panics
    /// Panics if an id is not a row of the table, or if the table is quantised and shall be trained or has an adapter.
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        match self.table() {
            Some(table) => self.quantized(ids, table),
            None => embedding(self.weight.val(), ids),
        }
    }

    /// Returns the table, if it is quantised.
    pub fn table(&self) -> Option<&Quantized> {
        self.weight.reparameterization::<Quantized>()
    }

    fn quantized(&self, ids: Tensor<2, Int>, table: &Quantized) -> Tensor<3> {
        let base = self.weight.base();
        assert!(
            !base.is_require_grad() && table.adapter().is_none(),
            "a quantised table of embeddings has no gradient, and no adapter; train low-rank adapters of linear layers \
             (QLoRA), or load the model without quantised weights"
        );
        let ([batch, seq], [_, width]) = (ids.dims(), table.weight().shape());
        let (device, dtype) = (base.device(), base.dtype());
        if batch * seq == 0 {
            return Tensor::zeros([batch, seq, width], (&device, dtype));
        }
        let like = Tensor::zeros([1], (&device.clone().without_autodiff(), dtype));
        let ids = ids.without_autodiff().reshape([batch * seq]);
        let rows = rows(ids, table.weight().clone(), like);
        let rows = match device.is_autodiff() {
            // A constant with the device's own kind of autodiff.
            true => Tensor::from_data(rows.into_data(), (&device, dtype)),
            false => rows,
        };
        rows.reshape([batch, seq, width])
    }
}

#[kernels_macros::fused_kernel(kernels_runtime::ops::quantized_embedding, crate = crate)]
fn rows(ids: Tensor<1, Int>, weight: OwnedWeight, like: Tensor<1>) -> Tensor<2> {
    quantized_embedding::reference(&ids, &weight, &like)
}

impl From<burn::nn::Embedding> for Embedding {
    fn from(layer: burn::nn::Embedding) -> Self {
        Self {
            weight: layer.weight,
        }
    }
}
