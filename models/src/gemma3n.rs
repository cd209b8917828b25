//! The own layers of Gemma 3n's text models: parallel residual streams (AltUp), of which attention and MLP take one; a
//! narrow path beside attention (Laurel); an embedding of each token for each layer; and layers with the keys and values of
//! layers below. The norm is OLMo 2's.

use burn::module::{Initializer, Module, Param};
use burn::nn::Embedding;
use burn::tensor::activation::gelu_approximate;
use burn::tensor::{DType, Device, FloatDType, Int, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::nn::CacheError;
use burn_kernels::nn::Linear;

use crate::attention::{self, Scores};
use crate::blocks::{Mlp, NewMlp, RmsNorm, new_linear, new_weight};
use crate::cache::{LayerCache, Seen};
use crate::config::{AltUpConfig, ModelConfig, Neutral, ScoreConfig};
use crate::family::{Activation, Defaults, Family, Layers, Positions, Window};
use crate::gemma2::Gemma2Mlp;
use crate::llama::{self, apply_rotary_pos_emb};
use crate::llama4::l2_norm;
use crate::olmo2;
use crate::place::{Place, Rotation};

pub(crate) static FAMILY: Family = Family {
    class_name: "Gemma3nForCausalLM",
    model_type: "gemma3n_text",
    layers: Layers {
        norm: olmo2::FAMILY.layers.norm,
        ..llama::FAMILY.layers
    },
    altup: true,
    activation: Activation {
        field: "hidden_activation",
        name: "gelu_pytorch_tanh",
    },
    scaled_embeddings: true,
    scores: Some(ScoreConfig {
        query_pre_attn_scalar: 1.0,
        attn_logit_softcapping: None,
        final_logit_softcapping: Some(30.0),
    }),
    positions: Positions {
        local_theta: Some(10_000.0),
        ..llama::FAMILY.positions
    },
    defaults: Defaults {
        num_key_value_heads: Some(2),
        head_dim: Some(256),
        rope_theta: 1_000_000.0,
        tie_word_embeddings: true,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["attention_bias"],
    window: Window {
        honoured: true,
        default_size: Some(512),
        full_every: Some(5),
        ..Window::NONE
    },
    honours: &[
        "final_logit_softcapping",
        "num_kv_shared_layers",
        "rope_local_base_freq",
    ],
    refuses: &[(
        "altup_coef_clip",
        Neutral::Number(120.0),
        "weights are not limited in training, and none comes near the usual limit",
    )],
    ..llama::FAMILY
};

/// The parts of a model outside its layers: the embeddings of layers, and the projections between embedding and streams.
/// [`crate::parameters`] leaves the field of this type out of the paths of parameters.
#[derive(Module, Debug)]
pub(crate) struct Streams {
    /// The embeddings of all layers, one behind the other.
    embed_tokens_per_layer: Embedding,
    per_layer_model_projection: Linear,
    per_layer_projection_norm: RmsNorm,
    altup_projections: Vec<Linear>,
    altup_unembed_projections: Vec<Linear>,
    #[module(skip)]
    sizes: Sizes,
}

#[derive(Debug, Clone)]
struct Sizes {
    layers: usize,
    hidden: usize,
    altup: AltUpConfig,
}

impl Streams {
    pub(crate) fn new(config: &ModelConfig, altup: &AltUpConfig, device: &Device) -> Self {
        let (hidden, layers) = (config.hidden_size, config.num_hidden_layers);
        let own = altup.hidden_size_per_layer_input;
        let linear = |shape| new_linear(config, shape, false, device);
        let others = || (1..altup.altup_num_inputs).map(|_| linear([hidden, hidden]));
        let table = [altup.vocab_size_per_layer_input, layers * own];
        Self {
            embed_tokens_per_layer: Embedding {
                weight: new_weight(config, table, device),
            },
            per_layer_model_projection: linear([hidden, layers * own]),
            per_layer_projection_norm: RmsNorm::new(config, own, device),
            altup_projections: others().collect(),
            altup_unembed_projections: others().collect(),
            sizes: Sizes {
                layers,
                hidden,
                altup: altup.clone(),
            },
        }
    }

    /// Returns the layers' own inputs, `[b, s, layers, own width]`, of token ids and their embeddings.
    pub(crate) fn inputs(&self, input_ids: Tensor<2, Int>, embedded: &Tensor<3>) -> Tensor<4> {
        let [batch, seq, _] = embedded.dims();
        let own = self.sizes.altup.hidden_size_per_layer_input;
        let shape = [batch, seq, self.sizes.layers, own];
        // Tokens beyond the table have the embedding of the first.
        let vocab = self.sizes.altup.vocab_size_per_layer_input as i64;
        let beyond = input_ids.clone().greater_equal_elem(vocab);
        let looked_up = self
            .embed_tokens_per_layer
            .forward(input_ids.mask_fill(beyond, 0));
        let looked_up = looked_up.reshape(shape) * (own as f64).sqrt() as f32;
        let projected = self.per_layer_model_projection.forward(embedded.clone());
        let projected = projected * (self.sizes.hidden as f64).powf(-0.5) as f32;
        let projected = self
            .per_layer_projection_norm
            .forward(projected.reshape(shape));
        (projected + looked_up) * 0.5_f64.sqrt() as f32
    }

    /// Returns all streams `[streams, b, s, hidden]` of the embeddings: these, and projections of the same size.
    pub(crate) fn open(&self, embedded: Tensor<3>) -> Tensor<4> {
        let size = magnitude(&embedded);
        let others = self.altup_projections.iter();
        let others = others.map(|projection| resized(projection.forward(embedded.clone()), &size));
        let streams = std::iter::once(embedded.clone()).chain(others);
        Tensor::stack(streams.collect(), 0)
    }

    /// Returns the mean of all streams, which projections bring together with the size of the first.
    pub(crate) fn close(&self, streams: Tensor<4>) -> Tensor<3> {
        let stream = |at: usize| streams.clone().narrow(0, at, 1).squeeze_dim::<3>(0);
        let first = stream(0);
        let size = magnitude(&first);
        let others = self.altup_unembed_projections.iter().enumerate();
        let others =
            others.map(|(at, projection)| resized(projection.forward(stream(at + 1)), &size));
        let all: Vec<_> = std::iter::once(first).chain(others).collect();
        Tensor::stack::<4>(all, 0).mean_dim(0).squeeze_dim(0)
    }
}

/// Returns the root of the mean square of the last axis, which stays with length 1.
fn magnitude(x: &Tensor<3>) -> Tensor<3> {
    x.clone().square().mean_dim(2).sqrt()
}

/// Gives each vector the size that is wanted.
fn resized(x: Tensor<3>, size: &Tensor<3>) -> Tensor<3> {
    let own = x.clone().square().mean_dim(2).clamp_min(1e-5).sqrt();
    x * size.clone() / own
}

/// The keys and values that layers above use: of the last layer with a window that has its own, and of the last without.
#[derive(Default)]
pub(crate) struct SharedKeys {
    windowed: Option<Seen>,
    full: Option<Seen>,
}

/// A decoder layer.
#[derive(Module, Debug)]
pub struct Gemma3nLayer {
    altup: AltUp,
    laurel: Laurel,
    input_layernorm: RmsNorm,
    self_attn: Gemma3nAttention,
    post_attention_layernorm: RmsNorm,
    pre_feedforward_layernorm: RmsNorm,
    mlp: Mlp,
    post_feedforward_layernorm: RmsNorm,
    per_layer_input_gate: Linear,
    per_layer_projection: Linear,
    post_per_layer_input_norm: RmsNorm,
}

impl Gemma3nLayer {
    pub(crate) fn new(
        config: &ModelConfig,
        altup: &AltUpConfig,
        layer: usize,
        device: &Device,
    ) -> Self {
        let (hidden, own) = (config.hidden_size, altup.hidden_size_per_layer_input);
        let norm = || RmsNorm::new(config, hidden, device);
        let shares = altup.shares(layer, config.num_hidden_layers);
        Self {
            altup: AltUp::new(config, altup, device),
            laurel: Laurel {
                linear_left: new_linear(config, [hidden, altup.laurel_rank], false, device),
                linear_right: new_linear(config, [altup.laurel_rank, hidden], false, device),
                post_laurel_norm: norm(),
            },
            input_layernorm: norm(),
            self_attn: Gemma3nAttention::new(config, shares, device),
            post_attention_layernorm: norm(),
            pre_feedforward_layernorm: norm(),
            mlp: new_mlp(config, altup.activation_sparsity_pattern[layer], device),
            post_feedforward_layernorm: norm(),
            per_layer_input_gate: new_linear(config, [hidden, own], false, device),
            per_layer_projection: new_linear(config, [own, hidden], false, device),
            post_per_layer_input_norm: norm(),
        }
    }

    /// Returns the streams after this layer. `input` is the layer's own, `[b, s, own width]`.
    pub(crate) fn forward(
        &self,
        streams: Tensor<4>,
        input: Tensor<3>,
        place: Place<'_>,
        cache: Option<LayerCache<'_>>,
        shared: &mut SharedKeys,
    ) -> Result<Tensor<4>, CacheError> {
        let predicted = self.altup.predict(streams);
        let active = self.altup.active(&predicted);
        let normalised = self.input_layernorm.forward(active.clone());
        let beside = self.laurel.forward(normalised.clone());
        let attended = self.self_attn.forward(normalised, place, cache, shared)?;
        let attended = self.post_attention_layernorm.forward(attended);
        let sum = (active + attended + beside) / std::f64::consts::SQRT_2;
        let fed = self.pre_feedforward_layernorm.forward(sum.clone());
        let fed = self
            .post_feedforward_layernorm
            .forward(self.mlp.forward(fed));
        let corrected = self.altup.correct(predicted, sum + fed);
        let gate = self.altup.scaled(self.altup.active(&corrected));
        let own = gated(self.per_layer_input_gate.forward(gate), input);
        let own = self.per_layer_projection.forward(own);
        Ok(with_others(
            corrected,
            self.post_per_layer_input_norm.forward(own),
        ))
    }
}

/// Adds to all streams but the first.
fn with_others(streams: Tensor<4>, added: Tensor<3>) -> Tensor<4> {
    let [count, ..] = streams.dims();
    let first = streams.clone().narrow(0, 0, 1);
    let others = streams.narrow(0, 1, count - 1) + added.unsqueeze_dim::<4>(0);
    Tensor::cat(vec![first, others], 0)
}

/// Multiplies a layer's own input by the GELU of a gate.
#[fused_kernel("npu_fused_swiglu", activation = gelu_tanh)]
pub fn gated(gate: Tensor<3>, up: Tensor<3>) -> Tensor<3> {
    gelu_approximate(gate) * up
}

fn new_mlp(config: &ModelConfig, sparsity: f64, device: &Device) -> Mlp {
    let new = NewMlp {
        config,
        width: config.intermediate_size,
        device,
    };
    let [gate_proj, up_proj, down_proj] = new.separate();
    if sparsity == 0.0 {
        return Mlp::Gemma2(Gemma2Mlp {
            gate_proj,
            up_proj,
            down_proj,
        });
    }
    Mlp::Gemma3n(Gemma3nSparseMlp {
        gate_proj,
        up_proj,
        down_proj,
        activation_sparsity: sparsity,
    })
}

/// Gated MLP whose gates are set to zero up to the given part of a normal distribution with their mean and deviation:
/// `down(gelu(max(gate(x) − c, 0)) · up(x))`.
#[fused_kernel("npu_fused_swiglu", activation = gelu_tanh, topk = gaussian)]
#[derive(Module, Debug)]
pub struct Gemma3nSparseMlp {
    pub(crate) gate_proj: Linear,
    pub(crate) up_proj: Linear,
    pub(crate) down_proj: Linear,
    pub(crate) activation_sparsity: f64,
}

/// A narrow path beside attention.
#[derive(Module, Debug)]
struct Laurel {
    linear_left: Linear,
    linear_right: Linear,
    post_laurel_norm: RmsNorm,
}

impl Laurel {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let narrow = self.linear_left.forward(x.clone());
        let wide = self.linear_right.forward(narrow);
        x + self.post_laurel_norm.forward(wide)
    }
}

/// The parallel streams of a layer: it predicts all, computes one, and corrects all by the difference.
#[derive(Module, Debug)]
struct AltUp {
    correct_output_scale: Param<Tensor<1>>,
    correction_coefs: Linear,
    prediction_coefs: Linear,
    modality_router: Linear,
    router_norm: RmsNorm,
    #[module(skip)]
    streams: StreamSizes,
}

#[derive(Debug, Clone, Copy)]
struct StreamSizes {
    hidden: usize,
    active: usize,
    scales: bool,
}

impl AltUp {
    fn new(config: &ModelConfig, altup: &AltUpConfig, device: &Device) -> Self {
        let (hidden, count) = (config.hidden_size, altup.altup_num_inputs);
        let linear = |shape| new_linear(config, shape, false, device);
        Self {
            correct_output_scale: Initializer::Zeros.init([hidden], device),
            correction_coefs: linear([count, count]),
            prediction_coefs: linear([count, count * count]),
            modality_router: linear([hidden, count]),
            router_norm: RmsNorm::new(config, hidden, device),
            streams: StreamSizes {
                hidden,
                active: altup.altup_active_idx,
                scales: altup.altup_correct_scale,
            },
        }
    }

    /// Returns the stream that layers take, `[b, s, hidden]`, of all `[streams, b, s, hidden]`.
    fn active(&self, streams: &Tensor<4>) -> Tensor<3> {
        let active = streams.clone().narrow(0, self.streams.active, 1);
        active.squeeze_dim(0)
    }

    /// Returns the weights of streams, `[b, s, streams]`, from -1 to 1.
    fn modalities(&self, x: Tensor<3>) -> Tensor<3> {
        let scale = (self.streams.hidden as f64).recip() as f32;
        let routed = self
            .modality_router
            .forward(self.router_norm.forward(x) * scale);
        let dtype = routed.dtype();
        let wide = match dtype {
            DType::F64 => FloatDType::F64,
            _ => FloatDType::F32,
        };
        routed.cast(wide).tanh().cast(dtype)
    }

    /// Returns what the streams are expected to be after the layer.
    fn predict(&self, streams: Tensor<4>) -> Tensor<4> {
        let [count, batch, seq, _] = streams.dims();
        let weights = self.modalities(self.active(&streams));
        let mixing = self.prediction_coefs.forward(weights);
        let mixing: Tensor<4> = mixing.reshape([batch, seq, count, count]);
        let mixed = streams.clone().permute([1, 2, 3, 0]);
        let mixed = mixed.matmul(mixing.swap_dims(2, 3));
        mixed.permute([3, 0, 1, 2]) + streams
    }

    /// Adds to each stream a part of the difference between the computed stream and its prediction.
    fn correct(&self, predicted: Tensor<4>, computed: Tensor<3>) -> Tensor<4> {
        let difference = computed.clone() - self.active(&predicted);
        let parts = self.correction_coefs.forward(self.modalities(computed)) + 1.0;
        let parts: Tensor<4> = parts.permute([2, 0, 1]).unsqueeze_dim(3);
        difference.unsqueeze_dim::<4>(0) * parts + predicted
    }

    fn scaled(&self, x: Tensor<3>) -> Tensor<3> {
        match self.streams.scales {
            true => x * self.correct_output_scale.val().unsqueeze(),
            false => x,
        }
    }
}

/// The projections of keys and values, and the norm of the keys.
#[derive(Module, Debug)]
struct KeysAndValues {
    k_proj: Linear,
    v_proj: Linear,
    k_norm: RmsNorm,
}

/// Self-attention with normalised queries, keys and values. Without projections of keys and values, it takes those of a
/// layer below.
#[derive(Module, Debug)]
pub struct Gemma3nAttention {
    q_proj: Linear,
    q_norm: RmsNorm,
    /// [`crate::parameters`] leaves this field out of the paths of parameters.
    own: Option<KeysAndValues>,
    o_proj: Linear,
    #[module(skip)]
    heads: Heads,
}

#[derive(Debug, Clone, Copy)]
struct Heads {
    query: usize,
    key_value: usize,
    width: usize,
    eps: f64,
    scale: f64,
}

impl Gemma3nAttention {
    fn new(config: &ModelConfig, shares: bool, device: &Device) -> Self {
        let heads = Heads {
            query: config.num_attention_heads,
            key_value: config.num_key_value_heads,
            width: config.head_dim,
            eps: config.rms_norm_eps,
            scale: config.attention_scale(),
        };
        let hidden = config.hidden_size;
        let linear = |shape| new_linear(config, shape, config.attention_bias, device);
        let of_heads = |count: usize| linear([hidden, count * heads.width]);
        let norm = || RmsNorm::new(config, heads.width, device);
        Self {
            q_proj: of_heads(heads.query),
            q_norm: norm(),
            own: (!shares).then(|| KeysAndValues {
                k_proj: of_heads(heads.key_value),
                v_proj: of_heads(heads.key_value),
                k_norm: norm(),
            }),
            o_proj: linear([heads.query * heads.width, hidden]),
            heads,
        }
    }

    /// # Panics
    ///
    /// Panics if the place has no tables of one position, or if no layer below left keys. Neither happens in this family.
    fn forward(
        &self,
        x: Tensor<3>,
        place: Place<'_>,
        cache: Option<LayerCache<'_>>,
        shared: &mut SharedKeys,
    ) -> Result<Tensor<3>, CacheError> {
        let [batch, seq, _] = x.dims();
        let Some(Rotation::One(tables)) = place.rotation else {
            panic!("every layer of Gemma 3n rotates by one position");
        };
        let Heads {
            query,
            key_value,
            width,
            eps,
            scale,
        } = self.heads;
        let split = |x: Tensor<3>, heads| x.reshape([batch, seq, heads, width]);
        let rotate = |q: Tensor<4>, k: Tensor<4>| {
            let (cos, sin) = (tables.cos.clone(), tables.sin.clone());
            let (q, k) = apply_rotary_pos_emb(q.swap_dims(1, 2), k.swap_dims(1, 2), cos, sin);
            (q.swap_dims(1, 2), k.swap_dims(1, 2))
        };
        let q = split(self.q_proj.forward(x.clone()), query);
        let q = self.q_norm.forward(q);
        let kept = match place.window {
            Some(_) => &mut shared.windowed,
            None => &mut shared.full,
        };
        let (q, seen) = match &self.own {
            Some(own) => {
                let k = split(own.k_proj.forward(x.clone()), key_value);
                let k = own.k_norm.forward(k);
                let v = l2_norm(split(own.v_proj.forward(x), key_value), eps);
                let (q, k) = rotate(q, k);
                let seen = match cache {
                    Some(mut cache) => cache.append(k, v)?,
                    None => Seen {
                        keys: k,
                        values: v,
                        lengths: None,
                    },
                };
                *kept = Some(seen.clone());
                (q, seen)
            }
            None => {
                // The rotation takes both: one head of the queries is rotated twice.
                let one = q.clone().narrow(2, 0, 1);
                let seen = kept.clone();
                (rotate(q, one).0, seen.expect("a layer below has keys"))
            }
        };
        let scores = Scores {
            scale,
            softcap: None,
            // A window as long as the sequence hides nothing.
            window: place.window.filter(|&window| window < seen.keys.dims()[1]),
            sinks: None,
        };
        let mixed = attention::attend(q, seen, &scores);
        Ok(self
            .o_proj
            .forward(mixed.reshape([batch, seq, query * width])))
    }
}
