//! Causal self-attention with grouped queries.

use burn::module::{Module, Param};
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, FloatDType, Tensor};
use burn_kernels::nn::CacheError;
use burn_kernels::nn::Linear;

use crate::config::ModelConfig;
use crate::config::family::HeadNorms;
use crate::layers::attention::Scores;
use crate::layers::blocks::{new_linear, new_weight};
use crate::layers::cache::{LayerCache, Seen};
use crate::layers::kinds::{Build, Layers};
use crate::layers::place::{AxisTables, Place, Rotation};
use crate::layers::rope::RotaryTables;

/// The norm of queries or keys.
#[derive(Module, Debug)]
struct HeadNorm {
    /// The weight of every head, `[width]`, or of all heads, `[heads · width]`.
    weight: Param<Tensor<1>>,
}

/// The projections of queries, keys and values. [`crate::parameters`] leaves the field of this type out of the paths of
/// parameters, as no checkpoint has a name for it.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one a layer; a box would save nothing that matters"
)]
enum QkvProjections {
    Separate(SeparateProjections),
    Packed(PackedProjections),
}

#[derive(Module, Debug)]
struct SeparateProjections {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
}

#[derive(Module, Debug)]
struct PackedProjections {
    /// The rows of queries come first, then those of keys, then those of values.
    qkv_proj: Linear,
}

/// Causal self-attention: every group of query heads shares one key and value head.
#[derive(Module, Debug)]
pub struct Attention {
    qkv: QkvProjections,
    o_proj: Linear,
    /// The norm of the queries, in architectures that have one.
    q_norm: Option<HeadNorm>,
    k_norm: Option<HeadNorm>,
    /// The sink of each query head, in architectures that have them.
    sinks: Option<Param<Tensor<1>>>,
    #[module(skip)]
    heads: Heads,
}

#[derive(Debug, Clone, Copy)]
struct Heads {
    layers: &'static Layers,
    query: usize,
    key_value: usize,
    width: usize,
    /// True if queries and keys are normalised.
    normalises: bool,
    /// True if each head of the query projection has a gate behind the query.
    gated: bool,
    eps: f64,
    scale: f64,
    softcap: Option<f64>,
}

impl Heads {
    /// Splits the output of the projection of queries into the queries and the gates, if there are any.
    fn without_gate(self, q: Tensor<4>) -> (Tensor<4>, Option<Tensor<4>>) {
        if !self.gated {
            return (q, None);
        }
        let gate = q.clone().narrow(3, self.width, self.width);
        (q.narrow(3, 0, self.width), Some(gate))
    }
}

impl QkvProjections {
    fn new(config: &ModelConfig, heads: Heads, device: &Device) -> Self {
        let projection = |heads_of_output: usize| {
            let shape = [config.hidden_size, heads_of_output * heads.width];
            let bias = config.attention_bias || config.qkv_bias;
            new_linear(config, shape, bias, device)
        };
        let of_query = 1 + usize::from(heads.gated);
        if config.family().projections.packed {
            return Self::Packed(PackedProjections {
                qkv_proj: projection(heads.query + 2 * heads.key_value),
            });
        }
        Self::Separate(SeparateProjections {
            q_proj: projection(of_query * heads.query),
            k_proj: projection(heads.key_value),
            v_proj: projection(heads.key_value),
        })
    }

    /// Returns the queries, keys and values of `x`, each `[b, s, heads, width]`. Queries with a gate are twice as wide.
    fn forward(&self, x: Tensor<3>, heads: Heads) -> [Tensor<4>; 3] {
        let Heads {
            query, key_value, ..
        } = heads;
        match self {
            Self::Separate(own) => [
                split(own.q_proj.forward(x.clone()), query),
                split(own.k_proj.forward(x.clone()), key_value),
                split(own.v_proj.forward(x), key_value),
            ],
            Self::Packed(own) => {
                let all = split(own.qkv_proj.forward(x), query + 2 * key_value);
                let part = |first, count| all.clone().narrow(2, first, count);
                [
                    part(0, query),
                    part(query, key_value),
                    part(query + key_value, key_value),
                ]
            }
        }
    }
}

impl Attention {
    pub(crate) fn new(build: Build<'_>) -> Self {
        let Build {
            config,
            layers,
            device,
        } = build;
        let heads = Heads {
            layers,
            query: config.num_attention_heads,
            key_value: config.num_key_value_heads,
            width: config.head_dim,
            normalises: config.use_qk_norm,
            gated: config.family().output_gate,
            eps: config.rms_norm_eps,
            scale: config.attention_scale(),
            softcap: config
                .scores
                .and_then(|scores| scores.attn_logit_softcapping),
        };
        let family = config.family();
        let norm = |heads_of_input: usize| {
            let norms = family.head_norms.filter(|_| config.use_qk_norm)?;
            let together = match norms {
                HeadNorms::OfHeads => 1,
                HeadNorms::OfRows => heads_of_input,
            };
            let weight = build.norm_weight(together * heads.width);
            Some(HeadNorm { weight })
        };
        let bias = config.attention_bias && family.projections.output_bias;
        let bias = bias || config.attention_out_bias;
        let mixed = heads.query * heads.width;
        Self {
            qkv: QkvProjections::new(config, heads, device),
            o_proj: new_linear(config, [mixed, config.hidden_size], bias, device),
            q_norm: norm(heads.query),
            k_norm: norm(heads.key_value),
            sinks: family
                .sinks
                .then(|| new_weight(config, [heads.query], device)),
            heads,
        }
    }

    /// Returns the attention of `x`, both `[b, s, hidden]`. With a window, a query sees that many keys: its own and the
    /// nearest before it. With a cache, it also sees the keys there, and its own are appended.
    pub(crate) fn forward(
        &self,
        x: Tensor<3>,
        place: Place<'_>,
        cache: Option<LayerCache<'_>>,
    ) -> Result<Tensor<3>, CacheError> {
        let [batch, seq, _] = x.dims();
        let [q, k, v] = self.qkv.forward(x, self.heads);
        let (q, gate) = self.heads.without_gate(q);
        let (q, k) = self.prepare(q, k, place);
        let seen = match cache {
            Some(mut cache) => cache.append(k, v)?,
            None => place.seen(k, v),
        };
        let mixed = self.attend(q, seen, place);
        let mixed = match gate {
            Some(gate) => mixed * sigmoid(gate),
            None => mixed,
        };
        let mixed = mixed.reshape([batch, seq, self.heads.query * self.heads.width]);
        Ok(self.o_proj.forward(mixed))
    }

    fn attend(&self, q: Tensor<4>, seen: Seen, place: Place<'_>) -> Tensor<4> {
        let scores = Scores {
            scale: self.heads.scale,
            softcap: self.heads.softcap,
            // A window as long as the sequence hides nothing.
            window: place.window.filter(|&window| window < seen.keys.dims()[1]),
            sinks: self.sinks.clone(),
            documents: place.documents.cloned(),
        };
        (self.heads.layers.attend)(q, seen, &scores)
    }

    /// Normalises and rotates queries and keys, if the layer does, and multiplies queries by their factor. Both are
    /// `[b, s, heads, width]`.
    fn prepare(&self, q: Tensor<4>, k: Tensor<4>, place: Place<'_>) -> (Tensor<4>, Tensor<4>) {
        let (q, k) = match place.rotation {
            Some(Rotation::One(tables)) => self.rotate(q, k, tables),
            Some(Rotation::Axes(tables)) => self.rotate_axes(q, k, tables),
            None => (q, k),
        };
        let Some(factor) = place.query_factor else {
            return (q, k);
        };
        let (dtype, wide) = (q.dtype(), FloatDType::from(factor.dtype()));
        ((q.cast(wide) * factor.clone()).cast(dtype), k)
    }

    fn rotate(&self, q: Tensor<4>, k: Tensor<4>, tables: &RotaryTables) -> (Tensor<4>, Tensor<4>) {
        let layers = self.heads.layers;
        let eps = self.heads.eps;
        let (cos, sin) = (tables.cos.clone(), tables.sin.clone());
        let norms = self.q_norm.as_ref().zip(self.k_norm.as_ref());
        if let Some((normalise, (q_norm, k_norm))) = layers.norm_and_rotate.zip(norms) {
            let weights = (&q_norm.weight, &k_norm.weight);
            return normalise(q, k, weights.0, weights.1, eps, cos, sin);
        }
        let rotate = layers.rotate;
        let (q, k) = rotate(q.swap_dims(1, 2), k.swap_dims(1, 2), cos, sin);
        let (q, k) = (q.swap_dims(1, 2), k.swap_dims(1, 2));
        match layers.rotated_norm.filter(|_| self.heads.normalises) {
            Some(norm) => (norm(q, eps), norm(k, eps)),
            None => (q, k),
        }
    }
}

impl Attention {
    /// Normalises the heads of queries and keys, if the architecture does, and rotates them by three positions.
    ///
    /// # Panics
    ///
    /// Panics if the family has no such rotation. Configurations with three positions are of families that do.
    fn rotate_axes(
        &self,
        q: Tensor<4>,
        k: Tensor<4>,
        tables: &AxisTables,
    ) -> (Tensor<4>, Tensor<4>) {
        let (layers, eps) = (self.heads.layers, self.heads.eps);
        let (cos, sin, sections) = (tables.cos.clone(), tables.sin.clone(), tables.sections);
        let norms = self.q_norm.as_ref().zip(self.k_norm.as_ref());
        if let Some((normalise, (q_norm, k_norm))) = layers.norm_and_rotate_axes.zip(norms) {
            let weights = (&q_norm.weight, &k_norm.weight);
            return normalise(q, k, weights.0, weights.1, eps, cos, sin, sections);
        }
        let normalised = |x: Tensor<4>, norm: &Option<HeadNorm>| match norm {
            Some(norm) => (layers.norm)(norm.weight.clone(), eps).forward(x),
            None => x,
        };
        let (q, k) = (normalised(q, &self.q_norm), normalised(k, &self.k_norm));
        let rotate = layers.rotate_axes;
        let rotate = rotate.expect("families with three positions rotate by them");
        let (q, k) = (q.swap_dims(1, 2), k.swap_dims(1, 2));
        let (q, k) = rotate(q, k, cos, sin, sections);
        (q.swap_dims(1, 2), k.swap_dims(1, 2))
    }
}

/// Reshapes `[b, s, heads · width]` to `[b, s, heads, width]`.
fn split(projected: Tensor<3>, heads: usize) -> Tensor<4> {
    let [batch, seq, columns] = projected.dims();
    projected.reshape([batch, seq, heads, columns / heads])
}
