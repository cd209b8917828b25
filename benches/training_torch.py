#!/usr/bin/env python3
"""Times training of the default model of `kernels train` with PyTorch on the CPU.

    python benches/training_torch.py [--json FILE] [--threads N] [--dtype f32|bf16] [--preset qwen3|qwen3-moe]

A step is forward, backward, clipping of the gradient and AdamW (fused), on 16 sequences of 128 random bytes. Attention
is scaled_dot_product_attention. In bf16, parameters are f32 and operations run under torch.autocast. Rates are medians
over segments of ten steps, eager and compiled.
"""
import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

BATCH, TOKENS, VOCAB, HIDDEN, INNER, LAYERS = 16, 128, 256, 128, 384, 4
HEADS, KV_HEADS, WIDTH = 4, 2, 32
EXPERTS, TOP_K, EXPERT_INNER = 8, 2, 192


def rotated(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(HIDDEN, HEADS * WIDTH, bias=False)
        self.k_proj = nn.Linear(HIDDEN, KV_HEADS * WIDTH, bias=False)
        self.v_proj = nn.Linear(HIDDEN, KV_HEADS * WIDTH, bias=False)
        self.o_proj = nn.Linear(HEADS * WIDTH, HIDDEN, bias=False)
        self.q_norm = nn.RMSNorm(WIDTH, eps=1e-6)
        self.k_norm = nn.RMSNorm(WIDTH, eps=1e-6)

    def forward(self, x, cos, sin):
        split = (x.shape[0], x.shape[1], -1, WIDTH)
        q = rotated(self.q_norm(self.q_proj(x).view(split)).transpose(1, 2), cos, sin)
        k = rotated(self.k_norm(self.k_proj(x).view(split)).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(split).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.up_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.down_proj = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Experts(nn.Module):
    """A loop over the experts, as transformers computes them on the CPU."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.gate_up = nn.Parameter(torch.randn(EXPERTS, 2 * EXPERT_INNER, HIDDEN) * 0.02)
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, EXPERT_INNER) * 0.02)

    def forward(self, x):
        flat = x.flatten(0, 1)
        weights, chosen = torch.softmax(self.gate(flat), dim=-1, dtype=torch.float).topk(TOP_K, dim=-1)
        weights = (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype)
        out = torch.zeros_like(flat)
        for expert in range(EXPERTS):
            tokens, place = torch.where(chosen == expert)
            gate, up = F.linear(flat[tokens], self.gate_up[expert]).chunk(2, dim=-1)
            found = F.linear(F.silu(gate) * up, self.down[expert])
            out.index_add_(0, tokens, found * weights[tokens, place, None])
        return out.view_as(x)


class Layer(nn.Module):
    def __init__(self, mlp):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(HIDDEN, eps=1e-6)
        self.self_attn = Attention()
        self.post_attention_layernorm = nn.RMSNorm(HIDDEN, eps=1e-6)
        self.mlp = mlp()

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self, mlp):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Layer(mlp) for _ in range(LAYERS))
        self.norm = nn.RMSNorm(HIDDEN, eps=1e-6)
        nn.init.normal_(self.embed.weight, std=0.02)
        angles = torch.arange(TOKENS)[:, None] / 1e4 ** (torch.arange(0, WIDTH, 2) / WIDTH)
        both = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", both.cos())
        self.register_buffer("sin", both.sin())

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, self.cos.to(x.dtype), self.sin.to(x.dtype))
        logits = F.linear(self.norm(x), self.embed.weight)[:, :-1]
        return F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())


def rate(mlp, dtype, compiled, segments):
    torch.manual_seed(0)
    model = Model(mlp)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
    forward = torch.compile(model) if compiled else model
    batches = [torch.randint(0, VOCAB, (BATCH, TOKENS)) for _ in range(10)]

    def segment():
        for ids in batches:
            optimiser.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
                loss = forward(ids)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()

    segment()
    rates = []
    for _ in range(segments):
        start = time.perf_counter()
        segment()
        rates.append(len(batches) * BATCH * TOKENS / (time.perf_counter() - start))
    return statistics.median(rates)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--preset", choices=["qwen3", "qwen3-moe"], default="qwen3")
    parser.add_argument("--segments", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[arguments.dtype]
    mlp = {"qwen3": Mlp, "qwen3-moe": Experts}[arguments.preset]
    found = {"torch": torch.__version__, "threads": torch.get_num_threads(), "dtype": arguments.dtype,
             "preset": arguments.preset}
    for name, compiled in (("eager", False), ("compiled", True)):
        found[name] = rate(mlp, dtype, compiled, arguments.segments)
        print(f"{name}: {found[name]:.0f} tokens/s", flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(found, file, indent=2)


if __name__ == "__main__":
    main()
