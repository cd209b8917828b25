//! Rows, and the orders in which products read them.

use super::Gemm;
use super::transpose::Transpose;
#[cfg(target_arch = "x86_64")]
use super::{
    pairs::Pairs,
    quads::{self, Quads},
    tiles,
};
use std::sync::OnceLock;

/// Rows of one length, and the orders in which products read them, computed when first needed.
pub struct Rows<'a, A> {
    pub(super) values: &'a [A],
    pub(super) count: usize,
    inputs: usize,
    /// The number of rows, from the first, that are multiplied in whole vectors.
    pub(super) whole: usize,
    transposed: OnceLock<Vec<A>>,
    #[cfg(target_arch = "x86_64")]
    quads: OnceLock<Option<Quads>>,
    #[cfg(target_arch = "x86_64")]
    pairs: OnceLock<Option<Pairs<'static>>>,
}

/// The number of lanes of f32 products under AVX-512. Transposed rows are padded to a multiple of it.
const LANES: usize = 16;

impl<'a, A: Gemm> Rows<'a, A> {
    /// Makes `count` rows of `inputs` elements, which must be contiguous.
    pub fn new(values: &'a [A], count: usize, inputs: usize) -> Self {
        assert!(
            values.len() == count * inputs,
            "{} elements are not {count} rows of {inputs}",
            values.len()
        );
        Self {
            values,
            count,
            inputs,
            whole: whole::<A>(count, inputs),
            transposed: OnceLock::new(),
            #[cfg(target_arch = "x86_64")]
            quads: OnceLock::new(),
            #[cfg(target_arch = "x86_64")]
            pairs: OnceLock::new(),
        }
    }

    pub(super) fn inputs(&self) -> usize {
        self.inputs
    }

    pub fn values(&self) -> &'a [A] {
        self.values
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns whether all rows are multiplied in whole vectors.
    pub(super) fn all_whole(&self) -> bool {
        self.whole == self.count
    }

    /// Returns the number of rows that are multiplied in whole vectors, padded to whole vectors.
    pub(super) fn lanes(&self) -> usize {
        self.whole.next_multiple_of(LANES)
    }

    /// Returns the transposed rows, `inputs × lanes`.
    pub(super) fn transposed(&self) -> &[A] {
        self.transposed.get_or_init(|| {
            let lanes = self.lanes();
            let mut to = vec![<A as Gemm>::ZERO; self.inputs * lanes];
            let transpose = Transpose {
                from: self.values,
                rows: self.whole,
                columns: self.inputs,
                stride: self.inputs,
                to: &mut to,
                to_stride: lanes,
                add: false,
            };
            transpose.run();
            to
        })
    }

    /// Returns the rows in bf16, or `None` if they can't be paired.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn pairs(&self) -> Option<&Pairs<'static>> {
        let pairs = || Pairs::new(A::as_f32(self.values)?, self.count, self.inputs);
        self.pairs.get_or_init(pairs).as_ref()
    }

    /// Returns the rows that would leave most of a vector empty, if there are any.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn quads(&self) -> Option<&Quads> {
        let quads = self.quads.get_or_init(|| {
            let rest = A::as_f32(&self.values[self.whole * self.inputs..])?;
            (!self.all_whole()).then(|| Quads::new(rest, self.inputs))
        });
        quads.as_ref()
    }
}

/// Returns the number of rows that are multiplied in whole vectors. Another kernel takes the rest.
pub(super) fn whole<A: Gemm>(count: usize, inputs: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if A::as_f32(&[]).is_some()
        && tiles::available()
        && inputs > 0
        && inputs.is_multiple_of(quads::QUAD)
        && count % LANES <= quads::ROWS
    {
        return count - count % LANES;
    }
    let _ = inputs;
    count
}
