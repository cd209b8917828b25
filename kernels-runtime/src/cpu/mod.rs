//! The CPU's kernels: what all of them declare, and tensors of Flex as what [`kernels_simd`] computes on.

mod gradient_sum;

use crate::device::DeviceKinds;
use crate::registry::{CapabilityRange, FloatType, Gradient, Implementation, Launch};
use burn::backend::Shape;
use burn::backend::flex::{FlexTensor, Layout};
use burn::tensor::{Bytes, DType};
pub(crate) use gradient_sum::gradient_sum;
use kernels_simd::{SliceMut, Values, View};
use std::borrow::Cow;

/// The fields that all CPU implementations have in common. Each implementation adds the rest.
pub(crate) const BASE: Implementation = Implementation {
    device: DeviceKinds::CPU,
    name: "cpu-simd",
    dtypes: DTYPES,
    gradient: Gradient::Kernel,
    deterministic: true,
    fusion_barrier: false,
    capability: PROCESSORS,
    accepts: |_| false,
    limits: None,
    operators: None,
    launch: Launch::Custom,
};

/// The types that kernels compute in. Nobody trains in f64, so its kernels are for checks and have a feature.
const DTYPES: &[FloatType] = match cfg!(feature = "f64-kernels") {
    true => &FloatType::ALL,
    false => &[FloatType::F32, FloatType::Bf16, FloatType::F16],
};

/// The processors that kernels are compiled for: those of x86-64-v3, and all of other architectures, whose capability is
/// higher. Miri interprets the code for other architectures, wherever it runs.
const PROCESSORS: CapabilityRange = match cfg!(miri) {
    true => CapabilityRange::ANY,
    false => CapabilityRange {
        min: 3,
        ..CapabilityRange::ANY
    },
};

/// Runs `$body` with the type parameter `$T` bound to the Rust type of a float dtype, which is one of the kernels'.
macro_rules! dispatch_dtype {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            #[cfg(feature = "f64-kernels")]
            ::burn::tensor::DType::F64 => {
                type $T = f64;
                $body
            }
            ::burn::tensor::DType::F32 => {
                type $T = f32;
                $body
            }
            ::burn::tensor::DType::F16 => {
                type $T = ::burn::tensor::f16;
                $body
            }
            ::burn::tensor::DType::BF16 => {
                type $T = ::burn::tensor::bf16;
                $body
            }
            other => panic!("the CPU kernels of this build do not compute in {other:?}"),
        }
    };
}

/// Returns a type of kernels.
///
/// # Panics
/// Panics if no kernel computes in the type.
pub(crate) fn of_simd(dtype: DType) -> kernels_simd::DType {
    match dtype {
        DType::F64 => kernels_simd::DType::F64,
        DType::F32 => kernels_simd::DType::F32,
        DType::BF16 => kernels_simd::DType::Bf16,
        DType::F16 => kernels_simd::DType::F16,
        other => panic!("no CPU kernel computes in {other:?}"),
    }
}

/// Returns a tensor to be read.
pub(crate) fn view(tensor: &FlexTensor) -> View<'_> {
    let layout = tensor.layout();
    View::new(
        tensor.bytes(),
        of_simd(tensor.dtype()),
        layout.shape().as_slice(),
        layout.strides(),
        layout.start_offset(),
    )
}

/// Returns a tensor whose rows can be read in place: the tensor itself, or a contiguous copy if the elements of
/// a row are not contiguous.
pub(crate) fn readable_rows(tensor: &FlexTensor) -> Cow<'_, FlexTensor> {
    let layout = tensor.layout();
    let width = layout.shape().last().copied().unwrap_or(1);
    let together = layout.strides().last().is_none_or(|stride| *stride == 1);
    if together || width <= 1 {
        Cow::Borrowed(tensor)
    } else {
        Cow::Owned(tensor.to_contiguous())
    }
}

/// Returns the elements of a contiguous tensor to be changed, or `None` if another tensor has them too.
pub(crate) fn slice_mut(tensor: &mut FlexTensor) -> Option<SliceMut<'_>> {
    let (start, len) = (
        tensor.layout().start_offset(),
        tensor.layout().num_elements(),
    );
    if len == 0 {
        return None;
    }
    dispatch_dtype!(tensor.dtype(), T => {
        let values = tensor.try_storage_mut::<T>()?;
        Some(SliceMut::of(&mut values[start..][..len]))
    })
}

/// Returns the elements of a contiguous tensor to be changed. They are copied if another tensor has them too.
pub(crate) fn own_slice_mut(tensor: &mut FlexTensor) -> SliceMut<'_> {
    let (start, len) = (
        tensor.layout().start_offset(),
        tensor.layout().num_elements(),
    );
    dispatch_dtype!(tensor.dtype(), T => match len {
        // An empty tensor may start behind the end of its storage.
        0 => SliceMut::of::<T>(&mut []),
        _ => SliceMut::of(&mut tensor.storage_mut::<T>()[start..][..len]),
    })
}

/// Returns a result as a tensor.
///
/// # Panics
/// Panics if the shape has another number of elements.
pub(crate) fn tensor(values: Values, shape: Shape) -> FlexTensor {
    let count = values.len();
    assert!(
        shape.num_elements() == count,
        "a kernel's {count} elements don't fill a tensor of shape {shape:?}"
    );
    let (bytes, dtype) = match values {
        Values::F64(values) => (Bytes::from_elems(values), DType::F64),
        Values::F32(values) => (Bytes::from_elems(values), DType::F32),
        Values::Bf16(values) => (Bytes::from_elems(values), DType::BF16),
        Values::F16(values) => (Bytes::from_elems(values), DType::F16),
    };
    FlexTensor::new(bytes, Layout::contiguous(shape), dtype)
}

/// Returns a tensor without elements. Its axes may be of any size.
///
/// # Panics
/// Panics if it has elements.
pub(crate) fn empty<const D: usize>(shape: [usize; D], dtype: DType) -> FlexTensor {
    assert!(
        shape.contains(&0),
        "a tensor of shape {shape:?} has elements"
    );
    let bytes = dispatch_dtype!(dtype, T => Bytes::from_elems(Vec::<T>::new()));
    FlexTensor::new(bytes, Layout::contiguous(Shape::new(shape)), dtype)
}

/// Returns whether kernels compute in another type than this one.
pub(crate) fn is_half_type(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Returns a tensor of two axes whose elements products can read in place: the tensor itself, or a contiguous copy if
/// neither of its axes is contiguous.
pub(crate) fn readable(weights: &FlexTensor) -> Cow<'_, FlexTensor> {
    let strides = weights.layout().strides();
    match strides.contains(&1) && strides.iter().all(|stride| *stride > 0) {
        true => Cow::Borrowed(weights),
        false => Cow::Owned(weights.to_contiguous()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{DeviceKind, KernelOp, Served};
    use crate::dispatch::{Mode, Query, TensorType, best};
    use crate::reason::Reason;
    use crate::registry::kernel;
    use crate::semantics::{RmsNormKey, SemanticsKey};
    use burn::tensor::Device;

    /// Returns the path of an RMSNorm on a CPU.
    fn path(float: FloatType, change: impl FnOnce(&mut Query)) -> Result<&'static str, Reason> {
        let mut query = Query::new(&Device::flex(), TensorType::Float(float), Mode::Training);
        assert_eq!(query.device, DeviceKind::Cpu);
        change(&mut query);
        let kernel = kernel("npu_fused_rmsnorm").expect("it is compiled in");
        let key = SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
        best(kernel, &key, query).map(|found| found.name)
    }

    #[test]
    fn older_processors_compute_the_reference() {
        for (capability, expected) in [
            (1, Err(Reason::Capability)),
            (2, Err(Reason::Capability)),
            (3, Ok("cpu-simd")),
            (4, Ok("cpu-simd")),
            // Another architecture's, which a server may have.
            (64, Ok("cpu-simd")),
        ] {
            let found = path(FloatType::F32, |query| query.capability = capability);
            assert_eq!(found, expected, "{capability}");
        }
    }

    #[test]
    fn a_server_without_kernels_in_f64_is_not_asked_for_them() {
        let served = |f64| Served::with([KernelOp::RmsNorm], f64);
        for (float, f64, expected) in [
            (FloatType::F64, false, Err(Reason::Dtype)),
            (FloatType::F64, true, Ok("cpu-simd")),
            (FloatType::F32, false, Ok("cpu-simd")),
        ] {
            let found = path(float, |query| query.served = served(f64));
            assert_eq!(found, expected, "{float}, {f64}");
        }
    }
}
