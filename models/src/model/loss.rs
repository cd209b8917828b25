//! The loss of the next token: from logits, and from hidden states without the logits of all tokens.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Bool, DType, FloatDType, Int, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::nn::Quantized;

use crate::layers::scores::capped;

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
/// Panics if `s < 2`, because no token has a next one.
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
#[fused_kernel("npu_fused_cross_entropy", ignore_index = IGNORED, layer = "ForCausalLMLoss")]
pub fn loss_of_logits(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    composed(logits, targets)
}

/// Returns the mean cross-entropy of the logits `hidden · weight` at the positions with a target, `[1]`. `hidden` is
/// `[tokens, hidden]` and `weight`, of an output projection, `[hidden, vocab]`.
#[fused_kernel("npu_fused_linear_cross_entropy", layout = input_major, ignore_index = IGNORED, layer = "ForCausalLMLoss")]
pub fn projected_loss(hidden: Tensor<2>, weight: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    composed(hidden.matmul(weight), targets)
}

/// Returns the mean cross-entropy of the logits `hidden · embeddingᵀ` at the positions with a target, `[1]`. `hidden` is
/// `[tokens, hidden]` and `embedding` the table of token embeddings, `[vocab, hidden]`.
#[fused_kernel("npu_fused_linear_cross_entropy", layout = output_major, ignore_index = IGNORED, layer = "ForCausalLMLoss")]
pub fn tied_loss(hidden: Tensor<2>, embedding: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    composed(hidden.matmul(embedding.transpose()), targets)
}

/// Returns the [`projected_loss`] with logits `c · tanh(logit / c)`, where `c` is `softcap`.
#[fused_kernel(
    "npu_fused_linear_cross_entropy",
    layout = input_major,
    cap = tanh,
    ignore_index = IGNORED,
    layer = "ForCausalLMLoss"
)]
pub fn capped_projected_loss(
    hidden: Tensor<2>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
    softcap: f64,
) -> Tensor<1> {
    composed(capped(hidden.matmul(weight), softcap), targets)
}

/// Returns the [`tied_loss`] with logits `c · tanh(logit / c)`, where `c` is `softcap`.
#[fused_kernel(
    "npu_fused_linear_cross_entropy",
    layout = output_major,
    cap = tanh,
    ignore_index = IGNORED,
    layer = "ForCausalLMLoss"
)]
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

/// Returns the loss of each token, `[tokens]`, of which the [`projected_loss`] is the mean. Its target must be a class.
#[fused_kernel("npu_fused_linear_cross_entropy", reduction = none, layout = input_major, layer = "projected_losses")]
pub fn projected_losses(
    hidden: Tensor<2>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
) -> Tensor<1> {
    composed_each(hidden.matmul(weight), targets)
}

/// Returns the loss of each token, `[tokens]`, of which the [`tied_loss`] is the mean. Its target must be a class.
#[fused_kernel("npu_fused_linear_cross_entropy", reduction = none, layout = output_major, layer = "tied_losses")]
pub fn tied_losses(hidden: Tensor<2>, embedding: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    composed_each(hidden.matmul(embedding.transpose()), targets)
}

/// Returns the loss of each token, `[tokens]`, of which the [`capped_projected_loss`] is the mean. Its target must be a
/// class.
#[fused_kernel("npu_fused_linear_cross_entropy", reduction = none, layout = input_major, cap = tanh, layer = "capped_projected_losses")]
pub fn capped_projected_losses(
    hidden: Tensor<2>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
    softcap: f64,
) -> Tensor<1> {
    composed_each(capped(hidden.matmul(weight), softcap), targets)
}

/// Returns the loss of each token, `[tokens]`, of which the [`capped_tied_loss`] is the mean. Its target must be a class.
#[fused_kernel("npu_fused_linear_cross_entropy", reduction = none, layout = output_major, cap = tanh, layer = "capped_tied_losses")]
pub fn capped_tied_losses(
    hidden: Tensor<2>,
    embedding: Tensor<2>,
    targets: Tensor<1, Int>,
    softcap: f64,
) -> Tensor<1> {
    composed_each(
        capped(hidden.matmul(embedding.transpose()), softcap),
        targets,
    )
}

/// Returns the mean cross-entropy of the logits of a quantised output layer, as [`projected_loss`] or, with a cap,
/// [`capped_projected_loss`] does.
pub(crate) fn quantised_loss(
    head: &Quantized,
    hidden: Tensor<2>,
    targets: Tensor<1, Int>,
    softcap: Option<f64>,
) -> Tensor<1> {
    let ignored = targets.clone().equal_elem(IGNORED);
    let losses = head.losses(hidden, targets, IGNORED, softcap);
    mean_of_counted(losses, ignored)
}

/// Computes the mean loss with all logits in memory.
fn composed(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    let ignored = targets.clone().equal_elem(IGNORED);
    let losses = composed_each(logits, targets.mask_fill(ignored.clone(), 0));
    mean_of_counted(losses, ignored)
}

/// Returns the mean of the losses of tokens that are not ignored.
fn mean_of_counted(losses: Tensor<1>, ignored: Tensor<1, Bool>) -> Tensor<1> {
    let counted = ignored
        .clone()
        .bool_not()
        .float()
        .cast(losses.dtype())
        .sum();
    losses.mask_fill(ignored, 0.0).sum() / counted
}

/// Computes the loss of each token with all logits in memory.
fn composed_each(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    let logits = match logits.dtype() {
        DType::F16 | DType::BF16 => logits.cast(FloatDType::F32),
        _ => logits,
    };
    log_softmax(logits, 1)
        .gather(1, targets.unsqueeze_dim(1))
        .squeeze_dim::<1>(1)
        .neg()
}
