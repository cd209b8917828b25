"""Measures what a package gains: a model of the shapes of SmolLM2-135M with random weights, forward and training step.

    python speed.py OUT [--tokens 512] [--batch 4] [--rounds 5] [--compile] [--layers RMSNorm,attention+loss]

Plain and with the package by turns, in one process. Prints the shortest times and their ratio.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "2")

import torch
from kernels import get_local_kernel
from transformers import LlamaConfig, LlamaForCausalLM

ALL = ("RMSNorm", "rotary_pos_emb", "SwiGLUMLP", "attention", "loss", "linear_loss")


def make(dtype):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )
    return LlamaForCausalLM(config).to(dtype)


def time_of(work, rounds):
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def call_cost(package):
    """Microseconds of a call with two small tensors: of the library, of the operator, and of the operator with a gradient."""
    from importlib import import_module

    library = import_module(package.__name__ + "._library")
    x, weight = torch.randn(4, 8), torch.ones(8)
    tracked = x.clone().requires_grad_()
    calls = (
        lambda: library.rms_norm(x, weight, None, None, 1e-6, 0, 0.0, b"llama", b"none"),
        lambda: package.rms_norm(x, weight),
        lambda: package.rms_norm(tracked, weight),
    )

    def many(call):
        for _ in range(500):
            call()

    return [time_of(lambda call=call: many(call), 5) / 500 * 1e6 for call in calls]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--layers", default="", help="measure these one by one; A+B are measured together")
    arguments = parser.parse_args()
    if min(arguments.batch, arguments.tokens, arguments.rounds) < 1:
        parser.error("--batch, --tokens and --rounds must be at least 1")
    package = get_local_kernel(arguments.out.resolve())
    print("microseconds of a call: library %.1f, operator %.1f, with a gradient %.1f" % tuple(call_cost(package)))
    ids = torch.randint(3, 49152, (arguments.batch, arguments.tokens), generator=torch.Generator().manual_seed(1))
    sets = [tuple(layer.split("+")) for layer in arguments.layers.split(",")] if arguments.layers else [ALL]
    for dtype in (torch.float32, torch.bfloat16):
        model = make(dtype)

        def forward(call):
            with torch.no_grad():
                call(input_ids=ids, logits_to_keep=1)

        def train(call):
            call(input_ids=ids, labels=ids).loss.backward()
            model.zero_grad()

        for layers in sets:
            best = {}
            for _ in range(arguments.rounds):
                for with_package in (False, True):
                    if with_package:
                        package.apply(model, layers)
                    call = torch.compile(model) if arguments.compile else model
                    for name, work in (("forward", forward), ("step", train)):
                        work(call) if not best.get((name, with_package)) else None
                        took = time_of(lambda: work(call), 1)
                        best[name, with_package] = min(took, best.get((name, with_package), took))
                    if with_package:
                        package.remove(model)
            for name in ("forward", "step"):
                plain, mine = best[name, False], best[name, True]
                print("%s %s %s: %.2f s, with the package %.2f s: %.2f times as fast"
                      % (str(dtype)[6:], name, "+".join(layers), plain, mine, plain / mine), flush=True)


if __name__ == "__main__":
    main()
