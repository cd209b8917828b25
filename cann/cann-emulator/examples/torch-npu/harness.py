"""Inputs, comparisons and the report of the checks."""

import sys

import torch

# The error of one rounding to the dtype, relative to the largest number of a result, with some room for sums.
TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def floats(*shape, seed=1):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def integers(*shape, below, seed=1):
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed))


def several(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


class Report:
    """Compares calls and counts those that differ."""

    def __init__(self):
        self.passed = 0
        self.failed = []

    def compare(self, name, function, inputs, dtypes, npu=None, gradient=True):
        """Runs `function` on the CPU in f64 and `npu`, or the same, on the device, for each dtype."""
        for dtype in dtypes:
            what = f"{name} {str(dtype).removeprefix('torch.')}"
            try:
                problem = self.difference(function, npu or function, inputs, dtype, gradient)
                torch.npu.synchronize()
            except Exception as error:  # an operator that is missing must not hide the others
                problem = str(error).strip().splitlines()[0]
            if problem is None:
                self.passed += 1
            else:
                self.failed.append(what)
                print(f"FAILED {what}: {problem}", flush=True)

    def difference(self, function, npu, inputs, dtype, gradient):
        """Returns a text about the first difference, or None."""
        rounded = [x.to(dtype) for x in inputs]
        wide = [x.double() if x.is_floating_point() else x for x in rounded]
        there = [x.npu() for x in rounded]
        gradient = gradient and dtype.is_floating_point
        if gradient:
            wide, there = ([x.requires_grad_() for x in side] for side in (wide, there))
        exact, found = several(function(*wide)), several(npu(*there))
        if len(exact) != len(found):
            return f"{len(found)} results, not {len(exact)}"
        problems = [compare_one(f, e, dtype, "result") for f, e in zip(found, exact)]
        if gradient and exact[0].requires_grad:
            seeds = [floats(*e.shape, seed=11).to(dtype) for e in exact]
            torch.autograd.backward(exact, [s.double() for s in seeds])
            torch.autograd.backward(found, [s.to(f.dtype).npu() for s, f in zip(seeds, found)])
            pairs = [(f, e) for f, e in zip(there, wide) if e.grad is not None]
            problems += [compare_one(f.grad, e.grad, dtype, "gradient") for f, e in pairs]
        return next((problem for problem in problems if problem), None)

    def finish(self):
        print(f"{self.passed} passed, {len(self.failed)} failed")
        sys.exit(bool(self.failed))


def compare_one(found, exact, dtype, what):
    """Returns a text about the difference, or None."""
    if found is None:
        return f"the {what} is missing"
    found, exact = found.detach().cpu(), exact.detach()
    if found.shape != exact.shape:
        return f"the {what} has the shape {tuple(found.shape)}, not {tuple(exact.shape)}"
    if not found.is_floating_point():
        return None if torch.equal(found.to(exact.dtype), exact) else f"the {what} differs: {found} {exact}"
    exact = exact.double()
    if not torch.equal(found.isfinite(), exact.isfinite()):
        return f"the {what} is not finite in other places"
    finite = exact.isfinite()
    if not finite.any():
        return None
    error = (found.double() - exact)[finite].abs().max().item()
    allowed = TOLERANCE[dtype] * max(1.0, exact[finite].abs().max().item())
    return None if error <= allowed else f"the {what} differs by {error:.3g}, allowed are {allowed:.3g}"
