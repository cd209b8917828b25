//! The blocks of GGUF files as integers.

use super::super::decode::{fifth, high, low, of_doubled, part, shifted, single, sixes, with_bits};
use super::weights::{GROUPS, Piece};
use kernels_quant::gguf::Block;

/// The number of elements of a small block, or of a group of a large one.
const SMALL: usize = 32;

/// Decodes each small block to its codes, its scale and its term. A macro, because a function that takes a function is
/// not always compiled into the context.
macro_rules! small {
    ($decode:ident($bytes:ident, $out:ident)) => {{
        let codes = $out.codes.as_chunks_mut::<SMALL>().0;
        let scales = $out.scales.as_chunks_mut::<2>().0;
        let terms = $out.terms.as_chunks_mut::<2>().0;
        let places = codes.iter_mut().zip(scales).zip(terms);
        for (block, ((codes, scales), terms)) in $bytes.as_chunks().0.iter().zip(places) {
            let [scale, term] = $decode(block, codes);
            (*scales, *terms) = ([scale; 2], [term; 2]);
        }
    }};
}

/// Decodes whole blocks.
#[inline(always)]
pub(super) fn decode(block: Block, bytes: &[u8], out: &mut Piece) {
    match block {
        Block::Q8_0 => small!(q8_0(bytes, out)),
        Block::Q4_0 => small!(q4_0(bytes, out)),
        Block::Q4_1 => small!(q4_1(bytes, out)),
        Block::Q5_0 => small!(q5_0(bytes, out)),
        Block::Q5_1 => small!(q5_1(bytes, out)),
        Block::Mxfp4 => small!(mxfp4(bytes, out)),
        // A piece is one block.
        Block::Q4K => q4_k(part(bytes, 0), out),
        Block::Q5K => q5_k(part(bytes, 0), out),
        Block::Q6K => q6_k(part(bytes, 0), out),
    }
}

type Codes = [u8; SMALL];

/// Returns codes of 4 bits: the lower halves of bytes, then the upper ones.
#[inline(always)]
fn halves(bytes: &[u8; 16]) -> Codes {
    joined(low(bytes), high(bytes))
}

/// Returns codes of 5 bits, whose highest bits come first.
#[inline(always)]
fn fives(bytes: &[u8; 20]) -> Codes {
    let codes = part(bytes, 4);
    let lower = with_bits(low(codes), fifth(*part(bytes, 0)));
    let upper = with_bits(high(codes), fifth(*part(bytes, 2)));
    joined(lower, upper)
}

#[inline(always)]
fn joined(lower: [u8; 16], upper: [u8; 16]) -> Codes {
    let mut codes = [0; SMALL];
    let (first, second) = codes.split_at_mut(SMALL / 2);
    first.copy_from_slice(&lower);
    second.copy_from_slice(&upper);
    codes
}

#[inline(always)]
fn q8_0(block: &[u8; 34], codes: &mut Codes) -> [f32; 2] {
    let scale = single(block, 0);
    *codes = *part(block, 2);
    for code in codes {
        *code ^= 0x80;
    }
    [scale, -128.0 * scale]
}

#[inline(always)]
fn q4_0(block: &[u8; 18], codes: &mut Codes) -> [f32; 2] {
    let scale = single(block, 0);
    *codes = halves(part(block, 2));
    [scale, -8.0 * scale]
}

#[inline(always)]
fn q4_1(block: &[u8; 20], codes: &mut Codes) -> [f32; 2] {
    *codes = halves(part(block, 4));
    [single(block, 0), single(block, 2)]
}

#[inline(always)]
fn q5_0(block: &[u8; 22], codes: &mut Codes) -> [f32; 2] {
    let scale = single(block, 0);
    *codes = fives(part(block, 2));
    [scale, -16.0 * scale]
}

#[inline(always)]
fn q5_1(block: &[u8; 24], codes: &mut Codes) -> [f32; 2] {
    *codes = fives(part(block, 4));
    [single(block, 0), single(block, 2)]
}

/// Twice the numbers of E2M1, plus 12.
const NUMBERS: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

#[inline(always)]
fn mxfp4(block: &[u8; 17], codes: &mut Codes) -> [f32; 2] {
    let scale = of_doubled(block[0]);
    *codes = halves(part(block, 1));
    for code in codes {
        *code = NUMBERS[usize::from(*code & 0xf)];
    }
    [scale, -12.0 * scale]
}

/// Sets the scales and the terms of eight groups.
#[inline(always)]
fn scales_and_terms(block: &[u8], out: &mut Piece) {
    let (scale, least) = (single(block, 0), -single(block, 2));
    let integers = sixes(part(block, 4));
    for (group, scales) in out.scales.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        *scales = [scale * f32::from(integers[group]); 2];
    }
    for (group, terms) in out.terms.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        *terms = [least * f32::from(integers[GROUPS / 2 + group]); 2];
    }
}

/// Sets the codes of a group.
#[inline(always)]
fn put(codes: Codes, group: usize, out: &mut Piece) {
    out.codes[group * SMALL..][..SMALL].copy_from_slice(&codes);
}

/// Decodes pairs of groups of 32, which share 32 bytes.
#[inline(always)]
fn q4_k(block: &[u8; 144], out: &mut Piece) {
    scales_and_terms(block, out);
    for pair in 0..4 {
        let bytes: &Codes = part(block, 16 + pair * SMALL);
        put(low(bytes), 2 * pair, out);
        put(high(bytes), 2 * pair + 1, out);
    }
}

#[inline(always)]
fn q5_k(block: &[u8; 176], out: &mut Piece) {
    scales_and_terms(block, out);
    let bits = part(block, 16);
    for pair in 0..4 {
        let bytes: &Codes = part(block, 48 + pair * SMALL);
        let (first, second) = (2 * pair, 2 * pair + 1);
        put(with_bits(low(bytes), shifted(bits, first, 1)), first, out);
        put(
            with_bits(high(bytes), shifted(bits, second, 1)),
            second,
            out,
        );
    }
}

#[inline(always)]
fn q6_k(block: &[u8; 210], out: &mut Piece) {
    let (scale, scales): (_, &[u8; GROUPS]) = (single(block, 208), part(block, 192));
    for (place, of_group) in out.scales.iter_mut().zip(scales) {
        *place = scale * f32::from(*of_group as i8);
    }
    for (term, scale) in out.terms.iter_mut().zip(out.scales) {
        *term = -32.0 * scale;
    }
    // Each half of 128 elements has 64 bytes of lower and 32 bytes of upper bits.
    for half in 0..2 {
        let upper = part(block, 128 + half * SMALL);
        for second in 0..2 {
            let bytes: &Codes = part(block, half * 64 + second * SMALL);
            let lower = with_bits(low(bytes), shifted(upper, 2 * second, 3));
            put(lower, 4 * half + second, out);
            let upper = with_bits(high(bytes), shifted(upper, 4 + 2 * second, 3));
            put(upper, 4 * half + 2 + second, out);
        }
    }
}
