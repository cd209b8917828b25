#!/usr/bin/env python3
"""Times with PyTorch on the CPU what `cargo bench --workspace --bench compare` measures, eager and compiled.

    python benches/compare_torch.py [--json FILE] [--only NAME ...] [--threads N] [--list] [--quick]

`benches/compare.py` runs both in turn. Keys, shapes, warm-up and numbers of runs are the same. Times are medians in
milliseconds. Where there are several ways to write an operation, each is run, and a row has the fastest: a norm by
its formula and as `rms_norm`; experts as a loop over them and as `grouped_mm`, as transformers has them; AdamW fused
and for each tensor. The rows `…_model` are transformers' own one-layer models of the families, and need that package.
A backward pass begins with given gradients of the results, and that of a loss by itself.
"""
import argparse
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

import families_torch

HIDDEN, INNER, HEADS, KV_HEADS, HEAD, EPS = 1024, 3072, 16, 8, 64, 1e-6
EXPERTS, EXPERT_INNER, TOP_K, CLASSES = 32, 512, 4, 32000
VOCABULARY = families_torch.DESCRIPTION["common"]["vocab_size"]
# The width of a head in the decoder layers, as Qwen3-0.6B has it.
LAYER_HEAD = 128

# The same numbers as in cli/benches/compare/measure.rs.
TIME, FEWEST, MOST = 0.5, 5, 1000


class Setting:
    """The setting of a row, and tensors of that setting."""

    def __init__(self, size, dtype, step):
        self.size, self.dtype, self.step = size, dtype, step
        self.is_training = step == "forward+backward"

    def constant(self, *shape):
        return torch.randn(*shape).to(self.dtype)

    def input(self, *shape):
        return self.constant(*shape).requires_grad_(self.is_training)

    def parameter(self, *shape):
        return nn.Parameter((0.02 * torch.randn(*shape)).to(self.dtype))

    def linear(self, inputs, outputs):
        layer = nn.Linear(inputs, outputs, bias=False)
        layer.weight = self.parameter(outputs, inputs)
        return layer

    def targets(self):
        return torch.randint(0, CLASSES, (self.size,))


class Calls:
    """The ways to compute a row's results from its inputs. `tracked` are the tensors that get gradients.

    `backward` computes them from the results."""

    def __init__(self, ways, inputs, tracked=(), backward=None):
        self.ways, self.inputs, self.backward = ways, inputs, backward or given_gradients()
        self.tracked = [*tracked, *(x for x in inputs if x.requires_grad)]

    def eager(self, setting):
        return {name: self.run(call, setting) for name, call in self.ways.items()}

    def compiled(self, setting):
        return {name: self.run(torch.compile(call), setting) for name, call in self.ways.items()}

    def run(self, call, setting):
        def forward():
            with torch.no_grad():
                call(*self.inputs)

        def both():
            for x in self.tracked:
                x.grad = None
            self.backward(call(*self.inputs))

        return both if setting.is_training else forward


def all_results(results):
    return results if isinstance(results, tuple) else (results,)


def given_gradients():
    """A backward pass that begins with fixed gradients of the results, made at the first call."""
    slopes = []

    def backward(results):
        results = all_results(results)
        if not slopes:
            slopes.extend(torch.randn(y.shape).to(y.dtype) for y in results)
        torch.autograd.backward(results, slopes)

    return backward


def norm_by_formula(x, weight):
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)
    return weight * wide.to(x.dtype)


def norm_by_torch(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, EPS)


NORMS = {"formula": norm_by_formula, "rms_norm": norm_by_torch}


def with_norms(of_norm):
    """The ways of an operation that contains a norm."""
    return {name: of_norm(norm) for name, norm in NORMS.items()}


def rms_norm(of):
    return Calls(NORMS, (of.input(of.size, HIDDEN), of.parameter(HIDDEN)))


def add_rms_norm(of):
    def sum_and(norm):
        def call(x, residual, weight):
            total = x + residual
            return norm(total, weight), total
        return call

    return Calls(with_norms(sum_and), (of.input(of.size, HIDDEN), of.input(of.size, HIDDEN), of.parameter(HIDDEN)))


def product_sum(of):
    def call(y, dy):
        return (y * dy).sum()

    return Calls({"": call}, (of.input(of.size, INNER), of.constant(of.size, INNER)), backward=of_loss)


def unit(gate, up):
    return F.silu(gate) * up


def swiglu(of):
    return Calls({"": unit}, (of.input(of.size, INNER), of.input(of.size, INNER)))


class Mlp(nn.Module):
    def __init__(self, of):
        super().__init__()
        self.gate_proj, self.up_proj = of.linear(HIDDEN, INNER), of.linear(HIDDEN, INNER)
        self.down_proj = of.linear(INNER, HIDDEN)

    def forward(self, x):
        return self.down_proj(unit(self.gate_proj(x), self.up_proj(x)))


def of_module(module, *inputs):
    return Calls({"": module}, inputs, module.parameters())


def mlp(of):
    return of_module(Mlp(of), of.input(of.size, HIDDEN))


def turned(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def rotated(x, cos, sin):
    return x * cos + turned(x) * sin


def rope(of):
    def call(q, k, cos, sin):
        q, k, cos, sin = q.transpose(1, 2), k.transpose(1, 2), cos[:, None], sin[:, None]
        return rotated(q, cos, sin), rotated(k, cos, sin)

    tables = (of.constant(1, of.size, HEAD) for _ in range(2))
    return Calls({"": call}, (*heads(of, HEAD), *tables))


def heads(of, width):
    """Queries and keys, as projections give them."""
    return tuple(of.input(1, of.size, count, width) for count in (HEADS, KV_HEADS))


def norm_and_rotate(norm):
    def call(q, k, q_weight, k_weight, cos, sin):
        cos, sin = cos[:, :, None], sin[:, :, None]
        return rotated(norm(q, q_weight), cos, sin), rotated(norm(k, k_weight), cos, sin)
    return call


def qk_norm_rope(of):
    weights = (of.parameter(HEAD) for _ in range(2))
    tables = (of.constant(1, of.size, HEAD) for _ in range(2))
    return Calls(with_norms(norm_and_rotate), (*heads(of, HEAD), *weights, *tables))


def attend(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped).transpose(1, 2)


def attention(of):
    return Calls({"": attend}, tuple(of.input(1, of.size, HEADS, HEAD) for _ in range(3)))


def linear(of):
    return of_module(of.linear(HIDDEN, INNER), of.input(of.size, HIDDEN))


def experts_by_loop(x, chosen, routing, gate_up, down):
    out = torch.zeros_like(x)
    for expert in range(EXPERTS):
        tokens, place = torch.where(chosen == expert)
        gate, up = F.linear(x[tokens], gate_up[expert]).chunk(2, dim=-1)
        found = F.linear(unit(gate, up), down[expert])
        out.index_add_(0, tokens, found * routing[tokens, place, None])
    return out


def experts_by_group(x, chosen, routing, gate_up, down):
    order = torch.argsort(chosen.flatten())
    counts = torch.bincount(chosen.flatten(), minlength=EXPERTS)
    ends = counts.cumsum(0).to(torch.int32)
    tokens = order // TOP_K
    gate, up = F.grouped_mm(x[tokens], gate_up.transpose(1, 2), offs=ends).chunk(2, dim=-1)
    found = F.grouped_mm(unit(gate, up), down.transpose(1, 2), offs=ends)
    found = found * routing.flatten()[order, None]
    return torch.zeros_like(x).index_add(0, tokens, found)


EXPERT_WAYS = {"loop": experts_by_loop, "grouped_mm": experts_by_group}


def experts(of):
    # The same experts as in cli/benches/compare/operations.rs: as many tokens for each.
    chosen = (torch.arange(of.size)[:, None] * 5 + torch.tensor([0, 7, 13, 22])) % EXPERTS
    return Calls(EXPERT_WAYS, (
        of.input(of.size, HIDDEN), chosen, of.input(of.size, TOP_K),
        of.parameter(EXPERTS, 2 * EXPERT_INNER, HIDDEN), of.parameter(EXPERTS, HIDDEN, EXPERT_INNER),
    ))


def of_loss(loss):
    loss.backward()


def cross_entropy(of):
    return Calls({"": F.cross_entropy}, (of.input(of.size, CLASSES), of.targets()), backward=of_loss)


def linear_cross_entropy(of):
    def call(hidden, weight, targets):
        return F.cross_entropy(F.linear(hidden, weight), targets)

    inputs = (of.input(of.size, HIDDEN), of.parameter(CLASSES, HIDDEN), of.targets())
    return Calls({"": call}, inputs, backward=of_loss)


class AdamW:
    """Steps of one parameter that follow one another."""

    def __init__(self, of):
        self.of = of

    def step(self, **options):
        parameter = nn.Parameter(self.of.constant(self.of.size, self.of.size))
        parameter.grad = self.of.constant(self.of.size, self.of.size)
        # Burn's settings.
        return torch.optim.AdamW([parameter], lr=1e-3, eps=1e-5, weight_decay=0.01, **options).step

    def eager(self, _):
        return {"fused": self.step(fused=True), "foreach": self.step(foreach=True)}

    def compiled(self, _):
        return {"foreach": torch.compile(self.step(foreach=True))}


class Attention(nn.Module):
    def __init__(self, of, norm):
        super().__init__()
        self.q_proj = of.linear(HIDDEN, HEADS * LAYER_HEAD)
        self.k_proj, self.v_proj = (of.linear(HIDDEN, KV_HEADS * LAYER_HEAD) for _ in range(2))
        self.o_proj = of.linear(HEADS * LAYER_HEAD, HIDDEN)
        self.q_norm, self.k_norm = (of.parameter(LAYER_HEAD) for _ in range(2))
        self.prepare = norm_and_rotate(norm)

    def forward(self, x, cos, sin):
        q, k, v = (
            projection(x).unflatten(-1, (-1, LAYER_HEAD)) for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = self.prepare(q, k, self.q_norm, self.k_norm, cos, sin)
        return self.o_proj(attend(q, k, v).flatten(2))


class SparseMlp(nn.Module):
    def __init__(self, of, experts):
        super().__init__()
        self.gate = of.linear(HIDDEN, EXPERTS)
        self.gate_up = of.parameter(EXPERTS, 2 * EXPERT_INNER, HIDDEN)
        self.down = of.parameter(EXPERTS, HIDDEN, EXPERT_INNER)
        self.experts = experts

    def forward(self, x):
        flat = x.flatten(0, 1)
        routing, chosen = torch.softmax(self.gate(flat), dim=-1, dtype=torch.float).topk(TOP_K, dim=-1)
        routing = (routing / routing.sum(dim=-1, keepdim=True)).to(x.dtype)
        return self.experts(flat, chosen, routing, self.gate_up, self.down).view_as(x)


class Layer(nn.Module):
    def __init__(self, of, norm, mlp):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (of.parameter(HIDDEN) for _ in range(2))
        self.self_attn = Attention(of, norm)
        self.mlp, self.norm = mlp, norm

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.norm(x, self.input_layernorm), cos, sin)
        return x + self.mlp(self.norm(x, self.post_attention_layernorm))


def of_layers(of, layers):
    inputs = (of.input(1, of.size, HIDDEN), *(of.constant(1, of.size, LAYER_HEAD) for _ in range(2)))
    parameters = [parameter for layer in layers.values() for parameter in layer.parameters()]
    return Calls(layers, inputs, parameters)


def qwen3_layer(of):
    return of_layers(of, {name: Layer(of, norm, Mlp(of)) for name, norm in NORMS.items()})


def qwen3_moe_layer(of):
    ways = {name: Layer(of, norm_by_formula, SparseMlp(of, experts)) for name, experts in EXPERT_WAYS.items()}
    return of_layers(of, ways)


def qwen3_products(of):
    """The products of the dense layer."""
    wide, narrow = HEADS * LAYER_HEAD, KV_HEADS * LAYER_HEAD
    shapes = [(HIDDEN, wide), (HIDDEN, narrow), (HIDDEN, narrow), (wide, HIDDEN), (HIDDEN, INNER), (HIDDEN, INNER),
              (INNER, HIDDEN)]
    layers = nn.ModuleList(of.linear(*shape) for shape in shapes)

    def call(*inputs):
        return tuple(layer(x) for layer, x in zip(layers, inputs))

    inputs = tuple(of.input(of.size, rows) for rows, _ in shapes)
    return Calls({"": call}, inputs, layers.parameters())


def family(name):
    def prepare(of):
        models = dict(families_torch.models(name, of.dtype))
        parameters = [parameter for model in models.values() for parameter in model.parameters()]
        return Calls(models, (torch.randint(0, VOCABULARY, (1, of.size)),), parameters)

    return prepare


BOTH = ("forward", "forward+backward")
OPERATIONS = (rms_norm, add_rms_norm, swiglu, mlp, rope, qk_norm_rope, attention, linear, experts, cross_entropy,
              linear_cross_entropy)
GROUPS = {
    "product_sum": (product_sum, (512, 2048), ("forward+backward",)),
    **{operation.__name__: (operation, (512, 2048), BOTH) for operation in OPERATIONS},
    "adam_w": (AdamW, (1024, 4096), ("step",)),
    **{layer.__name__: (layer, (512,), BOTH) for layer in (qwen3_layer, qwen3_products, qwen3_moe_layer)},
    **{f"{name}_model": (family(name), (512,), BOTH) for name in families_torch.FAMILIES},
}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# Models of the families are compared in f32 only.
F32_ONLY = tuple(f"{name}_model" for name in families_torch.FAMILIES)


def all_rows():
    """Every row's key, what prepares it, and its setting."""
    for group, (prepare, sizes, steps) in GROUPS.items():
        for size in sizes:
            for name, dtype in DTYPES.items():
                if group in F32_ONLY and name != "f32":
                    continue
                for step in steps:
                    yield f"{group}/{size}/{name}/{step}", prepare, Setting(size, dtype, step)


def selected(names):
    """The rows whose keys are these names or begin with one of them; without names, all."""
    rows = list(all_rows())
    if not names:
        return rows

    def has(key, name):
        return (key + "/").startswith(name.rstrip("/") + "/")

    for name in names:
        if not any(has(key, name) for key, *_ in rows):
            sys.exit(f"no row is named {name!r}; the groups are {', '.join(GROUPS)}")
    return [row for row in rows if any(has(row[0], name) for name in names)]


def measure(run, quick):
    """The median time of a run after two that warm up, in milliseconds, and the number of runs."""
    run()
    run()
    fewest, least_time = (1, 0.0) if quick else (FEWEST, TIME)
    times, started = [], time.perf_counter()
    while len(times) < fewest or (len(times) < MOST and time.perf_counter() - started < least_time):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return {"ms": statistics.median_high(times) * 1e3, "samples": len(times)}


def fastest(ways, quick):
    """The measurement of the fastest way, with its name; without a time and with the errors if none runs."""
    found, errors = [], []
    for name, run in ways.items():
        try:
            found.append({**measure(run, quick), "way": name})
        except Exception as error:  # an operation that this build of torch can't compile is not measured
            errors.append(f"{name or 'it'} fails: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
    best = min(found, key=lambda way: way["ms"], default={"ms": None, "samples": 0, "way": None})
    return {**best, "errors": errors}


def measure_row(key, prepare, setting, quick):
    torch.compiler.reset()
    calls = prepare(setting)
    eager = fastest(calls.eager(setting), quick)
    compiled = fastest(calls.compiled(setting), quick)
    row = {"key": key}
    for name, found in (("eager", eager), ("compiled", compiled)):
        row |= {f"{name}_ms": found["ms"], f"{name}_samples": found["samples"], f"{name}_way": found["way"],
                f"{name}_errors": found["errors"]}
    return row


def shown(ms, way):
    if ms is None:
        return "failed"
    return f"{ms:.3f} ms" + (f" ({way})" if way else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--only", metavar="NAME", nargs="+", default=[])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--list", action="store_true", help="print the keys of the rows, and measure nothing")
    parser.add_argument("--quick", action="store_true", help="run each row once after its warm-up")
    arguments = parser.parse_args()
    rows = selected(arguments.only)
    if arguments.list:
        for key, *_ in rows:
            print(key)
        return
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print("| row | eager | compiled |")
    print("|---|---|---|")
    results = []
    for row in rows:
        found = measure_row(*row, arguments.quick)
        results.append(found)
        cells = (shown(found[f"{name}_ms"], found[f"{name}_way"]) for name in ("eager", "compiled"))
        print(f"| {found['key']} | {' | '.join(cells)} |", flush=True)
        for name in ("eager", "compiled"):
            for error in found[f"{name}_errors"]:
                print(f"  {name} {error}", file=sys.stderr)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"torch": torch.__version__, "threads": torch.get_num_threads(), "rows": results}, file, indent=2)


if __name__ == "__main__":
    main()
