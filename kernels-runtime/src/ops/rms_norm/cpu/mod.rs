//! RMSNorm on Flex: one pass over each row while it is in the first-level cache. Without groups, a
//! row is the last axis. With groups, each group is a row.

pub(in crate::ops) mod pass;
pub(in crate::ops) mod without;

use super::autodiff::{Gradients, Tensors};
use super::{Backward, RmsNormBackend, RmsNormKernel};
use crate::cpu::{
    BASE, Context, Element, Real, Rows, contiguous, dispatch_dtype, gradient_sum, total,
};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{Gating, Rounding, SemanticsKey};
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::{Flex, Shape};
use burn::tensor::{DType, bf16, f16};
use pass::{After, Before};
use without::Without;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: Launch::RmsNorm(super::launch),
    accepts: |key| matches!(key, SemanticsKey::RmsNorm(_)),
    ..BASE
};

impl RmsNormBackend for Flex {
    fn rms_norm(operands: Tensors<Self>) -> FlexTensor {
        Self::rms_norm_forward(operands).0
    }
}

impl RmsNormKernel for Flex {
    fn rms_norm_forward(operands: Tensors<Self>) -> (FlexTensor, FlexTensor) {
        match (checked(operands.dtype()), operands.key().rounding) {
            (DType::BF16, Rounding::Llama) => forward::<bf16, Twice>(&operands),
            (DType::F16, Rounding::Llama) => forward::<f16, Twice>(&operands),
            // f32 and f64 are not rounded, so one implementation serves both orders.
            (dtype, _) => dispatch_dtype!(dtype, T => forward::<T, Once>(&operands)),
        }
    }

    fn rms_norm_backward(backward: Backward<FlexTensor>) -> Gradients<FlexTensor> {
        backward_of(&backward, None)
    }

    fn rms_norm_backward_added(
        backward: Backward<FlexTensor>,
        before: FlexTensor,
    ) -> Gradients<FlexTensor> {
        checked(backward.check_before(&before));
        match backward.operands().key().gating {
            Gating::None => backward_of(&backward, Some(&before)),
            Gating::AfterNorm | Gating::BeforeNorm => {
                let gradients = backward_of(&backward, None);
                Gradients {
                    x: gradient_sum(gradients.x, &before),
                    ..gradients
                }
            }
        }
    }
}

/// Returns the gradients. Without a gate, `before` is added to that of `x`.
fn backward_of(
    backward: &Backward<FlexTensor>,
    before: Option<&FlexTensor>,
) -> Gradients<FlexTensor> {
    let operands = backward.operands();
    let (dtype, gating) = (checked(operands.dtype()), operands.key().gating);
    let gate = operands.gate();
    let rstd = backward.rstd().to_contiguous();
    dispatch_dtype!(dtype, T => {
        let axis = Axis::<T>::new(operands);
        let inputs = Given { backward, rstd: contiguous(&rstd) };
        match (gating, before) {
            (Gating::AfterNorm, _) => pass::backward::<T, After, _>(&inputs, gate, &axis),
            (Gating::BeforeNorm, _) => pass::backward::<T, Before, _>(&inputs, gate, &axis),
            (Gating::None, None) => pass::backward::<T, Without, _>(&inputs, None, &axis),
            (Gating::None, before) => pass::backward::<T, Without<true>, _>(&inputs, before, &axis),
        }
    })
}

fn forward<T: Element, R: Steps<T>>(operands: &Tensors<Flex>) -> (FlexTensor, FlexTensor) {
    let (x, axis) = (operands.x(), Axis::<T>::new(operands));
    let gate = operands.gate();
    match operands.key().gating {
        Gating::AfterNorm => pass::forward::<T, R, After, _>(x, gate, &axis),
        Gating::BeforeNorm => pass::forward::<T, R, Before, _>(x, gate, &axis),
        Gating::None => pass::forward::<T, R, Without, _>(x, gate, &axis),
    }
}

/// The rounding of a value between `x̂` and the result.
pub(in crate::ops) trait Steps<T: Element>: Sync {
    fn step(value: T::Acc) -> T::Acc;
    fn lanes<C: Context>(c: C, values: C::Of<T::Acc>) -> C::Of<T::Acc>;
}

/// Llama's rounding: the value is rounded to the dtype.
pub(in crate::ops) struct Twice;

impl<T: Element> Steps<T> for Twice {
    #[inline(always)]
    fn step(value: T::Acc) -> T::Acc {
        T::round(value).load()
    }

    #[inline(always)]
    fn lanes<C: Context>(c: C, values: C::Of<T::Acc>) -> C::Of<T::Acc> {
        T::held(c, values)
    }
}

/// Gemma's rounding: the value is not rounded.
pub(in crate::ops) struct Once;

impl<T: Element> Steps<T> for Once {
    #[inline(always)]
    fn step(value: T::Acc) -> T::Acc {
        value
    }

    #[inline(always)]
    fn lanes<C: Context>(_: C, values: C::Of<T::Acc>) -> C::Of<T::Acc> {
        values
    }
}

/// The inputs of the backward kernels.
struct Given<'a, T: Element> {
    backward: &'a Backward<FlexTensor>,
    /// One value for each row.
    rstd: &'a [T::Acc],
}

impl<T: Element> Given<'_, T> {
    fn x(&self) -> &FlexTensor {
        self.backward.operands().x()
    }

    /// Returns a zeroed partial sum of the weight's gradient, empty if that gradient is not wanted.
    fn partial(&self, axis: &Axis<T>) -> Vec<T::Acc> {
        let n = if self.backward.weight_gradient() {
            axis.gain.len()
        } else {
            0
        };
        vec![T::Acc::ZERO; n]
    }

    /// Returns the weight's gradient, if it is wanted: the sum of the chunks' partial sums, in order.
    fn total(&self, axis: &Axis<T>, chunks: &[Vec<T::Acc>]) -> Option<FlexTensor> {
        let parts = chunks.iter().map(Vec::as_slice);
        let wanted = self.backward.weight_gradient();
        wanted.then(|| total::<T>(parts, axis.gain.len()))
    }
}

/// The normalised axis: its division into rows, and the factors of its elements.
pub(in crate::ops) struct Axis<T: Element> {
    /// `offset + w` of every element in the accumulation precision. Without a weight, 1 for every
    /// element of a row, which changes nothing.
    pub(in crate::ops) gain: Vec<T::Acc>,
    /// The number of elements of a row.
    pub(in crate::ops) width: usize,
    groups: usize,
    eps: T::Acc,
}

impl<T: Element> Axis<T> {
    pub(in crate::ops) fn new(operands: &Tensors<Flex>) -> Self {
        let (settings, key) = (operands.settings(), operands.key());
        let n = operands.x().layout().shape().last().copied().unwrap_or(1);
        let width = settings.group_size.unwrap_or(n);
        // An axis without elements has no groups, whatever the group size.
        let groups = n.checked_div(width).unwrap_or(1);
        let width = if groups == 0 { 0 } else { width };
        let gain = match operands.weight() {
            None => vec![T::Acc::ONE; width],
            Some(weight) => {
                let offset = T::Acc::of(key.offset.value());
                let weight = weight.to_contiguous();
                let weight = contiguous::<T>(&weight).iter();
                weight.map(|w| offset + w.load()).collect()
            }
        };
        Self {
            gain,
            width,
            groups,
            eps: T::Acc::of(settings.eps),
        }
    }

    /// Returns the rows of a tensor.
    pub(in crate::ops) fn rows<'a>(&self, tensor: &'a FlexTensor) -> Rows<'a, T> {
        let layout = tensor.layout();
        if self.groups == 1 {
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

    /// Returns the shape of a tensor with one value for each row.
    pub(in crate::ops) fn per_row(&self, x: &FlexTensor) -> Shape {
        let mut shape = x.layout().shape().clone();
        if let Some(last) = shape.as_mut_slice().last_mut() {
            *last = self.groups;
        }
        shape
    }

    /// Returns the range of row number `row` in the gain and in the weight's gradient.
    #[inline(always)]
    pub(in crate::ops) fn of_row(&self, row: usize) -> std::ops::Range<usize> {
        let start = (row * self.width) % self.gain.len().max(1);
        start..start + self.width
    }

    /// Returns `1 / sqrt(mean square + eps)`.
    #[inline(always)]
    pub(in crate::ops) fn rstd(&self, sum_of_squares: T::Acc) -> T::Acc {
        let mean_square = sum_of_squares / T::Acc::of(self.width as f64);
        T::Acc::ONE / (mean_square + self.eps).sqrt()
    }

    /// Returns the factor of an element in the part of its gradient that goes through `rstd`, given
    /// `Σ g·dy·x`. In this order, `rstd²` alone, which may underflow, is never formed.
    #[inline(always)]
    fn along(&self, projection: T::Acc, rstd: T::Acc) -> T::Acc {
        projection * rstd / T::Acc::of(self.width as f64) * rstd
    }
}
