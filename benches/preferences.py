#!/usr/bin/env python3
"""Compares the speed and memory of `kernels finetune --loss dpo` with those of TRL's DPOTrainer on a real checkpoint.

    python3 benches/preferences.py CHECKPOINT [--program target/dist/kernels] [--threads 2] [--json FILE]

CHECKPOINT is a folder in Hugging Face layout with a tokenizer, such as SmolLM2-135M-Instruct. The program is built with the feature
`text`. Run it with a Python that has torch, transformers, peft and trl.

A step is DPO on 4 pairs of answers of a book, of 512 tokens each with their prompts, with adapters of rank 8 on all linear
layers: the reference (adapters off), forward, backward, clipping to norm 1 and AdamW, in f32. Each side is a process of its
own, in turn. A time is the median of the steps after the first two; memory is the largest resident set of the process.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import compare
from finetune import BOOK, ROOT, STEPS, WARM_UP, measured

PAIRS, TOKENS, PROMPT = 4, 512, 128


def main():
    arguments = parse()
    if arguments.trl_side:
        return trl_side(arguments.checkpoint, *arguments.trl_side, arguments.threads, arguments.tokens)
    runner = compare.Runner(sys.executable, None, arguments.program, argparse.Namespace(
        only=[], threads=arguments.threads))
    results = {**compare.facts(arguments.threads), "load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "pairs.jsonl"
        data.write_text("".join(json.dumps(pair) + "\n" for pair in pairs(arguments.checkpoint, arguments.tokens)))
        results["ours"] = ours(runner, arguments, data)
        results["trl"] = trls(runner, arguments, data)
    results["load_after"] = os.getloadavg()[0]
    for side in ("ours", "trl"):
        print(f"{side}: {results[side]['ms']:.0f} ms a step, {results[side]['mib']:.0f} MiB, losses {results[side]['losses']}")
    print(f"rate: {results['trl']['ms'] / results['ours']['ms']:.2f} times TRL's")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


def absolute(path):
    return pathlib.Path(path).resolve()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=absolute)
    parser.add_argument("--program", type=absolute, default=ROOT / "target" / "dist" / "kernels")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--trl-side", nargs=2, metavar=("DATA", "FILE"), help=argparse.SUPPRESS)
    return parser.parse_args()


def pairs(checkpoint, tokens):
    """Returns texts whose prompts and answers have so many tokens together, or a few more, which are cut off."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    ids = tokenizer(BOOK.read_text())["input_ids"]
    prompt = PROMPT * tokens // TOKENS
    answer = tokens - prompt + 8
    for number in range(PAIRS * (WARM_UP + STEPS)):
        at = number * 97 % (len(ids) - prompt - 2 * answer)
        part = lambda start, count: tokenizer.decode(ids[at + start:at + start + count])
        yield {"prompt": part(0, prompt), "chosen": part(prompt, answer), "rejected": part(prompt + answer, answer)}


def ours(runner, arguments, data):
    out = data.parent / "run"
    command = [arguments.program, "finetune", "--model", arguments.checkpoint, "--data", data, "--out", out, "--loss", "dpo",
               "--batch", PAIRS, "--seq", arguments.tokens, "--steps", WARM_UP + STEPS, "--held-out", "0", "--clip", "1",
               "--lora-rank", "8", "--lr", "1e-4", "--quiet"]
    peak = measured(runner, command)
    points = [json.loads(text) for text in (out / "metrics.jsonl").read_text().splitlines()]
    seconds = [point["seconds"] for point in points]
    # The first step has the time before it too.
    times = [(after - before) * 1e3 for before, after in zip(seconds, seconds[1:])]
    return {"ms": statistics.median(times[WARM_UP - 1:]), "mib": peak, "losses": [point["loss"] for point in points]}


def trls(runner, arguments, data):
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        command = [sys.executable, __file__, arguments.checkpoint, "--threads", arguments.threads, "--tokens", arguments.tokens,
                   "--trl-side", data, file.name]
        peak = measured(runner, command)
        return {**json.loads(file.read()), "mib": peak}


def trl_side(checkpoint, data, file, threads, tokens):
    import datasets
    import torch
    import transformers
    import trl
    from peft import LoraConfig

    torch.set_num_threads(threads)
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32, attn_implementation="sdpa")
    records = [json.loads(line) for line in pathlib.Path(data).read_text().splitlines()]

    class Times(transformers.TrainerCallback):
        times, losses = [], []

        def on_step_begin(self, *_, **__):
            self.begun = time.perf_counter()

        def on_step_end(self, *_, **__):
            self.times.append((time.perf_counter() - self.begun) * 1e3)

        def on_log(self, *_, logs=None, **__):
            if "loss" in (logs or {}):
                self.losses.append(float(logs["loss"]))

    with tempfile.TemporaryDirectory() as folder:
        config = trl.DPOConfig(output_dir=folder, per_device_train_batch_size=PAIRS, max_steps=WARM_UP + STEPS, max_length=tokens,
                               learning_rate=1e-4, logging_steps=1, report_to=[], save_strategy="no", bf16=False, use_cpu=True,
                               gradient_checkpointing=False, max_grad_norm=1.0, optim="adamw_torch_fused", disable_tqdm=True)
        adapters = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
        trainer = trl.DPOTrainer(model=model, args=config, train_dataset=datasets.Dataset.from_list(records),
                                 processing_class=tokenizer, peft_config=adapters, callbacks=[Times()])
        trainer.train()
    result = {"ms": statistics.median(Times.times[WARM_UP:]), "losses": Times.losses, "trl": trl.__version__}
    pathlib.Path(file).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
