//! A folder in Hugging Face layout, written as a GGUF file.

use super::folder::refuse_repeated;
use super::head::Head;
use super::importance::Importance;
use super::kind::Kind;
use super::shard::{Shard, float};
use super::types::{Model, Target};
use super::vocabulary;
use super::write::{Input, Place, by_layer, plan, summary, write};
use anyhow::{Context, bail, ensure};
use burn::tensor::Device;
use kernels_io::{NewFile, escape, escape_path};
use kernels_models::gguf::{Change, Form};
use kernels_models::{ModelConfig, inspect, weight_files};
use kernels_quant::Dtype;
use safetensors::tensor::TensorInfo;
use std::fs::File;
use std::path::Path;

/// Writes a GGUF file. Returns a sentence about it.
///
/// # Errors
/// Returns an error if something is at `out`, if the folder does not load, if a setting, the tokenizer or a tensor has no
/// place in a GGUF file, or if the system fails.
pub fn quantise(
    model: &Path,
    target: Target,
    importance: Option<&Importance>,
    out: &Path,
) -> anyhow::Result<String> {
    let mut file = NewFile::beside(out)?;
    refuse_unloadable(model)?;
    let config = ModelConfig::of_checkpoint(model)?;
    let form = Form::new(&config, &model.join("config.json"))?;
    let shards = weight_files(model)?.into_iter().map(Shard::open);
    let shards = shards.collect::<anyhow::Result<Vec<Shard>>>()?;
    refuse_repeated(&shards)?;
    let inputs = inputs(&shards, &form, &config)?;
    let shapes = inputs.iter().map(|input| {
        let sides = input.dims.iter().rev().map(|&side| side as usize);
        (input.name.clone(), sides.collect())
    });
    form.check(shapes.collect())?;
    let mut pairs = form.metadata().to_vec();
    pairs.extend(vocabulary::pairs(model, &config)?);
    let mut head = Head::of(&pairs)?;
    if let Some(importance) = importance {
        head.add(&importance.described()?)?;
    }
    let facts = facts(&form, &config, &inputs);
    let planned = plan(&inputs, &facts, target, importance).with_context(|| escape_path(model))?;
    let mut files: Vec<File> = shards.into_iter().map(|shard| shard.file).collect();
    write(model, &mut file, &head, target, &planned, &mut files)?;
    file.publish()?;
    Ok(summary(&planned))
}

/// Refuses a folder that this program would not load, or whose weights are not floats.
fn refuse_unloadable(model: &Path) -> anyhow::Result<()> {
    let found = inspect(model, &Device::flex())?;
    if let Some(problem) = found.problems.first() {
        bail!("{problem}");
    }
    ensure!(
        found.quantised.is_empty(),
        "{}: its weights are quantised already; name the folder of floats",
        escape_path(model)
    );
    Ok(())
}

/// Returns the tensors of the file, in its order.
fn inputs(shards: &[Shard], form: &Form, config: &ModelConfig) -> anyhow::Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for (at, shard) in shards.iter().enumerate() {
        for (name, info) in &shard.tensors {
            // A copy of the embedding, and tables that older releases of transformers saved.
            let is_copy = config.tie_word_embeddings && name == "lm_head.weight";
            if is_copy || name.ends_with(".rotary_emb.inv_freq") {
                continue;
            }
            let begin = shard.start + info.data_offsets.0 as u64;
            inputs.push(input(name, info, Place::File(at, begin), form)?);
        }
    }
    if let Some((name, divisors)) = form.divisors() {
        let bytes = divisors.iter().flat_map(|divisor| divisor.to_le_bytes());
        inputs.push(Input {
            name: name.into(),
            dims: vec![divisors.len() as u64],
            from: Kind::Float(Dtype::F32),
            plain: Kind::Float(Dtype::F32),
            place: Place::Memory(bytes.collect()),
            change: Change::None,
        });
    }
    inputs.sort_by(|a, b| by_layer(&a.name, &b.name));
    Ok(inputs)
}

fn input(name: &str, info: &TensorInfo, place: Place, form: &Form) -> anyhow::Result<Input> {
    let shown = escape(name);
    let (stored, change) = form.tensor(name).with_context(|| {
        format!(
            "tensor `{shown}` has no place in a GGUF file of the family `{}`",
            form.architecture()
        )
    })?;
    let dtype = float(info.dtype);
    let dtype = dtype.with_context(|| {
        let dtype = info.dtype;
        format!("tensor `{shown}` is {dtype}; GGUF files are made of F16, BF16 and F32")
    })?;
    let from = Kind::Float(dtype);
    Ok(Input {
        name: stored,
        dims: info.shape.iter().rev().map(|&side| side as u64).collect(),
        from,
        // llama.cpp computes with norms and biases in single precision alone.
        plain: match info.shape.len() {
            1 => Kind::Float(Dtype::F32),
            _ => from,
        },
        place,
        change,
    })
}

/// Returns the facts that the choice of types depends on.
fn facts(form: &Form, config: &ModelConfig, inputs: &[Input]) -> Model {
    Model {
        architecture: form.architecture().into(),
        layers: config.num_hidden_layers,
        experts: 0,
        heads: config.num_attention_heads,
        key_value_heads: config.num_key_value_heads,
        has_output: inputs.iter().any(|input| input.name == "output.weight"),
        values: config.num_hidden_layers,
    }
}
