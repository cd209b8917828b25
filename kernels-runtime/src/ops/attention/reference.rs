use super::visible::Visible;
use super::{Inputs, Settings, Sizes, check};
use crate::kernel::{rounded, rounded_scores};
use crate::ops::zero::zero;
use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::{AttentionKey, HeadLayout};
use burn::backend::Shape;
use burn::tensor::{Bool, Device, Tensor, TensorData};

/// Computes attention with plain tensor operations, on any backend: the definition that kernels are verified against.
///
/// It holds the scores of all pairs of queries and keys. Half types are computed in f32, and the result is rounded once.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn reference(inputs: Inputs, settings: Settings, key: AttentionKey) -> Tensor<4> {
    let facts = check(&inputs, settings, key);
    let (sizes, visible, shape) = (facts.sizes(), facts.visible(), facts.result());
    let (dtype, device) = (inputs.q.dtype(), inputs.q.device());
    if shape.num_elements() == 0 || sizes.keys == 0 {
        return zeros(inputs, shape);
    }
    let compute = compute_dtype(dtype);
    let wide = |tensor: Tensor<4>| rounded(same_dtype_as(in_bnsd(tensor, key), compute));
    let [q, k, v] = [inputs.q, inputs.k, inputs.v].map(wide);
    let scores = scores(q, k, settings, sizes);
    let scores = match inputs.bias {
        Some(bias) => scores + same_dtype_as(bias, compute),
        None => scores,
    };
    let scores = hide(scores, &visible, &device);
    let sinks = inputs
        .sinks
        .map(|sinks| same_dtype_as(sinks, compute).reshape([1, sizes.heads, 1, 1]));
    let y = weighted(scores, v, sinks, sizes);
    same_dtype_as(in_bnsd(y, key), dtype)
}

/// Returns the result of a call without scores. It depends on the operands, so that their gradients are zero.
fn zeros(inputs: Inputs, shape: Shape) -> Tensor<4> {
    let [q, k, v] = [inputs.q, inputs.k, inputs.v].map(zero);
    let mut sum = q + k + v;
    if let Some(bias) = inputs.bias {
        sum = sum + zero(bias);
    }
    if let Some(sinks) = inputs.sinks {
        sum = sum + zero(sinks);
    }
    sum.reshape([1, 1, 1, 1]).expand(shape)
}

/// Exchanges heads and positions, if the layout is `bsnd`. Two exchanges cancel out.
fn in_bnsd(tensor: Tensor<4>, key: AttentionKey) -> Tensor<4> {
    match key.layout {
        HeadLayout::Bnsd => tensor,
        HeadLayout::Bsnd => tensor.swap_dims(1, 2),
    }
}

/// Returns the scaled and capped scores, `[batch, heads, queries, keys]`.
fn scores(q: Tensor<4>, k: Tensor<4>, settings: Settings, sizes: Sizes) -> Tensor<4> {
    let Sizes {
        batch,
        heads,
        queries,
        keys,
        width,
        ..
    } = sizes;
    if width == 0 {
        return Tensor::zeros([batch, heads, queries, keys], (&q.device(), q.dtype()));
    }
    let scores = grouped(q, sizes).matmul(of_each_head(k, sizes).swap_dims(1, 2));
    let scores = scores
        .reshape([batch, heads, queries, keys])
        .mul_scalar(settings.scale_of(width));
    match settings.cap {
        // Burn rounds the gradient of a division by a number to f32.
        Some(cap) => scores.mul_scalar(1.0 / cap).tanh().mul_scalar(cap),
        None => scores,
    }
}

/// Joins the rows of the heads that share a head of keys, `[batch · kv_heads, group · queries, width]`.
fn grouped(rows: Tensor<4>, sizes: Sizes) -> Tensor<3> {
    let width = rows.dims()[3];
    let joined = sizes.group() * sizes.queries;
    rows.reshape([sizes.batch * sizes.kv_heads, joined, width])
}

/// Joins batch and heads, `[batch · kv_heads, keys, width]`.
fn of_each_head(rows: Tensor<4>, sizes: Sizes) -> Tensor<3> {
    let width = rows.dims()[3];
    rows.reshape([sizes.batch * sizes.kv_heads, sizes.keys, width])
}

/// Sets the scores of hidden keys to `-∞`.
fn hide(scores: Tensor<4>, visible: &Visible, device: &Device) -> Tensor<4> {
    if visible.is_everything() {
        return scores;
    }
    let [batch, _, queries, keys] = scores.dims();
    let sequences = if visible.is_one_for_all() { 1 } else { batch };
    let mut hidden = vec![true; sequences * queries * keys];
    for (row, hidden) in hidden.chunks_exact_mut(keys).enumerate() {
        hidden[visible.of(row / queries, row % queries)].fill(false);
    }
    let shape = [sequences, 1, queries, keys];
    let hidden = Tensor::<4, Bool>::from_data(TensorData::new(hidden, shape), device);
    let hidden = hidden.expand(scores.shape());
    scores.mask_fill(hidden, f64::NEG_INFINITY)
}

/// Returns `softmax(scores) · v`, `[batch, heads, queries, value_width]`.
fn weighted(scores: Tensor<4>, v: Tensor<4>, sinks: Option<Tensor<4>>, sizes: Sizes) -> Tensor<4> {
    // The maximum only keeps the exponentials in range: it cancels out, so it needs no gradient.
    let mut largest = scores.clone().detach().max_dim(3);
    if let Some(sinks) = &sinks {
        let sinks = sinks.clone().detach().expand(largest.shape());
        largest = largest.max_pair(sinks);
    }
    // A query that sees no key has no largest score.
    let sees_none = largest.clone().equal_elem(f64::NEG_INFINITY);
    let largest = largest.mask_fill(sees_none.clone(), 0.0);
    let exponentials = rounded((rounded_scores(scores, &largest) - largest.clone()).exp());
    let mut sum = exponentials.clone().sum_dim(3).mask_fill(sees_none, 1.0);
    if let Some(sinks) = sinks {
        sum = sum + (rounded_scores(sinks, &largest) - largest).exp();
    }
    let Sizes {
        batch,
        heads,
        queries,
        value_width,
        ..
    } = sizes;
    let y = rounded(grouped(exponentials, sizes).matmul(of_each_head(v, sizes)));
    y.reshape([batch, heads, queries, value_width]) / rounded(sum)
}
