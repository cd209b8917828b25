"""Times of transformers' torch code of the gated delta rule, and of conv1d and silu, for the sizes of
kernels-simd/benches/gated_delta.rs: the medians of two seconds each, with two threads. Made for transformers 5.23."""

import statistics
import time

import torch
import torch.nn.functional as F
from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

torch.set_num_threads(2)
HEADS, WIDTH = 16, 128


def median(call):
    call()
    times, begun = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begun < 2:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def row(call, forward, both):
    print(f"| {call} | {forward:.3f} ms | {both:.3f} ms |", flush=True)


def both(function, inputs, dy):
    def call():
        for x in inputs:
            x.grad = None
        function(*inputs).backward(dy)

    return call


print("| call | forward | forward and backward |\n|---|---|---|")
rule = lambda q, k, v, g, beta: torch_chunk_gated_delta_rule(q, k, v, g=g, beta=beta, use_qk_l2norm_in_kernel=True)[0]
for kind, function in (("eager", rule), ("compiled", torch.compile(rule))):
    for tokens in (1024, 2048, 4096):
        torch.manual_seed(0)
        q, k, v = (torch.rand(1, tokens, HEADS, WIDTH) * 2 - 1 for _ in range(3))
        g, beta = -0.5 * torch.rand(1, tokens, HEADS), torch.rand(1, tokens, HEADS)
        inputs = [x.requires_grad_() for x in (q, k, v, g, beta)]
        try:
            forward = median(lambda: function(*inputs))
            row(f"delta rule, {kind}, [1, {tokens}, {HEADS}, {WIDTH}]", forward, median(both(function, inputs, torch.rand_like(v))))
        except Exception as error:  # A machine without a C++ compiler has no compiled code.
            print(f"{kind}: {type(error).__name__}: {str(error)[:200]}")
            break
convolution = lambda x, w: F.silu(F.conv1d(x, w, padding=3, groups=8192)[..., :2048])
for kind, function in (("eager", convolution), ("compiled", torch.compile(convolution))):
    inputs = [torch.rand(1, 8192, 2048).requires_grad_(), torch.rand(8192, 1, 4).requires_grad_()]
    try:
        forward = median(lambda: function(*inputs))
        row(f"causal convolution and silu, {kind}", forward, median(both(function, inputs, torch.rand(1, 8192, 2048))))
    except Exception as error:
        print(f"{kind}: {type(error).__name__}: {str(error)[:200]}")
