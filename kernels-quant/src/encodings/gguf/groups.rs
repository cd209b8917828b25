//! Encoding of large blocks, whose groups have scales of their own: the codes that ggml chooses, to the bit.

use super::encode::put_half;
use super::fit::{BY_IMPORTANCE, NOTHING, Search, above_least, around_zero, from_zero, nearest};
use super::{LARGE, SMALL, half, piece, scale_and_least};

/// The number of groups with a minimum.
const GROUPS: usize = LARGE / SMALL;

/// The largest scale of 6 bits.
const TOP: f32 = 63.0;

/// Numbers above this have no code in any large block, and the fit of much larger ones overflows.
const LARGEST: f32 = (1 << 29) as f32;

fn too_large(numbers: &[f32; LARGE]) -> bool {
    numbers.iter().any(|x| x.abs() > LARGEST)
}

/// Groups with minima: codes, and the scales and minima of 6 bits with their factors.
struct Groups {
    codes: [u8; LARGE],
    scales: [u8; GROUPS],
    leasts: [u8; GROUPS],
    scale: f32,
    least: f32,
}

/// Fits groups to numbers that weigh more the larger they are.
fn fitted(numbers: &[f32; LARGE], top: u8, search: &Search) -> Groups {
    let weights = |numbers: &[f32; SMALL]| {
        let squares = numbers.iter().fold(0.0, |sum: f32, x| sum + x * x);
        let usual = (squares / SMALL as f32).sqrt();
        numbers.map(|x| usual + x.abs())
    };
    let own = numbers.as_chunks::<SMALL>().0.iter();
    let (codes, scales, leasts) = fit_each(own.map(|own| (own, weights(own))), top, search);
    let most = |numbers: [f32; GROUPS]| numbers.into_iter().fold(0.0, maximum);
    let (scale, least) = (most(scales), most(leasts));
    Groups {
        codes,
        scales: six_bits(scales, scale),
        leasts: six_bits(leasts, least),
        scale: scale / TOP,
        least: least / TOP,
    }
}

/// Fits groups to numbers with weights.
fn fitted_by(numbers: &[f32; LARGE], weights: &[f32; LARGE], top: u8) -> Groups {
    let weights = weights.as_chunks::<SMALL>().0;
    let own = numbers.as_chunks::<SMALL>().0.iter();
    let both = own.zip(weights).map(|(own, weights)| (own, *weights));
    let (codes, scales, leasts) = fit_each(both, top, &BY_IMPORTANCE);
    let mut of_groups = [0.0; GROUPS];
    for (sum, weights) in of_groups.iter_mut().zip(weights) {
        *sum = weights.iter().fold(0.0, |sum: f32, weight| sum + weight);
    }
    let (scales, scale) = from_zero(&scales, &of_groups, TOP as u8);
    let (leasts, least) = from_zero(&leasts, &of_groups, TOP as u8);
    Groups {
        codes,
        scales,
        leasts,
        scale,
        least,
    }
}

/// Fits each group by itself. Returns codes, scales, and minima with the other sign.
fn fit_each<'a>(
    groups: impl Iterator<Item = (&'a [f32; SMALL], [f32; SMALL])>,
    top: u8,
    search: &Search,
) -> ([u8; LARGE], [f32; GROUPS], [f32; GROUPS]) {
    let (mut codes, mut scales, mut leasts) = ([0; LARGE], [0.0; GROUPS], [0.0; GROUPS]);
    let places = codes.as_chunks_mut::<SMALL>().0.iter_mut();
    for (at, ((numbers, weights), codes)) in groups.zip(places).enumerate() {
        let fit = above_least(numbers, &weights, top, search);
        (*codes, scales[at], leasts[at]) = (fit.codes, fit.scale, fit.least);
    }
    (codes, scales, leasts)
}

/// Writes scales and minima to the start of a block, and returns the codes again, by the scales as they are stored.
fn grouped(
    numbers: &[f32; LARGE],
    block: &mut [u8],
    top: u8,
    groups: Groups,
) -> Option<[u8; LARGE]> {
    let mut codes = groups.codes;
    pack(block, groups.scales, groups.leasts);
    if !(put_half(block, 0, groups.scale) && put_half(block, 2, groups.least)) {
        return None;
    }
    let (scale, least) = (half(block, 0), half(block, 2));
    let own = numbers.as_chunks::<SMALL>().0.iter();
    for (at, (numbers, codes)) in own.zip(codes.as_chunks_mut::<SMALL>().0).enumerate() {
        let [of_scale, of_least] = scale_and_least(piece(block, 4), at);
        let (scale, least) = (scale * of_scale, least * of_least);
        if scale != 0.0 {
            let code = |x: f32| nearest((x + least) / scale).clamp(0, top.into()) as u8;
            *codes = numbers.map(code);
        }
    }
    Some(codes)
}

fn maximum(most: f32, number: f32) -> f32 {
    if number > most { number } else { most }
}

/// Divides numbers by their maximum, in steps of 1/63.
fn six_bits(numbers: [f32; GROUPS], most: f32) -> [u8; GROUPS] {
    let inverse = if most > 0.0 { TOP / most } else { 0.0 };
    numbers.map(|number| (nearest(inverse * number) as u8).min(TOP as u8))
}

/// Packs scales and minima as [`scale_and_least`] reads them.
fn pack(block: &mut [u8], scales: [u8; GROUPS], leasts: [u8; GROUPS]) {
    let packed = &mut block[4..16];
    for at in 0..4 {
        let (scale, least) = (scales[at + 4], leasts[at + 4]);
        packed[at] = scales[at] | scale >> 4 << 6;
        packed[at + 4] = leasts[at] | least >> 4 << 6;
        packed[at + 8] = scale & 0xf | (least & 0xf) << 4;
    }
}

/// Writes the lower four bits: two groups share 32 bytes, the first in the lower halves.
fn put_low(codes: &[u8; LARGE], bytes: &mut [u8]) {
    let pairs = codes.as_chunks::<{ 2 * SMALL }>().0.iter();
    for (pair, bytes) in pairs.zip(bytes.as_chunks_mut::<SMALL>().0) {
        let (low, high) = pair.split_at(SMALL);
        for ((byte, low), high) in bytes.iter_mut().zip(low).zip(high) {
            *byte = low & 0xf | (high & 0xf) << 4;
        }
    }
}

pub(super) fn q4_k(numbers: &[f32; LARGE], block: &mut [u8; 144]) -> bool {
    let search = Search {
        first: -1.0,
        step: 0.1,
        steps: 20,
    };
    put_fours(numbers, block, |numbers| fitted(numbers, 15, &search))
}

/// As [`q4_k`], with a weight for each number.
pub(super) fn q4_k_by(
    numbers: &[f32; LARGE],
    weights: &[f32; LARGE],
    block: &mut [u8; 144],
) -> bool {
    put_fours(numbers, block, |numbers| fitted_by(numbers, weights, 15))
}

fn put_fours(
    numbers: &[f32; LARGE],
    block: &mut [u8; 144],
    fit: impl Fn(&[f32; LARGE]) -> Groups,
) -> bool {
    if too_large(numbers) {
        return false;
    }
    let Some(codes) = grouped(numbers, block, 15, fit(numbers)) else {
        return false;
    };
    put_low(&codes, &mut block[16..]);
    true
}

pub(super) fn q5_k(numbers: &[f32; LARGE], block: &mut [u8; 176]) -> bool {
    let search = Search {
        first: -0.5,
        step: 0.1,
        steps: 15,
    };
    put_fives(numbers, block, |numbers| fitted(numbers, 31, &search))
}

/// As [`q5_k`], with a weight for each number.
pub(super) fn q5_k_by(
    numbers: &[f32; LARGE],
    weights: &[f32; LARGE],
    block: &mut [u8; 176],
) -> bool {
    put_fives(numbers, block, |numbers| fitted_by(numbers, weights, 31))
}

fn put_fives(
    numbers: &[f32; LARGE],
    block: &mut [u8; 176],
    fit: impl Fn(&[f32; LARGE]) -> Groups,
) -> bool {
    if too_large(numbers) {
        return false;
    }
    let Some(codes) = grouped(numbers, block, 31, fit(numbers)) else {
        return false;
    };
    let (high, low) = block[16..].split_at_mut(SMALL);
    high.fill(0);
    for (group, codes) in codes.as_chunks::<SMALL>().0.iter().enumerate() {
        for (byte, code) in high.iter_mut().zip(codes) {
            *byte |= code >> 4 << group;
        }
    }
    put_low(&codes, low);
    true
}

pub(super) fn q6_k(numbers: &[f32; LARGE], block: &mut [u8; 210]) -> bool {
    q6_k_by(numbers, &numbers.map(|number| number * number), block)
}

/// As [`q6_k`], with a weight for each number in place of its square.
pub(super) fn q6_k_by(
    numbers: &[f32; LARGE],
    weights: &[f32; LARGE],
    block: &mut [u8; 210],
) -> bool {
    if too_large(numbers) {
        return false;
    }
    let (mut codes, mut scales, mut most) = ([0; LARGE], [0.0; 16], 0.0_f32);
    let own = numbers.as_chunks::<16>().0.iter();
    let own = own.zip(weights.as_chunks::<16>().0);
    for (((numbers, weights), codes), scale) in
        own.zip(codes.as_chunks_mut::<16>().0).zip(&mut scales)
    {
        (*codes, *scale) = around_zero(numbers, weights, 32);
        most = if scale.abs() > most.abs() {
            *scale
        } else {
            most
        };
    }
    if most.abs() < NOTHING {
        block.fill(0);
        return true;
    }
    let inverse = -128.0 / most;
    if !put_half(block, 208, 1.0 / inverse) {
        return false;
    }
    let scale = half(block, 208);
    let own = numbers.as_chunks::<16>().0.iter();
    for (at, (numbers, codes)) in own.zip(codes.as_chunks_mut::<16>().0).enumerate() {
        let of_group = nearest(inverse * scales[at]).min(127) as i8;
        block[192 + at] = of_group as u8;
        let scale = scale * f32::from(of_group);
        if scale != 0.0 {
            *codes = numbers.map(|x| (nearest(x / scale).clamp(-32, 31) + 32) as u8);
        }
    }
    put_sixes(&codes, block);
    true
}

/// Packs 256 numbers of 6 bits: each half of the block has 64 bytes of lower and 32 of upper bits.
fn put_sixes(codes: &[u8; LARGE], block: &mut [u8]) {
    let (low, high) = block[..192].split_at_mut(128);
    let halves = codes.as_chunks::<128>().0.iter();
    let parts = low.as_chunks_mut::<64>().0.iter_mut();
    let parts = parts.zip(high.as_chunks_mut::<SMALL>().0);
    for (codes, (low, high)) in halves.zip(parts) {
        for at in 0..SMALL {
            let [a, b, c, d] = [0, 1, 2, 3].map(|group| codes[group * SMALL + at]);
            low[at] = a & 0xf | (c & 0xf) << 4;
            low[at + SMALL] = b & 0xf | (d & 0xf) << 4;
            high[at] = a >> 4 | b >> 4 << 2 | c >> 4 << 4 | d >> 4 << 6;
        }
    }
}
