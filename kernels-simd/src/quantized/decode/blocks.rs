//! The blocks of GGUF files.

use super::bits::{
    CODES, Codes16, Codes32, fifth, high, less, low, of_doubled, part, shifted, single, sixes,
    with_bits,
};
use super::{SMALL, Sink};
use crate::{Context, LANES, Lanes};
use kernels_quant::gguf::Block;

/// The number of elements of large blocks, which a piece has.
const LARGE: usize = super::PIECE;

/// Decodes whole blocks with a function. This is a macro, because a closure is not always compiled into the context.
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

/// Reads a half-precision number in every lane.
#[inline(always)]
fn half<C: Context>(c: C, block: &[u8], at: usize) -> C::Of<f32> {
    C::Of::<f32>::splat(c, single(block, at))
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
    let table = C::Of::<f32>::read(c, &DOUBLED) * C::Of::<f32>::splat(c, of_doubled(block[0]));
    let (table, codes) = (table.values(), part(block, 1));
    out.take(c.of_table(&table, codes), at, sum);
    out.take(c.of_table(&table, &high(codes)), at + LANES, sum + 1);
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
