//! The operands as the kernels read them.

use super::{KEYS, KEYS_OF_TILES, Operands, QUERIES, Sizes};
use crate::product::{self, Block, Gemm, Matrix, Tiled};
use crate::{Element, Real, View as Strided};
use std::ops::Range;

/// A tensor of `[batch, heads, rows, width]` whose rows are contiguous.
pub(crate) struct Heads<'a, T> {
    data: &'a [T],
    strides: [usize; 3],
    width: usize,
}

impl<'a, T: Element> Heads<'a, T> {
    /// Returns the heads of a tensor.
    ///
    /// # Panics
    /// Panics if it has other axes than `sizes`, if rows are not contiguous, or if a stride is negative.
    pub(crate) fn new(tensor: &Strided<'a>, sizes: [usize; 4]) -> Self {
        let strides = tensor.strides();
        assert!(
            tensor.sizes() == sizes,
            "heads of sizes {:?} are not {sizes:?}",
            tensor.sizes()
        );
        let width = sizes[3];
        if tensor.len() == 0 {
            // An empty tensor may start behind the end of its storage.
            return Self {
                data: &[],
                strides: [0; 3],
                width,
            };
        }
        assert!(
            (width == 1 || strides[3] == 1) && strides.iter().all(|stride| *stride >= 0),
            "heads of sizes {sizes:?} with strides {strides:?} are not read in place"
        );
        Self {
            data: &tensor.data()[tensor.start()..],
            strides: [0, 1, 2].map(|axis| strides[axis] as usize),
            width,
        }
    }

    /// Returns the elements from a row on.
    fn from(&self, batch: usize, head: usize, row: usize) -> &'a [T] {
        let [batches, heads, rows] = self.strides;
        let start = batch * batches + head * heads + row * rows;
        // Rows without elements may start behind the end.
        &self.data[start.min(self.data.len())..]
    }

    /// Returns the number of elements of a row.
    #[inline(always)]
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Returns one row.
    #[inline(always)]
    pub(crate) fn row(&self, batch: usize, head: usize, row: usize) -> &'a [T] {
        &self.from(batch, head, row)[..self.width]
    }

    /// Returns the rows of a head from one on as a block.
    pub(super) fn stored(&self, batch: usize, head: usize, row: usize) -> Block<'a, T> {
        Block::rows(self.from(batch, head, row), self.strides[2])
    }

    /// Returns some rows of a head as a block in the accumulation type. They are read in place if they have that type,
    /// and otherwise from a copy in `scratch`.
    pub(super) fn block<'s>(
        &self,
        batch: usize,
        head: usize,
        rows: Range<usize>,
        scratch: &'s mut Vec<T::Acc>,
    ) -> Block<'s, T::Acc>
    where
        T::Acc: Gemm,
        'a: 's,
    {
        let matrix = Matrix {
            data: self.from(batch, head, rows.start),
            inputs: self.width,
            features: rows.len(),
            input_stride: 1,
            feature_stride: self.strides[2],
        };
        let read = product::read(matrix, scratch);
        Block {
            data: read.data,
            row_stride: read.feature_stride,
            column_stride: read.input_stride,
        }
    }
}

/// The bias, read element by element. Axes of one element have the stride 0.
pub(super) struct Bias<'a, T> {
    data: &'a [T],
    strides: [usize; 3],
}

impl<'a, T: Element> Bias<'a, T> {
    /// Returns a bias of `[batch or 1, heads or 1, queries or 1, keys]`.
    ///
    /// # Panics
    /// Panics if it has other axes, or if it is not contiguous.
    fn new(tensor: &Strided<'a>, sizes: Sizes) -> Self {
        let whole = [sizes.batch, sizes.heads, sizes.queries, sizes.keys];
        let fits = |(axis, size): (usize, &usize)| *size == whole[axis] || axis < 3 && *size == 1;
        let found = tensor.sizes();
        assert!(
            found.len() == 4 && found.iter().enumerate().all(fits),
            "a bias of sizes {found:?} is not one of {whole:?} scores"
        );
        let (heads, queries, keys) = (found[1], found[2], found[3]);
        let strides = [heads * queries * keys, queries * keys, keys];
        let stride = |axis: usize| if found[axis] == 1 { 0 } else { strides[axis] };
        Self {
            data: tensor.contiguous(),
            strides: [stride(0), stride(1), stride(2)],
        }
    }

    /// Returns the biases of a query and a range of keys.
    pub(super) fn of(&self, [batch, head, query]: [usize; 3], keys: Range<usize>) -> &'a [T] {
        let [batches, heads, queries] = self.strides;
        let start = batch * batches + head * heads + query * queries;
        &self.data[start..][keys]
    }
}

/// The operands of a call.
pub(super) struct View<'a, T: Element> {
    pub(super) q: Heads<'a, T>,
    pub(super) k: Heads<'a, T>,
    pub(super) v: Heads<'a, T>,
    pub(super) bias: Option<Bias<'a, T>>,
    /// The score of each head's sink; empty without sinks.
    pub(super) sinks: Vec<T::Acc>,
    pub(super) sizes: Sizes,
    /// The number of keys of a block.
    pub(super) keys: usize,
    visible: &'a (dyn Fn(usize, usize) -> Range<usize> + Sync),
    pub(super) scale: T::Acc,
    pub(super) cap: Option<T::Acc>,
}

impl<'a, T: Element> View<'a, T> {
    /// # Panics
    /// Panics if sizes or types don't go together, or if a tensor can't be read in place.
    pub(super) fn new(operands: &Operands<'a>) -> Self {
        let Operands { q, k, v, sinks, .. } = operands;
        let sizes = Sizes::of([q, k, v].map(Strided::sizes));
        let sinks = sinks.as_ref().map(Strided::contiguous::<T>);
        assert!(
            sinks.is_none_or(|sinks| sinks.len() == sizes.heads),
            "there is one sink for each of {} heads",
            sizes.heads
        );
        let of_keys = |width| [sizes.batch, sizes.kv_heads, sizes.keys, width];
        Self {
            q: Heads::new(q, sizes.heads_of_queries(sizes.width)),
            k: Heads::new(k, of_keys(sizes.width)),
            v: Heads::new(v, of_keys(sizes.value_width)),
            bias: operands.bias.as_ref().map(|bias| Bias::new(bias, sizes)),
            sinks: sinks
                .unwrap_or_default()
                .iter()
                .map(|sink| sink.load())
                .collect(),
            sizes,
            keys: match Tiled::new::<T>() {
                Some(tiled) if !tiled.are_exact() => KEYS_OF_TILES,
                _ => KEYS,
            },
            visible: operands.visible,
            scale: T::Acc::of(operands.scale),
            cap: operands.cap.map(T::Acc::of),
        }
    }

    /// Returns the keys that a query of a sequence sees.
    ///
    /// # Panics
    /// Panics if the caller's function returns others than there are.
    pub(super) fn seen(&self, sequence: usize, query: usize) -> Range<usize> {
        let seen = (self.visible)(sequence, query);
        assert!(
            seen.start <= seen.end && seen.end <= self.sizes.keys,
            "query {query} of sequence {sequence} sees the keys {seen:?} of {}",
            self.sizes.keys
        );
        seen
    }

    /// Returns the heads of keys of all sequences: sequence and head.
    pub(super) fn kv_heads(&self) -> impl Iterator<Item = (usize, usize)> {
        let heads = self.sizes.kv_heads;
        (0..self.sizes.batch).flat_map(move |batch| (0..heads).map(move |head| (batch, head)))
    }

    /// Returns the number of queries of all heads that share a head of keys.
    pub(super) fn rows(&self) -> usize {
        self.sizes.group() * self.sizes.queries
    }

    /// Returns the blocks of the queries that share a head of keys, in order. A block ends with its head if heads have
    /// enough queries; few queries, as in decoding, share a block with those of other heads.
    pub(super) fn blocks(&self) -> Vec<Range<usize>> {
        let queries = self.sizes.queries;
        let part = if queries * 2 > QUERIES {
            queries
        } else {
            self.rows()
        };
        let mut blocks = Vec::new();
        for start in (0..self.rows()).step_by(part.max(1)) {
            let blocks_of = part.min(self.rows() - start);
            for first in (0..blocks_of).step_by(QUERIES) {
                blocks.push(start + first..start + blocks_of.min(first + QUERIES));
            }
        }
        blocks
    }

    /// Returns the head and the query of a row of [`blocks`](Self::blocks).
    pub(super) fn query(&self, kv_head: usize, row: usize) -> (usize, usize) {
        let queries = self.sizes.queries;
        (kv_head * self.sizes.group() + row / queries, row % queries)
    }
}

/// Returns the parts of a range of keys.
pub(super) fn parts(keys: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    let end = keys.end;
    keys.step_by(size)
        .map(move |start| start..end.min(start + size))
}
