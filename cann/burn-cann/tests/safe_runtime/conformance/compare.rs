//! The comparison of results.

use burn_backend::{DType, TensorData};

/// Returns half the distance between neighbours around 1, with room for the order of sums. The largest expected value
/// scales it: a result of zeros is not near small numbers.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 4e-6,
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        _ => 0.0,
    }
}

/// Returns the first difference: a shape, a dtype, or an element beyond rounding.
pub fn difference(found: &[TensorData], expected: &[TensorData]) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!(
            "{} results, expected {}",
            found.len(),
            expected.len()
        ));
    }
    found
        .iter()
        .zip(expected)
        .enumerate()
        .find_map(|(place, (found, expected))| {
            one(found, expected).map(|text| format!("result {place}: {text}"))
        })
}

fn one(found: &TensorData, expected: &TensorData) -> Option<String> {
    if found.shape() != expected.shape() {
        return Some(format!(
            "shape {:?}, expected {:?}",
            found.shape(),
            expected.shape()
        ));
    }
    // Flex returns u8 where it selects or gathers booleans.
    let forgotten = found.dtype().is_bool() && expected.dtype() == DType::U8;
    if found.dtype() != expected.dtype() && !forgotten {
        return Some(format!(
            "{:?}, expected {:?}",
            found.dtype(),
            expected.dtype()
        ));
    }
    let (got, wanted): (Vec<f64>, Vec<f64>) = (
        found.iter::<f64>().collect(),
        expected.iter::<f64>().collect(),
    );
    let largest = wanted
        .iter()
        .filter(|value| value.is_finite())
        .fold(0.0f64, |largest, value| largest.max(value.abs()));
    let allowed = tolerance(expected.dtype()) * largest;
    got.iter()
        .zip(&wanted)
        .enumerate()
        .find_map(|(place, (got, wanted))| {
            let same =
                got == wanted || got.is_nan() && wanted.is_nan() || (got - wanted).abs() <= allowed;
            (!same)
                .then(|| format!("element {place}: {got}, expected {wanted} (within {allowed:e})"))
        })
}
