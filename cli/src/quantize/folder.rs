//! A folder in Hugging Face layout, written anew with the linear layers in a format of bitsandbytes.

use super::bnb::Method;
use super::layers;
use super::shard::{Shard, float};
use crate::companions::copy_companions;
use crate::output::refuse_occupied;
use anyhow::{Context, bail, ensure};
use bytesize::ByteSize;
use kernels_io::{Limit, Staging, escape, escape_path, write_new};
use kernels_models::{ModelConfig, weight_files};
use safetensors::tensor::TensorInfo;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::Path;

const CONFIG: &str = "config.json";
const INDEX: &str = "model.safetensors.index.json";

/// Writes a folder. Returns a sentence about it.
///
/// # Errors
/// Returns an error if the folder can't be read or has experts, if a weight has no code, or if `out` can't be written.
pub fn quantise(model: &Path, method: Method, out: &Path) -> anyhow::Result<String> {
    refuse_occupied(out)?;
    // Refuses families and settings that this program would not load.
    ModelConfig::from_file(&model.join(CONFIG))?;
    let mut config = config(&model.join(CONFIG))?;
    let shards = weight_files(model)?.into_iter().map(Shard::open);
    let mut shards = shards.collect::<anyhow::Result<Vec<Shard>>>()?;
    refuse_repeated(&shards)?;
    let settings = settings(model, &shards, method)?;
    config.insert("quantization_config".into(), settings);

    let staging = Staging::beside(out)?;
    let to = |name: &str| staging.path().join(name);
    let (mut before, mut after, mut quantised) = (0, 0, 0);
    let mut places = Map::new();
    for shard in &mut shards {
        let name = shard.path.file_name().unwrap_or_default().to_owned();
        let written = shard.quantise(method, &staging.path().join(&name))?;
        let file = json!(name.to_string_lossy());
        places.extend(written.names.into_iter().map(|name| (name, file.clone())));
        before += shard.bytes();
        after += written.bytes;
        quantised += written.quantised;
    }
    if !shards.iter().all(Shard::is_single) {
        let index = json!({ "metadata": { "total_size": after }, "weight_map": places });
        write_new(&to(INDEX), format!("{index:#}\n").as_bytes())?;
    }
    let text = format!("{:#}\n", Value::Object(config));
    write_new(&to(CONFIG), text.as_bytes())?;
    copy_companions(model, staging.path())?;
    staging.publish()?;
    let size = |bytes| ByteSize::b(bytes).display().iec().to_string();
    let (before, after) = (size(before), size(after));
    Ok(format!(
        "{after}, before {before}; {quantised} linear layers are in {}, other tensors are as they were",
        method.name()
    ))
}

/// Returns the `quantization_config`.
fn settings(model: &Path, shards: &[Shard], method: Method) -> anyhow::Result<Value> {
    let all = || shards.iter().flat_map(|shard| &shard.tensors);
    layers::refuse_experts(all().map(|(name, _)| name.as_str()))?;
    let of_layer = |(name, info): &(String, TensorInfo)| {
        layers::quantised(name, &info.shape).and(float(info.dtype))
    };
    let Some(compute) = all().find_map(of_layer) else {
        bail!(
            "{}: no tensor is the weight of a linear layer, of floats",
            escape_path(model)
        );
    };
    let names = all().map(|(name, info)| (name.as_str(), info.shape.as_slice()));
    Ok(method.config(&layers::skipped(names), compute))
}

/// Reads the configuration of floats.
fn config(path: &Path) -> anyhow::Result<Map<String, Value>> {
    let text = kernels_io::read_text(path, Limit::mib("a configuration", 16))?;
    let shown = escape_path(path);
    let config: Map<String, Value> = serde_json::from_str(&text).with_context(|| shown.clone())?;
    ensure!(
        config.get("quantization_config").is_none_or(Value::is_null),
        "{shown}: `quantization_config` says that the weights are quantised already; name the folder of floats"
    );
    Ok(config)
}

/// Refuses two tensors of one name, of which a reader would take either.
pub fn refuse_repeated(shards: &[Shard]) -> anyhow::Result<()> {
    let mut places = HashMap::new();
    for shard in shards {
        for (name, _) in &shard.tensors {
            if let Some(other) = places.insert(name, &shard.path) {
                bail!(
                    "tensor `{}` is in {} and in {}; remove one of them",
                    escape(name),
                    escape_path(other),
                    escape_path(&shard.path)
                );
            }
        }
    }
    Ok(())
}
