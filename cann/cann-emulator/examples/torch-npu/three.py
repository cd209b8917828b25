"""Computes the logits and the loss of one batch three times from the same weights: by PyTorch on the CPU, by torch_npu with
its operators on the emulator, and by `kernels run` on the emulator. All must be equal.

python three.py KERNELS    # the program, built with the feature `npu`
"""

import pathlib
import subprocess
import sys
import tempfile

import torch
import torch_npu  # noqa: F401  the device "npu"
from safetensors.torch import load_file, save_file

import kernels
from train import SIZES, models

# Sums of f32 in another order, over two layers.
BOUND = 1e-5


def of_torch(model, device, tokens):
    with torch.no_grad():
        found = model.to(device)(input_ids=tokens.to(device), labels=tokens.to(device))
    return found.logits.cpu(), found.loss.cpu()


def of_kernels(program, model, tokens):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model.save_pretrained(folder / "model")
        save_file({"input_ids": tokens}, folder / "in.safetensors")
        subprocess.run(
            [program, "run", "--model", folder / "model", "--device", "npu:0", "--inputs", folder / "in.safetensors",
             "--outputs", folder / "out.safetensors"], check=True, stdout=subprocess.DEVNULL)
        found = load_file(folder / "out.safetensors")
    return found["logits"], found["loss"].reshape(())


def check(what, found, expected):
    worst = max(((a - b).abs().max() / b.abs().max()).item() for a, b in zip(found, expected))
    print(f"{what}: loss {found[1].item():.6f}, logits and loss at most {worst:.1e} from the CPU's", flush=True)
    return worst < BOUND


def main():
    (program,) = sys.argv[1:]
    tokens = torch.randint(SIZES["vocab_size"], (2, 12), generator=torch.Generator().manual_seed(3))
    every = [(name, model.eval()) for name, model in models()]
    expected = {name: of_torch(model, "cpu", tokens) for name, model in every}
    good = [check(f"{name}, kernels run", of_kernels(program, model, tokens), expected[name]) for name, model in every]
    kernels.patch()
    good += [check(f"{name}, torch_npu", of_torch(model, "npu:0", tokens), expected[name]) for name, model in every]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
