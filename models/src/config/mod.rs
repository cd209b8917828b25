//! `config.json`: the sizes and settings that define a model.

mod altup;
mod architecture;
mod dtype;
pub(crate) mod family;
pub(crate) mod fields;
pub(crate) mod folder;
mod latent;
mod linear;
mod misspelt;
mod mixed;
mod moe;
mod nested;
mod omni;
mod parse;
mod part;
mod quantisation;
mod qwen3;
mod rewards;
mod rope;
mod scaling;
mod scores;
mod unsupported;
mod vision;
mod window;

use std::path::Path;

use kernels_io::Limit;
use serde_json::{Map, Value, json};

pub use self::altup::AltUpConfig;
pub use self::architecture::Architecture;
pub use self::dtype::StoredDtype;
use self::family::{Experts, Families, Family};
use self::fields::{Fields, MAX_SIZE, brief};
pub use self::latent::LatentConfig;
pub use self::linear::LinearConfig;
pub use self::mixed::{MixedConfig, Temperature};
pub use self::moe::{GroupConfig, MoeConfig};
pub(crate) use self::omni::Speech;
pub use self::omni::SpeechConfig;
pub use self::part::OmniPart;
pub(crate) use self::part::{Chosen, PartOf, Whole};
pub use self::qwen3::{Qwen3MoeSize, Qwen3Size};
pub use self::rope::RopeConfig;
pub use self::scaling::{Mscale, RopeScaling};
pub use self::scores::ScoreConfig;
pub(crate) use self::unsupported::{Neutral, Refusal};
pub use self::vision::{VisionConfig, WindowedBlocks};
pub use self::window::WindowConfig;
use crate::ModelError;

/// The largest number of layers, eight times that of any known model.
const MAX_LAYERS: usize = 1024;

/// The largest width of a head, hundreds of times that of any known model. The rotary frequencies of a head are computed
/// before a checkpoint's tensors are compared with the sizes.
const MAX_HEAD_DIM: usize = 262_144;

/// A checked model configuration.
///
/// Read it with [`ModelConfig::from_file`] or make one with [`ModelConfig::qwen3`]. Field names are those of
/// `config.json`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The model family.
    pub architecture: Architecture,
    /// The data of the families, among which that of the architecture is.
    families: Families,
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the MLP of dense layers. Mixtral has no dense layers and stores the width of its experts here.
    pub intermediate_size: usize,
    /// Number of decoder layers.
    pub num_hidden_layers: usize,
    /// Number of query heads.
    pub num_attention_heads: usize,
    /// Number of key and value heads. It divides the number of query heads.
    pub num_key_value_heads: usize,
    /// Width of one head, an even number. Of latent attention it is the rotated part.
    pub head_dim: usize,
    /// The sizes of latent attention, in families that have it.
    pub latent: Option<LatentConfig>,
    /// Length of the longest sequence, in tokens.
    pub max_position_embeddings: usize,
    /// Epsilon that every normalisation adds to the mean square.
    pub rms_norm_eps: f64,
    /// True if the output projection is the embedding table.
    pub tie_word_embeddings: bool,
    /// True if the projections of attention have biases, in families that know the field: all four, or in GLM-4's only
    /// those of queries, keys and values.
    pub attention_bias: bool,
    /// True if the output projection of attention has a bias, in families where a field of its own decides.
    pub attention_out_bias: bool,
    /// True if only the projections of queries, keys and values have biases.
    pub qkv_bias: bool,
    /// True if the three projections of the MLP have biases, in families that know the field.
    pub mlp_bias: bool,
    /// True if queries and keys are normalised.
    pub use_qk_norm: bool,
    /// The parallel residual streams, in families that have them.
    pub altup: Option<AltUpConfig>,
    /// The lists by which layers differ, in families that have them.
    pub mixed: Option<MixedConfig>,
    /// The layers with linear attention, in families that have them.
    pub linear: Option<LinearConfig>,
    /// The layers with a sliding window, if there are any.
    pub sliding_window: Option<WindowConfig>,
    /// The sizes of a part of an Omni model that speaks.
    pub speech: Option<SpeechConfig>,
    /// The mixture of experts, if the architecture has one.
    pub moe: Option<MoeConfig>,
    /// The scale and the caps of attention scores and logits, in families that choose them.
    pub scores: Option<ScoreConfig>,
    /// Settings of the rotary positions.
    pub rope: RopeConfig,
    /// Settings of the rotary positions in layers with a window, in families where they have their own.
    pub local_rope: Option<RopeConfig>,
    /// Standard deviation of fresh weights.
    pub initializer_range: f64,
    /// Dtype of the checkpoint's weights, if the file names it.
    pub dtype: Option<StoredDtype>,
    /// True for a reward model, which gives one score in place of logits: a `…ForSequenceClassification` with one
    /// label.
    pub(crate) rewards: bool,
    /// Fields without an effect on the forward pass (token ids, generation settings), kept for saving.
    other: Map<String, Value>,
    /// The same of the model that this one is the text model of, if it is a part of another.
    whole: Map<String, Value>,
}

impl ModelConfig {
    /// Reads the fields of a `config.json`.
    pub(crate) fn read_fields(path: &Path) -> Result<Map<String, Value>, ModelError> {
        const LIMIT: Limit = Limit::mib("a config.json", 16);
        let dir = path.parent().filter(|_| !path.exists());
        if let Some(error) = dir.and_then(folder::no_model) {
            return Err(error);
        }
        parse_fields(&kernels_io::read_text(path, LIMIT)?, path)
    }

    /// Checks the fields of a `config.json` of one of the families. Errors name the file `origin`, and before each field the
    /// objects `prefix` that the fields stand in.
    pub(crate) fn of_fields(
        object: &Map<String, Value>,
        origin: &Path,
        prefix: &str,
        families: Families,
    ) -> Result<Self, ModelError> {
        Self::parse(Fields::new(origin, prefix, object), object, families)
    }

    /// Returns `true` for a model from token ids to logits of the next token: of parts of Omni models, a thinker or a
    /// talker.
    pub fn is_language_model(&self) -> bool {
        self.architecture.is_language_model()
    }

    /// Returns the width of the embeddings of tokens. Of a talker of Qwen2.5-Omni it differs from `hidden_size`.
    pub fn embedding_width(&self) -> usize {
        match self.speech {
            Some(SpeechConfig::ProjectedTalker { embedding_size }) => embedding_size,
            _ => self.hidden_size,
        }
    }

    /// Returns `true` if a layer, counted from 0, is a mixture of experts.
    pub fn is_sparse(&self, layer: usize) -> bool {
        self.moe.as_ref().is_some_and(|moe| moe.is_sparse(layer))
    }

    /// Returns `true` if a layer, counted from 0, has linear attention, which keeps a state in place of keys.
    pub fn is_linear(&self, layer: usize) -> bool {
        let linear = self.linear.as_ref();
        linear.is_some_and(|linear| linear.layers.contains(&layer))
    }

    /// Returns the largest number of keys that a query of a layer, counted from 0, sees. Returns `None` if a query sees
    /// all keys up to its own.
    pub fn window(&self, layer: usize) -> Option<usize> {
        let window = self.sliding_window.as_ref()?;
        window.layers.contains(&layer).then_some(window.size)
    }

    /// Returns the number of last keys that a cache must keep for a layer, or `None` if it must keep all. Those of a chunk
    /// are found by their distance from the first key.
    pub(crate) fn kept(&self, layer: usize) -> Option<usize> {
        let chunked = self
            .sliding_window
            .as_ref()
            .is_some_and(|window| window.chunked);
        self.window(layer).filter(|_| !chunked)
    }

    /// Returns `true` if a layer rotates queries and keys.
    pub(crate) fn rotates(&self, layer: usize) -> bool {
        let mixed = self.mixed.as_ref();
        mixed.is_none_or(|mixed| !mixed.unrotated_layers.contains(&layer))
    }

    /// Returns the width of the MLP of dense layers.
    pub(crate) fn dense_width(&self) -> usize {
        let mixed = self.mixed.as_ref();
        mixed.map_or(self.intermediate_size, |mixed| mixed.intermediate_size_mlp)
    }

    /// Returns the factor of the products of queries and keys.
    pub(crate) fn attention_scale(&self) -> f64 {
        let width = self
            .latent
            .map_or(self.head_dim, |latent| latent.qk_head_dim()) as f64;
        let divisor = self
            .scores
            .map_or(width, |scores| scores.query_pre_attn_scalar);
        divisor.powf(-0.5) * self.rope.scaling.score_factor()
    }

    pub(crate) fn family(&self) -> &'static Family {
        self.families.of(self.architecture)
    }

    /// Returns the number of layers after the last that predict further tokens. They are not part of the model.
    pub(crate) fn further_layers(&self) -> usize {
        let count = self.other.get("num_nextn_predict_layers");
        let count = count.and_then(Value::as_u64).unwrap_or(0);
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// Returns the fields that are kept for saving, and those of the model that this one is a part of.
    pub(crate) fn kept_fields(&self) -> [&Map<String, Value>; 2] {
        [&self.other, &self.whole]
    }

    fn mixture(&self) -> Option<(&MoeConfig, &'static Experts)> {
        self.moe.as_ref().zip(self.family().experts.as_ref())
    }

    /// Checks conditions on several fields, and sizes that did not come from JSON.
    fn check(&self, origin: &Path) -> Result<(), ModelError> {
        let fail = |field: &str, problem: String| Err(ModelError::field(origin, field, problem));
        let moe = self.mixture();
        let moe_sizes = moe.iter().flat_map(|(moe, experts)| moe.sizes(experts));
        for (name, size) in self.sizes().into_iter().chain(moe_sizes) {
            if size == 0 || size as u64 > MAX_SIZE {
                return fail(name, format!("expected 1 to {MAX_SIZE}, found {size}"));
            }
        }
        if self.num_hidden_layers > MAX_LAYERS {
            let problem = format!(
                "expected at most {MAX_LAYERS}, found {}",
                self.num_hidden_layers
            );
            return fail("num_hidden_layers", problem);
        }
        if !self
            .num_attention_heads
            .is_multiple_of(self.num_key_value_heads)
        {
            let problem = format!(
                "{} does not divide `num_attention_heads`, which is {}",
                self.num_key_value_heads, self.num_attention_heads
            );
            return fail("num_key_value_heads", problem);
        }
        if self.latent.is_some() && self.num_key_value_heads != self.num_attention_heads {
            let problem = format!(
                "{} is not supported: latent attention has as many as `num_attention_heads`, {}",
                self.num_key_value_heads, self.num_attention_heads
            );
            return fail("num_key_value_heads", problem);
        }
        if self.head_dim > MAX_HEAD_DIM {
            let problem = format!("expected at most {MAX_HEAD_DIM}, found {}", self.head_dim);
            return fail("head_dim", problem);
        }
        if !self.head_dim.is_multiple_of(2) {
            let problem = format!("{} is odd; rotary positions need pairs", self.head_dim);
            return fail("head_dim", problem);
        }
        if let Some((field, bias)) = self.foreign_bias() {
            let what = if bias { "has no" } else { "always has" };
            let problem = format!(
                "{bias} is not supported: {} {what} such biases",
                self.family().class_name
            );
            return fail(field, problem);
        }
        for rope in std::iter::once(&self.rope).chain(&self.local_rope) {
            if let Some((field, problem)) = rope.problem(self.head_dim, self.family().positions) {
                return fail(&format!("rope_parameters.{field}"), problem);
            }
        }
        let problem = moe.and_then(|(moe, experts)| moe.problem(experts, self.num_hidden_layers));
        if let Some((field, problem)) = problem {
            return fail(field, problem);
        }
        for (name, value) in [
            ("rms_norm_eps", self.rms_norm_eps),
            ("initializer_range", self.initializer_range),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return fail(name, format!("expected a number from 0, found {value}"));
            }
        }
        if self.parameter_bytes() > isize::MAX as u128 {
            return fail(
                "num_hidden_layers",
                "together the sizes exceed the address space".into(),
            );
        }
        Ok(())
    }

    fn biases(&self) -> [(&'static str, bool); 4] {
        [
            ("mlp_bias", self.mlp_bias),
            ("attention_bias", self.attention_bias),
            ("attention_out_bias", self.attention_out_bias),
            ("qkv_bias", self.qkv_bias),
        ]
    }

    /// Returns the biases that the family lets a configuration choose.
    fn own_biases(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let own = self.family().chosen_biases;
        let biases = self.biases().into_iter();
        biases.filter(|(name, _)| own.contains(name))
    }

    /// Returns a bias that the family fixes and whose value differs from the family's.
    fn foreign_bias(&self) -> Option<(&'static str, bool)> {
        let Family {
            chosen_biases,
            defaults,
            ..
        } = self.family();
        let own = |name| name == "qkv_bias" && defaults.qkv_bias;
        let foreign = |&(name, bias): &(&'static str, bool)| {
            !chosen_biases.contains(&name) && bias != own(name)
        };
        self.biases().into_iter().find(foreign)
    }

    fn sizes(&self) -> [(&'static str, usize); 8] {
        [
            (omni::vocabulary(self.family()), self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads),
            ("head_dim", self.head_dim),
            ("max_position_embeddings", self.max_position_embeddings),
        ]
    }

    /// Returns an upper bound of the memory for all weight matrices in `f64`, in bytes. Each size fits in 31 bits and
    /// the number of layers in 14, so nothing overflows: the longest product, of the experts, has 110 bits.
    fn parameter_bytes(&self) -> u128 {
        let [vocab, hidden, inter, layers, heads, _, head_dim, _] =
            self.sizes().map(|(_, size)| size as u128);
        let experts = self.moe.as_ref().map_or(0, |moe| {
            let shared = moe.shared_expert_intermediate_size.unwrap_or(0) as u128;
            let width = moe.moe_intermediate_size as u128;
            moe.num_experts as u128 * (3 * width + 1) + 3 * shared + 1
        });
        let attention = match &self.latent {
            Some(latent) => latent.weights(self.hidden_size, self.num_attention_heads),
            // The projection of a gate is as large as that of the queries.
            None => (4 + u128::from(self.family().output_gate)) * hidden * heads * head_dim,
        };
        let linear = self.linear.as_ref();
        let attention = attention + linear.map_or(0, |own| own.weights(self.hidden_size));
        let layer = attention + hidden * (3 * (inter + self.dense_width() as u128) + experts);
        let altup = self.altup.as_ref().map_or(0, |altup| {
            altup.weights(self.hidden_size, self.num_hidden_layers)
        });
        let speech = self.speech.as_ref();
        let speech = speech.map_or(0, |speech| speech.weights(vocab, hidden, inter));
        8 * (2 * vocab * hidden + layers * layer + altup + speech)
    }

    /// Returns the `config.json` of this model. Rotary settings and the number of experts are in both spellings, so
    /// that `transformers` 4 and 5 read the same model from it.
    pub fn to_json(&self) -> String {
        let mut object = self.other.clone();
        let mut set = |name: &str, value: Value| object.insert(name.to_owned(), value);
        set("architectures", json!([self.class_name()]));
        set("model_type", json!(self.family().model_type));
        for (name, size) in self.sizes() {
            set(name, json!(size));
        }
        set("rms_norm_eps", json!(self.rms_norm_eps));
        set("tie_word_embeddings", json!(self.tie_word_embeddings));
        for (name, bias) in self.own_biases() {
            set(name, json!(bias));
        }
        if self.family().chosen_norms {
            set("use_qk_norm", json!(self.use_qk_norm));
        }
        set("initializer_range", json!(self.initializer_range));
        let activation = self.family().activation;
        set(activation.field, json!(activation.name));
        if let Some(dtype) = self.dtype {
            set("dtype", json!(dtype.config_name()));
            set("torch_dtype", json!(dtype.config_name()));
        }
        let positions = self.family().positions;
        let longest = self.max_position_embeddings;
        rope::write(
            &self.rope,
            self.local_rope.as_ref(),
            positions,
            longest,
            &mut object,
        );
        if let Some(latent) = &self.latent {
            latent.write(&mut object);
        }
        if let Some(altup) = &self.altup {
            altup.write(&mut object);
        }
        if let Some(speech) = &self.speech {
            speech.write(&mut object);
        }
        if let Some(mixed) = &self.mixed {
            mixed.write(self.num_hidden_layers, &mut object);
        }
        if let Some(linear) = &self.linear {
            linear.write(self.num_hidden_layers, &mut object);
        }
        if let Some(scores) = &self.scores {
            scores.write(self.family().honours, &mut object);
        }
        let window = self.sliding_window.as_ref();
        let layers = self.num_hidden_layers;
        WindowConfig::write(window, self.family().window, layers, &mut object);
        if let Some((moe, experts)) = self.mixture() {
            moe.write(experts, self.family().refuses, &mut object);
        }
        if let Some(nested) = &self.family().nested {
            object = nested::wrap(object, &self.whole, nested);
        }
        let mut text = format!("{:#}", Value::Object(object));
        text.push('\n');
        text
    }
}

/// Parses the text of a `config.json`.
pub(crate) fn parse_fields(json: &str, origin: &Path) -> Result<Map<String, Value>, ModelError> {
    let root: Value = serde_json::from_str(json).map_err(|source| ModelError::Json {
        file: origin.into(),
        source,
    })?;
    match root {
        Value::Object(fields) => Ok(fields),
        other => {
            let problem = format!("expected an object, found {}", brief(&other));
            Err(ModelError::field(origin, "(the whole file)", problem))
        }
    }
}
