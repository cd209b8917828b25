#!/usr/bin/env python3
"""Times PyTorch's scaled_dot_product_attention on the CPU, for comparison with `cargo bench --bench attention`.

    python benches/attention_torch.py [--json FILE] [--threads N]

Times are medians of nine runs in milliseconds. The backward pass is driven by `(y * dy).sum()`. A window is a mask of
booleans, with which PyTorch computes all scores.
"""
import argparse
import json
import statistics
import time

import torch
from torch.nn.functional import scaled_dot_product_attention

CALLS = [(16, 16, 512, 64, None), (16, 16, 2048, 64, None), (16, 4, 2048, 128, None), (16, 16, 2048, 64, 512),
         (16, 4, 2048, 128, 512)]


def median(run):
    def once():
        start = time.perf_counter()
        run()
        return time.perf_counter() - start
    once()
    return statistics.median(once() for _ in range(9)) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = []
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print("| q | k heads | window | dtype | forward | forward + backward |")
    print("|---|---|---|---|---|---|")
    for dtype in (torch.float32, torch.bfloat16):
        for heads, kv_heads, tokens, width, window in CALLS:
            q, k, v = (torch.randn(1, h, tokens, width).to(dtype).requires_grad_() for h in (heads, kv_heads, kv_heads))
            distance = torch.arange(tokens)[:, None] - torch.arange(tokens)[None, :]
            mask = None if window is None else (distance >= 0) & (distance < window)
            grouped = heads != kv_heads

            def attend():
                return scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None, enable_gqa=grouped)

            def inference():
                with torch.no_grad():
                    attend()

            dy = attend().detach()

            def training():
                q.grad = k.grad = v.grad = None
                (attend() * dy).sum().backward()

            forward, both = median(inference), median(training)
            name = str(dtype).removeprefix("torch.")
            print(f"| [1, {heads}, {tokens}, {width}] | {kv_heads} | {window or '-'} | {name} | {forward:.2f} | {both:.2f} |")
            rows.append({"heads": heads, "kv_heads": kv_heads, "tokens": tokens, "width": width, "window": window,
                         "dtype": name, "forward_ms": forward, "both_ms": both})
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"torch": torch.__version__, "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
