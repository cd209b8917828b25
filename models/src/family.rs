//! Data that sets one model family apart from the others.
//!
//! The file of a family holds its own layers and one [`Family`] with the rest: names, limits, defaults, and the layers
//! that it shares with others. [`Architecture`](crate::Architecture) is the list of families.

use burn::module::Param;
use burn::tensor::Tensor;
use burn_kernels::nn::Linear;

use crate::blocks::{Mlp, RmsNorm};
use crate::config::Refusal;
use crate::layout::ExpertNames;
use crate::sparse::{NewBlock, SparseMoeBlock};

/// A model family. Most differ from Llama in a few fields and take the others from it.
pub(crate) struct Family {
    /// The class name, as in `architectures`.
    pub(crate) class_name: &'static str,
    /// The short name, as in `model_type`.
    pub(crate) model_type: &'static str,
    pub(crate) layers: Layers,
    /// Normalises and rotates queries and keys, if their heads are normalised.
    pub(crate) head_norms: Option<NormAndRotate>,
    /// The mixture of experts, if layers of this family are, or can be, one.
    pub(crate) experts: Option<Experts>,
    pub(crate) defaults: Defaults,
    /// The fields with which a configuration chooses biases.
    pub(crate) chosen_biases: &'static [&'static str],
    pub(crate) window: Window,
    /// The fields that this family reads and others refuse.
    pub(crate) honours: &'static [&'static str],
    /// The fields that other families read and this one has no choice in, each with the only accepted value and the
    /// reason.
    pub(crate) refuses: &'static [Refusal],
}

/// The layers that every model has, as functions that build them from their parameters.
#[derive(Clone, Copy)]
pub(crate) struct Layers {
    /// Builds a norm from its weight and the epsilon that is added to the mean square.
    pub(crate) norm: fn(Param<Tensor<1>>, f64) -> RmsNorm,
    /// Builds an MLP from its gate, up and down projections.
    pub(crate) mlp: fn([Linear; 3]) -> Mlp,
    /// Rotates queries and keys by the tables of cosines and sines.
    pub(crate) rotate: Rotate,
}

pub(crate) type Rotate = fn(Tensor<4>, Tensor<4>, Tensor<3>, Tensor<3>) -> (Tensor<4>, Tensor<4>);

/// Normalises the heads of projected queries and keys by the two weights and the epsilon, and rotates them by the tables
/// of cosines and sines. Queries and keys are `[b, s, heads, d]`, before and after.
pub(crate) type NormAndRotate = fn(
    Tensor<4>,
    Tensor<4>,
    &Param<Tensor<1>>,
    &Param<Tensor<1>>,
    f64,
    Tensor<3>,
    Tensor<3>,
) -> (Tensor<4>, Tensor<4>);

/// The treatment of sliding windows by a family. Without windows, masks are causal only.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    /// True if a configuration may have a window.
    pub(crate) honoured: bool,
    /// True if `use_sliding_window` enables `sliding_window`, and `layer_types` or `max_window_layers` select the
    /// layers. Otherwise a window applies to every layer.
    pub(crate) switched: bool,
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
    /// True if every token goes to a shared expert.
    pub(crate) shared: bool,
    /// The names of the projections in checkpoints.
    pub(crate) files: ExpertNames,
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
    /// True if the projections of queries, keys and values have biases. It is fixed unless `qkv_bias` is among
    /// `chosen_biases`.
    pub(crate) qkv_bias: bool,
    /// True if the weights of a token's experts sum to one.
    pub(crate) norm_topk_prob: bool,
}
