//! Weights quantised in NF4 with double quantisation, in the parts of bitsandbytes (Dettmers et al., 2023: QLoRA).

use crate::encodings::bnb_4bit;
use crate::{Bnb4Bit, Dtype, OwnedPart, OwnedWeight};

/// The number of elements of a block, and of scales of a block of these.
const BLOCK: usize = 64;
const NESTED: usize = 256;

/// The smallest size that numbers of a block are divided by.
const SMALLEST: f32 = 1e-38;

impl OwnedWeight {
    /// Quantises a matrix `[rows, columns]`, in row-major order: each number becomes the nearest of 16, of which the largest
    /// size of 64 numbers is the unit. These units, less their mean, are then in 8 bits with a common factor of 256.
    ///
    /// # Panics
    ///
    /// Panics if the shape is empty, if there is another number of numbers, or if one is infinite or NaN.
    pub fn nf4(shape: [usize; 2], numbers: &[f32]) -> Self {
        assert!(
            !numbers.is_empty() && shape[0].checked_mul(shape[1]) == Some(numbers.len()),
            "{} numbers are no matrix of shape {shape:?}",
            numbers.len()
        );
        assert!(
            numbers.iter().all(|number| number.is_finite()),
            "only finite numbers are quantised"
        );
        let table = bnb_4bit::NF4;
        let bounds = bounds(&table);
        let mut codes = vec![0_u8; numbers.len().div_ceil(2)];
        let mut scales = Vec::with_capacity(numbers.len().div_ceil(BLOCK));
        for (numbers, codes) in numbers.chunks(BLOCK).zip(codes.chunks_mut(BLOCK / 2)) {
            let scale = largest(numbers);
            let of = |number: f32| nearest(&bounds, number / scale);
            for (pair, byte) in numbers.chunks(2).zip(codes) {
                // The spare half of the last byte is the code of 0.
                *byte = of(pair[0]) << 4 | pair.get(1).map_or(of(0.0), |&second| of(second));
            }
            scales.push(scale);
        }
        let parts = parts(shape, codes, &scales);
        Self::new(Bnb4Bit::Nf4, shape, parts).expect("the parts are made for the shape")
    }
}

/// Returns the largest size of some numbers, or the smallest divisor.
fn largest(numbers: &[f32]) -> f32 {
    numbers
        .iter()
        .fold(SMALLEST, |most, number| most.max(number.abs()))
}

fn parts(shape: [usize; 2], codes: Vec<u8>, scales: &[f32]) -> Vec<OwnedPart> {
    let map = dynamic_map();
    let map_bounds = bounds(&map);
    let sum: f64 = scales.iter().map(|&scale| f64::from(scale)).sum();
    let offset = (sum / scales.len() as f64) as f32;
    let (mut nested, mut factors) = (Vec::with_capacity(scales.len()), Vec::new());
    for scales in scales.chunks(NESTED) {
        let moved: Vec<f32> = scales.iter().map(|scale| scale - offset).collect();
        let factor = largest(&moved);
        nested.extend(moved.iter().map(|x| nearest(&map_bounds, x / factor)));
        factors.push(factor);
    }
    let text = format!(
        r#"{{"quant_type": "nf4", "blocksize": {BLOCK}, "shape": {shape:?}, "nested_blocksize": {NESTED}, "nested_offset": {offset:?}}}"#
    );
    let bytes = |name: &str, shape: &[usize], bytes| part(name, Dtype::U8, shape, bytes);
    let singles = |name: &str, numbers: &[f32]| {
        let bytes = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        part(name, Dtype::F32, &[numbers.len()], bytes)
    };
    vec![
        bytes(bnb_4bit::WEIGHT, &[codes.len(), 1], codes),
        bytes(bnb_4bit::ABSMAX, &[nested.len()], nested),
        singles(bnb_4bit::QUANT_MAP, &bnb_4bit::NF4),
        singles(bnb_4bit::NESTED_ABSMAX, &factors),
        singles(bnb_4bit::NESTED_QUANT_MAP, &map),
        bytes(bnb_4bit::OF_NF4, &[text.len()], text.into_bytes()),
    ]
}

fn part(name: &str, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) -> OwnedPart {
    OwnedPart {
        name: name.into(),
        dtype,
        shape: shape.into(),
        bytes,
    }
}

/// Returns the middles between the numbers of a table.
fn bounds(table: &[f32]) -> Vec<f32> {
    let pairs = table.windows(2);
    pairs.map(|pair| (pair[0] + pair[1]) / 2.0).collect()
}

/// Returns the code of the nearest number.
fn nearest(bounds: &[f32], number: f32) -> u8 {
    bounds.partition_point(|&bound| bound < number) as u8
}

/// Returns the dynamic map of 8 bits (Dettmers et al., 2022: 8-bit Optimizers via Block-wise Quantization): 0, 1, and the
/// middles of equal parts of each of seven decades, twice as many as in the decade below, with both signs.
fn dynamic_map() -> Vec<f32> {
    let mut map = vec![0.0, 1.0];
    for decade in 0..7_i32 {
        let count = 1 << decade;
        let power = 10_f64.powi(decade - 6);
        for at in 0..count {
            let middle = 0.1 + 0.9 * (f64::from(at) + 0.5) / f64::from(count);
            let number = (middle * power) as f32;
            map.extend([number, -number]);
        }
    }
    map.sort_by(f32::total_cmp);
    map
}
