#!/usr/bin/env python3
"""Compares this project with PyTorch on this machine's CPU: one command that sets up, runs and writes the results.

    python3 benches/compare.py [--venv DIR] [--threads 2] [--only NAME ...] [--out target/NAME]

It makes a virtual environment with torch from the package index if DIR is not there, builds the benchmark `compare`
and the program `kernels` once, and runs ours and torch's in turn, one group of rows after the other, three times. It
writes NAME.json, a table NAME.md and a plot NAME.svg; `compare_report.py` takes its rows into benches/results. torch.compile needs a C++
compiler and Python's headers.

A time is the median of the runs' medians. Both sides have the same number of threads, and an allocator that keeps freed
memory, as the program `kernels` has it. Leave the machine alone meanwhile: its load before and after is part of the
results.
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import tomllib
import venv

import compare_report

ROOT = pathlib.Path(__file__).resolve().parent.parent
TORCH = ("torch==2.15.*", "transformers==5.23.*")
TORCH_SIDE = ROOT / "benches" / "compare_torch.py"
TORCH_TRAINING = ROOT / "benches" / "training_torch.py"

# The group of rows that train whole models, which programs of their own measure.
TRAINING = "training"
TRAININGS = tuple((preset, dtype) for preset in ("qwen3", "qwen3-moe") for dtype in ("f32", "bf16"))
# The sequences and tokens of a step; the defaults of `kernels train`, which training_torch.py has too.
TOKENS_OF_STEP = 16 * 128

# glibc keeps freed memory, as docs/measure.md advises. `burn_kernels::memory::keep_freed` leaves it to these.
ALLOCATOR = {
    "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=4294967296"
                      ":glibc.malloc.top_pad=67108864",
}
# Settings of the caller that would make the two sides unequal.
NOT_INHERITED = ("LD_PRELOAD", "MALLOC_", "BURN_KERNELS", "OMP_", "MKL_", "KMP_", "RAYON_")

FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "asimd", "bf16", "sve")


def main():
    arguments = parse()
    python = environment(arguments.venv.absolute())
    bench, kernels = build()
    runner = Runner(python, bench, kernels, arguments)
    groups = runner.groups()
    results = {
        **facts(arguments.threads),
        "torch": output([python, "-c", "import torch; print(torch.__version__)"]),
        "repeats": arguments.repeats,
        "quick": arguments.quick,
        "load_before": os.getloadavg(),
    }
    results |= {"rows": runner.rows(groups), "load_after": os.getloadavg()}
    compare_report.write(arguments.out, results)
    print(compare_report.verdicts_text(results))


def parse():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--venv", metavar="DIR", type=pathlib.Path, default=target / "compare-venv",
                        help="the virtual environment with torch; made if it is not there")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", metavar="NAME", nargs="+", default=[],
                        help="only these rows: keys or their beginnings, such as swiglu/2048, or training")
    parser.add_argument("--out", metavar="PATH", type=pathlib.Path, default=ROOT / "target" / "compare",
                        help="the results' path without ending")
    parser.add_argument("--repeats", type=int, default=3, help="how often each side runs")
    parser.add_argument("--train-steps", type=int, default=60, help="the steps before the speed of training is measured")
    parser.add_argument("--quick", action="store_true", help="run each row once, to check that everything works")
    arguments = parser.parse_args()
    if arguments.threads < 1 or arguments.repeats < 1 or arguments.train_steps < 1:
        parser.error("--threads, --repeats and --train-steps are at least 1")
    if not arguments.out.parent.is_dir():
        parser.error(f"--out: {arguments.out.parent} is not a folder")
    if not any(map(shutil.which, ("c++", "g++", "clang++"))):
        parser.error("torch.compile needs a C++ compiler, and there is neither c++, g++ nor clang++")
    return arguments


def environment(folder):
    """Returns the Python of the virtual environment, which is made with torch if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        say(f"installing {' and '.join(TORCH)} into {folder}")
        # A folder appears with a complete environment or not at all, so that a stopped installation is not taken for one.
        unfinished = folder.with_name(folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        venv.create(unfinished, with_pip=True)
        subprocess.run([unfinished / "bin" / "python", "-m", "pip", "install", "--quiet", *TORCH, "numpy"], check=True)
        unfinished.rename(folder)
    return python


def build():
    """Builds the benchmark, and with it the program of its package. Returns their paths."""
    say("building the benchmark and the program; the first build takes minutes")
    command = ["cargo", "bench", "--locked", "--workspace", "--bench", "compare", "--no-run",
               "--message-format=json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    programs = {}
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["executable"]:
            programs[message["target"]["name"]] = message["executable"]
    missing = [name for name in ("compare", "kernels") if name not in programs]
    if missing:
        sys.exit(f"cargo built no {' and no '.join(missing)}")
    return programs["compare"], programs["kernels"]


class Runner:
    """Runs both sides in equal environments."""

    def __init__(self, python, bench, kernels, arguments):
        self.python, self.bench, self.kernels, self.arguments = python, bench, kernels, arguments
        self.only = [name for name in arguments.only if name.split("/")[0] != TRAINING]
        threads = str(arguments.threads)
        own = {"RAYON_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
        self.environment = kept | ALLOCATOR | own

    def groups(self):
        """Returns the keys of the rows by group. Both sides must have the same."""
        if self.arguments.only and not self.only:
            return {}
        chosen = ["--only", *self.only] if self.only else []
        ours = output([self.bench, "--list", *chosen]).split()
        torchs = output([self.python, TORCH_SIDE, "--list", *chosen]).split()
        if ours != torchs:
            sys.exit(f"the rows of the two sides differ: {sorted(set(ours) ^ set(torchs))}")
        groups = collections.defaultdict(list)
        for key in ours:
            groups[key.split("/")[0]].append(key)
        return groups

    def rows(self, groups):
        """Runs everything in turn and returns the rows."""
        found = collections.defaultdict(list)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for repeat in range(self.arguments.repeats):
                for keys in groups.values():
                    sides = [lambda: self.run_ours(keys, folder), lambda: self.run_torch(keys, folder)]
                    self.in_turn(repeat, sides, found)
                for training in self.trainings():
                    sides = [lambda: self.train_ours(*training, folder), lambda: self.train_torch(*training, folder)]
                    self.in_turn(repeat, sides, found)
        return [merged(key, runs) for key, runs in found.items()]

    def in_turn(self, repeat, sides, found):
        """Runs the two sides. The other one begins in the next turn."""
        for side in sides if repeat % 2 == 0 else reversed(sides):
            for row in side():
                found[row["key"]].append(row)

    def run_ours(self, keys, folder):
        return self.measured([self.bench, "--bench"], keys, folder, lambda row: {
            "key": row["key"], "ours": row["ms"], "path": row["path"], "sites": row["sites"],
        })

    def run_torch(self, keys, folder):
        command = [self.python, TORCH_SIDE, "--threads", str(self.arguments.threads)]
        return self.measured(command, keys, folder, lambda row: {
            "key": row["key"], "torch_eager": row["eager_ms"], "torch_compiled": row["compiled_ms"],
            "torch_eager_way": row["eager_way"], "torch_compiled_way": row["compiled_way"],
            "torch_errors": row["eager_errors"] + row["compiled_errors"],
        })

    def measured(self, command, keys, folder, row):
        file = folder / "rows.json"
        quick = ["--quick"] if self.arguments.quick else []
        self.run([*command, *quick, "--json", file, "--only", *keys])
        return [row(found) for found in json.loads(file.read_text())["rows"]]

    def trainings(self):
        """Returns the presets whose training is measured, each with its dtype."""
        names = self.arguments.only or [TRAINING]

        def has(training):
            return any(f"{training_key(*training)}/".startswith(name.rstrip("/") + "/") for name in names)

        return [training for training in TRAININGS if has(training)]

    def train_ours(self, preset, dtype, folder):
        run = tempfile.mkdtemp(dir=folder)
        steps = 2 if self.arguments.quick else self.arguments.train_steps
        command = [self.kernels, "train", "--preset", preset, "--dtype", dtype, "--steps", str(steps), "--out", run,
                   "--json", "--quiet"]
        summary = json.loads(self.run(command, capture=True))
        speed, references = summary["throughput"], summary["dispatch"]["rows"]
        reasons = {call["reason"] for row in references if (call := row["call"]) and not call["implementation"]}
        path = "; ".join(sorted(map(str, reasons))) or "fused"
        return [{"key": training_key(preset, dtype), "ours": step_ms(speed["with_kernels"]), "path": path,
                 "without_kernels": step_ms(speed["without_kernels"])}]

    def train_torch(self, preset, dtype, folder):
        file = folder / "training.json"
        segments = ["--segments", "1"] if self.arguments.quick else []
        threads = ["--threads", str(self.arguments.threads)]
        self.run([self.python, TORCH_TRAINING, "--preset", preset, "--dtype", dtype, *threads, *segments, "--json", file])
        found = json.loads(file.read_text())
        return [{"key": training_key(preset, dtype), "torch_eager": step_ms(found["eager"]),
                 "torch_compiled": step_ms(found["compiled"])}]

    def run(self, command, capture=False):
        say(" ".join(pathlib.Path(str(word)).name if os.sep in str(word) else str(word) for word in command[:6]))
        output_to = subprocess.PIPE if capture else None
        return subprocess.run(command, cwd=ROOT, env=self.environment, check=True, stdout=output_to, text=True).stdout


def training_key(preset, dtype):
    return f"{TRAINING}/{preset}/{dtype}/step"


def step_ms(tokens_per_second):
    return 1e3 * TOKENS_OF_STEP / tokens_per_second


# The times of a run, in milliseconds.
TIMES = ("ours", "torch_eager", "torch_compiled", "without_kernels")


def merged(key, runs):
    """Returns the row of all runs of a key: medians, the runs themselves, and every path that was taken."""
    row = {"key": key, "runs": {}}
    for name in TIMES:
        times = [run[name] for run in runs if run.get(name) is not None]
        if times:
            row[f"{name}_ms"] = statistics.median(times)
            row["runs"][name] = times
    for name in ("path", "torch_eager_way", "torch_compiled_way"):
        row[name] = ", ".join(dict.fromkeys(run[name] for run in runs if run.get(name)))
    row["sites"] = sorted({site for run in runs for site in run.get("sites", [])})
    row["torch_errors"] = sorted({error for run in runs for error in run.get("torch_errors", [])})
    return row


def facts(threads):
    """Returns the machine, the versions and the settings."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    burn = next(package["version"] for package in lock["package"] if package["name"] == "burn")
    changed = output(["git", "status", "--porcelain", "--untracked-files=no"])
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "machine": machine(),
        "threads": threads,
        "allocator": ALLOCATOR,
        "rustc": output(["rustc", "--version"]),
        "burn": burn,
        "commit": output(["git", "rev-parse", "HEAD"]) + (" with changes" if changed else ""),
    }


def machine():
    """Returns the processor, its vector and matrix instructions, and the system."""
    found = {"system": platform.platform(), "libc": " ".join(platform.libc_ver()), "cores": os.cpu_count(),
             "usable_cores": len(os.sched_getaffinity(0))}
    fields = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    words = (fields.get("flags") or fields.get("Features") or "").split()
    found |= {"processor": fields.get("model name", platform.machine()), "family": fields.get("cpu family"),
              "model": fields.get("model"), "flags": [flag for flag in FLAGS if flag in words]}
    memory = pathlib.Path("/proc/meminfo").read_text().split()
    return found | {"memory_gib": round(int(memory[1]) / 2**20, 1)}


def output(command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failed:
        sys.exit(f"{' '.join(map(str, failed.cmd))} failed with exit code {failed.returncode}")
