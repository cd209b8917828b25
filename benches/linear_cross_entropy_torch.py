#!/usr/bin/env python3
"""Times PyTorch's linear and cross_entropy on the CPU, for comparison with `cargo bench --bench linear_cross_entropy`, and
log-probabilities of tokens by whole logits, eager and compiled, and by TRL's function, if it is installed.

    python benches/linear_cross_entropy_torch.py [--json FILE] [--threads N] [--only losses | --only log-probs]

Give both sides the same number of threads: RAYON_NUM_THREADS for Cargo's. Times are medians of three runs in milliseconds.
"""
import argparse
import json
import statistics
import time

import torch
from torch.nn.functional import cross_entropy, linear

CALLS = [(512, 512, 32000), (2048, 512, 32000), (2048, 1024, 128256)]
LOG_PROBS = (2048, 576, 49152)


def median(run):
    def once():
        start = time.perf_counter()
        run()
        return time.perf_counter() - start
    once()
    return statistics.median(once() for _ in range(3)) * 1e3


def log_probs(hidden, weight, targets):
    logits = linear(hidden, weight).float().log_softmax(-1)
    return logits.gather(-1, targets[:, None])[:, 0].sum()


def trls():
    """Returns TRL's function, and what its newer releases want besides."""
    try:
        from trl.kernels.chunked_logprob import ChunkedLogProbFunction
        return ChunkedLogProbFunction.apply, [()]
    except ImportError:
        from trl.trainer.utils import _ChunkedLogProbFunction
        return _ChunkedLogProbFunction.apply, []


def ways():
    """Returns ways to compute the sum of log-probabilities."""
    found = {"eager": log_probs, "compiled": torch.compile(log_probs)}
    try:
        run, more = trls()
    except ImportError as problem:
        print(f"TRL's function is not measured: {problem}", flush=True)
        return found

    def trl(hidden, weight, targets):
        return run(hidden, weight, None, targets, 1.0, 32768, None, 1.0, *more)[0].sum()
    return found | {"TRL": trl}


def time_log_probs():
    tokens, width, classes = LOG_PROBS
    targets = torch.arange(tokens) * 7919 % classes
    rows, all_ways = [], ways()
    print("| log-probabilities by | dtype | weight frozen | forward + backward |")
    print("|---|---|---|---|")
    for dtype in (torch.float32, torch.bfloat16):
        for frozen in (True, False):
            hidden = torch.randn(tokens, width).to(dtype).requires_grad_()
            weight = (0.05 * torch.randn(classes, width)).to(dtype).requires_grad_(not frozen)
            for way, run in all_ways.items():
                def training():
                    hidden.grad = weight.grad = None
                    run(hidden, weight, targets).backward()

                both = median(training)
                name = str(dtype).removeprefix("torch.")
                print(f"| {way} | {name} | {frozen} | {both:.0f} ms |", flush=True)
                rows.append({"tokens": tokens, "width": width, "classes": classes, "dtype": name, "way": way,
                             "frozen": frozen, "both_ms": both})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--only", choices=("losses", "log-probs"))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    rows = time_losses() if arguments.only != "log-probs" else []
    rows += time_log_probs() if arguments.only != "losses" else []
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"torch": torch.__version__, "threads": torch.get_num_threads(), "rows": rows}, file, indent=2)


def time_losses():
    rows = []
    print("| tokens | width | classes | dtype | forward | forward + backward |")
    print("|---|---|---|---|---|---|")
    for tokens, width, classes in CALLS:
        for dtype in (torch.float32, torch.bfloat16):
            hidden = torch.randn(tokens, width).to(dtype).requires_grad_()
            weight = (0.05 * torch.randn(classes, width)).to(dtype).requires_grad_()
            targets = torch.arange(tokens) * 7919 % classes

            def loss():
                return cross_entropy(linear(hidden, weight), targets)

            def inference():
                with torch.no_grad():
                    loss()

            def training():
                hidden.grad = weight.grad = None
                loss().backward()

            forward, both = median(inference), median(training)
            name = str(dtype).removeprefix("torch.")
            print(f"| {tokens} | {width} | {classes} | {name} | {forward:.0f} ms | {both:.0f} ms |", flush=True)
            rows.append({"tokens": tokens, "width": width, "classes": classes, "dtype": name,
                         "forward_ms": forward, "both_ms": both})
    return rows


if __name__ == "__main__":
    main()
