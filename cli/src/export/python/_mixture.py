"""The experts of a mixture as an operator of torch."""

from typing import Optional, Tuple

import torch
from torch import Tensor

from . import _library as library
from ._operator import matrix, operator, or_empty, whole


def _experts(
    x: Tensor,
    routing: Tensor,
    experts: Tensor,
    gate: Tensor,
    down: Tensor,
    gate_bias: Optional[Tensor],
    down_bias: Optional[Tensor],
    activation: str,
    projections: str,
    layout: str,
    limit: Optional[float],
    up_offset: float,
    keep: bool,
) -> Tuple[Tensor, Tensor]:
    y, kept = library.experts(
        whole(x), whole(routing), whole(experts), matrix(gate), None, matrix(down), whole(gate_bias), None,
        whole(down_bias), activation.encode(), projections.encode(), layout.encode(), limit, up_offset, keep,
    )
    return y, or_empty(kept, x)


_experts.__name__ = "experts"
experts_operator = operator(_experts)


@experts_operator.register_fake
def _(x, routing, experts, gate, down, gate_bias, down_bias, activation, projections, layout, limit, up_offset, keep):
    width = down.shape[2] if layout == "linear" else down.shape[1]
    kept = (experts.numel(), 2 * width) if keep else (0,)
    return x.new_empty(x.shape), x.new_empty(kept)


def _experts_backward(
    x: Tensor,
    routing: Tensor,
    experts: Tensor,
    gate: Tensor,
    down: Tensor,
    gate_bias: Optional[Tensor],
    down_bias: Optional[Tensor],
    dy: Tensor,
    kept: Tensor,
    activation: str,
    projections: str,
    layout: str,
    limit: Optional[float],
    up_offset: float,
    wants_x: bool,
    wants_routing: bool,
    wants_weights: bool,
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    made = library.experts_backward(
        whole(x), whole(routing), whole(experts), matrix(gate), None, matrix(down), whole(gate_bias), None,
        whole(down_bias), whole(dy), kept, activation.encode(), projections.encode(), layout.encode(), limit, up_offset,
        wants_x, wants_routing, wants_weights,
    )
    dx, drouting, dgate, _, ddown, dgate_bias, _, ddown_bias = (or_empty(gradient, x) for gradient in made)
    return dx, drouting, dgate, ddown, dgate_bias, ddown_bias


_experts_backward.__name__ = "experts_backward"
experts_backward_operator = operator(_experts_backward)


@experts_backward_operator.register_fake
def _(x, routing, experts, gate, down, gate_bias, down_bias, dy, kept, activation, projections, layout, limit, up_offset,
      wants_x, wants_routing, wants_weights):
    def like(tensor, wanted):
        return tensor.new_empty(tensor.shape) if wanted and tensor is not None else x.new_empty(0)

    weights = [like(tensor, wants_weights) for tensor in (gate, down, gate_bias, down_bias)]
    return (like(x, wants_x), like(routing, wants_routing), *weights)


def _keep_experts(ctx, inputs, output):
    *tensors, activation, projections, layout, limit, up_offset, _ = inputs
    ctx.settings = activation, projections, layout, limit, up_offset
    ctx.save_for_backward(*tensors, output[1])


def _experts_gradient(ctx, dy, _):
    *tensors, kept = ctx.saved_tensors
    x, routing, _, *weights = ctx.needs_input_grad[:7]
    wanted = x, routing, any(weights)
    made = experts_backward_operator(*tensors, dy, kept, *ctx.settings, *wanted)
    gradients = [gradient if wants else None for gradient, wants in zip(made, (x, routing, *weights))]
    return (*gradients[:2], None, *gradients[2:]) + 6 * (None,)


experts_operator.register_autograd(_experts_gradient, setup_context=_keep_experts)


def experts(x, routing, experts, gate, down, gate_bias=None, down_bias=None, activation="silu", projections="chunked",
            layout="linear", limit=None, up_offset=0.0):
    """The experts of a mixture: the sum of each token's experts, weighted by `routing`, `[tokens, choices]`. `gate` holds gate
    and up of all experts, `down` the weights of their results. A number one past the last stands for an expert elsewhere,
    which adds nothing."""
    tensors = (x, routing, gate, down, gate_bias, down_bias)
    keep = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
    return experts_operator(x, routing, experts, gate, down, gate_bias, down_bias, activation, projections, layout, limit,
                            up_offset, keep)[0]
