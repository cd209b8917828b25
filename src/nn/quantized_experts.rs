//! Experts of mixtures whose weights stay in quantised form.

use super::nowhere::base;
use super::quantized::multiplied;
use burn::module::{Param, ParamId, Reparameterizer};
use burn::tensor::{DType, Tensor};
use kernels_runtime::quantized_experts::{QuantizedExperts, StoredExperts};
use std::collections::BTreeMap;

/// Attaches quantised weights to the parameters `[E, .., ..]` of the experts of mixtures, by
/// [`Module::apply_reparameterization`](burn::module::Module::apply_reparameterization). Other parameters stay as they
/// are. A layer with `#[fused_kernel("npu_fused_moe")]` then multiplies the rows of each expert with its bytes, by
/// `npu_fused_quantized_linear`.
#[derive(Debug)]
pub struct QuantizeExperts {
    experts: BTreeMap<ParamId, StoredExperts>,
    dtype: DType,
}

impl QuantizeExperts {
    /// Makes it of the experts by the ids of parameters. `dtype` is that of the model's floats.
    pub fn new(experts: impl IntoIterator<Item = (ParamId, StoredExperts)>, dtype: DType) -> Self {
        Self {
            experts: experts.into_iter().collect(),
            dtype,
        }
    }
}

impl Reparameterizer for QuantizeExperts {
    type Reparam = QuantizedExperts;

    /// # Panics
    /// Panics if a parameter does not have the shape of its weights.
    fn reparameterize<const D: usize>(
        &mut self,
        path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<QuantizedExperts>) {
        let Some(stored) = self.experts.remove(&param.id) else {
            return (param, None);
        };
        let shape = param.lazy_shape();
        let expected = stored.shape();
        assert!(
            shape.as_slice() == expected,
            "the parameter {path} has the shape {shape:?}, and quantised experts have {expected:?}"
        );
        let of_base = stored.clone();
        let base = base(&param, self.dtype, move |device, dtype| {
            of_base.decoded(device, dtype).reshape(shape.clone())
        });
        (base, Some(QuantizedExperts::new(stored, multiplied)))
    }
}
