//! Operands of products of small blocks in bf16, in the tiles that AMX multiplies. An operand is copied once and multiplied
//! by several others.

use super::amx::{self, Out, Side, Source, Tile};
use super::gemm::places;
use super::together::Half;
use super::{Block, Gemm, pairs, panel};
use crate::cpu::{Element, LANES};

/// Returns whether this machine has tiles for `T`.
fn has_tiles<T: Element>() -> bool {
    pairs::available::<T>() && amx::takes(Tile::LINES)
}

/// An operand in tiles, in memory that the next one takes over.
pub(crate) struct Tiled {
    tiles: Vec<Tile>,
    /// The number of rows or columns, and that of their terms.
    count: usize,
    terms: usize,
}

impl Tiled {
    /// Returns an operand without elements, or `None` if this machine has no tiles for `T`.
    pub(crate) fn new<T: Element>() -> Option<Self> {
        has_tiles::<T>().then(|| Self {
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

    /// Makes room for a right operand of `terms × columns` numbers, each in two parts: what bf16 holds of it and the rest. The
    /// terms of the rest follow those of all others, from a whole tile on, as in the operands of [`Stored::push_twice`].
    pub(crate) fn two_parts(&mut self, [terms, columns]: [usize; 2]) -> TwoParts<'_> {
        let steps = terms.div_ceil(Tile::TERMS);
        (self.count, self.terms) = (columns, 2 * steps * Tile::TERMS);
        let len = amx::tiles_of(columns, self.terms);
        self.tiles.resize(len, bytemuck::Zeroable::zeroed());
        let lines: &mut [[f32; LANES]] = bytemuck::cast_slice_mut(&mut self.tiles);
        if cfg!(debug_assertions) {
            // A line that is not written spoils its result, as in `memory`.
            lines.fill([f32::NAN; LANES]);
        }
        TwoParts {
            lines,
            of_part: steps * Tile::LINES,
        }
    }

    fn pack<H: Half>(&mut self, source: Source<'_, H>, side: Side) {
        (self.count, self.terms) = (source.count, source.k);
        let len = amx::tiles_of(source.count, source.k);
        self.tiles.resize(len, bytemuck::Zeroable::zeroed());
        amx::pack(source, side, &mut self.tiles);
    }
}

/// Room for a right operand whose numbers have two parts.
pub(crate) struct TwoParts<'a> {
    lines: &'a mut [[f32; LANES]],
    /// The number of lines of a part of 16 columns.
    of_part: usize,
}

impl TwoParts<'_> {
    /// Returns the lines of the next 16 columns, each of two terms of 16 numbers in bf16: those of the first part, and as many
    /// of the rest. They hold any values.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<[&mut [[f32; LANES]]; 2]> {
        let lines = std::mem::take(&mut self.lines);
        let (lines, others) = lines.split_at_mut_checked(2 * self.of_part)?;
        self.lines = others;
        let (first, rest) = lines.split_at_mut(self.of_part);
        (!first.is_empty()).then_some([first, rest])
    }
}

/// Left operands in bf16 in tiles, which are copied once and multiplied by several others.
pub(crate) struct Stored {
    tiles: Vec<Tile>,
    operands: Vec<Place>,
}

/// The first tile of an operand, the number of its rows, and that of their terms.
struct Place {
    first: usize,
    count: usize,
    terms: usize,
}

impl Stored {
    /// Returns no operands yet, or `None` if this machine has no tiles for `T`.
    pub(crate) fn new<T: Element>() -> Option<Self> {
        has_tiles::<T>().then(|| Self {
            tiles: Vec::new(),
            operands: Vec::new(),
        })
    }

    /// Adds `rows × terms` elements of a tensor.
    pub(crate) fn push<T: Element>(&mut self, block: Block<'_, T>, [count, terms]: [usize; 2]) {
        let first = self.tiles.len();
        let len = amx::tiles_of(count, terms);
        self.tiles.resize(first + len, bytemuck::Zeroable::zeroed());
        let source = rows(halves(block), [count, terms]);
        amx::pack(source, Side::Left, &mut self.tiles[first..]);
        self.operands.push(Place {
            first,
            count,
            terms,
        });
    }

    /// Adds as [`push`](Self::push) does an operand that has all terms twice, for others whose numbers have
    /// [two parts](Tiled::two_parts).
    pub(crate) fn push_twice<T: Element>(&mut self, block: Block<'_, T>, sizes: [usize; 2]) {
        let first = self.tiles.len();
        self.push(block, sizes);
        let steps = sizes[1].div_ceil(Tile::TERMS);
        let once = self.tiles.split_off(first);
        for rows in once.chunks(steps.max(1)) {
            self.tiles.extend_from_slice(rows);
            self.tiles.extend_from_slice(rows);
        }
        if let Some(operand) = self.operands.last_mut() {
            operand.terms = 2 * steps * Tile::TERMS;
        }
    }
}

/// Returns the rows of a block.
fn rows<H>(block: Block<'_, H>, [count, k]: [usize; 2]) -> Source<'_, H> {
    Source {
        data: block.data,
        count,
        k,
        stride: block.row_stride,
        k_stride: block.column_stride,
    }
}

fn sums<A: Gemm>(block: Block<'_, A>) -> Block<'_, f32> {
    with(block, A::as_f32(block.data).expect("bf16 is summed in f32"))
}

fn halves<T: Element>(block: Block<'_, T>) -> Block<'_, burn::tensor::bf16> {
    with(block, panel::same(block.data).expect("tiles are of bf16"))
}

/// Returns a block of other elements at the same places.
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
pub(crate) fn multiply_tiled<A: Gemm>(
    left: &Tiled,
    right: &Tiled,
    (out, stride): (&mut [A], usize),
    add: bool,
) {
    multiply_tiles(
        (&left.tiles, left.count, left.terms),
        right,
        (out, stride),
        add,
    );
}

/// Computes as [`multiply_tiled`] does with `count` rows of one of the stored operands, from its first on.
///
/// # Panics
/// Panics if there is no such operand, or if it has fewer rows.
pub(crate) fn multiply_stored<A: Gemm>(
    (left, index, count): (&Stored, usize, usize),
    right: &Tiled,
    out: (&mut [A], usize),
    add: bool,
) {
    let operand = &left.operands[index];
    assert!(count <= operand.count, "rows of an operand");
    let tiles = &left.tiles[operand.first..][..amx::tiles_of(count, operand.terms)];
    multiply_tiles((tiles, count, operand.terms), right, out, add);
}

fn multiply_tiles<A: Gemm>(
    (left, count, terms): (&[Tile], usize, usize),
    right: &Tiled,
    (out, stride): (&mut [A], usize),
    add: bool,
) {
    assert_eq!(terms, right.terms, "terms of the two operands");
    let sums = A::as_f32_mut(out).expect("bf16 is summed in f32");
    let out = Out {
        sums: places(sums),
        stride,
        add,
    };
    // SAFETY: `out` is initialised.
    unsafe { amx::multiply([count, terms, right.count], left, &right.tiles, out) };
}

/// Replaces numbers by what is lost of them where they are rounded to bf16. A product with both parts has 16 bits of them.
pub(crate) fn leave_remainders<A: Gemm>(values: &mut [A]) {
    amx::leave_remainders(A::as_f32_mut(values).expect("bf16 is summed in f32"));
}

#[cfg(test)]
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

    /// Writes numbers below 1 in two parts, as attention writes its exponentials.
    fn in_two_parts(to: &mut Tiled, numbers: &[f32], sizes @ [terms, columns]: [usize; 2]) {
        let bits = |value: f32| u32::from(bf16::from_f32(value).to_bits());
        let number = |term: usize, column: usize| match term < terms && column < columns {
            true => numbers[term * columns + column],
            false => 0.0,
        };
        let mut parts = to.two_parts(sizes);
        let mut first = 0;
        while let Some([upper, rest]) = parts.next() {
            for (pair, (upper, rest)) in upper.iter_mut().zip(rest).enumerate() {
                for lane in 0..LANES {
                    let pair = [2 * pair, 2 * pair + 1].map(|term| number(term, first + lane));
                    let rests = pair.map(|value| value - bf16::from_f32(value).to_f32());
                    upper[lane] = f32::from_bits(bits(pair[0]) | bits(pair[1]) << 16);
                    rest[lane] = f32::from_bits(bits(rests[0]) | bits(rests[1]) << 16);
                }
            }
            first += LANES;
        }
        assert!(first >= columns || terms == 0, "columns in lines of tiles");
    }

    #[test]
    fn stored_operands_are_multiplied_by_numbers_in_two_parts() {
        let (Some(mut stored), Some(mut right)) = (Stored::new::<bf16>(), Tiled::new::<bf16>())
        else {
            super::super::tested(false, "AMX");
            return;
        };
        let all = [
            [64, 64, 96],
            [17, 20, 33],
            [128, 33, 16],
            [5, 0, 16],
            [64, 64, 48],
        ];
        let left = |index: usize, [m, k, _]: [usize; 3]| -> Vec<bf16> {
            let values = values(m * k, index);
            values.into_iter().map(bf16::from_f32).collect()
        };
        for (index, sizes @ [m, k, _]) in all.into_iter().enumerate() {
            stored.push_twice(Block::rows(&left(index, sizes)[..], k), [m, k]);
        }
        for (index, sizes @ [m, k, n]) in all.into_iter().enumerate() {
            let left = left(index, sizes);
            let numbers: Vec<f32> = (0..k * n).map(|i| (i as f32 * 0.37).sin()).collect();
            in_two_parts(&mut right, &numbers, [k, n]);
            // Fewer rows are the first of the operand.
            for rows in [m, m.min(3)] {
                let mut out = vec![7.0_f32; rows * n];
                multiply_stored((&stored, index, rows), &right, (&mut out[..], n), true);
                for (at, out) in out.into_iter().enumerate() {
                    let (row, column) = (at / n, at % n);
                    let product = |term: usize| {
                        left[row * k + term].to_f64() * f64::from(numbers[term * n + column])
                    };
                    let exact = 7.0 + (0..k).map(product).sum::<f64>();
                    let size = (0..k).map(|term| product(term).abs()).sum::<f64>() + 7.0;
                    let error = (f64::from(out) - exact).abs();
                    assert!(
                        error <= size * 2_f64.powi(-16),
                        "{sizes:?}: {row}, {column}"
                    );
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "terms of the two operands")]
    fn a_stored_operand_has_the_terms_of_the_other() {
        let (Some(mut stored), Some(mut right)) = (Stored::new::<bf16>(), Tiled::new::<bf16>())
        else {
            super::super::tested(false, "AMX");
            panic!("terms of the two operands");
        };
        stored.push(Block::rows(&[bf16::ONE; 64][..], 4), [16, 4]);
        right.right(Block::rows(&[1.0_f32; 80][..], 16), [5, 16]);
        multiply_stored(
            (&stored, 0, 16),
            &right,
            (&mut [0.0_f32; 256][..], 16),
            false,
        );
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
