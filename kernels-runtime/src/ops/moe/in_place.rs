//! Reading each expert's weights and writing their gradients in place.

use crate::cpu::product::{Destination, Factors, Gemm, Matrix, outer, outer_rounded};
use crate::cpu::{Element, Output, Unwritten};
use crate::semantics::ExpertLayout;
use burn::backend::Shape;
use burn::backend::flex::FlexTensor;
use std::any::TypeId;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// The tensors of a projection, one stacked tensor or several, whose elements can be read in place. A
/// transposed or sliced tensor is not copied if one of the two axes of an expert's matrix is contiguous.
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

    /// Returns the data, shape and strides of each expert's tensor. `rank` is the rank of one expert's tensor.
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

    /// Returns the weights of each expert.
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

    /// Returns the biases of each expert.
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

/// The gradients of the tensors of a projection before they are written, `None` where no gradient is wanted.
pub(super) struct Gradients<T>(Vec<Option<Output<T>>>);

impl<T: Element> Gradients<T> {
    pub(super) fn new(tensors: &[FlexTensor], wanted: &[bool]) -> Self {
        let output = |(tensor, wanted): (&FlexTensor, &bool)| {
            let shape: &Shape = tensor.layout().shape();
            wanted.then(|| Output::new(shape.clone()))
        };
        Self(tensors.iter().zip(wanted).map(output).collect())
    }

    /// Returns the memory of each expert's gradient, `None` for all if there are no tensors. `size` is the number of
    /// elements of one expert's gradient.
    pub(super) fn experts(&mut self, experts: usize, size: usize) -> Vec<Slab<'_, T>> {
        let stacked = self.0.len() == 1 && experts != 1;
        let each = if stacked { experts } else { 1 };
        let mut slabs = Vec::with_capacity(experts);
        for output in &mut self.0 {
            let mut left = output.as_mut().map(Output::rest);
            slabs.extend((0..each).map(|_| left.as_mut().map(|left| left.part(size))));
        }
        slabs.resize_with(experts, || None);
        slabs
    }

    /// Returns the tensors.
    ///
    /// # Panics
    /// Panics if a slab was not written.
    pub(super) fn finish(self) -> Vec<Option<FlexTensor>> {
        let finish = |output: Option<Output<T>>| output.map(Output::finish);
        self.0.into_iter().map(finish).collect()
    }
}

/// The memory of one expert's gradient.
pub(super) type Slab<'a, T> = Option<Unwritten<'a, T>>;

/// A part of the contribution of some rows to the gradient of weights: a product and its place in the gradient.
pub(super) struct Part<'a, A> {
    pub(super) factors: Factors<'a, A>,
    /// The index of the first element.
    pub(super) first: usize,
    /// The distance to the next line.
    pub(super) line_stride: usize,
    /// The distance to the next element of a line.
    pub(super) stride: usize,
}

/// The gradient of one expert's weights while it is summed. If the tensor has the accumulation type, the sum is in
/// place; otherwise it is in separate memory and is rounded once.
pub(super) struct Sum<'a, T: Element> {
    slab: Unwritten<'a, T>,
    beside: Vec<T::Acc>,
    state: State,
}

/// The contents of a slab, or of the separate memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No elements are written.
    Empty,
    /// All elements hold the sum so far.
    Started,
    /// The slab itself holds the rounded sum. Nothing may be added any more.
    Rounded,
}

impl<'a, T: Element> Sum<'a, T>
where
    T::Acc: Gemm,
{
    pub(super) fn new(slab: Unwritten<'a, T>) -> Self {
        Self {
            slab,
            beside: Vec::new(),
            state: State::Empty,
        }
    }

    /// Adds the contribution of some rows: `parts`, which together cover the slab and don't overlap.
    /// `only` states that nothing else is added. If `spread`, threads share the work.
    ///
    /// # Panics
    /// Panics if the parts have more or fewer elements than the slab.
    pub(super) fn add(&mut self, parts: &[Part<'_, T::Acc>], only: bool, spread: bool) {
        let elements = |part: &Part<'_, _>| part.factors.left.1 * part.factors.right.1;
        let (elements, len) = (parts.iter().map(elements).sum::<usize>(), self.slab.len());
        assert!(
            elements == len,
            "a gradient of {len} weights gets {elements} elements"
        );
        if len == 0 {
            return;
        }
        if only && !same::<T>() && self.state == State::Empty {
            for part in parts {
                let destination = part.of(self.slab.places());
                outer_rounded::<T>(&part.factors, destination, spread);
            }
            self.state = State::Rounded;
            return;
        }
        let add = self.state == State::Started;
        for part in parts {
            let destination = part.of(self.places());
            // SAFETY: `add` is true only if an earlier call left the state `Started`. That call wrote all places: its
            // parts had as many elements as the slab.
            unsafe { outer::<T>(&part.factors, destination, add, spread) };
        }
        self.state = State::Started;
    }

    /// Changes the sum so far. An empty sum starts with zeros.
    pub(super) fn update(&mut self, change: impl FnOnce(&mut [T::Acc])) {
        let empty = self.state == State::Empty;
        let places = self.places();
        if empty {
            places.fill(MaybeUninit::new(Gemm::ZERO));
        }
        // SAFETY: an earlier call or `fill` wrote all places.
        change(unsafe { places.assume_init_mut() });
        self.state = State::Started;
    }

    fn places(&mut self) -> &mut [MaybeUninit<T::Acc>] {
        assert!(
            self.state != State::Rounded,
            "a gradient is rounded before its last rows are added"
        );
        if same::<T>() {
            let places = std::ptr::from_mut(self.slab.places());
            // SAFETY: the types are the same.
            unsafe { &mut *(places as *mut [MaybeUninit<T::Acc>]) }
        } else {
            // Reserved only now: an expert may wait for its turn, and parts that are rounded at once need no memory.
            let len = self.slab.len();
            self.beside.reserve_exact(len);
            &mut self.beside.spare_capacity_mut()[..len]
        }
    }

    /// Writes the slab: the sum, or zeros if nothing was added.
    pub(super) fn finish(mut self) {
        match self.state {
            State::Empty => {
                self.slab.filled(T::round(Gemm::ZERO));
            }
            State::Started if !same::<T>() => {
                // SAFETY: the call that set this state wrote all places, as many as the slab has.
                unsafe { self.beside.set_len(self.slab.len()) };
                pulp::Arch::new().dispatch(Round {
                    from: &self.beside,
                    to: self.slab,
                });
            }
            State::Started | State::Rounded => {
                // SAFETY: the call that set this state wrote all places of the slab.
                unsafe { self.slab.assume_written() };
            }
        }
    }
}

impl<A> Part<'_, A> {
    fn of<'p, P>(&self, places: &'p mut [MaybeUninit<P>]) -> Destination<'p, P> {
        // A part without elements may start after the last element.
        let first = self.first.min(places.len());
        Destination {
            data: &mut places[first..],
            line_stride: self.line_stride,
            stride: self.stride,
        }
    }
}

/// Returns whether the weights have the accumulation type.
fn same<T: Element>() -> bool {
    TypeId::of::<T>() == TypeId::of::<T::Acc>()
}

/// The task of rounding elements to the tensor's type.
pub(super) struct Round<'a, T: Element> {
    pub(super) from: &'a [T::Acc],
    pub(super) to: Unwritten<'a, T>,
}

impl<T: Element> pulp::WithSimd for Round<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(mut self, _: S) {
        let len = self.to.len();
        let rounded = self.from.iter().map(|value| T::round(*value));
        self.to.row(len).write(rounded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::backend::Shape;
    use burn::tensor::bf16;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn says(run: impl FnOnce()) -> String {
        let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it was accepted");
        match panic.downcast::<String>() {
            Ok(said) => *said,
            Err(panic) => (*panic.downcast::<&str>().expect("a sentence")).to_owned(),
        }
    }

    /// Returns the product of one row of `left` and one row of `right`.
    fn part<'a>(left: &'a [f32], right: &'a [f32]) -> Part<'a, f32> {
        Part {
            factors: Factors {
                left: (left, left.len()),
                right: (right, right.len()),
                count: 1,
            },
            first: 0,
            line_stride: right.len(),
            stride: 1,
        }
    }

    #[test]
    fn a_gradient_gets_as_many_elements_as_it_has() {
        let mut output = Output::<f32>::new(Shape::new([2, 3]));
        let mut sum = Sum::new(output.rest());
        let (left, right) = ([1.0, 2.0], [1.0, 10.0, 100.0]);
        let few = says(|| sum.add(&[part(&left, &right[..2])], false, false));
        assert_eq!(few, "a gradient of 6 weights gets 4 elements");
        sum.add(&[part(&left, &right)], false, false);
        sum.add(&[part(&left, &right)], false, false);
        sum.finish();
        assert_eq!(output.into_values(), [2.0, 20.0, 200.0, 4.0, 40.0, 400.0]);
    }

    #[test]
    fn nothing_is_added_to_a_rounded_gradient() {
        let mut output = Output::<bf16>::new(Shape::new([1, 2]));
        let mut sum = Sum::new(output.rest());
        sum.add(&[part(&[1.0], &[1.0, 2.0])], true, false);
        let late = says(|| sum.add(&[part(&[1.0], &[1.0, 2.0])], false, false));
        assert_eq!(late, "a gradient is rounded before its last rows are added");
        sum.finish();
        assert_eq!(output.into_values(), [1.0, 2.0].map(bf16::from_f32));
    }
}
