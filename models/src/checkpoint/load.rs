//! A model directory to a model.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use burn::module::Param;
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData, bf16, f16};
use safetensors::tensor::TensorInfo;

use super::CONFIG;
use super::decode::{Wanted, decode_into, decode_transposed, is_supported};
use super::file::TensorFile;
use super::shards::Shards;
use crate::layout::{Part, expert_of};
use crate::parameters::{Place, Replace, Visit, rebuild, walk};
use crate::{CausalLm, ModelConfig, ModelError, TensorProblem};

const EMBEDDING: &str = "model.embed_tokens.weight";
const LM_HEAD: &str = "lm_head.weight";

/// Reads a model from a directory in Hugging Face layout: `config.json`, and `model.safetensors` or
/// the files of `model.safetensors.index.json`.
///
/// Weights may be stored as `f16`, `bf16`, `f32` or `f64` and are converted to `dtype`, rounding to
/// nearest. The experts of a layer may be stored one by one or stacked (see
/// [`ExpertStorage`](crate::ExpertStorage)); in the model they are stacked. On a device with autodiff they require gradients. The rotary frequencies that old
/// checkpoints store are ignored, being a function of the configuration; a stored output projection
/// of a tied model is accepted when it equals the embedding.
///
/// # Errors
///
/// Everything that is wrong with the directory (see [`ModelError`]); what is wrong with the tensors
/// is listed together. [`ModelError::Dtype`] when the device has no such dtype.
pub fn load(
    dir: &Path,
    device: &Device,
    dtype: FloatDType,
) -> Result<(ModelConfig, CausalLm), ModelError> {
    check_dtype(device, dtype)?;
    let config = ModelConfig::from_file(&dir.join(CONFIG))?;
    let shards = Shards::open(dir)?;
    let model = config.init(device);
    check_tensors(dir, &config, &shards, &model)?;

    let mut read = Read {
        shards: &shards,
        device,
        dtype,
        failure: None,
    };
    let model = rebuild(model, &mut read);
    match read.failure {
        Some(error) => Err(error),
        None => Ok((config, model)),
    }
}

fn check_dtype(device: &Device, dtype: FloatDType) -> Result<(), ModelError> {
    let fail = |problem: &str| {
        let dtype = format!("{dtype:?}").to_lowercase();
        Err(ModelError::Dtype {
            dtype,
            problem: problem.into(),
        })
    };
    if dtype == FloatDType::Flex32 {
        return fail("is no storage type; use f32");
    }
    if !device.supports_dtype(DType::from(dtype)) {
        return fail("the device does not support it");
    }
    Ok(())
}

/// Compares the checkpoint's list of tensors with the model's parameters.
fn check_tensors(
    dir: &Path,
    config: &ModelConfig,
    shards: &Shards,
    model: &CausalLm,
) -> Result<(), ModelError> {
    let mut check = Check {
        dir,
        shards,
        expected: BTreeSet::new(),
        problems: Vec::new(),
    };
    walk(model, &mut check);
    let Check {
        expected,
        mut problems,
        ..
    } = check;
    for name in shards.names() {
        if expected.contains(name) || is_rotary_buffer(name) {
            continue;
        }
        if let Some(problem) = foreign(config, shards, name)? {
            problems.push(problem);
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(ModelError::Tensors {
        dir: dir.into(),
        problems,
    })
}

/// `model.layers.3.self_attn.rotary_emb.inv_freq` and the like, which old versions wrote.
fn is_rotary_buffer(name: &str) -> bool {
    name.ends_with(".rotary_emb.inv_freq")
}

/// What is wrong with a tensor that is no parameter of the model.
fn foreign(
    config: &ModelConfig,
    shards: &Shards,
    name: &str,
) -> Result<Option<TensorProblem>, ModelError> {
    let Some((file, _)) = shards.find(name) else {
        return Ok(None);
    };
    let tied = config.tie_word_embeddings && name == LM_HEAD;
    if tied && same_values(shards, EMBEDDING, LM_HEAD)? {
        return Ok(None);
    }
    let problem = if tied {
        format!(
            "differs from `{EMBEDDING}`, though `tie_word_embeddings` in {CONFIG} says that they are one"
        )
    } else {
        surplus(config, name)
    };
    Ok(Some(TensorProblem {
        file: file.path().into(),
        tensor: name.into(),
        problem,
    }))
}

fn surplus(config: &ModelConfig, name: &str) -> String {
    match (expert_of(name), &config.moe) {
        (Some(expert), Some(moe)) if expert >= moe.num_experts => format!(
            "unexpected: expert {expert}, but {CONFIG} says that there are {}, counted from 0",
            moe.num_experts
        ),
        _ => format!(
            "unexpected: {} of this configuration has no such parameter",
            config.architecture
        ),
    }
}

/// Whether two tensors have the same type, shape and bytes. Reads them piece by piece.
fn same_values(shards: &Shards, left: &str, right: &str) -> Result<bool, ModelError> {
    const PIECE: usize = 4 << 20;
    let (Some((left_file, left)), Some((right_file, right))) =
        (shards.find(left), shards.find(right))
    else {
        return Ok(false);
    };
    if left.dtype != right.dtype || left.shape != right.shape {
        return Ok(false);
    }
    let length = left.data_offsets.1 - left.data_offsets.0;
    for at in (0..length).step_by(PIECE) {
        let piece = PIECE.min(length - at);
        let left = left_file.read_range(left.data_offsets.0 + at, piece)?;
        let right = right_file.read_range(right.data_offsets.0 + at, piece)?;
        if left != right {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Looks up every parameter in the checkpoint's list.
struct Check<'a> {
    dir: &'a Path,
    shards: &'a Shards,
    expected: BTreeSet<String>,
    problems: Vec<TensorProblem>,
}

impl Visit for Check<'_> {
    fn visit<const D: usize>(&mut self, place: &Place, param: &Param<Tensor<D>>) {
        let shape = param.lazy_shape();
        let mut ways = stored_ways(self.shards, place, shape.as_slice());
        let Some(way) = ways.pop() else {
            return self.missing(place.alternatives(shape.as_slice()));
        };
        for other in ways {
            self.stored_twice(&other, &way);
        }
        for part in way {
            self.part(&part);
        }
    }
}

impl Check<'_> {
    /// Compares one tensor with what is expected of it.
    fn part(&mut self, part: &Part) {
        let (file, problem) = match self.shards.find(&part.name) {
            None => (
                self.shards.whole(self.dir),
                Some(format!("missing; expected shape {:?}", part.shape)),
            ),
            Some((file, info)) if info.shape != part.shape => {
                let problem = format!("expected shape {:?}, found {:?}", part.shape, info.shape);
                (file.path().into(), Some(problem))
            }
            Some((file, info)) if !is_supported(info.dtype) => {
                let problem = format!("expected dtype F16, BF16, F32 or F64, found {}", info.dtype);
                (file.path().into(), Some(problem))
            }
            Some((file, _)) => (file.path().into(), None),
        };
        if let Some(problem) = problem {
            self.problem(file, &part.name, problem);
        }
        self.expected.insert(part.name.clone());
    }

    /// Nothing of a parameter is there.
    fn missing(&mut self, ways: Vec<Vec<Part>>) {
        let firsts: Vec<&Part> = ways.iter().filter_map(|way| way.first()).collect();
        let Some((usual, others)) = firsts.split_first() else {
            return;
        };
        let mut problem = format!("missing; expected shape {:?}", usual.shape);
        if ways[0].len() > 1 {
            problem += &format!(", and so on: {} tensors", ways[0].len());
        }
        for other in others {
            problem += &format!("; or `{}` of shape {:?}", other.name, other.shape);
        }
        self.problem(self.shards.whole(self.dir), &usual.name, problem);
    }

    /// A parameter's values are there in two layouts.
    fn stored_twice(&mut self, one: &[Part], other: &[Part]) {
        let stored = |way: &[Part]| {
            let found = way
                .iter()
                .find_map(|part| self.shards.find(&part.name).map(|_| part));
            found.map(|part| part.name.clone())
        };
        if let (Some(first), Some(second)) = (stored(one), stored(other))
            && let Some((file, _)) = self.shards.find(&second)
        {
            let problem = format!(
                "holds what `{first}` holds as well; keep the experts stacked or one by one, under \
                 one of the names"
            );
            self.problem(file.path().into(), &second, problem);
        }
        self.expected
            .extend(one.iter().map(|part| part.name.clone()));
    }

    fn problem(&mut self, file: PathBuf, tensor: &str, problem: String) {
        self.problems.push(TensorProblem {
            file,
            tensor: tensor.into(),
            problem,
        });
    }
}

/// The ways of holding a parameter that the checkpoint has anything of.
fn stored_ways(shards: &Shards, place: &Place, param_shape: &[usize]) -> Vec<Vec<Part>> {
    let stored = |way: &Vec<Part>| way.iter().any(|part| shards.find(&part.name).is_some());
    let ways = place.alternatives(param_shape);
    ways.into_iter().filter(stored).collect()
}

/// Replaces every parameter by the checkpoint's. After a failure the rest is left as it is.
struct Read<'a> {
    shards: &'a Shards,
    device: &'a Device,
    dtype: FloatDType,
    failure: Option<ModelError>,
}

impl Replace for Read<'_> {
    fn replace<const D: usize>(
        &mut self,
        place: &Place,
        param: Param<Tensor<D>>,
    ) -> Param<Tensor<D>> {
        let shape = param.lazy_shape();
        let mut ways = stored_ways(self.shards, place, shape.as_slice());
        let Some(parts) = ways.pop().filter(|_| self.failure.is_none()) else {
            return param;
        };
        match self.data(&parts, shape.as_slice(), place.transposed) {
            Ok(data) => {
                let tensor = Tensor::from_data(data, (self.device, DType::from(self.dtype)));
                let id = param.id;
                param.transform_for_load(tensor, id)
            }
            Err(error) => {
                self.failure = Some(error);
                param
            }
        }
    }
}

impl Read<'_> {
    fn data(
        &self,
        parts: &[Part],
        shape: &[usize],
        transposed: bool,
    ) -> Result<TensorData, ModelError> {
        Ok(match self.dtype {
            FloatDType::F16 => TensorData::new(self.values::<f16>(parts, transposed)?, shape),
            FloatDType::BF16 => TensorData::new(self.values::<bf16>(parts, transposed)?, shape),
            FloatDType::F32 => TensorData::new(self.values::<f32>(parts, transposed)?, shape),
            FloatDType::F64 => TensorData::new(self.values::<f64>(parts, transposed)?, shape),
            FloatDType::Flex32 => unreachable!("flex32 was refused before"),
        })
    }

    /// The values of a parameter. Only a matrix is ever transposed, and it is one part.
    fn values<T: Wanted>(&self, parts: &[Part], transposed: bool) -> Result<Vec<T>, ModelError> {
        if transposed
            && let [part] = parts
            && let &[rows, columns] = part.shape.as_slice()
        {
            return self.matrix(part, [rows, columns]);
        }
        let length = |part: &Part| part.shape.iter().product::<usize>();
        let mut values = vec![T::from_elem(0.0); parts.iter().map(length).sum()];
        for part in parts {
            let start = part.row * part.shape.last().copied().unwrap_or(1);
            self.fill(part, &mut values[start..start + length(part)])?;
        }
        Ok(values)
    }

    fn stored(&self, part: &Part) -> (&TensorFile, &TensorInfo) {
        let stored = self.shards.find(&part.name);
        stored.expect("every part was looked up before anything is read")
    }

    fn matrix<T: Wanted>(&self, part: &Part, shape: [usize; 2]) -> Result<Vec<T>, ModelError> {
        let (file, info) = self.stored(part);
        Ok(decode_transposed(&file.read(info)?, info.dtype, shape))
    }

    /// Reads a tensor into its place, piece by piece: nothing else of it is ever in memory.
    fn fill<T: Wanted>(&self, part: &Part, values: &mut [T]) -> Result<(), ModelError> {
        const PIECE: usize = 1 << 20;
        let (file, info) = self.stored(part);
        let width = info.dtype.bitsize() / 8;
        let mut begin = info.data_offsets.0;
        for piece in values.chunks_mut(PIECE) {
            let bytes = file.read_range(begin, piece.len() * width)?;
            decode_into(&bytes, info.dtype, piece);
            begin += bytes.len();
        }
        Ok(())
    }
}
