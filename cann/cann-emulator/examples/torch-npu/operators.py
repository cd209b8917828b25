"""Runs operators of torch and torch_npu on the emulator and compares them with torch on the CPU in f64.

Inputs are rounded to the dtype first, so that both sides compute from the same numbers. The results and the gradients
of all float inputs are compared. Integer and bool results must be equal.
"""

import torch
import torch.nn.functional as F
import torch_npu  # noqa: F401  the device "npu"

from grouped import GroupedMatmul
from harness import Report, floats, integers

HALVES = (torch.float32, torch.float16, torch.bfloat16)


def rms(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def swiglu(x):
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


def rotated(x, cos, sin):
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin


def attention(q, k, v, scale):
    scores = q @ k.transpose(-1, -2) * scale
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v


def groups(x, weights, counts):
    parts = x.split(counts)
    return torch.cat([part @ weight for part, weight in zip(parts, weights)])


def fused(report):
    """The operators that LLaMA-Factory's kernels call, and flash attention."""
    x, weight = floats(2, 5, 32), floats(32, seed=2)
    report.compare("npu_rms_norm", rms, [x, weight], HALVES, npu=lambda x, w: torch_npu.npu_rms_norm(x, w, 1e-6)[0])
    report.compare(
        "npu_add_rms_norm",
        lambda a, b, w: (rms(a + b, w), a + b),
        [x, floats(2, 5, 32, seed=3), weight],
        HALVES,
        npu=lambda a, b, w: torch_npu.npu_add_rms_norm(a, b, w, 1e-6)[::2],
        gradient=False,
    )
    report.compare("npu_swiglu", swiglu, [floats(3, 64)], HALVES, npu=lambda x: torch_npu.npu_swiglu(x, dim=-1))
    heads, angle = floats(1, 2, 6, 64), floats(1, 1, 6, 64, seed=4)
    report.compare(
        "npu_rotary_mul",
        rotated,
        [heads, angle.cos(), angle.sin()],
        HALVES,
        npu=torch_npu.npu_rotary_mul,
    )
    q, k, v = (floats(1, 2, 16, 32, seed=seed) for seed in (5, 6, 7))
    mask = torch.ones(16, 16, dtype=torch.bool).triu(1)
    report.compare(
        "npu_fusion_attention",
        lambda q, k, v: attention(q, k, v, 0.25),
        [q, k, v],
        HALVES,
        npu=lambda q, k, v: torch_npu.npu_fusion_attention(
            q, k, v, 2, input_layout="BNSD", scale=0.25, atten_mask=mask.npu(), sparse_mode=0
        )[0],
    )
    counts = [3, 0, 4, 5]
    report.compare(
        "npu_grouped_matmul",
        lambda x, w: groups(x, w, counts),
        [floats(12, 32), floats(4, 32, 16, seed=8)],
        HALVES,
        npu=lambda x, w: GroupedMatmul.apply(x, w, torch.tensor(counts).npu()),
    )
    experts(report)


def experts(report):
    """Tokens in the order of their experts, and their weighted sum in the order of the tokens."""
    tokens, chosen = floats(6, 16), integers(6, 2, below=4)
    order = chosen.flatten().argsort(stable=True)

    def there(tokens):
        return tokens[order // 2]

    def back(tokens, shares):
        rows = torch.zeros_like(tokens).index_copy(0, order, tokens)
        return (rows.view(6, 2, 16) * shares.unsqueeze(-1)).sum(1)

    report.compare(
        "npu_moe_token_permute",
        there,
        [tokens],
        HALVES,
        npu=lambda tokens: torch_npu.npu_moe_token_permute(tokens, chosen.int().npu())[0],
    )
    places = order.argsort().int()
    report.compare(
        "npu_moe_token_unpermute",
        back,
        [floats(12, 16), floats(6, 2, seed=9).abs()],
        HALVES,
        npu=lambda tokens, shares: torch_npu.npu_moe_token_unpermute(tokens, places.npu(), shares),
    )


def arithmetic(report):
    x, y = floats(3, 4), floats(3, 4, seed=2)
    binary = {
        "add": torch.add,
        "sub": torch.sub,
        "mul": torch.mul,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
        "lerp": lambda x, y: torch.lerp(x, y, 0.3),
        "rsub": lambda x, y: torch.rsub(x, 2) * y,
        "where": lambda x, y: torch.where(x > y, x, y),
        "mse_loss": F.mse_loss,
        "stack": lambda x, y: torch.stack([x, y], 1),
        "cat": lambda x, y: torch.cat([x, y], 1),
    }
    for name, function in binary.items():
        report.compare(name, function, [x, y], HALVES)
    report.compare("div", torch.div, [x, y.abs() + 0.5], HALVES)
    report.compare("addcdiv", lambda x, y: torch.addcdiv(x, x, y, value=0.5), [x, y.abs() + 0.5], HALVES)
    unary = {
        "abs": torch.abs,
        "neg": torch.neg,
        "exp": torch.exp,
        "sin": torch.sin,
        "cos": torch.cos,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "silu": F.silu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "relu": F.relu,
        "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
        "softplus": F.softplus,
        "square": torch.square,
        "hardswish": F.hardswish,
        "elu": F.elu,
        "mish": F.mish,
        "pow": lambda x: x.pow(2),
        "cube": lambda x: x.pow(3),
        "scaled": lambda x: x * 2.5 + 1,
        "clamp": lambda x: x.clamp(-0.5, 0.5),
        "contiguous": lambda x: x.t().contiguous(),
        "float": lambda x: x.float(),
        "zeros": torch.zeros_like,
        "ones": torch.ones_like,
        "full": lambda x: torch.full_like(x, 3.0),
    }
    for name, function in unary.items():
        report.compare(name, function, [x], HALVES)
    positive = {
        "log": torch.log,
        "sqrt": torch.sqrt,
        "rsqrt": torch.rsqrt,
        "reciprocal": torch.reciprocal,
    }
    for name, function in positive.items():
        report.compare(name, function, [x.abs() + 0.5], HALVES)


def comparisons(report):
    x, y = floats(3, 4), floats(3, 4, seed=2)
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or"):
        report.compare(name, getattr(torch, name), [x, y], HALVES, gradient=False)
    for name in ("isnan", "isinf", "isfinite", "logical_not"):
        report.compare(name, getattr(torch, name), [x], HALVES, gradient=False)
    whole = integers(3, 4, below=9)
    for name, function in {
        "remainder": lambda x: x % 3,
        "floor_divide": lambda x: x // 3,
        "bitwise_and": lambda x: x & 5,
        "bitwise_or": lambda x: x | 5,
        "bitwise_not": lambda x: ~x,
        "cumsum": lambda x: x.cumsum(-1),
        "argsort": lambda x: x.argsort(stable=True),
        "arange": lambda x: torch.arange(7, device=x.device) + x[0, 0],
        "bool_sum": lambda x: (x > 3).sum(),
        "any": lambda x: (x > 3).any(),
        "all": lambda x: (x > 3).all(),
        "nonzero": lambda x: (x > 3).nonzero(),
        "masked_select": lambda x: x[x > 3],
        "masked_select, nothing": lambda x: x[x > 9],
        "max": lambda x: x.max(),
        "one_hot": lambda x: F.one_hot(x.long(), 9),
        "equal": lambda x: torch.tensor(torch.equal(x, x)),
        "flip": lambda x: x.flip(0),
        "unfold": lambda x: x.unfold(1, 2, 1),
        "item": lambda x: torch.tensor(x[0, 0].item()),
    }.items():
        report.compare(name, function, [whole], (torch.int64, torch.int32), gradient=False)


def reductions(report):
    x = floats(3, 4, 5)
    for name, function in {
        "sum": torch.sum,
        "sum_dim": lambda x: x.sum(1, keepdim=True),
        "mean": torch.mean,
        "mean_dim": lambda x: x.mean(-1),
        "var": lambda x: x.var(-1, correction=0),
        "std": lambda x: x.std(-1),
        "amax": lambda x: x.amax(-1),
        "max_dim": lambda x: x.max(-1).values,
        "softmax": lambda x: x.softmax(-1),
        "norm": lambda x: x.norm(),
        "log_softmax": lambda x: x.log_softmax(-1),
        "cumsum": lambda x: x.cumsum(-1),
        "cumprod": lambda x: x.cumprod(-1),
        "topk": lambda x: x.topk(2, -1)[0],
        "sort": lambda x: x.sort(-1)[0],
        "prod": lambda x: x.prod(-1),
        "logsumexp": lambda x: x.logsumexp(-1),
    }.items():
        report.compare(name, function, [x], HALVES)
    for name in ("max", "min", "argmax", "argmin"):
        report.compare(name, getattr(torch, name), [x], HALVES, gradient=False)


def sampling(report):
    """Draws from distributions with one possible result."""
    certain = torch.eye(4, dtype=torch.float64)[[2, 0]]
    report.compare("multinomial", lambda x: x.multinomial(1), [certain], HALVES, gradient=False)
    report.compare("dropout", lambda x: F.dropout(x, 0.0), [floats(3, 4)], HALVES)


def shapes(report):
    x = floats(3, 4, 6)
    rows = integers(5, below=3)
    for name, function in {
        "transpose": lambda x: x.transpose(0, 2) * 1,
        "permute": lambda x: x.permute(2, 0, 1).contiguous(),
        "expand": lambda x: x[:, :1].expand(3, 7, 6) * 1,
        "repeat": lambda x: x.repeat(2, 1, 2),
        "roll": lambda x: x.roll(1, 0),
        "slice": lambda x: x[1:, ::2],
        "chunk": lambda x: x.chunk(2, -1)[1] * 1,
        "split": lambda x: x.split(2, 1)[0] * 1,
        "unbind": lambda x: x.unbind(0)[1] * 1,
        "tril": torch.tril,
        "triu": torch.triu,
        "pad": lambda x: F.pad(x, (1, 2)),
        "index": lambda x: x[rows.to(x.device)],
        "index_select": lambda x: x.index_select(0, rows.to(x.device)),
        "repeat_interleave": lambda x: x.repeat_interleave(2, dim=1),
        "masked_fill": lambda x: x.masked_fill(x > 0, -1.0),
        "masked_put": lambda x: x.index_put((x > 0,), x.new_full((), 7.0)),
        "masked_put, nowhere": lambda x: x.index_put((x > 99,), x.new_full((), 7.0)),
        "embedding": lambda x: F.embedding(rows.to(x.device), x[:, 0]),
        "flatten": lambda x: x.flatten(1),
        "gather": lambda x: x[0].gather(0, rows.view(5, 1).expand(5, 6).to(x.device)),
        "index_add": lambda x: x.new_zeros(3, 6).index_add(0, rows.to(x.device), x.flatten(0, 1)[:5]),
        "scatter": lambda x: x.new_zeros(3, 6).scatter(0, rows[:1].view(1, 1).expand(1, 6).to(x.device), x[0, :1]),
        "index_put": lambda x: x.new_zeros(3, 6).index_put((rows.to(x.device),), x.flatten(0, 1)[:5], accumulate=True),
    }.items():
        report.compare(name, function, [x], HALVES)


def products(report):
    a, b, bias = floats(4, 8), floats(8, 6, seed=2), floats(6, seed=3)
    report.compare("mm", torch.mm, [a, b], HALVES)
    report.compare("matmul", torch.matmul, [floats(2, 4, 8), b], HALVES)
    report.compare("bmm", torch.bmm, [floats(2, 4, 8), floats(2, 8, 6, seed=2)], HALVES)
    report.compare("linear", lambda a, b, bias: F.linear(a, b.t(), bias), [a, b, bias], HALVES)
    report.compare("addmm", lambda a, b, bias: torch.addmm(bias, a, b), [a, b, bias], HALVES)
    report.compare(
        "baddbmm", lambda c, a, b: torch.baddbmm(c, a, b), [floats(2, 4, 6), floats(2, 4, 8), floats(2, 8, 6)], HALVES
    )
    report.compare("layer_norm", lambda x, w, b: F.layer_norm(x, (8,), w, b), [a, floats(8), floats(8, seed=2)], HALVES)
    report.compare("scaled_dot_product", lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True),
                   [floats(1, 2, 16, 32)], HALVES)
    target = torch.tensor([1, -100, 5, 2])
    report.compare("cross_entropy", lambda x: F.cross_entropy(x.float(), target.to(x.device)), [floats(4, 7)], HALVES)
    report.compare("einsum", lambda a, b: torch.einsum("ij,jk->ki", a, b), [a, b], HALVES)


def main():
    report = Report()
    for part in (fused, arithmetic, comparisons, reductions, sampling, shapes, products):
        part(report)
    report.finish()


if __name__ == "__main__":
    main()
