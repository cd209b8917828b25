//! Tests that operations composed of several operators round half types once, as a single operator would.

use crate::common::Scenario;
use burn_backend::ops::{ActivationOps, FloatTensorOps};
use burn_backend::{DType, TensorData, read_sync};
use burn_cann::backend::{CannBackend, CannDevice};

/// Half a unit in the last place, relative to the number: significands have 8 and 11 bits. The extra hundredth covers
/// the error of the f32 result before rounding.
const TYPES: [(DType, f64); 2] = [(DType::BF16, 1.01 / 256.0), (DType::F16, 1.01 / 2048.0)];

/// Returns numbers from -8 to 8 that both dtypes represent exactly.
fn points() -> Vec<f64> {
    (-64..=64).map(|i| f64::from(i) / 8.0).collect()
}

fn upload(values: &[f64], dtype: DType) -> burn_cann::backend::CannTensor {
    let data = TensorData::new(values.to_vec(), [values.len()]).convert_dtype(dtype);
    CannBackend::float_from_data(data, &CannDevice::default())
}

fn assert_rounded_once(
    found: burn_cann::backend::CannTensor,
    expected: impl Fn(f64) -> f64,
    (dtype, half_unit): (DType, f64),
) {
    let data = read_sync(CannBackend::float_into_data(found)).unwrap();
    for (x, found) in points().into_iter().zip(data.iter::<f64>()) {
        let expected = expected(x);
        assert!(
            (found - expected).abs() <= half_unit * expected.abs(),
            "{dtype:?} at {x}: {found}, not {expected}"
        );
    }
}

#[test]
fn the_logarithm_of_the_sigmoid() {
    Scenario::new().run(|cann| {
        burn_cann::backend::install(cann.clone());
        for rounding in TYPES {
            let x = upload(&points(), rounding.0);
            let found = CannBackend::log_sigmoid(x);
            assert_rounded_once(found, |x| -(-x).exp().ln_1p(), rounding);
        }
        burn_cann::backend::close();
    });
}

#[test]
fn the_gradient_of_the_logarithm_of_the_sigmoid() {
    Scenario::new().run(|cann| {
        burn_cann::backend::install(cann.clone());
        for rounding in TYPES {
            let x = upload(&points(), rounding.0);
            let grad = upload(&vec![3.0; points().len()], rounding.0);
            let found = CannBackend::log_sigmoid_backward(x, grad);
            assert_rounded_once(found, |x| 3.0 / (1.0 + x.exp()), rounding);
        }
        burn_cann::backend::close();
    });
}
