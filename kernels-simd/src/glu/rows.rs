//! Access to the rows of gate and up, and of their gradients.

use super::Operands;
use crate::keys::Projections;
use crate::{Element, Rows, Unwritten, View};
use std::ops::Range;

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
    /// # Panics
    /// Panics if gate and up are not laid out as the settings state, or if their rows can't be read in place.
    pub(super) fn new(operands: &Operands<'a>) -> Self {
        let (gate, projections) = (&operands.gate, operands.settings.projections);
        match (projections, &operands.up) {
            (Projections::Separate, Some(up)) => {
                assert!(
                    gate.sizes() == up.sizes(),
                    "a gate of sizes {:?} has no up of {:?}",
                    gate.sizes(),
                    up.sizes()
                );
                Self::Apart {
                    gate: Rows::of(gate),
                    up: Rows::of(up),
                }
            }
            (Projections::Interleaved, None) => {
                half(gate);
                Self::Interleaved(Rows::of(gate))
            }
            (Projections::Chunked, None) => {
                let (n, last) = (half(gate), gate.sizes().len() - 1);
                let [gate, up] = [0, n].map(|start| gate.narrow(last, start..start + n));
                Self::Apart {
                    gate: Rows::of(&gate),
                    up: Rows::of(&up),
                }
            }
            (_, up) => panic!(
                "projections that are {projections:?} are not {} tensors",
                1 + usize::from(up.is_some())
            ),
        }
    }

    /// # Panics
    /// Panics if a gradient does not have the sizes of the result.
    pub(super) fn check_result(&self, operands: &Operands<'_>, dy: &View<'_>) {
        let (of, sizes) = (operands.gate.sizes(), dy.sizes());
        let (same, lead) = (of.len() == sizes.len(), of.len().saturating_sub(1));
        assert!(
            same && sizes[..lead] == of[..lead]
                && sizes.last().is_none_or(|width| *width == self.width()),
            "a gradient of sizes {sizes:?} is not that of the result of a gate of {of:?} whose rows have {} elements",
            self.width()
        );
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

/// Returns the half of the size of the last axis.
///
/// # Panics
/// Panics if it is odd, or without an axis.
fn half(packed: &View<'_>) -> usize {
    match packed.sizes().last() {
        Some(width) if width.is_multiple_of(2) => width / 2,
        _ => panic!(
            "a tensor of sizes {:?} does not have gate and up",
            packed.sizes()
        ),
    }
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
        gate: crate::Row<'a, T>,
        up: crate::Row<'a, T>,
    },
    Interleaved(crate::Row<'a, T>),
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
