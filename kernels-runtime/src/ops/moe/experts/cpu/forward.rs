use super::super::super::product::{Gemm, Rows, each, product};
use super::rows::{add_bias, combine, gather};
use super::unit::{Forward, Unit};
use super::{View, chunks, spread};
use crate::cpu::{Element, Output, with_function};
use burn::backend::Shape;
use burn::backend::flex::FlexTensor;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Rows that go through an expert together: enough that its weights are read seldom, few enough
/// that they stay in the second-level cache.
const CHUNK: usize = 192;

/// The result and, if `keep`, gate and up of every row.
pub(super) fn forward<T: Element>(
    view: &View<'_, T>,
    keep: bool,
) -> (FlexTensor, Option<FlexTensor>)
where
    T::Acc: Gemm,
{
    let rows = view.groups.slots().len();
    let mut results: Vec<T::Acc> = Vec::with_capacity(rows * view.hidden);
    let mut kept = keep.then(|| Output::<T>::new(Shape::new([rows, 2 * view.width])));
    let mut left = &mut results.spare_capacity_mut()[..rows * view.hidden];
    let mut left_kept = kept.as_mut().map(Output::places);
    let mut tasks = Vec::new();
    for expert in 0..view.groups.experts() {
        for rows in chunks(view.groups.of(expert), CHUNK) {
            let (out, rest) = left.split_at_mut(rows.len() * view.hidden);
            left = rest;
            let kept = left_kept.take().map(|places| {
                let (part, rest) = places.split_at_mut(rows.len() * 2 * view.width);
                left_kept = Some(rest);
                part
            });
            tasks.push(Task {
                expert,
                rows,
                out,
                kept,
            });
        }
    }
    each(tasks, |task| task.run(view));
    // SAFETY: the tasks cover all rows, and each writes all of its part of `results`.
    unsafe { results.set_len(rows * view.hidden) };
    // SAFETY: as for `results`.
    let kept = kept.map(|kept| unsafe { kept.finish() });
    let tokens = view.tokens();
    let y = combine::<T>(
        &results,
        view.hidden,
        view.groups,
        view.choices,
        tokens,
        Some(view.routing),
    );
    (y, kept)
}

/// Rows of one expert.
struct Task<'a, T: Element> {
    expert: usize,
    rows: Range<usize>,
    out: &'a mut [MaybeUninit<T::Acc>],
    kept: Option<&'a mut [MaybeUninit<T>]>,
}

impl<T: Element> Task<'_, T>
where
    T::Acc: Gemm,
{
    fn run(self, view: &View<'_, T>) {
        let slots = view.groups.slots();
        let spread = spread(self.rows.len(), slots.len());
        let rows = self.rows.len();
        let x = gather(view.x, view.hidden, &slots[self.rows], view.choices);
        let x = Rows::new(&x, rows, view.hidden);
        let mut gate = vec![<T::Acc as Gemm>::ZERO; rows * view.width];
        let mut up = vec![<T::Acc as Gemm>::ZERO; rows * view.width];
        product(&x, view.gate[self.expert], &mut gate, false, spread);
        product(&x, view.up[self.expert], &mut up, false, spread);
        if let Some(biases) = &view.biases {
            add_bias(&mut gate, &biases.gate[self.expert]);
            add_bias(&mut up, &biases.up[self.expert]);
        }
        with_function!(view.settings.key.activation, F => {
            pulp::Arch::new().dispatch(Forward {
                function: PhantomData::<F>,
                unit: Unit::new(view.settings),
                width: view.width,
                gate: &mut gate,
                up: &up,
                kept: self.kept,
            });
        });
        for place in self.out.iter_mut() {
            place.write(Gemm::ZERO);
        }
        // SAFETY: the loop above wrote every place.
        let out = unsafe { self.out.assume_init_mut() };
        let unit = Rows::new(&gate, rows, view.width);
        product(&unit, view.down[self.expert], out, false, spread);
        if let Some(biases) = &view.biases {
            add_bias(out, &biases.down[self.expert]);
        }
    }
}
