use super::super::super::many::Many;
use super::super::super::product::{Gemm, Rows, each, product};
use super::super::super::slabs::{self, contiguous};
use super::super::Wanted;
use super::super::autodiff::Gradients;
use super::rows::{combine, gather};
use super::sums::Sums;
use super::unit::{Backward, Unit};
use super::{View, chunks, spread};
use crate::cpu::{Element, Output, dispatch_dtype, sum_of, with_function};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use burn::tensor::DType;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Rows of an expert whose gradients are computed together: those of its weights are written once
/// for as many.
const CHUNK: usize = 384;

/// The gradients that are wanted.
pub(super) fn backward<T: Element>(
    view: &View<'_, T>,
    weights: &Many<Flex>,
    dy: &FlexTensor,
    kept: &FlexTensor,
    routing: DType,
    wanted: &Wanted,
) -> Gradients<Flex>
where
    T::Acc: Gemm,
{
    let (dy, kept) = (dy.to_contiguous(), kept.to_contiguous());
    let rows = view.groups.slots().len();
    let dx_len = if wanted.x { rows * view.hidden } else { 0 };
    let mut dx: Vec<T::Acc> = Vec::with_capacity(dx_len);
    let mut d_routing = vec![<T::Acc as Gemm>::ZERO; rows];
    let mut gradients: Vec<_> = weights
        .0
        .iter()
        .zip(&wanted.weights)
        .map(|(tensors, wanted)| slabs::Gradients::<T>::new(tensors, wanted))
        .collect();
    {
        let mut left = &mut dx.spare_capacity_mut()[..dx_len];
        let mut left_routing = &mut d_routing[..];
        let mut tasks = Vec::new();
        for (expert, sums) in Sums::of(view, &mut gradients).into_iter().enumerate() {
            let rows = view.groups.of(expert).len();
            let (dx, rest) = left.split_at_mut(if wanted.x { rows * view.hidden } else { 0 });
            left = rest;
            let (d_routing, rest) = left_routing.split_at_mut(rows);
            left_routing = rest;
            tasks.push(Task {
                expert,
                dx,
                d_routing,
                sums,
            });
        }
        let (dy, kept) = (contiguous::<T>(&dy), contiguous::<T>(&kept));
        each(tasks, |task| task.run(view, dy, kept));
    }
    // SAFETY: the tasks cover all rows, and each writes all of its part, if `dx` is wanted.
    unsafe { dx.set_len(dx_len) };
    let x = wanted.x.then(|| {
        let tokens = view.tokens();
        combine::<T>(&dx, view.hidden, view.groups, view.choices, tokens, None)
    });
    let routing = wanted
        .routing
        .then(|| dispatch_dtype!(routing, R => by_slot::<R, T>(view, &d_routing)));
    Gradients {
        x,
        routing,
        weights: gradients
            .into_iter()
            // SAFETY: there is a task for each expert, and it writes all of its slabs.
            .map(|gradients| unsafe { gradients.finish() })
            .collect(),
    }
}

/// The gradients of routing weights in the order of their slots; zero where no expert took one.
fn by_slot<R: Element, T: Element>(view: &View<'_, T>, d_routing: &[T::Acc]) -> FlexTensor {
    use burn::tensor::ElementConversion;
    let mut out = Output::<R>::new(Shape::new([view.tokens(), view.choices]));
    for (place, row) in out.places().iter_mut().zip(view.groups.rows()) {
        let value = d_routing
            .get(*row as usize)
            .map_or(0.0, |value| value.elem::<f64>());
        place.write(R::round(value.elem()));
    }
    // SAFETY: there is a row number, perhaps that of none, for every slot.
    unsafe { out.finish() }
}

/// One expert.
struct Task<'a, T: Element> {
    expert: usize,
    /// For its rows, or empty if it is not wanted.
    dx: &'a mut [MaybeUninit<T::Acc>],
    d_routing: &'a mut [T::Acc],
    sums: Sums<'a, T>,
}

impl<T: Element> Task<'_, T>
where
    T::Acc: Gemm,
{
    fn run(mut self, view: &View<'_, T>, dy: &[T], kept: &[T]) {
        let all = view.groups.of(self.expert);
        let spread = spread(all.len(), view.groups.slots().len());
        let first = all.start;
        for rows in chunks(all, CHUNK) {
            let here = rows.start - first..rows.end - first;
            let dx = match self.dx {
                [] => None,
                ref mut dx => Some(&mut dx[here.start * view.hidden..here.end * view.hidden]),
            };
            let d_routing = &mut self.d_routing[here];
            let chunk = Chunk::new(view, self.expert, rows, dy, kept, d_routing, spread);
            if let Some(dx) = dx {
                chunk.dx(view, self.expert, dx);
            }
            self.sums.add(view.settings.key, &chunk);
        }
        self.sums.finish();
    }
}

/// What backward makes of some rows of one expert.
pub(super) struct Chunk<A> {
    pub(super) x: Vec<A>,
    /// Times the routing weights.
    pub(super) dy: Vec<A>,
    pub(super) d_gate: Vec<A>,
    pub(super) d_up: Vec<A>,
    /// The result of the gated unit.
    pub(super) result: Vec<A>,
    pub(super) rows: usize,
    pub(super) hidden: usize,
    pub(super) width: usize,
    pub(super) spread: bool,
    /// Whether the expert has no other rows.
    pub(super) only: bool,
}

impl<A: Gemm> Chunk<A> {
    fn new<T: Element<Acc = A>>(
        view: &View<'_, T>,
        expert: usize,
        rows: Range<usize>,
        dy: &[T],
        kept: &[T],
        d_routing: &mut [A],
        spread: bool,
    ) -> Self {
        let (hidden, width) = (view.hidden, view.width);
        let only = rows == view.groups.of(expert);
        let slots = &view.groups.slots()[rows.clone()];
        let x = gather(view.x, hidden, slots, view.choices);
        let mut dy = gather(dy, hidden, slots, view.choices);
        let routing: Vec<A> = slots
            .iter()
            .map(|slot| view.routing[*slot as usize])
            .collect();
        let mut d_gate = vec![<A as Gemm>::ZERO; rows.len() * width];
        let mut d_up = d_gate.clone();
        let mut result = d_gate.clone();
        let down = view.down[expert].transposed();
        let dy_rows = Rows::new(&dy, rows.len(), hidden);
        product(&dy_rows, down, &mut d_gate, false, spread);
        with_function!(view.settings.key.activation, F => {
            pulp::Arch::new().dispatch(Backward {
                function: PhantomData::<F>,
                unit: Unit::new(view.settings),
                width,
                kept: &kept[rows.start * 2 * width..rows.end * 2 * width],
                routing: &routing,
                gate: &mut d_gate,
                up: &mut d_up,
                result: &mut result,
                d_routing,
            });
        });
        pulp::Arch::new().dispatch(Weigh {
            rows: &mut dy,
            hidden,
            routing: &routing,
            bias: view.biases.as_ref().map(|biases| &biases.down[expert][..]),
            d_routing,
        });
        Self {
            x,
            dy,
            d_gate,
            d_up,
            result,
            rows: rows.len(),
            hidden,
            width,
            spread,
            only,
        }
    }

    /// The gradient of the rows; writes all of `dx`.
    fn dx<T: Element<Acc = A>>(
        &self,
        view: &View<'_, T>,
        expert: usize,
        dx: &mut [MaybeUninit<A>],
    ) {
        for place in dx.iter_mut() {
            place.write(Gemm::ZERO);
        }
        // SAFETY: the loop above wrote every place.
        let dx = unsafe { dx.assume_init_mut() };
        let (gate, up) = (view.gate[expert].transposed(), view.up[expert].transposed());
        let d_gate = Rows::new(&self.d_gate, self.rows, self.width);
        let d_up = Rows::new(&self.d_up, self.rows, self.width);
        product(&d_gate, gate, dx, false, self.spread);
        product(&d_up, up, dx, true, self.spread);
    }
}

/// Multiplies rows of `dy` by their routing weights, and adds to the gradient of each weight what
/// the bias that it multiplies contributes.
struct Weigh<'a, A> {
    rows: &'a mut [A],
    hidden: usize,
    routing: &'a [A],
    bias: Option<&'a [A]>,
    d_routing: &'a mut [A],
}

impl<A: Gemm> pulp::WithSimd for Weigh<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for (row, weight) in self.routing.iter().enumerate() {
            let values = &mut self.rows[row * self.hidden..(row + 1) * self.hidden];
            if let Some(bias) = self.bias {
                self.d_routing[row] += sum_of(values, bias, bias, |dy, bias, _| dy * bias);
            }
            for value in values {
                *value = *value * *weight;
            }
        }
    }
}
