//! The goldens of operations with which the whole project is tested (`tests/fixtures/ops`).

use std::ops::Deref;
use std::path::Path;

use super::*;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

pub struct Goldens(Vec<u8>);

impl Goldens {
    pub fn open(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/ops");
        Self(
            std::fs::read(folder.join(format!("{name}.safetensors")))
                .expect("the goldens are there"),
        )
    }

    fn file(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.0).expect("the goldens are safetensors")
    }

    /// Returns the cases that have a tensor, in the order of their names.
    pub fn cases(&self, part: &str) -> Vec<Case<'_>> {
        let ending = format!(".{part}");
        let file = self.file();
        let names = file.names().into_iter();
        let mut cases: Vec<&str> = names
            .filter_map(|name| name.strip_suffix(&ending))
            .collect();
        cases.sort();
        assert!(!cases.is_empty(), "no case has {part}");
        let case = |name: &str| Case(self, name.to_owned());
        cases.into_iter().map(case).collect()
    }
}

/// A case: the tensors with its name. It stands for its name.
pub struct Case<'a>(&'a Goldens, String);

impl Deref for Case<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.1
    }
}

impl Case<'_> {
    /// Calls `get` with the tensor of a part.
    fn view<T>(&self, part: &str, get: impl FnOnce(TensorView<'_>, &str) -> T) -> T {
        let name = format!("{}.{part}", self.1);
        get(self.0.file().tensor(&name).expect(&name), &name)
    }

    pub fn shape(&self, part: &str) -> Vec<usize> {
        self.view(part, |view, _| view.shape().to_vec())
    }

    pub fn dtype(&self, part: &str) -> aclDataType {
        self.view(part, |view, name| match view.dtype() {
            Dtype::F32 => F32,
            Dtype::F16 => F16,
            Dtype::BF16 => BF16,
            other => panic!("{name} is {other:?}"),
        })
    }

    /// Returns the exact values of any float type.
    pub fn exact(&self, part: &str) -> Vec<f64> {
        self.view(part, |view, name| match view.dtype() {
            Dtype::F64 => of(view.data(), f64::from_le_bytes),
            Dtype::F32 => of(view.data(), |bytes| f32::from_le_bytes(bytes).into()),
            Dtype::F16 => of(view.data(), |bytes| half::f16::from_le_bytes(bytes).into()),
            Dtype::BF16 => of(view.data(), |bytes| half::bf16::from_le_bytes(bytes).into()),
            other => panic!("{name} is {other:?}"),
        })
    }

    pub fn floats(&self, part: &str) -> Vec<f32> {
        self.exact(part)
            .into_iter()
            .map(|value| value as f32)
            .collect()
    }

    /// Makes the tensor on the device.
    pub fn tensor(&self, part: &str) -> Tensor {
        Tensor::floats(self.dtype(part), &self.shape(part), &self.floats(part))
    }

    pub fn integers(&self, part: &str) -> Vec<i64> {
        self.view(part, |view, name| match view.dtype() {
            Dtype::I64 => of(view.data(), i64::from_le_bytes),
            Dtype::I32 => of(view.data(), |bytes| i32::from_le_bytes(bytes).into()),
            other => panic!("{name} is {other:?}"),
        })
    }
}

/// Reads values of `N` bytes.
fn of<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    let values = bytes
        .chunks_exact(N)
        .map(|bytes| bytes.try_into().expect("as long"));
    values.map(read).collect()
}
