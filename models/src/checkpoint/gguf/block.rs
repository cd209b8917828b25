//! Quantised blocks: groups of numbers with a common scale, in the layouts of ggml.
//!
//! A number is its scale times a small integer, in some layouts plus a common minimum. The factors are half-precision
//! floats, and the result is what ggml computes in f32, without fused operations: the same bits.

use burn::tensor::f16;
use gguf_rs_lib::tensor::TensorType;

/// A layout of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    /// 32 numbers of 8 bits.
    Q8_0,
    /// 32 numbers of 4 bits.
    Q4_0,
    /// 32 numbers of 4 bits and their minimum.
    Q4_1,
    /// 32 numbers of 5 bits.
    Q5_0,
    /// 32 numbers of 5 bits and their minimum.
    Q5_1,
    /// 256 numbers of 4 bits, in groups of 32 with scales and minima of 6 bits.
    Q4K,
    /// 256 numbers of 5 bits, in groups of 32 with scales and minima of 6 bits.
    Q5K,
    /// 256 numbers of 6 bits, in groups of 16 with scales of 8 bits.
    Q6K,
}

/// The number of elements of a small block.
const SMALL: usize = 32;

/// The number of elements of a large block.
const LARGE: usize = 256;

impl Block {
    pub(super) fn of(kind: TensorType) -> Option<Self> {
        match kind {
            TensorType::Q8_0 => Some(Self::Q8_0),
            TensorType::Q4_0 => Some(Self::Q4_0),
            TensorType::Q4_1 => Some(Self::Q4_1),
            TensorType::Q5_0 => Some(Self::Q5_0),
            TensorType::Q5_1 => Some(Self::Q5_1),
            TensorType::Q4_K => Some(Self::Q4K),
            TensorType::Q5_K => Some(Self::Q5K),
            TensorType::Q6_K => Some(Self::Q6K),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Q8_0 => "Q8_0",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
        }
    }

    /// Returns the number of elements.
    pub(crate) fn elements(self) -> usize {
        match self {
            Self::Q4K | Self::Q5K | Self::Q6K => LARGE,
            _ => SMALL,
        }
    }

    /// Returns the number of bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
        }
    }

    /// Calls `take` with the numbers of each block, in order.
    ///
    /// # Panics
    ///
    /// Panics if the bytes are no whole number of blocks. The caller has checked them.
    pub(crate) fn decode(self, bytes: &[u8], take: impl FnMut(&[f32])) {
        match self {
            Self::Q8_0 => each(bytes, q8_0, take),
            Self::Q4_0 => each(bytes, q4_0, take),
            Self::Q4_1 => each(bytes, q4_1, take),
            Self::Q5_0 => each(bytes, q5_0, take),
            Self::Q5_1 => each(bytes, q5_1, take),
            Self::Q4K => each(bytes, q4_k, take),
            Self::Q5K => each(bytes, q5_k, take),
            Self::Q6K => each(bytes, q6_k, take),
        }
    }
}

fn each<const BYTES: usize, const ELEMENTS: usize>(
    bytes: &[u8],
    decode: impl Fn(&[u8; BYTES]) -> [f32; ELEMENTS],
    mut take: impl FnMut(&[f32]),
) {
    let (blocks, rest) = bytes.as_chunks::<BYTES>();
    assert!(rest.is_empty(), "a part of a block");
    for block in blocks {
        take(&decode(block));
    }
}

/// Reads a half-precision number at an offset.
fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Returns the numbers of 4 bits in 16 bytes: the lower halves come first.
fn nibbles(bytes: &[u8]) -> [u8; SMALL] {
    std::array::from_fn(|at| match at < SMALL / 2 {
        true => bytes[at] & 0xf,
        false => bytes[at - SMALL / 2] >> 4,
    })
}

/// Returns the numbers of 5 bits in 20 bytes: their highest bits come first.
fn fives(bytes: &[u8]) -> [u8; SMALL] {
    let high = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let low = nibbles(&bytes[4..]);
    std::array::from_fn(|at| low[at] | ((high >> at & 1) as u8) << 4)
}

fn q8_0(block: &[u8; 34]) -> [f32; SMALL] {
    let scale = half(block, 0);
    std::array::from_fn(|at| f32::from(block[2 + at] as i8) * scale)
}

fn q4_0(block: &[u8; 18]) -> [f32; SMALL] {
    let scale = half(block, 0);
    nibbles(&block[2..]).map(|number| scale * (f32::from(number) - 8.0))
}

fn q4_1(block: &[u8; 20]) -> [f32; SMALL] {
    let (scale, least) = (half(block, 0), half(block, 2));
    nibbles(&block[4..]).map(|number| scale * f32::from(number) + least)
}

fn q5_0(block: &[u8; 22]) -> [f32; SMALL] {
    let scale = half(block, 0);
    fives(&block[2..]).map(|number| scale * (f32::from(number) - 16.0))
}

fn q5_1(block: &[u8; 24]) -> [f32; SMALL] {
    let (scale, least) = (half(block, 0), half(block, 2));
    fives(&block[4..]).map(|number| scale * f32::from(number) + least)
}

/// Returns the scale and the minimum of a group, numbers of 6 bits. Of the last four groups, the upper two bits are those
/// of the bytes of the first four.
fn scale_and_least(packed: &[u8], group: usize) -> [f32; 2] {
    let [scale, least] = match group {
        0..4 => [packed[group] & 63, packed[group + 4] & 63],
        _ => [
            packed[group + 4] & 0xf | packed[group - 4] >> 6 << 4,
            packed[group + 4] >> 4 | packed[group] >> 6 << 4,
        ],
    };
    [scale.into(), least.into()]
}

/// Returns 256 numbers of small integers in groups of 32, with the scales and minima at the start of the block.
fn grouped(block: &[u8], number: impl Fn(usize, usize) -> u8) -> [f32; LARGE] {
    let (scale, least) = (half(block, 0), half(block, 2));
    let factors: [[f32; 2]; LARGE / SMALL] = std::array::from_fn(|group| {
        let [of_scale, of_least] = scale_and_least(&block[4..16], group);
        [scale * of_scale, least * of_least]
    });
    std::array::from_fn(|at| {
        let [scale, least] = factors[at / SMALL];
        scale * f32::from(number(at / SMALL, at % SMALL)) - least
    })
}

/// Returns a number of 4 bits. Two groups share 32 bytes, the first in the lower halves.
fn nibble(bytes: &[u8], group: usize, at: usize) -> u8 {
    bytes[group / 2 * SMALL + at] >> (4 * (group % 2)) & 0xf
}

fn q4_k(block: &[u8; 144]) -> [f32; LARGE] {
    grouped(block, |group, at| nibble(&block[16..], group, at))
}

fn q5_k(block: &[u8; 176]) -> [f32; LARGE] {
    let (high, low) = (&block[16..48], &block[48..]);
    grouped(block, |group, at| {
        nibble(low, group, at) | (high[at] >> group & 1) << 4
    })
}

fn q6_k(block: &[u8; 210]) -> [f32; LARGE] {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let scale = half(block, 208);
    let scales: [f32; 16] = std::array::from_fn(|group| scale * f32::from(scales[group] as i8));
    std::array::from_fn(|at| {
        // Four groups of 32 share 64 bytes of lower and 32 bytes of upper bits.
        let (part, group, place) = (at / 128, at / SMALL % 4, at % SMALL);
        let low = low[part * 64 + group % 2 * SMALL + place] >> (4 * (group / 2)) & 0xf;
        let high = high[part * SMALL + place] >> (2 * group) & 3;
        scales[at / 16] * (f32::from(low | high << 4) - 32.0)
    })
}
