"""Trains a model in two processes, each with a device of its own, by DistributedDataParallel over HCCL, and in one
process on the CPU with the batches of both. The losses and the weights must be equal. Other collectives of
torch.distributed are compared with their definitions."""

import os
import socket
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

STEPS = 10
RANKS = 2
ROWS = 8  # of each rank and step


def build():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(16, 64), torch.nn.LayerNorm(64), torch.nn.GELU(approximate="tanh"), torch.nn.Linear(64, 4)
    )


def batches():
    """Yields the inputs and targets of all ranks, step by step."""
    generator = torch.Generator().manual_seed(2)
    for _ in range(STEPS):
        yield torch.randn(RANKS * ROWS, 16, generator=generator), torch.randn(RANKS * ROWS, 4, generator=generator)


def train(model, device, rows, share=lambda loss: loss):
    """Trains and returns the losses. `share` makes the loss of some rows that of all."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for inputs, targets in batches():
        inputs, targets = inputs[rows].to(device), targets[rows].to(device)
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(share(loss.detach().clone()).item())
    return losses


def mean(loss):
    dist.all_reduce(loss)
    return loss / RANKS


def collectives(rank):
    """Returns the names of collectives that are not as defined."""
    def numbers(of):
        return (torch.arange(6, dtype=torch.float32) + 10 * of).npu()

    wrong = []

    def check(name, found, expected):
        if not torch.equal(found.cpu(), expected.cpu()):
            wrong.append(f"rank {rank}, {name}: {found.cpu().tolist()}")

    everything = [numbers(of) for of in range(RANKS)]
    own = numbers(rank)
    dist.all_reduce(own, op=dist.ReduceOp.MAX)
    check("all_reduce", own, everything[-1])
    own = numbers(rank)
    dist.broadcast(own, src=1)
    check("broadcast", own, everything[1])
    gathered = torch.empty(RANKS * 6).npu()
    dist.all_gather_into_tensor(gathered, numbers(rank))
    check("all_gather", gathered, torch.cat(everything))
    part = torch.empty(3).npu()
    dist.reduce_scatter_tensor(part, numbers(rank))
    check("reduce_scatter", part, sum(everything)[3 * rank:][:3])
    turned = torch.empty(6).npu()
    dist.all_to_all_single(turned, numbers(rank))
    check("all_to_all", turned, torch.cat([one[3 * rank:][:3] for one in everything]))
    if rank == 0:
        dist.send(numbers(0), dst=1)
    else:
        received = torch.empty(6).npu()
        dist.recv(received, src=0)
        check("recv", received, everything[0])
    dist.barrier()
    return wrong


def process(rank, port, folder):
    import torch_npu  # noqa: F401  the device "npu"

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", rank=rank, world_size=RANKS)
    model = DistributedDataParallel(build().npu(), device_ids=[rank])
    losses = train(model, "npu", slice(rank * ROWS, (rank + 1) * ROWS), mean)
    weights = [weight.detach().cpu() for weight in model.module.parameters()]
    torch.save((losses, weights, collectives(rank)), f"{folder}/{rank}")
    dist.destroy_process_group()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def main():
    model = build()
    expected = train(model, "cpu", slice(None))
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(process, (free_port(), folder), nprocs=RANKS)
        results = [torch.load(f"{folder}/{rank}") for rank in range(RANKS)]
    good = []
    for rank, (losses, weights, wrong) in enumerate(results):
        worst = max(abs(a - b) / abs(b) for a, b in zip(losses, expected))
        apart = max((a - b).abs().max().item() for a, b in zip(weights, model.parameters()))
        print(f"rank {rank}: {losses[0]:.5f} to {losses[-1]:.5f}, losses at most {worst:.1e} and weights {apart:.1e} "
              "from those of one process", *wrong, sep="\n  ", flush=True)
        good += [worst < 1e-5, apart < 1e-4, not wrong]
    same = all(torch.equal(a, b) for a, b in zip(results[0][1], results[1][1]))
    print("the ranks have the same weights" if same else "the weights of the ranks differ")
    good.append(same)
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
