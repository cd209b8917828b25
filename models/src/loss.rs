//! The loss of the next token: from logits, and from hidden states without the logits of all tokens.

use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, FloatDType, Int, Tensor};
use burn_kernels::fused_kernel;

/// The target of a position without a next token. Such a position is not part of the loss.
pub(crate) const IGNORED: i64 = -100;

/// Panics if sequences of this length have no next token.
pub(crate) fn require_next_token(seq: usize) {
    assert!(
        seq >= 2,
        "the loss of the next token needs at least 2 tokens, found {seq}"
    );
}

/// Returns the mean cross-entropy of `logits[:, :-1]`, of logits `[b, s, vocab]`, against `input_ids[:, 1:]`. It has
/// shape `[1]` and dtype `f32` (`f64` for `f64` logits).
///
/// # Panics
///
/// Panics if `s < 2`, because there is no next token.
pub fn next_token_loss(logits: Tensor<3>, input_ids: Tensor<2, Int>) -> Tensor<1> {
    let [batch, seq, vocab] = logits.dims();
    require_next_token(seq);
    let targets = next_tokens(input_ids);
    loss_of_logits(logits.reshape([batch * seq, vocab]), targets)
}

/// Returns the targets `[b · s]` of hidden states `[b · s, hidden]`: the next token of each position.
pub(crate) fn next_tokens(input_ids: Tensor<2, Int>) -> Tensor<1, Int> {
    let [batch, seq] = input_ids.dims();
    let last = Tensor::full(
        [batch, 1],
        IGNORED,
        (&input_ids.device(), input_ids.dtype()),
    );
    let next = input_ids.narrow(1, 1, seq - 1);
    Tensor::cat(vec![next, last], 1).reshape([batch * seq])
}

/// Returns the mean cross-entropy of the logits `[tokens, vocab]` at the positions with a target, `[1]`.
#[fused_kernel("npu_fused_cross_entropy", ignore_index = IGNORED)]
pub fn loss_of_logits(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    composed(logits, targets)
}

/// Returns the mean cross-entropy of the logits `hidden · weight` at the positions with a target, `[1]`. `hidden` is
/// `[tokens, hidden]` and `weight`, of an output projection, `[hidden, vocab]`.
#[fused_kernel("npu_fused_linear_cross_entropy", layout = input_major, ignore_index = IGNORED)]
pub fn projected_loss(hidden: Tensor<2>, weight: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    composed(hidden.matmul(weight), targets)
}

/// Returns the mean cross-entropy of the logits `hidden · embeddingᵀ` at the positions with a target, `[1]`. `hidden` is
/// `[tokens, hidden]` and `embedding` the table of token embeddings, `[vocab, hidden]`.
#[fused_kernel("npu_fused_linear_cross_entropy", layout = output_major, ignore_index = IGNORED)]
pub fn tied_loss(hidden: Tensor<2>, embedding: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    composed(hidden.matmul(embedding.transpose()), targets)
}

/// Returns the [`projected_loss`] with logits `c · tanh(logit / c)`, where `c` is `softcap`.
#[fused_kernel("npu_fused_linear_cross_entropy", layout = input_major, cap = tanh, ignore_index = IGNORED)]
pub fn capped_projected_loss(
    hidden: Tensor<2>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
    softcap: f64,
) -> Tensor<1> {
    composed(capped(hidden.matmul(weight), softcap), targets)
}

/// Returns the [`tied_loss`] with logits `c · tanh(logit / c)`, where `c` is `softcap`.
#[fused_kernel("npu_fused_linear_cross_entropy", layout = output_major, cap = tanh, ignore_index = IGNORED)]
pub fn capped_tied_loss(
    hidden: Tensor<2>,
    embedding: Tensor<2>,
    targets: Tensor<1, Int>,
    softcap: f64,
) -> Tensor<1> {
    composed(
        capped(hidden.matmul(embedding.transpose()), softcap),
        targets,
    )
}

/// Replaces `x` by `c · tanh(x / c)`, where `c` is `softcap`.
pub(crate) fn capped<const D: usize>(x: Tensor<D>, softcap: f64) -> Tensor<D> {
    // Burn rounds the gradient of a division by a number to f32.
    (x * (1.0 / softcap)).tanh() * softcap
}

/// Computes the loss with all logits in memory.
fn composed(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    let logits = match logits.dtype() {
        DType::F16 | DType::BF16 => logits.cast(FloatDType::F32),
        _ => logits,
    };
    let dtype = logits.dtype();
    let ignored = targets.clone().equal_elem(IGNORED);
    let classes = targets.mask_fill(ignored.clone(), 0).unsqueeze_dim(1);
    let losses = log_softmax(logits, 1)
        .gather(1, classes)
        .squeeze_dim::<1>(1)
        .neg();
    let counted = ignored.clone().bool_not().float().cast(dtype).sum();
    losses.mask_fill(ignored, 0.0).sum() / counted
}
