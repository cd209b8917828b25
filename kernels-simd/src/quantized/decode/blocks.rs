//! The blocks of GGUF files.

use super::{SMALL, Sink};
use crate::{Context, Element, LANES, Lanes};
use half::f16;
use kernels_quant::gguf::Block;

/// The number of elements of large blocks, which a piece has.
const LARGE: usize = super::PIECE;

type Codes16 = [u8; LANES];
type Codes32 = [u8; SMALL];

/// All codes of 4 bits.
pub(super) const CODES: Codes16 = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Decodes whole blocks with a function. A macro, because closures are not always compiled into the context.
macro_rules! each {
    ($decode:ident($c:ident, $bytes:ident, $length:ident, $out:ident), $ELEMENTS:ident) => {{
        let (blocks, _) = $bytes.as_chunks();
        let (pairs, last) = blocks[..$length / $ELEMENTS].as_chunks::<2>();
        for (pair, [first, second]) in pairs.iter().enumerate() {
            $decode($c, first, $out, 2 * pair * $ELEMENTS, 0);
            $decode($c, second, $out, (2 * pair + 1) * $ELEMENTS, 2);
        }
        if let [last] = last {
            $decode($c, last, $out, 2 * pairs.len() * $ELEMENTS, 0);
        }
    }};
}

/// Decodes `length` elements, whole blocks.
#[inline(always)]
pub(super) fn decode<C: Context, S: Sink<C>>(
    c: C,
    block: Block,
    bytes: &[u8],
    length: usize,
    out: &mut S,
) {
    match block {
        Block::Q8_0 => each!(q8_0(c, bytes, length, out), SMALL),
        Block::Q4_0 => each!(q4_0(c, bytes, length, out), SMALL),
        Block::Q4_1 => each!(q4_1(c, bytes, length, out), SMALL),
        Block::Q5_0 => each!(q5_0(c, bytes, length, out), SMALL),
        Block::Q5_1 => each!(q5_1(c, bytes, length, out), SMALL),
        Block::Mxfp4 => each!(mxfp4(c, bytes, length, out), SMALL),
        // A piece is one block.
        Block::Q4K => q4_k(c, part(bytes, 0), out),
        Block::Q5K => q5_k(c, part(bytes, 0), out),
        Block::Q6K => q6_k(c, part(bytes, 0), out),
    }
}

// The parts that blocks are decoded from, for products in f32 and in integers.

/// Returns `N` bytes from an offset on.
#[inline(always)]
pub(in super::super) fn part<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    bytes[at..]
        .first_chunk()
        .expect("offsets are inside of the block")
}

/// Reads a half-precision number in every lane.
#[inline(always)]
fn half<C: Context>(c: C, block: &[u8], at: usize) -> C::Of<f32> {
    C::Of::<f32>::splat(c, single(block, at))
}

/// Reads a half-precision number.
#[inline(always)]
pub(in super::super) fn single(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes(*part(block, at)).load()
}

// The following are loops because `map` is a call, which is not compiled for the context.

#[inline(always)]
pub(in super::super) fn low<const N: usize>(bytes: &[u8; N]) -> [u8; N] {
    let mut codes = *bytes;
    for code in &mut codes {
        *code &= 0xf;
    }
    codes
}

#[inline(always)]
pub(in super::super) fn high<const N: usize>(bytes: &[u8; N]) -> [u8; N] {
    let mut codes = *bytes;
    for code in &mut codes {
        *code >>= 4;
    }
    codes
}

/// Returns codes below 128, less a number.
#[inline(always)]
fn less<const N: usize>(codes: [u8; N], number: u8) -> [i8; N] {
    let mut integers = [0; N];
    for (integer, code) in integers.iter_mut().zip(codes) {
        *integer = code.wrapping_sub(number) as i8;
    }
    integers
}

#[inline(always)]
pub(in super::super) fn with_bits<const N: usize>(mut codes: [u8; N], bits: [u8; N]) -> [u8; N] {
    for (code, bits) in codes.iter_mut().zip(bits) {
        *code |= bits;
    }
    codes
}

/// Returns some bits of each byte as the bits from 4 on of codes.
#[inline(always)]
pub(in super::super) fn shifted(bytes: &Codes32, shift: usize, mask: u8) -> Codes32 {
    let mut bits = *bytes;
    for bits in &mut bits {
        *bits = (*bits >> shift & mask) << 4;
    }
    bits
}

/// The rule that turns the codes of a group into numbers.
#[derive(Clone, Copy)]
struct Group<L> {
    scale: L,
    /// The code of zero.
    zero: u8,
    term: Term<L>,
}

#[derive(Clone, Copy)]
enum Term<L> {
    None,
    Added(L),
    Subtracted(L),
}

impl<L: crate::Number> Group<L> {
    #[inline(always)]
    fn numbers<C: Context<Of<f32> = L>>(self, c: C, codes: Codes16) -> L {
        let numbers = self.scale * c.of_i8(&less(codes, self.zero));
        match self.term {
            Term::None => numbers,
            Term::Added(term) => numbers + term,
            Term::Subtracted(term) => numbers - term,
        }
    }
}

/// A group of codes of 4 bits. Where numbers are looked up, all sixteen are computed before.
#[derive(Clone, Copy)]
struct Nibbles<L> {
    group: Group<L>,
    table: [f32; LANES],
}

impl<L: crate::Number> Nibbles<L> {
    #[inline(always)]
    fn new<C: Context<Of<f32> = L>>(c: C, group: Group<L>) -> Self
    where
        L: Lanes<f32, C>,
    {
        let table = match C::LOOKS_UP {
            true => group.numbers(c, CODES).values(),
            false => [0.0; LANES],
        };
        Self { group, table }
    }

    /// Returns the numbers of the lower halves of bytes.
    #[inline(always)]
    fn lower<C: Context<Of<f32> = L>>(self, c: C, bytes: &Codes16) -> L {
        match C::LOOKS_UP {
            true => c.of_table(&self.table, bytes),
            false => self.group.numbers(c, low(bytes)),
        }
    }

    #[inline(always)]
    fn upper<C: Context<Of<f32> = L>>(self, c: C, bytes: &Codes16) -> L {
        self.lower(c, &high(bytes))
    }
}

#[inline(always)]
fn q8_0<C: Context, S: Sink<C>>(c: C, block: &[u8; 34], out: &mut S, at: usize, sum: usize) {
    let scale = half(c, block, 0);
    for i in 0..2 {
        let integers: &Codes16 = part(block, 2 + i * LANES);
        let numbers = c.of_i8(&less(*integers, 0)) * scale;
        out.take(numbers, at + i * LANES, sum + i);
    }
}

/// Takes the codes of a small block of 4 bits.
#[inline(always)]
fn small<C: Context, S: Sink<C>>(
    c: C,
    group: Group<C::Of<f32>>,
    codes: &Codes16,
    out: &mut S,
    (at, sum): (usize, usize),
) {
    let numbers = Nibbles::new(c, group);
    out.take(numbers.lower(c, codes), at, sum);
    out.take(numbers.upper(c, codes), at + LANES, sum + 1);
}

#[inline(always)]
fn q4_0<C: Context, S: Sink<C>>(c: C, block: &[u8; 18], out: &mut S, at: usize, sum: usize) {
    let group = Group {
        scale: half(c, block, 0),
        zero: 8,
        term: Term::None,
    };
    small(c, group, part(block, 2), out, (at, sum));
}

#[inline(always)]
fn q4_1<C: Context, S: Sink<C>>(c: C, block: &[u8; 20], out: &mut S, at: usize, sum: usize) {
    let group = Group {
        scale: half(c, block, 0),
        zero: 0,
        term: Term::Added(half(c, block, 2)),
    };
    small(c, group, part(block, 4), out, (at, sum));
}

/// Takes the numbers of 5 bits in 20 bytes: their highest bits come first.
#[inline(always)]
fn fives<C: Context, S: Sink<C>>(
    c: C,
    group: Group<C::Of<f32>>,
    bytes: &[u8; 20],
    out: &mut S,
    (at, sum): (usize, usize),
) {
    let codes = part(bytes, 4);
    let lower = with_bits(low(codes), fifth(*part(bytes, 0)));
    let upper = with_bits(high(codes), fifth(*part(bytes, 2)));
    out.take(group.numbers(c, lower), at, sum);
    out.take(group.numbers(c, upper), at + LANES, sum + 1);
}

/// Returns the sixteen bits of two bytes as the bits 4 of codes.
#[inline(always)]
pub(in super::super) fn fifth(bytes: [u8; 2]) -> Codes16 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // The bit of each byte's place.
    const PLACES: u64 = 0x8040_2010_0804_0201;
    let mut codes = [0; LANES];
    for (codes, byte) in codes.as_chunks_mut::<8>().0.iter_mut().zip(bytes) {
        let places = (u64::from(byte) * ONES) & PLACES;
        // The highest bit of a byte is set where it is not zero.
        let is_set = places + 0x7f * ONES;
        *codes = ((is_set >> 3) & (0x10 * ONES)).to_le_bytes();
    }
    codes
}

#[inline(always)]
fn q5_0<C: Context, S: Sink<C>>(c: C, block: &[u8; 22], out: &mut S, at: usize, sum: usize) {
    let group = Group {
        scale: half(c, block, 0),
        zero: 16,
        term: Term::None,
    };
    fives(c, group, part(block, 2), out, (at, sum));
}

#[inline(always)]
fn q5_1<C: Context, S: Sink<C>>(c: C, block: &[u8; 24], out: &mut S, at: usize, sum: usize) {
    let group = Group {
        scale: half(c, block, 0),
        zero: 0,
        term: Term::Added(half(c, block, 2)),
    };
    fives(c, group, part(block, 4), out, (at, sum));
}

/// Twice the numbers of E2M1, with one zero.
const DOUBLED: [f32; LANES] = [
    0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0,
];

#[inline(always)]
fn mxfp4<C: Context, S: Sink<C>>(c: C, block: &[u8; 17], out: &mut S, at: usize, sum: usize) {
    // 2^(exponent − 128), as the numbers are doubled. The first two are subnormal.
    let scale = match block[0] {
        exponent @ 0..2 => f32::from_bits(0x0020_0000 << exponent),
        exponent => f32::from_bits((u32::from(exponent) - 1) << 23),
    };
    let table = C::Of::<f32>::read(c, &DOUBLED) * C::Of::<f32>::splat(c, scale);
    let (table, codes) = (table.values(), part(block, 1));
    out.take(c.of_table(&table, codes), at, sum);
    out.take(c.of_table(&table, &high(codes)), at + LANES, sum + 1);
}

/// Returns the scales of eight groups, then their minima, in 6 bits each.
#[inline(always)]
pub(in super::super) fn sixes(packed: &[u8; 12]) -> [i8; LANES] {
    let a = u32::from_le_bytes(*part(packed, 0));
    let b = u32::from_le_bytes(*part(packed, 4));
    let d = u32::from_le_bytes(*part(packed, 8));
    const SIX: u32 = 0x3f3f_3f3f;
    const FOUR: u32 = 0x0f0f_0f0f;
    const TWO: u32 = 0x3030_3030;
    let words = [
        a & SIX,
        d & FOUR | a >> 2 & TWO,
        b & SIX,
        d >> 4 & FOUR | b >> 2 & TWO,
    ];
    let mut integers = [0; LANES];
    for (integers, word) in integers.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *integers = less(word.to_le_bytes(), 0);
    }
    integers
}

/// Returns the scales of eight groups, then their minima.
#[inline(always)]
fn scales_and_least<C: Context>(c: C, block: &[u8]) -> [f32; LANES] {
    let mut factors = [single(block, 0); LANES];
    factors[LANES / 2..].fill(single(block, 2));
    let integers = c.of_i8(&sixes(part(block, 4)));
    (C::Of::<f32>::read(c, &factors) * integers).values()
}

/// Returns a group of a large block.
#[inline(always)]
fn group_of<C: Context>(c: C, scales: &[f32; LANES], group: usize) -> Group<C::Of<f32>> {
    Group {
        scale: C::Of::<f32>::splat(c, scales[group]),
        zero: 0,
        term: Term::Subtracted(C::Of::<f32>::splat(c, scales[LANES / 2 + group])),
    }
}

/// Decodes groups of 32, two of which share 32 bytes.
#[inline(always)]
fn q4_k<C: Context, S: Sink<C>>(c: C, block: &[u8; 144], out: &mut S) {
    let scales = scales_and_least(c, block);
    for pair in 0..LARGE / SMALL / 2 {
        let at = 2 * pair * SMALL;
        let lower = Nibbles::new(c, group_of(c, &scales, 2 * pair));
        let upper = Nibbles::new(c, group_of(c, &scales, 2 * pair + 1));
        for i in 0..2 {
            let codes = part(block, 16 + pair * SMALL + i * LANES);
            out.take(lower.lower(c, codes), at + i * LANES, i);
            out.take(upper.upper(c, codes), at + SMALL + i * LANES, 2 + i);
        }
    }
}

/// Takes the numbers of 32 codes of a group.
#[inline(always)]
fn both_halves<C: Context, S: Sink<C>>(
    c: C,
    groups: [Group<C::Of<f32>>; 2],
    codes: &Codes32,
    out: &mut S,
    (at, sum): (usize, usize),
) {
    let [lower, upper] = groups;
    out.take(lower.numbers(c, *part(codes, 0)), at, sum);
    out.take(upper.numbers(c, *part(codes, LANES)), at + LANES, sum + 1);
}

#[inline(always)]
fn q5_k<C: Context, S: Sink<C>>(c: C, block: &[u8; 176], out: &mut S) {
    let scales = scales_and_least(c, block);
    let bits: &Codes32 = part(block, 16);
    for pair in 0..LARGE / SMALL / 2 {
        let codes: &Codes32 = part(block, 48 + pair * SMALL);
        let lower = with_bits(low(codes), shifted(bits, 2 * pair, 1));
        let upper = with_bits(high(codes), shifted(bits, 2 * pair + 1, 1));
        let at = 2 * pair * SMALL;
        let group = group_of(c, &scales, 2 * pair);
        both_halves(c, [group; 2], &lower, out, (at, 0));
        let group = group_of(c, &scales, 2 * pair + 1);
        both_halves(c, [group; 2], &upper, out, (at + SMALL, 2));
    }
}

#[inline(always)]
fn q6_k<C: Context, S: Sink<C>>(c: C, block: &[u8; 210], out: &mut S) {
    let scales = c.of_i8(&less(*part(block, 192), 0)) * half(c, block, 208);
    let scales = scales.values();
    for half in 0..2 {
        // Each is compiled with its own shifts.
        quarter(c, block, &scales, (half, 0), out);
        quarter(c, block, &scales, (half, 1), out);
        quarter(c, block, &scales, (half, 2), out);
        quarter(c, block, &scales, (half, 3), out);
    }
}

/// Decodes a quarter of half a block. A half has 64 bytes of lower and 32 bytes of upper bits.
#[inline(always)]
fn quarter<C: Context, S: Sink<C>>(
    c: C,
    block: &[u8; 210],
    scales: &[f32; LANES],
    (half, quarter): (usize, usize),
    out: &mut S,
) {
    let lower: &Codes32 = part(block, half * 64 + quarter % 2 * SMALL);
    let lower = match quarter / 2 {
        0 => low(lower),
        _ => high(lower),
    };
    let upper = part(block, 128 + half * SMALL);
    let codes = with_bits(lower, shifted(upper, 2 * quarter, 3));
    let at = half * 128 + quarter * SMALL;
    let group = Group {
        scale: C::Of::<f32>::splat(c, scales[at / LANES]),
        zero: 32,
        term: Term::None,
    };
    let second = Group {
        scale: C::Of::<f32>::splat(c, scales[at / LANES + 1]),
        ..group
    };
    let place = (at, quarter % 2 * 2);
    both_halves(c, [group, second], &codes, out, place);
}
