"""Cross-entropies as operators of torch, of logits and without them in memory."""

from typing import Optional, Tuple

import torch
from torch import Tensor

from . import _library as library
from ._operator import accumulated, matrix, operator, or_empty, rows, whole


def _cross_entropy(
    logits: Tensor, targets: Tensor, ignore_index: int, label_smoothing: float, reduction: str
) -> Tuple[Tensor, Tensor]:
    return library.cross_entropy(
        rows(logits), whole(targets), ignore_index, label_smoothing, None, 0.0, reduction.encode()
    )


_cross_entropy.__name__ = "cross_entropy"
cross_entropy_operator = operator(_cross_entropy)


@cross_entropy_operator.register_fake
def _(logits, targets, ignore_index, label_smoothing, reduction):
    tokens = logits.shape[0]
    wide = accumulated(logits)
    loss = logits.new_empty((tokens,) if reduction == "none" else (), dtype=wide)
    return loss, logits.new_empty(tokens, dtype=wide)


def _cross_entropy_backward(
    logits: Tensor, targets: Tensor, lse: Tensor, dy: Tensor, ignore_index: int, label_smoothing: float, reduction: str
) -> Tensor:
    return library.cross_entropy_backward(
        rows(logits), whole(targets), lse, whole(dy), ignore_index, label_smoothing, None, 0.0, reduction.encode()
    )


_cross_entropy_backward.__name__ = "cross_entropy_backward"
cross_entropy_backward_operator = operator(_cross_entropy_backward)


@cross_entropy_backward_operator.register_fake
def _(logits, targets, lse, dy, ignore_index, label_smoothing, reduction):
    return logits.new_empty(logits.shape)


def _keep_logits(ctx, inputs, output):
    logits, targets, *ctx.settings = inputs
    ctx.save_for_backward(logits, targets, output[1])


def _cross_entropy_gradient(ctx, dy, _):
    logits, targets, lse = ctx.saved_tensors
    return cross_entropy_backward_operator(logits, targets, lse, dy, *ctx.settings), None, None, None, None


cross_entropy_operator.register_autograd(_cross_entropy_gradient, setup_context=_keep_logits)


def cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, reduction="mean"):
    """The cross-entropy of logits `[tokens, classes]`, in f32."""
    return cross_entropy_operator(logits, targets, ignore_index, label_smoothing, reduction)[0]


def _linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    targets: Tensor,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    wants_hidden: bool,
    wants_weight: bool,
    wants_bias: bool,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    loss, *made = library.linear_cross_entropy(
        whole(hidden), matrix(weight), whole(bias), whole(targets), b"output_major", ignore_index, label_smoothing, None,
        0.0, reduction.encode(), wants_hidden, wants_weight, wants_bias,
    )
    dhidden, dweight, dbias = (or_empty(gradient, loss) for gradient in made)
    return loss, dhidden, dweight, dbias


_linear_cross_entropy.__name__ = "linear_cross_entropy"
linear_cross_entropy_operator = operator(_linear_cross_entropy)


@linear_cross_entropy_operator.register_fake
def _(hidden, weight, bias, targets, ignore_index, label_smoothing, reduction, wants_hidden, wants_weight, wants_bias):
    wide = accumulated(hidden)
    shapes = (hidden.shape, wants_hidden), (weight.shape, wants_weight), (weight.shape[:1], wants_bias)
    kept = (hidden.new_empty(shape if wanted else (0,), dtype=wide) for shape, wanted in shapes)
    return (hidden.new_empty((), dtype=wide), *kept)


def _scaled(kept: Tensor, dy: Tensor, like: Tensor) -> Tensor:
    return library.scaled(kept, whole(dy), like)


_scaled.__name__ = "scaled"
scaled_operator = operator(_scaled)


@scaled_operator.register_fake
def _(kept, dy, like):
    return like.new_empty(kept.shape)


def _keep_gradients(ctx, inputs, output):
    ctx.save_for_backward(*output[1:], inputs[0])


def _linear_cross_entropy_gradient(ctx, dy, *_):
    *kept, like = ctx.saved_tensors
    made = (scaled_operator(gradient, dy, like.new_empty(0)) if wants else None for gradient, wants in zip(kept, ctx.needs_input_grad))
    return (*made,) + 7 * (None,)


linear_cross_entropy_operator.register_autograd(_linear_cross_entropy_gradient, setup_context=_keep_gradients)


def linear_cross_entropy(hidden, weight, targets, bias=None, ignore_index=-100, label_smoothing=0.0, reduction="mean"):
    """The cross-entropy of hidden states `[tokens, width]` and an output layer's weight `[classes, width]`, in f32, without
    the logits in memory. The reduction is `mean` or `sum`."""
    if reduction not in ("mean", "sum"):
        raise ValueError("linear_cross_entropy: the reduction must be mean or sum, and not {!r}".format(reduction))
    grows = torch.is_grad_enabled()
    wanted = [grows and tensor is not None and tensor.requires_grad for tensor in (hidden, weight, bias)]
    return linear_cross_entropy_operator(hidden, weight, bias, targets, ignore_index, label_smoothing, reduction, *wanted)[0]
