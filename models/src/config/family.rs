//! Data that sets one model family apart from the others: names, limits and defaults.
//!
//! Configurations get the data of all families as [`Families`], so that reading one names no family.

use std::fmt;

use burn_kernels::semantics::RouterKey;

use super::{Architecture, GroupConfig, Refusal, ScoreConfig, Speech};

/// The data of every family.
#[derive(Clone, Copy)]
pub(crate) struct Families(pub(crate) fn(Architecture) -> &'static Family);

impl Families {
    pub(crate) fn of(self, architecture: Architecture) -> &'static Family {
        (self.0)(architecture)
    }
}

/// There is one list of families.
impl PartialEq for Families {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Families")
    }
}

/// A model family. Most differ from Llama in a few fields and take the others from it.
pub(crate) struct Family {
    /// The class name, as in `architectures`.
    pub(crate) class_name: &'static str,
    /// The short name, as in `model_type`.
    pub(crate) model_type: &'static str,
    /// The place of the text model, if it is a part of another.
    pub(crate) nested: Option<Nested>,
    /// The vision tower, if it can be read.
    pub(crate) vision: Option<Vision>,
    /// The kind of a part of an Omni model that speaks.
    pub(crate) speech: Option<Speech>,
    /// The starts of names of parameters in memory that differ in checkpoints, each with the start there.
    pub(crate) names: &'static [(&'static str, &'static str)],
    /// Another beginning of the names of parameters in checkpoints, if files of this class may have it.
    pub(crate) other_prefix: Option<&'static str>,
    /// The norms of queries and keys, if there are any.
    pub(crate) head_norms: Option<HeadNorms>,
    /// True if `use_qk_norm` decides whether there are norms of queries and keys.
    pub(crate) chosen_norms: bool,
    /// True if each query head has a sink, one more score in the sum of its softmax.
    pub(crate) sinks: bool,
    pub(crate) projections: Projections,
    /// True if attention is latent.
    pub(crate) latent: bool,
    /// True if there are parallel residual streams, and inputs of each layer.
    pub(crate) altup: bool,
    /// True if layers differ by lists in the configuration: in rotation, in the temperature of scores, and in their width.
    pub(crate) mixed_layers: bool,
    /// The projections of layers with linear attention, if there are such layers.
    pub(crate) linear: Option<LinearProjections>,
    /// True if the projection of queries also gives a gate of each head, whose sigmoid multiplies the result of
    /// attention.
    pub(crate) output_gate: bool,
    /// The mixture of experts, if layers of this family are, or can be, one.
    pub(crate) experts: Option<Experts>,
    /// True if every layer is a mixture, so that files may leave out the width of dense layers.
    pub(crate) always_sparse: bool,
    pub(crate) activation: Activation,
    /// True if the embeddings are multiplied by the square root of their width.
    pub(crate) scaled_embeddings: bool,
    /// The scale and the caps of scores and logits in files that name none, if the family reads them.
    pub(crate) scores: Option<ScoreConfig>,
    pub(crate) positions: Positions,
    pub(crate) defaults: Defaults,
    /// The fields with which a configuration chooses biases.
    pub(crate) chosen_biases: &'static [&'static str],
    pub(crate) window: Window,
    /// The fields that this family reads and others refuse.
    pub(crate) honours: &'static [&'static str],
    /// The fields that other families read and this one has no choice in, each with the only accepted value and the
    /// reason.
    pub(crate) refuses: &'static [Refusal],
    /// The fields whose absence means a dropout of a tenth.
    pub(crate) dropout: &'static [&'static str],
}

/// The order in which pairs take three positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionOrder {
    /// The pairs of each position follow each other.
    Chunked,
    /// Pairs take the positions in turn.
    Interleaved,
}

impl SectionOrder {
    /// Returns the position that each pair takes.
    pub(crate) fn axes(self, sections: [usize; 3]) -> Vec<usize> {
        let [first, second, _] = sections;
        let pairs = sections.iter().sum();
        let axis = |pair: usize| match self {
            Self::Chunked if pair < first => 0,
            Self::Chunked if pair < first + second => 1,
            Self::Chunked => 2,
            Self::Interleaved if pair < 3 * sections[pair % 3] => pair % 3,
            Self::Interleaved => 0,
        };
        (0..pairs).map(axis).collect()
    }
}

/// The text model of a model of several modalities.
#[derive(Clone, Copy)]
pub(crate) struct Nested {
    /// The `model_type` of the text model.
    pub(crate) model_type: &'static str,
    /// The start of the names of its parameters in checkpoints.
    pub(crate) prefix: &'static str,
}

/// The vision tower of a family.
#[derive(Clone, Copy)]
pub(crate) struct Vision {
    /// The names of its configuration as `model_type`.
    pub(crate) model_types: &'static [&'static str],
    /// The `model_type` of towers that were saved alone, and their kinds: its own, and those of other models that differ in
    /// nothing else.
    pub(crate) alone: &'static [(&'static str, Tower)],
    /// The start of the names of its parameters in checkpoints of the whole model.
    pub(crate) prefix: &'static str,
    pub(crate) tower: Tower,
}

/// The kinds of vision towers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tower {
    /// Norms without a mean, gated MLPs, and windows in most blocks.
    Qwen2_5 {
        /// True if queries, keys and values have a projection each.
        separate: bool,
    },
    /// Norms with a mean, MLPs without gates, and a table of positions.
    Qwen3 {
        /// True if features of some blocks are added behind the first layers of the text model.
        deepstack: bool,
    },
}

/// The norms of queries and keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadNorms {
    /// Each head is normalised alone.
    OfHeads,
    /// All heads of a token are normalised together.
    OfRows,
}

/// The projections of attention.
#[derive(Clone, Copy)]
pub(crate) struct Projections {
    /// True if one projection gives queries, keys and values.
    pub(crate) packed: bool,
    /// True if `attention_bias` also gives the output projection a bias.
    pub(crate) output_bias: bool,
}

/// The projections of linear attention, with their names in checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinearProjections {
    /// Two, whose rows are grouped by heads of keys: `in_proj_qkvz` and `in_proj_ba`.
    Grouped,
    /// Four: `in_proj_qkv`, `in_proj_z`, `in_proj_b` and `in_proj_a`.
    Separate,
}

/// The activation of the MLP, which a family does not let configurations choose.
#[derive(Clone, Copy)]
pub(crate) struct Activation {
    /// The field of `config.json`.
    pub(crate) field: &'static str,
    pub(crate) name: &'static str,
}

/// The treatment of rotary positions by a family.
#[derive(Clone, Copy)]
pub(crate) struct Positions {
    /// The rotated part of a head in files that name none, if configurations choose it.
    pub(crate) rotated_part: Option<f64>,
    /// The base of the frequencies in layers with a window in files that name none, if these layers have tables of their
    /// own.
    pub(crate) local_theta: Option<f64>,
    /// The kinds of scaled frequencies that are honoured.
    pub(crate) scalings: &'static [&'static str],
    /// The order of the three positions of a token, if it has three.
    pub(crate) sections: Option<SectionOrder>,
    /// True if YaRN has the settings `mscale` and `mscale_all_dim`.
    pub(crate) mscale: bool,
    /// True if the tables of half types stay in `f32`.
    pub(crate) wide_tables: bool,
}

impl Positions {
    /// Returns `true` if `longrope` is honoured.
    pub(crate) fn longrope(&self) -> bool {
        self.scalings.contains(&"longrope")
    }
}

/// The treatment of sliding windows by a family. Without windows, masks are causal only.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    /// True if a configuration may have a window.
    pub(crate) honoured: bool,
    /// True if `use_sliding_window` enables `sliding_window`, and `layer_types` or `max_window_layers` select the
    /// layers. Otherwise a window applies to every layer, or to those of `full_every`.
    pub(crate) switched: bool,
    /// True if the window is a chunk of positions, and its size is `attention_chunk_size`.
    pub(crate) chunked: bool,
    /// The size in files without one.
    pub(crate) default_size: Option<usize>,
    /// If `layer_types` selects the layers with a window, the default: all but every layer of this number, counted from
    /// 1.
    pub(crate) full_every: Option<usize>,
    /// True if `sliding_window_pattern` is that number in files without `layer_types`.
    pub(crate) pattern: bool,
    /// The number of bottom layers without a window in files without `max_window_layers`.
    pub(crate) default_full_layers: usize,
}

impl Window {
    /// No window. Files with one are refused.
    pub(crate) const NONE: Self = Self {
        honoured: false,
        switched: false,
        chunked: false,
        default_size: None,
        full_every: None,
        pattern: false,
        default_full_layers: 28,
    };
}

/// A family's mixture of experts.
#[derive(Clone, Copy)]
pub(crate) struct Experts {
    /// The names of the number of experts in `config.json`. Errors use the first one; saving writes all.
    pub(crate) count: &'static [&'static str],
    /// The name of an expert's width in `config.json`.
    pub(crate) width: &'static str,
    /// The expert that every token goes to, if there is one.
    pub(crate) shared: Shared,
    /// The groups of experts, if the choice of a token's experts is limited to some.
    pub(crate) groups: Option<Groups>,
    /// The limit of gates and ups in files that name none, if they are clamped.
    pub(crate) clamp: Option<f64>,
    /// True if `moe_layers` or `interleave_moe_layer_step` says which layers are sparse.
    pub(crate) listed: bool,
    /// The names of the projections in checkpoints.
    pub(crate) files: ExpertNames,
    /// The axes of an expert's matrices, in the model and in the memory of `transformers`.
    pub(crate) axes: Axes,
}

/// The axes of an expert's matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axes {
    /// `[out, in]`.
    OutIn,
    /// `[in, out]`.
    InOut,
    /// `[in, out]`, which the class in `transformers` does not tell. PEFT takes them for `[out, in]`.
    InOutUntold,
}

/// The groups that the choice of experts is limited to, in families whose first layers are dense and whose weights of
/// experts are scaled.
#[derive(Clone, Copy)]
pub(crate) struct Groups {
    /// The key of the router.
    pub(crate) key: RouterKey,
    /// True if `topk_method` decides whether there are groups.
    pub(crate) chosen: bool,
    /// The settings of files that name none.
    pub(crate) default: GroupConfig,
}

/// The expert that every token of a layer goes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shared {
    None,
    /// `shared_expert_intermediate_size` is its width.
    Width,
    /// `n_shared_experts` is its width in experts.
    Count,
    /// It is as wide as an expert.
    Expert,
}

/// The values of absent fields, as in `transformers`.
#[derive(Clone, Copy)]
pub(crate) struct Defaults {
    /// A constant number of key and value heads. `None` means the number of query heads.
    pub(crate) num_key_value_heads: Option<usize>,
    /// A constant width of a head. `None` means that it follows from the other sizes.
    pub(crate) head_dim: Option<usize>,
    pub(crate) rms_norm_eps: f64,
    pub(crate) rope_theta: f64,
    pub(crate) tie_word_embeddings: bool,
    pub(crate) attention_bias: bool,
    /// True if the projections of queries, keys and values have biases. It is fixed unless `qkv_bias` is among
    /// `chosen_biases`.
    pub(crate) qkv_bias: bool,
    /// True if queries and keys are normalised, in families that choose.
    pub(crate) use_qk_norm: bool,
    /// True if the weights of a token's experts sum to one.
    pub(crate) norm_topk_prob: bool,
}

/// The block of a sparse layer in the names of parameters.
pub(crate) const BLOCK: &str = ".mlp.";

/// The names in a family's checkpoints that store experts one by one.
#[derive(Clone, Copy)]
pub(crate) struct ExpertNames {
    /// The block of a sparse layer, between dots. The router's name contains it too.
    pub(crate) block: &'static str,
    /// The gate and up projections, `None` if the experts are stacked.
    pub(crate) gate_up: &'static [&'static str],
    /// The down projection.
    pub(crate) down: &'static [&'static str],
    /// True if stacks may be quantised.
    pub(crate) mxfp4: bool,
    /// True if the matrices of stacks may be transposed.
    pub(crate) transposed: bool,
    /// True if experts are stacked in published checkpoints, and one by one in others.
    pub(crate) published_stacked: bool,
}

impl ExpertNames {
    /// The experts are stacked in checkpoints, too.
    pub(crate) const STACKED: Self = Self {
        block: BLOCK,
        gate_up: &[],
        down: &[],
        mxfp4: false,
        transposed: false,
        published_stacked: false,
    };

    /// The names of parameters in memory.
    pub(crate) const USUAL: Self = Self {
        block: BLOCK,
        gate_up: &["gate_proj", "up_proj"],
        down: &["down_proj"],
        mxfp4: false,
        transposed: false,
        published_stacked: false,
    };
}
