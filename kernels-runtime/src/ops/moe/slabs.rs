//! The weights of each expert, read and written where they are.

use super::product::{Gemm, Matrix};
use crate::cpu::{Element, Output};
use crate::semantics::ExpertLayout;
use burn::backend::Shape;
use burn::backend::flex::FlexTensor;
use std::any::TypeId;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// The elements of a contiguous tensor.
pub(super) fn contiguous<T: Element>(tensor: &FlexTensor) -> &[T] {
    let start = tensor.layout().start_offset();
    &tensor.storage()[start..start + tensor.layout().shape().num_elements()]
}

/// The tensors of a projection, stacked (one) or not, whose elements can be read in place: a
/// transposed or sliced tensor is no copy, as long as one of an expert's two axes is contiguous.
pub(super) struct Readable<'a>(Vec<Cow<'a, FlexTensor>>);

impl<'a> Readable<'a> {
    pub(super) fn new(tensors: &'a [FlexTensor]) -> Self {
        let readable = |tensor: &'a FlexTensor| {
            let strides = tensor.layout().strides();
            let expert = &strides[strides.len().saturating_sub(2)..];
            if expert.contains(&1) && strides.iter().all(|stride| *stride > 0) {
                Cow::Borrowed(tensor)
            } else {
                Cow::Owned(tensor.to_contiguous())
            }
        };
        Self(tensors.iter().map(readable).collect())
    }

    /// The slices, shapes and strides of each expert's tensor. `rank` is that of one expert's.
    fn experts<T: Element>(&self, rank: usize) -> Vec<(&[T], &[usize], &[isize])> {
        let mut experts = Vec::new();
        for tensor in &self.0 {
            let layout = tensor.layout();
            let (shape, strides) = (layout.shape().as_slice(), layout.strides());
            let (data, start) = (tensor.storage::<T>(), layout.start_offset());
            let stacked = shape.len() > rank;
            let (count, stride) = if stacked {
                (shape[0], strides[0] as usize)
            } else {
                (1, 0)
            };
            let own = usize::from(stacked);
            for expert in 0..count {
                let start = (start + expert * stride).min(data.len());
                experts.push((&data[start..], &shape[own..], &strides[own..]));
            }
        }
        experts
    }

    /// The weights of each expert.
    pub(super) fn matrices<T: Element>(&self, layout: ExpertLayout) -> Vec<Matrix<'_, T>> {
        self.experts(2)
            .into_iter()
            .map(|(data, shape, strides)| {
                let (input, feature) = match layout {
                    ExpertLayout::Linear => (1, 0),
                    ExpertLayout::Matmul => (0, 1),
                };
                Matrix {
                    data,
                    inputs: shape[input],
                    features: shape[feature],
                    input_stride: strides[input] as usize,
                    feature_stride: strides[feature] as usize,
                }
            })
            .collect()
    }

    /// The biases of each expert.
    pub(super) fn vectors<T: Element>(&self) -> Vec<Vec<T::Acc>> {
        self.experts::<T>(1)
            .into_iter()
            .map(|(data, shape, strides)| {
                data.iter()
                    .step_by(strides[0] as usize)
                    .take(shape[0])
                    .map(|value| value.load())
                    .collect()
            })
            .collect()
    }
}

/// Gradients of the tensors of a projection, not yet written; `None` where none is wanted.
pub(super) struct Gradients<T>(Vec<Option<Output<T>>>);

impl<T: Element> Gradients<T> {
    pub(super) fn new(tensors: &[FlexTensor], wanted: &[bool]) -> Self {
        let output = |(tensor, wanted): (&FlexTensor, &bool)| {
            let shape: &Shape = tensor.layout().shape();
            wanted.then(|| Output::new(shape.clone()))
        };
        Self(tensors.iter().zip(wanted).map(output).collect())
    }

    /// Each expert's places; none at all if there are no tensors. `size` is that of one expert's.
    pub(super) fn experts(&mut self, experts: usize, size: usize) -> Vec<Slab<'_, T>> {
        let stacked = self.0.len() == 1 && experts != 1;
        let mut slabs = Vec::with_capacity(experts);
        for output in &mut self.0 {
            match output {
                None => slabs.extend((0..if stacked { experts } else { 1 }).map(|_| None)),
                Some(output) => {
                    let mut places = output.places();
                    for _ in 0..if stacked { experts } else { 1 } {
                        let (slab, rest) = places.split_at_mut(size);
                        slabs.push(Some(slab));
                        places = rest;
                    }
                }
            }
        }
        slabs.resize_with(experts, || None);
        slabs
    }

    /// The tensors.
    ///
    /// # Safety
    /// Every place of every slab has been written.
    pub(super) unsafe fn finish(self) -> Vec<Option<FlexTensor>> {
        self.0
            .into_iter()
            // SAFETY: the caller's.
            .map(|output| output.map(|output| unsafe { output.finish() }))
            .collect()
    }
}

/// The places of one expert's gradient.
pub(super) type Slab<'a, T> = Option<&'a mut [MaybeUninit<T>]>;

/// The gradient of one expert's weights while it is summed: in place in the accumulation type,
/// else beside it and rounded once.
pub(super) struct Sum<'a, T: Element> {
    slab: &'a mut [MaybeUninit<T>],
    beside: Vec<T::Acc>,
    /// Whether there is something to add to.
    started: bool,
    /// Whether the slab has been written, rounded.
    written: bool,
}

impl<'a, T: Element> Sum<'a, T>
where
    T::Acc: Gemm,
{
    pub(super) fn new(slab: &'a mut [MaybeUninit<T>]) -> Self {
        Self {
            slab,
            beside: Vec::new(),
            started: false,
            written: false,
        }
    }

    /// Whether a part must be added to what is there, else there is nothing to add to.
    pub(super) fn started(&self) -> bool {
        self.started
    }

    /// The slab itself, if what is summed must be rounded into it. The caller writes all of it, and
    /// nothing is added any more.
    pub(super) fn rounded(&mut self) -> Option<&mut [MaybeUninit<T>]> {
        if TypeId::of::<T>() == TypeId::of::<T::Acc>() || self.started {
            return None;
        }
        self.written = true;
        Some(&mut *self.slab)
    }

    /// The places, which the caller writes all.
    pub(super) fn places(&mut self) -> &mut [MaybeUninit<T::Acc>] {
        self.started = true;
        if TypeId::of::<T>() == TypeId::of::<T::Acc>() {
            // SAFETY: the types are the same.
            unsafe { &mut *(std::ptr::from_mut(self.slab) as *mut [MaybeUninit<T::Acc>]) }
        } else {
            // Not before: experts wait for their turn, and parts may be rounded at once.
            self.beside.reserve_exact(self.slab.len());
            &mut self.beside.spare_capacity_mut()[..self.slab.len()]
        }
    }

    /// Writes the slab: the sum, or zeros if there is none.
    ///
    /// # Safety
    /// If [`places`](Self::places) or [`rounded`](Self::rounded) was called, all of them have been
    /// written.
    pub(super) unsafe fn finish(mut self) {
        if self.written {
            return;
        }
        if !self.started {
            self.slab.fill(MaybeUninit::new(T::round(Gemm::ZERO)));
        } else if TypeId::of::<T>() != TypeId::of::<T::Acc>() {
            // SAFETY: the capacity is that of the slab, and the caller wrote all of it.
            unsafe { self.beside.set_len(self.slab.len()) };
            pulp::Arch::new().dispatch(Round {
                from: &self.beside,
                to: self.slab,
            });
        }
    }
}

/// Rounds elements to the tensor's type.
pub(super) struct Round<'a, T: Element> {
    pub(super) from: &'a [T::Acc],
    pub(super) to: &'a mut [MaybeUninit<T>],
}

impl<T: Element> pulp::WithSimd for Round<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            to.write(T::round(*from));
        }
    }
}
