//! Loading a model from a directory or file.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::{Param, ParamId};
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData, bf16, f16};
use burn_kernels::nn::Quantize;
use burn_kernels::ops::quantized_linear;
use kernels_quant::OwnedWeight;

use super::CONFIG;
use super::check::{check_tensors, stored_ways};
use super::decode::Wanted;
#[cfg(feature = "remote")]
use super::file::Change;
use super::inspect::StoredType;
use super::kept;
use super::matrices::Parts;
use super::open::Checkpoint;
use super::progress::{Counter, Progress};
use super::quantised;
#[cfg(feature = "remote")]
use super::server::ServerFiles;
use super::shards::Shards;
use super::source::Source;
#[cfg(feature = "remote")]
use super::storage::Storage;
use crate::config::OmniPart;
use crate::model::built::Model;
use crate::parameters::layout::{Encoding, MXFP4_BLOCK, Part};
use crate::parameters::{Configured, ParameterInfo, Replace, rebuild};
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
/// Of a checkpoint of one of Qwen's Omni models, this is the thinker; [`load_part`] reads the other parts.
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

/// The form in which a model gets the quantised weights of its linear layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuantisedWeights {
    /// As floats.
    #[default]
    Decoded,
    /// As their bytes, which products decode. On the CPU, in `f32`, `f16` or `bf16`; other devices and `f64` get floats, with a
    /// message. So do routers, embeddings, the output projection, experts, and layers that a file holds in several tensors.
    ///
    /// Results are those of floats in f32, within its roundings. Half types round activations, but not these weights.
    Kept,
    /// As bytes in NF4 with double quantisation, quantised one after the other from floats, for the training of adapters. What
    /// `Kept` decodes stays in floats.
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

/// Reads a model of any kind: of a checkpoint of one of Qwen's Omni models a part, by default its thinker, and otherwise the
/// model of a directory or file, without a part. Parts have the tensors whose names begin with `thinker.`, `talker.`,
/// `talker.code_predictor.` and `code2wav.pre_transformer.`. A part may also be in a directory of its own. Everything else is
/// as [`load_as`] does it.
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

/// Opens a checkpoint of a model that is no reward model, or a part of one, for a device that supports the dtype.
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
    let mut read = Read {
        counter: Counter::new(shards, &part, &mut unseen),
        shards,
        device,
        dtype,
        failure: None,
        kept: None,
        quantised: QuantisedWeights::Decoded,
        #[cfg(feature = "remote")]
        server: ServerFiles::of(device, shards),
    };
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
                "{path}: {weights}: linear layers keep them, everything else is decoded to {name}"
            ),
            (_, false) => tracing::warn!(
                "{path}: {weights}: decoded to {name}, because only the CPU multiplies with quantised weights, and not in f64"
            ),
        }
    }

    let mut read = Read {
        counter: Counter::new(&shards, &model, progress),
        shards: &shards,
        device,
        dtype,
        failure: None,
        kept: keeps.then(Vec::new),
        quantised,
        #[cfg(feature = "remote")]
        server: ServerFiles::of(device, &shards),
    };
    let model = rebuild(model, &mut read);
    match read.failure {
        Some(error) => Err(error),
        None => {
            let kept = read.kept.unwrap_or_default();
            let quantize = Quantize::new(kept, DType::from(dtype));
            Ok((config, model.apply_reparameterization(quantize)))
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

/// Replaces every parameter by the checkpoint's. After a failure the remaining parameters stay unchanged.
struct Read<'a> {
    counter: Counter<'a>,
    shards: &'a Shards,
    device: &'a Device,
    dtype: FloatDType,
    failure: Option<ModelError>,
    /// The weights that stay in quantised form, if some do.
    kept: Option<Vec<(ParamId, OwnedWeight)>>,
    quantised: QuantisedWeights,
    /// The server that reads the files, if it can.
    #[cfg(feature = "remote")]
    server: Option<ServerFiles>,
}

impl Replace for Read<'_> {
    fn replace<const D: usize>(
        &mut self,
        info: &ParameterInfo,
        param: Param<Tensor<D>>,
    ) -> Param<Tensor<D>> {
        let shape = param.lazy_shape();
        let mut ways = stored_ways(self.shards, info, shape.as_slice());
        let Some(parts) = ways.pop().filter(|_| self.failure.is_none()) else {
            return param;
        };
        let dtype = match self.dtype {
            FloatDType::F16 | FloatDType::BF16 if info.is_wide() => FloatDType::F32,
            dtype => dtype,
        };
        match self.keep(info, &parts, param.id) {
            Ok(false) => {}
            Ok(true) => {
                self.counter.add(self.shards, &parts);
                return param;
            }
            Err(error) => {
                self.failure = Some(error);
                return param;
            }
        }
        match self.tensor(&parts, shape.as_slice(), info.transposed, dtype) {
            Ok(tensor) => {
                self.counter.add(self.shards, &parts);
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
    /// Reads a weight that stays in quantised form. Returns `false` if it is another one.
    fn keep(
        &mut self,
        info: &ParameterInfo,
        parts: &[Part],
        id: ParamId,
    ) -> Result<bool, ModelError> {
        let Some(all) = &mut self.kept else {
            return Ok(false);
        };
        let weight = match self.quantised {
            QuantisedWeights::Nf4 => kept::in_nf4(self.shards, info, parts)?,
            _ => kept::weight(self.shards, info, parts)?,
        };
        let is_kept = weight.is_some();
        all.extend(weight.map(|weight| (id, weight)));
        Ok(is_kept)
    }

    fn tensor<const D: usize>(
        &self,
        parts: &[Part],
        shape: &[usize],
        transposed: bool,
        dtype: FloatDType,
    ) -> Result<Tensor<D>, ModelError> {
        #[cfg(feature = "remote")]
        if let Some(server) = self.server.as_ref()
            && parts.iter().all(|part| self.is_plain(part))
        {
            return server.tensor(self.shards, parts, shape, transposed, dtype);
        }
        let data = self.data(parts, shape, transposed, dtype)?;
        Ok(Tensor::from_data(data, (self.device, DType::from(dtype))))
    }

    fn data(
        &self,
        parts: &[Part],
        shape: &[usize],
        transposed: bool,
        dtype: FloatDType,
    ) -> Result<TensorData, ModelError> {
        Ok(match dtype {
            FloatDType::F16 => TensorData::new(self.values::<f16>(parts, transposed)?, shape),
            FloatDType::BF16 => TensorData::new(self.values::<bf16>(parts, transposed)?, shape),
            FloatDType::F32 => TensorData::new(self.values::<f32>(parts, transposed)?, shape),
            FloatDType::F64 => TensorData::new(self.values::<f64>(parts, transposed)?, shape),
            FloatDType::Flex32 => unreachable!("flex32 was refused before"),
        })
    }

    /// Reads the values of a parameter. Only a matrix can be transposed, and it is one part.
    fn values<T: Wanted>(&self, parts: &[Part], transposed: bool) -> Result<Vec<T>, ModelError> {
        let length = |part: &Part| part.shape.iter().product::<usize>();
        if let [blocks, scales] = parts
            && blocks.encoding == Encoding::Mxfp4
        {
            return self.mxfp4(blocks, scales);
        }
        let mut values = vec![T::from_elem(0.0); parts.iter().map(length).sum()];
        for part in parts {
            let read = match (self.shards.matrix(&part.name), part.shape.as_slice()) {
                (Some(matrix), &[rows, columns]) => Some(matrix.read([rows, columns])?),
                _ => None,
            };
            let source = match &read {
                Some(parts) => Source::of(parts)?,
                None => Source::open(self.shards, part),
            };
            match (part.encoding, part.shape.as_slice()) {
                (_, &[rows, _]) if transposed => source.read_transposed(0, rows, &mut values)?,
                (Encoding::Transposed, &[_, rows, columns]) => {
                    for (at, matrix) in values.chunks_mut(rows * columns).enumerate() {
                        source.read_transposed(at * rows, rows, matrix)?;
                    }
                }
                (_, shape) => {
                    let start = part.row * shape.last().copied().unwrap_or(1);
                    source.read(&mut values[start..start + length(part)])?;
                }
            }
        }
        Ok(values)
    }

    /// Reads a stack of quantised matrices. Only one of them is in memory as it is stored.
    fn mxfp4<T: Wanted>(&self, blocks: &Part, scales: &Part) -> Result<Vec<T>, ModelError> {
        let &[matrices, rows, across] = scales.shape.as_slice() else {
            unreachable!("the scales of a stack have three axes");
        };
        let elements = rows * across * MXFP4_BLOCK;
        let mut values = vec![T::from_elem(0.0); matrices * elements];
        for (at, values) in values.chunks_mut(elements).enumerate() {
            let parts = Parts::of_stack(self.shards, [blocks, scales], at)?;
            Source::of(&parts)?.read_transposed(0, rows, values)?;
        }
        Ok(values)
    }

    /// Returns `true` if a tensor has one float of a usual type for each element, in the usual order.
    #[cfg(feature = "remote")]
    fn is_plain(&self, part: &Part) -> bool {
        let Some((_, info)) = self.shards.find(&part.name) else {
            return false;
        };
        if self.shards.matrix(&part.name).is_some() {
            return false;
        }
        let floats = matches!(info.storage, Storage::Plain(_)) && info.storage.is_supported();
        part.encoding == Encoding::Floats && info.change == Change::None && floats
    }
}
