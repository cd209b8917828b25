"""Compares adapters with PEFT, both ways: PEFT loads those that `kernels finetune` trained and computes the logits of the
merged model, and `kernels finetune` goes on with those that PEFT saves.

python cli/tests/real/adapters.py KERNELS CHECKPOINT     # with torch, transformers, peft and safetensors

KERNELS is the program, built with the feature `text`; CHECKPOINT is a folder with a model and its tokenizer, such as
SmolLM2-135M-Instruct, or tests/fixtures/text/tiny. The same is done with a small mixture of experts that has its tokenizer.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

DATA = [{"prompt": f"{n} and {n} is", "completion": f" {n + n}"} for n in range(16)]
SHORT = ["--quiet", "--seq", "48", "--batch", "4"]
LAYERS = [["--lora-rank", 4], ["--lora-rank", 8, "--rslora", "--lora-target", "q_proj"]]
EXPERTS = [
    ["--lora-rank", 4, "--lora-target", "*.experts.*", "--lora-target", "q_proj"],
    ["--lora-rank", 2, "--rslora", "--lora-target", "*.layers.1.mlp.experts.gate_up_proj"],
]


def run(kernels, *arguments):
    subprocess.run([kernels, *map(str, arguments)], check=True)


def logits_of(kernels, checkpoint, input_ids, folder):
    save_file({"input_ids": input_ids}, folder / "in.safetensors")
    run(kernels, "run", "--model", checkpoint, "--inputs", folder / "in.safetensors", "--outputs", folder / "out.safetensors")
    return load_file(folder / "out.safetensors")["logits"]


def difference(ours, theirs):
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def mixture(of, folder):
    """Makes a small mixture of experts with the tokenizer of another checkpoint."""
    torch.manual_seed(0)
    vocabulary = json.loads((of / "config.json").read_text())["vocab_size"]
    config = Qwen3MoeConfig(
        vocab_size=vocabulary, hidden_size=32, intermediate_size=48, moe_intermediate_size=24, num_experts=5,
        num_experts_per_tok=2, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        max_position_embeddings=96, initializer_range=0.2, norm_topk_prob=True, mlp_only_layers=[],
    )
    Qwen3MoeForCausalLM(config).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"):
        if (of / file).exists():
            shutil.copyfile(of / file, folder / file)
    return folder


def ours_in_peft(kernels, base, data, input_ids, folder, options):
    for number, extra in enumerate(options):
        out = folder / f"ours{number}"
        run(kernels, "finetune", "--model", base, "--data", data, "--out", out, "--steps", 4, "--lr", 1e-3, "--merge", *extra, *SHORT)
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        model = PeftModel.from_pretrained(model, out / "adapter").eval()
        with torch.no_grad():
            theirs = model(input_ids).logits
            with model.disable_adapter():
                plain = model(input_ids).logits
        found = difference(logits_of(kernels, out / "checkpoint", input_ids, folder), theirs)
        print(f"ours in PEFT {extra}: {found:.1e}; without adapters {difference(plain, theirs):.1e}")
        assert found < 1e-4 and difference(plain, theirs) > 10 * found


def theirs_in_ours(kernels, base, data, input_ids, folder, targets):
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    config = LoraConfig(r=4, lora_alpha=8, task_type="CAUSAL_LM", **targets)
    model = get_peft_model(model, config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.02)
    model.save_pretrained(folder / "peft")
    with torch.no_grad():
        theirs = model.eval()(input_ids).logits
    out = folder / "theirs"
    # A step of almost nothing, to merge what was read.
    run(kernels, "finetune", "--model", base, "--data", data, "--out", out, "--steps", 1, "--lr", 1e-12, "--merge", "--adapter", folder / "peft", *SHORT)
    found = difference(logits_of(kernels, out / "checkpoint", input_ids, folder), theirs)
    print(f"PEFT's in ours: {found:.1e}")
    assert found < 1e-4


def main():
    kernels, base = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = folder / "data.jsonl"
        data.write_text("".join(json.dumps(record) + "\n" for record in DATA))
        input_ids = torch.randint(3, 300, (1, 12), generator=torch.Generator().manual_seed(2))
        experts = dict(target_modules=["q_proj"], target_parameters=["experts.gate_up_proj", "experts.down_proj"])
        for own, base, options, targets in [
            (folder / "layers", base, LAYERS, dict(target_modules="all-linear")),
            (folder / "experts", mixture(base, folder / "mixture"), EXPERTS, experts),
        ]:
            own.mkdir()
            ours_in_peft(kernels, base, data, input_ids, own, options)
            theirs_in_ours(kernels, base, data, input_ids, own, targets)
    print("adapters are the same, both ways")


if __name__ == "__main__":
    main()
