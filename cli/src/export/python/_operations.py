"""Norms, gated units, rotations, attention and linear layers as operators of torch, each with its gradient and its shapes, so
that `torch.compile` keeps them. Tensors are on the CPU, in f32, bf16 or f16."""

import math
from typing import Optional, Tuple

import torch
from torch import Tensor

from . import _library as library
from ._operator import accumulated, matrix, operator, or_empty, rows, whole

# --- RMSNorm


def _rms_norm(x: Tensor, weight: Optional[Tensor], eps: float, offset: float, rounding: str) -> Tuple[Tensor, Tensor]:
    y, rstd, _ = library.rms_norm(rows(x), whole(weight), None, None, eps, 0, offset, rounding.encode(), b"none")
    return y, rstd


_rms_norm.__name__ = "rms_norm"
rms_norm_operator = operator(_rms_norm)


@rms_norm_operator.register_fake
def _(x, weight, eps, offset, rounding):
    rows = math.prod(x.shape[:-1])
    return torch.empty_like(x, memory_format=torch.contiguous_format), x.new_empty(rows, dtype=accumulated(x))


def _rms_norm_backward(
    x: Tensor, weight: Optional[Tensor], dy: Tensor, rstd: Tensor, eps: float, offset: float, rounding: str, wants_weight: bool
) -> Tuple[Tensor, Tensor]:
    dx, dweight, _ = library.rms_norm_backward(
        rows(x), whole(weight), None, rows(dy), rstd, None, eps, 0, offset, rounding.encode(), b"none", wants_weight
    )
    return dx, or_empty(dweight, x)


_rms_norm_backward.__name__ = "rms_norm_backward"
rms_norm_backward_operator = operator(_rms_norm_backward)


@rms_norm_backward_operator.register_fake
def _(x, weight, dy, rstd, eps, offset, rounding, wants_weight):
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    return dx, torch.empty_like(weight) if wants_weight else x.new_empty(0)


def _keep_norm(ctx, inputs, output):
    x, weight, *ctx.numbers = inputs
    ctx.save_for_backward(x, weight, output[1])


def _norm_gradient(ctx, dy, _):
    x, weight, rstd = ctx.saved_tensors
    wants = weight is not None and ctx.needs_input_grad[1]
    dx, dweight = rms_norm_backward_operator(x, weight, dy, rstd, *ctx.numbers, wants)
    return dx, dweight if wants else None, None, None, None


rms_norm_operator.register_autograd(_norm_gradient, setup_context=_keep_norm)


def rms_norm(x, weight=None, eps=1e-6, offset=0.0, rounding="llama"):
    """RMSNorm over the last axis: `x / sqrt(mean(x²) + eps) · (offset + weight)`. With the rounding `llama`, half types are
    rounded before the weight scales them, with `gemma` once at the end."""
    return rms_norm_operator(x, weight, eps, offset, rounding)[0]


# --- LayerNorm


def _layer_norm(x: Tensor, weight: Tensor, bias: Optional[Tensor], eps: float) -> Tuple[Tensor, Tensor, Tensor]:
    return library.layer_norm(rows(x), whole(weight), whole(bias), eps)


_layer_norm.__name__ = "layer_norm"
layer_norm_operator = operator(_layer_norm)


@layer_norm_operator.register_fake
def _(x, weight, bias, eps):
    rows = math.prod(x.shape[:-1])
    statistics = [x.new_empty(rows, dtype=accumulated(x)) for _ in range(2)]
    return (torch.empty_like(x, memory_format=torch.contiguous_format), *statistics)


def _layer_norm_backward(
    x: Tensor, weight: Tensor, dy: Tensor, mean: Tensor, rstd: Tensor, wants_weight: bool, wants_bias: bool
) -> Tuple[Tensor, Tensor, Tensor]:
    dx, dweight, dbias = library.layer_norm_backward(
        rows(x), whole(weight), rows(dy), mean, rstd, wants_weight, wants_bias
    )
    return dx, or_empty(dweight, x), or_empty(dbias, x)


_layer_norm_backward.__name__ = "layer_norm_backward"
layer_norm_backward_operator = operator(_layer_norm_backward)


@layer_norm_backward_operator.register_fake
def _(x, weight, dy, mean, rstd, wants_weight, wants_bias):
    of = [torch.empty_like(weight) if wanted else x.new_empty(0) for wanted in (wants_weight, wants_bias)]
    return (torch.empty_like(x, memory_format=torch.contiguous_format), *of)


def _keep_layer_norm(ctx, inputs, output):
    x, weight, _, _ = inputs
    ctx.save_for_backward(x, weight, output[1], output[2])


def _layer_norm_gradient(ctx, dy, *_):
    x, weight, mean, rstd = ctx.saved_tensors
    _, wants_weight, wants_bias, _ = ctx.needs_input_grad
    dx, dweight, dbias = layer_norm_backward_operator(x, weight, dy, mean, rstd, wants_weight, wants_bias)
    return dx, dweight if wants_weight else None, dbias if wants_bias else None, None


layer_norm_operator.register_autograd(_layer_norm_gradient, setup_context=_keep_layer_norm)


def layer_norm(x, weight, bias=None, eps=1e-5):
    """LayerNorm over the last axis."""
    return layer_norm_operator(x, weight, bias, eps)[0]


# --- gated linear units


def _glu(
    gate: Tensor, up: Optional[Tensor], activation: str, projections: str, limit: Optional[float], up_offset: float
) -> Tensor:
    return library.glu(rows(gate), rows(up), activation.encode(), projections.encode(), limit, up_offset, None)


_glu.__name__ = "glu"
glu_operator = operator(_glu)


@glu_operator.register_fake
def _(gate, up, activation, projections, limit, up_offset):
    width = gate.shape[-1] if projections == "separate" else gate.shape[-1] // 2
    return gate.new_empty((*gate.shape[:-1], width))


def _glu_backward(
    gate: Tensor,
    up: Optional[Tensor],
    dy: Tensor,
    activation: str,
    projections: str,
    limit: Optional[float],
    up_offset: float,
) -> Tuple[Tensor, Tensor]:
    dgate, dup = library.glu_backward(
        rows(gate), rows(up), rows(dy), activation.encode(), projections.encode(), limit, up_offset, None
    )
    return dgate, or_empty(dup, gate)


_glu_backward.__name__ = "glu_backward"
glu_backward_operator = operator(_glu_backward)


@glu_backward_operator.register_fake
def _(gate, up, dy, activation, projections, limit, up_offset):
    return gate.new_empty(gate.shape), gate.new_empty(0) if up is None else up.new_empty(up.shape)


def _keep_glu(ctx, inputs, output):
    gate, up, *ctx.settings = inputs
    ctx.save_for_backward(gate, up)


def _glu_gradient(ctx, dy):
    gate, up = ctx.saved_tensors
    dgate, dup = glu_backward_operator(gate, up, dy, *ctx.settings)
    return dgate, None if up is None else dup, None, None, None, None


glu_operator.register_autograd(_glu_gradient, setup_context=_keep_glu)


def glu(gate, up=None, activation="silu", projections="separate", limit=None, up_offset=0.0):
    """A gated linear unit, `f(gate) · (up_offset + up)`. With the projections `chunked` or `interleaved`, `gate` holds both."""
    return glu_operator(gate, up, activation, projections, limit, up_offset)


# --- rotary position embedding


def _rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, style: str, layout: str, table: str) -> Tuple[Tensor, Tensor]:
    names = style.encode(), layout.encode(), table.encode()
    return library.rope(rows(q), rows(k), rows(cos), rows(sin), *names)


def _rope_backward(
    dq: Tensor, dk: Tensor, cos: Tensor, sin: Tensor, style: str, layout: str, table: str
) -> Tuple[Tensor, Tensor]:
    names = style.encode(), layout.encode(), table.encode()
    return library.rope_backward(rows(dq), rows(dk), rows(cos), rows(sin), *names)


_rope.__name__, _rope_backward.__name__ = "rope", "rope_backward"
rope_operator, rope_backward_operator = operator(_rope), operator(_rope_backward)


def _rope_fake(q, k, cos, sin, style, layout, table):
    return q.new_empty(q.shape), k.new_empty(k.shape)


rope_operator.register_fake(_rope_fake)
rope_backward_operator.register_fake(_rope_fake)


def _keep_tables(ctx, inputs, output):
    _, _, cos, sin, *ctx.settings = inputs
    ctx.save_for_backward(cos, sin)


def _rope_gradient(ctx, dq, dk):
    dq, dk = rope_backward_operator(dq, dk, *ctx.saved_tensors, *ctx.settings)
    return dq, dk, None, None, None, None, None


rope_operator.register_autograd(_rope_gradient, setup_context=_keep_tables)


def rope(q, k, cos, sin, style="half", layout="bnsd", table="halves"):
    """The rotary position embedding of queries and keys, `[batch, heads, seq, width]` or, as `bsnd`,
    `[batch, seq, heads, width]`. The tables, `[1 or batch, seq, width]`, have no gradient."""
    return rope_operator(q, k, cos.detach(), sin.detach(), style, layout, table)


# --- attention


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sinks: Optional[Tensor],
    mask: Optional[Tensor],
    causal: bool,
    window: int,
    scale: float,
    cap: Optional[float],
) -> Tuple[Tensor, Tensor]:
    return library.attention(
        rows(q), rows(k), rows(v), None, whole(sinks), rows(mask), causal, window, scale, cap, b"bsnd"
    )


_attention.__name__ = "attention"
attention_operator = operator(_attention)


@attention_operator.register_fake
def _(q, k, v, sinks, mask, causal, window, scale, cap):
    batch, heads, queries, _ = q.shape
    return q.new_empty((batch, queries, heads, v.shape[-1])), q.new_empty((batch, heads, queries), dtype=accumulated(q))


def _attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sinks: Optional[Tensor],
    mask: Optional[Tensor],
    dy: Tensor,
    y: Tensor,
    lse: Tensor,
    causal: bool,
    window: int,
    scale: float,
    cap: Optional[float],
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    dy, y = rows(dy).transpose(1, 2), y.transpose(1, 2)
    dq, dk, dv, _, dsinks = library.attention_backward(
        rows(q), rows(k), rows(v), None, whole(sinks), rows(mask), dy, y, lse, causal, window, scale, cap, b"bsnd", 0
    )
    return dq, dk, dv, or_empty(dsinks, q)


_attention_backward.__name__ = "attention_backward"
attention_backward_operator = operator(_attention_backward)


@attention_backward_operator.register_fake
def _(q, k, v, sinks, mask, dy, y, lse, causal, window, scale, cap):
    turned = [tensor.new_empty((tensor.shape[0], tensor.shape[2], tensor.shape[1], tensor.shape[3])) for tensor in (q, k, v)]
    return (*turned, q.new_empty(0) if sinks is None else sinks.new_empty(sinks.shape))


def _keep_attention(ctx, inputs, output):
    q, k, v, sinks, mask, *ctx.settings = inputs
    ctx.save_for_backward(q, k, v, sinks, mask, *output)


def _attention_gradient(ctx, dy, _):
    q, k, v, sinks, mask, y, lse = ctx.saved_tensors
    dq, dk, dv, dsinks = attention_backward_operator(q, k, v, sinks, mask, dy, y, lse, *ctx.settings)
    dq, dk, dv = (gradient.transpose(1, 2) for gradient in (dq, dk, dv))
    return (dq, dk, dv, None if sinks is None else dsinks) + 5 * (None,)


attention_operator.register_autograd(_attention_gradient, setup_context=_keep_attention)


def attention(q, k, v, sinks=None, mask=None, causal=False, window=0, scale=None, cap=None):
    """Attention of heads `[batch, heads, rows, width]`, of which several of `q` may share one of `k` and `v`. Returns
    `[batch, rows, heads, width]`. The last query sees the last key. A window is the largest number of keys that a query sees,
    up to its own, and 0 means all. A mask of bools, `[batch or 1, 1, queries, keys]`, must have neighbouring keys in each
    row. A cap is a number above 0."""
    if q.dim() != 4:
        raise ValueError("attention: heads of four axes are expected, and not {}".format(list(q.shape)))
    scale = max(q.shape[-1], 1) ** -0.5 if scale is None else scale
    return attention_operator(q, k, v, sinks, mask, causal, window, scale, cap)[0]


# --- linear layers


def _linear(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    return library.linear(whole(x), matrix(weight), whole(bias), b"output_major")


_linear.__name__ = "linear"
linear_operator = operator(_linear)


@linear_operator.register_fake
def _(x, weight, bias):
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _linear_backward(
    x: Tensor, weight: Tensor, dy: Tensor, wants_x: bool, wants_weight: bool, wants_bias: bool
) -> Tuple[Tensor, Tensor, Tensor]:
    made = library.linear_backward(
        whole(x), matrix(weight), whole(dy), b"output_major", wants_x, wants_weight, wants_bias
    )
    dx, dweight, dbias = (or_empty(gradient, x) for gradient in made)
    return dx, dweight, dbias


_linear_backward.__name__ = "linear_backward"
linear_backward_operator = operator(_linear_backward)


@linear_backward_operator.register_fake
def _(x, weight, dy, wants_x, wants_weight, wants_bias):
    shapes = (x.shape, wants_x), (weight.shape, wants_weight), (weight.shape[:1], wants_bias)
    return tuple(x.new_empty(shape if wanted else (0,)) for shape, wanted in shapes)


def _keep_linear(ctx, inputs, output):
    x, weight, _ = inputs
    ctx.save_for_backward(x, weight)


def _linear_gradient(ctx, dy):
    wanted = tuple(ctx.needs_input_grad)
    made = linear_backward_operator(*ctx.saved_tensors, dy, *wanted)
    return tuple(gradient if wants else None for gradient, wants in zip(made, wanted))


linear_operator.register_autograd(_linear_gradient, setup_context=_keep_linear)


def linear(x, weight, bias=None):
    """A linear layer with a weight `[outputs, inputs]`."""
    return linear_operator(x, weight, bias)
