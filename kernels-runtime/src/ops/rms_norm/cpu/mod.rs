//! RMSNorm on Flex: one pass over each row while it is in the first-level cache. Without groups a
//! row is the last axis; with groups, each of them is a row.

mod after_norm;
mod before_norm;
mod plain;

use super::autodiff::{TensorGradients, Tensors};
use super::{RmsNormBackend, RmsNormKernel, Settings};
use crate::cpu::{Element, Output, Real, Rows, dispatch_dtype};
use crate::dispatch::DeviceKind;
use crate::ops::Optional;
use crate::registry::{CapabilityRange, FloatType, Implementation, Launch};
use crate::semantics::{Gating, RmsNormKey, Rounding, SemanticsKey};
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::{Flex, Shape};
use burn::tensor::{DType, bf16, f16};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    device: DeviceKind::Cpu,
    name: "cpu-simd",
    dtypes: &FloatType::ALL,
    gradient: true,
    deterministic: true,
    fusion_barrier: false,
    capability: CapabilityRange::ANY,
    limits: None,
    launch: Launch::RmsNorm(super::launch),
    accepts: |key| matches!(key, SemanticsKey::RmsNorm(_)),
};

impl RmsNormBackend for Flex {
    fn rms_norm(
        x: FlexTensor,
        weight: Optional<Self>,
        gate: Optional<Self>,
        settings: Settings,
        key: RmsNormKey,
    ) -> FlexTensor {
        let tensors = Tensors {
            x,
            weight: weight.into_option(),
            gate: gate.into_option(),
        };
        Self::rms_norm_forward(tensors, settings, key).0
    }
}

impl RmsNormKernel for Flex {
    fn rms_norm_forward(
        tensors: Tensors<Self>,
        settings: Settings,
        key: RmsNormKey,
    ) -> (FlexTensor, FlexTensor) {
        match (tensors.x.dtype(), key.rounding) {
            (DType::BF16, Rounding::Llama) => forward::<bf16, Twice>(&tensors, settings, key),
            (DType::F16, Rounding::Llama) => forward::<f16, Twice>(&tensors, settings, key),
            // Nothing is rounded in f32 and f64: one of the orders does for both.
            (dtype, _) => {
                dispatch_dtype!(dtype, T => forward::<T, Once>(&tensors, settings, key))
            }
        }
    }

    fn rms_norm_backward(
        dy: FlexTensor,
        tensors: Tensors<Self>,
        rstd: FlexTensor,
        settings: Settings,
        key: RmsNormKey,
        weight_gradient: bool,
    ) -> TensorGradients<Self> {
        dispatch_dtype!(tensors.x.dtype(), T => {
            let axis = Axis::<T>::new(&tensors, settings, key);
            let inputs = BackwardInputs { dy, tensors, rstd, weight_gradient };
            match key.gating {
                Gating::None => plain::backward(&inputs, &axis),
                Gating::AfterNorm => after_norm::backward(&inputs, &axis),
                Gating::BeforeNorm => before_norm::backward(&inputs, &axis),
            }
        })
    }
}

fn forward<T: Element, R: Steps<T>>(
    tensors: &Tensors<Flex>,
    settings: Settings,
    key: RmsNormKey,
) -> (FlexTensor, FlexTensor) {
    let axis = Axis::<T>::new(tensors, settings, key);
    match (key.gating, &tensors.gate) {
        (Gating::AfterNorm, Some(gate)) => after_norm::forward::<T, R>(&tensors.x, gate, &axis),
        (Gating::BeforeNorm, Some(gate)) => before_norm::forward::<T, R>(&tensors.x, gate, &axis),
        _ => plain::forward::<T, R>(&tensors.x, &axis),
    }
}

/// What a step between `x̂` and the result leaves of a value.
trait Steps<T: Element>: Sync {
    fn step(value: T::Acc) -> T::Acc;
}

/// Llama's: it is rounded to the dtype.
struct Twice;

impl<T: Element> Steps<T> for Twice {
    #[inline(always)]
    fn step(value: T::Acc) -> T::Acc {
        T::round(value).load()
    }
}

/// Gemma's: all of it.
struct Once;

impl<T: Element> Steps<T> for Once {
    #[inline(always)]
    fn step(value: T::Acc) -> T::Acc {
        value
    }
}

/// What the backward kernels read.
struct BackwardInputs {
    dy: FlexTensor,
    tensors: Tensors<Flex>,
    rstd: FlexTensor,
    weight_gradient: bool,
}

impl BackwardInputs {
    fn gate(&self) -> &FlexTensor {
        let gate = self.tensors.gate.as_ref();
        gate.expect("the key says that there is a gate")
    }

    /// A part of the weight's gradient to add to; empty if that is not wanted.
    fn partial<T: Element>(&self, axis: &Axis<T>) -> Vec<T::Acc> {
        let n = if self.weight_gradient {
            axis.gain.len()
        } else {
            0
        };
        vec![T::Acc::ZERO; n]
    }

    /// The weight's gradient, if it is wanted: the sum of the chunks' parts, in their order.
    fn total<T: Element>(&self, axis: &Axis<T>, chunks: &[Vec<T::Acc>]) -> Option<FlexTensor> {
        if !self.weight_gradient {
            return None;
        }
        let mut sum = vec![T::Acc::ZERO; axis.gain.len()];
        for chunk in chunks {
            for (sum, part) in sum.iter_mut().zip(chunk) {
                *sum += *part;
            }
        }
        let mut dw = Output::<T>::new(Shape::new([sum.len()]));
        for (place, value) in dw.places().iter_mut().zip(&sum) {
            place.write(T::round(*value));
        }
        // SAFETY: `sum` has as many elements as the output has places.
        Some(unsafe { dw.finish() })
    }
}

/// The normalised axis: how it is divided, and what scales its elements.
struct Axis<T: Element> {
    /// `offset + w` of every element in the accumulation precision; without a weight, 1 of every
    /// element of a row, which changes nothing.
    gain: Vec<T::Acc>,
    /// Elements of a row.
    width: usize,
    groups: usize,
    eps: T::Acc,
}

impl<T: Element> Axis<T> {
    fn new(tensors: &Tensors<Flex>, settings: Settings, key: RmsNormKey) -> Self {
        let n = tensors.x.layout().shape().last().copied().unwrap_or(1);
        let width = settings.group_size.unwrap_or(n);
        let gain = match &tensors.weight {
            None => vec![T::Acc::ONE; width],
            Some(weight) => {
                let offset = T::Acc::of(key.offset.value());
                let weight = weight.to_contiguous();
                let weight = weight.storage::<T>();
                weight.iter().map(|w| offset + w.load()).collect()
            }
        };
        Self {
            gain,
            width,
            groups: n.checked_div(width).unwrap_or(1),
            eps: T::Acc::of(settings.eps),
        }
    }

    /// The rows of a tensor.
    fn rows<'a>(&self, tensor: &'a FlexTensor) -> Rows<'a, T> {
        let layout = tensor.layout();
        if self.groups <= 1 {
            return Rows::with_layout(tensor, layout);
        }
        let (mut sizes, mut strides) = (layout.shape().to_vec(), layout.strides().to_vec());
        let (last, stride) = (sizes.len() - 1, strides[strides.len() - 1]);
        sizes[last] = self.groups;
        sizes.push(self.width);
        strides[last] = stride * self.width as isize;
        strides.push(stride);
        let split = Layout::new(Shape::from(sizes), strides, layout.start_offset());
        Rows::with_layout(tensor, &split)
    }

    /// The shape of one value a row.
    fn per_row(&self, x: &FlexTensor) -> Shape {
        let mut shape = x.layout().shape().clone();
        if let Some(last) = shape.as_mut_slice().last_mut() {
            *last = self.groups;
        }
        shape
    }

    /// Where row number `row` is in the gain and in the weight's gradient.
    #[inline(always)]
    fn of_row(&self, row: usize) -> std::ops::Range<usize> {
        let start = (row * self.width) % self.gain.len().max(1);
        start..start + self.width
    }

    /// `1 / sqrt(mean square + eps)`.
    #[inline(always)]
    fn rstd(&self, sum_of_squares: T::Acc) -> T::Acc {
        let mean_square = sum_of_squares / T::Acc::of(self.width as f64);
        T::Acc::ONE / (mean_square + self.eps).sqrt()
    }

    /// What multiplies an element in the part of its gradient that goes through `rstd`, from
    /// `Σ g·dy·x`. In this order `rstd²` alone, which may underflow, is never formed.
    #[inline(always)]
    fn along(&self, projection: T::Acc, rstd: T::Acc) -> T::Acc {
        projection * rstd / T::Acc::of(self.width as f64) * rstd
    }
}
