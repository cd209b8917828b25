//! Data that sets one model family apart from the others.
//!
//! The file of a family holds its own layers and one [`Family`] with the rest: names, limits, defaults, and the layers
//! that it shares with others. [`Architecture`](crate::Architecture) is the list of families.

use burn::module::Param;
use burn::tensor::Tensor;
use burn_kernels::semantics::RouterKey;

use crate::attention::Scores;
use crate::blocks::{Mlp, NewMlp, RmsNorm};
use crate::cache::Seen;
use crate::config::{GroupConfig, Refusal, ScoreConfig};
use crate::layer::{DecoderLayer, NewLayer};
use crate::layout::ExpertNames;
use crate::sparse::{NewBlock, SparseMoeBlock};

/// A model family. Most differ from Llama in a few fields and take the others from it.
pub(crate) struct Family {
    /// The class name, as in `architectures`.
    pub(crate) class_name: &'static str,
    /// The short name, as in `model_type`.
    pub(crate) model_type: &'static str,
    /// The place of the text model, if it is a part of another.
    pub(crate) nested: Option<Nested>,
    pub(crate) layers: Layers,
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
    /// The `quant_method` of files whose weights are read as floats, if there are any.
    pub(crate) quantised: Option<&'static str>,
    /// The mixture of experts, if layers of this family are, or can be, one.
    pub(crate) experts: Option<Experts>,
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

/// The layers that every model has, as functions that build them from their parameters, and the functions between
/// them.
#[derive(Clone, Copy)]
pub(crate) struct Layers {
    /// Builds a norm from its weight and the epsilon that is added to the mean square.
    pub(crate) norm: fn(Param<Tensor<1>>, f64) -> RmsNorm,
    /// The weight of a fresh norm: 1, or 0 for a norm that adds 1 to it.
    pub(crate) norm_weight: f64,
    /// Builds an MLP.
    pub(crate) mlp: fn(&NewMlp<'_>) -> Mlp,
    /// Builds a decoder layer: attention and MLP with their norms.
    pub(crate) layer: fn(&NewLayer<'_>) -> DecoderLayer,
    /// Rotates queries and keys by the tables of cosines and sines.
    pub(crate) rotate: Rotate,
    /// Rotates queries and keys by tables of three positions, in families that have them.
    pub(crate) rotate_axes: Option<RotateAxes>,
    /// Normalises rotated queries or keys, `[b, s, heads, d]`, by an epsilon and without a weight, in families that do so
    /// in layers with a rotation.
    pub(crate) rotated_norm: Option<fn(Tensor<4>, f64) -> Tensor<4>>,
    /// Computes the attention of projected queries to the keys that they see.
    pub(crate) attend: fn(Tensor<4>, Seen, &Scores) -> Tensor<4>,
}

pub(crate) type Rotate = fn(Tensor<4>, Tensor<4>, Tensor<3>, Tensor<3>) -> (Tensor<4>, Tensor<4>);

/// Rotates queries and keys by tables `[3, b or 1, s, d]`, with the numbers of pairs that take each position.
pub(crate) type RotateAxes =
    fn(Tensor<4>, Tensor<4>, Tensor<4>, Tensor<4>, [usize; 3]) -> (Tensor<4>, Tensor<4>);

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

/// The norms of queries and keys.
#[derive(Clone, Copy)]
pub(crate) struct HeadNorms {
    /// True if all heads of a token are normalised together. Otherwise each is normalised alone.
    pub(crate) of_rows: bool,
    pub(crate) apply: NormAndRotate,
}

/// Normalises projected queries and keys by the two weights and the epsilon, and rotates them by the tables of cosines and
/// sines. Queries and keys are `[b, s, heads, d]`, before and after.
pub(crate) type NormAndRotate = fn(
    Tensor<4>,
    Tensor<4>,
    &Param<Tensor<1>>,
    &Param<Tensor<1>>,
    f64,
    Tensor<3>,
    Tensor<3>,
) -> (Tensor<4>, Tensor<4>);

/// The projections of attention.
#[derive(Clone, Copy)]
pub(crate) struct Projections {
    /// True if one projection gives queries, keys and values.
    pub(crate) packed: bool,
    /// True if `attention_bias` also gives the output projection a bias.
    pub(crate) output_bias: bool,
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
    /// There is no window, and files with one are refused.
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
    /// The block of a sparse layer.
    pub(crate) block: fn(&NewBlock<'_>) -> SparseMoeBlock,
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
