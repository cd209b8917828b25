//! The rotary positions of a GGUF file.

use serde_json::{Map, Value as Json, json};

use super::config::Keys;
use super::names::ROPE_FREQS;
use super::{Contents, Value};
use crate::{ModelConfig, ModelError, RopeScaling};

/// The keys of rotary positions. Those of `scaling.yarn` are only accepted at the values that llama.cpp uses without
/// them.
pub(super) const READ: [&str; 9] = [
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
];

/// The published settings of Llama 3's scaling: factors of low and high frequencies and the length of the first training.
/// Only the divisor differs between models.
const LLAMA3: [f64; 3] = [1.0, 4.0, 8192.0];

/// Adds the fields of rotary positions for heads of this width.
pub(super) fn add(
    file: &dyn Contents,
    keys: &Keys<'_>,
    head: usize,
    fields: &mut Map<String, Json>,
) -> Result<(), ModelError> {
    let number = |key: &str| keys.metadata.number(&keys.full(key));
    let theta = number("rope.freq_base")?.unwrap_or(10_000.0);
    fields.insert("rope_theta".into(), json!(theta));
    if keys.family == "gemma3" {
        let local = number("rope.freq_base_swa")?.unwrap_or(10_000.0);
        fields.insert("rope_local_base_freq".into(), json!(local));
    } else if let Some(local) = number("rope.freq_base_swa")? {
        fields.insert("rope_local_base_freq".into(), json!(local));
    }
    let rotated = keys.metadata.integer(&keys.full("rope.dimension_count"))?;
    if let Some(rotated) = rotated.filter(|&rotated| rotated != head as i64) {
        let part = rotated as f64 / head as f64;
        fields.insert("partial_rotary_factor".into(), json!(part));
    }
    let scaling = match file.shape(ROPE_FREQS) {
        Some(shape) => llama3(file, shape, theta, head / 2)?,
        None => scaling(keys)?,
    };
    if let Some(scaling) = scaling {
        fields.insert("rope_scaling".into(), scaling);
    }
    Ok(())
}

/// Returns the scaling that the metadata name.
fn scaling(keys: &Keys<'_>) -> Result<Option<Json>, ModelError> {
    let full = |key: &str| keys.full(&format!("rope.scaling.{key}"));
    let number = |key: &str| keys.metadata.number(&full(key));
    let Some(kind) = keys
        .metadata
        .string(&full("type"))?
        .filter(|kind| *kind != "none")
    else {
        return Ok(None);
    };
    if number("attn_factor")?.is_some_and(|factor| factor != 1.0) {
        return Err(keys
            .metadata
            .error(&full("attn_factor"), "only 1 is supported"));
    }
    let mut scaling = Map::from_iter([("rope_type".to_owned(), json!(kind))]);
    let mut set = |field: &str, value: Option<Json>| {
        if let Some(value) = value {
            scaling.insert(field.into(), value);
        }
    };
    set("factor", number("factor")?.map(Json::from));
    // Only YaRN reads it.
    if kind == "yarn" {
        let original = keys.metadata.integer(&full("original_context_length"))?;
        set("original_max_position_embeddings", original.map(Json::from));
        set("beta_fast", number("yarn_beta_fast")?.map(Json::from));
        set("beta_slow", number("yarn_beta_slow")?.map(Json::from));
    }
    Ok(Some(Json::Object(scaling)))
}

/// Returns the settings of Llama 3's scaling that give these divisors of frequencies.
fn llama3(
    file: &dyn Contents,
    shape: &[usize],
    theta: f64,
    pairs: usize,
) -> Result<Option<Json>, ModelError> {
    let fail = |problem: &str| Err(file.metadata().error(ROPE_FREQS, problem));
    if shape != [pairs] {
        let problem = format!("expected {pairs} numbers, found shape {shape:?}");
        return fail(&problem);
    }
    let found = file.numbers(ROPE_FREQS)?;
    if found.iter().all(|&divisor| divisor == 1.0) {
        return Ok(None);
    }
    let factor = found.iter().copied().fold(1.0, f32::max);
    let expected = llama3_divisors(factor.into(), theta, pairs);
    let near =
        |(found, expected): (&f32, f64)| (f64::from(*found) - expected).abs() <= 1e-5 * expected;
    if !found.iter().zip(expected).all(near) {
        return fail(
            "holds divisors of rotary frequencies that are not those of Llama 3, which is not supported",
        );
    }
    let [low, high, original] = LLAMA3;
    Ok(Some(json!({
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": original as usize,
    })))
}

/// Returns the divisors of `pairs` frequencies with the published settings.
fn llama3_divisors(factor: f64, theta: f64, pairs: usize) -> impl Iterator<Item = f64> {
    let [low, high, original] = LLAMA3;
    (0..pairs).map(move |pair| {
        let frequency = theta.powf(-(pair as f64) / pairs as f64);
        // The number of rotations in the context of the first training.
        let rotations = original * frequency / std::f64::consts::TAU;
        if rotations > high {
            1.0
        } else if rotations < low {
            factor
        } else {
            let kept = (rotations - low) / (high - low);
            ((1.0 - kept) / factor + kept).recip()
        }
    })
}

/// The keys of rotary positions, without the family before them, and Llama 3's divisors of frequencies.
pub(super) type Written = (Vec<(&'static str, Value)>, Option<Vec<f32>>);

/// Returns the keys of rotary positions in a file. Settings that have no key are found by [reading](add) the file
/// again.
pub(super) fn written(config: &ModelConfig) -> Written {
    let theta = config.rope.theta;
    let mut keys = vec![("rope.freq_base", Value::F32(theta as f32))];
    if let Some(local) = &config.local_rope {
        keys.push(("rope.freq_base_swa", Value::F32(local.theta as f32)));
    }
    let mut divisors = None;
    let mut scaled = |kind: &str, factor: f64| {
        keys.push(("rope.scaling.type", Value::String(kind.into())));
        keys.push(("rope.scaling.factor", Value::F32(factor as f32)));
    };
    match &config.rope.scaling {
        RopeScaling::Linear { factor } => scaled("linear", *factor),
        RopeScaling::Yarn {
            factor,
            original_max_position_embeddings: original,
            ..
        } => {
            scaled("yarn", *factor);
            let original = Value::Integer(*original as i128);
            keys.push(("rope.scaling.original_context_length", original));
        }
        RopeScaling::Llama3 { factor, .. } => {
            let found = llama3_divisors(*factor, theta, config.head_dim / 2);
            divisors = Some(found.map(|divisor| divisor as f32).collect());
        }
        RopeScaling::Default | RopeScaling::LongRope { .. } => {}
    }
    (keys, divisors)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The divisors of Llama 3.2 (1B), as llama.cpp computes them from its `config.json`.
    #[test]
    fn divisors_are_those_of_llama_3() {
        let divisors: Vec<f64> = llama3_divisors(32.0, 500_000.0, 32).collect();
        assert_eq!(divisors[0], 1.0);
        assert_eq!(divisors[31], 32.0);
        assert!(divisors.is_sorted());
        let between = divisors.iter().filter(|&&d| d > 1.0 && d < 32.0).count();
        assert_eq!(between, 3);
    }
}
