use super::rows::{add_bias, combine, gather};
use super::unit::{Forward, Unit};
use super::{Found, View, chunks, spread};
use crate::activation::Gate;
use crate::lanes::dispatch;
use crate::product::{Gemm, Rows, product};
use crate::share::each;
use crate::{Element, Output, Unwritten};
use std::ops::Range;

/// The number of rows that go through an expert together: enough that its weights are read seldom, few enough
/// that the rows stay in the second-level cache.
const CHUNK: usize = 192;

/// Returns the result and, if `keep`, gate and up of every row.
pub(super) fn forward<T: Element>(view: &View<'_, T>, keep: bool) -> Found
where
    T::Acc: Gemm,
{
    let rows = view.groups.slots().len();
    let mut results = Output::<T::Acc>::new([rows, view.hidden]);
    let mut kept = keep.then(|| Output::<T>::new([rows, 2 * view.width]));
    let mut left = results.rest();
    let mut left_kept = kept.as_mut().map(Output::rest);
    let mut tasks = Vec::new();
    for expert in 0..view.groups.experts() {
        for rows in chunks(view.groups.of(expert), CHUNK) {
            let kept = left_kept.as_mut();
            tasks.push(Task {
                expert,
                out: left.part(rows.len() * view.hidden),
                kept: kept.map(|left| left.part(rows.len() * 2 * view.width)),
                rows,
            });
        }
    }
    each(tasks, |task| task.run(view));
    drop((left, left_kept));
    let kept = kept.map(|kept| T::values(kept.into_values()));
    let results = results.into_values();
    let y = combine(view, &results, Some(&view.routing));
    Found { y, kept }
}

/// The task of computing some rows of one expert.
struct Task<'a, T: Element> {
    expert: usize,
    rows: Range<usize>,
    out: Unwritten<'a, T::Acc>,
    kept: Option<Unwritten<'a, T>>,
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
        dispatch(Forward {
            activation: Gate::of(view.settings.activation),
            unit: Unit::new(view.settings),
            width: view.width,
            gate: &mut gate,
            up: &up,
            kept: self.kept,
        });
        let out = self.out.filled(Gemm::ZERO);
        let unit = Rows::new(&gate, rows, view.width);
        product(&unit, view.down[self.expert], out, false, spread);
        if let Some(biases) = &view.biases {
            add_bias(out, &biases.down[self.expert]);
        }
    }
}
