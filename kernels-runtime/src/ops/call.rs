//! What every operation needs to look at its tensors before it decides.

use crate::dispatch::Query;
use crate::reason::Reason;
use crate::registry::{Implementation, KernelSpec};
use crate::semantics::SemanticsKey;
use burn::backend::{DispatchTensor, TensorMetadata};
use burn::tensor::{DType, FloatDType, Tensor};

/// Whether the tensors have dtypes that don't go together. The tables of a rotary embedding, which
/// follow the queries and keys, may be in the dtype that those are computed in; the routing weights
/// of experts, which follow the tokens, may be in f32.
pub(crate) fn mixed(key: &SemanticsKey, tensors: &[&DispatchTensor]) -> bool {
    let dtype = tensors[0].dtype();
    let differ = |tensors: &[&DispatchTensor], dtype| tensors.iter().any(|t| t.dtype() != dtype);
    match (key, tensors) {
        (SemanticsKey::Rope(_), [heads @ .., cos, sin]) if tensors.len() == 4 => {
            let tables = cos.dtype();
            differ(heads, dtype)
                || sin.dtype() != tables
                || (tables != dtype && tables != compute_dtype(dtype))
        }
        (SemanticsKey::MoeExperts(_), [_, routing, weights @ ..]) => {
            differ(weights, dtype) || ![dtype, DType::F32].contains(&routing.dtype())
        }
        _ => differ(tensors, dtype),
    }
}

/// The implementation that a kernel that is called directly runs, or the first reason against
/// every one.
pub(crate) fn implementation<'t>(
    kernel: &'static KernelSpec,
    key: impl Into<SemanticsKey>,
    tensors: impl AsRef<[&'t DispatchTensor]>,
) -> Result<&'static Implementation, Reason> {
    let (key, tensors) = (key.into(), tensors.as_ref());
    let found = crate::dispatch::best(kernel, &key, Query::of_tensors(&key, tensors))?;
    match found.limits {
        Some(limits) => limits(&key, tensors).map(|()| found),
        None => Ok(found),
    }
}

/// What references compute in: f64 for f64, else f32.
pub(crate) fn compute_dtype(dtype: DType) -> DType {
    if dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    }
}

/// Casts a tensor unless it has the dtype already.
pub(crate) fn same_dtype_as<const D: usize>(tensor: Tensor<D>, dtype: DType) -> Tensor<D> {
    if tensor.dtype() == dtype {
        return tensor;
    }
    tensor.cast(FloatDType::from(dtype))
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use crate::dispatch::TensorType;
    use crate::registry::FloatType;
    use crate::semantics::{MoeExpertsKey, RmsNormKey, RopeKey};
    use burn::tensor::Device;

    fn tensors<const N: usize>(dtypes: [DType; N]) -> [DispatchTensor; N] {
        dtypes.map(|dtype| Tensor::<1>::zeros([1], (&Device::flex(), dtype)).into_dispatch())
    }

    #[test]
    fn tables_may_be_in_the_dtype_of_the_computation() {
        let key = SemanticsKey::Rope(RopeKey::LLAMA);
        let of = |dtypes| Query::of_tensors(&key, &tensors(dtypes).each_ref()).tensors;
        let (half, wide) = (DType::BF16, DType::F32);
        let bf16 = TensorType::Float(FloatType::Bf16);
        assert_eq!(of([half; 4]), bf16);
        assert_eq!(of([half, half, wide, wide]), bf16);
        assert_eq!(of([half, half, wide, half]), TensorType::Mixed);
        assert_eq!(of([half, wide, wide, wide]), TensorType::Mixed);
        assert_eq!(of([wide, wide, half, half]), TensorType::Mixed);
        assert_eq!(of([wide, wide, DType::F64, DType::F64]), TensorType::Mixed);
        assert_eq!(of([half, half, DType::F16, DType::F16]), TensorType::Mixed);
    }

    #[test]
    fn routing_weights_may_be_in_f32() {
        let key = SemanticsKey::MoeExperts(MoeExpertsKey::QWEN3);
        let of = |dtypes| Query::of_tensors(&key, &tensors(dtypes).each_ref()).tensors;
        let (half, wide) = (DType::BF16, DType::F32);
        let bf16 = TensorType::Float(FloatType::Bf16);
        assert_eq!(of([half, wide, half, half]), bf16);
        assert_eq!(of([half, half, half, half]), bf16);
        assert_eq!(of([half, half, wide, half]), TensorType::Mixed);
        assert_eq!(of([half, DType::F16, half, half]), TensorType::Mixed);
        let of = |dtype| Query::of_tensors(&key, &tensors([dtype]).each_ref()).tensors;
        assert_eq!(of(half), bf16);
    }

    #[test]
    fn other_operands_have_one_dtype() {
        let key = SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
        let of = |dtypes| Query::of_tensors(&key, &tensors(dtypes).each_ref()).tensors;
        assert_eq!(of([DType::BF16, DType::F32]), TensorType::Mixed);
        assert_eq!(of([DType::F32; 2]), TensorType::Float(FloatType::F32));
    }
}
