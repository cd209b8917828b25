use super::adjust::Adjust;
use super::loops::{Backward, Loops};
use super::rows::{Row, Source, Target};
use super::{Gradients, Operands};
use crate::keys::Projections;
use crate::{Context, Element, Kernel, Output, Real, Rows, Unwritten, View, run};
use std::ops::Range;

pub(super) fn backward<T: Element>(operands: &Operands<'_>, dy: &View<'_>) -> Gradients {
    let settings = operands.settings;
    let source = Source::<T>::new(operands);
    source.check_result(operands, dy);
    let (count, width) = (source.count(), source.width());
    let output = |tensor: &View<'_>| Output::<T>::new(tensor.sizes());
    let mut first = output(&operands.gate);
    let mut second = operands.up.as_ref().map_or_else(Output::none, output);
    let kernel = Glu::<T> {
        dy: Rows::of(dy),
        source,
        projections: settings.projections,
        adjust: Adjust::new(settings),
        narrow: Loops::of(settings.activation).backward,
        wide: Loops::of(settings.activation).backward,
    };
    let outputs = [&mut first, &mut second];
    run(&kernel, count, width, outputs, &mut Output::none());
    Gradients {
        gate: T::values(first.into_values()),
        up: operands
            .up
            .is_some()
            .then(|| T::values(second.into_values())),
    }
}

struct Glu<'a, T: Element> {
    dy: Rows<'a, T>,
    source: Source<'a, T>,
    projections: Projections,
    adjust: Option<Adjust<T::Acc>>,
    /// The loop on unchanged elements.
    narrow: Backward<T>,
    /// The loop in the accumulation precision, for changed rows.
    wide: Backward<T::Acc>,
}

impl<T: Element> Kernel<2> for Glu<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        _: C,
        range: Range<usize>,
        [mut first, mut second]: [Unwritten<'_, T>; 2],
        _: Unwritten<'_, ()>,
    ) {
        let width = self.source.width();
        let mut plain = Scratch::<T>::default();
        let mut changed = Changed::<T>::default();
        let rows = self.dy.range(range.clone()).zip(self.source.range(range));
        for (dy, row) in rows {
            let target = Target::row(self.projections, &mut first, &mut second, width);
            match (&self.adjust, row, target) {
                (Some(adjust), row, target) => {
                    changed.run(self.wide, adjust, dy, &row, target);
                }
                (
                    None,
                    Row::Apart { gate, up },
                    Target::Apart {
                        gate: d_gate,
                        up: d_up,
                    },
                ) => {
                    (self.narrow)([dy, gate, up], [d_gate, d_up]);
                }
                (None, row, target) => {
                    plain.resize(width);
                    row.read(&mut plain.gates, &mut plain.ups, |x| x);
                    let [d_gates, d_ups] = plain.gradients(self.narrow, dy);
                    target.write(d_gates, d_ups, |gradient| gradient);
                }
            }
        }
    }
}

/// A row of gates and a row of ups in separate buffers, and their gradients.
struct Scratch<T> {
    gates: Vec<T>,
    ups: Vec<T>,
    d_gates: crate::Scratch<T>,
    d_ups: crate::Scratch<T>,
}

impl<T: Copy> Default for Scratch<T> {
    fn default() -> Self {
        Self {
            gates: Vec::new(),
            ups: Vec::new(),
            d_gates: crate::Scratch::new(),
            d_ups: crate::Scratch::new(),
        }
    }
}

impl<T: Element> Scratch<T> {
    /// Resizes the buffers, which allocates on the first row.
    fn resize(&mut self, width: usize) {
        let zero = T::round(T::Acc::ZERO);
        self.gates.resize(width, zero);
        self.ups.resize(width, zero);
    }

    /// Returns the gradients of the row that was read.
    #[inline(always)]
    fn gradients(&mut self, loops: Backward<T>, dy: &[T]) -> [&[T]; 2] {
        let (width, zero) = (self.gates.len(), T::round(T::Acc::ZERO));
        let rows = [self.d_gates.row(width, zero), self.d_ups.row(width, zero)];
        loops([dy, &self.gates, &self.ups], rows);
        [self.d_gates.values(), self.d_ups.values()]
    }
}

/// A row in the accumulation precision: its elements as read, as changed, and their gradients.
struct Changed<T: Element> {
    dy: Vec<T::Acc>,
    raw: [Vec<T::Acc>; 2],
    row: Scratch<T::Acc>,
    gradients: [Vec<T::Acc>; 2],
}

impl<T: Element> Default for Changed<T> {
    fn default() -> Self {
        Self {
            dy: Vec::new(),
            raw: [Vec::new(), Vec::new()],
            row: Scratch::default(),
            gradients: [Vec::new(), Vec::new()],
        }
    }
}

impl<T: Element> Changed<T> {
    #[inline(always)]
    fn run(
        &mut self,
        wide: Backward<T::Acc>,
        adjust: &Adjust<T::Acc>,
        dy: &[T],
        row: &Row<'_, T>,
        target: Target<'_, T>,
    ) {
        self.dy.clear();
        self.dy.extend(dy.iter().map(|dy| dy.load()));
        let [gates, ups] = &mut self.raw;
        gates.resize(dy.len(), T::Acc::ZERO);
        ups.resize(dy.len(), T::Acc::ZERO);
        row.read(gates, ups, T::load);

        self.row.resize(dy.len());
        self.row.gates.copy_from_slice(gates);
        self.row.ups.copy_from_slice(ups);
        let cut = adjust.gates(&mut self.row.gates);
        adjust.ups(&mut self.row.ups);

        let written = self.row.gradients(wide, &self.dy);
        for (gradients, written) in self.gradients.iter_mut().zip(written) {
            gradients.clear();
            gradients.extend_from_slice(written);
        }
        let [d_gates, d_ups] = &mut self.gradients;
        adjust.d_gates(cut, gates, &self.row.gates, d_gates);
        adjust.d_ups(ups, d_ups);
        target.write(d_gates, d_ups, T::round);
    }
}
