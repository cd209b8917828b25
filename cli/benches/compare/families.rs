//! One-layer models of the families, of the configurations in `benches/families.json`.

use super::groups::Run;
use super::setting::{Setting, backward};
use burn::tensor::{Distribution, Int, Tensor};
use kernels_models::ModelConfig;
use serde_json::{Map, Value};
use std::path::Path;

/// The file of the configurations, which `families_torch.py` reads, too.
const FILE: &str = "benches/families.json";
const TEXT: &str = include_str!("../../../benches/families.json");

/// The tokens of all rows. A test asks for fewer, and gets a narrower model, whose weights are made in less time.
const TOKENS: usize = 512;
/// The fields of widths, each with that of a narrow model.
const NARROW: [(&str, usize); 5] = [
    ("hidden_size", 128),
    ("intermediate_size", 64),
    ("intermediate_size_mlp", 64),
    ("moe_intermediate_size", 32),
    ("shared_expert_intermediate_size", 32),
];

/// Prepares the logits of `family`, and the gradients of all its weights.
///
/// # Panics
/// Panics if the file has no such family, or one that is not supported: it is part of the benchmark.
pub fn prepare(family: &str, of: &Setting) -> Run {
    let config = config(family, of.size < TOKENS);
    let model = config.init(&of.device());
    let tokens = Distribution::Uniform(0.0, config.vocab_size as f64);
    let input_ids = Tensor::<2, Int>::random([1, of.size], tokens, &of.device());
    let dy = of.slope([1, of.size, config.vocab_size]);
    Box::new(move || backward([dy.seed(model.forward(input_ids.clone(), None))]))
}

fn config(family: &str, is_narrow: bool) -> ModelConfig {
    let described: Value = serde_json::from_str(TEXT).expect("the file is JSON");
    let fields = |value: &Value| value.as_object().expect("an object").clone();
    let mut merged: Map<String, Value> = fields(&described["common"]);
    merged.extend(fields(&described["families"][family]));
    for (field, width) in NARROW.into_iter().filter(|_| is_narrow) {
        if let Some(value) = merged.get_mut(field) {
            *value = width.into();
        }
    }
    let text = Value::Object(merged).to_string();
    ModelConfig::from_json(&text, Path::new(FILE))
        .unwrap_or_else(|error| panic!("{family}: {error}"))
}
