//! A model directory to a model.

use std::collections::BTreeSet;
use std::path::Path;

use burn::module::Param;
use burn::tensor::{DType, Device, FloatDType, Tensor};

use super::CONFIG;
use super::decode::{decode, is_supported};
use super::shards::Shards;
use crate::parameters::{Place, Replace, Visit, rebuild, walk};
use crate::{CausalLm, ModelConfig, ModelError, TensorProblem};

const EMBEDDING: &str = "model.embed_tokens.weight";
const LM_HEAD: &str = "lm_head.weight";

/// Reads a model from a directory in Hugging Face layout: `config.json`, and `model.safetensors` or
/// the files of `model.safetensors.index.json`.
///
/// Weights may be stored as `f16`, `bf16`, `f32` or `f64` and are converted to `dtype`, rounding to
/// nearest. On a device with autodiff they require gradients. The rotary frequencies that old
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
        format!(
            "unexpected: {} of this configuration has no such parameter",
            config.architecture
        )
    };
    Ok(Some(TensorProblem {
        file: file.path().into(),
        tensor: name.into(),
        problem,
    }))
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
        let expected = place.checkpoint_shape(param.lazy_shape().as_slice());
        let (file, problem) = match self.shards.find(&place.name) {
            None => (
                self.shards.whole(self.dir),
                Some(format!("missing; expected shape {expected:?}")),
            ),
            Some((file, info)) if info.shape != expected => {
                let problem = format!("expected shape {expected:?}, found {:?}", info.shape);
                (file.path().into(), Some(problem))
            }
            Some((file, info)) if !is_supported(info.dtype) => {
                let problem = format!("expected dtype F16, BF16, F32 or F64, found {}", info.dtype);
                (file.path().into(), Some(problem))
            }
            Some((file, _)) => (file.path().into(), None),
        };
        if let Some(problem) = problem {
            self.problems.push(TensorProblem {
                file,
                tensor: place.name.clone(),
                problem,
            });
        }
        self.expected.insert(place.name.clone());
    }
}

/// Replaces every parameter by the checkpoint's tensor. After a failure the rest is left as it is.
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
        let Some((file, info)) = self.shards.find(&place.name) else {
            return param;
        };
        if self.failure.is_some() {
            return param;
        }
        match file.read(info) {
            Ok(bytes) => {
                let data = decode(
                    &bytes,
                    info.dtype,
                    self.dtype,
                    &info.shape,
                    place.transposed,
                );
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
