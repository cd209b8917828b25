//! Data that sets one model family apart from the others.
//!
//! A family's file holds the layers that are its own and one [`Family`], which says the rest: names,
//! limits, defaults, and the layers that it shares with others. The list of families is
//! [`Architecture`](crate::Architecture).

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::Tensor;

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
    /// Whether each query and key head is normalised.
    pub(crate) head_norms: bool,
    /// The mixture of experts, if its layers are, or may be, one.
    pub(crate) experts: Option<Experts>,
    pub(crate) defaults: Defaults,
    /// The fields by which a configuration chooses biases.
    pub(crate) chosen_biases: &'static [&'static str],
    pub(crate) window: Window,
    /// Fields that other families must not set, and this one reads.
    pub(crate) honours: &'static [&'static str],
    /// Fields that other families read, and this one has no choice in: the value that says what it does
    /// anyway, and why.
    pub(crate) refuses: &'static [Refusal],
}

/// The layers that every model has, each made of its fresh parts.
#[derive(Clone, Copy)]
pub(crate) struct Layers {
    /// From the weight and what is added to the mean square.
    pub(crate) norm: fn(Param<Tensor<1>>, f64) -> RmsNorm,
    /// From the projections gate, up and down.
    pub(crate) mlp: fn([Linear; 3]) -> Mlp,
    /// Rotates queries and keys by the tables of cosines and sines.
    pub(crate) rotate: Rotate,
}

pub(crate) type Rotate = fn(Tensor<4>, Tensor<4>, Tensor<3>, Tensor<3>) -> (Tensor<4>, Tensor<4>);

/// The treatment of a sliding window by a family. Masks are full where it has none.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    /// Whether a configuration may have one.
    pub(crate) honoured: bool,
    /// Whether `use_sliding_window` decides if `sliding_window` counts, and `layer_types` or
    /// `max_window_layers` where; else a window counts in every layer.
    pub(crate) switched: bool,
}

/// A family's mixture of experts.
#[derive(Clone, Copy)]
pub(crate) struct Experts {
    /// The block of a sparse layer.
    pub(crate) block: fn(&NewBlock<'_>) -> SparseMoeBlock,
    /// The names of the number of experts in `config.json`. Errors use the first one, and all are written.
    pub(crate) count: &'static [&'static str],
    /// The name of an expert's width in `config.json`.
    pub(crate) width: &'static str,
    /// Whether there is an expert that every token goes to.
    pub(crate) shared: bool,
    /// The names of the projections in checkpoints.
    pub(crate) files: ExpertNames,
}

/// The values of absent fields, as `transformers` has them.
#[derive(Clone, Copy)]
pub(crate) struct Defaults {
    /// If it is a constant, and not the number of query heads.
    pub(crate) num_key_value_heads: Option<usize>,
    /// If it is a constant, and not what the other sizes give.
    pub(crate) head_dim: Option<usize>,
    pub(crate) rms_norm_eps: f64,
    pub(crate) rope_theta: f64,
    /// Whether the projections of queries, keys and values have biases; for good, unless `qkv_bias` is one
    /// of the chosen.
    pub(crate) qkv_bias: bool,
    /// Whether the weights of a token's experts sum to one.
    pub(crate) norm_topk_prob: bool,
}
