use super::linear;
use burn::module::Module;
use burn::nn::{Dropout, Linear};
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Tensor, assert_shape};

/// [`burn::nn::attention::MultiHeadAttention`] with a fused kernel, which stores no attention weights.
///
/// Its result is the context alone. It differs from Burn's layer in two places. A masked key has no weight at all, while
/// Burn replaces its score by `min_float`; only a query whose keys are all masked shows the difference, and its
/// attention is zero here. No kernel drops attention weights: while a layer with dropout trains, attention is computed
/// by plain operations, as in Burn's layer, and a warning says so when the layer is made.
///
/// ```
/// use burn::nn::attention::MultiHeadAttentionConfig;
/// use burn::tensor::{Device, Tensor};
/// use burn_kernels::nn::{MhaInput, MultiHeadAttention};
///
/// let device = Device::flex();
/// let config = MultiHeadAttentionConfig::new(32, 4).with_dropout(0.0);
/// let attention: MultiHeadAttention = config.init(&device).into();
/// let x = Tensor::<3>::ones([2, 5, 32], &device);
/// let context = attention.forward(MhaInput::self_attn(x).causal());
/// assert_eq!(context.dims(), [2, 5, 32]);
/// ```
#[derive(Module, Debug)]
pub struct MultiHeadAttention {
    /// The projection of the queries.
    pub query: Linear,
    /// The projection of the keys.
    pub key: Linear,
    /// The projection of the values.
    pub value: Linear,
    /// The projection of the result.
    pub output: Linear,
    /// The dropout of attention weights.
    pub dropout: Dropout,
    /// The number of heads.
    pub n_heads: usize,
    /// True if each head has a sink of score 0, Burn's quiet softmax.
    pub quiet_softmax: bool,
}

/// The input of [`MultiHeadAttention::forward`].
#[derive(Debug, Clone)]
pub struct MhaInput {
    query: Tensor<3>,
    key: Tensor<3>,
    value: Tensor<3>,
    masks: Masks,
}

/// The keys that are masked.
#[derive(Debug, Clone, Default)]
struct Masks {
    pad: Option<Tensor<2, Bool>>,
    attn: Option<Tensor<3, Bool>>,
    causal: bool,
}

impl MhaInput {
    /// Attends from `x`, `[batch, seq, d_model]`, to itself.
    pub fn self_attn(x: Tensor<3>) -> Self {
        Self::new(x.clone(), x.clone(), x)
    }

    /// Attends from `query`, `[batch, queries, d_model]`, to `key` and `value`, `[batch, keys, d_model]`.
    pub fn new(query: Tensor<3>, key: Tensor<3>, value: Tensor<3>) -> Self {
        Self {
            query,
            key,
            value,
            masks: Masks::default(),
        }
    }

    /// Masks the keys of padding, where `mask`, `[batch, keys]`, is true.
    pub fn mask_pad(mut self, mask: Tensor<2, Bool>) -> Self {
        self.masks.pad = Some(mask);
        self
    }

    /// Masks the pairs of query and key where `mask`, `[batch, queries, keys]`, is true.
    ///
    /// A causal mask is better said by [`causal`](Self::causal), which needs no tensor and skips the masked pairs.
    pub fn mask_attn(mut self, mask: Tensor<3, Bool>) -> Self {
        self.masks.attn = Some(mask);
        self
    }

    /// Masks the keys after each query. The last query has the position of the last key.
    pub fn causal(mut self) -> Self {
        self.masks.causal = true;
        self
    }
}

impl MultiHeadAttention {
    /// Returns the attention of each query, `[batch, queries, d_model]`.
    ///
    /// # Panics
    /// Panics if the last axis of an input is not the width of its projection, if the width of a projection is not that of
    /// `n_heads` heads, at least one, or if batch sizes, numbers of keys, or shapes of masks differ.
    #[track_caller]
    pub fn forward(&self, input: MhaInput) -> Tensor<3> {
        let MhaInput {
            query,
            key,
            value,
            masks,
        } = input;
        let [batch, queries, _] = query.dims();
        let [_, keys, _] = key.dims();
        assert_shape!(key, [batch, _, _]);
        assert_shape!(value, [batch, keys, _]);
        masks.check([batch, queries, keys]);
        let q = self.heads(linear::forward(&self.query, query));
        let k = self.heads(linear::forward(&self.key, key));
        let v = self.heads(linear::forward(&self.value, value));
        let mixed = if self.drops(&q) {
            self.dropped(q, k, v, masks)
        } else {
            self.attend(q, k, v, masks)
        };
        let [_, _, heads, width] = mixed.dims();
        let joined = mixed.reshape([batch, queries, heads * width]);
        linear::forward(&self.output, joined)
    }

    /// Splits the last axis, `[batch, seq, heads, width]`.
    #[track_caller]
    fn heads(&self, projected: Tensor<3>) -> Tensor<4> {
        let [batch, seq, columns] = projected.dims();
        assert!(
            self.n_heads > 0 && columns.is_multiple_of(self.n_heads),
            "MultiHeadAttention: a projection has {columns} columns, which are not `n_heads` = {} heads of one width",
            self.n_heads
        );
        projected.reshape([batch, seq, self.n_heads, columns / self.n_heads])
    }

    fn drops(&self, q: &Tensor<4>) -> bool {
        self.dropout.prob > 0.0 && self.dropout.training.is_enabled() && q.device().is_autodiff()
    }

    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, masks: Masks) -> Tensor<4> {
        let causal_alone = masks.causal && masks.pad.is_none() && masks.attn.is_none();
        let bias = if causal_alone {
            None
        } else {
            masks.bias(&q, &k)
        };
        match (bias, self.sinks(&q)) {
            (None, None) if causal_alone => attend_causal(q, k, v),
            (None, None) => attend(q, k, v),
            (Some(bias), None) => attend_masked(q, k, v, bias),
            (None, Some(sinks)) if causal_alone => attend_causal_quiet(q, k, v, sinks),
            (None, Some(sinks)) => attend_quiet(q, k, v, sinks),
            (Some(bias), Some(sinks)) => attend_masked_quiet(q, k, v, bias, sinks),
        }
    }

    /// Returns the score of each head's sink, `[heads]`: a quiet softmax has a 1 more in its sum, `e^0`.
    fn sinks(&self, q: &Tensor<4>) -> Option<Tensor<1>> {
        let zeros = || Tensor::zeros([self.n_heads], (&q.device(), q.dtype()));
        self.quiet_softmax.then(zeros)
    }

    /// Computes attention with dropout of its weights.
    fn dropped(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, masks: Masks) -> Tensor<4> {
        let (bias, sinks) = (masks.bias(&q, &k), self.sinks(&q));
        let weights = weights(q, k, bias, sinks);
        mix(self.dropout.forward(weights), v)
    }
}

impl Masks {
    /// Panics if a mask is not one of these queries and keys: none is repeated for other sequences or queries.
    #[track_caller]
    fn check(&self, [batch, queries, keys]: [usize; 3]) {
        if let Some(pad) = &self.pad {
            let (mask, expected) = (pad.dims(), [batch, keys]);
            assert!(
                mask == expected,
                "MultiHeadAttention: the mask of padding is {mask:?}, but must be {expected:?}: batch, keys"
            );
        }
        if let Some(attn) = &self.attn {
            let (mask, expected) = (attn.dims(), [batch, queries, keys]);
            assert!(
                mask == expected,
                "MultiHeadAttention: the mask of pairs is {mask:?}, but must be {expected:?}: batch, queries, keys"
            );
        }
    }

    /// Returns the number to add to each score, `[batch or 1, 1, queries or 1, keys]`: `-∞` for a masked key.
    fn bias(&self, q: &Tensor<4>, k: &Tensor<4>) -> Option<Tensor<4>> {
        let pad = self.pad.clone().map(|pad| pad.unsqueeze_dims(&[1, 1]));
        let attn = self.attn.clone().map(|attn| attn.unsqueeze_dim(1));
        let causal = self.causal.then(|| later_keys(q, k));
        let masks = [pad, attn, causal].into_iter().flatten();
        let biases = masks.map(|mask| as_bias(mask, q));
        biases.reduce(|one, other| one + other)
    }
}

/// Returns `-∞` where a mask is true, in the dtype of the queries.
fn as_bias(mask: Tensor<4, Bool>, q: &Tensor<4>) -> Tensor<4> {
    Tensor::zeros(mask.dims(), (&q.device(), q.dtype())).mask_fill(mask, f32::NEG_INFINITY)
}

/// Returns a mask `[1, 1, queries, keys]` of the keys after each query. The last query is at the last key.
fn later_keys(q: &Tensor<4>, k: &Tensor<4>) -> Tensor<4, Bool> {
    let (queries, keys) = (q.dims()[1], k.dims()[1]);
    let offset = keys as i64 - queries as i64;
    Tensor::<2, Bool>::tril_mask([queries, keys], offset, &q.device()).unsqueeze()
}

#[kernels_macros::fused_kernel(
    "npu_fused_attention",
    crate = crate,
    mask = none,
    layout = bsnd,
    layer = "MultiHeadAttention"
)]
fn attend(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    mix(weights(q, k, None, None), v)
}

#[kernels_macros::fused_kernel(
    "npu_fused_attention",
    crate = crate,
    mask = causal,
    layout = bsnd,
    layer = "MultiHeadAttention"
)]
fn attend_causal(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    let later = as_bias(later_keys(&q, &k), &q);
    mix(weights(q, k, Some(later), None), v)
}

#[kernels_macros::fused_kernel(
    "npu_fused_attention",
    crate = crate,
    mask = none,
    bias = additive,
    layout = bsnd,
    layer = "MultiHeadAttention"
)]
fn attend_masked(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, attention_bias: Tensor<4>) -> Tensor<4> {
    mix(weights(q, k, Some(attention_bias), None), v)
}

#[kernels_macros::fused_kernel(
    "npu_fused_attention",
    crate = crate,
    mask = none,
    sink = learned,
    layout = bsnd,
    layer = "MultiHeadAttention"
)]
fn attend_quiet(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, sinks: Tensor<1>) -> Tensor<4> {
    mix(weights(q, k, None, Some(sinks)), v)
}

#[kernels_macros::fused_kernel(
    "npu_fused_attention",
    crate = crate,
    mask = causal,
    sink = learned,
    layout = bsnd,
    layer = "MultiHeadAttention"
)]
fn attend_causal_quiet(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, sinks: Tensor<1>) -> Tensor<4> {
    let later = as_bias(later_keys(&q, &k), &q);
    mix(weights(q, k, Some(later), Some(sinks)), v)
}

#[kernels_macros::fused_kernel(
    "npu_fused_attention",
    crate = crate,
    mask = none,
    bias = additive,
    sink = learned,
    layout = bsnd,
    layer = "MultiHeadAttention"
)]
fn attend_masked_quiet(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    attention_bias: Tensor<4>,
    sinks: Tensor<1>,
) -> Tensor<4> {
    mix(weights(q, k, Some(attention_bias), Some(sinks)), v)
}

/// Returns the attention weights, `[batch, heads, queries, keys]`.
fn weights(
    q: Tensor<4>,
    k: Tensor<4>,
    bias: Option<Tensor<4>>,
    sinks: Option<Tensor<1>>,
) -> Tensor<4> {
    let [batch, queries, heads, width] = q.dims();
    let keys = k.dims()[1];
    let scores = product(q.swap_dims(1, 2), k.permute([0, 2, 3, 1]));
    let scores = scores.div_scalar((width as f64).sqrt());
    let scores = match bias {
        Some(bias) => scores + bias,
        None => scores,
    };
    let Some(sinks) = sinks else {
        return match scores.shape().num_elements() {
            0 => scores,
            _ => without_nan(softmax(scores, 3)),
        };
    };
    let sinks = sinks.reshape([1, heads, 1, 1]);
    let sinks = sinks.expand([batch, heads, queries, 1]);
    softmax(Tensor::cat(vec![scores, sinks], 3), 3).narrow(3, 0, keys)
}

/// Replaces the weights of a query whose keys are all masked by zeros.
fn without_nan(weights: Tensor<4>) -> Tensor<4> {
    let undefined = weights.clone().is_nan();
    weights.mask_fill(undefined, 0.0)
}

/// Returns the sums of values, `[batch, queries, heads, width]`.
fn mix(weights: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    product(weights, v.swap_dims(1, 2)).swap_dims(1, 2)
}

/// Returns the product of each pair of matrices, or zeros if it has no elements or no terms: Burn's product may end the
/// program then.
fn product(left: Tensor<4>, right: Tensor<4>) -> Tensor<4> {
    let sizes = [left.shape().num_elements(), right.shape().num_elements()];
    match sizes.contains(&0) {
        true => left.sum_dim(3).mul_scalar(0.0) + right.sum_dim(2).mul_scalar(0.0),
        false => left.matmul(right),
    }
}

impl From<burn::nn::attention::MultiHeadAttention> for MultiHeadAttention {
    fn from(theirs: burn::nn::attention::MultiHeadAttention) -> Self {
        if theirs.dropout.prob > 0.0 {
            kernels_runtime::__private::warn(format_args!(
                "no kernel drops attention weights: with dropout {}, MultiHeadAttention trains by plain operations; \
                 set it to 0 for the fused kernel",
                theirs.dropout.prob
            ));
        }
        Self {
            query: theirs.query,
            key: theirs.key,
            value: theirs.value,
            output: theirs.output,
            dropout: theirs.dropout,
            n_heads: theirs.n_heads,
            quiet_softmax: theirs.quiet_softmax,
        }
    }
}
