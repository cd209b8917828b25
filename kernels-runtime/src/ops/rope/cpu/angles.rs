//! Tables in an order in which the two elements that a pair reads are in the two halves of a row, or are
//! the same element.

use crate::cpu::{Element, Output, Rows};
use crate::semantics::{HeadLayout, RopeKey, RopeStyle, TableLayout};
use burn::backend::Shape;
use burn::backend::flex::{FlexTensor, Layout};
use std::marker::PhantomData;

/// A table `[1 or b, s, w]`.
pub(in crate::ops) struct Angles<U> {
    /// The table. Its rows can be read in place.
    table: FlexTensor,
    /// The number of elements of a row that are read: one for each pair, or two.
    width: usize,
    pairs: usize,
    element: PhantomData<U>,
}

impl<U: Element> Angles<U> {
    pub(in crate::ops) fn new(table: FlexTensor, key: RopeKey) -> Self {
        let table = Rows::<U>::readable(&table).into_owned();
        let width = table.layout().shape()[2];
        let (table, width, pairs) = match (key.table, key.style) {
            (TableLayout::Pairs, _) => (table, width, width),
            (TableLayout::Halves, RopeStyle::Interleaved) => (table, width / 2, width / 2),
            (TableLayout::Halves, _) => (table, width, width / 2),
            // One small copy for each call avoids a separate loop for every dtype.
            (TableLayout::Neighbours, _) => (apart::<U>(&table), width, width / 2),
        };
        Self {
            table,
            width,
            pairs,
            element: PhantomData,
        }
    }

    pub(in crate::ops) fn pairs(&self) -> usize {
        self.pairs
    }

    /// Returns the rows, repeated for the heads of a tensor of this shape.
    pub(in crate::ops) fn per_head(&self, shape: &Shape, head_layout: HeadLayout) -> Rows<'_, U> {
        let layout = self.table.layout();
        let [batch, row, element] = *layout.strides() else {
            unreachable!("the shapes were checked")
        };
        let batch = if layout.shape()[0] == 1 { 0 } else { batch };
        let mut sizes = shape.to_vec();
        sizes[3] = self.width;
        let strides = match head_layout {
            HeadLayout::Bnsd => vec![batch, 0, row, element],
            HeadLayout::Bsnd => vec![batch, row, 0, element],
        };
        let seen = Layout::new(Shape::from(sizes), strides, layout.start_offset());
        Rows::with_layout(&self.table, &seen)
    }
}

/// Returns the elements for the first and for the second results of `pairs` pairs.
#[inline(always)]
pub(in crate::ops) fn halves<U>(row: &[U], pairs: usize) -> (&[U], &[U]) {
    (&row[..pairs], &row[row.len() - pairs..])
}

/// Reorders `[a1, a2, b1, b2, ..]` to `[a1, b1, .., a2, b2, ..]` in every row.
fn apart<U: Element>(table: &FlexTensor) -> FlexTensor {
    let mut halves = Output::<U>::new(table.layout().shape().clone());
    let rows = Rows::<U>::new(table);
    let width = rows.width();
    let mut places = halves.rest();
    for row in rows.range(0..rows.count()) {
        let (first, second) = places.row(width).split_at(width / 2);
        let pairs = row.as_chunks::<2>().0.iter();
        first.write_with(second, pairs.map(|[first, second]| (*first, *second)));
    }
    drop(places);
    halves.finish()
}
