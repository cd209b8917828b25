//! The names of tensors in GGUF files, and those of the Hugging Face layout.

use super::dialect::Dialect;

/// The tensors outside of the layers.
const OUTER: [(&str, &str); 3] = [
    ("token_embd", "model.embed_tokens"),
    ("output_norm", "model.norm"),
    ("output", "lm_head"),
];

/// The tensors of a layer.
const INNER: [(&str, &str); 12] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
    ("post_attention_norm", "post_attention_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
];

/// The name of a tensor with divisors of rotary frequencies. It is a part of the configuration.
pub(super) const ROPE_FREQS: &str = "rope_freqs.weight";

/// Returns the name of a tensor in the Hugging Face layout. A tensor that no family has keeps its name.
pub(super) fn in_layout(name: &str, dialect: &Dialect) -> String {
    translated(name, dialect).unwrap_or_else(|| name.to_owned())
}

fn translated(name: &str, dialect: &Dialect) -> Option<String> {
    let (place, end) = name.rsplit_once('.')?;
    if !["weight", "bias"].contains(&end) {
        return None;
    }
    let Some(inner) = place.strip_prefix("blk.") else {
        return Some(format!("{}.{end}", entry(&OUTER, place)?));
    };
    let (layer, part) = inner.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    let part = match part {
        "ffn_norm" if dialect.gemma => "pre_feedforward_layernorm",
        "ffn_norm" => "post_attention_layernorm",
        part => entry(&INNER, part)?,
    };
    Some(format!("model.layers.{layer}.{part}.{end}"))
}

/// Returns the name in files of a family of a tensor of the Hugging Face layout, if they have it.
pub(super) fn in_file(name: &str, dialect: &Dialect) -> Option<String> {
    let (place, end) = name.rsplit_once('.')?;
    if !["weight", "bias"].contains(&end) {
        return None;
    }
    let Some(inner) = place.strip_prefix("model.layers.") else {
        return Some(format!("{}.{end}", key(&OUTER, place)?));
    };
    let (layer, part) = inner.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    let part = match part {
        "pre_feedforward_layernorm" if dialect.gemma => "ffn_norm",
        "post_attention_layernorm" if !dialect.gemma => "ffn_norm",
        part => key(&INNER, part)?,
    };
    Some(format!("blk.{layer}.{part}.{end}"))
}

fn key(names: &[(&'static str, &str)], wanted: &str) -> Option<&'static str> {
    let entry = names.iter().find(|(_, name)| *name == wanted);
    entry.map(|(key, _)| *key)
}

fn entry(names: &[(&str, &'static str)], wanted: &str) -> Option<&'static str> {
    let entry = names.iter().find(|(name, _)| *name == wanted);
    entry.map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_have_the_names_of_their_family() {
        let name = |family, name| in_layout(name, Dialect::find(family).unwrap());
        assert_eq!(
            name("llama", "blk.3.ffn_norm.weight"),
            "model.layers.3.post_attention_layernorm.weight"
        );
        assert_eq!(
            name("gemma2", "blk.3.ffn_norm.weight"),
            "model.layers.3.pre_feedforward_layernorm.weight"
        );
        assert_eq!(name("qwen2", "output.weight"), "lm_head.weight");
        assert_eq!(
            name("qwen2", "blk.0.attn_q.bias"),
            "model.layers.0.self_attn.q_proj.bias"
        );
    }

    #[test]
    fn names_of_files_are_those_that_are_read() {
        let parts = INNER.map(|(_, part)| part);
        let outer = OUTER.map(|(_, name)| format!("{name}.weight"));
        for family in ["llama", "gemma2"] {
            let dialect = Dialect::find(family).unwrap();
            let of_layer = |part: &str| format!("model.layers.12.{part}.bias");
            for name in outer.iter().cloned().chain(parts.map(of_layer)) {
                let stored = in_file(&name, dialect).unwrap();
                assert_ne!(stored, name);
                assert_eq!(in_layout(&stored, dialect), name);
            }
            for name in [
                "model.layers.0.self_attn.rotary_emb.inv_freq",
                "model.layers.x.self_attn.q_proj.weight",
                "score.weight",
            ] {
                assert_eq!(in_file(name, dialect), None);
            }
        }
    }

    #[test]
    fn other_tensors_keep_their_names() {
        let llama = Dialect::find("llama").unwrap();
        for name in [
            "blk.0.ffn_gate_exps.weight",
            "blk.x.attn_q.weight",
            "v.patch_embd.weight",
            "output",
        ] {
            assert_eq!(in_layout(name, llama), name);
        }
    }
}
