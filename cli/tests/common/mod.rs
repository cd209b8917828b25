//! Functions that run the program and read its output.
#![allow(dead_code, reason = "each test file uses a part of it")]

#[path = "../../../tests/comparison/mod.rs"]
pub mod comparison;

use comparison::{difference, relative};
use object::write::{Object, SectionKind};
use object::{Architecture, BinaryFormat, Endianness};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns a command of the program without a policy in its environment.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kernels"));
    // Tests set the width and the colours of the output themselves.
    for name in [
        "BURN_KERNELS",
        "COLUMNS",
        "NO_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
    ] {
        command.env_remove(name);
    }
    command
}

/// Runs the program.
pub fn kernels<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Output {
    command().args(args).output().expect("the program starts")
}

/// Runs the program, which must succeed, and returns its standard output.
pub fn stdout<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> String {
    let output = kernels(args);
    assert!(output.status.success(), "{}", errors(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// Runs the program, which must succeed, and parses its standard output.
pub fn json<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Value {
    serde_json::from_str(&stdout(args)).expect("JSON")
}

/// Returns the program's standard error.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns an object file with one section.
pub fn object_file(
    format: BinaryFormat,
    arch: Architecture,
    section: [&str; 2],
    data: &[u8],
) -> Vec<u8> {
    let mut object = Object::new(format, arch, Endianness::Little);
    let [segment, name] = section.map(|name| name.as_bytes().to_vec());
    let section = object.add_section(segment, name, SectionKind::Data);
    object.append_section_data(section, data, 8);
    object.write().unwrap()
}

/// Returns an ELF file with these bytes as its metadata.
pub fn elf(data: &[u8]) -> Vec<u8> {
    let section = ["", "burn_kernels"];
    object_file(BinaryFormat::Elf, Architecture::X86_64, section, data)
}

/// Returns a record with this JSON.
pub fn record(json: &str) -> Vec<u8> {
    let mut record = b"BKMETA\x01\n".to_vec();
    record.extend(u32::try_from(json.len()).unwrap().to_le_bytes());
    record.extend(json.as_bytes());
    record
}

// Some programs of tests have it, too.
#[allow(clippy::duplicate_mod)]
#[path = "../../../models/tests/common/mod.rs"]
mod models;

/// Returns the folder of a small checkpoint with expected values, as it is committed.
pub fn committed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/fixtures/models")
        .join(name)
}

/// Returns the folder of a small checkpoint with expected values.
pub fn fixture(name: &str) -> PathBuf {
    match committed(name).join("weights.json").exists() {
        true => models::checkpoint(name),
        false => committed(name),
    }
}

/// Compares the gradients of an output with those that are expected of a fixture.
pub fn check_gradients(what: &str, name: &str, output: &BTreeMap<String, Floats>) {
    let golden = models::read(&committed(name).join("golden.safetensors"));
    let gradients = output.iter().filter_map(|(name, floats)| {
        let data = burn::tensor::TensorData::new(floats.values.clone(), floats.shape.clone());
        Some((name.strip_prefix("grad.")?.to_owned(), data))
    });
    models::check_gradients(what, &golden, &gradients.collect());
}

/// Reads every float tensor of a safetensors file as f64, with its dtype and shape.
pub fn floats(path: &Path) -> BTreeMap<String, Floats> {
    let bytes = std::fs::read(path).expect("the file is there");
    let tensors = SafeTensors::deserialize(&bytes).expect("safetensors");
    let floats = tensors
        .iter()
        .filter(|(_, view)| !matches!(view.dtype(), Dtype::I64 | Dtype::I32));
    floats
        .map(|(name, view)| (name.to_owned(), Floats::new(&view)))
        .collect()
}

/// A float tensor on the host.
pub struct Floats {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub values: Vec<f64>,
}

impl Floats {
    fn new(view: &TensorView<'_>) -> Self {
        let data = view.data();
        let values = match view.dtype() {
            Dtype::F64 => {
                let chunks = data.as_chunks().0.iter().copied();
                chunks.map(f64::from_le_bytes).collect()
            }
            Dtype::F32 => {
                let chunks = data.as_chunks().0.iter().copied();
                chunks
                    .map(|bytes| f32::from_le_bytes(bytes).into())
                    .collect()
            }
            Dtype::BF16 => {
                let chunks = data.as_chunks::<2>().0.iter();
                let widened = chunks.map(|[low, high]| f32::from_le_bytes([0, 0, *low, *high]));
                widened.map(f64::from).collect()
            }
            other => panic!("no test reads {other:?}"),
        };
        Self {
            dtype: view.dtype(),
            shape: view.shape().to_vec(),
            values,
        }
    }

    /// Returns the largest difference to `other`, relative to the largest absolute value of `other`.
    pub fn distance_to_largest(&self, other: &Self) -> f64 {
        assert_eq!(self.shape, other.shape);
        relative(&self.values, &other.values)
    }

    /// Returns the Euclidean distance to `other`, relative to the norm of `other`.
    pub fn distance_to_norm(&self, other: &Self) -> f64 {
        assert_eq!(self.shape, other.shape);
        // All differences are finite, or this panics.
        difference(&self.values, &other.values);
        let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
        let mut differences = self.values.iter().zip(&other.values).map(|(a, b)| a - b);
        (squares(&mut differences) / squares(&mut other.values.iter().copied())).sqrt()
    }
}

/// A tensor to write: name, dtype, shape and values.
pub type Ids<'a> = (&'a str, Dtype, &'a [usize], &'a [i64]);

/// Writes a safetensors file of integer tensors.
pub fn write_ids(path: &Path, tensors: &[Ids<'_>]) {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, dtype, _, values)| encode(*dtype, values))
        .collect();
    let views = tensors
        .iter()
        .zip(&bytes)
        .map(|((name, dtype, shape, _), bytes)| {
            let view = TensorView::new(*dtype, shape.to_vec(), bytes).expect("a shape that fits");
            (*name, view)
        });
    let file = safetensors::serialize(views, None).expect("safetensors");
    std::fs::write(path, file).expect("a writable folder");
}

fn encode(dtype: Dtype, values: &[i64]) -> Vec<u8> {
    match dtype {
        Dtype::I64 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Dtype::I32 => values
            .iter()
            .flat_map(|v| (*v as i32).to_le_bytes())
            .collect(),
        Dtype::F32 => values
            .iter()
            .flat_map(|v| (*v as f32).to_le_bytes())
            .collect(),
        other => panic!("no test writes {other:?}"),
    }
}
