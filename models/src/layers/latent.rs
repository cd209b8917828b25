//! Latent attention: keys and values come from a narrow projection, which is what a cache keeps (DeepSeek).

use burn::module::Module;
use burn::tensor::Tensor;
use burn_kernels::nn::CacheError;
use burn_kernels::nn::Linear;

use crate::config::LatentConfig;
use crate::layers::attention::Scores;
use crate::layers::blocks::{RmsNorm, new_linear};
use crate::layers::cache::{LayerCache, Seen};
use crate::layers::kinds::{Build, Layers};
use crate::layers::place::{Place, Rotation};

/// The epsilon of the norms of narrow projections. No field of the configuration changes it.
const EPS: f64 = 1e-6;

/// The projections of queries. [`crate::parameters`] leaves the field of this type out of the paths of parameters, as no
/// checkpoint has a name for it.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one a layer; a box would save nothing that matters"
)]
enum QueryProjections {
    Direct(DirectProjection),
    Narrow(NarrowProjections),
}

#[derive(Module, Debug)]
struct DirectProjection {
    q_proj: Linear,
}

#[derive(Module, Debug)]
struct NarrowProjections {
    q_a_proj: Linear,
    q_a_layernorm: RmsNorm,
    q_b_proj: Linear,
}

/// Causal self-attention with a part of each head that is rotated, and keys and values from a narrow projection.
#[derive(Module, Debug)]
pub struct LatentAttention {
    q: QueryProjections,
    /// The narrow projection, and behind it the rotated part of the keys.
    kv_a_proj_with_mqa: Linear,
    kv_a_layernorm: RmsNorm,
    kv_b_proj: Linear,
    o_proj: Linear,
    #[module(skip)]
    sizes: Sizes,
}

#[derive(Debug, Clone, Copy)]
struct Sizes {
    layers: &'static Layers,
    heads: usize,
    latent: LatentConfig,
    scale: f64,
}

impl QueryProjections {
    fn new(build: Build<'_>, latent: LatentConfig) -> Self {
        let Build { config, device, .. } = build;
        let output = config.num_attention_heads * latent.qk_head_dim();
        let hidden = config.hidden_size;
        match latent.q_lora_rank {
            None => Self::Direct(DirectProjection {
                q_proj: new_linear(config, [hidden, output], false, device),
            }),
            Some(rank) => Self::Narrow(NarrowProjections {
                q_a_proj: new_linear(config, [hidden, rank], config.attention_bias, device),
                q_a_layernorm: build.norm_with_eps(rank, EPS),
                q_b_proj: new_linear(config, [rank, output], false, device),
            }),
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Direct(own) => own.q_proj.forward(x),
            Self::Narrow(own) => {
                let narrow = own.q_a_layernorm.forward(own.q_a_proj.forward(x));
                own.q_b_proj.forward(narrow)
            }
        }
    }
}

impl LatentAttention {
    pub(crate) fn new(build: Build<'_>, latent: LatentConfig) -> Self {
        let Build {
            config,
            layers,
            device,
        } = build;
        let LatentConfig {
            kv_lora_rank: rank,
            qk_nope_head_dim,
            qk_rope_head_dim,
            v_head_dim,
            ..
        } = latent;
        let (hidden, heads) = (config.hidden_size, config.num_attention_heads);
        let bias = config.attention_bias;
        let linear = |shape, bias| new_linear(config, shape, bias, device);
        Self {
            q: QueryProjections::new(build, latent),
            kv_a_proj_with_mqa: linear([hidden, rank + qk_rope_head_dim], bias),
            kv_a_layernorm: build.norm_with_eps(rank, EPS),
            kv_b_proj: linear([rank, heads * (qk_nope_head_dim + v_head_dim)], false),
            o_proj: linear([heads * v_head_dim, hidden], bias),
            sizes: Sizes {
                layers,
                heads,
                latent,
                scale: config.attention_scale(),
            },
        }
    }

    /// Returns the attention of `x`, both `[b, s, hidden]`. With a cache, a query also sees the keys there, and its own are
    /// appended. No family with latent attention has windows.
    ///
    /// # Panics
    ///
    /// Panics without a rotation by one position. No family with latent attention has such layers.
    pub(crate) fn forward(
        &self,
        x: Tensor<3>,
        place: Place<'_>,
        cache: Option<LayerCache<'_>>,
    ) -> Result<Tensor<3>, CacheError> {
        let [batch, seq, _] = x.dims();
        let Sizes {
            heads,
            latent,
            layers,
            scale,
        } = self.sizes;
        let Some(Rotation::One(tables)) = place.rotation else {
            panic!("families with latent attention rotate by one position in every layer");
        };
        let q = self.q.forward(x.clone());
        let q = q.reshape([batch, seq, heads, latent.qk_head_dim()]);
        let fixed = q.clone().narrow(3, 0, latent.qk_nope_head_dim);
        let rotated = q.narrow(3, latent.qk_nope_head_dim, latent.qk_rope_head_dim);
        let (narrow, shared) = self.narrow(x);
        let (rotated, shared) = (layers.rotate)(
            rotated.swap_dims(1, 2),
            shared.swap_dims(1, 2),
            tables.cos.clone(),
            tables.sin.clone(),
        );
        let q = Tensor::cat(vec![fixed, rotated.swap_dims(1, 2)], 3);
        let shared = shared.swap_dims(1, 2);
        let seen = match cache {
            Some(mut cache) => cache.append(narrow, shared)?,
            None => place.seen(narrow, shared),
        };
        let scores = Scores {
            scale,
            softcap: None,
            window: None,
            sinks: None,
            // Models of this kind take no packed documents.
            documents: None,
        };
        let mixed = (layers.attend)(q, self.widen(seen), &scores);
        let mixed = mixed.reshape([batch, seq, heads * latent.v_head_dim]);
        Ok(self.o_proj.forward(mixed))
    }

    /// Returns the normalised narrow projection and the part of the keys that is rotated, each with one head.
    fn narrow(&self, x: Tensor<3>) -> (Tensor<4>, Tensor<4>) {
        let rank = self.sizes.latent.kv_lora_rank;
        let both = self.kv_a_proj_with_mqa.forward(x);
        let narrow = self.kv_a_layernorm.forward(both.clone().narrow(2, 0, rank));
        let shared = both.narrow(2, rank, self.sizes.latent.qk_rope_head_dim);
        (narrow.unsqueeze_dim(2), shared.unsqueeze_dim(2))
    }

    /// Turns narrow projections and rotated parts into keys and values of all heads.
    fn widen(&self, seen: Seen) -> Seen {
        let Sizes { heads, latent, .. } = self.sizes;
        let [batch, positions, _, width] = seen.values.dims();
        let (fixed, values) = (latent.qk_nope_head_dim, latent.v_head_dim);
        let wide = self.kv_b_proj.forward(seen.keys.squeeze_dim::<3>(2));
        let wide = wide.reshape([batch, positions, heads, fixed + values]);
        let shared = seen.values.expand([batch, positions, heads, width]);
        Seen {
            keys: Tensor::cat(vec![wide.clone().narrow(3, 0, fixed), shared], 3),
            values: wide.narrow(3, fixed, values),
            lengths: seen.lengths,
        }
    }
}
