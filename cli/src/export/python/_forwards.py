"""The forwards of layers. Each falls back to the model's own one, `type(self).forward`, for what it does not take and for
classes that compute something else."""

import torch

from . import _operations as operations
from ._mixture import experts as mixture
from ._operator import NAMESPACE
from ._verify import UNDECIDED, choose, close, decided, equal_but, few, normal

DTYPES = (torch.float32, torch.bfloat16, torch.float16)

# The activations of `transformers.activations` and of torch, by class.
ACTIVATIONS = {
    "SiLUActivation": "silu",
    "SiLU": "silu",
    "GELUActivation": "gelu",
    "GELU": "gelu",
    "GELUTanh": "gelu_tanh",
    "PytorchGELUTanh": "gelu_tanh",
    "NewGELUActivation": "gelu_tanh",
    "QuickGELUActivation": "quick_gelu",
    "ReLU": "relu",
    "ReLUSquaredActivation": "relu2",
    "Sigmoid": "sigmoid",
    "LinearActivation": "identity",
}


def _fits(*tensors):
    first = tensors[0]
    return first.dtype in DTYPES and first.numel() > 0 and all(
        tensor.device.type == "cpu" and tensor.dtype == first.dtype for tensor in tensors
    )


def eps_of(module):
    for name in ("variance_epsilon", "eps", "epsilon"):
        eps = getattr(module, name, None)
        if isinstance(eps, float):
            return eps
    return None


def rms_norm(module, x, *others, **named):
    kind = type(module)
    if others or named:  # a gate, for one
        return kind.forward(module, x, *others, **named)
    weight, eps = getattr(module, "weight", None), eps_of(module)
    if weight is None or eps is None or weight.dim() != 1 or not _fits(x, weight) or x.shape[-1] != weight.shape[0]:
        return kind.forward(module, x)
    settings = decided("RMSNorm", kind, x.dtype)
    if settings is UNDECIDED and not torch.compiler.is_compiling():
        verify_rms_norm(module, x)
        settings = decided("RMSNorm", kind, x.dtype)
    if settings is UNDECIDED or settings is None:
        return kind.forward(module, x)
    return operations.rms_norm(x, weight, eps, *settings)


def verify_rms_norm(module, x):
    kind, eps = type(module), eps_of(module)
    candidates = [
        ((offset, rounding), lambda x, offset=offset, rounding=rounding: operations.rms_norm(x, module.weight.detach(), eps, offset, rounding))
        for offset in (0.0, 1.0)
        for rounding in ("llama", "gemma")
    ]

    def agrees(mine, own):
        # The order of rounding shows in some numbers of half types only, so nearly all must be the same.
        return close(mine[0], own[0], 32) and (x.dtype == torch.float32 or equal_but(mine[0], own[0], 0.02))

    choose("RMSNorm", kind, x.dtype, lambda x: kind.forward(module, x), candidates, [few(x)], agrees)


def rotary(kind, own, q, k, cos, sin, unsqueeze_dim):
    """`own` is the model's function, `kind` what stands for it: its class, or itself."""
    heads = q.dim() == 4 and k.dim() == 4 and cos.dim() == 3 and sin.dim() == 3 and unsqueeze_dim in (1, 2)
    if not heads or not _fits(q, k) or not _fits(cos, sin) or cos.dtype not in (q.dtype, torch.float32) or cos.requires_grad:
        return own(q, k, cos, sin, unsqueeze_dim)
    key = (q.dtype, cos.dtype)
    settings = decided("rotary_pos_emb", kind, key)
    if settings is UNDECIDED and not torch.compiler.is_compiling():
        verify_rotary(kind, own, q, k, cos, sin, unsqueeze_dim)
        settings = decided("rotary_pos_emb", kind, key)
    if settings is UNDECIDED or settings is None:
        return own(q, k, cos, sin, unsqueeze_dim)
    style, table = settings
    return operations.rope(q, k, cos, sin, style, "bnsd" if unsqueeze_dim == 1 else "bsnd", table)


def verify_rotary(kind, own, q, k, cos, sin, unsqueeze_dim):
    if not bool(sin.any()):
        return None  # At position 0 alone, nothing turns: another call decides.
    layout = "bnsd" if unsqueeze_dim == 1 else "bsnd"
    cos, sin = normal(cos), normal(sin)
    # Of half the width of a head, tables hold each angle once.
    forms = [("half", "halves"), ("interleaved", "neighbours"), ("interleaved", "halves"), ("half", "pairs"), ("interleaved", "pairs")]
    candidates = [
        ((style, table), lambda q, k, style=style, table=table: operations.rope(q, k, cos, sin, style, layout, table))
        for style, table in forms
    ]

    def agrees(mine, own):
        return all(close(a, b, 4) for a, b in zip(mine, own))

    choose("rotary_pos_emb", kind, (q.dtype, cos.dtype), lambda q, k: own(q, k, cos, sin, unsqueeze_dim), candidates, [q, k], agrees)


def mlp(module, x):
    kind = type(module)
    activation = ACTIVATIONS.get(type(getattr(module, "act_fn", None)).__name__)
    weight = getattr(getattr(module, "gate_proj", None), "weight", None)
    if activation is None or weight is None or not _fits(x, weight):
        return kind.forward(module, x)
    settings = decided("SwiGLUMLP", kind, (x.dtype, activation))
    if settings is UNDECIDED and not torch.compiler.is_compiling():
        verify_mlp(module, x, activation)
        settings = decided("SwiGLUMLP", kind, (x.dtype, activation))
    if settings is UNDECIDED or settings is None:
        return kind.forward(module, x)
    return _mlp(module, x, activation)


def _mlp(module, x, activation):
    return module.down_proj(operations.glu(module.gate_proj(x), module.up_proj(x), activation))


def verify_mlp(module, x, activation):
    kind = type(module)
    candidates = [((), lambda x: _mlp(module, x, activation))]
    choose("SwiGLUMLP", kind, (x.dtype, activation), lambda x: kind.forward(module, x), candidates, [few(x)],
           lambda mine, own: close(mine[0], own[0], 32))


def experts_settings(module):
    """The form of a module of experts: their stacked weights and the settings of the operator."""
    gate, down = getattr(module, "gate_up_proj", None), getattr(module, "down_proj", None)
    if not all(isinstance(weight, torch.Tensor) and weight.dim() == 3 for weight in (gate, down)):
        return None
    biases = getattr(module, "gate_up_proj_bias", None), getattr(module, "down_proj_bias", None)
    if biases[0] is not None:
        # gpt-oss: gate and up by turns, the weights as products take them.
        if getattr(module, "alpha", None) != 1.702:
            return None
        return (gate, down, *biases, "quick_gelu", "interleaved", "matmul", getattr(module, "limit", None), 1.0)
    activation = ACTIVATIONS.get(type(getattr(module, "act_fn", None)).__name__)
    if activation is None:
        return None
    return gate, down, None, None, activation, "chunked", "linear", None, 0.0


def experts(module, x, numbers, weights):
    kind = type(module)
    form = experts_settings(module) if numbers is not None and weights is not None else None
    if form is None or x.dim() != 2 or not _fits(x, form[0]) or weights.dtype not in (x.dtype, torch.float32):
        return kind.forward(module, x, numbers, weights)
    key = (x.dtype, weights.dtype, form[4])
    settings = decided("Experts", kind, key)
    if settings is UNDECIDED and not torch.compiler.is_compiling():
        some = normal(numbers)
        own = lambda x, weights: kind.forward(module, x, some, weights)  # noqa: E731
        candidates = [((), lambda x, weights: mixture(x, weights, some, *form))]
        choose("Experts", kind, key, own, candidates, [x, weights], lambda mine, own: close(mine[0], own[0], 32))
        settings = decided("Experts", kind, key)
    if settings is UNDECIDED or settings is None:
        return kind.forward(module, x, numbers, weights)
    return mixture(x, weights, numbers, *form)


# `remove` knows these by it.
for _forward in (rms_norm, mlp, experts):
    _forward.of_package = NAMESPACE
