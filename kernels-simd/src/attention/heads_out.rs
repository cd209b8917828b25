//! The places of results with heads, in both layouts.

use crate::keys::HeadLayout;
use crate::{Columns, Row, RowsOut, Unwritten};
use std::ops::Range;

/// The sizes of a result: `[batch, heads, rows, width]`, or `[batch, rows, heads, width]` in the layout `bsnd`.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) rows: usize,
    pub(crate) width: usize,
}

/// The heads of a result. A thread writes rows of one or more of them.
pub(crate) struct HeadsOut<'a, T> {
    extent: Extent,
    /// The heads of one sequence after the other, empty without elements.
    heads: Vec<Columns<'a, T>>,
}

impl<'a, T: Copy> HeadsOut<'a, T> {
    /// # Panics
    /// Panics if `out` has another number of elements.
    pub(crate) fn new(mut out: Unwritten<'a, T>, extent: Extent, layout: HeadLayout) -> Self {
        let Extent {
            batch,
            heads,
            rows,
            width,
        } = extent;
        assert_eq!(out.len(), batch * heads * rows * width, "a result of heads");
        if out.len() == 0 {
            return Self {
                extent,
                heads: Vec::new(),
            };
        }
        // In the layout `bnsd`, a head is a matrix of its own.
        let (parts, length) = match layout {
            HeadLayout::Bnsd => (batch * heads, width),
            HeadLayout::Bsnd => (batch, heads * width),
        };
        let of_part = |_| out.part(rows * length).columns(length, width);
        Self {
            extent,
            heads: (0..parts).flat_map(of_part).collect(),
        }
    }

    /// Returns some rows, counted from the first of a head on: the next of each head that has some of them.
    ///
    /// # Panics
    /// Panics if they are not left.
    pub(crate) fn take(
        &mut self,
        (batch, head): (usize, usize),
        rows: Range<usize>,
    ) -> HeadRows<'a, T> {
        let mut parts = Vec::new();
        let mut row = rows.start;
        while row < rows.end && !self.heads.is_empty() {
            let of_head = self.extent.rows;
            let count = (of_head - row % of_head).min(rows.end - row);
            let head = batch * self.extent.heads + head + row / of_head;
            parts.push(self.heads[head].part(count));
            row += count;
        }
        HeadRows { parts, at: 0 }
    }
}

/// Rows of some heads, those of one head after the other.
pub(crate) struct HeadRows<'a, T> {
    parts: Vec<Columns<'a, T>>,
    at: usize,
}

impl<T: Copy> RowsOut<T> for HeadRows<'_, T> {
    #[inline(always)]
    fn next_row(&mut self, len: usize) -> Row<'_, T> {
        while self.parts.get(self.at).is_some_and(|part| part.rows() == 0) {
            self.at += 1;
        }
        let row = self.parts.get_mut(self.at).and_then(Columns::row);
        let row = row.expect("a result has a row for each query and key");
        assert_eq!(row.len(), len, "elements of a head");
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Output;

    #[test]
    fn rows_of_heads_lie_as_their_layout_says() {
        let extent = Extent {
            batch: 2,
            heads: 3,
            rows: 4,
            width: 2,
        };
        for layout in [HeadLayout::Bnsd, HeadLayout::Bsnd] {
            let mut out = Output::new([48]);
            let mut heads = HeadsOut::new(out.rest(), extent, layout);
            for batch in 0..2 {
                // Two heads together, in parts that don't end with a head, and one alone.
                for (first, rows) in [(0, 0..3), (0, 3..6), (0, 6..8), (2, 0..4)] {
                    let mut part = heads.take((batch, first), rows.clone());
                    for row in rows {
                        let (head, row) = (first + row / 4, row % 4);
                        part.next_row(2).fill(100 * batch + 10 * head + row);
                    }
                }
            }
            drop(heads);
            let values = out.into_values();
            for (place, value) in values.into_iter().enumerate() {
                let (batch, a, b) = (place / 24, place / 2 / 4 % 3, place / 2 % 4);
                let (head, row) = match layout {
                    HeadLayout::Bnsd => (a, b),
                    HeadLayout::Bsnd => (place / 2 % 3, place / 2 / 3 % 4),
                };
                assert_eq!(value, 100 * batch + 10 * head + row, "{layout:?}, {place}");
            }
        }
    }

    #[test]
    fn a_result_without_elements_has_no_rows() {
        let extent = Extent {
            batch: 2,
            heads: 3,
            rows: 4,
            width: 0,
        };
        let mut out = Output::<f32>::new([2, 3, 4, 0]);
        let mut heads = HeadsOut::new(out.rest(), extent, HeadLayout::Bsnd);
        assert!(heads.take((1, 2), 0..4).parts.is_empty());
    }
}
