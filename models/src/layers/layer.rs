//! The parts of decoder layers: attention, then MLP or experts, with norms before or after each.
//!
//! Families place and name the norms differently, so each arrangement is a type of its own. All of them run as [`Parts`].

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use burn_kernels::nn::CacheError;

use crate::layers::blocks::{Mlp, RmsNorm};
use crate::layers::cache::LayerCache;
use crate::layers::code2wav::LayerScale;
use crate::layers::gated_delta::GatedDelta;
use crate::layers::heads::Attention;
use crate::layers::kinds::Build;
use crate::layers::latent::LatentAttention;
use crate::layers::place::Place;
use crate::layers::sparse::{NewBlock, SparseMoeBlock};

/// The part of a layer after attention.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one a layer; a box would save nothing that matters"
)]
pub enum FeedForward {
    /// A dense MLP.
    Dense(Mlp),
    /// A mixture of experts.
    Sparse(SparseMoeBlock),
}

impl FeedForward {
    fn new(build: Build<'_>, layer: usize) -> Self {
        let Build { config, device, .. } = build;
        match (&config.moe, build.layers.block) {
            (Some(moe), Some(block)) if moe.is_sparse(layer) => Self::Sparse(block(&NewBlock {
                config,
                moe,
                device,
            })),
            _ => Self::Dense(build.mlp()),
        }
    }

    /// Returns the output for `x`, both `[b, s, hidden]`, and the router's logits if there is a router.
    fn forward(&self, x: Tensor<3>) -> (Tensor<3>, Option<Tensor<2>>) {
        match self {
            Self::Dense(mlp) => (mlp.forward(x), None),
            Self::Sparse(block) => {
                let (out, router_logits) = block.forward(x);
                (out, Some(router_logits))
            }
        }
    }
}

/// The attention of a layer.
#[derive(Module, Debug)]
pub enum SelfAttention {
    /// Attention with projected keys and values.
    Heads(Attention),
    /// Latent attention.
    Latent(LatentAttention),
    /// Linear attention.
    Linear(GatedDelta),
}

impl SelfAttention {
    fn new(build: Build<'_>, layer: usize) -> Self {
        let config = build.config;
        match (&config.linear, config.latent) {
            (Some(linear), _) if config.is_linear(layer) => {
                Self::Linear(GatedDelta::new(build, linear))
            }
            (_, Some(latent)) => Self::Latent(LatentAttention::new(build, latent)),
            (_, None) => Self::Heads(Attention::new(build)),
        }
    }

    fn forward(
        &self,
        x: Tensor<3>,
        place: Place<'_>,
        cache: Option<LayerCache<'_>>,
    ) -> Result<Tensor<3>, CacheError> {
        match self {
            Self::Heads(attention) => attention.forward(x, place, cache),
            Self::Latent(attention) => attention.forward(x, place, cache),
            Self::Linear(attention) => attention.forward(x, place, cache),
        }
    }
}

/// The configuration and the place that a layer is built from.
pub(crate) struct NewLayer<'a> {
    pub(crate) build: Build<'a>,
    /// The layer's place, counted from 0.
    pub(crate) index: usize,
}

impl NewLayer<'_> {
    pub(crate) fn norm(&self) -> RmsNorm {
        self.build.norm(self.build.config.hidden_size)
    }

    pub(crate) fn attention(&self) -> SelfAttention {
        SelfAttention::new(self.build, self.index)
    }

    pub(crate) fn feed_forward(&self) -> FeedForward {
        FeedForward::new(self.build, self.index)
    }
}

/// The step between the output of attention or MLP and its addition to the residual stream.
#[derive(Clone, Copy)]
pub(crate) enum After<'a> {
    Norm(&'a RmsNorm),
    Scale(&'a LayerScale),
}

impl After<'_> {
    fn forward(self, output: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Norm(norm) => norm.forward(output),
            Self::Scale(scale) => scale.forward(output),
        }
    }
}

/// The parts of a layer by their place. A norm before attention or MLP takes the residual stream.
pub(crate) struct Parts<'a> {
    pub(crate) before_attention: Option<&'a RmsNorm>,
    pub(crate) attention: &'a SelfAttention,
    pub(crate) after_attention: Option<After<'a>>,
    pub(crate) before_mlp: Option<&'a RmsNorm>,
    pub(crate) mlp: &'a FeedForward,
    pub(crate) after_mlp: Option<After<'a>>,
}

impl Parts<'_> {
    pub(crate) fn forward(
        self,
        residual: Residual,
        place: Place<'_>,
        cache: Option<LayerCache<'_>>,
    ) -> Result<(Residual, Option<Tensor<2>>), CacheError> {
        let (input, sum) = residual.enter(self.before_attention);
        let attended = self.attention.forward(input, place, cache)?;
        let (input, sum) = Residual::of(sum, attended, self.after_attention).enter(self.before_mlp);
        let (fed, router_logits) = self.mlp.forward(input);
        Ok((Residual::of(sum, fed, self.after_mlp), router_logits))
    }
}

/// The residual stream between attentions and MLPs, `sum + last`. The next norm adds `last`, so that sum and norm are one
/// operation.
#[derive(Clone)]
pub(crate) struct Residual {
    sum: Tensor<3>,
    last: Option<Tensor<3>>,
}

impl Residual {
    pub(crate) fn new(hidden: Tensor<3>) -> Self {
        Self {
            sum: hidden,
            last: None,
        }
    }

    /// Adds an output after its norm or scale, if there is one.
    fn of(sum: Tensor<3>, output: Tensor<3>, after: Option<After<'_>>) -> Self {
        let last = match after {
            Some(after) => after.forward(output),
            None => output,
        };
        Self {
            sum,
            last: Some(last),
        }
    }

    /// Returns the input of attention or an MLP, normalised if there is a norm before it, and the stream itself.
    fn enter(self, norm: Option<&RmsNorm>) -> (Tensor<3>, Tensor<3>) {
        match norm {
            Some(norm) => self.normalise(norm),
            None => {
                let sum = self.sum();
                (sum.clone(), sum)
            }
        }
    }

    /// Returns the normalised stream and the stream itself.
    pub(crate) fn normalise(self, norm: &RmsNorm) -> (Tensor<3>, Tensor<3>) {
        match self.last {
            Some(last) => norm.forward_sum(last, self.sum),
            None => (norm.forward(self.sum.clone()), self.sum),
        }
    }

    pub(crate) fn sum(self) -> Tensor<3> {
        match self.last {
            Some(last) => last + self.sum,
            None => self.sum,
        }
    }

    pub(crate) fn device(&self) -> Device {
        self.sum.device()
    }

    /// Returns the stream with both tensors replaced.
    pub(crate) fn map(self, mut f: impl FnMut(Tensor<3>) -> Tensor<3>) -> Self {
        Self {
            sum: f(self.sum),
            last: self.last.map(f),
        }
    }

    /// Returns a result for each pair of tensors of two streams, which must both have a last output or none.
    pub(crate) fn zip<T>(self, other: Self, f: impl Fn(Tensor<3>, Tensor<3>) -> T) -> Vec<T> {
        let last = match (self.last, other.last) {
            (Some(own), Some(other)) => Some(f(own, other)),
            (None, None) => None,
            _ => unreachable!("streams at the same place of a model have the same tensors"),
        };
        std::iter::once(f(self.sum, other.sum))
            .chain(last)
            .collect()
    }
}
