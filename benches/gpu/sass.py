#!/usr/bin/env python3
"""Compiles the GPU kernels to machine code of NVIDIA's architectures, without a GPU or a toolkit, and measures it.

    benches/gpu/sass.py            fails if a kernel spills registers, or the table has other kernels or bytes of a pass
    benches/gpu/sass.py --write    also writes the table, benches/results/gpu-sass-cpp.md

The program of this folder makes CUDA C++ of the kernels. The compilers, NVRTC and ptxas, are packages of PyPI, which this
script installs in a folder of its own. If they can't be had, it says NOT CHECKED.
"""

import argparse
import ctypes
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = HERE.parent / "results" / "gpu-sass-cpp.md"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target")) / "gpu-code"
VERSION = "13.5.37"
PACKAGES = {**dict.fromkeys(["nvrtc", "nvcc", "nvdisasm", "runtime"], VERSION), "cccl": "13.3.5.0.6"}
# Architecture: warps, blocks and bytes of shared memory of a multiprocessor. All have 65,536 registers.
ARCHITECTURES = {
    "sm_80": (64, 32, 164 * 1024),
    "sm_90a": (64, 32, 228 * 1024),
    "sm_100a": (64, 32, 228 * 1024),
    "sm_120a": (48, 24, 100 * 1024),
}
# The architecture whose instructions are counted. Disassembling takes longer than compiling.
SHOWN = "sm_90a"


def compilers():
    """Returns the folder of the compilers, or None if they can't be had."""
    folder = TARGET / "compilers"
    python = folder / "bin" / "python"
    packages = [f"nvidia-cuda-{name}=={version}" for name, version in PACKAGES.items()]
    try:
        if not python.exists():
            venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"NOT CHECKED: the code of GPU kernels needs NVIDIA's compilers from PyPI: {error}")
        return None
    [found] = glob.glob(f"{folder}/lib/python*/site-packages/nvidia/cu13")
    return found


def sources(folder):
    """Makes the CUDA code, and returns the kernels and the passes."""
    command = ["cargo", "run", "--quiet", "--locked", "--manifest-path", HERE / "Cargo.toml", "--", folder]
    subprocess.run(command, check=True, env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)})
    return json.loads(Path(folder, "kernels.json").read_text())


def ptx(root, source, architecture):
    """Compiles CUDA code to PTX with the options of CubeCL's CUDA runtime."""
    for library in sorted(glob.glob(f"{root}/lib/libnvrtc-builtins.so*")):
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(sorted(glob.glob(f"{root}/lib/libnvrtc.so*"))[0])
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, None, 0, None, None) == 0
    options = [
        f"--gpu-architecture={architecture}",
        f"--include-path={root}/include",
        f"--include-path={root}/include/cccl",
        "-lineinfo",
    ]
    given = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    failed = nvrtc.nvrtcCompileProgram(program, len(options), given)

    def fetched(size_of, get):
        size = ctypes.c_size_t()
        size_of(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        get(program, buffer)
        return buffer.value

    if failed:
        raise RuntimeError(fetched(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode())
    return fetched(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)


def measured(job):
    """Returns what the machine code of a kernel needs."""
    root, folder, kernel, architecture = job
    source = Path(folder, kernel["file"])
    out = source.with_suffix(f".{architecture}")
    Path(f"{out}.ptx").write_bytes(ptx(root, source.read_bytes(), architecture))
    assembled = subprocess.run(
        [f"{root}/bin/ptxas", "-v", f"-arch={architecture}", f"{out}.ptx", "-o", f"{out}.cubin"],
        check=True, capture_output=True, text=True,
    ).stderr

    def number(pattern):
        found = re.search(pattern, assembled)
        return int(found[1]) if found else 0

    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", assembled)
    found = {
        "registers": number(r"Used (\d+) registers"),
        "spills": int(spills[1]) + int(spills[2]),
        "stack": number(r"(\d+) bytes stack frame"),
        "shared": number(r"(\d+) bytes smem") + kernel["shared"],
    }
    assert found["registers"] and spills, assembled
    if architecture == SHOWN:
        count_accesses(root, f"{out}.cubin", found)
    return found


def count_accesses(root, binary, found):
    """Adds the numbers of instructions that load and store, of all and of the widest."""
    code = subprocess.run(
        [f"{root}/bin/nvdisasm", binary], check=True, capture_output=True, text=True,
    ).stdout
    for name, operation in [("loads", "LDG"), ("stores", "STG")]:
        found[name] = len(re.findall(rf"\b{operation}\.", code))
        found[f"wide_{name}"] = len(re.findall(rf"\b{operation}\.\S*128", code))


def occupancy(found, units, architecture):
    """Returns the part of a multiprocessor's warps that run at once, in percent."""
    warps, blocks, shared = ARCHITECTURES[architecture]
    of_block = -(-units // 32)
    # Registers are given to a warp in units of 256; a block needs 1 KiB of shared memory beside its own.
    by_registers = 65_536 // (-(-found["registers"] * 32 // 256) * 256) // of_block
    by_shared = shared // (found["shared"] + 1024)
    return round(100 * min(blocks, warps // of_block, by_registers, by_shared) * of_block / warps)


def kernels_table(kernels, results):
    header = ["kernel", "dtype", "vector", "units", "shared memory", "registers", "occupancy, %",
              "128-bit loads", "128-bit stores"]
    yield f"| {' | '.join(header)} |\n|{'---|' * len(header)}"
    for kernel in kernels:
        found = [results[kernel["file"], architecture] for architecture in ARCHITECTURES]
        each = lambda name: " / ".join(str(one[name]) for one in found)
        busy = [occupancy(one, kernel["units"], name) for name, one in zip(ARCHITECTURES, found)]
        shown = results[kernel["file"], SHOWN]
        parts = lambda name: f"{shown[f'wide_{name}']} of {shown[name]}"
        row = [kernel["name"], kernel["dtype"], kernel["vector"], kernel["units"], shown["shared"], each("registers"),
               " / ".join(map(str, busy)), parts("loads"), parts("stores")]
        yield f"| {' | '.join(map(str, row))} |"


def names(kernels):
    """Returns the first columns of the kernels' rows."""
    columns = ["name", "dtype", "vector", "units"]
    return ["".join(f"| {kernel[column]} " for column in columns) + "|" for kernel in kernels]


def spills_list(kernels, results):
    """Returns the kernels that spill registers or have a stack, one a line."""
    for kernel in kernels:
        for architecture in ARCHITECTURES:
            found = results[kernel["file"], architecture]
            if found["spills"] or found["stack"]:
                yield (f"{kernel['name']} in {kernel['dtype']}, vectors of {kernel['vector']}, {architecture}: "
                       f"{found['spills']} bytes, a stack of {found['stack']}")


def passes_table(passes):
    yield "| pass | dtype | launches | MB moved | least | ratio |\n|---|---|---|---|---|---|"
    for one in passes:
        moved, least = one["bytes"], one["least"]
        yield f"| {one['name']} | {one['dtype']} | {one['launches']} | {moved / 1e6:.2f} | {least / 1e6:.2f} | {moved / least:.3f} |"


PAGE = """# Machine code of the GPU kernels, by CubeCL's C++ compiler

`benches/gpu/sass.py --write` writes this page. It compiles each kernel offline: CubeCL 0.11.3 makes CUDA C++ of it, NVRTC
{version} PTX, and ptxas machine code. This is **not the path that Burn's CUDA backend takes by default**, which is LLVM's, and **no GPU ran
any of it**: there are no times here. Kernels are compiled for the sizes of vectors that their launches choose, with as many
units of a cube as for the shapes below.

Four numbers in a cell are those of {architectures}, in this order. Occupancy is computed
from registers, shared memory and units. Loads and stores are the instructions for global memory of {shown}; their number in the
code is not that of their executions, because compilers unroll loops. No kernel spills registers on any of them; the script fails if
one does. Four elements of a half type are 64 bits, so kernels in f16 and bf16 have no accesses of 128 bits to them.

{kernels}

## Bytes

The bytes of each pass, with vectors of four elements: each launch reads and writes each of its tensors once, and further
reads of the same row come from a cache. In attention and in products, each block reads the rows of the other operand again,
and how many of these reads a cache answers is not counted here. The least is every operand once and every result once.
Where a row fits into the registers of a cube, one kernel computes all gradients of a norm: a cube works on several rows, one
after the other, and a second kernel adds up the sums of the cubes, always in the same order. The gradients of the weights of
wider rows, of rows with a gate or in groups, and of norms of heads are kernels of their own, which read the operands again.

Norms are of 4096 rows of 4096 elements, or as wide as their name says; the gradients of norms without a gate whose name says
no width are of rows of 16,384, which don't fit into registers. Gated units are of 4096 rows of 11,008; heads 4096 tokens with
32 of 128; attention has 8 heads of keys for these; logits 4096 tokens with 32,768 classes; blocks of logits 1024 tokens;
AdamW's parameter 4096 · 4096.
Mixtures have 4096 tokens of 2048 elements, of which each goes to 8 of 128 experts of 768.

{passes}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    root = compilers()
    if root is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        found = sources(folder)
        kernels = found["kernels"]
        pairs = [(kernel, architecture) for kernel in kernels for architecture in ARCHITECTURES]
        with ProcessPoolExecutor() as pool:
            jobs = [(root, folder, *pair) for pair in pairs]
            measures = pool.map(measured, jobs, chunksize=8)
            results = {(kernel["file"], name): one for (kernel, name), one in zip(pairs, measures)}
    if spills := "\n".join(spills_list(kernels, results)):
        sys.exit(f"kernels spill registers:\n{spills}")
    passes = "\n".join(passes_table([one for one in found["passes"] if one["vector"] == 4]))
    if arguments.write:
        table = "\n".join(kernels_table(kernels, results))
        architectures = ", ".join(ARCHITECTURES)
        TABLE.write_text(PAGE.format(version=VERSION, architectures=architectures, kernels=table, passes=passes, shown=SHOWN))
    text = TABLE.read_text()
    if names(kernels) != re.findall(r"^\| [^|]+ \| \w+ \| \d+ \| \d+ \|", text, re.MULTILINE):
        sys.exit(f"{TABLE.name} has other kernels; write it anew with --write")
    if passes not in text:
        sys.exit(f"passes move other bytes than {TABLE.name} says; write it anew with --write and compare")
    print(f"{len(results)} times machine code and {passes.count(chr(10)) - 1} passes, as in {TABLE.name}")


if __name__ == "__main__":
    main()
