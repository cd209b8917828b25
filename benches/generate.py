#!/usr/bin/env python3
"""Compares the speed of `kernels generate` on the CPU with transformers' `generate` and, if it is installed, llama.cpp.

    python3 benches/generate.py CHECKPOINT [--gguf FILE] [--program target/dist/kernels] [--threads 2] [--json FILE]

CHECKPOINT is a folder in Hugging Face layout with a tokenizer, such as SmolLM2-135M-Instruct (models/tests/real says how
to have it). The program is built with the feature `text`. Run it with a Python that has torch and transformers. llama.cpp is
the package llama-cpp-python; it reads the weights of the GGUF file FILE, converted to f32 and to bf16 by the package gguf.

A rate is that of decoding one sequence greedily: the tokens after the first divided by the time after the first. The last
column is the part of the rate at which two threads read as many bytes as the weights have, measured in the same run. Each
side runs three times in turn, and a row has the medians.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import compare

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMPT = "Once upon a time, in a village by the sea,"
NEW, REPEATS = 128, 3
DTYPES = ("f32", "bf16")


def main():
    arguments = parse()
    import torch
    torch.set_num_threads(arguments.threads)
    runner = compare.Runner(sys.executable, None, arguments.program, argparse.Namespace(only=[], threads=arguments.threads))
    results = {**compare.facts(arguments.threads), "torch": torch.__version__, "load_before": os.getloadavg()[0],
               "rows": [row(runner, arguments, dtype, torch) for dtype in DTYPES], "load_after": os.getloadavg()[0]}
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("--gguf", metavar="FILE", type=pathlib.Path, help="the same weights for llama.cpp")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "target" / "dist" / "kernels")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path)
    return parser.parse_args()


def row(runner, arguments, dtype, torch):
    with tempfile.TemporaryDirectory() as folder:
        return measured(runner, arguments, dtype, torch, folder)


def measured(runner, arguments, dtype, torch, folder):
    model, tokenizer, weights = transformers_side(arguments.checkpoint, dtype, torch)
    sides = {"ours": lambda: ours(runner, arguments, dtype), "transformers": lambda: transformers(model, tokenizer)}
    if arguments.gguf:
        file = os.path.join(folder, "model.gguf")
        convert(arguments.gguf, dtype, file)
        sides["llama.cpp"] = lambda: llama(file, arguments.threads)
    words = torch.ones(weights // 8, dtype=torch.int64)
    found = {name: [] for name in (*sides, "reading")}
    for _ in range(REPEATS):
        for name, side in sides.items():
            found[name].append(side())
        found["reading"].append(weights / reading(words))
    medians = {name: statistics.median(rates) for name, rates in found.items()}
    most = medians.pop("reading") / weights
    cells = (f"{name} {rate:.1f} tokens/s ({100 * rate / most:.0f} %)" for name, rate in medians.items())
    print(f"{dtype}, {weights / 2**20:.0f} MiB of weights: {', '.join(cells)}; reading alone: {most:.1f}/s", flush=True)
    return {"dtype": dtype, "weights_bytes": weights, "reads_per_s": most, "tokens_per_s": medians, "runs": found}


def ours(runner, arguments, dtype):
    command = [arguments.program, "generate", "--model", arguments.checkpoint, "--prompt", PROMPT, "--greedy",
               "--max-new-tokens", str(NEW), "--dtype", dtype, "--json"]
    found = json.loads(runner.run(command, capture=True))
    return (found["new_tokens"] - 1) / (found["seconds"] - found["first_token_seconds"])


def transformers_side(checkpoint, dtype, torch):
    import transformers
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=kind).eval()
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return model, transformers.AutoTokenizer.from_pretrained(checkpoint), weights


def transformers(model, tokenizer):
    ids = tokenizer(PROMPT, return_tensors="pt")
    times = []

    class Times:
        def put(self, _):
            times.append(time.perf_counter())

        def end(self):
            pass

    model.generate(**ids, do_sample=False, max_new_tokens=NEW, pad_token_id=0, streamer=Times())
    # The first call of a streamer is the prompt.
    return (len(times) - 2) / (times[-1] - times[1])


def convert(source, dtype, target):
    """Writes a GGUF file with the same metadata, and matrices in this dtype."""
    import gguf
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    kind = {"f32": gguf.GGMLQuantizationType.F32, "bf16": gguf.GGMLQuantizationType.BF16}[dtype]
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            writer.add_key_value(name, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        if values.ndim > 1 and dtype == "bf16":
            writer.add_tensor(tensor.name, gguf.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama(file, threads):
    import llama_cpp
    model = llama_cpp.Llama(file, n_threads=threads, n_threads_batch=threads, n_ctx=512, verbose=False)
    times = [time.perf_counter() for _ in model(PROMPT, max_tokens=NEW, temperature=0.0, stream=True)]
    return (len(times) - 1) / (times[-1] - times[0])


def reading(words):
    """The seconds in which torch's threads read all words."""
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        words.sum()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


if __name__ == "__main__":
    main()
