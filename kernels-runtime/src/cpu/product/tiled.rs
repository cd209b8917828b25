//! Operands of products of small blocks in bf16, in the tiles that AMX multiplies. An operand is copied once and multiplied
//! by several others.

use super::{Block, Gemm};
use crate::cpu::Element;

#[cfg(target_arch = "x86_64")]
use super::{
    amx::{self, Out, Side, Source, Tile},
    gemm::places,
    pairs, panel,
    together::Half,
};

/// An operand in tiles, in memory that the next one takes over.
#[cfg(target_arch = "x86_64")]
pub(crate) struct Tiled {
    tiles: Vec<Tile>,
    /// The number of rows or columns, and that of their terms.
    count: usize,
    terms: usize,
}

/// No other machine has tiles.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) struct Tiled(std::convert::Infallible);

#[cfg(target_arch = "x86_64")]
impl Tiled {
    /// Returns an operand without elements, or `None` if this machine has no tiles for `T`.
    pub(crate) fn new<T: Element>() -> Option<Self> {
        let available = pairs::available::<T>() && amx::takes(Tile::LINES);
        available.then(|| Self {
            tiles: Vec::new(),
            count: 0,
            terms: 0,
        })
    }

    /// Takes `rows × terms` numbers, rounded to bf16, as the left operand.
    pub(crate) fn left<A: Gemm>(&mut self, block: Block<'_, A>, sizes: [usize; 2]) {
        self.pack(rows(sums(block), sizes), Side::Left);
    }

    /// Takes `rows × terms` elements of a tensor in bf16 as the left operand.
    pub(crate) fn left_of<T: Element>(&mut self, block: Block<'_, T>, sizes: [usize; 2]) {
        self.pack(rows(halves(block), sizes), Side::Left);
    }

    /// Takes `terms × columns` numbers, rounded to bf16, as the right operand.
    pub(crate) fn right<A: Gemm>(&mut self, block: Block<'_, A>, [terms, columns]: [usize; 2]) {
        let sizes = [columns, terms];
        self.pack(rows(sums(block.transposed()), sizes), Side::Right);
    }

    /// Takes `terms × columns` elements of a tensor in bf16 as the right operand.
    pub(crate) fn right_of<T: Element>(
        &mut self,
        block: Block<'_, T>,
        [terms, columns]: [usize; 2],
    ) {
        let sizes = [columns, terms];
        self.pack(rows(halves(block.transposed()), sizes), Side::Right);
    }

    fn pack<H: Half>(&mut self, source: Source<'_, H>, side: Side) {
        (self.count, self.terms) = (source.count, source.k);
        let len = amx::tiles_of(source.count, source.k);
        self.tiles.resize(len, bytemuck::Zeroable::zeroed());
        amx::pack(source, side, &mut self.tiles);
    }
}

/// Returns the rows of a block.
#[cfg(target_arch = "x86_64")]
fn rows<H>(block: Block<'_, H>, [count, k]: [usize; 2]) -> Source<'_, H> {
    Source {
        data: block.data,
        count,
        k,
        stride: block.row_stride,
        k_stride: block.column_stride,
    }
}

#[cfg(target_arch = "x86_64")]
fn sums<A: Gemm>(block: Block<'_, A>) -> Block<'_, f32> {
    with(block, A::as_f32(block.data).expect("bf16 is summed in f32"))
}

#[cfg(target_arch = "x86_64")]
fn halves<T: Element>(block: Block<'_, T>) -> Block<'_, burn::tensor::bf16> {
    with(block, panel::same(block.data).expect("tiles are of bf16"))
}

/// Returns a block of other elements at the same places.
#[cfg(target_arch = "x86_64")]
fn with<'a, H, N>(block: Block<'_, H>, data: &'a [N]) -> Block<'a, N> {
    Block {
        data,
        row_stride: block.row_stride,
        column_stride: block.column_stride,
    }
}

/// Computes `out = left · right`, or `out += …` if `add`, in f32. Rows of `out` are contiguous, `stride` apart.
///
/// # Panics
/// Panics if the operands have different numbers of terms, or if `out` is too short.
#[cfg(target_arch = "x86_64")]
pub(crate) fn multiply_tiled<A: Gemm>(
    left: &Tiled,
    right: &Tiled,
    (out, stride): (&mut [A], usize),
    add: bool,
) {
    assert_eq!(left.terms, right.terms, "terms of the two operands");
    let sums = A::as_f32_mut(out).expect("bf16 is summed in f32");
    let out = Out {
        sums: places(sums),
        stride,
        add,
    };
    let sizes = [left.count, left.terms, right.count];
    // SAFETY: `out` is initialised.
    unsafe { amx::multiply(sizes, &left.tiles, &right.tiles, out) };
}

/// Replaces numbers by what is lost of them where they are rounded to bf16. A product with both parts has 16 bits of them.
#[cfg(target_arch = "x86_64")]
pub(crate) fn leave_remainders<A: Gemm>(values: &mut [A]) {
    amx::leave_remainders(A::as_f32_mut(values).expect("bf16 is summed in f32"));
}

#[cfg(not(target_arch = "x86_64"))]
impl Tiled {
    pub(crate) fn new<T: Element>() -> Option<Self> {
        None
    }

    pub(crate) fn left<A: Gemm>(&mut self, _: Block<'_, A>, _: [usize; 2]) {
        match self.0 {}
    }

    pub(crate) fn left_of<T: Element>(&mut self, _: Block<'_, T>, _: [usize; 2]) {
        match self.0 {}
    }

    pub(crate) fn right<A: Gemm>(&mut self, _: Block<'_, A>, _: [usize; 2]) {
        match self.0 {}
    }

    pub(crate) fn right_of<T: Element>(&mut self, _: Block<'_, T>, _: [usize; 2]) {
        match self.0 {}
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn multiply_tiled<A: Gemm>(left: &Tiled, _: &Tiled, _: (&mut [A], usize), _: bool) {
    match left.0 {}
}

/// Only [`Tiled`] operands, which no other machine has, need it.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn leave_remainders<A: Gemm>(_: &mut [A]) {}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use burn::tensor::bf16;

    /// Returns whole numbers, which bf16 holds. Sums of their products are exact in f32.
    fn values(len: usize, seed: usize) -> Vec<f32> {
        let value = |i: usize| ((i * 7919 + seed) % 101) as f32 - 50.0;
        (0..len).map(value).collect()
    }

    #[test]
    fn numbers_and_elements_of_tensors_are_multiplied_alike() {
        let Some(mut left) = Tiled::new::<bf16>() else {
            super::super::tested(false, "AMX");
            return;
        };
        let mut right = Tiled::new::<bf16>().expect("tiles");
        for [m, k, n] in [[64, 96, 32], [17, 33, 70], [16, 0, 16], [32, 32, 32]] {
            let (a, b) = (values(m * k, 1), values(k * n, 5));
            let halves = |values: &[f32]| -> Vec<bf16> {
                values.iter().map(|value| bf16::from_f32(*value)).collect()
            };
            let (a_halves, b_halves) = (halves(&a), halves(&b));
            for stored in [false, true] {
                if stored {
                    left.left_of(Block::rows(&a_halves[..], k), [m, k]);
                    right.right_of(Block::rows(&b_halves[..], n), [k, n]);
                } else {
                    left.left(Block::rows(&a[..], k), [m, k]);
                    right.right(Block::rows(&b[..], n), [k, n]);
                }
                let mut out = vec![7.0; m * (n + 3)];
                multiply_tiled(&left, &right, (&mut out[..], n + 3), true);
                for (at, out) in out.into_iter().enumerate() {
                    let (row, column) = (at / (n + 3), at % (n + 3));
                    let terms = (0..k).filter(|_| column < n);
                    let sum: f32 = terms
                        .map(|term| a[row * k + term] * b[term * n + column])
                        .sum();
                    assert_eq!(out, 7.0 + sum, "{m} × {k} × {n}: {row}, {column}");
                }
            }
        }
    }

    #[test]
    fn rounded_numbers_and_their_remainders_have_16_bits() {
        let numbers: Vec<f32> = (0..77).map(|i| (i as f32 * 0.37).sin()).collect();
        let mut remainders = numbers.clone();
        leave_remainders(&mut remainders[..]);
        for (number, remainder) in numbers.into_iter().zip(remainders) {
            assert_eq!(bf16::from_f32(number).to_f32() + remainder, number);
            let kept = bf16::from_f32(remainder).to_f32();
            assert!((remainder - kept).abs() <= number.abs() * 2_f32.powi(-16));
        }
    }

    #[test]
    fn only_bf16_has_tiles() {
        assert!(Tiled::new::<f32>().is_none());
        assert!(Tiled::new::<burn::tensor::f16>().is_none());
    }
}
