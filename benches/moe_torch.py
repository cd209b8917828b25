#!/usr/bin/env python3
"""Times transformers' Qwen3-MoE experts on the CPU, for comparison with `cargo bench --bench moe`.

    MALLOC_MMAP_THRESHOLD_=8589934592 MALLOC_TRIM_THRESHOLD_=17179869184 \\
    MALLOC_TOP_PAD_=1073741824 python benches/moe_torch.py [--json FILE] [--threads N] [--compile]

The environment keeps glibc's malloc from returning memory between steps, so that page faults are
not measured. Implementations: `eager` (a loop over experts) and `grouped_mm`, and with --compile
`grouped_mm` through torch.compile. Hidden 1024, expert width 512, four experts a token; times are medians
in milliseconds. Backward of `eager` takes seconds with 128 experts: it is run once there.
"""
import argparse
import json
import statistics
import time

import torch
from transformers import Qwen3MoeConfig
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeExperts

HIDDEN, WIDTH, CHOICES = 1024, 512, 4


def indices(choice, tokens, experts):
    """Four different experts for each token, as the Rust benchmark chooses them."""
    if choice == "one":
        return torch.arange(CHOICES).repeat(tokens, 1)
    weights = torch.ones(experts)
    if choice == "zipf":
        weights = 1 / torch.arange(1, experts + 1)
    return torch.multinomial(weights.repeat(tokens, 1), CHOICES, replacement=False)


def measure(run, slow=2.0):
    """The median time of about a second's runs, in milliseconds; of one, if it takes `slow` seconds."""
    def once():
        start = time.perf_counter()
        run()
        return time.perf_counter() - start
    first = once()
    if first > slow:
        return first * 1e3
    again = once()
    times = [once() for _ in range(min(max(int(1 / again), 5), 100))]
    return statistics.median(times) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = []
    print("| experts | tokens | dtype | choice | implementation | forward | forward + backward |")
    print("|---|---|---|---|---|---|---|")
    for dtype in (torch.float32, torch.bfloat16):
        for experts in (32, 128):
            config = Qwen3MoeConfig(
                hidden_size=HIDDEN, moe_intermediate_size=WIDTH, num_experts=experts, num_experts_per_tok=CHOICES
            )
            module = Qwen3MoeExperts(config)
            for parameter in module.parameters():
                parameter.data.normal_(0, 0.02)
            module = module.to(dtype)
            for tokens in (16, 512, 2048):
                for choice in ("uniform", "zipf", "one"):
                    x, dy = (torch.randn(tokens, HIDDEN, dtype=dtype) for _ in range(2))
                    routing = torch.randn(tokens, CHOICES, dtype=dtype)
                    chosen = indices(choice, tokens, experts)
                    implementations = ["eager", "grouped_mm"]
                    if arguments.compile:
                        implementations.append("grouped_mm compiled")
                    for implementation in implementations:
                        config._experts_implementation = implementation.split()[0]
                        call = module
                        if implementation.endswith("compiled"):
                            torch._dynamo.reset()
                            call = torch.compile(module)

                        def forward():
                            with torch.no_grad():
                                call(x, chosen, routing)

                        def both():
                            for parameter in module.parameters():
                                parameter.grad = None
                            leaves = x.detach().requires_grad_(), routing.detach().requires_grad_()
                            call(leaves[0], chosen, leaves[1]).backward(dy)

                        row = {
                            "experts": experts, "tokens": tokens, "dtype": str(dtype).removeprefix("torch."),
                            "choice": choice, "implementation": implementation,
                            "forward_ms": measure(forward), "both_ms": measure(both),
                        }
                        rows.append(row)
                        print(
                            f"| {experts} | {tokens} | {row['dtype']} | {choice} | {implementation} "
                            f"| {row['forward_ms']:.2f} | {row['both_ms']:.2f} |",
                            flush=True,
                        )
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
