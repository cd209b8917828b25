"""What users do with a package beside training: wrong arguments, odd tensors, inference mode, copies, hooks, errors on the way."""

import copy
import inspect
import subprocess
import sys
from importlib import import_module

import torch

F = torch.nn.functional


def refused(call, says):
    try:
        call()
    except ValueError as failure:
        assert says in str(failure), failure
    else:
        raise AssertionError("{} was not refused".format(says))


def wrong_numbers(package):
    q, k, v = (torch.randn(1, 2, 4, 8) for _ in range(3))
    for cap in (0.0, -1.0, float("nan"), float("inf")):
        refused(lambda: package.attention(q, k, v, cap=cap), "attention: cap")
        refused(lambda: package.flash_attn_forward(None, q, k, v, softcap=cap), "attention: cap")
    refused(lambda: package.attention(q, k, v, causal=True, window=-1), "attention: window")
    refused(lambda: package.flash_attn_forward(None, q, k, v, sliding_window=-1), "the window")
    refused(lambda: package.rms_norm(q, eps=float("nan")), "rms_norm: eps")
    refused(lambda: package.glu(q, k, limit=0.0), "glu: limit")
    refused(lambda: package.rms_norm(torch.ones(*[1] * 13, 4)), "14 axes")
    targets = torch.tensor([1, 2])
    refused(lambda: package.cross_entropy(torch.ones(2, 3), targets, label_smoothing=2.0), "label_smoothing")
    refused(lambda: package.cross_entropy(torch.ones(2, 2, 3), targets), "[tokens, classes]")
    refused(lambda: package.linear_cross_entropy(torch.ones(2, 3), torch.ones(3, 3), targets, reduction="none"), "mean or sum")


def agree(what, mine, exact, *inputs):
    """Compares results and gradients of functions of tensors."""
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    found, wanted = mine(*inputs), exact(*inputs)
    seed = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(1))
    pairs = zip((found, *torch.autograd.grad(found, inputs, seed)), (wanted, *torch.autograd.grad(wanted, inputs, seed)))
    assert all(a.shape == b.shape and torch.allclose(a, b, atol=1e-4) for a, b in pairs), what


def odd_tensors(package):
    """Views, tensors whose elements share memory, and empty ones, with gradients."""
    numbers = torch.randn(40, 40, generator=torch.Generator().manual_seed(4))
    expanded = numbers[:1, :1].expand
    for x, weight, bias in (
        (numbers.t()[:7, :5], numbers[:5, :4].t(), numbers[0, :8:2]),
        (expanded(7, 5), numbers[:1, :5].expand(4, 5), expanded(1, 4)[0]),
        (numbers[:7, :1], numbers.t()[:4, 1:2], numbers[0, :4]),
        (numbers[:0, :5], numbers[:4, :5], numbers[0, :4]),
        (numbers[:3, :0], numbers[:4, :0], numbers[0, :4]),
        (numbers[:0, :5].reshape(2, 0, 5), numbers[:4, :5], numbers[0, :4]),
    ):
        agree("linear", package.linear, F.linear, x, weight, bias)
    agree("glu", package.glu, lambda g, u: F.silu(g) * u, numbers.t()[:7, :5], numbers[3:10, ::8])
    agree("layer_norm", package.layer_norm, lambda x, w, b: F.layer_norm(x, (5,), w, b),
          expanded(2, 7, 5) * torch.arange(5), numbers[0, :10:2], expanded(1, 5)[0])
    for queries, keys in ((3, 6), (0, 6), (3, 0)):
        heads = (numbers[:12].reshape(-1)[: 2 * rows * 8].reshape(1, rows, 2, 8).transpose(1, 2) for rows in (queries, keys, keys))
        agree("attention", package.attention, lambda q, k, v: F.scaled_dot_product_attention(q, k, v).nan_to_num().transpose(1, 2), *heads)
    none = torch.zeros(0, 2, dtype=torch.int64)
    agree("experts", lambda x, r, g, d: package.experts(x, r, none, g, d), lambda x, r, g, d: x * (r.sum() + g.sum() + d.sum()) * 0,
          numbers[:0, :6], numbers[:0, :2], numbers[:24, :6].reshape(3, 8, 6), numbers[:18, :4].reshape(3, 6, 4))


def seen(queries, keys, causal, window):
    """The keys that queries see, the last query the last key."""
    distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)
    return (~torch.tensor(causal) | (distance >= 0)) & (distance.abs() < (window or keys + queries))


def windows(package):
    for queries, keys in ((6, 6), (3, 6), (1, 6)):
        for causal in (True, False):
            for window in (None, 3, 100):
                mask = seen(queries, keys, causal, window)
                for dtype in (torch.float32, torch.float64):  # torch's own computes the second
                    q, k, v = (torch.randn(2, 3, rows, 4, dtype=dtype) for rows in (queries, keys, keys))
                    found, _ = package.flash_attn_forward(None, q, k, v, sliding_window=window, is_causal=causal)
                    exact = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)
                    assert torch.allclose(found, exact, atol=1e-5), (queries, causal, window, dtype)
    padding = torch.ones(2, 1, 1, 6, dtype=torch.bool)
    padding[0, ..., :2] = False
    q, k, v = (torch.randn(2, 3, 6, 4) for _ in range(3))
    found, _ = package.flash_attn_forward(None, q, k, v, padding)
    assert torch.allclose(found, F.scaled_dot_product_attention(q, k, v, attn_mask=padding).transpose(1, 2), atol=1e-5)


def inference_mode(package, make, ids):
    """Decisions in inference mode are those of other calls, and masks that are made there are taken."""
    verify = import_module(package.__name__ + "._verify")
    for name in ("Llama", "GptOss"):
        model = make(name, torch.float32)
        mask = torch.ones_like(ids)
        mask[0, :5] = 0
        with torch.inference_mode():
            plain = model(input_ids=ids, attention_mask=mask).logits
            verify._DECIDED.clear()
            verify._REPORT.clear()
            package.apply(model)
            before = package.calls()
            found = model(input_ids=ids, attention_mask=mask).logits
        assert torch.allclose(found[mask == 1], plain[mask == 1], atol=1e-4), name
        assert package.report() and all(reason == "package" for *_, reason in package.report()), package.report()
        assert package.calls()["attention"] == before.get("attention", 0) + 2
        package.remove(model)


def first_position(package):
    """A call whose angles are all 0 decides nothing."""
    forwards, verify = (import_module(package.__name__ + name) for name in ("._forwards", "._verify"))

    def own(q, k, cos, sin, unsqueeze_dim):
        def turned(x):
            pairs = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
            return x * cos.unsqueeze(unsqueeze_dim) + pairs * sin.unsqueeze(unsqueeze_dim)

        return turned(q), turned(k)

    q, k = torch.randn(1, 2, 1, 8), torch.randn(1, 1, 1, 8)
    key = ("rotary_pos_emb", own, (torch.float32, torch.float32))
    for angle in (0.0, 1.0):
        table = torch.full((1, 1, 8), angle)
        found = forwards.rotary(own, own, q, k, table.cos(), table.sin(), 1)
        assert all(torch.allclose(a, b) for a, b in zip(found, own(q, k, table.cos(), table.sin(), 1)))
        assert (verify.decided(*key) is verify.UNDECIDED) == (angle == 0.0)
    assert verify.decided(*key)[0] == "interleaved"


class Adapter(torch.nn.Module):
    """An adapter around a layer, as PEFT makes them."""

    def __init__(self, layer):
        super().__init__()
        self.base_layer = layer

    @property
    def weight(self):
        return self.base_layer.weight

    def forward(self, x):
        return self.base_layer(x) * 1.5


def last_layer(package, make, ids):
    """Hooks and adapters of the last layer count in a loss without logits."""
    model = make("Llama", torch.float32)
    arguments = inspect.signature(model.forward)
    plain = model(input_ids=ids, labels=ids)
    package.apply(model, ("linear_loss",))
    assert inspect.signature(model.forward) == arguments, "a trainer would drop columns"
    mine = model(input_ids=ids, labels=ids)
    assert mine.logits is None and torch.allclose(mine.loss, plain.loss, atol=1e-5)
    assert isinstance(model(input_ids=ids, labels=ids, return_dict=False), tuple)

    hook = model.lm_head.register_forward_hook(lambda layer, inputs, output: output * 2)
    exact = type(model).forward(model, input_ids=ids, labels=ids).loss
    assert model(input_ids=ids, labels=ids).loss == exact and exact != plain.loss
    hook.remove()
    model.lm_head = Adapter(model.lm_head)
    exact = type(model).forward(model, input_ids=ids, labels=ids).loss
    assert model(input_ids=ids, labels=ids).loss == exact and exact != plain.loss
    package.remove(model)
    package.apply(model, ("linear_loss",))
    assert "forward" not in model.__dict__ and "forward" not in model.lm_head.__dict__
    package.remove(model)


def copies(package, make, ids):
    """A copy has kernels and weights of its own, and `remove` takes them out of it alone."""
    model = make("Llama", torch.float32)
    package.apply(model, ("RMSNorm", "SwiGLUMLP", "linear_loss"))
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.5)
    exact = package.remove(copy.deepcopy(other))(input_ids=ids, labels=ids)
    for found in (other(input_ids=ids, labels=ids).loss, type(other).forward(other, input_ids=ids, labels=ids).loss):
        assert torch.allclose(found, exact.loss, atol=1e-5)
    assert torch.allclose(other(input_ids=ids).logits, exact.logits, atol=1e-4)
    package.remove(other)
    assert not any("forward" in module.__dict__ for module in other.modules())
    assert "forward" in model.model.norm.__dict__ and "forward" in model.__dict__
    package.remove(model)


def failures_on_the_way(package, make):
    """After an error in `apply`, the model is as it was. Models of one kind share their rotation until the last is removed."""
    first, model = make("Llama", torch.float32), make("Llama", torch.float32)
    source = sys.modules[type(model).__module__]
    rotation, attention = source.apply_rotary_pos_emb, model.config._attn_implementation
    before = dict(model.__dict__)

    def is_replaced():  # The library kernels makes a module of the function.
        return source.apply_rotary_pos_emb is not rotation or "forward" in rotation.__dict__

    def fails(*_):
        raise KeyError("no such attention")

    model.__dict__["set_attn_implementation"] = fails
    try:
        package.apply(model, ("RMSNorm", "rotary_pos_emb", "SwiGLUMLP", "attention"))
    except KeyError:
        del model.__dict__["set_attn_implementation"]
    else:
        raise AssertionError("the error is lost")
    assert not any("forward" in module.__dict__ for module in model.modules())
    assert not is_replaced() and model.config._attn_implementation == attention
    assert {name for name in model.__dict__ if name != "_burn_kernels"} == set(before)
    for one in (first, model):
        package.apply(one, "rotary_pos_emb")
    package.remove(first)
    assert is_replaced()
    package.remove(model)
    assert not is_replaced()


def forked_at_once(out):
    """A child that is forked after the import, before any call, in a process whose threads of OpenMP run."""
    code = """
import os, pathlib, sys, time
import torch
torch.mm(torch.ones(600, 600), torch.ones(600, 600))
from kernels import get_local_kernel
package = get_local_kernel(pathlib.Path(sys.argv[1]))
x, weight = torch.ones(2000, 512), torch.ones(512)
child = os.fork()
if child == 0:
    package.rms_norm(x, weight)
    os._exit(0)
for _ in range(600):
    ended, code = os.waitpid(child, os.WNOHANG)
    if ended:
        sys.exit(code)
    time.sleep(0.1)
os.kill(child, 9)
sys.exit('a forked child hangs')
"""
    done = subprocess.run([sys.executable, "-c", code, str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def check(package, out, make, ids):
    wrong_numbers(package)
    odd_tensors(package)
    windows(package)
    first_position(package)
    last_layer(package, make, ids)
    copies(package, make, ids)
    failures_on_the_way(package, make)
    inference_mode(package, make, ids)
    forked_at_once(out)
