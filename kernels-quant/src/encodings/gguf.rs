//! Blocks of GGUF files: groups of numbers with a common scale, in the layouts of ggml.
//!
//! A number is its scale times a small integer, in some layouts plus a common minimum. The factors are half-precision
//! floats, and the result is what ggml computes in f32, without fused operations: the same bits.
//!
//! A weight has one part, `blocks`: bytes of shape `[rows, bytes of a row]`.

mod encode;
mod fit;
mod groups;
mod weighted;

use std::fmt;
use std::ops::Range;

use half::f16;

use crate::encoding::{Declared, DecodeRows};
use crate::finite::{refuse_infinite, too_large};
use crate::parts::Parts;
use crate::{Codes, Dtype, QuantError};

/// The number of elements of a small block.
const SMALL: usize = 32;

/// The number of elements of a large block.
const LARGE: usize = 256;

/// Declares the layouts: ggml's name, the numbers of bytes and elements, and the functions that decode and encode a
/// block.
macro_rules! blocks {
    ($(
        $(#[$doc:meta])*
        $block:ident = $name:literal, $bytes:literal, $elements:ident, $decode:ident, $encode:path;
    )*) => {
        /// A layout of blocks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Block {
            $($(#[$doc])* $block,)*
        }

        impl Block {
            /// Every layout.
            pub const ALL: &[Self] = &[$(Self::$block),*];

            /// Returns ggml's name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$block => $name,)*
                }
            }

            /// Returns the number of elements.
            pub fn elements(self) -> usize {
                match self {
                    $(Self::$block => $elements,)*
                }
            }

            /// Returns the number of bytes.
            pub fn bytes(self) -> usize {
                match self {
                    $(Self::$block => $bytes,)*
                }
            }

            /// Decodes blocks that follow each other.
            ///
            /// # Panics
            ///
            /// Panics if `bytes` is not a whole number of blocks, or if `out` does not have as many elements as the blocks.
            pub fn decode(self, bytes: &[u8], out: &mut [f32]) {
                match self {
                    $(Self::$block => each::<$bytes, $elements>(bytes, $decode, out),)*
                }
            }

            /// Encodes numbers into blocks that follow each other, as ggml does without an importance matrix: to the bit
            /// of a build of ggml that doesn't fuse products and sums, which is any for plain x86-64. Only MXFP4 differs,
            /// in blocks of numbers below 2^-125, whose powers wrap around in ggml.
            ///
            /// # Errors
            ///
            /// Returns [`QuantError::Number`] if a number is infinite or NaN, or so large that the scale of its block is
            /// not finite as a half-precision number.
            ///
            /// # Panics
            ///
            /// Panics if `numbers` is not a whole number of blocks, or if `bytes` does not have the size of that many
            /// blocks.
            pub fn encode(self, numbers: &[f32], bytes: &mut [u8]) -> Result<(), QuantError> {
                match self {
                    $(Self::$block => {
                        let encode = |_, own: &_, block: &mut _| $encode(own, block);
                        self.encode_each::<$bytes, $elements>(numbers, encode, bytes)
                    })*
                }
            }
        }
    };
}

blocks! {
    /// 32 numbers of 8 bits.
    Q8_0 = "Q8_0", 34, SMALL, q8_0, encode::q8_0;
    /// 32 numbers of 4 bits.
    Q4_0 = "Q4_0", 18, SMALL, q4_0, encode::q4_0;
    /// 32 numbers of 4 bits and their minimum.
    Q4_1 = "Q4_1", 20, SMALL, q4_1, encode::q4_1;
    /// 32 numbers of 5 bits.
    Q5_0 = "Q5_0", 22, SMALL, q5_0, encode::q5_0;
    /// 32 numbers of 5 bits and their minimum.
    Q5_1 = "Q5_1", 24, SMALL, q5_1, encode::q5_1;
    /// 256 numbers of 4 bits, in groups of 32 with scales and minima of 6 bits.
    Q4K = "Q4_K", 144, LARGE, q4_k, groups::q4_k;
    /// 256 numbers of 5 bits, in groups of 32 with scales and minima of 6 bits.
    Q5K = "Q5_K", 176, LARGE, q5_k, groups::q5_k;
    /// 256 numbers of 6 bits, in groups of 16 with scales of 8 bits.
    Q6K = "Q6_K", 210, LARGE, q6_k, groups::q6_k;
    /// 32 floats of 4 bits with a common power of two.
    Mxfp4 = "MXFP4", 17, SMALL, mxfp4, encode::mxfp4;
}

impl Block {
    /// Encodes each block by `encode`, which gets its number, too.
    fn encode_each<const BYTES: usize, const ELEMENTS: usize>(
        self,
        numbers: &[f32],
        encode: impl Fn(usize, &[f32; ELEMENTS], &mut [u8; BYTES]) -> bool,
        bytes: &mut [u8],
    ) -> Result<(), QuantError> {
        let (blocks, part) = numbers.as_chunks::<ELEMENTS>();
        let (places, rest) = bytes.as_chunks_mut::<BYTES>();
        assert!(
            part.is_empty() && rest.is_empty() && blocks.len() == places.len(),
            "{} numbers must be a whole number of blocks that take {} bytes",
            numbers.len(),
            places.len() * BYTES + rest.len()
        );
        refuse_infinite(&self, numbers)?;
        for (at, (block, place)) in blocks.iter().zip(places).enumerate() {
            if !encode(at, block, place) {
                let size = |at: &usize| numbers[*at].abs();
                let block = at * ELEMENTS..(at + 1) * ELEMENTS;
                let largest = block.max_by(|a, b| size(a).total_cmp(&size(b)));
                return Err(too_large(&self, numbers, largest.unwrap_or(0)));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Declared for Block {
    fn part_names(&self) -> &'static [&'static str] {
        &["blocks"]
    }

    fn codes(&self) -> &'static str {
        "blocks"
    }

    fn decoder<'a>(
        &self,
        shape: [usize; 2],
        parts: &mut Parts<'a>,
    ) -> Result<Box<dyn DecodeRows + 'a>, QuantError> {
        let [rows, columns] = shape;
        if !columns.is_multiple_of(self.elements()) {
            let problem = format!("rows are whole blocks of {}", self.elements());
            return Err(self.bad_shape(shape, problem));
        }
        let row = columns / self.elements() * self.bytes();
        Ok(Box::new(Rows {
            block: *self,
            row,
            bytes: parts.bytes("blocks", Dtype::U8, &[rows, row])?,
        }))
    }
}

#[derive(Debug)]
struct Rows<'a> {
    block: Block,
    /// The number of bytes of a row.
    row: usize,
    bytes: &'a [u8],
}

impl DecodeRows for Rows<'_> {
    fn decode(&self, rows: Range<usize>, out: &mut [f32]) {
        let bytes = &self.bytes[rows.start * self.row..rows.end * self.row];
        self.block.decode(bytes, out);
    }

    fn codes(&self) -> Option<Codes<'_>> {
        Some(Codes::Blocks {
            block: self.block,
            bytes: self.bytes,
        })
    }
}

fn each<const BYTES: usize, const ELEMENTS: usize>(
    bytes: &[u8],
    decode: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]),
    out: &mut [f32],
) {
    let (blocks, part) = bytes.as_chunks::<BYTES>();
    let (places, rest) = out.as_chunks_mut::<ELEMENTS>();
    assert!(
        part.is_empty() && rest.is_empty() && blocks.len() == places.len(),
        "{} bytes must be a whole number of blocks that hold {} elements",
        bytes.len(),
        places.len() * ELEMENTS + rest.len()
    );
    for (block, place) in blocks.iter().zip(places) {
        decode(block, place);
    }
}

/// Returns `N` bytes from an offset on.
fn piece<const N: usize>(block: &[u8], at: usize) -> &[u8; N] {
    block[at..]
        .first_chunk()
        .expect("offsets are inside of the block")
}

/// Reads a half-precision number at an offset.
fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes(*piece(block, at)).to_f32()
}

/// Returns the numbers of 4 bits in 16 bytes: the lower halves come first.
fn nibbles(bytes: &[u8; SMALL / 2]) -> [u8; SMALL] {
    let mut numbers = [0; SMALL];
    let (low, high) = numbers.split_at_mut(SMALL / 2);
    for ((byte, low), high) in bytes.iter().zip(low).zip(high) {
        (*low, *high) = (byte & 0xf, byte >> 4);
    }
    numbers
}

/// Returns the numbers of 5 bits in 20 bytes: their highest bits come first.
fn fives(bytes: &[u8; 20]) -> [u8; SMALL] {
    let high = u32::from_le_bytes(*piece(bytes, 0));
    let mut numbers = nibbles(piece(bytes, 4));
    for (at, number) in numbers.iter_mut().enumerate() {
        *number |= ((high >> at & 1) as u8) << 4;
    }
    numbers
}

/// Writes a number for each integer.
fn write(integers: &[u8], out: &mut [f32], number: impl Fn(u8) -> f32) {
    for (&integer, place) in integers.iter().zip(out) {
        *place = number(integer);
    }
}

fn q8_0(block: &[u8; 34], out: &mut [f32; SMALL]) {
    let scale = half(block, 0);
    write(&block[2..], out, |number| f32::from(number as i8) * scale);
}

fn q4_0(block: &[u8; 18], out: &mut [f32; SMALL]) {
    let scale = half(block, 0);
    let number = |number| scale * (f32::from(number) - 8.0);
    write(&nibbles(piece(block, 2)), out, number);
}

fn q4_1(block: &[u8; 20], out: &mut [f32; SMALL]) {
    let (scale, least) = (half(block, 0), half(block, 2));
    let number = |number| scale * f32::from(number) + least;
    write(&nibbles(piece(block, 4)), out, number);
}

fn q5_0(block: &[u8; 22], out: &mut [f32; SMALL]) {
    let scale = half(block, 0);
    let number = |number| scale * (f32::from(number) - 16.0);
    write(&fives(piece(block, 2)), out, number);
}

fn q5_1(block: &[u8; 24], out: &mut [f32; SMALL]) {
    let (scale, least) = (half(block, 0), half(block, 2));
    let number = |number| scale * f32::from(number) + least;
    write(&fives(piece(block, 4)), out, number);
}

/// Returns the scale and the minimum of a group, numbers of 6 bits. Of the last four groups, the upper two bits are those
/// of the bytes of the first four.
fn scale_and_least(packed: &[u8; 12], group: usize) -> [f32; 2] {
    let [scale, least] = match group {
        0..4 => [packed[group] & 63, packed[group + 4] & 63],
        _ => [
            packed[group + 4] & 0xf | packed[group - 4] >> 6 << 4,
            packed[group + 4] >> 4 | packed[group] >> 6 << 4,
        ],
    };
    [scale.into(), least.into()]
}

/// Writes numbers in groups of 32, with the scales and minima at the start of the block. Two groups share 32 bytes, the
/// first in the lower halves. `fifth` returns the fifth bit of a number, at its place.
fn grouped(
    block: &[u8],
    low: &[u8; LARGE / 2],
    fifth: impl Fn(usize, usize) -> u8,
    out: &mut [f32; LARGE],
) {
    let (scale, least) = (half(block, 0), half(block, 2));
    for (group, places) in out.chunks_exact_mut(SMALL).enumerate() {
        let [of_scale, of_least] = scale_and_least(piece(block, 4), group);
        let (scale, least) = (scale * of_scale, least * of_least);
        let low: &[u8; SMALL] = piece(low, group / 2 * SMALL);
        let shift = 4 * (group % 2);
        for (at, (byte, place)) in low.iter().zip(places).enumerate() {
            let number = byte >> shift & 0xf | fifth(group, at);
            *place = scale * f32::from(number) - least;
        }
    }
}

fn q4_k(block: &[u8; 144], out: &mut [f32; LARGE]) {
    grouped(block, piece(block, 16), |_, _| 0, out);
}

fn q5_k(block: &[u8; 176], out: &mut [f32; LARGE]) {
    let high: &[u8; SMALL] = piece(block, 16);
    let fifth = |group, at: usize| (high[at] >> group & 1) << 4;
    grouped(block, piece(block, 48), fifth, out);
}

fn q6_k(block: &[u8; 210], out: &mut [f32; LARGE]) {
    let scales: &[u8; 16] = piece(block, 192);
    let scale = half(block, 208);
    for (group, places) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        // Eight groups of 16 share 64 bytes of lower and 32 bytes of upper bits.
        let (part, pair, half) = (group / 8, group / 2 % 4, group % 2);
        let low: &[u8; 16] = piece(block, part * 64 + pair % 2 * 32 + half * 16);
        let high: &[u8; 16] = piece(block, 128 + part * 32 + half * 16);
        let scale = scale * f32::from(scales[group] as i8);
        for ((low, high), place) in low.iter().zip(high).zip(places) {
            let number = low >> (4 * (pair / 2)) & 0xf | (high >> (2 * pair) & 3) << 4;
            *place = scale * (f32::from(number) - 32.0);
        }
    }
}

/// Twice the numbers of E2M1, as ggml stores them. As integers, they have one zero.
const DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Returns 2^(exponent − 128), half of what the exponent means elsewhere. The first two are subnormal.
fn half_of_power(exponent: u8) -> f32 {
    match exponent {
        0..2 => f32::from_bits(0x0020_0000 << exponent),
        _ => f32::from_bits((u32::from(exponent) - 1) << 23),
    }
}

fn mxfp4(block: &[u8; 17], out: &mut [f32; SMALL]) {
    let scale = half_of_power(block[0]);
    let number = |number| f32::from(DOUBLED[usize::from(number)]) * scale;
    write(&nibbles(piece(block, 1)), out, number);
}
