use super::adjust::Adjust;
use super::loops::{Backward, Loops};
use super::rows::{Readable, Row, Source, Target, result_shape};
use crate::cpu::{Element, Kernel, Output, Real, Rows, run};
use crate::ops::glu::Settings;
use crate::ops::glu::autodiff::Tensors;
use crate::semantics::{GluKey, Projections};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use std::mem::MaybeUninit;
use std::ops::Range;

pub(super) fn backward<T: Element>(
    dy: &FlexTensor,
    tensors: &Tensors<Flex>,
    settings: Settings,
    key: GluKey,
) -> Tensors<Flex> {
    let packed = key.projections != Projections::Separate;
    let mut first = Output::<T>::new(match tensors {
        Tensors::Separate { gate, .. } => gate.layout().shape().clone(),
        Tensors::Packed(gate_up) => gate_up.layout().shape().clone(),
    });
    let mut second = Output::<T>::new(if packed {
        Shape::new([0])
    } else {
        result_shape(tensors)
    });
    let (dy, readable) = (Rows::<T>::readable(dy), Readable::new::<T>(tensors));
    let kernel = Glu::<T> {
        dy: Rows::new(&dy),
        source: Source::new(&readable, key),
        projections: key.projections,
        adjust: Adjust::new::<T>(settings, key),
        narrow: Loops::of(key.activation).backward,
        wide: Loops::of(key.activation).backward,
    };
    let (count, width) = (kernel.source.count(), kernel.source.width());
    let places = [first.places(), second.places()];
    run(&kernel, count, width, places, &mut []);
    // SAFETY: for every row, `Glu` writes `width` elements of each output, or twice as many of the
    // first if the second is empty, and `run` covers every row.
    let (first, second) = unsafe { (first.finish(), second.finish()) };
    if packed {
        Tensors::Packed(first)
    } else {
        Tensors::Separate {
            gate: first,
            up: second,
        }
    }
}

struct Glu<'a, T: Element> {
    dy: Rows<'a, T>,
    source: Source<'a, T>,
    projections: Projections,
    adjust: Option<Adjust<T::Acc>>,
    /// The loop on elements as they are.
    narrow: Backward<T>,
    /// The loop in the accumulation precision, for changed rows.
    wide: Backward<T::Acc>,
}

impl<T: Element> Kernel<2> for Glu<'_, T> {
    type Out = T;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows(
        &self,
        range: Range<usize>,
        [first, second]: [&mut [MaybeUninit<T>]; 2],
        _: &mut [MaybeUninit<()>],
    ) {
        let width = self.source.width();
        let mut plain = Scratch::<T>::default();
        let mut changed = Changed::<T>::default();
        let rows = self.dy.range(range.clone()).zip(self.source.range(range));
        for (i, (dy, row)) in rows.enumerate() {
            let target = Target::row(self.projections, first, second, i, width);
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
                    let Scratch {
                        gates,
                        ups,
                        d_gates,
                        d_ups,
                    } = &mut plain;
                    (self.narrow)([dy, gates, ups], [d_gates, d_ups]);
                    target.write(d_gates, d_ups, |gradient| gradient);
                }
            }
        }
    }
}

/// A row of gates and ups apart, and of their gradients.
struct Scratch<T> {
    gates: Vec<T>,
    ups: Vec<T>,
    d_gates: Vec<MaybeUninit<T>>,
    d_ups: Vec<MaybeUninit<T>>,
}

impl<T> Default for Scratch<T> {
    fn default() -> Self {
        Self {
            gates: Vec::new(),
            ups: Vec::new(),
            d_gates: Vec::new(),
            d_ups: Vec::new(),
        }
    }
}

impl<T: Element> Scratch<T> {
    /// Allocates on the first row that needs it.
    fn resize(&mut self, width: usize) {
        let zero = T::round(T::Acc::ZERO);
        self.gates.resize(width, zero);
        self.ups.resize(width, zero);
        self.d_gates.resize(width, MaybeUninit::uninit());
        self.d_ups.resize(width, MaybeUninit::uninit());
    }
}

/// A row in the accumulation precision, as it is, as it is changed, and its gradients.
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

        let inputs = [&self.dy[..], &self.row.gates, &self.row.ups];
        wide(inputs, [&mut self.row.d_gates, &mut self.row.d_ups]);
        let written = [&self.row.d_gates, &self.row.d_ups];
        for (gradients, written) in self.gradients.iter_mut().zip(written) {
            gradients.clear();
            // SAFETY: the loop wrote every place.
            gradients.extend(written.iter().map(|place| unsafe { place.assume_init() }));
        }
        let [d_gates, d_ups] = &mut self.gradients;
        adjust.d_gates(cut, gates, &self.row.gates, d_gates);
        adjust.d_ups(ups, d_ups);
        target.write(d_gates, d_ups, |gradient| {
            MaybeUninit::new(T::round(gradient))
        });
    }
}
