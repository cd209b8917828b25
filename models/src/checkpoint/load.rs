//! Loading of a model from a directory or file.

mod parameters;

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::{DType, Device, FloatDType};
use burn_kernels::nn::{Quantize, QuantizeExperts};
use burn_kernels::ops::quantized_linear;

use self::parameters::Read;
use super::CONFIG;
use super::check::check_tensors;
use super::inspect::StoredType;
use super::open::Checkpoint;
use super::progress::{Counter, Progress};
use super::quantised;
use super::shards::Shards;
use crate::config::OmniPart;
use crate::model::built::Model;
use crate::parameters::{Configured, rebuild};
use crate::{CausalLm, ModelConfig, ModelError};

/// Reads a model: from a directory in Hugging Face layout, with `config.json`, and `model.safetensors` or the files of
/// `model.safetensors.index.json`; or from a GGUF file, or a directory that holds one and no such files.
///
/// Weights may be stored as `f16`, `bf16`, `f32` or `f64`. They are converted to `dtype`, rounded to nearest, and
/// require gradients on a device with autodiff. Only the bias by which some routers choose experts stays in `f32` if
/// `dtype` is a half type, and gets no gradient. The experts of a layer may be stored one by one or stacked (see
/// [`ExpertStorage`](crate::ExpertStorage)); in the model they are stacked.
///
/// Quantised weights become floats: those that their package decodes, rounded to `dtype`. Directories may hold them as
/// `quantization_config` says: bitsandbytes (NF4, FP4, int8), GPTQ, AWQ, compressed-tensors, FP8 in blocks, and the experts
/// of gpt-oss in MXFP4. GGUF files may hold the types `Q8_0`, `Q4_0`, `Q4_1`, `Q5_0`, `Q5_1`, `Q4_K`, `Q5_K`, `Q6_K` and
/// `MXFP4`. A number that is not finite is an error.
///
/// Beside the model, memory holds at most a piece of a tensor, whatever the dtypes, or one quantised weight of a directory.
///
/// From a checkpoint of one of Qwen's Omni models, this reads the thinker; [`load_part`] reads the other parts.
///
/// Vision towers, which [`load_with_vision`](crate::load_with_vision) reads, encoders of audio, layers that predict further
/// tokens, and tensors outside of the decoder, such as other heads, are not loaded, with a warning; [`save`](crate::save)
/// writes the text model alone. A base model that was saved alone, whose names lack `model.`, and tensors that the index
/// doesn't list or that two files hold (the last counts), are read with a warning.
///
/// Rotary frequencies in old checkpoints are ignored, because they follow from the configuration. A stored output
/// projection of a tied model is accepted if it equals the embedding. For a remote device of this machine the server
/// reads the weights, if it is allowed to read the directory.
///
/// # Errors
///
/// Returns a [`ModelError`] if anything in the directory is wrong. One error lists all problems with tensors. Returns
/// [`ModelError::Dtype`] if the device does not support `dtype`.
pub fn load(
    path: &Path,
    device: &Device,
    dtype: FloatDType,
) -> Result<(ModelConfig, CausalLm), ModelError> {
    load_with(path, device, dtype, &mut |_| {})
}

/// Reads a model as [`load`] does, and calls `progress` before the first tensor and after each parameter.
///
/// # Errors
///
/// Returns an error as [`load`] does.
pub fn load_with(
    path: &Path,
    device: &Device,
    dtype: FloatDType,
    progress: &mut dyn FnMut(Progress),
) -> Result<(ModelConfig, CausalLm), ModelError> {
    load_as(path, device, dtype, QuantisedWeights::Decoded, progress)
}

/// The form in which a model gets the quantised weights of its linear layers, embeddings and experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuantisedWeights {
    /// As floats.
    #[default]
    Decoded,
    /// As their bytes, which products decode, and of tables of embeddings the rows that are looked up. A tied output
    /// projection has the bytes of the embedding. On the CPU, in `f32`, `f16` or `bf16`; other devices and `f64` get
    /// floats, with a message. So do routers, and layers that a file holds in several tensors.
    ///
    /// Results are those of floats in f32, within its roundings. Half types round activations, but not these weights.
    Kept,
    /// As bytes in NF4 with double quantisation, quantised one after the other from floats, for the training of adapters. What
    /// `Kept` decodes stays in floats, and so do embeddings, experts and the output projection.
    Nf4,
}

/// Reads a model as [`load_with`] does, with quantised weights in one of two forms.
///
/// # Errors
///
/// Returns an error as [`load`] does.
pub fn load_as(
    path: &Path,
    device: &Device,
    dtype: FloatDType,
    quantised: QuantisedWeights,
    progress: &mut dyn FnMut(Progress),
) -> Result<(ModelConfig, CausalLm), ModelError> {
    let checkpoint = open(path, None, device, dtype)?;
    checkpoint.config.require_language_model(path)?;
    read(
        checkpoint,
        ModelConfig::init,
        device,
        dtype,
        quantised,
        progress,
    )
}

/// Reads a model of any kind: a part of a checkpoint of one of Qwen's Omni models, by default its thinker, or the model
/// of any other directory or file, without a part. Parts have the tensors whose names begin with `thinker.`, `talker.`,
/// `talker.code_predictor.` and `code2wav.pre_transformer.`. A part may also be in a directory of its own. Everything
/// else is as [`load_as`] does it.
///
/// # Errors
///
/// Returns an error as [`load`] does, and for a part that the checkpoint does not have.
pub fn load_part(
    path: &Path,
    part: Option<OmniPart>,
    device: &Device,
    dtype: FloatDType,
    quantised: QuantisedWeights,
    progress: &mut dyn FnMut(Progress),
) -> Result<(ModelConfig, Model), ModelError> {
    let checkpoint = open(path, part, device, dtype)?;
    read(
        checkpoint,
        ModelConfig::build,
        device,
        dtype,
        quantised,
        progress,
    )
}

/// Opens a checkpoint of a language model, or a part of one, for a device that supports the dtype.
pub(super) fn open(
    path: &Path,
    part: Option<OmniPart>,
    device: &Device,
    dtype: FloatDType,
) -> Result<Checkpoint, ModelError> {
    check_dtype(device, dtype)?;
    let checkpoint = Checkpoint::open_part(path, part)?;
    if checkpoint.config.is_reward_model() {
        let problem = "this is a reward model, which gives a score in place of tokens; `kernels run` scores texts with it";
        return Err(ModelError::field(
            path.join(CONFIG),
            "architectures",
            problem,
        ));
    }
    Ok(checkpoint)
}

/// Reads the weights of a part of a model as floats.
pub(super) fn read_floats<M: Configured>(
    part: M,
    shards: &Shards,
    device: &Device,
    dtype: FloatDType,
) -> Result<M, ModelError> {
    let mut unseen = |_| {};
    let counter = Counter::new(shards, &part, &mut unseen);
    let mut read = Read::floats(counter, shards, device, dtype);
    let part = rebuild(part, &mut read);
    read.failure.map_or(Ok(part), Err)
}

/// Reads a reward model as [`load`] reads others: a `…ForSequenceClassification` with one label, as transformers and
/// TRL write it. [`CausalLm::rewards`] gives its scores. It has no logits, and methods that need them panic.
///
/// # Errors
///
/// Returns an error as [`load`] does, and for another model.
pub fn load_reward_model(
    path: &Path,
    device: &Device,
    dtype: FloatDType,
) -> Result<(ModelConfig, CausalLm), ModelError> {
    check_dtype(device, dtype)?;
    let checkpoint = Checkpoint::open(path)?;
    if !checkpoint.config.is_reward_model() {
        let problem =
            "this is not a reward model, which is a `…ForSequenceClassification` with one label";
        return Err(ModelError::field(
            path.join(CONFIG),
            "architectures",
            problem,
        ));
    }
    read(
        checkpoint,
        ModelConfig::init,
        device,
        dtype,
        QuantisedWeights::Decoded,
        &mut |_| {},
    )
}

/// Reads the weights of a checkpoint into the model that `new` makes.
pub(super) fn read<M: Configured>(
    checkpoint: Checkpoint,
    new: impl FnOnce(&ModelConfig, &Device) -> M,
    device: &Device,
    dtype: FloatDType,
    quantised: QuantisedWeights,
    progress: &mut dyn FnMut(Progress),
) -> Result<(ModelConfig, M), ModelError> {
    let Checkpoint {
        config,
        shards,
        path,
    } = checkpoint;
    let model = new(&config, device);
    for remark in check_tensors(&path, &config, &shards, &model)? {
        tracing::warn!("{}: {remark}", kernels_io::escape_path(&path));
    }
    let found = quantised::weights(&shards, &model).encodings;
    let multiplies = quantized_linear::runs_on(device) && dtype != FloatDType::F64;
    if quantised == QuantisedWeights::Nf4 {
        check_nf4(&found, multiplies)?;
    }
    let keeps = quantised != QuantisedWeights::Decoded && multiplies;
    if let Some(weights) = quantised::described(&found) {
        let path = kernels_io::escape_path(&path);
        let name = name_of(dtype);
        match (quantised, keeps) {
            (QuantisedWeights::Decoded, _) => {
                tracing::info!("{path}: {weights}: decoded to {name}")
            }
            (_, true) => tracing::info!(
                "{path}: {weights}: linear layers, embeddings and experts keep them, all else is decoded to {name}"
            ),
            (_, false) => tracing::warn!(
                "{path}: {weights}: decoded to {name}, because only the CPU multiplies with quantised weights, and not in f64"
            ),
        }
    }

    let counter = Counter::new(&shards, &model, progress);
    let floats = Read::floats(counter, &shards, device, dtype);
    let mut read = match keeps {
        true => floats.keeping(quantised),
        false => floats,
    };
    let model = rebuild(model, &mut read);
    match read.failure {
        Some(error) => Err(error),
        None => {
            let kept = read.kept.unwrap_or_default();
            let quantize = Quantize::new(kept.layers, DType::from(dtype));
            let quantize = quantize.with_tables(kept.tables);
            let experts = QuantizeExperts::new(kept.experts, DType::from(dtype));
            let model = model.apply_reparameterization(quantize);
            Ok((config, model.apply_reparameterization(experts)))
        }
    }
}

/// Checks that weights can be quantised in NF4, and then be multiplied.
fn check_nf4(found: &BTreeMap<String, StoredType>, multiplies: bool) -> Result<(), ModelError> {
    let problem = match (quantised::described(found), multiplies) {
        (Some(weights), _) => {
            format!(
                "the checkpoint has {weights}, which can stay as they are, but not be quantised once more"
            )
        }
        (None, false) => "only the CPU multiplies with quantised weights, and not in f64".into(),
        (None, true) => return Ok(()),
    };
    Err(ModelError::Dtype {
        dtype: "nf4".into(),
        problem,
    })
}

/// Checks that a device can have tensors of a dtype for weights.
pub(super) fn check_dtype(device: &Device, dtype: FloatDType) -> Result<(), ModelError> {
    let fail = |problem: &str| {
        Err(ModelError::Dtype {
            dtype: name_of(dtype),
            problem: problem.into(),
        })
    };
    if dtype == FloatDType::Flex32 {
        return fail("tensors can't be stored in it; use f32");
    }
    if !device.supports_dtype(DType::from(dtype)) {
        return fail("the device does not support it");
    }
    Ok(())
}

fn name_of(dtype: FloatDType) -> String {
    format!("{dtype:?}").to_lowercase()
}
