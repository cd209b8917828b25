//! Tensors of reference programs, for tests.

use crate::Element as _;
use crate::Values;
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

/// A file of tensors.
pub struct Fixture {
    bytes: Vec<u8>,
}

impl Fixture {
    /// Reads the file of operations with this name.
    pub fn open(name: &str) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/ops");
        let path = format!("{folder}/{name}.safetensors");
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self { bytes }
    }

    fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.bytes).expect("a file of tensors")
    }

    /// Returns the cases that have a tensor, in order.
    pub fn cases(&self, tensor: &str) -> Vec<String> {
        let tensors = self.tensors();
        let ending = format!(".{tensor}");
        let of = |name: &&str| {
            name.strip_suffix(&ending)
                .filter(|case| case.matches('.').count() == 1)
                .map(str::to_owned)
        };
        let mut cases: Vec<_> = tensors.names().iter().filter_map(of).collect();
        cases.sort();
        cases
    }

    /// Returns whether there is a tensor.
    pub fn has(&self, name: &str) -> bool {
        self.tensors().tensor(name).is_ok()
    }

    /// Returns the sizes of a tensor.
    pub fn shape(&self, name: &str) -> Vec<usize> {
        let tensors = self.tensors();
        let tensor = tensors
            .tensor(name)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        tensor.shape().to_vec()
    }

    /// Returns the elements of a tensor.
    pub fn f64s(&self, name: &str) -> Vec<f64> {
        let tensors = self.tensors();
        let tensor = tensors
            .tensor(name)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let bytes = tensor.data();
        let halves = || {
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|bytes| u16::from_le_bytes(*bytes))
        };
        match tensor.dtype() {
            Dtype::F64 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|bytes| f64::from_le_bytes(*bytes))
                .collect(),
            Dtype::F32 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|bytes| f64::from(f32::from_le_bytes(*bytes)))
                .collect(),
            Dtype::I32 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|bytes| f64::from(i32::from_le_bytes(*bytes)))
                .collect(),
            Dtype::BF16 => halves()
                .map(|bits| half::bf16::from_bits(bits).to_f64())
                .collect(),
            Dtype::F16 => halves()
                .map(|bits| half::f16::from_bits(bits).to_f64())
                .collect(),
            other => panic!("{name} is in {other:?}"),
        }
    }
}

/// Returns results as numbers of f64.
pub fn values(values: &Values) -> Vec<f64> {
    match values {
        Values::F64(values) => values.clone(),
        Values::F32(values) => values.iter().map(|x| f64::from(*x)).collect(),
        Values::Bf16(values) => values.iter().map(|x| f64::from(x.load())).collect(),
        Values::F16(values) => values.iter().map(|x| f64::from(x.load())).collect(),
    }
}

/// Compares results with exact ones. An error may be `tolerance` times the largest exact number, and `unit` times the exact
/// number for its rounding. NaN fails.
pub fn compare(found: &[f64], exact: &[f64], tolerance: f64, unit: f64, what: &str) {
    assert_eq!(found.len(), exact.len(), "{what}");
    let largest = exact
        .iter()
        .fold(0.0, |largest: f64, x| largest.max(x.abs()));
    for (place, (found, exact)) in found.iter().zip(exact).enumerate() {
        let bound = tolerance * largest + unit * exact.abs();
        let error = (found - exact).abs();
        assert!(
            error <= bound,
            "{what}: {found:e}, not {exact:e}, at {place}: off by {error:e} with a bound of {bound:e}"
        );
    }
}
