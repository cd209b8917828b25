"""Trains a tiny Qwen3 and a tiny Qwen3-MoE of transformers for 20 steps on the CPU and on the emulator, plain and with
the operators of torch_npu in their forwards. The losses must be equal."""

import copy
import sys

import torch
import torch_npu  # noqa: F401  the device "npu"
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

import kernels

STEPS = 20
SIZES = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "tie_word_embeddings": False,
    "use_cache": False, "attn_implementation": "eager",
}


def models():
    torch.manual_seed(1)
    yield "Qwen3", Qwen3ForCausalLM(Qwen3Config(**SIZES))
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True}
    yield "Qwen3-MoE", Qwen3MoeForCausalLM(Qwen3MoeConfig(**SIZES, **experts))


def losses(model, device):
    """Returns the losses of training from the model's weights, which are not changed."""
    model = copy.deepcopy(model).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    generator = torch.Generator().manual_seed(2)
    found = []
    for _ in range(STEPS):
        tokens = torch.randint(SIZES["vocab_size"], (2, 12), generator=generator).to(device)
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        found.append(loss.item())
    return found


def check(what, found, expected):
    worst = max(abs(a - b) / abs(b) for a, b in zip(found, expected))
    print(f"{what}: {found[0]:.5f} to {found[-1]:.5f}, at most {worst:.1e} from the CPU's", flush=True)
    return worst < 1e-4


def main():
    every = list(models())
    expected = {name: losses(model, "cpu") for name, model in every}
    good = [check(f"{name}, plain", losses(model, "npu:0"), expected[name]) for name, model in every]
    kernels.patch()
    good += [check(f"{name}, with kernels", losses(model, "npu:0"), expected[name]) for name, model in every]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
