#!/usr/bin/env python3
"""Compares `kernels generate` with `generate` of transformers on a real checkpoint, token by token.

    generate.py CHECKPOINT [PROGRAM]

CHECKPOINT is a folder in Hugging Face layout with a tokenizer, such as SmolLM2-135M-Instruct. PROGRAM is `kernels` built
with the feature `text`, by default `target/release/kernels`. For each prompt, plain or a conversation, both generate 48
tokens greedily in float32. The script fails at the first difference, and prints how close the closest decision of
transformers was: a difference of logits that rounding can turn around would be no error of the program.

With torch 2.15.0 and transformers 5.23.0 on a CPU, the tokens of SmolLM2-135M-Instruct (weights of a Q4_1 GGUF file, in
float32) are the same for all prompts below: 48 after each text, and 9, 23, 33 and 46 after the conversations, until their
end tokens. The closest decision was 3.3e-04.
"""
import json
import subprocess
import sys
import tempfile

import torch
import transformers

NEW = 48
PLAIN = [
    "The capital of Ghana is",
    "def fibonacci(n):\n    ",
    "Once upon a time, in a village by the sea,",
    "1, 2, 3, 5, 8, 13,",
    "Die größte Stadt der Schweiz heißt",
]
CHATS = [
    [("user", "What is the capital of Ghana?")],
    [("user", "Write a haiku about rivers.")],
    [("system", "You answer in one word."), ("user", "Which colour has the sky?")],
    [("user", "My name is Ada."), ("assistant", "Hello Ada! How can I help you?"), ("user", "What is my name?")],
]


def expected(model, ids):
    output = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=NEW, return_dict_in_generate=True,
                            output_scores=True, pad_token_id=0)
    best = [torch.topk(step[0], 2).values for step in output.scores]
    return output.sequences[0, len(ids):].tolist(), min(float(first - second) for first, second in best)


def found(program, checkpoint, lines, *options):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
        file.flush()
        output = subprocess.run(
            [program, "generate", "--model", checkpoint, "--prompts", file.name, "--greedy", "--json",
             "--max-new-tokens", str(NEW), *options], stdout=subprocess.PIPE, check=True)
    return json.loads(output.stdout)["results"]


def main():
    checkpoint = sys.argv[1]
    program = sys.argv[2] if len(sys.argv) > 2 else "target/release/kernels"
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    chats = [[{"role": role, "content": content} for role, content in chat] for chat in CHATS]
    results = found(program, checkpoint, [{"prompt": prompt} for prompt in PLAIN])
    results += found(program, checkpoint, [{"messages": chat} for chat in chats], "--chat")
    ids = [tokenizer(prompt)["input_ids"] for prompt in PLAIN]
    ids += [tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)["input_ids"] for chat in chats]
    for prompt, prompt_ids, result in zip(PLAIN + CHATS, ids, results):
        tokens, margin = expected(model, prompt_ids)
        print(f"{len(tokens)} tokens, closest decision {margin:.1e}: {prompt!r}")
        if result["prompt_tokens"] != len(prompt_ids) or result["ids"] != tokens:
            at = next((at for at, (a, b) in enumerate(zip(tokens, result["ids"])) if a != b), "the end")
            sys.exit(f"different at {at}: {tokens} {result['ids']}")
        if result["text"] != tokenizer.decode(tokens, skip_special_tokens=True):
            sys.exit(f"different text: {result['text']!r}")


if __name__ == "__main__":
    main()
