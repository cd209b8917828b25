//! The goldens of operations with which the whole project is tested (`tests/fixtures/ops`).

use std::path::Path;

use cann_sys::meta::aclDataType;
use safetensors::{Dtype, SafeTensors};

use super::{BF16, F16, F32};

pub struct Goldens(Vec<u8>);

impl Goldens {
    pub fn open(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/ops");
        Self(
            std::fs::read(folder.join(format!("{name}.safetensors")))
                .expect("the goldens are there"),
        )
    }

    fn file(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.0).expect("the goldens are safetensors")
    }

    /// Returns the parts before `.<name>` of the tensors' names, in order.
    pub fn cases(&self, name: &str) -> Vec<String> {
        let ending = format!(".{name}");
        let file = self.file();
        let mut cases: Vec<String> = file
            .names()
            .iter()
            .filter_map(|found| found.strip_suffix(&ending).map(str::to_owned))
            .collect();
        cases.sort();
        assert!(!cases.is_empty(), "no case has {name}");
        cases
    }

    pub fn has(&self, name: &str) -> bool {
        self.file().tensor(name).is_ok()
    }

    pub fn shape(&self, name: &str) -> Vec<usize> {
        self.file().tensor(name).expect(name).shape().to_vec()
    }

    pub fn dtype(&self, name: &str) -> aclDataType {
        match self.file().tensor(name).expect(name).dtype() {
            Dtype::F32 => F32,
            Dtype::F16 => F16,
            Dtype::BF16 => BF16,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Returns the exact values of any float type.
    pub fn exact(&self, name: &str) -> Vec<f64> {
        let file = self.file();
        let view = file.tensor(name).expect(name);
        let bytes = view.data();
        match view.dtype() {
            Dtype::F64 => bytes
                .chunks_exact(8)
                .map(|b| f64::from_le_bytes(b.try_into().unwrap()))
                .collect(),
            Dtype::F32 => bytes
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes(b.try_into().unwrap()).into())
                .collect(),
            Dtype::F16 => bytes
                .chunks_exact(2)
                .map(|b| half::f16::from_le_bytes([b[0], b[1]]).into())
                .collect(),
            Dtype::BF16 => bytes
                .chunks_exact(2)
                .map(|b| half::bf16::from_le_bytes([b[0], b[1]]).into())
                .collect(),
            other => panic!("{name} is {other:?}"),
        }
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        self.exact(name)
            .into_iter()
            .map(|value| value as f32)
            .collect()
    }

    pub fn integers(&self, name: &str) -> Vec<i64> {
        let file = self.file();
        let view = file.tensor(name).expect(name);
        let bytes = view.data();
        match view.dtype() {
            Dtype::I64 => bytes
                .chunks_exact(8)
                .map(|b| i64::from_le_bytes(b.try_into().unwrap()))
                .collect(),
            Dtype::I32 => bytes
                .chunks_exact(4)
                .map(|b| i32::from_le_bytes(b.try_into().unwrap()).into())
                .collect(),
            other => panic!("{name} is {other:?}"),
        }
    }
}
