//! The definition, in two orders of computation: token by token, and, for decays of heads, in chunks. Their results
//! are equal but for roundings. Chunks need a number of operations that grows far slower with the tokens.

mod chunks;

use super::{Decays, Inputs, Settings, Sizes, check};
use crate::kernel::rounded;
use crate::ops::zero::{empty, zero};
use crate::ops::{compute_dtype, same_dtype_as, sequences};
use crate::semantics::{GatedDeltaRuleKey, KeyNorm};
use burn::tensor::Tensor;
use kernels_simd::gated_delta::EPSILON;

/// The largest number of tokens for which the chunked order has no fewer operations.
const FEW: usize = 16;

/// Computes the rule with plain tensor operations, on any backend: the definition that kernels are verified against.
/// Returns the result, in the dtype of `q`, and the last state of each sequence, in that of the computation: f32, or
/// f64 for f64.
///
/// Decays and states may also be in the dtype of `q`. Everything is computed in f32 (f64 for f64), and the result is
/// rounded once.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn reference(
    inputs: Inputs,
    settings: Settings,
    key: GatedDeltaRuleKey,
) -> (Tensor<4>, Tensor<4>) {
    let sizes = check(&inputs, settings, key).sizes();
    let dtype = inputs.q.dtype();
    let compute = compute_dtype(dtype);
    let lengths = inputs.lengths.clone();
    let state = match &inputs.state {
        Some(state) => same_dtype_as(state.clone(), compute),
        None => Tensor::zeros(sizes.states(), (&inputs.q.device(), compute)),
    };
    let shape = inputs.v.dims();
    let Inputs { q, k, v, beta, .. } = inputs;
    let [q, k, v] = [q, k, v].map(|tensor| same_dtype_as(tensor, compute));
    let g = match inputs.g {
        Decays::Heads(g) => same_dtype_as(g, compute).unsqueeze_dim::<4>(3),
        Decays::Channels(g) => same_dtype_as(g, compute),
    };
    let beta: Tensor<4> = same_dtype_as(beta, compute).unsqueeze_dim(3);
    if shape.contains(&0) {
        let all = zero(q) + zero(k) + zero(v) + zero(g) + zero(beta) + zero(state.clone());
        return (same_dtype_as(empty(all, shape), dtype), state);
    }
    let [q, k] = [q, k].map(|rows| match key.norm {
        KeyNorm::L2 => normalised(rows),
        KeyNorm::None => rounded(rows),
    });
    let q = q.mul_scalar(settings.scale_of(sizes.key_width));
    let [q, k] = [q, k].map(|rows| of_every_head(rows, sizes));
    let (y, state) = sequences::each(
        &lengths,
        [sizes.batch, sizes.tokens],
        state,
        |take, state| {
            let all = [&q, &k, &v, &g, &beta].map(|tensor| take.of(tensor));
            let tokens = all[0].dims()[1];
            match sizes.decays == 1 && tokens > FEW {
                true => chunks::run(all, state),
                false => by_tokens(all, state),
            }
        },
    );
    (same_dtype_as(y, dtype), state)
}

/// Returns `x / √(Σ x² + ε)` of each row.
fn normalised(rows: Tensor<4>) -> Tensor<4> {
    let sum = rows.clone().square().sum_dim(3).add_scalar(EPSILON);
    rounded(rows) / rounded(sum.sqrt())
}

/// Repeats heads that several heads of values share.
fn of_every_head(rows: Tensor<4>, sizes: Sizes) -> Tensor<4> {
    let group = sizes.group();
    if group == 1 {
        return rows;
    }
    let [batch, tokens, heads, width] = rows.dims();
    let rows: Tensor<5> = rows.unsqueeze_dim(3);
    let rows = rows.expand([batch, tokens, heads, group, width]);
    rows.reshape([batch, tokens, heads * group, width])
}

/// Computes the rule token by token. The tensors are `[batch, tokens, heads, ..]`, the state `[batch, heads, key
/// width, value width]`.
fn by_tokens([q, k, v, g, beta]: [Tensor<4>; 5], mut state: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
    let tokens = q.dims()[1];
    let row = |tensor: &Tensor<4>, token: usize| -> Tensor<4> {
        tensor.clone().narrow(1, token, 1).swap_dims(1, 2)
    };
    let column = |tensor: &Tensor<4>, token: usize| row(tensor, token).swap_dims(2, 3);
    let mut results = Vec::with_capacity(tokens);
    for token in 0..tokens {
        let key = column(&k, token);
        state = state * rounded(column(&g, token).exp());
        let along = rounded(state.clone() * key.clone()).sum_dim(2);
        let change = rounded(row(&v, token) - along) * row(&beta, token);
        state = state + rounded(key * change);
        results.push(rounded(state.clone() * column(&q, token)).sum_dim(2));
    }
    let y = Tensor::cat(results, 2).swap_dims(1, 2);
    (y, state)
}
