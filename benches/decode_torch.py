#!/usr/bin/env python3
"""Times PyTorch's attention of one token over a cache on the CPU, for comparison with `cargo bench --bench decode`.

    python benches/decode_torch.py [--json FILE] [--threads N]

Times are medians of fifteen runs in milliseconds.
"""
import argparse
import json
import statistics
import time

import torch
from torch.nn.functional import scaled_dot_product_attention

CALLS = [(1, 32, 8, 32768, 128), (1, 16, 16, 16384, 64), (8, 16, 4, 8192, 128)]


def median(run):
    def once():
        start = time.perf_counter()
        run()
        return time.perf_counter() - start
    once()
    return statistics.median(once() for _ in range(15)) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = []
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print("| sequences | heads | k heads | cache | width | dtype | ms |")
    print("|---|---|---|---|---|---|---|")
    for dtype in (torch.float32, torch.bfloat16):
        for batch, heads, kv_heads, tokens, width in CALLS:
            q = torch.randn(batch, heads, 1, width).to(dtype)
            k, v = (torch.randn(batch, kv_heads, tokens, width).to(dtype) for _ in range(2))
            grouped = heads != kv_heads
            with torch.no_grad():
                found = median(lambda: scaled_dot_product_attention(q, k, v, enable_gqa=grouped))
            name = str(dtype).removeprefix("torch.")
            print(f"| {batch} | {heads} | {kv_heads} | {tokens} | {width} | {name} | {found:.2f} |")
            rows.append({"batch": batch, "heads": heads, "kv_heads": kv_heads, "tokens": tokens, "width": width,
                         "dtype": name, "ms": found})
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"torch": torch.__version__, "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
