//! Reading each expert's weights and writing their gradients in place.

use crate::keys::ExpertLayout;
use crate::lanes::vectorize;
use crate::product::{Destination, Factors, Gemm, Matrix, outer, outer_rounded};
use crate::{Element, Output, Unwritten, Values, View};
use std::any::TypeId;
use std::mem::MaybeUninit;

/// Returns the tensor of each expert, of the tensors of a projection: one stacked tensor or several. `RANK` is the number of
/// axes of one expert's tensor.
///
/// # Panics
/// Panics if a tensor has more or fewer axes.
fn experts<'a, const RANK: usize>(tensors: &[View<'a>]) -> Vec<View<'a>> {
    let mut experts = Vec::new();
    for tensor in tensors {
        match tensor.sizes() {
            sizes if sizes.len() == RANK => experts.push(tensor.clone()),
            [count, one @ ..] if one.len() == RANK => {
                experts.extend((0..*count).map(|expert| tensor.at(expert)));
            }
            sizes => panic!("a tensor of sizes {sizes:?} is not one of experts with {RANK} axes"),
        }
    }
    experts
}

/// Returns the weights of each expert, read in place. A transposed or sliced tensor needs no copy.
///
/// # Panics
/// Panics if a tensor has other axes or another type, or if a stride is not positive.
pub(super) fn matrices<'a, T: Element>(
    tensors: &[View<'a>],
    layout: ExpertLayout,
) -> Vec<Matrix<'a, T>> {
    let matrix = |expert: View<'a>| match layout {
        ExpertLayout::Linear => Matrix::of(&expert).transposed(),
        ExpertLayout::Matmul => Matrix::of(&expert),
    };
    experts::<2>(tensors).into_iter().map(matrix).collect()
}

/// Returns the biases of each expert.
///
/// # Panics
/// Panics if a tensor has other axes or another type.
pub(super) fn vectors<T: Element>(tensors: &[View<'_>]) -> Vec<Vec<T::Acc>> {
    let vector = |expert: View<'_>| -> Vec<T::Acc> {
        let (data, start, stride) = (expert.data::<T>(), expert.start(), expert.strides()[0]);
        let places =
            (0..expert.sizes()[0]).map(|at| start.wrapping_add_signed(at as isize * stride));
        places.map(|place| data[place].load()).collect()
    };
    experts::<1>(tensors).into_iter().map(vector).collect()
}

/// The gradients of the tensors of a projection before they are written, `None` where no gradient is wanted.
pub(super) struct Gradients<T> {
    tensors: Vec<Option<Output<T>>>,
    experts: usize,
    /// The number of elements of one expert's gradient.
    size: usize,
}

impl<T: Element> Gradients<T> {
    /// Makes the gradients of no tensor, of one stacked tensor, or of one for each expert. `wanted` has a flag for each.
    ///
    /// # Panics
    /// Panics if there is another number of tensors.
    pub(super) fn new(wanted: &[bool], experts: usize, size: usize) -> Self {
        let stacked = match wanted.len() {
            0 => false,
            1 => experts != 1,
            count => {
                assert!(
                    count == experts,
                    "{count} tensors are not those of {experts} experts"
                );
                false
            }
        };
        let count = if stacked { experts } else { 1 };
        let output = |wanted: &bool| wanted.then(|| Output::new([count, size]));
        Self {
            tensors: wanted.iter().map(output).collect(),
            experts,
            size,
        }
    }

    /// Returns the memory of each expert's gradient, `None` for all without tensors.
    pub(super) fn experts(&mut self) -> Vec<Slab<'_, T>> {
        let each = match self.tensors.len() {
            1 => self.experts,
            _ => 1,
        };
        let mut slabs = Vec::with_capacity(self.experts);
        for output in &mut self.tensors {
            let mut left = output.as_mut().map(Output::rest);
            slabs.extend((0..each).map(|_| left.as_mut().map(|left| left.part(self.size))));
        }
        slabs.resize_with(self.experts, || None);
        slabs
    }

    /// Returns the gradients.
    ///
    /// # Panics
    /// Panics if a slab was not written.
    pub(super) fn finish(self) -> Vec<Option<Values>> {
        let finish =
            |output: Option<Output<T>>| output.map(|output| T::values(output.into_values()));
        self.tensors.into_iter().map(finish).collect()
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
                vectorize(Round {
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
    use half::bf16;
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
        let mut output = Output::<f32>::new([2, 3]);
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
        let mut output = Output::<bf16>::new([1, 2]);
        let mut sum = Sum::new(output.rest());
        sum.add(&[part(&[1.0], &[1.0, 2.0])], true, false);
        let late = says(|| sum.add(&[part(&[1.0], &[1.0, 2.0])], false, false));
        assert_eq!(late, "a gradient is rounded before its last rows are added");
        sum.finish();
        assert_eq!(output.into_values(), [1.0, 2.0].map(bf16::from_f32));
    }

    #[test]
    fn gradients_are_of_one_tensor_or_of_one_for_each_expert() {
        for (wanted, experts) in [
            (&[][..], 3),
            (&[true], 1),
            (&[true], 3),
            (&[true, false, true], 3),
        ] {
            let mut gradients = Gradients::<f32>::new(wanted, experts, 2);
            let slabs = gradients.experts();
            assert_eq!(slabs.len(), experts);
            for (expert, slab) in slabs.into_iter().enumerate() {
                let wanted = wanted.get(expert).or(wanted.first()).copied();
                assert_eq!(slab.is_some(), wanted.unwrap_or(false));
                if let Some(slab) = slab {
                    slab.filled(expert as f32);
                }
            }
            let found = gradients.finish();
            assert!(found.iter().map(Option::is_some).eq(wanted.iter().copied()));
            let len: usize = found.iter().flatten().map(Values::len).sum();
            let of = if wanted.len() == 1 { experts } else { 1 };
            assert_eq!(len, 2 * of * found.iter().flatten().count());
        }
        let wrong = says(|| drop(Gradients::<f32>::new(&[true; 2], 3, 1)));
        assert_eq!(wrong, "2 tensors are not those of 3 experts");
    }
}
