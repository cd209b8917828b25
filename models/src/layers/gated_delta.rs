//! Linear attention by gated delta rules, with its projections: from hidden states to hidden states. [`qwen3_next`] has
//! its annotated parts.
//!
//! [`qwen3_next`]: crate::layers::qwen3_next

use burn::module::{Initializer, Module, Param};
use burn::tensor::activation::{sigmoid, softplus};
use burn::tensor::{Bool, Tensor, TensorData};
use burn_kernels::nn::{CacheError, Linear};

use crate::config::LinearConfig;
use crate::config::family::LinearProjections;
use crate::layers::blocks::{new_linear, new_weight};
use crate::layers::cache::LayerCache;
use crate::layers::kinds::Build;
use crate::layers::place::Place;
use crate::layers::qwen3_next::{
    Qwen3NextRmsNormGated, continued_gated_delta_rule, continued_short_convolution,
    gated_delta_rule, packed_gated_delta_rule, packed_short_convolution, short_convolution,
};
use crate::layers::state::{DeltaShapes, DeltaState};
use crate::layers::wide::at_least_f32;

/// The projections of a layer. [`crate::parameters`] leaves the field of this type out of the paths of parameters, as
/// no checkpoint has a name for it.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one a layer; a box would save nothing that matters"
)]
enum DeltaProjections {
    Grouped(GroupedProjections),
    Separate(SeparateProjections),
}

/// Projections whose outputs are grouped by heads of keys: those of queries, keys, values and gates of a head of keys
/// follow each other, and so do the rates and decays.
#[derive(Module, Debug)]
struct GroupedProjections {
    in_proj_qkvz: Linear,
    in_proj_ba: Linear,
}

#[derive(Module, Debug)]
struct SeparateProjections {
    /// The outputs of queries come first, then those of keys, then those of values.
    in_proj_qkv: Linear,
    in_proj_z: Linear,
    in_proj_b: Linear,
    in_proj_a: Linear,
}

/// The convolution of queries, keys and values along the tokens.
#[derive(Module, Debug)]
struct Convolution {
    /// `[channels, 1, K]`, as in the checkpoint.
    weight: Param<Tensor<3>>,
}

/// Linear attention with gated delta rules: each head of values has a state in place of keys.
#[derive(Module, Debug)]
pub struct GatedDelta {
    projections: DeltaProjections,
    conv1d: Convolution,
    /// The logarithm of the strength of each head's decay. Checkpoints call it `A_log`.
    a_log: Param<Tensor<1>>,
    dt_bias: Param<Tensor<1>>,
    norm: Qwen3NextRmsNormGated,
    out_proj: Linear,
    #[module(skip)]
    sizes: Sizes,
}

#[derive(Debug, Clone, Copy)]
struct Sizes {
    key_heads: usize,
    heads: usize,
    key: usize,
    value: usize,
    taps: usize,
}

impl Sizes {
    fn of(linear: &LinearConfig) -> Self {
        Self {
            key_heads: linear.linear_num_key_heads,
            heads: linear.linear_num_value_heads,
            key: linear.linear_key_head_dim,
            value: linear.linear_value_head_dim,
            taps: linear.linear_conv_kernel_dim,
        }
    }

    /// Returns the width of the values of all heads.
    fn values(self) -> usize {
        self.heads * self.value
    }

    /// Returns the width of the queries, keys and values of all heads.
    fn channels(self) -> usize {
        2 * self.key_heads * self.key + self.values()
    }

    /// Returns the shapes of the state of `batch` sequences.
    fn state(self, batch: usize) -> DeltaShapes {
        DeltaShapes {
            inputs: [batch, self.taps - 1, self.channels()],
            heads: [batch, self.heads, self.key, self.value],
        }
    }
}

/// The outputs of the projections for each token.
struct Projected {
    /// The queries, keys and values of all heads, `[b, s, channels]`.
    mixed: Tensor<3>,
    /// The gates, `[b, s, heads, value width]`.
    gate: Tensor<4>,
    /// The rates of the updates before their sigmoid, `[b, s, heads]`.
    rates: Tensor<3>,
    /// The decays before their bias, `[b, s, heads]`.
    decays: Tensor<3>,
}

impl DeltaProjections {
    fn new(build: Build<'_>, sizes: Sizes) -> Self {
        let Build { config, device, .. } = build;
        let linear = |outputs| new_linear(config, [config.hidden_size, outputs], false, device);
        let gates = sizes.values();
        match config.family().linear {
            Some(LinearProjections::Grouped) => Self::Grouped(GroupedProjections {
                in_proj_qkvz: linear(sizes.channels() + gates),
                in_proj_ba: linear(2 * sizes.heads),
            }),
            _ => Self::Separate(SeparateProjections {
                in_proj_qkv: linear(sizes.channels()),
                in_proj_z: linear(gates),
                in_proj_b: linear(sizes.heads),
                in_proj_a: linear(sizes.heads),
            }),
        }
    }

    fn forward(&self, x: Tensor<3>, sizes: Sizes) -> Projected {
        let [batch, seq, _] = x.dims();
        let gates = [batch, seq, sizes.heads, sizes.value];
        match self {
            Self::Grouped(own) => own.forward(x, sizes),
            Self::Separate(own) => Projected {
                mixed: own.in_proj_qkv.forward(x.clone()),
                gate: own.in_proj_z.forward(x.clone()).reshape(gates),
                rates: own.in_proj_b.forward(x.clone()),
                decays: own.in_proj_a.forward(x),
            },
        }
    }
}

impl GroupedProjections {
    fn forward(&self, x: Tensor<3>, sizes: Sizes) -> Projected {
        let Sizes {
            key_heads,
            heads,
            key,
            value,
            ..
        } = sizes;
        let [batch, seq, _] = x.dims();
        let group = heads / key_heads;
        let grouped = |projected: Tensor<3>| -> Tensor<4> {
            let [_, _, outputs] = projected.dims();
            projected.reshape([batch, seq, key_heads, outputs / key_heads])
        };
        let all = grouped(self.in_proj_qkvz.forward(x.clone()));
        let part = |first: usize, width: usize| all.clone().narrow(3, first, width);
        let flat = |part: Tensor<4>| -> Tensor<3> {
            let [_, _, _, width] = part.dims();
            part.reshape([batch, seq, key_heads * width])
        };
        let values = 2 * key;
        let mixed = [part(0, key), part(key, key), part(values, group * value)];
        let gates = part(values + group * value, group * value);
        let both = grouped(self.in_proj_ba.forward(x));
        Projected {
            mixed: Tensor::cat(mixed.map(flat).into(), 2),
            gate: gates.reshape([batch, seq, heads, value]),
            rates: flat(both.clone().narrow(3, 0, group)),
            decays: flat(both.narrow(3, group, group)),
        }
    }
}

impl GatedDelta {
    pub(crate) fn new(build: Build<'_>, linear: &LinearConfig) -> Self {
        let Build { config, device, .. } = build;
        let sizes = Sizes::of(linear);
        // A decay of a step is between 1 and 16, as in Mamba 2 (arXiv:2405.21060).
        let strength = Initializer::Uniform {
            min: 0.0,
            max: 16_f64.ln(),
        };
        Self {
            projections: DeltaProjections::new(build, sizes),
            conv1d: Convolution {
                weight: new_weight(config, [sizes.channels(), 1, sizes.taps], device),
            },
            a_log: strength.init([sizes.heads], device),
            dt_bias: Initializer::Ones.init([sizes.heads], device),
            norm: Qwen3NextRmsNormGated {
                weight: Initializer::Ones.init([sizes.value], device),
                variance_epsilon: config.rms_norm_eps,
            },
            out_proj: new_linear(config, [sizes.values(), config.hidden_size], false, device),
            sizes,
        }
    }

    /// Returns the linear attention of `x`, both `[b, s, hidden]`. With a cache, it continues from the state there, and
    /// the state after the last token takes its place. Padding before the tokens of a sequence does not change the
    /// state.
    pub(crate) fn forward(
        &self,
        x: Tensor<3>,
        place: Place<'_>,
        cache: Option<LayerCache<'_>>,
    ) -> Result<Tensor<3>, CacheError> {
        let [batch, seq, _] = x.dims();
        let lengths = match &cache {
            Some(cache) => cache.lengths_of(seq),
            None => place.lengths.map(<[usize]>::to_vec),
        };
        let x = without_padding(x, lengths.as_deref());
        let projected = self.projections.forward(x, self.sizes);
        let gate = projected.gate.clone();
        let read = match cache {
            Some(cache) => self.go_on(projected, cache)?,
            None => self.begin(projected, place),
        };
        let normalised = self.norm.forward(read, gate);
        let flat = normalised.reshape([batch, seq, self.sizes.values()]);
        Ok(self.out_proj.forward(flat))
    }

    /// Returns the readings of tokens from states that begin with zeros, `[b, s, heads, value width]`.
    fn begin(&self, projected: Projected, place: Place<'_>) -> Tensor<4> {
        let Projected { mixed, .. } = &projected;
        let (mixed, weight) = (mixed.clone(), self.weight());
        let Some(documents) = place.documents else {
            let [q, k, v] = self.split(short_convolution(mixed, weight));
            let [g, beta] = self.steps(projected);
            return gated_delta_rule(q, k, v, g, beta).0;
        };
        let [q, k, v] = self.split(packed_short_convolution(mixed, weight, documents));
        let [g, beta] = self.steps(projected);
        packed_gated_delta_rule(q, k, v, g, beta, documents).0
    }

    /// Returns the readings of tokens from the states of a cache.
    fn go_on(
        &self,
        projected: Projected,
        mut cache: LayerCache<'_>,
    ) -> Result<Tensor<4>, CacheError> {
        let Projected { mixed, .. } = &projected;
        let [batch, seq, _] = mixed.dims();
        let before = cache.state(mixed, self.sizes.state(batch))?;
        let (convolved, inputs) =
            continued_short_convolution(mixed.clone(), before.inputs, self.weight());
        let [q, k, v] = self.split(convolved);
        let [g, beta] = self.steps(projected);
        let (read, heads) = continued_gated_delta_rule(q, k, v, g, beta, before.heads);
        cache.keep(DeltaState { inputs, heads }, seq);
        Ok(read)
    }

    /// Returns the weights of the convolution, `[channels, K]`.
    fn weight(&self) -> Tensor<2> {
        self.conv1d.weight.val().squeeze_dim(1)
    }

    /// Returns the queries, keys and values, each `[b, s, heads, width]`.
    fn split(&self, convolved: Tensor<3>) -> [Tensor<4>; 3] {
        let Sizes {
            key_heads,
            heads,
            key,
            value,
            ..
        } = self.sizes;
        let [batch, seq, _] = convolved.dims();
        let keys = key_heads * key;
        let part = |first: usize, heads: usize, width: usize| {
            let part = convolved.clone().narrow(2, first, heads * width);
            part.reshape([batch, seq, heads, width])
        };
        [
            part(0, key_heads, key),
            part(keys, key_heads, key),
            part(2 * keys, heads, value),
        ]
    }

    /// Returns the logarithms of the decays, in at least `f32`, and the rates of the updates, each `[b, s, heads]`.
    fn steps(&self, projected: Projected) -> [Tensor<3>; 2] {
        let wide = at_least_f32(projected.decays.dtype());
        let strength = self.a_log.val().cast(wide).exp();
        let bias = self.dt_bias.val().cast(wide);
        let steps = softplus(projected.decays.cast(wide) + bias.unsqueeze(), 1.0);
        [
            (steps * strength.unsqueeze()).neg(),
            sigmoid(projected.rates),
        ]
    }
}

/// Sets the positions before the tokens of sequences to zero. `lengths` are the numbers of positions from the first
/// tokens on.
fn without_padding(x: Tensor<3>, lengths: Option<&[usize]>) -> Tensor<3> {
    let Some(lengths) = lengths else {
        return x;
    };
    let [batch, seq, width] = x.dims();
    let of_one = |length: &usize| {
        let length = *length;
        (0..seq).map(move |position| position + length < seq)
    };
    let padding: Vec<bool> = lengths.iter().flat_map(of_one).collect();
    let padding = TensorData::new(padding, [batch, seq, 1]);
    let padding = Tensor::<3, Bool>::from_data(padding, &x.device());
    x.mask_fill(padding.expand([batch, seq, width]), 0.0)
}
