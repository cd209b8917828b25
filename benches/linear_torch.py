#!/usr/bin/env python3
"""Times PyTorch's linear on the CPU, for comparison with `cargo bench --bench linear`.

    python benches/linear_torch.py [--json FILE] [--threads N]

Times are medians in milliseconds. The backward pass is driven by `(y * dy).sum()`. With one row, each run has another
weight of several, so that caches hold none.
"""
import argparse
import json
import statistics
import time

import torch
from torch.nn.functional import linear

CALLS = [(1, 1024, 3072), (1, 3072, 1024), (512, 1024, 3072), (512, 3072, 1024), (2048, 1024, 3072)]


def median(run, weights):
    def once(weight):
        start = time.perf_counter()
        run(weight)
        return time.perf_counter() - start
    once(weights[0])
    runs = 2 * max(len(weights), 9)
    return statistics.median(once(weights[i % len(weights)]) for i in range(runs)) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = []
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print("| rows | inputs | outputs | dtype | forward | forward + backward | GF/s |")
    print("|---|---|---|---|---|---|---|")
    for dtype in (torch.float32, torch.bfloat16):
        for count, inputs, outputs in CALLS:
            number = (256 << 20) // (inputs * outputs * dtype.itemsize) if count == 1 else 1
            x = torch.randn(count, inputs).to(dtype).requires_grad_()
            weight = torch.randn(outputs, inputs).to(dtype)
            weights = [weight.clone().requires_grad_() for _ in range(number)]
            dy = torch.randn(count, outputs).to(dtype)

            def inference(weight):
                with torch.no_grad():
                    linear(x, weight)

            def training(weight):
                x.grad = weight.grad = None
                (linear(x, weight) * dy).sum().backward()

            forward = median(inference, weights)
            both = median(training, weights) if count > 1 else None
            name = str(dtype).removeprefix("torch.")
            rate = 2 * count * inputs * outputs / forward / 1e6
            shown = "-" if both is None else f"{both:.2f}"
            print(f"| {count} | {inputs} | {outputs} | {name} | {forward:.2f} | {shown} | {rate:.0f} |")
            rows.append({"rows": count, "inputs": inputs, "outputs": outputs, "dtype": name,
                         "forward_ms": forward, "both_ms": both})
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"torch": torch.__version__, "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
