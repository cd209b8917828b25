//! The operands as the kernels read them.

use super::{KEYS, KEYS_OF_TILES, QUERIES};
use crate::cpu::product::{self, Block, Gemm, Matrix, Tiled};
use crate::cpu::{Element, Real};
use crate::ops::attention::visible::Visible;
use crate::ops::attention::{Operands, Sizes};
use crate::semantics::HeadLayout;
use burn::backend::flex::FlexTensor;
use std::ops::Range;

/// A tensor of `[batch, heads, rows, width]` whose rows are contiguous.
pub(super) struct Heads<'a, T> {
    data: &'a [T],
    strides: [usize; 3],
    width: usize,
}

impl<'a, T: Element> Heads<'a, T> {
    /// Returns the heads of a [`readable`] tensor.
    pub(super) fn new(tensor: &'a FlexTensor) -> Self {
        let layout = tensor.layout();
        let sizes = layout.shape().as_slice();
        let strides = layout.strides();
        if layout.num_elements() == 0 {
            // An empty tensor may start behind the end of its storage.
            return Self {
                data: &[],
                strides: [0; 3],
                width: sizes[3],
            };
        }
        let positive = |axis: usize| usize::try_from(strides[axis]).expect("a readable tensor");
        Self {
            data: &tensor.storage()[layout.start_offset()..],
            strides: [0, 1, 2].map(positive),
            width: sizes[3],
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
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Returns one row.
    #[inline(always)]
    pub(super) fn row(&self, batch: usize, head: usize, row: usize) -> &'a [T] {
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

/// Returns a tensor in the layout `bnsd` whose rows are contiguous, and whose axes all have positive strides: the tensor
/// itself or a copy.
pub(super) fn readable(tensor: &FlexTensor, operands: &Operands<FlexTensor>) -> FlexTensor {
    let tensor = match operands.key().layout {
        HeadLayout::Bnsd => tensor.clone(),
        HeadLayout::Bsnd => tensor.transpose(1, 2),
    };
    let strides = tensor.layout().strides();
    let contiguous = strides[3] == 1 || tensor.layout().shape()[3] <= 1;
    match contiguous && strides.iter().all(|stride| *stride >= 0) {
        true => tensor,
        false => tensor.to_contiguous(),
    }
}

/// The bias, read element by element. Axes of one element have the stride 0.
pub(super) struct Bias<'a, T> {
    data: &'a [T],
    strides: [usize; 3],
}

impl<'a, T: Element> Bias<'a, T> {
    /// Returns a bias of `[batch or 1, heads or 1, queries or 1, keys]`, which must be contiguous.
    pub(super) fn new(tensor: &'a FlexTensor) -> Self {
        let sizes = tensor.layout().shape().as_slice();
        let (heads, queries, keys) = (sizes[1], sizes[2], sizes[3]);
        let strides = [heads * queries * keys, queries * keys, keys];
        let stride = |axis: usize| if sizes[axis] == 1 { 0 } else { strides[axis] };
        Self {
            data: crate::cpu::contiguous(tensor),
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

/// Owned tensors that can be read in place.
pub(super) struct Readable {
    q: FlexTensor,
    k: FlexTensor,
    v: FlexTensor,
    bias: Option<FlexTensor>,
    sinks: Option<FlexTensor>,
}

impl Readable {
    pub(super) fn new(operands: &Operands<FlexTensor>) -> Self {
        Self {
            q: readable(operands.q(), operands),
            k: readable(operands.k(), operands),
            v: readable(operands.v(), operands),
            bias: operands.bias().map(FlexTensor::to_contiguous),
            sinks: operands.sinks().map(FlexTensor::to_contiguous),
        }
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
    pub(super) visible: Visible,
    pub(super) scale: T::Acc,
    pub(super) cap: Option<T::Acc>,
}

impl<'a, T: Element> View<'a, T> {
    pub(super) fn new(operands: &Operands<FlexTensor>, tensors: &'a Readable) -> Self {
        let (sizes, settings) = (operands.sizes(), operands.settings());
        let sinks = tensors.sinks.as_ref().map(crate::cpu::contiguous::<T>);
        Self {
            q: Heads::new(&tensors.q),
            k: Heads::new(&tensors.k),
            v: Heads::new(&tensors.v),
            bias: tensors.bias.as_ref().map(Bias::new),
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
            visible: operands.visible(),
            scale: T::Acc::of(settings.scale_of(sizes.width)),
            cap: settings.cap.map(T::Acc::of),
        }
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
