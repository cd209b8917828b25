use super::visible::Visible;
use super::{Inputs, Lengths, Settings};
use crate::ops::compute_dtype;
use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::semantics::{
    AttentionBias, AttentionKey, AttentionMask, AttentionWindow, HeadLayout, ScoreCap, Sinks,
};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::Tensor;

const OP: &str = "Attention";

operation! {
    /// Attention. The forward pass keeps the result and `lse`, the logarithm of each query's sum of exponentials. `lse` of a
    /// query that sees no key is `-∞`. With packed documents, its elements may lie in another order, which the backward
    /// pass of the same backend expects.
    Attention {
        name: "attention",
        title: "Attention",
        kernel: "npu_fused_attention",
        saved: 2,
    }
    /// The checked operands of attention.
    Operands<T> {
        /// The queries, `[batch, heads, queries, width]` in the layout `bnsd`.
        q: One "q",
        /// The keys, `[batch, kv_heads, keys, width]`.
        k: One "k",
        /// The values, `[batch, kv_heads, keys, value_width]`.
        v: One "v",
        /// The bias of the scores, `[batch or 1, heads or 1, queries or 1, keys]`.
        bias: Maybe "the bias" if |of| of.key.bias == AttentionBias::Additive,
        /// The score of each head's sink, `[heads]`.
        sinks: Maybe "the tensor of sinks" if |of| of.key.sink == Sinks::Learned,
    }
    numbers {
        /// The numbers of the call.
        settings: Settings,
        /// The lengths of sequences or documents.
        lengths: Lengths,
        /// The variant to compute.
        key: AttentionKey,
    }
}

pub use kernels_simd::attention::Sizes;

impl<T: Described> Operands<T> {
    fn check(&self) -> Result<(), Mismatch> {
        let (settings, key) = (self.settings, self.key);
        check_numbers(settings, key)?;
        let sizes = sizes([&self.q, &self.k, &self.v], key.layout)?;
        self.lengths.check(sizes, key, settings.offset)?;
        if let Some(bias) = &self.bias {
            let [batch, heads, queries, keys] = operands::dims(OP, "the bias", bias)?;
            let fits = |size: usize, of: usize| size == of || size == 1;
            require!(
                fits(batch, sizes.batch)
                    && fits(heads, sizes.heads)
                    && fits(queries, sizes.queries)
                    && keys == sizes.keys,
                "Attention: the bias is {:?}, but must be [{} or 1, {} or 1, {} or 1, {}]: batch, heads, queries, keys",
                [batch, heads, queries, keys],
                sizes.batch,
                sizes.heads,
                sizes.queries,
                sizes.keys
            );
        }
        if let Some(sinks) = &self.sinks {
            let [heads] = operands::dims(OP, "the tensor of sinks", sinks)?;
            require!(
                heads == sizes.heads,
                "Attention: there are {heads} sinks, but {} heads",
                sizes.heads
            );
        }
        Ok(())
    }

    fn results(&self) -> [Like; 1] {
        [(self.result(), self.q.dtype())]
    }

    fn saved(&self) -> [Saved; 2] {
        let y = (self.result(), self.q.dtype());
        [Saved::in_shape("y", y), Saved::in_shape("lse", self.lse())]
    }

    /// Returns the sizes of the axes.
    pub fn sizes(&self) -> Sizes {
        sizes([&self.q, &self.k, &self.v], self.key.layout).expect("they were checked")
    }

    /// Returns the shape of the result.
    pub(crate) fn result(&self) -> Shape {
        let sizes = self.sizes();
        sizes.of_queries(self.key.layout, sizes.value_width).into()
    }

    /// Returns the shape and dtype of `lse`: `[batch, heads, queries]` in both layouts, in f32 (f64 for f64 tensors).
    pub(crate) fn lse(&self) -> Like {
        let Sizes {
            batch,
            heads,
            queries,
            ..
        } = self.sizes();
        let shape = Shape::new([batch, heads, queries]);
        (shape, compute_dtype(self.q.dtype()))
    }

    /// Returns the keys that each query sees.
    pub(super) fn visible(&self) -> Visible {
        Visible::new(self.sizes(), self.settings, self.lengths.clone(), self.key)
    }
}

impl<T> Operands<T> {
    /// Returns `q`, `k` and `v`, the bias and the sinks.
    pub fn into_parts(self) -> ([T; 3], Option<T>, Option<T>) {
        ([self.q, self.k, self.v], self.bias, self.sinks)
    }
}

/// Checks that the numbers match the key and are in their ranges.
fn check_numbers(settings: Settings, key: AttentionKey) -> Result<(), Mismatch> {
    let (window, cap) = (settings.window, settings.cap);
    let has_prefix = key.mask == AttentionMask::Prefix;
    agree("a prefix", settings.prefix.is_some(), has_prefix, key)?;
    require!(
        !has_prefix || key.window == AttentionWindow::None,
        "Attention: {key} has a prefix and a window, but kernels take one of them; use an additive bias"
    );
    agree(
        "a window",
        window.is_some(),
        key.window != AttentionWindow::None,
        key,
    )?;
    agree("a cap", cap.is_some(), key.cap == ScoreCap::Tanh, key)?;
    if let Some(window) = window {
        require!(
            window > 0,
            "Attention: a window of 0 positions hides all keys"
        );
    }
    if let Some(cap) = cap {
        // Most kernels compute in f32, and divide by it.
        require!(
            (cap as f32).is_normal() && cap > 0.0,
            "Attention: the cap is {cap}, but must be a number above 0 in the normal range of f32"
        );
    }
    if let Some(scale) = settings.scale {
        require!(
            (scale as f32).is_finite(),
            "Attention: the scale is {scale}, but must be a finite number in f32"
        );
    }
    Ok(())
}

/// Returns the sizes of queries, keys and values that go together.
fn sizes<T: Described>([q, k, v]: [&T; 3], layout: HeadLayout) -> Result<Sizes, Mismatch> {
    let sizes = |name, tensor| -> Result<[usize; 4], Mismatch> {
        let [batch, a, b, width] = operands::dims(OP, name, tensor)?;
        Ok(match layout {
            HeadLayout::Bnsd => [batch, a, b, width],
            HeadLayout::Bsnd => [batch, b, a, width],
        })
    };
    let [batch, heads, queries, width] = sizes("q", q)?;
    let [k_batch, kv_heads, keys, k_width] = sizes("k", k)?;
    let [v_batch, v_heads, v_keys, value_width] = sizes("v", v)?;
    let [q, k, v] = [q, k, v].map(Described::shape);
    let [q, k, v] = [q.as_slice(), k.as_slice(), v.as_slice()];
    require!(
        k_batch == batch && v_batch == batch,
        "Attention: q, k and v are {q:?}, {k:?} and {v:?}, but must have one batch size"
    );
    require!(
        v_heads == kv_heads && v_keys == keys,
        "Attention: k is {k:?} and v {v:?}, but both must have the same heads and keys"
    );
    require!(
        k_width == width,
        "Attention: heads of q are {width} wide, {q:?}, but heads of k {k_width}, {k:?}"
    );
    require!(
        heads == 0 || (kv_heads > 0 && heads.is_multiple_of(kv_heads)),
        "Attention: the {heads} heads of q can't share the {kv_heads} of k equally"
    );
    Ok(Sizes {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        width,
        value_width,
    })
}

impl Operands<DispatchTensor> {
    /// # Panics
    /// Panics if [`Operands::new`] returns an error.
    #[track_caller]
    pub(crate) fn of(inputs: Inputs, settings: Settings, key: AttentionKey) -> Self {
        checked(Self::new(
            inputs.q.into_dispatch(),
            inputs.k.into_dispatch(),
            inputs.v.into_dispatch(),
            inputs.bias.map(Tensor::into_dispatch),
            inputs.sinks.map(Tensor::into_dispatch),
            settings,
            inputs.lengths,
            key,
        ))
    }

    pub(crate) fn into_inputs(self) -> Inputs {
        Inputs {
            q: Tensor::from_dispatch(self.q),
            k: Tensor::from_dispatch(self.k),
            v: Tensor::from_dispatch(self.v),
            bias: self.bias.map(Tensor::from_dispatch),
            sinks: self.sinks.map(Tensor::from_dispatch),
            lengths: self.lengths,
        }
    }
}

/// Returns the operands' facts. Panics if [`Operands::new`] would return an error.
#[track_caller]
pub(super) fn check(inputs: &Inputs, settings: Settings, key: AttentionKey) -> Operands<Facts> {
    checked(Operands::new(
        Facts::from(&inputs.q),
        Facts::from(&inputs.k),
        Facts::from(&inputs.v),
        inputs.bias.as_ref().map(Facts::from),
        inputs.sinks.as_ref().map(Facts::from),
        settings,
        inputs.lengths.clone(),
        key,
    ))
}

fn agree(what: &str, given: bool, expected: bool, key: AttentionKey) -> Result<(), Mismatch> {
    require!(
        given == expected,
        "Attention: {what} is {}, but the semantics are {key}",
        if given { "given" } else { "missing" }
    );
    Ok(())
}
