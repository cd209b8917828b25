//! Operands of products of small blocks in bf16 or f32, in the tiles that AMX multiplies. An operand is copied once and
//! multiplied by several others. A number of f32 has three parts in bf16.

#[cfg(test)]
mod tests;

use super::amx::{self, Magnitudes, Out, Parts, Side, Source, Tile, bf16x3};
use super::gemm::places;
use super::{Block, Gemm, pairs, panel};
use crate::{Element, LANES};
use half::bf16;
use std::any::TypeId;
use std::ops::Range;

/// Returns the parts of numbers of `T`, or `None` if this machine has no tiles for them.
fn parts_of<T: Element>() -> Option<Parts> {
    if pairs::available::<T>() && amx::available() {
        return Some(Parts::One);
    }
    let is_f32 = TypeId::of::<T>() == TypeId::of::<f32>();
    (is_f32 && amx::single::available()).then_some(Parts::Three)
}

/// An operand in tiles, in memory that the next one takes over.
pub struct Tiled {
    parts: Parts,
    tiles: Vec<Tile>,
    /// The magnitudes of numbers in three parts.
    magnitudes: Vec<Magnitudes>,
    /// The number of rows or columns, and that of their terms.
    count: usize,
    terms: usize,
}

impl Tiled {
    /// Returns an operand without elements, or `None` if this machine has no tiles for `T`.
    pub fn new<T: Element>() -> Option<Self> {
        parts_of::<T>().map(|parts| Self {
            parts,
            tiles: Vec::new(),
            magnitudes: Vec::new(),
            count: 0,
            terms: 0,
        })
    }

    /// Takes `rows × terms` numbers as the left operand. Without [parts](Self::are_exact), they are rounded to bf16.
    pub fn left<A: Gemm>(&mut self, block: Block<'_, A>, sizes: [usize; 2]) {
        self.take(rows(sums(block), sizes), Side::Left);
    }

    /// Takes `terms × columns` numbers as the right operand, as [`left`](Self::left) does.
    pub fn right<A: Gemm>(&mut self, block: Block<'_, A>, [terms, columns]: [usize; 2]) {
        let sizes = [columns, terms];
        self.take(rows(sums(block.transposed()), sizes), Side::Right);
    }

    /// Returns all columns of a right operand.
    pub fn all(&self) -> Columns<'_> {
        self.columns(0..self.count)
    }

    /// Returns some columns of a right operand.
    ///
    /// # Panics
    /// Panics if the first one is not a multiple of [`Columns::TOGETHER`], or if there are fewer columns.
    pub fn columns(&self, range: Range<usize>) -> Columns<'_> {
        assert!(
            range.start.is_multiple_of(Columns::TOGETHER) && range.end <= self.count,
            "columns {range:?} of {}",
            self.count
        );
        let tiles = |columns| self.parts.count() * amx::tiles_of(columns, self.terms);
        Columns {
            parts: self.parts,
            tiles: &self.tiles[tiles(range.start)..][..tiles(range.len())],
            count: range.len(),
            terms: self.terms,
        }
    }

    /// Returns whether operands have all bits of numbers in f32.
    pub fn are_exact(&self) -> bool {
        self.parts == Parts::Three
    }

    /// Returns whether products of this operand may be computed in tiles.
    pub fn is_in_range(&self) -> bool {
        self.magnitudes.iter().all(|block| block.are_in_range())
    }

    /// Makes room for a right operand of `terms × columns` numbers, each in two parts: what bf16 holds of it and the rest. The
    /// terms of the rest follow those of all others, from a whole tile on, as in the operands of [`Stored::push_twice`].
    pub fn two_parts(&mut self, [terms, columns]: [usize; 2]) -> TwoParts<'_> {
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

    fn take(&mut self, source: Source<'_, f32>, side: Side) {
        (self.count, self.terms) = (source.count, source.k);
        let len = self.parts.count() * amx::tiles_of(source.count, source.k);
        self.tiles.resize(len, bytemuck::Zeroable::zeroed());
        match self.parts {
            Parts::One => amx::pack(source, side, &mut self.tiles),
            Parts::Three => {
                let blocks = amx::blocks(source.count);
                self.magnitudes.resize(blocks, Magnitudes::NONE);
                bf16x3::pack(source, side, &mut self.tiles, &mut self.magnitudes);
            }
        }
    }
}

/// Columns of a right operand.
pub struct Columns<'a> {
    parts: Parts,
    tiles: &'a [Tile],
    count: usize,
    terms: usize,
}

impl Columns<'_> {
    /// The number of columns that are computed together.
    pub const TOGETHER: usize = 2 * Tile::LINES;
}

/// Room for a right operand whose numbers have two parts.
pub struct TwoParts<'a> {
    lines: &'a mut [[f32; LANES]],
    /// The number of lines of a part of 16 columns.
    of_part: usize,
}

impl TwoParts<'_> {
    /// Returns the lines of the next 16 columns, each of two terms of 16 numbers in bf16: those of the first part, and as many
    /// of the rest. They hold any values.
    #[inline(always)]
    pub fn next(&mut self) -> Option<[&mut [[f32; LANES]]; 2]> {
        let lines = std::mem::take(&mut self.lines);
        let (lines, others) = lines.split_at_mut_checked(2 * self.of_part)?;
        self.lines = others;
        let (first, rest) = lines.split_at_mut(self.of_part);
        (!first.is_empty()).then_some([first, rest])
    }
}

/// Left operands in tiles, which are copied once and multiplied by several others.
pub struct Stored {
    parts: Parts,
    tiles: Vec<Tile>,
    operands: Vec<Place>,
    is_in_range: bool,
}

/// The first tile of an operand, the number of its rows, and that of their terms.
struct Place {
    first: usize,
    count: usize,
    terms: usize,
}

impl Stored {
    /// Returns no operands yet, or `None` if this machine has no tiles for `T`.
    pub fn new<T: Element>() -> Option<Self> {
        parts_of::<T>().map(|parts| Self {
            parts,
            tiles: Vec::new(),
            operands: Vec::new(),
            is_in_range: true,
        })
    }

    /// Returns whether operands have all bits of numbers in f32.
    pub fn are_exact(&self) -> bool {
        self.parts == Parts::Three
    }

    /// Returns whether products of all operands may be computed in tiles.
    pub fn is_in_range(&self) -> bool {
        self.is_in_range
    }

    /// Makes room for operands of so many rows together.
    pub fn reserve(&mut self, [rows, terms]: [usize; 2]) {
        self.tiles
            .reserve_exact(self.parts.count() * amx::tiles_of(rows, terms));
    }

    /// Adds `rows × terms` elements of a tensor.
    pub fn push<T: Element>(&mut self, block: Block<'_, T>, sizes: [usize; 2]) {
        let [count, terms] = sizes;
        let first = self.tiles.len();
        let len = self.parts.count() * amx::tiles_of(count, terms);
        self.tiles.resize(first + len, bytemuck::Zeroable::zeroed());
        let to = &mut self.tiles[first..];
        match self.parts {
            Parts::One => amx::pack(rows(elements::<T, bf16>(block), sizes), Side::Left, to),
            Parts::Three => {
                let mut magnitudes = vec![Magnitudes::NONE; amx::blocks(count)];
                let source = rows(elements::<T, f32>(block), sizes);
                bf16x3::pack(source, Side::Left, to, &mut magnitudes);
                self.is_in_range &= magnitudes.iter().all(|block| block.are_in_range());
            }
        }
        self.operands.push(Place {
            first,
            count,
            terms,
        });
    }

    /// Adds as [`push`](Self::push) does an operand in bf16 that has all terms twice, for others whose numbers have
    /// [two parts](Tiled::two_parts).
    pub fn push_twice<T: Element>(&mut self, block: Block<'_, T>, sizes: [usize; 2]) {
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

const IN_F32: &str = "what tiles hold is summed in f32";

fn sums<A: Gemm>(block: Block<'_, A>) -> Block<'_, f32> {
    with(block, A::as_f32(block.data).expect(IN_F32))
}

fn elements<T: Element, H: Element>(block: Block<'_, T>) -> Block<'_, H> {
    with(
        block,
        panel::same(block.data).expect("tiles are of this type"),
    )
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
/// Panics if the operands have different numbers of terms or parts, or if `out` is too short.
pub fn multiply_tiled<A: Gemm>(
    left: &Tiled,
    right: Columns<'_>,
    out: (&mut [A], usize),
    add: bool,
) {
    let all = Rows {
        parts: left.parts,
        tiles: &left.tiles,
        count: left.count,
        terms: left.terms,
    };
    all.multiply(right, out, add);
}

/// Computes as [`multiply_tiled`] does with `count` rows of one of the stored operands, from its first on.
///
/// # Panics
/// Panics if the operand does not exist or has fewer rows.
pub fn multiply_stored<A: Gemm>(
    (left, index, count): (&Stored, usize, usize),
    right: Columns<'_>,
    out: (&mut [A], usize),
    add: bool,
) {
    let Place { first, terms, .. } = left.operands[index];
    assert!(count <= left.operands[index].count, "rows of an operand");
    let len = left.parts.count() * amx::tiles_of(count, terms);
    let some = Rows {
        parts: left.parts,
        tiles: &left.tiles[first..][..len],
        count,
        terms,
    };
    some.multiply(right, out, add);
}

/// The rows of a left operand.
struct Rows<'a> {
    parts: Parts,
    tiles: &'a [Tile],
    count: usize,
    terms: usize,
}

impl Rows<'_> {
    fn multiply<A: Gemm>(self, right: Columns<'_>, (out, stride): (&mut [A], usize), add: bool) {
        assert_eq!(self.terms, right.terms, "terms of the two operands");
        assert_eq!(self.parts, right.parts, "parts of the two operands");
        let sizes = [self.count, self.terms, right.count];
        let out = Out {
            sums: places(A::as_f32_mut(out).expect(IN_F32)),
            stride,
            add,
        };
        // SAFETY: `out` is initialised.
        unsafe { amx::multiply(sizes, self.parts, self.tiles, right.tiles, out) };
    }
}

/// Replaces numbers by what is lost of them where they are rounded to bf16. A product with both parts has 16 bits of them.
pub fn leave_remainders<A: Gemm>(values: &mut [A]) {
    amx::leave_remainders(A::as_f32_mut(values).expect(IN_F32));
}
