//! Weights of few bits, and products with them.

use super::*;

pub fn signed_bytes(shape: &[usize], values: &[i64]) -> Tensor {
    let tensor = Tensor::empty(ACL_INT8, shape);
    upload(
        tensor.address,
        &values.iter().map(|value| *value as i8).collect::<Vec<_>>(),
    );
    tensor
}

/// Returns integers that look random.
pub fn integers(count: usize, most: f32, seed: u64) -> Vec<i64> {
    noise(count, seed)
        .into_iter()
        .map(|value| (value * most) as i64)
        .collect()
}

/// Returns the product with scaled weights, which are rounded to the dtype of x.
pub fn expected(x: &Tensor, weights: &[f64], columns: usize, bias: Option<&Tensor>) -> Vec<f64> {
    let rounded = Tensor::floats(
        x.dtype,
        &[weights.len()],
        &weights
            .iter()
            .map(|weight| *weight as f32)
            .collect::<Vec<_>>(),
    );
    let (x, weights, depth) = (exact(x), exact(&rounded), weights.len() / columns);
    let at = |place: usize| {
        let (row, column) = (place / columns, place % columns);
        let sum: f64 = (0..depth)
            .map(|k| x[row * depth + k] * weights[k * columns + column])
            .sum();
        sum + bias.map_or(0.0, |bias| exact(bias)[column])
    };
    (0..x.len() / depth * columns).map(at).collect()
}
