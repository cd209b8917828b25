//! Tables in an order in which the two elements that a pair reads are in the two halves of a row, or are
//! the same element.

use super::{Settings, Tokens};
use crate::keys::{HeadLayout, RopeStyle, TableLayout};
use crate::{Element, Output, Rows, View};

/// A table `[1 or b, s, w]`.
pub(crate) struct Angles<'a, U> {
    table: View<'a>,
    /// The elements of the table in another order, if rows can't be read as they are.
    apart: Option<Vec<U>>,
    /// The number of elements of a row that are read: one for each pair, or two.
    width: usize,
    pairs: usize,
}

impl<'a, U: Element> Angles<'a, U> {
    /// Makes both tables, of cosines and of sines, which are for the same pairs.
    ///
    /// # Panics
    /// Panics if they don't go together, with the tokens or with the settings.
    pub(crate) fn both(tables: [&View<'a>; 2], tokens: Tokens, settings: Settings) -> [Self; 2] {
        let [cos, sin] = tables.map(|table| Self::new(table, tokens, settings));
        assert!(
            cos.pairs == sin.pairs,
            "cosines for {} pairs don't go with sines for {}",
            cos.pairs,
            sin.pairs
        );
        [cos, sin]
    }

    fn new(table: &View<'a>, tokens: Tokens, settings: Settings) -> Self {
        let sizes = table.sizes();
        let [batch, seq, width] = *sizes else {
            panic!("a table of sizes {sizes:?} does not have three axes");
        };
        assert!(
            table.dtype() == U::DTYPE,
            "a table is in {:?} and not in {:?}",
            table.dtype(),
            U::DTYPE
        );
        assert!(
            seq == tokens.seq && (batch == 1 || batch == tokens.batch),
            "a table of sizes {sizes:?} is not one of {} sequences of {} tokens",
            tokens.batch,
            tokens.seq
        );
        let rotated = match settings.table {
            TableLayout::Pairs => width.saturating_mul(2),
            TableLayout::Halves | TableLayout::Neighbours => width,
        };
        assert!(
            rotated.is_multiple_of(2) && rotated <= tokens.width,
            "a table of sizes {sizes:?} rotates {rotated} of the {} elements of a head",
            tokens.width
        );
        let (pairs, style) = (rotated / 2, settings.style);
        let (apart, width) = match (settings.table, style) {
            (TableLayout::Pairs, _) | (TableLayout::Halves, RopeStyle::Interleaved) => {
                (None, pairs)
            }
            (TableLayout::Halves, _) => (None, width),
            // One small copy for each call avoids a separate loop for every dtype.
            (TableLayout::Neighbours, RopeStyle::Interleaved) => (Some(apart(table)), width),
            (TableLayout::Neighbours, _) => panic!("a table of neighbours is not for {style:?}"),
        };
        Self {
            table: table.clone(),
            apart,
            width,
            pairs,
        }
    }

    pub(crate) fn pairs(&self) -> usize {
        self.pairs
    }

    /// Returns the rows, repeated for the heads of a tensor of these sizes.
    pub(crate) fn per_head(&self, sizes: [usize; 4], head_layout: HeadLayout) -> Rows<'_, U> {
        let table = match &self.apart {
            Some(apart) => View::whole(apart, self.table.sizes()),
            None => self.table.clone(),
        };
        let [batch, row, element] = *table.strides() else {
            unreachable!("`new` counted the axes")
        };
        let batch = if table.sizes()[0] == 1 { 0 } else { batch };
        let [first, second, third, _] = sizes;
        let strides = match head_layout {
            HeadLayout::Bnsd => [batch, 0, row, element],
            HeadLayout::Bsnd => [batch, row, 0, element],
        };
        Rows::of(&table.under(&[first, second, third, self.width], &strides))
    }
}

/// Returns the elements for the first and for the second results of `pairs` pairs.
#[inline(always)]
pub(crate) fn halves<U>(row: &[U], pairs: usize) -> (&[U], &[U]) {
    (&row[..pairs], &row[row.len() - pairs..])
}

/// Reorders `[a1, a2, b1, b2, ..]` to `[a1, b1, .., a2, b2, ..]` in every row.
fn apart<U: Element>(table: &View<'_>) -> Vec<U> {
    let mut halves = Output::<U>::new(table.sizes());
    let rows = Rows::<U>::of(table);
    let width = rows.width();
    let mut places = halves.rest();
    for row in rows.range(0..rows.count()) {
        let (first, second) = places.row(width).split_at(width / 2);
        let pairs = row.as_chunks::<2>().0.iter();
        first.write_with(second, pairs.map(|[first, second]| (*first, *second)));
    }
    drop(places);
    halves.into_values()
}
