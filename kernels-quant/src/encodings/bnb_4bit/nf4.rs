//! Encoding in NF4 with double quantisation, as bitsandbytes encodes: blocks of 64 elements, whose scales are codes of
//! 8 bits in blocks of 256.
//!
//! Codes and scales are those of the package on a CPU, bit for bit. Its library looks up the codes of scales in a table of
//! 2^16 numbers, so that about one in a thousand is not the nearest. The offset of scales is their mean, which is rounded
//! once here; torch's sum in f32 may differ from it in the last bit.

use super::{ABSMAX, NESTED_ABSMAX, NESTED_QUANT_MAP, NF4, OF_NF4, QUANT_MAP, WEIGHT};
use crate::finite::refuse_infinite;
use crate::{Dtype, PartSpec, QuantError};

/// The number of elements of a block.
pub const BLOCK: usize = 64;

/// The number of scales of a nested block.
const NESTED: usize = 256;

/// The smallest size that numbers of a block are divided by.
const SMALLEST: f32 = 1e-38;

/// Encodes the numbers of whole blocks, or of the last blocks of a matrix. `codes` gets two elements a byte, and
/// `absmax` a scale for each block.
///
/// # Errors
///
/// Returns [`QuantError::Number`] if a number is infinite or NaN.
///
/// # Panics
///
/// Panics if `codes` has not half as many bytes as there are numbers, or `absmax` not as many elements as blocks, both
/// rounded up.
pub fn encode(numbers: &[f32], codes: &mut [u8], absmax: &mut [f32]) -> Result<(), QuantError> {
    assert!(
        codes.len() == numbers.len().div_ceil(2) && absmax.len() == numbers.len().div_ceil(BLOCK),
        "{} bytes and {} scales must fit {} numbers",
        codes.len(),
        absmax.len(),
        numbers.len()
    );
    refuse_infinite(&super::Bnb4Bit::Nf4, numbers)?;
    let blocks = numbers.chunks(BLOCK).zip(codes.chunks_mut(BLOCK / 2));
    for ((numbers, codes), absmax) in blocks.zip(absmax) {
        let block = Scaled::new(numbers);
        *absmax = block.absmax;
        // The spare half of the last byte is the code of 0.
        let code = |x: f32| code(&BOUNDS, block.scale(x));
        for (pair, byte) in numbers.chunks(2).zip(codes) {
            *byte = code(pair[0]) << 4 | code(pair.get(1).copied().unwrap_or(0.0));
        }
    }
    Ok(())
}

/// The scale of a block. The package multiplies whole blocks by its inverse, and divides the numbers of others.
struct Scaled {
    absmax: f32,
    divisor: f32,
    whole: bool,
}

impl Scaled {
    fn new(numbers: &[f32]) -> Self {
        let most = largest(numbers);
        let (divisor, whole) = (most.max(SMALLEST), numbers.len() == BLOCK);
        Self {
            absmax: if whole { most } else { divisor },
            divisor,
            whole,
        }
    }

    /// Returns a number from −1 to 1.
    fn scale(&self, number: f32) -> f32 {
        let scaled = match self.whole {
            true => number * (1.0 / self.divisor),
            false => number / self.divisor,
        };
        scaled.clamp(-1.0, 1.0)
    }
}

/// Returns the size of the largest number.
fn largest(numbers: &[f32]) -> f32 {
    numbers.iter().fold(0.0, |most: f32, x| most.max(x.abs()))
}

/// Returns the parts of a weight `[rows, columns]` in NF4, whose dtype was `stored` before.
pub fn parts(shape: [usize; 2], stored: Dtype) -> Vec<PartSpec> {
    let elements = shape[0] * shape[1];
    let blocks = elements.div_ceil(BLOCK);
    let part = |name, dtype, shape: &[usize]| PartSpec {
        name,
        dtype,
        shape: shape.into(),
    };
    let text = state(shape, stored, 0.0);
    vec![
        part(WEIGHT, Dtype::U8, &[elements.div_ceil(2), 1]),
        part(ABSMAX, Dtype::U8, &[blocks]),
        part(QUANT_MAP, Dtype::F32, &[NF4.len()]),
        part(NESTED_ABSMAX, Dtype::F32, &[blocks.div_ceil(NESTED)]),
        part(NESTED_QUANT_MAP, Dtype::F32, &[256]),
        part(OF_NF4, Dtype::U8, &[text.len()]),
    ]
}

/// Returns the bytes of the [`parts`] of a weight, from the codes and scales of [`encode`].
///
/// # Panics
///
/// Panics if there are no scales.
pub fn finish(shape: [usize; 2], stored: Dtype, codes: Vec<u8>, absmax: &[f32]) -> Vec<Vec<u8>> {
    let sum: f64 = absmax.iter().map(|&scale| f64::from(scale)).sum();
    assert!(!absmax.is_empty(), "a weight has at least one block");
    let offset = (sum / absmax.len() as f64) as f32;
    let map = dynamic_map();
    let bounds = bounds(&map);
    let (mut nested_codes, mut nested_absmax) = (Vec::with_capacity(absmax.len()), Vec::new());
    for scales in absmax.chunks(NESTED) {
        let moved: Vec<f32> = scales.iter().map(|scale| scale - offset).collect();
        let most = largest(&moved);
        nested_absmax.push(most);
        nested_codes.extend(moved.iter().map(|&x| match most {
            0.0 => 0,
            _ => code(&bounds, looked_up(x / most)),
        }));
    }
    vec![
        codes,
        nested_codes,
        bytes(&NF4),
        bytes(&nested_absmax),
        bytes(&map),
        state(shape, stored, offset).into_bytes(),
    ]
}

/// Returns the number whose code the package takes for one from −1 to 1: the nearest of 2^16, at equal distances.
fn looked_up(number: f32) -> f32 {
    let at = ((number + 1.0) * 32767.5 + 0.5) as u16;
    f32::from(at) * (2.0 / 65535.0) - 1.0
}

/// Returns the middles between the numbers of a table.
fn bounds(table: &[f32]) -> Vec<f32> {
    let pairs = table.windows(2);
    pairs.map(|pair| (pair[0] + pair[1]) / 2.0).collect()
}

/// The middles between the numbers of NF4.
const BOUNDS: [f32; 15] = {
    let mut bounds = [0.0; 15];
    let mut at = 0;
    while at < 15 {
        bounds[at] = (NF4[at] + NF4[at + 1]) / 2.0;
        at += 1;
    }
    bounds
};

/// Returns the code of the nearest number, or of the smaller one of two.
fn code(bounds: &[f32], number: f32) -> u8 {
    bounds.partition_point(|&bound| bound < number) as u8
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Returns the settings of a weight. Their length does not depend on the offset.
fn state(shape: [usize; 2], stored: Dtype, offset: f32) -> String {
    let [rows, columns] = shape;
    let dtype = match stored {
        Dtype::F16 => "float16",
        Dtype::BF16 => "bfloat16",
        _ => "float32",
    };
    // The longest number has 24 characters.
    let offset = serde_json::Value::from(f64::from(offset)).to_string();
    format!(
        "{{\"quant_type\": \"nf4\", \"blocksize\": {BLOCK}, \"dtype\": \"{dtype}\", \"shape\": [{rows}, {columns}], \
         \"nested_blocksize\": {NESTED}, \"nested_dtype\": \"float32\", \"nested_offset\": {offset:<24}}}"
    )
}

/// Returns the table of 8 bits: 0, 1, and for each of seven decades twice as many numbers as for the one below it, with
/// both signs (Dettmers et al., 2022: 8-bit Optimizers via Block-wise Quantization).
fn dynamic_map() -> Vec<f32> {
    let mut map = vec![0.0, 1.0];
    for decade in 0..7_u8 {
        let count = 1_u8 << decade;
        // As torch.linspace computes it: from both ends, with one rounding.
        let (start, end) = (0.1_f32, 1.0_f32);
        let step = (end - start) / f32::from(count);
        let edge = |at: u8| match at < count.div_ceil(2) {
            true => step.mul_add(f32::from(at), start),
            false => (-step).mul_add(f32::from(count - at), end),
        };
        let power = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0_f32][usize::from(decade)];
        for at in 0..count {
            let middle = (edge(at) + edge(at + 1)) / 2.0 * power;
            map.extend([middle, -middle]);
        }
    }
    map.sort_by(f32::total_cmp);
    map
}
