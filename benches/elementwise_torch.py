#!/usr/bin/env python3
"""Times PyTorch's element-wise operations on the CPU, for comparison with `cargo bench --bench elementwise`.

    python benches/elementwise_torch.py [--json FILE] [--threads N]

Times are medians of 31 runs in milliseconds, eager and compiled by `torch.compile`. A backward pass is
`y.backward(dy)` on a result that was computed before. Norms round as transformers' Llama does.
"""
import argparse
import json
import statistics
import time

import torch
from torch.nn.functional import silu

HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, WIDTH, EPS = 1024, 3072, 16, 8, 64, 1e-6
RUNS = 31


def norm(x, weight):
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)
    return weight * wide.to(x.dtype)


def sum_and_norm(x, residual, weight):
    total = x + residual
    return norm(total, weight), total


def unit(gate, up):
    return silu(gate) * up


def turned(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotate(q, k, cos, sin):
    q, k, cos, sin = q.transpose(1, 2), k.transpose(1, 2), cos[:, None], sin[:, None]
    return q * cos + turned(q) * sin, k * cos + turned(k) * sin


def norm_and_rotate(q, k, weight, cos, sin):
    return rotate(norm(q, weight), norm(k, weight), cos, sin)


def median(run):
    run()
    return statistics.median(run() for _ in range(RUNS)) * 1e3


def passes(function, inputs):
    def forward():
        with torch.no_grad():
            start = time.perf_counter()
            function(*inputs)
            return time.perf_counter() - start

    def backward():
        for x in inputs:
            x.grad = None
        results = function(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        gradients = [torch.ones_like(y) for y in results]
        start = time.perf_counter()
        torch.autograd.backward(results, gradients)
        return time.perf_counter() - start

    return {"forward": median(forward), "backward": median(backward)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = []
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print("| operation | tokens | dtype | pass | eager | compiled |")
    print("|---|---|---|---|---|---|")
    for dtype in (torch.float32, torch.bfloat16):
        for tokens in (512, 2048):
            def leaf(*shape, tracked=True):
                return torch.randn(*shape).to(dtype).requires_grad_(tracked)
            x, residual, weight = leaf(tokens, HIDDEN), leaf(tokens, HIDDEN), leaf(HIDDEN)
            gate, up = leaf(tokens, INTERMEDIATE), leaf(tokens, INTERMEDIATE)
            q, k = (leaf(1, tokens, heads, WIDTH) for heads in (HEADS, KV_HEADS))
            cos, sin = (leaf(1, tokens, WIDTH, tracked=False) for _ in range(2))
            head = leaf(WIDTH, tracked=False)
            operations = [
                ("RMSNorm", norm, (x, weight)),
                ("sum and RMSNorm", sum_and_norm, (x, residual, weight)),
                ("SwiGLU", unit, (gate, up)),
                ("RoPE", rotate, (q, k, cos, sin)),
                ("head norm and RoPE", norm_and_rotate, (q, k, head, cos, sin)),
            ]
            name = str(dtype).removeprefix("torch.")
            for operation, function, inputs in operations:
                torch.compiler.reset()
                times = {"eager": passes(function, inputs), "compiled": passes(torch.compile(function), inputs)}
                for step in ("forward", "backward"):
                    eager, compiled = times["eager"][step], times["compiled"][step]
                    print(f"| {operation} | {tokens} | {name} | {step} | {eager:.3f} | {compiled:.3f} |", flush=True)
                    rows.append({"operation": operation, "tokens": tokens, "dtype": name, "pass": step,
                                 "eager_ms": eager, "compiled_ms": compiled})
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"torch": torch.__version__, "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
