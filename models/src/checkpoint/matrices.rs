//! Quantised weights of a folder, which several tensors hold together: codes, scales, and what else the encoding has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kernels_quant::{
    Dtype, Encoding, Mxfp4, OwnedPart, OwnedWeight, Part, QuantError, QuantizedWeight,
};
use safetensors::Dtype as Stored;

use super::file::{StoredTensor, TensorFile};
use super::shards::Shards;
use super::storage::Storage;
use crate::parameters::layout::{MXFP4_BLOCK, MXFP4_BLOCK_BYTES, Part as Parameter};
use crate::{ModelError, TensorProblem};

/// The quantised weights of a folder.
#[derive(Default)]
pub(super) struct Matrices {
    encoding: Option<Encoding>,
    /// The names that the weights have as floats.
    weights: BTreeSet<String>,
}

impl Matrices {
    /// Finds the layers that have the first part of the encoding.
    pub(super) fn find<'a>(encoding: Encoding, names: impl Iterator<Item = &'a str>) -> Self {
        let end = format!(".{}", encoding.part_names()[0]);
        let layers = names.filter_map(|name| name.strip_suffix(end.as_str()));
        Self {
            encoding: Some(encoding),
            weights: layers.map(|layer| format!("{layer}.weight")).collect(),
        }
    }

    /// Returns the names that the weights have as floats.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.weights.iter().map(String::as_str)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Returns the encoding of a weight, if it is quantised.
    pub(super) fn encoding(&self, weight: &str) -> Option<Encoding> {
        self.encoding.filter(|_| self.weights.contains(weight))
    }
}

/// A quantised weight that was not read.
pub(super) struct Matrix<'a> {
    pub(super) encoding: Encoding,
    weight: String,
    parts: Vec<StoredPart<'a>>,
}

struct StoredPart<'a> {
    part: &'static str,
    /// The tensor's name.
    name: String,
    file: &'a TensorFile,
    info: &'a StoredTensor,
}

impl StoredPart<'_> {
    fn dtype(&self) -> Result<Dtype, String> {
        let unknown = || format!("part {:?} is {}", self.part, self.info.storage);
        dtype(self.info.storage).ok_or_else(unknown)
    }
}

impl<'a> Matrix<'a> {
    /// Returns the parts of a weight, one of which is there.
    pub(super) fn of(shards: &'a Shards, weight: &str, encoding: Encoding) -> Self {
        let layer = weight.strip_suffix("weight").unwrap_or(weight);
        let parts = encoding.part_names().iter().filter_map(|&part| {
            let name = format!("{layer}{part}");
            let (file, info) = shards.find(&name)?;
            Some(StoredPart {
                part,
                name,
                file,
                info,
            })
        });
        Self {
            encoding,
            weight: weight.to_owned(),
            parts: parts.collect(),
        }
    }

    /// Returns the names of its tensors.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|part| part.name.as_str())
    }

    pub(super) fn file(&self) -> &'a TensorFile {
        self.parts[0].file
    }

    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.info.bytes as u64).sum()
    }

    /// Checks everything but the codes, which it does not read. Returns the problem.
    pub(super) fn check(&self, shape: [usize; 2]) -> Result<(), String> {
        let (mut codes, mut others) = (None, Vec::new());
        for part in &self.parts {
            let dtype = part.dtype()?;
            if part.part == self.encoding.codes() {
                codes = Some((dtype, part.info.shape.as_slice()));
            } else {
                let bytes = part.file.read(part.info);
                let bytes = bytes.map_err(|error| error.to_string())?;
                others.push((part.part, dtype, &part.info.shape, bytes));
            }
        }
        let others = others.iter();
        let others = others
            .map(|(part, dtype, shape, bytes)| (*part, Part::new(*dtype, shape.as_slice(), bytes)));
        QuantizedWeight::check(self.encoding, shape, codes, others)
            .map_err(|error| error.to_string())
    }

    /// Reads all parts of a weight of this shape.
    pub(super) fn read(&self, shape: [usize; 2]) -> Result<Parts, ModelError> {
        let mut parts = Parts::new(self.file().path(), &self.weight, self.encoding, shape);
        for part in &self.parts {
            let dtype = part.dtype().map_err(|problem| parts.error(problem))?;
            let bytes = part.file.read(part.info)?;
            parts.add(part.part, dtype, &part.info.shape, bytes);
        }
        Ok(parts)
    }
}

/// The parts of a weight, in memory as they are stored.
pub(super) struct Parts {
    file: PathBuf,
    weight: String,
    encoding: Encoding,
    shape: [usize; 2],
    parts: Vec<(&'static str, Dtype, Vec<usize>, Vec<u8>)>,
}

impl Parts {
    fn new(file: &Path, weight: &str, encoding: Encoding, shape: [usize; 2]) -> Self {
        Self {
            file: file.into(),
            weight: weight.into(),
            encoding,
            shape,
            parts: Vec::new(),
        }
    }

    fn add(&mut self, part: &'static str, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) {
        self.parts.push((part, dtype, shape.into(), bytes));
    }

    /// Reads one matrix of a stack in MXFP4, whose tensors have the expected types and shapes.
    pub(super) fn of_stack(
        shards: &Shards,
        [blocks, scales]: [&Parameter; 2],
        at: usize,
    ) -> Result<Self, ModelError> {
        let &[_, rows, across] = scales.shape.as_slice() else {
            unreachable!("the scales of a stack have three axes");
        };
        let find = |part: &Parameter| {
            let stored = shards.find(&part.name);
            stored.expect("every part was looked up before anything is read")
        };
        let (file, _) = find(blocks);
        let shape = [rows, across * MXFP4_BLOCK];
        let mut parts = Self::new(file.path(), &blocks.name, Mxfp4.into(), shape);
        let read = |part: &Parameter, length: usize| {
            let (file, info) = find(part);
            file.read_range(info.begin + (at * length) as u64, length)
        };
        let of_blocks = [rows, across, MXFP4_BLOCK_BYTES];
        let bytes = read(blocks, rows * across * MXFP4_BLOCK_BYTES)?;
        parts.add("blocks", Dtype::U8, &of_blocks, bytes);
        let bytes = read(scales, rows * across)?;
        parts.add("scales", Dtype::U8, &[rows, across], bytes);
        Ok(parts)
    }

    /// Returns the weight with the memory of its parts.
    pub(super) fn into_owned(mut self) -> Result<OwnedWeight, ModelError> {
        let parts = std::mem::take(&mut self.parts).into_iter();
        let parts = parts.map(|(name, dtype, shape, bytes)| OwnedPart {
            name: name.into(),
            dtype,
            shape,
            bytes,
        });
        OwnedWeight::new(self.encoding, self.shape, parts.collect())
            .map_err(|error| self.error(error.to_string()))
    }

    /// Returns the weight, whose parts go together.
    pub(super) fn weight(&self) -> Result<QuantizedWeight<'_>, ModelError> {
        let parts = self.parts.iter();
        let parts = parts
            .map(|(part, dtype, shape, bytes)| (*part, Part::new(*dtype, shape.as_slice(), bytes)));
        QuantizedWeight::new(self.encoding, self.shape, parts)
            .map_err(|error: QuantError| self.error(error.to_string()))
    }

    /// Returns the error of this weight.
    pub(super) fn error(&self, problem: String) -> ModelError {
        error(&self.file, &self.weight, problem)
    }
}

/// Checks the scales of a stack in MXFP4, a tensor of bytes with three axes. Other tensors of a stack are not read. Returns the
/// problem.
pub(super) fn check_scales_of_stack(file: &TensorFile, info: &StoredTensor) -> Result<(), String> {
    let &[matrices, rows, across] = info.shape.as_slice() else {
        return Ok(());
    };
    let bytes = file.read(info).map_err(|error| error.to_string())?;
    // The rows lie below each other, like those of one matrix.
    let rows = matrices * rows;
    let codes = [rows, across, MXFP4_BLOCK_BYTES];
    let scales = [rows, across];
    let scales = Part::new(Dtype::U8, &scales, &bytes);
    let shape = [rows, across * MXFP4_BLOCK];
    QuantizedWeight::check(
        Mxfp4,
        shape,
        Some((Dtype::U8, &codes[..])),
        [("scales", scales)],
    )
    .map_err(|error| error.to_string())
}

/// Returns the error of a tensor.
pub(super) fn error(file: &Path, tensor: &str, problem: String) -> ModelError {
    ModelError::Tensor(TensorProblem {
        file: file.into(),
        tensor: tensor.into(),
        problem,
    })
}

fn dtype(storage: Storage) -> Option<Dtype> {
    Some(match storage {
        Storage::Plain(Stored::U8) => Dtype::U8,
        Storage::Plain(Stored::I8) => Dtype::I8,
        Storage::Plain(Stored::F8_E4M3) => Dtype::F8E4M3,
        Storage::Plain(Stored::F16) => Dtype::F16,
        Storage::Plain(Stored::BF16) => Dtype::BF16,
        Storage::Plain(Stored::I32) => Dtype::I32,
        Storage::Plain(Stored::F32) => Dtype::F32,
        Storage::Plain(Stored::I64) => Dtype::I64,
        _ => return None,
    })
}
