//! The settings of adapters, and `adapter_config.json`.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::patterns::{AdapterPatterns, Each};
use crate::ModelError;
pub(super) use crate::config::folder::CONFIG;
use crate::config::folder::{self, LIMIT};

/// The settings of low-rank adapters.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterConfig {
    /// The rank of the adapters.
    pub rank: usize,
    /// The factor of an adapter, before it is divided by the rank, or by its root with `rank_stabilised`.
    pub alpha: f64,
    /// The probability with which an input of an adapter is left out in training, in `0..1`. It is 0 for adapters of
    /// experts.
    pub dropout: f64,
    /// True if the factor is divided by the root of the rank (rsLoRA, arXiv:2312.03732).
    pub rank_stabilised: bool,
    /// The adapted layers: names such as `q_proj`, or patterns of whole names such as `*.layers.1?.mlp.*`, in which `*`
    /// stands for any text and `?` for one character. The experts of a layer are named as two parameters, such as
    /// `model.layers.1.mlp.experts.gate_up_proj` and `….down_proj`. Empty for all linear layers that PEFT adapts as modules,
    /// but the output projection: no routers, and in mixtures as those of Qwen, DeepSeek and GLM no MLPs.
    pub targets: Vec<String>,
    /// Ranks and factors of single adapters.
    pub patterns: AdapterPatterns,
}

/// Fields of PEFT that change the result, with the values that have no effect.
const NEUTRAL: &[(&str, &[&str])] = &[
    ("bias", &["\"none\""]),
    ("fan_in_fan_out", &["false"]),
    ("use_dora", &["false"]),
    ("use_qalora", &["false"]),
    ("lora_bias", &["false"]),
    ("modules_to_save", &["[]"]),
    ("layer_replication", &["[]"]),
    ("trainable_token_indices", &["[]", "{}"]),
    ("corda_config", &["{}"]),
    ("eva_config", &["{}"]),
    ("megatron_config", &["{}"]),
    ("alora_invocation_tokens", &["[]"]),
    ("arrow_config", &["{}"]),
    ("kasa_config", &["{}"]),
    ("velora_config", &["{}"]),
    ("monteclora_config", &["{}"]),
    ("use_bdlora", &["false"]),
    ("ensure_weight_tying", &["false"]),
    // Others change the weights of the base, at each start.
    (
        "init_lora_weights",
        &["true", "false", "\"gaussian\"", "\"eva\"", "\"orthogonal\""],
    ),
];

/// The largest rank. No layer is as wide.
const MOST_RANK: usize = 1 << 20;

/// The names of adapted layers and parameters in `adapter_config.json`.
pub(super) struct Named {
    pub(super) modules: Vec<String>,
    pub(super) parameters: Vec<String>,
}

/// The contents of `adapter_config.json`.
pub(super) struct Stored {
    /// The settings. Their targets are left to the tensors.
    pub(super) config: AdapterConfig,
    /// `target_parameters`.
    pub(super) parameters: Vec<String>,
}

impl AdapterConfig {
    /// Returns the factor of the adapters' products.
    pub fn scale(&self) -> f64 {
        let rank = self.rank as f64;
        self.alpha
            / if self.rank_stabilised {
                rank.sqrt()
            } else {
                rank
            }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// Returns [`ModelError::Adapter`] for a number outside its range.
    pub fn check(&self) -> Result<(), ModelError> {
        let wrong = |problem: String| Err(ModelError::Adapter { problem });
        if !(1..=MOST_RANK).contains(&self.rank) {
            return wrong(format!(
                "the rank is {}, but must be from 1 to {MOST_RANK}",
                self.rank
            ));
        }
        if !(self.alpha.is_finite() && self.alpha > 0.0) {
            return wrong(format!("alpha is {}, but must be above 0", self.alpha));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return wrong(format!(
                "the dropout is {}, but must be at least 0 and below 1",
                self.dropout
            ));
        }
        Ok(())
    }

    /// Returns the contents of `adapter_config.json` for adapters of these targets in a base model. `names` are those of the
    /// adapted layers.
    pub(super) fn to_json<'a>(
        &self,
        named: &Named,
        names: impl Iterator<Item = &'a str>,
        base: &str,
    ) -> Result<String, ModelError> {
        let [ranks, alphas] = Each::of(self)?.to_json(names)?;
        let mut json = json!({
            "alpha_pattern": alphas,
            "auto_mapping": null,
            "base_model_name_or_path": base,
            "bias": "none",
            "fan_in_fan_out": false,
            "inference_mode": true,
            "init_lora_weights": true,
            "layers_pattern": null,
            "layers_to_transform": null,
            "lora_alpha": self.alpha,
            "lora_dropout": self.dropout,
            "modules_to_save": null,
            "peft_type": "LORA",
            "r": self.rank,
            "rank_pattern": ranks,
            "revision": null,
            "target_modules": named.modules,
            "task_type": "CAUSAL_LM",
            "use_dora": false,
            "use_rslora": self.rank_stabilised,
        });
        // Releases of PEFT that don't know the field read adapters without it.
        if !named.parameters.is_empty() {
            json["target_parameters"] = json!(named.parameters);
        }
        Ok(format!("{json:#}\n"))
    }
}

impl Stored {
    /// Reads `adapter_config.json` of a folder.
    pub(super) fn open(dir: &Path) -> Result<Self, ModelError> {
        let file = dir.join(CONFIG);
        if !file.exists() {
            return Err(folder::no_adapter(dir));
        }
        let text = kernels_io::read_text(&file, LIMIT)?;
        let fields: Map<String, Value> =
            serde_json::from_str(&text).map_err(|source| ModelError::Json {
                file: file.clone(),
                source,
            })?;
        let wrong = |field: &str, problem: String| ModelError::field(&file, field, problem);
        if fields.get("peft_type").and_then(Value::as_str) != Some("LORA") {
            let problem = "expected \"LORA\"; other kinds of adapters are not supported".into();
            return Err(wrong("peft_type", problem));
        }
        for (field, neutral) in NEUTRAL {
            let value = fields.get(*field).unwrap_or(&Value::Null);
            let text = value.to_string();
            if !value.is_null() && !neutral.contains(&text.as_str()) {
                return Err(wrong(field, format!("{text} is not supported")));
            }
        }
        let number = |field: &str| {
            let value = fields.get(field).and_then(Value::as_f64);
            value.ok_or_else(|| wrong(field, "expected a number".into()))
        };
        let flag = |field: &str| match fields.get(field) {
            None | Some(Value::Null) => Ok(false),
            Some(value) => {
                let value = value.as_bool();
                value.ok_or_else(|| wrong(field, "expected true or false".into()))
            }
        };
        let rank = fields.get("r").and_then(Value::as_u64);
        let rank = rank.ok_or_else(|| wrong("r", "expected a whole number".into()))?;
        let config = AdapterConfig {
            rank: usize::try_from(rank).unwrap_or(usize::MAX),
            alpha: number("lora_alpha")?,
            dropout: match fields.get("lora_dropout") {
                None | Some(Value::Null) => 0.0,
                Some(_) => number("lora_dropout")?,
            },
            rank_stabilised: flag("use_rslora")?,
            targets: Vec::new(),
            patterns: AdapterPatterns::parse(&text, &file)?,
        };
        config.check()?;
        if let Err(ModelError::Adapter { problem }) = Each::of(&config).map(drop) {
            let problem = format!("{}: {problem}", kernels_io::escape_path(&file));
            return Err(ModelError::Adapter { problem });
        }
        let parameters = match fields.get("target_parameters") {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(names) => serde_json::from_value(names.clone()).ok(),
        };
        let parameters = parameters
            .ok_or_else(|| wrong("target_parameters", "expected a list of names".into()))?;
        Ok(Self { config, parameters })
    }
}
