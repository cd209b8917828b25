//! The shared part of the operations' kernels on the NPU's backend: the conversion of results to its tensors, and the
//! fields that the implementations have in common.

use super::Result;
use crate::device::DeviceKinds;
use crate::registry::{CapabilityRange, FloatType, Gradient, Implementation, Launch};
use burn::tensor::IntDType;
use burn_cann::backend::CannTensor;
use burn_cann::{DType, Tensor};

/// The fields that the implementations have in common. Each implementation sets the others.
pub(crate) const BASE: Implementation = Implementation {
    device: DeviceKinds::NPU,
    name: "aclnn",
    dtypes: &[FloatType::F32, FloatType::F16, FloatType::Bf16],
    gradient: Gradient::Kernel,
    deterministic: true,
    fusion_barrier: false,
    // Ascend 910B and 910C, whose limits are documented.
    capability: CapabilityRange::new(40, 50),
    accepts: |_| false,
    limits: None,
    operators: None,
    launch: Launch::Custom,
};

/// Returns a result as a tensor of the backend.
///
/// # Panics
/// Panics if CANN failed, because Burn's operations can't return an error.
pub(crate) fn give(result: Result<Tensor>) -> CannTensor {
    take(result.and_then(|tensor| Ok(CannTensor::new(tensor).map_err(cann)?)))
}

fn cann(error: burn_cann::backend::Error) -> burn_cann::Error {
    match error {
        burn_cann::backend::Error::Cann(error) => error,
        // The device of a tensor is open.
        other => unreachable!("{other}"),
    }
}

/// # Panics
/// Panics as [`give`] does.
pub(crate) fn take<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("the NPU failed: {error}"))
}

/// Returns CANN's dtype for a type of integers.
pub(crate) fn ints(dtype: IntDType) -> DType {
    match dtype {
        IntDType::I64 => DType::I64,
        IntDType::I32 => DType::I32,
        other => panic!("the NPU sorts and routes with i32 and i64, not with {other:?}"),
    }
}
