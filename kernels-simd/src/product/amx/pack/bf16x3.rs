//! Operands in f32 in tiles, each number in three parts of bf16 (BF16x3).
//!
//! The first part is the number rounded to bf16, the second one what is left of it rounded to bf16, and the third one the
//! rest. Each has 8 of the 24 bits of a number, so their sum is the number (Henry, Tang and Heinecke, "Leveraging the bfloat16
//! Artificial Intelligence Datatype For Higher-Precision Computations", 2019).
//!
//! The three tiles of a step are adjacent. The terms of a pair are 16 apart, in both operands, so that no vector has to be
//! interleaved.

use super::super::super::transpose::{SQUARE, Turn, With, with_turn};
use super::{Side, Source, Square, Tile, blocks, check_vectors};
use std::arch::x86_64::*;

/// The number of parts.
pub(in super::super::super) const PARTS: usize = 3;

/// The smallest and the largest magnitude of the first parts of a block, as bits of bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super::super) struct Magnitudes {
    smallest: u16,
    largest: u16,
}

impl Magnitudes {
    /// The magnitudes of an empty block.
    pub(in super::super::super) const NONE: Self = Self {
        smallest: u16::MAX,
        largest: 0,
    };

    pub(in super::super::super) fn smallest(self) -> f32 {
        f32::from_bits(u32::from(self.smallest) << 16)
    }

    pub(in super::super::super) fn largest(self) -> f32 {
        f32::from_bits(u32::from(self.largest) << 16)
    }

    /// Returns whether all numbers of the block are zero, or the largest one is between 2^-40 and 2^30.
    ///
    /// No sum of products of such operands overflows, nor does one of those that attention computes of them. Tiles take numbers
    /// below 2^-126 for zero, so less than 2^-95 of a term is lost.
    pub(in super::super::super) fn are_in_range(self) -> bool {
        const SMALLEST: f32 = 1.0 / (1_u64 << 40) as f32;
        const LARGEST: f32 = (1_u64 << 30) as f32;
        let largest = self.largest();
        largest == 0.0 || (SMALLEST..=LARGEST).contains(&largest)
    }

    fn and(self, other: Self) -> Self {
        Self {
            smallest: self.smallest.min(other.smallest),
            largest: self.largest.max(other.largest),
        }
    }
}

/// The number of tiles from one whose memory is asked for to the one that is read.
const AHEAD: usize = 3;

/// Returns whether this machine has the instructions that separate the parts.
pub(in super::super::super) fn available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
}

/// Copies an operand to its tiles, and writes the magnitudes of each block.
///
/// # Panics
/// Panics if the source reaches beyond its data, if `to` and `magnitudes` have other sizes than the operand, or if the machine
/// lacks the [instructions](available).
pub(in super::super::super) fn pack(
    source: Source<'_, f32>,
    side: Side,
    to: &mut [Tile],
    magnitudes: &mut [Magnitudes],
) {
    let steps = source.k.div_ceil(Tile::TERMS);
    assert!(
        magnitudes.len() == blocks(source.count) && to.len() == PARTS * steps * magnitudes.len(),
        "tiles of an operand in parts"
    );
    assert!(available(), "this machine has no AVX-512");
    magnitudes.fill(Magnitudes::NONE);
    if steps > 0 {
        with_turn!(Pack {
            source,
            side,
            to,
            magnitudes
        });
    }
}

struct Pack<'a> {
    source: Source<'a, f32>,
    side: Side,
    to: &'a mut [Tile],
    magnitudes: &'a mut [Magnitudes],
}

impl Pack<'_> {
    #[inline(always)]
    fn tiles<T: Turn>(self, turn: T) {
        let steps = self.source.k.div_ceil(Tile::TERMS);
        let by_terms = self.source.k_stride == 1;
        let blocks = self.magnitudes.len();
        let (tiles, _) = self.to.as_chunks_mut::<PARTS>();
        // Memory is read in its order.
        let place = |index: usize| match by_terms {
            true => [index / steps, index % steps],
            false => [index % blocks, index / blocks],
        };
        for index in 0..tiles.len() {
            let at @ [block, step] = place(index);
            let ahead = self.source.from(place(index + AHEAD));
            let to = &mut tiles[block * steps + step];
            let read = read(&self.source, at, self.side, turn, ahead, to);
            self.magnitudes[block] = self.magnitudes[block].and(read);
        }
    }
}

impl<T: Turn> pulp::WithSimd for With<Pack<'_>, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        self.task.tiles(self.turn);
    }
}

impl Source<'_, f32> {
    /// Returns where a tile would begin. Nothing may be there.
    #[inline(always)]
    fn from(&self, [block, step]: [usize; 2]) -> *const f32 {
        let lines = (block * Tile::LINES).wrapping_mul(self.stride);
        let terms = (step * Tile::TERMS).wrapping_mul(self.k_stride);
        self.data.as_ptr().wrapping_add(lines.wrapping_add(terms))
    }
}

/// Reads the tiles of a block and a step.
#[inline(always)]
fn read<T: Turn>(
    source: &Source<'_, f32>,
    [block, step]: [usize; 2],
    side: Side,
    turn: T,
    ahead: *const f32,
    to: &mut [Tile; PARTS],
) -> Magnitudes {
    let (row, term) = (block * Tile::LINES, step * Tile::TERMS);
    let rows = source.count.saturating_sub(row).min(Tile::LINES);
    let terms = (source.k - term).min(Tile::TERMS);
    let is_whole = rows == Tile::LINES && terms == Tile::TERMS;
    let at = row * source.stride + term * source.k_stride;
    let direct = side == Side::Left;
    if is_whole && source.k_stride == 1 {
        let strides = [source.stride, Tile::LINES];
        return lines(&source.data[at..], strides, direct, turn, ahead, to);
    }
    if is_whole && source.stride == 1 {
        let strides = [source.k_stride, Tile::LINES * source.k_stride];
        return lines(&source.data[at..], strides, !direct, turn, ahead, to);
    }
    let gathered = gathered(source, [row, rows], [term, terms]);
    let strides = [Tile::TERMS, Tile::LINES];
    lines(gathered.as_flattened(), strides, direct, turn, ahead, to)
}

/// Returns some terms of some rows, and zeros in place of those that are missing.
#[inline(never)]
fn gathered(
    source: &Source<'_, f32>,
    [row, rows]: [usize; 2],
    [term, terms]: [usize; 2],
) -> [[f32; Tile::TERMS]; Tile::LINES] {
    let mut gathered = [[0.0; Tile::TERMS]; Tile::LINES];
    for (line, to) in (row..row + rows).zip(&mut gathered) {
        for (term, to) in (term..term + terms).zip(to) {
            *to = source.data[line * source.stride + term * source.k_stride];
        }
    }
    gathered
}

/// Reads 16 times two vectors of 16 numbers, as lines of the tiles if `direct`, or else as columns. The first vectors are
/// `stride` apart, the second ones `second` elements after them. At `ahead` is what is read soon, at the same distances.
///
/// # Panics
/// Panics if a vector reaches beyond the data.
#[inline(always)]
fn lines<T: Turn>(
    data: &[f32],
    [stride, second]: [usize; 2],
    direct: bool,
    turn: T,
    ahead: *const f32,
    to: &mut [Tile; PARTS],
) -> Magnitudes {
    check_vectors(data.len(), stride, second);
    for line in 0..Tile::LINES {
        // Hints, because the processor does not foresee lines of several pages. Any address is allowed.
        let next = ahead.wrapping_add(line * stride);
        // SAFETY: nothing is accessed.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(next.cast());
            _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(second).cast());
        }
    }
    let [Tile(first), Tile(middle), Tile(rest)] = to;
    let to = [first, middle, rest];
    if direct {
        // SAFETY: all vectors are in the slice, because the last is, and `pack` asked for the instructions.
        return unsafe { separate(data.as_ptr(), [stride, second], to) };
    }
    let mut turned = [[[0.0; SQUARE]; SQUARE]; 2];
    for (turned, first) in turned.iter_mut().zip([0, second]) {
        let mut square = [[0.0; SQUARE]; SQUARE];
        for (line, to) in square.iter_mut().enumerate() {
            to.copy_from_slice(&data[first + line * stride..][..SQUARE]);
        }
        *turned = turn.turn(square);
    }
    let turned = turned.as_flattened().as_flattened();
    // SAFETY: all vectors are in `turned`, and `pack` asked for the instructions.
    unsafe { separate(turned.as_ptr(), [SQUARE, Tile::LEN], to) }
}

/// # Safety
/// The machine must have the instructions, and the vectors must be readable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn separate(
    data: *const f32,
    [stride, second]: [usize; 2],
    [first_parts, second_parts, third_parts]: [&mut Square; PARTS],
) -> Magnitudes {
    let mut smallest = _mm512_set1_epi16(-1);
    let mut largest = _mm512_setzero_si512();
    for line in 0..Tile::LINES {
        // SAFETY: the caller upholds the requirements; a line of a tile has 64 bytes.
        unsafe {
            let low = _mm512_loadu_ps(data.add(line * stride));
            let high = _mm512_loadu_ps(data.add(line * stride + second));
            let parts = [rounded(low), rounded(high)];
            let pairs = joined(parts);
            let rest = [_mm512_sub_ps(low, parts[0]), _mm512_sub_ps(high, parts[1])];
            let parts = [rounded(rest[0]), rounded(rest[1])];
            let others = [
                _mm512_sub_ps(rest[0], parts[0]),
                _mm512_sub_ps(rest[1], parts[1]),
            ];
            _mm512_store_si512(first_parts[line].as_mut_ptr().cast(), pairs);
            _mm512_store_si512(second_parts[line].as_mut_ptr().cast(), joined(parts));
            _mm512_store_si512(third_parts[line].as_mut_ptr().cast(), joined(others));
            let magnitudes = _mm512_and_si512(pairs, _mm512_set1_epi16(i16::MAX));
            smallest = _mm512_min_epu16(smallest, magnitudes);
            largest = _mm512_max_epu16(largest, magnitudes);
        }
    }
    Magnitudes {
        smallest: least(smallest),
        largest: u16::MAX - least(_mm512_xor_si512(largest, _mm512_set1_epi16(-1))),
    }
}

/// Rounds to the nearest number of bf16, away from zero in the middle.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn rounded(values: __m512) -> __m512 {
    let half = _mm512_set1_epi32(1 << 15);
    let upper = _mm512_set1_epi32(-1 << 16);
    let bits = _mm512_add_epi32(_mm512_castps_si512(values), half);
    _mm512_castsi512_ps(_mm512_and_si512(bits, upper))
}

/// Joins the upper halves of two vectors in pairs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn joined([low, high]: [__m512; 2]) -> __m512i {
    let upper = _mm512_set1_epi32(-1 << 16);
    let [low, high] = [_mm512_castps_si512(low), _mm512_castps_si512(high)];
    _mm512_or_si512(_mm512_srli_epi32::<16>(low), _mm512_and_si512(high, upper))
}

/// Returns the smallest of 32 numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn least(values: __m512i) -> u16 {
    let (low, high) = (
        _mm512_castsi512_si256(values),
        _mm512_extracti64x4_epi64::<1>(values),
    );
    let values = _mm256_min_epu16(low, high);
    let (low, high) = (
        _mm256_castsi256_si128(values),
        _mm256_extracti128_si256::<1>(values),
    );
    let least = _mm_minpos_epu16(_mm_min_epu16(low, high));
    _mm_extract_epi16::<0>(least) as u16
}
