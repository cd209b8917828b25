//! Bicubic resizing in integers, with antialiasing, bit for bit as two packages of Python do it.

use crate::{Error, Picture};
use std::borrow::Cow;

/// The package whose bicubic resizing is computed. They differ in the precision of weights and in the order of passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resizer {
    /// Pillow 13, for the processors of transformers whose class doesn't end in `Fast`. The sizes decide whether it
    /// begins with the width or the height.
    Pillow,
    /// Pillow up to 12, which always begins with the width. Processors take it only if a caller chooses it.
    Pillow12,
    /// torchvision on 8 bits, for processors whose class ends in `Fast`. transformers 5 takes it for both where it is
    /// installed.
    Torchvision,
}

/// The fractional bits of Pillow's weights.
const PILLOW_BITS: u32 = 22;

/// Half of the width of the filter, in pixels of the smaller picture.
const SUPPORT: f64 = 2.0;

impl Resizer {
    /// Resizes a picture to a width and a height, in two passes that both round to 8 bits. Weights are those of a cubic
    /// with a = −0.5, widened where the picture shrinks, and cut off at borders.
    ///
    /// # Errors
    /// Returns an error if the new size has no pixels.
    pub fn resize(self, picture: &Picture, to: [usize; 2]) -> Result<Picture, Error> {
        if to.contains(&0) {
            let ([width, height], [columns, rows]) = (picture.size(), to);
            let problem = format!("{width}×{height} pixels can't be resized to {columns}×{rows}");
            return Err(Error::picture("a picture")(problem));
        }
        let passes = match self.begins_with_height(picture.size(), to) {
            true => [1, 0],
            false => [0, 1],
        };
        let (mut size, mut rgb) = (picture.size(), Cow::Borrowed(picture.rgb()));
        for side in passes
            .into_iter()
            .filter(|side| picture.size()[*side] != to[*side])
        {
            let taps = self.taps(size[side], to[side]);
            rgb = Cow::Owned(match side {
                0 => across(&rgb, size[0], &taps),
                _ => along(&rgb, size[0], &taps),
            });
            size[side] = to[side];
        }
        Picture::of_rgb(size, rgb.into_owned())
    }

    /// Returns `true` if the first pass changes the height: with Pillow, if that shrinks by more than twice the pixels
    /// by which the width does. The rule is measured, and the order matters, as the first pass cuts off at 0 and 255.
    fn begins_with_height(self, from: [usize; 2], to: [usize; 2]) -> bool {
        let [narrower, lower] = [0, 1].map(|side| from[side].saturating_sub(to[side]));
        self == Self::Pillow && lower > narrower.saturating_mul(2)
    }

    fn taps(self, from: usize, to: usize) -> Taps {
        let scale = from as f64 / to as f64;
        let widened = scale.max(1.0);
        let reach = SUPPORT * widened;
        let mut taps = Vec::with_capacity(to);
        for place in 0..to {
            let center = (place as f64 + 0.5) * scale;
            // Casts round towards zero, and negative numbers become zero.
            let start = (center - reach + 0.5) as usize;
            let end = ((center + reach + 0.5) as usize).min(from);
            let weight = |at: usize| cubic((at as f64 - center + 0.5) * (1.0 / widened));
            let mut weights: Vec<f64> = (start..end).map(weight).collect();
            let sum: f64 = weights.iter().sum();
            if sum != 0.0 {
                weights.iter_mut().for_each(|weight| *weight /= sum);
            }
            taps.push((start, weights));
        }
        self.in_integers(taps)
    }

    fn in_integers(self, taps: Vec<(usize, Vec<f64>)>) -> Taps {
        let bits = match self {
            Self::Pillow | Self::Pillow12 => PILLOW_BITS,
            Self::Torchvision => {
                let all = taps.iter().flat_map(|(_, weights)| weights);
                bits_of_16(all.copied().fold(0.0, f64::max))
            }
        };
        let one = f64::from(1u32 << bits);
        // Halves round away from zero.
        let integer = |weight: f64| (weight * one + 0.5f64.copysign(weight)) as i32;
        let list = taps.into_iter();
        let list = list.map(|(start, weights)| (start, weights.into_iter().map(integer).collect()));
        Taps {
            list: list.collect(),
            bits,
        }
    }
}

/// Returns the most fractional bits with which the largest weight is a positive integer of 16 bits.
fn bits_of_16(largest: f64) -> u32 {
    let fits = |bits: u32| ((largest * f64::from(1u32 << (bits + 1)) + 0.5) as i32) < 1 << 15;
    (0..PILLOW_BITS)
        .find(|bits| !fits(*bits))
        .unwrap_or(PILLOW_BITS)
}

/// The cubic convolution of Keys with a = −0.5.
fn cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    match x.abs() {
        x if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
        x if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
        _ => 0.0,
    }
}

/// The pixels that each new pixel is a sum of: the first, and a weight for each.
struct Taps {
    list: Vec<(usize, Vec<i32>)>,
    bits: u32,
}

impl Taps {
    /// Rounds a sum that began with [`Self::half`].
    fn rounded(&self, sum: i32) -> u8 {
        (sum >> self.bits).clamp(0, 255) as u8
    }

    fn half(&self) -> i32 {
        1 << (self.bits - 1)
    }
}

/// Changes the width.
fn across(rgb: &[u8], width: usize, taps: &Taps) -> Vec<u8> {
    let mut resized = Vec::with_capacity(rgb.len() / width * taps.list.len());
    for row in rgb.chunks_exact(3 * width) {
        for (start, weights) in &taps.list {
            let mut sums = [taps.half(); 3];
            for (pixel, weight) in row[3 * start..].chunks_exact(3).zip(weights) {
                for (sum, sample) in sums.iter_mut().zip(pixel) {
                    *sum += weight * i32::from(*sample);
                }
            }
            resized.extend(sums.map(|sum| taps.rounded(sum)));
        }
    }
    resized
}

/// Changes the height.
fn along(rgb: &[u8], width: usize, taps: &Taps) -> Vec<u8> {
    let length = 3 * width;
    let mut resized = Vec::with_capacity(length * taps.list.len());
    let mut sums = vec![0; length];
    for (start, weights) in &taps.list {
        sums.fill(taps.half());
        for (row, weight) in rgb[length * start..].chunks_exact(length).zip(weights) {
            for (sum, sample) in sums.iter_mut().zip(row) {
                *sum += weight * i32::from(*sample);
            }
        }
        resized.extend(sums.iter().map(|sum| taps.rounded(*sum)));
    }
    resized
}
