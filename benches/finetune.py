#!/usr/bin/env python3
"""Compares the speed and memory of `kernels finetune` with those of torch and PEFT on a real checkpoint.

    python3 benches/finetune.py CHECKPOINT [--program target/dist/kernels] [--threads 2] [--json FILE]

CHECKPOINT is a folder in Hugging Face layout with a tokenizer, such as SmolLM2-135M-Instruct (models/tests/real says how
to have it). The program is built with the feature `text`. Run it with a Python that has torch, transformers and peft.

A step is forward, backward, clipping to norm 1 and AdamW (fused in torch) on 4 sequences of 512 tokens of a book: all
parameters in f32, all parameters with operations in bf16 (torch.autocast in torch; parameters and optimiser stay in f32
on both sides), and adapters of rank 8 on all linear layers in f32. Each side is a process of its own, in turn. A time is
the median of the steps after the first two; memory is the largest resident set of the process.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOOK = ROOT / "cli" / "corpus" / "alice.txt"
BATCH, TOKENS, WARM_UP, STEPS = 4, 512, 2, 5
MODES = {"full/f32": (), "full/bf16": ("--dtype", "bf16"), "lora/f32": ("--lora-rank", "8")}
WAYS = ("eager", "compiled")


def main():
    arguments = parse()
    if arguments.torch_side:
        return torch_side(arguments.checkpoint, *arguments.torch_side, arguments.threads)
    runner = compare.Runner(sys.executable, None, arguments.program, argparse.Namespace(
        only=[], threads=arguments.threads))
    results = {**compare.facts(arguments.threads), "load_before": os.getloadavg()[0], "rows": []}
    for mode in arguments.only or MODES:
        results["rows"].append({"key": mode, "ours": ours(runner, arguments, mode)})
        for way in WAYS:
            results["rows"][-1][f"torch_{way}"] = torchs(runner, arguments, mode, way)
        print(line(results["rows"][-1]), flush=True)
    results["load_after"] = os.getloadavg()[0]
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "target" / "dist" / "kernels")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", metavar="MODE", nargs="+", choices=MODES)
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--torch-side", nargs=2, metavar=("MODE", "WAY"), help=argparse.SUPPRESS)
    return parser.parse_args()


def line(row):
    cells = []
    for side in ("ours", *(f"torch_{way}" for way in WAYS)):
        found = row[side]
        cells.append(f"{side} {found['ms']:.0f} ms, {found['mib']:.0f} MiB" if "ms" in found else f"{side}: {found['error']}")
    return f"{row['key']}: " + "; ".join(cells)


def ours(runner, arguments, mode):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        command = [arguments.program, "finetune", "--model", arguments.checkpoint, "--data", BOOK, "--out", out, "--batch", BATCH,
                   "--seq", TOKENS, "--steps", WARM_UP + STEPS, "--held-out", "0", "--clip", "1", "--quiet", *MODES[mode]]
        peak = measured(runner, command)
        points = [json.loads(text) for text in (out / "metrics.jsonl").read_text().splitlines()]
        summary = json.loads((out / "summary.json").read_text())
    times = [BATCH * TOKENS / point["tokens_per_s"] * 1e3 for point in points if point["split"] == "train"]
    reasons = {row["call"]["reason"] for row in summary["dispatch"]["rows"] if row["call"] and not row["call"]["implementation"]}
    return {"ms": statistics.median(times[WARM_UP:]), "mib": peak, "losses": [point["loss"] for point in points],
            "path": "; ".join(sorted(map(str, reasons))) or "fused"}


def torchs(runner, arguments, mode, way):
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        command = [sys.executable, __file__, arguments.checkpoint, "--threads", arguments.threads, "--json", file.name,
                   "--torch-side", mode, way]
        try:
            peak = measured(runner, command)
        except subprocess.CalledProcessError as failed:
            return {"error": f"exit code {failed.returncode}"}
        return {**json.loads(file.read()), "mib": peak}


def measured(runner, command):
    """Runs a process and returns the largest resident set that it had, in MiB."""
    compare.say(" ".join(map(str, command[:4])))
    # A process that only waits for this one: its children are the measured process and nothing else.
    code = "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode; " \
           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(done)"
    command = [sys.executable, "-c", code, *map(str, command)]
    output = subprocess.run(command, env=runner.environment, cwd=ROOT / "benches", check=True, stdout=subprocess.PIPE, text=True)
    return int(output.stdout) / 1024


def torch_side(checkpoint, mode, way, threads):
    import torch
    import transformers

    torch.set_num_threads(threads)
    file = next(value for name, value in zip(sys.argv, sys.argv[1:]) if name == "--json")
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32, attn_implementation="sdpa")
    if mode.startswith("lora"):
        from peft import LoraConfig, get_peft_model
        model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"))
    model.train()
    ids = tokenizer(BOOK.read_text()[:200_000], return_tensors="pt")["input_ids"][0]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=2e-5, weight_decay=0.01, fused=True)
    call = torch.compile(model) if way == "compiled" else model
    times, losses = [], []
    for step in range(WARM_UP + STEPS):
        batch = ids[step * BATCH * TOKENS:][:BATCH * TOKENS].view(BATCH, TOKENS)
        begun = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=mode.endswith("bf16")):
            loss = call(input_ids=batch, labels=batch, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
        times.append((time.perf_counter() - begun) * 1e3)
    result = {"ms": statistics.median(times[WARM_UP:]), "losses": losses, "torch": torch.__version__}
    pathlib.Path(file).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
