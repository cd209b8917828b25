"""Runs losses, group norm, convolutions and operators that language models use less often, as `operators.py` does."""

import torch
import torch.nn.functional as F
import torch_npu  # noqa: F401  the device "npu"

from harness import Report, floats

SINGLE = (torch.float32,)
HALVES = (torch.float32, torch.float16, torch.bfloat16)
# The matrix unit rounds factors of f32 in convolutions, so only f16 is within one rounding.
EXACT = (torch.float16,)


def elementwise(report):
    x = floats(4, 6).abs() + 0.1
    report.compare("log2", torch.log2, [x], HALVES)
    report.compare("log10", torch.log10, [x], HALVES)
    report.compare("exp2", torch.exp2, [floats(4, 6)], HALVES)
    for name, function in {
        "nan_to_num": lambda x: torch.nan_to_num(torch.where(x > 0.5, x / 0, x * float("nan")), 7.0, 8.0, 9.0),
        "isclose": lambda x: torch.isclose(x, torch.where(x > 0.5, x, x * 1.1)),
        "linspace": lambda x: torch.linspace(-1, 1, 7, device=x.device),
        "eye": lambda x: torch.eye(3, 4, device=x.device),
    }.items():
        report.compare(name, function, [x], SINGLE, gradient=False)
    report.compare("masked_scatter", lambda x: x.masked_scatter(x > 0.5, x * 2), [x], SINGLE)
    report.compare("index_fill", lambda x: x.index_fill(1, torch.tensor([1, 3], device=x.device), 5.0), [x], SINGLE)
    report.compare("mv", torch.mv, [floats(4, 6), floats(6)], HALVES)
    report.compare("dot", torch.dot, [floats(6), floats(6, seed=2)], HALVES)


def losses(report):
    x, y = floats(4, 6), floats(4, 6, seed=2)
    p, q = x.sigmoid(), y.sigmoid()
    for reduction in ("none", "mean", "sum"):
        def loss(function, target, **settings):
            return lambda x: function(x, target.to(x), reduction=reduction, **settings)

        def weighted(x):
            weights = {"weight": q[0].to(x), "pos_weight": p[1].to(x)}
            return F.binary_cross_entropy_with_logits(x, q.to(x), reduction=reduction, **weights)

        report.compare(f"l1_loss, {reduction}", loss(F.l1_loss, y), [x], HALVES)
        report.compare(f"smooth_l1_loss, {reduction}", loss(F.smooth_l1_loss, y, beta=0.5), [x], HALVES)
        report.compare(f"binary_cross_entropy, {reduction}", loss(F.binary_cross_entropy, q), [p], SINGLE)
        report.compare(f"with logits, {reduction}", loss(F.binary_cross_entropy_with_logits, q), [x], HALVES)
        report.compare(f"with logits and weights, {reduction}", weighted, [x], SINGLE)
    for reduction in ("none", "batchmean", "sum"):
        for log, target in ((False, q), (True, y)):
            report.compare(
                f"kl_div, {reduction}, {log}",
                lambda x: F.kl_div(x, target.to(x), reduction=reduction, log_target=log),
                [x],
                SINGLE,
            )


def layers(report):
    scale, shift = floats(6, seed=2), floats(6, seed=3)
    report.compare("group_norm", lambda x, w, b: F.group_norm(x, 3, w, b), [floats(2, 6, 5), scale, shift], HALVES)
    bias = floats(4, seed=4)
    for name, function, inputs in (
        ("conv1d", lambda x, w, b: F.conv1d(x, w, b, padding=1, groups=2), [floats(2, 4, 8), floats(4, 2, 3)]),
        ("conv2d", lambda x, w, b: F.conv2d(x, w, b, 2, 1), [floats(2, 3, 8, 8), floats(4, 3, 3, 3)]),
        ("conv3d", lambda x, w, b: F.conv3d(x, w, b), [floats(1, 2, 3, 4, 4), floats(4, 2, 2, 2, 2)]),
        ("transposed", lambda x, w, b: F.conv_transpose2d(x, w, b, 2), [floats(2, 3, 4, 4), floats(3, 4, 3, 3)]),
    ):
        report.compare(name, function, [*inputs, bias], EXACT)


def main():
    # With formats of its own, torch_npu compiles convolutions by their name.
    torch.npu.config.allow_internal_format = False
    report = Report()
    elementwise(report)
    losses(report)
    layers(report)
    report.finish()


if __name__ == "__main__":
    main()
