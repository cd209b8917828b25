//! A GGUF file of floats, written anew in blocks.

use super::head::{Head, Tensor};
use super::importance::Importance;
use super::kind::Kind;
use super::types::{Model, Target};
use super::write::{Input, Place, by_layer, plan, summary, write};
use anyhow::{Context, bail, ensure};
use kernels_io::{NewFile, escape, escape_path};
use kernels_models::gguf::{self, Change};
use std::io::BufReader;
use std::path::Path;

/// The largest alignment of tensors. Each is followed by up to as many bytes, and files have 32.
const LARGEST: u64 = 1 << 16;

/// Writes a file in blocks. Returns a sentence about it.
///
/// # Errors
/// Returns an error if something is at `out`, if a tensor can't be quantised or copied, or if the system fails.
pub fn quantise(
    input: &gguf::File,
    target: Target,
    importance: Option<&Importance>,
    out: &Path,
) -> anyhow::Result<String> {
    let path = escape_path(input.path());
    let alignment = input.metadata().integer("general.alignment")?;
    let alignment = u64::try_from(alignment.unwrap_or(32)).unwrap_or(0);
    ensure!(
        (1..=LARGEST).contains(&alignment),
        "{path}: `general.alignment` is {alignment}, and must be from 1 to {LARGEST}"
    );
    if input.metadata().integer("split.count")?.unwrap_or(1) > 1 {
        bail!(
            "{path} is one of several parts of a model; join them first, by llama.cpp's `llama-gguf-split --merge`"
        );
    }
    // An existing file is refused before the work.
    let mut file = NewFile::beside(out)?;
    let source = kernels_io::open(input.path())?;
    let read = Head::read(BufReader::new(&source), alignment);
    let mut head = read.with_context(|| path.clone())?;
    let mut inputs = inputs(&head).with_context(|| path.clone())?;
    inputs.sort_by(|a, b| by_layer(&a.name, &b.name));
    let model = model(input, &inputs)?;
    let planned = plan(&inputs, &model, target, importance).with_context(|| path.clone())?;
    if let Some(importance) = importance {
        head.add(&importance.described()?)?;
    }
    write(
        input.path(),
        &mut file,
        &head,
        target,
        &planned,
        &mut [source],
    )?;
    file.publish()?;
    Ok(summary(&planned))
}

/// Returns the facts that the choice of types depends on.
fn model(input: &gguf::File, tensors: &[Input]) -> anyhow::Result<Model> {
    let path = escape_path(input.path());
    let metadata = input.metadata();
    let key = "general.architecture";
    let architecture = metadata.string(key)?;
    let architecture = architecture.with_context(|| format!("{path}: `{key}` is missing"))?;
    let number = |name: &str| -> anyhow::Result<Option<usize>> {
        let key = format!("{architecture}.{name}");
        let number = metadata.integer(&key)?;
        number
            .map(|number| {
                let wrong = || format!("{path}: `{}` is {number}", escape(&key));
                usize::try_from(number).with_context(wrong)
            })
            .transpose()
    };
    // Some models have a list, one number for each layer. The types of their tensors don't depend on it.
    let heads = |name: &str| match metadata.get(&format!("{architecture}.{name}")) {
        Some(gguf::Value::List(_)) => Ok(None),
        _ => number(name),
    };
    let layers = number("block_count")?;
    let layers = layers.with_context(|| {
        format!(
            "{path}: `{}.block_count` is missing, the number of layers",
            escape(architecture)
        )
    })?;
    let values = ["attn_v.weight", "attn_qkv.weight", "attn_kv_b.weight"];
    let is_values = |tensor: &&Input| values.iter().any(|name| tensor.name.contains(name));
    Ok(Model {
        architecture: architecture.to_owned(),
        layers,
        experts: number("expert_count")?.unwrap_or(0),
        heads: heads("attention.head_count")?.unwrap_or(0),
        key_value_heads: heads("attention.head_count_kv")?.unwrap_or(0),
        has_output: tensors.iter().any(|tensor| tensor.name == "output.weight"),
        values: tensors.iter().filter(is_values).count(),
    })
}

/// Returns the tensors of a file.
fn inputs(head: &Head) -> anyhow::Result<Vec<Input>> {
    let input = |tensor: &Tensor| {
        let from = Kind::of(tensor.id).with_context(|| {
            format!(
                "tensor `{}` has type {} of ggml, which is neither quantised nor copied",
                escape(&tensor.name),
                tensor.id
            )
        })?;
        Ok(Input {
            name: tensor.name.clone(),
            dims: tensor.dims.clone(),
            from,
            plain: from,
            place: Place::File(0, head.start + tensor.offset),
            change: Change::None,
        })
    };
    head.tensors.iter().map(input).collect()
}
