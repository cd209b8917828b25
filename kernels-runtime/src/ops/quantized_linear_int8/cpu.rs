//! The product on Flex: [`kernels_simd::quantized::int8`] on its tensors.

use super::{KEY, OwnedWeight, QuantizedLinearInt8Backend};
use crate::cpu::{BASE, tensor, view};
use crate::ops::quantized_linear::set_last;
use crate::registry::{FloatType, Gradient, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use kernels_quant::gguf::Block;
use kernels_quant::{Dtype, Part, QuantizedWeight};
use kernels_simd::quantized::int8;
use kernels_simd::{Values, View};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    name: super::IMPLEMENTATION,
    dtypes: &[FloatType::F32, FloatType::Bf16, FloatType::F16],
    gradient: Gradient::None,
    accepts: |key| matches!(key, SemanticsKey::Custom(key) if *key == KEY),
    ..BASE
};

impl QuantizedLinearInt8Backend for Flex {
    fn quantized_linear_int8(x: FlexTensor, weight: OwnedWeight) -> FlexTensor {
        let mut shape = x.layout().shape().clone();
        let [outputs, _] = weight.shape();
        let y = int8::forward(&view(&x.to_contiguous()), &weight.view());
        set_last(&mut shape, outputs);
        tensor(y, shape)
    }
}

/// The numbers of rows and outputs, and that of inputs.
const COUNT: usize = 32;
const INPUTS: usize = 1024;

/// Returns the error of rounding rows on this machine: the distance of the kernel's results from the products of rows
/// that are not rounded, in f64, relative to their size (root mean squares). Rows and weight, in Q8_0, are normally
/// distributed.
pub fn measured_error() -> f64 {
    let (x, w) = (normal(1), normal(2));
    let shape = [COUNT, INPUTS];
    let block = Block::Q8_0;
    let row = INPUTS / block.elements() * block.bytes();
    let mut bytes = vec![0; COUNT * row];
    block
        .encode(&w, &mut bytes)
        .expect("the numbers are finite");
    let of_bytes = [COUNT, row];
    let blocks = [("blocks", Part::new(Dtype::U8, &of_bytes, &bytes))];
    let weight = QuantizedWeight::new(block, shape, blocks).expect("rows are whole blocks");
    let mut decoded = vec![0.0; COUNT * INPUTS];
    weight.decode_rows(0..COUNT, &mut decoded);
    let Values::F32(y) = int8::forward(&View::whole(&x, &shape), &weight) else {
        unreachable!("results have the type of rows")
    };
    let rows = x.chunks_exact(INPUTS);
    let exact = rows.flat_map(|row| decoded.chunks_exact(INPUTS).map(move |w| dot(row, w)));
    let squares = y.iter().zip(exact).map(|(y, exact)| {
        let error = f64::from(*y) - exact;
        [error * error, exact * exact]
    });
    let [errors, sizes] = squares.fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d]);
    (errors / sizes).sqrt()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    products.sum()
}

/// Returns numbers that are nearly normally distributed: sums of twelve between -1/2 and 1/2.
fn normal(seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut uniform = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let mut one = || (0..12).map(|_| uniform()).sum();
    (0..COUNT * INPUTS).map(|_| one()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn rounding_rows_costs_less_than_a_percent() {
        let error = super::measured_error();
        assert!((1e-3..1e-2).contains(&error), "{error}");
    }
}
