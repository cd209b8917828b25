//! The choice among the layers that models are made of: functions that build them from their parameters, and the functions
//! between them.

use std::fmt;

use burn::module::{Initializer, Param};
use burn::tensor::{Device, Tensor};

use crate::config::ModelConfig;
use crate::layers::attention::Scores;
use crate::layers::blocks::{Mlp, NewMlp, RmsNorm};
use crate::layers::cache::Seen;
use crate::layers::sparse::{NewBlock, SparseMoeBlock};

/// The layers of a model.
#[derive(Clone, Copy)]
pub(crate) struct Layers {
    /// Builds a norm from its weight and the epsilon that is added to the mean square.
    pub(crate) norm: fn(Param<Tensor<1>>, f64) -> RmsNorm,
    /// The weight of a fresh norm: 1, or 0 for a norm that adds 1 to it.
    pub(crate) norm_weight: f64,
    /// Builds an MLP.
    pub(crate) mlp: fn(&NewMlp<'_>) -> Mlp,
    /// The places of the norms in a decoder layer.
    pub(crate) arrangement: Arrangement,
    /// Builds the block of a sparse layer, if there can be any.
    pub(crate) block: Option<fn(&NewBlock<'_>) -> SparseMoeBlock>,
    /// Rotates queries and keys by the tables of cosines and sines.
    pub(crate) rotate: Rotate,
    /// Rotates queries and keys by tables of three positions, if tokens have them.
    pub(crate) rotate_axes: Option<RotateAxes>,
    /// Normalises and rotates queries and keys, if there are norms of them.
    pub(crate) norm_and_rotate: Option<NormAndRotate>,
    /// Normalises and rotates queries and keys by tables of three positions, if there are norms of them, tokens have three
    /// positions, and one operation does both.
    pub(crate) norm_and_rotate_axes: Option<NormAndRotateAxes>,
    /// Normalises rotated queries or keys, `[b, s, heads, d]`, by an epsilon and without a weight, if layers with a
    /// rotation do so.
    pub(crate) rotated_norm: Option<fn(Tensor<4>, f64) -> Tensor<4>>,
    /// Computes the attention of projected queries to the keys that they see.
    pub(crate) attend: fn(Tensor<4>, Seen, &Scores) -> Tensor<4>,
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Layers");
        shown.field("arrangement", &self.arrangement);
        shown.finish_non_exhaustive()
    }
}

/// The places of the norms in a decoder layer, and their names in checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrangement {
    /// Norms before attention and MLP.
    Llama,
    /// Norms before attention and MLP, with Llama 4's names.
    Llama4,
    /// Norms before and after attention and MLP, with Gemma's names.
    Gemma2,
    /// Norms before and after attention and MLP, with GLM-4's names.
    Glm4,
    /// Norms after attention and MLP.
    Olmo2,
    /// Norms before attention and MLP, and scales after them.
    Code2Wav,
}

pub(crate) type Rotate = fn(Tensor<4>, Tensor<4>, Tensor<3>, Tensor<3>) -> (Tensor<4>, Tensor<4>);

/// Rotates queries and keys by tables `[3, b or 1, s, d]`, with the numbers of pairs that take each position.
pub(crate) type RotateAxes =
    fn(Tensor<4>, Tensor<4>, Tensor<4>, Tensor<4>, [usize; 3]) -> (Tensor<4>, Tensor<4>);

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

/// Works like [`NormAndRotate`] with tables `[3, b or 1, s, d]` and the numbers of pairs that take each position.
pub(crate) type NormAndRotateAxes = fn(
    Tensor<4>,
    Tensor<4>,
    &Param<Tensor<1>>,
    &Param<Tensor<1>>,
    f64,
    Tensor<4>,
    Tensor<4>,
    [usize; 3],
) -> (Tensor<4>, Tensor<4>);

/// The configuration, the layers and the device from which the parts of a model are built.
#[derive(Clone, Copy)]
pub(crate) struct Build<'a> {
    pub(crate) config: &'a ModelConfig,
    pub(crate) layers: &'static Layers,
    pub(crate) device: &'a Device,
}

impl Build<'_> {
    /// Creates a norm with the epsilon of the configuration.
    pub(crate) fn norm(&self, width: usize) -> RmsNorm {
        self.norm_with_eps(width, self.config.rms_norm_eps)
    }

    /// Creates a norm with an epsilon of its own.
    pub(crate) fn norm_with_eps(&self, width: usize, eps: f64) -> RmsNorm {
        (self.layers.norm)(self.norm_weight(width), eps)
    }

    /// Creates the weight of a norm.
    pub(crate) fn norm_weight(&self, width: usize) -> Param<Tensor<1>> {
        let value = self.layers.norm_weight;
        Initializer::Constant { value }.init([width], self.device)
    }

    /// Creates the MLP of a dense layer.
    pub(crate) fn mlp(&self) -> Mlp {
        (self.layers.mlp)(&NewMlp {
            config: self.config,
            width: self.config.dense_width(),
            device: self.device,
        })
    }
}
