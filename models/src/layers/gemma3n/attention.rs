//! Attention with normalised queries, keys and values, which layers can share.

use burn::module::Module;
use burn::tensor::Tensor;
use burn_kernels::nn::CacheError;
use burn_kernels::nn::Linear;

use crate::layers::attention::{self, Scores};
use crate::layers::blocks::{RmsNorm, new_linear};
use crate::layers::cache::{LayerCache, Seen};
use crate::layers::kinds::Build;
use crate::layers::llama::apply_rotary_pos_emb;
use crate::layers::llama4::l2_norm;
use crate::layers::place::{Place, Rotation};

/// The keys and values that layers above use: of the last layer with a window that has its own, and of the last without.
#[derive(Default)]
pub(crate) struct SharedKeys {
    windowed: Option<Seen>,
    full: Option<Seen>,
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
    pub(super) fn new(build: Build<'_>, shares: bool) -> Self {
        let Build { config, device, .. } = build;
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
        let norm = || build.norm(heads.width);
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
    pub(super) fn forward(
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
                    None => place.seen(k, v),
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
            // Models of this kind take no packed documents.
            documents: None,
        };
        let mixed = attention::attend(q, seen, &scores);
        Ok(self
            .o_proj
            .forward(mixed.reshape([batch, seq, query * width])))
    }
}
