//! The linear layers of a folder in Hugging Face layout, by the names of their weights.

use anyhow::bail;
use kernels_io::escape;
use std::collections::BTreeSet;

/// Returns the name of the layer whose weight a tensor is, if it is quantised.
///
/// These are the projections of decoder layers. The output projection, embeddings, norms and routers stay floats.
pub fn quantised<'a>(name: &'a str, shape: &[usize]) -> Option<&'a str> {
    let layer = name.strip_suffix(".weight")?;
    let last = last(layer);
    let is_projection = last.ends_with("_proj") || last == "kv_a_proj_with_mqa";
    let parts: Vec<&str> = layer.split('.').collect();
    let is_numbered = |pair: &[&str]| pair[0] == "layers" && pair[1].parse::<u32>().is_ok();
    let in_layer = parts.windows(2).any(is_numbered);
    (is_projection && in_layer && shape.len() == 2).then_some(layer)
}

fn last(layer: &str) -> &str {
    layer.rsplit('.').next().unwrap_or(layer)
}

/// Returns ends of the names of matrices that stay floats, for `llm_int8_skip_modules`. A program that reads the folder
/// takes every other linear layer for a quantised one. transformers skips a layer whose name ends in one of these, so
/// each has as many parts as no quantised layer's name ends in.
pub fn skipped<'a>(tensors: impl IntoIterator<Item = (&'a str, &'a [usize])>) -> BTreeSet<String> {
    let matrices = tensors.into_iter().filter(|(_, shape)| shape.len() == 2);
    let layers = matrices.filter_map(|(name, shape)| {
        let layer = name.strip_suffix(".weight")?;
        Some((layer, quantised(name, shape).is_some()))
    });
    let (quantised, floats): (Vec<_>, Vec<_>) = layers.partition(|(_, quantised)| *quantised);
    let is_free = |end: &&str| !quantised.iter().any(|(layer, _)| layer.ends_with(end));
    let ends = floats.into_iter().map(|(layer, _)| {
        let dots = layer.rmatch_indices('.').map(|(at, _)| &layer[at + 1..]);
        dots.chain([layer])
            .find(is_free)
            .unwrap_or(layer)
            .to_owned()
    });
    // A tied model has no tensor for its output projection.
    ends.chain(["lm_head".to_owned()]).collect()
}

/// Refuses experts: bitsandbytes quantises linear layers alone, and transformers holds the experts of a layer in one
/// tensor.
///
/// # Errors
/// Returns an error that names a tensor of an expert, and another way to quantise the model.
pub fn refuse_experts<'a>(names: impl IntoIterator<Item = &'a str>) -> anyhow::Result<()> {
    for name in names {
        if name.contains(".experts.") {
            bail!(
                "tensor `{}` belongs to an expert, and bitsandbytes has no quantised experts, which are most of this \
                 model; make a GGUF file of it, by llama.cpp's convert_hf_to_gguf.py, and quantise that to q8_0, q4_0 \
                 or q4_k_m",
                escape(name)
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projections_of_layers_are_quantised() {
        for layer in [
            "model.layers.0.self_attn.q_proj",
            "layers.11.mlp.gate_up_proj",
            "model.language_model.layers.3.self_attn.kv_a_proj_with_mqa",
        ] {
            let name = format!("{layer}.weight");
            assert_eq!(quantised(&name, &[4, 4]), Some(layer));
            assert_eq!(quantised(&name, &[4]), None);
        }
        for name in [
            "model.layers.0.self_attn.q_proj.bias",
            "model.layers.0.input_layernorm.weight",
            "model.layers.0.mlp.gate.weight",
            "model.embed_tokens.weight",
            "model.per_layer_model_projection.weight",
            "multi_modal_projector.up_proj.weight",
            "lm_head.weight",
        ] {
            assert_eq!(quantised(name, &[4, 4]), None, "{name}");
        }
    }

    #[test]
    fn other_matrices_are_skipped() {
        let (matrix, vector): (&[usize], &[usize]) = (&[4, 4], &[4]);
        let found = skipped([
            ("model.embed_tokens.weight", matrix),
            ("model.layers.0.mlp.gate.weight", matrix),
            ("model.layers.0.mlp.gate_proj.weight", matrix),
            ("model.visual.blocks.0.attn.proj.weight", matrix),
            ("model.norm.weight", vector),
        ]);
        let found: Vec<_> = found.into_iter().collect();
        assert_eq!(found, ["attn.proj", "embed_tokens", "gate", "lm_head"]);
    }

    #[test]
    fn experts_are_refused() {
        let error = refuse_experts(["model.layers.0.mlp.experts.3.up_proj.weight"]).unwrap_err();
        assert!(error.to_string().contains("q4_k_m"), "{error}");
        assert!(refuse_experts(["model.layers.0.mlp.up_proj.weight"]).is_ok());
    }
}
