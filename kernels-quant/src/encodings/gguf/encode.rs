//! Encoding of small blocks: the codes that ggml chooses, to the bit.

use half::f16;

use super::{DOUBLED, SMALL};

/// Writes a half-precision number at an offset. Returns false if it is too large for one.
pub(super) fn put_half(block: &mut [u8], at: usize, number: f32) -> bool {
    let half = f16::from_f32(number);
    block[at..at + 2].copy_from_slice(&half.to_le_bytes());
    half.is_finite()
}

/// Returns the inverse of a scale, or 0 for 0.
fn inverse(scale: f32) -> f32 {
    match scale {
        0.0 => 0.0,
        scale => 1.0 / scale,
    }
}

/// Returns the lowest 8 bits of the integer part. Of a number that no i32 holds, which only scales below the smallest
/// normal number lead to, they are 0, as on x86-64.
fn low_byte(number: f32) -> u8 {
    match number.abs() < 2_147_483_648.0 {
        true => number as i32 as u8,
        false => 0,
    }
}

/// Returns the first number of the largest size, with its sign.
fn largest(numbers: &[f32]) -> f32 {
    let start = 0.0_f32;
    let larger = |most: f32, &number: &f32| match most.abs() < number.abs() {
        true => number,
        false => most,
    };
    numbers.iter().fold(start, larger)
}

fn least_and_most(numbers: &[f32]) -> (f32, f32) {
    let start = (f32::MAX, -f32::MAX);
    let wider = |(least, most): (f32, f32), &number: &f32| {
        let least = if number < least { number } else { least };
        (least, if number > most { number } else { most })
    };
    numbers.iter().fold(start, wider)
}

/// Packs 32 numbers of 4 bits: the second half goes to the upper halves of bytes.
pub(super) fn put_nibbles(codes: &[u8; SMALL], bytes: &mut [u8]) {
    let (low, high) = codes.split_at(SMALL / 2);
    for ((byte, low), high) in bytes.iter_mut().zip(low).zip(high) {
        *byte = low & 0xf | (high & 0xf) << 4;
    }
}

/// Packs 32 numbers of 5 bits: their highest bits come first.
pub(super) fn put_fives(codes: &[u8; SMALL], bytes: &mut [u8]) {
    let high = codes.iter().enumerate();
    let high = high.fold(0, |bits, (at, code)| bits | u32::from(code >> 4 & 1) << at);
    bytes[..4].copy_from_slice(&high.to_le_bytes());
    put_nibbles(codes, &mut bytes[4..]);
}

pub(super) fn q8_0(numbers: &[f32; SMALL], block: &mut [u8; 34]) -> bool {
    let scale = largest(numbers).abs() / 127.0;
    let inverse = inverse(scale);
    for (&number, code) in numbers.iter().zip(&mut block[2..]) {
        *code = low_byte((number * inverse).round());
    }
    put_half(block, 0, scale)
}

/// Scales by the number of the largest size, which gets the code 0, and rounds by adding half of a code.
fn around_middle(numbers: &[f32; SMALL], middle: f32) -> ([u8; SMALL], f32) {
    let scale = largest(numbers) / -middle;
    let inverse = inverse(scale);
    let top = (2.0 * middle) as i8 - 1;
    let code = |number: f32| {
        let code = low_byte(number * inverse + (middle + 0.5)) as i8;
        code.min(top) as u8
    };
    (numbers.map(code), scale)
}

pub(super) fn q4_0(numbers: &[f32; SMALL], block: &mut [u8; 18]) -> bool {
    let (codes, scale) = around_middle(numbers, 8.0);
    put_nibbles(&codes, &mut block[2..]);
    put_half(block, 0, scale)
}

pub(super) fn q5_0(numbers: &[f32; SMALL], block: &mut [u8; 22]) -> bool {
    let (codes, scale) = around_middle(numbers, 16.0);
    put_fives(&codes, &mut block[2..]);
    put_half(block, 0, scale)
}

/// Divides the range from the least to the largest number into steps.
fn above_least(numbers: &[f32; SMALL], steps: u8) -> ([u8; SMALL], [f32; 2]) {
    let (least, most) = least_and_most(numbers);
    let scale = (most - least) / f32::from(steps);
    let inverse = inverse(scale);
    let code = |number: f32| low_byte((number - least) * inverse + 0.5).min(steps);
    (numbers.map(code), [scale, least])
}

pub(super) fn q4_1(numbers: &[f32; SMALL], block: &mut [u8; 20]) -> bool {
    let (codes, [scale, least]) = above_least(numbers, 15);
    put_nibbles(&codes, &mut block[4..]);
    put_half(block, 0, scale) && put_half(block, 2, least)
}

pub(super) fn q5_1(numbers: &[f32; SMALL], block: &mut [u8; 24]) -> bool {
    let (codes, [scale, least]) = above_least(numbers, 31);
    put_fives(&codes, &mut block[4..]);
    put_half(block, 0, scale) && put_half(block, 2, least)
}

/// The largest number becomes one from 4 to less than 8, of which 6 is the largest code.
pub(super) fn mxfp4(numbers: &[f32; SMALL], block: &mut [u8; 17]) -> bool {
    let most = largest(numbers).abs();
    block[0] = match most > 0.0 {
        true => (most.log2().floor() - 2.0 + 127.0) as u8,
        false => 0,
    };
    let scale = super::half_of_power(block[0]);
    let code = |number: f32| {
        let distance = |code: i8| (f32::from(code) * scale - number).abs();
        let nearer = |best: usize, at: usize| match distance(DOUBLED[at]) < distance(DOUBLED[best])
        {
            true => at,
            false => best,
        };
        (1..DOUBLED.len()).fold(0, nearer) as u8
    };
    put_nibbles(&numbers.map(code), &mut block[1..]);
    true
}
