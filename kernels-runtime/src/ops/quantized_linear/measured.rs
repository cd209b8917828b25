//! Products with quantised weights on this machine, compared with f64: for `kernels verify`, whose cases have no weights
//! in quantised form.

use kernels_quant::gguf::Block;
use kernels_quant::{Dtype, Part, QuantizedWeight};
use kernels_simd::{Values, View, quantized};

/// The numbers of rows and outputs, and that of inputs.
const COUNT: usize = 32;
const INPUTS: usize = 1024;

/// Returns how far products are from those in f64, forward and of the gradient, relative to their size (root mean
/// squares): the largest over encodings of GGUF.
pub fn measured_error() -> f64 {
    let errors = Block::ALL.iter().map(|&block| {
        let (x, dy) = (normal(1, COUNT * INPUTS), normal(3, COUNT * COUNT));
        with_weight(block, |weight, decoded| {
            let y = quantized::forward(&View::whole(&x, &[COUNT, INPUTS]), weight);
            let forward = distance(y, products(&x, decoded));
            let dx = quantized::gradient_of_x(&View::whole(&dy, &[COUNT, COUNT]), weight);
            let columns = transposed(decoded);
            forward.max(distance(dx, products(&dy, &columns)))
        })
    });
    errors.fold(0.0, f64::max)
}

/// Returns what rounding rows to 8 bits costs: the distance of such products from those of rows that are not rounded, in
/// f64, relative to their size (root mean squares). Rows and weight, in Q8_0, are normally distributed.
pub fn cost_of_rounding() -> f64 {
    let x = normal(1, COUNT * INPUTS);
    with_weight(Block::Q8_0, |weight, decoded| {
        let y = quantized::int8::forward(&View::whole(&x, &[COUNT, INPUTS]), weight);
        distance(y, products(&x, decoded))
    })
}

/// Calls `read` with a weight, and with the numbers that it decodes to.
fn with_weight<T>(block: Block, read: impl FnOnce(&QuantizedWeight<'_>, &[f32]) -> T) -> T {
    let row = INPUTS / block.elements() * block.bytes();
    let mut bytes = vec![0; COUNT * row];
    let numbers = normal(2, COUNT * INPUTS);
    block
        .encode(&numbers, &mut bytes)
        .expect("the numbers are finite");
    let of_bytes = [COUNT, row];
    let blocks = [("blocks", Part::new(Dtype::U8, &of_bytes, &bytes))];
    let weight =
        QuantizedWeight::new(block, [COUNT, INPUTS], blocks).expect("rows are whole blocks");
    let mut decoded = vec![0.0; COUNT * INPUTS];
    weight.decode_rows(0..COUNT, &mut decoded);
    read(&weight, &decoded)
}

/// Returns the products of rows with the rows of a matrix, both of the same width, in f64.
fn products(rows: &[f32], matrix: &[f32]) -> Vec<f64> {
    let width = rows.len() / COUNT;
    let of_row = |row: &[f32]| -> Vec<f64> {
        let outputs = matrix.chunks_exact(width);
        outputs.map(|output| dot(row, output)).collect()
    };
    rows.chunks_exact(width).flat_map(of_row).collect()
}

fn transposed(matrix: &[f32]) -> Vec<f32> {
    let of_column = |column| matrix.chunks_exact(INPUTS).map(move |row| row[column]);
    (0..INPUTS).flat_map(of_column).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    products.sum()
}

/// Returns infinity for a number that is not finite.
fn distance(found: Values, exact: Vec<f64>) -> f64 {
    let Values::F32(found) = found else {
        unreachable!("results have the type of rows")
    };
    assert_eq!(found.len(), exact.len());
    let squares = found.iter().zip(exact).map(|(found, exact)| {
        let error = f64::from(*found) - exact;
        [error * error, exact * exact]
    });
    let [errors, sizes] = squares.fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d]);
    let distance = (errors / sizes).sqrt();
    if distance.is_finite() {
        distance
    } else {
        f64::INFINITY
    }
}

/// Returns numbers that are nearly normally distributed: sums of twelve between -1/2 and 1/2.
fn normal(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut uniform = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let mut one = || (0..12).map(|_| uniform()).sum();
    (0..count).map(|_| one()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn products_are_those_of_f64_and_rounding_rows_costs_less_than_a_percent() {
        let exact = super::measured_error();
        assert!(exact < 1e-6, "{exact}");
        let rounded = super::cost_of_rounding();
        assert!((1e-3..1e-2).contains(&rounded), "{rounded}");
    }
}
