//! Numbers that transformers computed, and the comparison of results with them.

#![allow(dead_code)] // Each test uses a part of it.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeSet;
use std::path::Path;

/// The relative error of one f32 rounding.
const F32_ROUNDING: f64 = 6e-8;

/// A file of `tests/fixtures/ops`.
pub struct Fixture(Vec<u8>);

impl Fixture {
    pub fn open(name: &str) -> Self {
        let file = format!("tests/fixtures/ops/{name}.safetensors");
        // The package that has this module may lie deeper than another.
        let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let found = folders.find_map(|folder| std::fs::read(folder.join(&file)).ok());
        Self(found.unwrap_or_else(|| panic!("{file} is missing")))
    }

    fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.0).unwrap()
    }

    /// Returns the cases that have a tensor of this name: `a.bf16` for `x`, if there is `a.bf16.x`. Panics if there are
    /// none, because the test would check nothing.
    pub fn cases(&self, input: &str) -> Vec<String> {
        let suffix = format!(".{input}");
        let names: BTreeSet<String> = self
            .tensors()
            .names()
            .into_iter()
            .filter_map(|name| name.strip_suffix(&suffix).map(str::to_owned))
            .filter(|case| case.ends_with("32") || case.ends_with("16"))
            .collect();
        assert!(!names.is_empty(), "no case has {input}");
        names.into_iter().collect()
    }

    pub fn data(&self, name: &str) -> TensorData {
        let tensors = self.tensors();
        let view = tensors
            .tensor(name)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let dtype = match view.dtype() {
            Dtype::F64 => DType::F64,
            Dtype::F32 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            Dtype::I64 => DType::I64,
            Dtype::I32 => DType::I32,
            other => panic!("{name}: {other:?}"),
        };
        TensorData::from_bytes_vec(view.data().to_vec(), view.shape().to_vec(), dtype)
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors().tensor(name).is_ok()
    }

    pub fn values(&self, name: &str) -> Vec<f64> {
        self.data(name).iter::<f64>().collect()
    }

    pub fn integers(&self, name: &str) -> Vec<i64> {
        self.data(name).iter::<i64>().collect()
    }

    /// Returns a tensor in the dtype of the file.
    pub fn tensor<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        let data = self.data(name);
        let dtype = data.dtype();
        Tensor::from_data(data, (device, dtype))
    }

    /// Returns a tensor as `[rows, n]`.
    pub fn rows(&self, name: &str, device: &Device) -> Tensor<2> {
        let data = self.data(name);
        let n = *data.shape().last().unwrap();
        let rows = data.num_elements() / n;
        let dtype = data.dtype();
        let data = TensorData::from_bytes_vec(data.as_bytes().to_vec(), [rows, n], dtype);
        Tensor::from_data(data, (device, dtype))
    }

    pub fn ints<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D, Int> {
        let data = self.data(name);
        let dtype = data.dtype();
        Tensor::from_data(data, (device, dtype))
    }

    /// Checks that `got` is as near to `exact` as the module's result, in the L2 norm: within `slack` times its
    /// distance, plus one f32 rounding in case the module is exact by chance.
    pub fn as_near_as(&self, slack: f64, what: &str, got: &[f64], exact: &str, module: &str) {
        let exact = self.values(exact);
        let (ours, theirs) = (
            relative_error(got, &exact),
            relative_error(&self.values(module), &exact),
        );
        assert!(
            ours <= slack * theirs + F32_ROUNDING,
            "{what}: {ours:.2e} from the exact result, the module {theirs:.2e}"
        );
    }

    /// Does the same for the exact result `{case}.ref.{result}` and the module's `{case}.{module}.{result}`.
    pub fn as_near(
        &self,
        slack: f64,
        what: &str,
        got: &[f64],
        case: &str,
        module: &str,
        result: &str,
    ) {
        let (exact, module) = (
            format!("{case}.ref.{result}"),
            format!("{case}.{module}.{result}"),
        );
        let what = format!("{what} {case} {result}");
        self.as_near_as(slack, &what, got, &exact, &module);
    }
}

pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// Returns what [`relative_error`] does, and 0 for two results without elements: for tests of sizes of 0.
pub fn relative_error_of_any(got: &[f64], exact: &[f64]) -> f64 {
    match (got, exact) {
        ([], []) => 0.0,
        _ => relative_error(got, exact),
    }
}

pub fn relative_error(got: &[f64], exact: &[f64]) -> f64 {
    assert_eq!(got.len(), exact.len());
    assert!(!exact.is_empty(), "there is nothing to compare");
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let error = norm(&mut got.iter().zip(exact).map(|(a, b)| a - b));
    let size = norm(&mut exact.iter().copied());
    assert!(error.is_finite());
    if error == 0.0 {
        0.0
    } else {
        error / size.max(f64::MIN_POSITIVE)
    }
}
