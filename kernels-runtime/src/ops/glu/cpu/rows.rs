//! Access to the rows of gate and up, and of their gradients.

use crate::cpu::{self, Element, Rows, Unwritten};
use crate::ops::glu::Projected;
use crate::semantics::{GluKey, Projections};
use burn::backend::Shape;
use burn::backend::flex::{FlexTensor, Layout};
use std::borrow::Cow;
use std::ops::Range;

/// Tensors whose rows can be read in place.
pub(super) enum Readable<'a> {
    Separate(Cow<'a, FlexTensor>, Cow<'a, FlexTensor>),
    Packed(Cow<'a, FlexTensor>),
}

impl<'a> Readable<'a> {
    pub(super) fn new<T: Element>(projected: Projected<&'a FlexTensor>) -> Self {
        match projected {
            Projected::Separate { gate, up } => {
                Self::Separate(Rows::<T>::readable(gate), Rows::<T>::readable(up))
            }
            Projected::Packed(gate_up) => Self::Packed(Rows::<T>::readable(gate_up)),
        }
    }
}

/// The rows of gate and up.
pub(super) enum Source<'a, T> {
    /// Separate rows: two tensors, or the halves of one.
    Apart { gate: Rows<'a, T>, up: Rows<'a, T> },
    /// Alternating elements of one row.
    Interleaved(Rows<'a, T>),
}

/// A row of gate and up.
pub(super) enum Row<'a, T> {
    Apart { gate: &'a [T], up: &'a [T] },
    Interleaved(&'a [[T; 2]]),
}

impl<'a, T: Element> Source<'a, T> {
    pub(super) fn new(tensors: &'a Readable<'_>, key: GluKey) -> Self {
        match tensors {
            Readable::Separate(gate, up) => Self::Apart {
                gate: Rows::new(gate),
                up: Rows::new(up),
            },
            Readable::Packed(gate_up) if key.projections == Projections::Interleaved => {
                Self::Interleaved(Rows::new(gate_up))
            }
            Readable::Packed(gate_up) => {
                let [gate, up] = halves(gate_up.layout());
                Self::Apart {
                    gate: Rows::with_layout(gate_up, &gate),
                    up: Rows::with_layout(gate_up, &up),
                }
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Self::Apart { gate, .. } => gate.count(),
            Self::Interleaved(pairs) => pairs.count(),
        }
    }

    /// Returns the number of elements of a row of the result.
    pub(super) fn width(&self) -> usize {
        match self {
            Self::Apart { gate, .. } => gate.width(),
            Self::Interleaved(pairs) => pairs.width() / 2,
        }
    }

    pub(super) fn range(&self, range: Range<usize>) -> impl Iterator<Item = Row<'_, T>> {
        let (mut apart, mut pairs) = (None, None);
        match self {
            Self::Apart { gate, up } => {
                apart = Some(gate.range(range.clone()).zip(up.range(range)));
            }
            Self::Interleaved(rows) => pairs = Some(rows.range(range)),
        }
        let apart = apart.into_iter().flatten();
        let pairs = pairs.into_iter().flatten();
        apart
            .map(|(gate, up)| Row::Apart { gate, up })
            .chain(pairs.map(|row| Row::Interleaved(row.as_chunks().0)))
    }
}

/// Returns the layouts of the two halves of the last axis.
fn halves(layout: &Layout) -> [Layout; 2] {
    let mut shape = layout.shape().to_vec();
    let last = shape.len() - 1;
    shape[last] /= 2;
    let n = shape[last];
    [0, n].map(|start| {
        Layout::new(
            Shape::from(shape.clone()),
            layout.strides().to_vec(),
            layout.start_offset() + start,
        )
    })
}

impl<T: Element> Row<'_, T> {
    /// Reads gate and up into slices of the row's length. Applies `map` to each element.
    #[inline(always)]
    pub(super) fn read<A>(&self, gates: &mut [A], ups: &mut [A], map: impl Fn(T) -> A) {
        match self {
            Self::Apart { gate, up } => {
                for (place, gate) in gates.iter_mut().zip(*gate) {
                    *place = map(*gate);
                }
                for (place, up) in ups.iter_mut().zip(*up) {
                    *place = map(*up);
                }
            }
            Self::Interleaved(pairs) => {
                for ((gate, up), pair) in gates.iter_mut().zip(ups).zip(*pairs) {
                    *gate = map(pair[0]);
                    *up = map(pair[1]);
                }
            }
        }
    }
}

/// The destination of the gradients of a row of gate and up.
pub(super) enum Target<'a, T> {
    Apart {
        gate: cpu::Row<'a, T>,
        up: cpu::Row<'a, T>,
    },
    Interleaved(cpu::Row<'a, T>),
}

impl<'a, T: Copy> Target<'a, T> {
    /// Returns the next row of `width` in a range's outputs. A packed gradient is the first output; the
    /// second is then empty.
    #[inline(always)]
    pub(super) fn row(
        projections: Projections,
        first: &'a mut Unwritten<'_, T>,
        second: &'a mut Unwritten<'_, T>,
        width: usize,
    ) -> Self {
        match projections {
            Projections::Separate => Self::Apart {
                gate: first.row(width),
                up: second.row(width),
            },
            Projections::Chunked => {
                let (gate, up) = first.row(2 * width).split_at(width);
                Self::Apart { gate, up }
            }
            Projections::Interleaved => Self::Interleaved(first.row(2 * width)),
        }
    }

    /// Writes the row. Applies `map` to each gradient.
    #[inline(always)]
    pub(super) fn write<A: Copy>(self, gates: &[A], ups: &[A], map: impl Fn(A) -> T) {
        match self {
            Self::Apart { gate, up } => {
                gate.write(gates.iter().map(|d_gate| map(*d_gate)));
                up.write(ups.iter().map(|d_up| map(*d_up)));
            }
            Self::Interleaved(row) => {
                let pairs = gates.iter().zip(ups);
                row.write_pairs(pairs.map(|(d_gate, d_up)| (map(*d_gate), map(*d_up))));
            }
        }
    }
}
