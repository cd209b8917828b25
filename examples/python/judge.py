"""Judges an exported folder by Python: Hugging Face's `kernels` loads it, and models of transformers compute the same with it.

    python judge.py OUT

Needs torch, transformers 5.22.2 and kernels 0.17.2; apache-tvm-ffi if it is there. Works without a network and without
weights. Ends with a list of what was checked, or with the first thing that is wrong.
"""

import argparse
import ctypes
import itertools
import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "2")

import kernels
import torch
import uses
from kernels import LocalLayerRepository, Mode, get_local_kernel, kernelize, use_kernel_mapping

logging.getLogger("kernels").setLevel(logging.ERROR)  # every layer that a mapping leaves out
DTYPES = (torch.float32, torch.bfloat16)
SIZES = dict(
    vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    head_dim=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)
# Classes of transformers, with more settings and the layers that must run.
MODELS = {
    "Llama": ({}, ("rms_norm", "rope", "glu")),
    "Qwen3": ({}, ("rms_norm", "rope", "glu")),
    "Olmo2": ({}, ("rms_norm", "rope", "glu")),
    "Gemma3": ({"sliding_window": 7}, ("rms_norm", "rope", "glu")),
    "Qwen3Moe": (dict(moe_intermediate_size=48, num_experts=4, num_experts_per_tok=2), ("rms_norm", "rope", "experts")),
    "GptOss": (dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=8), ("rms_norm", "rope", "experts")),
}
IDS = torch.randint(3, 320, (2, 20), generator=torch.Generator().manual_seed(2))
WHOLE, PADDED = torch.ones_like(IDS), torch.ones_like(IDS)
PADDED[0, :5] = 0


def make(name, dtype):
    import transformers

    config = "Gemma3TextConfig" if name == "Gemma3" else name + "Config"
    torch.manual_seed(3)
    model = getattr(transformers, name + "ForCausalLM")(getattr(transformers, config)(**SIZES, **MODELS[name][0])).to(dtype)
    if dtype == torch.float64:
        model.config._experts_implementation = "eager"  # torch's grouped products take no f64
    return model


def step(model, mask):
    """The loss and the gradients of a step."""
    model.zero_grad()
    loss = model(input_ids=IDS, attention_mask=mask, labels=IDS.masked_fill(mask == 0, -100)).loss
    loss.backward()
    return loss.detach().double(), {name: p.grad.detach().double() for name, p in model.named_parameters()}


def error(found, exact):
    """The largest relative error of a gradient, and the error of the loss."""
    (loss, gradients), (exact_loss, exact_gradients) = found, exact
    worst = max(
        ((gradients[name] - wanted).norm() / wanted.norm().clamp_min(1e-12)).item() for name, wanted in exact_gradients.items()
    )
    assert worst == worst and loss == loss, "a number is NaN"
    return worst, (loss - exact_loss).abs().item()


def check_close(what, mine, own, dtype):
    """Errors, against f64, of a model with and without the package. They are of the same kind if they are within a factor of
    two, as between two orders of summing, or below four units of the dtype."""
    unit = torch.finfo(dtype).eps
    for mine, own in zip(mine, own):
        assert mine <= max(2 * own, 4 * unit), "{}: an error of {:.2e}, and {:.2e} without the package".format(what, mine, own)


def variants(out):
    found = sorted(path for path in (out / "build").iterdir())
    assert any(path.name == "torch-universal" for path in found), found
    ids = set()
    for path in found:
        metadata = json.loads((path / "metadata.json").read_text())
        ids.add(metadata["id"])
        algorithm = kernels._rust.DigestAlgorithm.SHA256
        digest = kernels._rust.Digest.hash_variant(algorithm, path)
        kernels._rust.Metadata.read_from_file(path / "metadata.json").digest.validate(digest)
    assert len(ids) == len(found), "two variants have one id"
    return found


def loads_without_tvm_ffi(out):
    code = """
import sys
sys.modules['tvm_ffi'] = None
import pathlib, torch, kernels
package = kernels.get_local_kernel(pathlib.Path(sys.argv[1]))
assert 'torch-universal' in package.__file__, package.__file__
print(package.rms_norm(torch.ones(2, 4), torch.ones(4)).sum().item())
"""
    done = subprocess.run([sys.executable, "-c", code, str(out)], check=True, capture_output=True, text=True)
    assert abs(float(done.stdout.split()[-1]) - 8) < 1e-4, done.stdout


def two_versions(out, package):
    """The variant for TVM-FFI has another id, so it is another module with operators of its own."""
    other = get_local_kernel(next((out / "build").glob("tvm-ffi*")), backend="cpu")
    assert other is not package and other.rms_norm is not package.rms_norm
    x = torch.randn(3, 8)
    assert torch.equal(other.rms_norm(x, torch.ones(8)), package.rms_norm(x, torch.ones(8)))


def has_tvm_ffi():
    try:
        import tvm_ffi  # noqa: F401
    except ImportError:
        return False
    return True


def tvm_ffi_calls(out):
    """A function through TVM-FFI's own loader, and its errors as exceptions."""
    if not has_tvm_ffi():
        return "calls through TVM-FFI: apache-tvm-ffi is missing"
    import tvm_ffi

    library = next((out / "build").glob("tvm-ffi*/_kernels_*"))
    module = tvm_ffi.load_module(str(library))
    x, weight = torch.randn(3, 8), torch.randn(8)
    y, rstd = torch.empty(3, 8), torch.empty(3)
    module.rms_norm(x, weight, None, None, 1e-5, 0, 0.0, "llama", "none", y, rstd, None)
    exact = x.double() / (x.double().pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight
    assert (y - exact).abs().max() < 1e-5
    for arguments, kind in (((x, weight[:3], None, None, 1e-5, 0, 0.0, "llama", "none", y, rstd, None), RuntimeError), ((x,), ValueError)):
        try:
            module.rms_norm(*arguments)
        except kind as failure:
            assert "rms_norm" in str(failure), failure
        else:
            raise AssertionError("a wrong call did not fail")
    return None


def errors_and_threads(package):
    x = torch.randn(4, 512, 576)
    try:
        package.rms_norm(x, torch.ones(3))
    except RuntimeError as failure:
        assert "a weight of 3 elements" in str(failure)
    else:
        raise AssertionError("a panic is not an exception")
    many = package.rms_norm(x, torch.ones(576))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    one = package.rms_norm(x, torch.ones(576))
    torch.set_num_threads(threads)
    assert torch.equal(many, one), "results depend on the number of threads"
    wanted, ones = memory(many), torch.ones(576)
    child = os.fork()
    if child == 0:
        # Nothing here uses torch's own threads, which a child waits for without end.
        os._exit(0 if memory(package.rms_norm(x, ones)) == wanted else 1)
    deadline = time.monotonic() + 60
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            raise AssertionError("a forked child hangs")
        time.sleep(0.1)
    assert ended[1] == 0, "a forked child fails"


def memory(tensor):
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def operators(package):
    """Every operator against f64, forward and backward, in each dtype, and with strided operands."""
    generator = torch.Generator().manual_seed(5)

    def randn(*sizes):
        return torch.randn(sizes, generator=generator)

    def check(name, function, exact, *inputs, integers=()):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            given = [tensor.to(dtype).detach().requires_grad_() for tensor in inputs]
            wide = [tensor.detach().double().requires_grad_() for tensor in given]
            found, wanted = function(*given, *integers), exact(*wide, *integers)
            found, wanted = ((r,) if isinstance(r, torch.Tensor) else r for r in (found, wanted))
            seeds = [randn(*r.shape).to(r.dtype) for r in found]
            gradients = torch.autograd.grad(found, given, seeds)
            exact_gradients = torch.autograd.grad(wanted, wide, [seed.double() for seed in seeds])
            for mine, right in zip((*found, *gradients), (*wanted, *exact_gradients)):
                # Results in f32 sum up to some thousand terms; half types are rounded once or twice, gradients of
                # weights as well.
                bound = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
                wrong = (mine.double() - right).abs().max() / right.abs().max().clamp_min(1e-3)
                assert wrong <= bound, "{} in {}: an error of {:.2e}".format(name, dtype, wrong)

    def strided(*sizes):
        return randn(*sizes[:-1], sizes[-1] + 3)[..., : sizes[-1]]

    def norm(x, w, offset=0.0):
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * (offset + w)

    check("rms_norm", package.rms_norm, norm, strided(2, 5, 37), randn(37))
    check("rms_norm", lambda x, w: package.rms_norm(x, w, offset=1.0, rounding="gemma"), lambda x, w: norm(x, w, 1.0), randn(5, 33), randn(33))
    check("layer_norm", package.layer_norm, lambda x, w, b: torch.nn.functional.layer_norm(x, (21,), w, b), strided(4, 21), randn(21), randn(21))
    for name, function in (("silu", torch.nn.functional.silu), ("gelu", torch.nn.functional.gelu),
                           ("gelu_tanh", lambda x: torch.nn.functional.gelu(x, approximate="tanh")), ("relu", torch.relu)):
        check(name, lambda g, u, name=name: package.glu(g, u, name), lambda g, u, f=function: f(g) * u, strided(3, 45), randn(3, 45))
    cos, sin = randn(1, 7, 16), randn(1, 7, 16)

    def rotate(x):
        half = x.shape[-1] // 2
        return x * cos.double() + torch.cat((-x[..., half:], x[..., :half]), -1) * sin.double()

    check("rope", lambda q, k: package.rope(q, k, cos, sin), lambda q, k: (rotate(q), rotate(k)),
          randn(2, 7, 4, 16).transpose(1, 2), randn(2, 2, 7, 16))

    def attend(q, k, v, mask=None, causal=True):
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        result = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return result.transpose(1, 2)

    heads = randn(2, 9, 4, 16).transpose(1, 2), randn(2, 2, 9, 16), randn(2, 9, 2, 16).transpose(1, 2)
    check("attention", lambda q, k, v: package.attention(q, k, v, causal=True), attend, *heads)
    mask = torch.tril(torch.ones(9, 9, dtype=torch.bool)) & ~torch.tril(torch.ones(9, 9, dtype=torch.bool), -4)
    mask = mask.expand(2, 1, 9, 9)
    check("attention with a mask", lambda q, k, v: package.attention(q, k, v, mask=mask), lambda q, k, v: attend(q, k, v, mask, False), *heads)
    check("linear", package.linear, torch.nn.functional.linear, randn(3, 11, 40), randn(24, 40), randn(24))
    targets = torch.tensor([1, 5, -100, 0, 6, 2])
    loss = torch.nn.functional.cross_entropy
    check("cross_entropy", lambda x: package.cross_entropy(x, targets), lambda x: loss(x, targets), strided(6, 7))
    check("linear_cross_entropy", lambda h, w: package.linear_cross_entropy(h, w, targets),
          lambda h, w: loss(torch.nn.functional.linear(h, w), targets), randn(6, 12), randn(7, 12))
    numbers = torch.tensor([[0, 2], [1, 0], [2, 1], [1, 2], [0, 1]])

    def mixture(x, routing, gate, down):
        results = []
        for token in range(5):
            parts = []
            for choice, expert in enumerate(numbers[token].tolist()):
                g, u = (gate[expert] @ x[token]).chunk(2)
                parts.append(routing[token, choice] * (down[expert] @ (torch.nn.functional.silu(g) * u)))
            results.append(sum(parts))
        return torch.stack(results)

    check("experts", lambda x, r, g, d: package.experts(x, r, numbers, g, d), mixture, randn(5, 12), torch.rand(5, 2, generator=generator),
          randn(3, 20, 12), randn(3, 12, 10))
    empty = package.rms_norm(torch.ones(0, 8, requires_grad=True), torch.ones(8))
    empty.sum().backward()


def layers(package, out):
    """Models of transformers, kernelized by `kernels`, in training and inference."""
    names = ("RMSNorm", "Gemma3RMSNorm", "rotary_pos_emb", "SwiGLUMLP", "Experts")
    mapping = {name: {"cpu": LocalLayerRepository(out, layer_name=name)} for name in names}
    for name, dtype, mask in itertools.product(MODELS, DTYPES, (WHOLE, PADDED)):
        what = "{} in {}".format(name, dtype)
        model = make(name, dtype)
        exact = make(name, torch.float64)
        exact.load_state_dict({key: value.double() for key, value in model.state_dict().items()})
        exact = step(exact, mask)
        own = error(step(model, mask), exact)
        package.mark(model)
        for mode in (Mode.TRAINING, Mode.INFERENCE):
            with use_kernel_mapping(mapping, inherit_mapping=False):
                kernelize(model.train(mode == Mode.TRAINING), mode=mode, device="cpu", use_fallback=True)
            before = package.calls()
            if mode == Mode.TRAINING:
                check_close(what, error(step(model, mask), exact), own, dtype)
            else:
                with torch.no_grad():
                    model(input_ids=IDS, attention_mask=mask)
            after = package.calls()
            backward = "_backward" if mode == Mode.TRAINING else ""
            for layer in MODELS[name][1]:
                for function in {layer, layer + backward}:
                    assert after.get(function, 0) > before.get(function, 0), "{}: {} did not run".format(what, function)


def applied(package):
    """`apply` with attention, losses and `remove`, and a compiled graph without breaks."""
    for name, dtype, mask in itertools.product(MODELS, DTYPES, (WHOLE, PADDED)):
        what = "{} in {}, applied".format(name, dtype)
        model, exact = make(name, dtype), make(name, torch.float64)
        exact.load_state_dict({key: value.double() for key, value in model.state_dict().items()})
        exact, plain = step(exact, mask), step(model, mask)
        before = package.calls()
        package.apply(model)
        check_close(what, error(step(model, mask), exact), error(plain, exact), dtype)
        after = package.calls()
        for function in ("attention", "attention_backward", "cross_entropy", "cross_entropy_backward"):
            assert after.get(function, 0) > before.get(function, 0), "{}: {} did not run".format(what, function)
        package.remove(model)
        again = step(model, mask)
        assert again[0] == plain[0] and all(torch.equal(again[1][key], plain[1][key]) for key in plain[1]), what
        if name in ("Llama", "Qwen3"):
            package.apply(model, ("RMSNorm", "rotary_pos_emb", "SwiGLUMLP", "attention", "linear_loss"))
            check_close(what + " with the linear loss", error(step(model, mask), exact), error(plain, exact), dtype)
            package.remove(model)


def compiled(package):
    for dtype in DTYPES:
        model = make("Llama", dtype)
        plain = step(model, WHOLE)
        package.apply(model)
        before = package.calls()
        graph = torch.compile(model, fullgraph=True)
        loss = graph(input_ids=IDS, labels=IDS).loss
        loss.backward()
        after = package.calls()
        for function in ("rms_norm", "rope", "glu", "attention", "cross_entropy"):
            for name in (function, function + "_backward"):
                assert after[name] > before.get(name, 0), "compiled: {} did not run".format(name)
        assert (loss - plain[0]).abs() < 20 * torch.finfo(dtype).eps, (loss, plain[0])
        package.remove(model)


def attention_by_name(out):
    """`set_attn_implementation` with the name of a repository that is a folder, in a process of its own."""
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import judge, torch
model = judge.make('Llama', torch.float32)
plain = judge.step(model, judge.PADDED)
model.set_attn_implementation('local/burn-kernels')
loss, gradients = judge.step(model, judge.PADDED)
assert abs(loss - plain[0]) < 1e-5, (loss, plain[0])
assert all((gradients[name] - plain[1][name]).abs().max() < 1e-5 for name in gradients)
[package] = [module for name, module in sys.modules.items() if name.startswith('_burn_kernels_') and '.' not in name]
assert package.calls()['attention_backward'] == 2, package.calls()
"""
    environment = dict(os.environ, LOCAL_KERNELS="local/burn-kernels={}".format(out))
    folder = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", code, folder], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="the folder that `kernels export --out` wrote")
    parser.add_argument("--without-compiler", action="store_true", help="leave out what torch.compile does, which needs a C++ compiler")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    missing = []

    def checked(what, done):
        if done:
            missing.append(done)
        print("NOT CHECKED: " + done if done else "checked: " + what, flush=True)

    checked("digests, by the library `kernels`", variants(out) and None)
    package = get_local_kernel(out)
    assert "torch-universal" in package.__file__, package.__file__
    checked("it loads without tvm_ffi", loads_without_tvm_ffi(out))
    checked("operators against f64", operators(package))
    checked("errors, one thread, and a forked child", errors_and_threads(package))
    checked("two versions in one process", two_versions(out, package))
    checked("calls through TVM-FFI", tvm_ffi_calls(out))
    # Before the library replaces functions for the rest of the process.
    checked("wrong numbers, odd tensors, windows, inference mode, copies, hooks and failures", uses.check(package, out, make, IDS))
    checked("layers of {}, kernelized".format(", ".join(MODELS)), layers(package, out))
    checked("attention by the name of a repository", attention_by_name(out))
    checked("apply and remove", applied(package))
    if arguments.without_compiler:
        checked("", "torch.compile: left out")
    else:
        checked("torch.compile with fullgraph", compiled(package))
    for line in package.report():
        print("  " + ", ".join(line))


if __name__ == "__main__":
    main()
