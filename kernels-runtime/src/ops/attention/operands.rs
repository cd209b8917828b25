use super::visible::Visible;
use super::{Inputs, Lengths, Settings};
use crate::ops::compute_dtype;
use crate::ops::define::{backward, operands};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::semantics::{
    AttentionBias, AttentionKey, AttentionMask, AttentionWindow, HeadLayout, ScoreCap, Sinks,
};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, Tensor};

const OP: &str = "Attention";

operands! {
    /// The checked operands of attention.
    Operands<T> {
        /// Returns the queries, `[batch, heads, queries, width]` in the layout `bnsd`.
        q: One,
        /// Returns the keys, `[batch, kv_heads, keys, width]`.
        k: One,
        /// Returns the values, `[batch, kv_heads, keys, value_width]`.
        v: One,
        /// Returns the bias of the scores, `[batch or 1, heads or 1, queries or 1, keys]`.
        bias: Maybe,
        /// Returns the score of each head's sink, `[heads]`.
        sinks: Maybe,
    }
    numbers {
        /// Returns the numbers of the call.
        settings: Settings,
        /// Returns the lengths of sequences or documents.
        lengths: Lengths,
        /// Returns the variant to compute.
        key: AttentionKey,
        /// Returns the sizes of the axes.
        sizes: Sizes,
    }
}

/// The sizes of the axes of a call, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The number of sequences.
    pub batch: usize,
    /// The number of heads of the queries.
    pub heads: usize,
    /// The number of heads of keys and values, a divisor of `heads`.
    pub kv_heads: usize,
    /// The number of queries of a sequence.
    pub queries: usize,
    /// The number of keys of a sequence.
    pub keys: usize,
    /// The width of a head of queries and keys.
    pub width: usize,
    /// The width of a head of values and of the result.
    pub value_width: usize,
}

impl Sizes {
    /// Returns the number of heads of queries that share a head of keys.
    pub fn group(&self) -> usize {
        self.heads.checked_div(self.kv_heads).unwrap_or(0)
    }

    /// Returns the shape of a tensor with a row of `width` elements for each query, in a layout.
    pub(super) fn of_queries(&self, layout: HeadLayout, width: usize) -> Shape {
        match layout {
            HeadLayout::Bnsd => Shape::new([self.batch, self.heads, self.queries, width]),
            HeadLayout::Bsnd => Shape::new([self.batch, self.queries, self.heads, width]),
        }
    }

    /// Returns the shape of a tensor with a row of `width` elements for each key, in a layout.
    pub(super) fn of_keys(&self, layout: HeadLayout, width: usize) -> Shape {
        match layout {
            HeadLayout::Bnsd => Shape::new([self.batch, self.kv_heads, self.keys, width]),
            HeadLayout::Bsnd => Shape::new([self.batch, self.keys, self.kv_heads, width]),
        }
    }
}

impl<T: Described> Operands<T> {
    /// Makes the operands. The shapes are those of [`Inputs`]; bias, sinks, lengths, prefix, window and cap must
    /// be present exactly if the key has them.
    ///
    /// # Errors
    /// Returns an error if the operands don't match the key, if the shapes don't fit together, or if a number is out of
    /// its range.
    pub fn new(
        [q, k, v]: [T; 3],
        bias: Option<T>,
        sinks: Option<T>,
        settings: Settings,
        lengths: Lengths,
        key: AttentionKey,
    ) -> Result<Self, Mismatch> {
        check_numbers(settings, key)?;
        agree(
            "a bias",
            bias.is_some(),
            key.bias == AttentionBias::Additive,
            key,
        )?;
        let has_sinks = key.sink == Sinks::Learned;
        agree("a tensor of sinks", sinks.is_some(), has_sinks, key)?;
        let sizes = sizes([&q, &k, &v], key.layout)?;
        lengths.check(sizes, key, settings.offset)?;
        if let Some(bias) = &bias {
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
        if let Some(sinks) = &sinks {
            let [heads] = operands::dims(OP, "the tensor of sinks", sinks)?;
            require!(
                heads == sizes.heads,
                "Attention: there are {heads} sinks, but {} heads",
                sizes.heads
            );
        }
        Ok(Self {
            q,
            k,
            v,
            bias,
            sinks,
            settings,
            lengths,
            key,
            sizes,
        })
    }

    /// Returns the common dtype of all tensors.
    ///
    /// # Errors
    /// Returns an error if the dtypes differ, or if kernels don't take the dtype.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        let required = [("q", &self.q), ("k", &self.k), ("v", &self.v)];
        let others = [("the bias", &self.bias), ("the sinks", &self.sinks)];
        let others = others
            .into_iter()
            .filter_map(|(name, tensor)| Some((name, tensor.as_ref()?)));
        operands::one_dtype(OP, required.into_iter().chain(others))
    }

    /// Returns the shape of the result.
    pub(crate) fn result(&self) -> Shape {
        self.sizes
            .of_queries(self.key.layout, self.sizes.value_width)
    }

    /// Returns the shape and dtype of `lse`: `[batch, heads, queries]` in both layouts, in f32 (f64 for f64 tensors).
    pub(crate) fn lse(&self) -> (Shape, DType) {
        let Sizes {
            batch,
            heads,
            queries,
            ..
        } = self.sizes;
        let shape = Shape::new([batch, heads, queries]);
        (shape, compute_dtype(self.q.dtype()))
    }

    /// Adds the tensors that gradients are computed from: `dy`, the gradient of the result, and the result `y` and `lse`
    /// of the forward pass. `bias_gradient` is true if the gradient of the bias is wanted.
    ///
    /// # Errors
    /// Returns an error if a tensor does not have the shape and dtype that it has in the forward pass, or if the gradient
    /// of a missing bias is wanted.
    pub fn backward(
        self,
        [dy, y, lse]: [T; 3],
        bias_gradient: bool,
    ) -> Result<Backward<T>, Mismatch> {
        let dtype = self.dtype()?;
        let result = self.result();
        operands::like(OP, ("dy", &dy), ("the result", &result, dtype))?;
        operands::like(OP, ("y", &y), ("the result", &result, dtype))?;
        let (shape, wide) = self.lse();
        operands::like(OP, ("lse", &lse), ("that of the queries", &shape, wide))?;
        require!(
            self.bias.is_some() || !bias_gradient,
            "Attention: the gradient of a bias is wanted, but {} has none",
            self.key
        );
        Ok(Backward {
            operands: self,
            dy,
            y,
            lse,
            bias_gradient,
        })
    }
}

impl<T> Operands<T> {
    /// Returns the keys that each query sees.
    pub(super) fn visible(&self) -> Visible {
        Visible::new(self.sizes, self.settings, self.lengths.clone(), self.key)
    }

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
            [inputs.q, inputs.k, inputs.v].map(Tensor::into_dispatch),
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

backward! {
    /// The operands of the backward pass.
    Backward<T> of Operands<T> {
        /// Returns the gradient of the result.
        dy: T,
        /// Returns the result of the forward pass.
        y: T,
        /// Returns the logarithm of each query's sum of exponentials, from the forward pass.
        lse: T,
    }
    flag {
        /// Returns whether the gradient of the bias is wanted.
        bias_gradient
    }
}

/// Returns the operands' facts. Panics if [`Operands::new`] would return an error.
#[track_caller]
pub(super) fn check(inputs: &Inputs, settings: Settings, key: AttentionKey) -> Operands<Facts> {
    checked(Operands::new(
        [&inputs.q, &inputs.k, &inputs.v].map(Facts::from),
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
