"""What the package computes for a class of layers: decided at the first call of the class in a dtype, by comparing the
result and the gradient with those of the model's own `forward`."""

import contextlib

import torch

UNDECIDED = object()
# The settings for a class in a dtype, or None if the model's own forward stays.
_DECIDED = {}
_REPORT = {}


def decided(layer, kind, dtype):
    """The settings for a class, None if its own forward stays, or UNDECIDED."""
    return _DECIDED.get((layer, kind, dtype), UNDECIDED)


def settle(layer, kind, dtype, settings, reason):
    _DECIDED[layer, kind, dtype] = settings
    _REPORT[layer, kind, dtype] = reason


def report():
    """What was decided: layer, class, dtype, and `package` or the reason why the model's own forward stays."""
    return [
        (layer, "{}.{}".format(kind.__module__, kind.__qualname__), str(dtype).replace("torch.", ""), reason)
        for (layer, kind, dtype), reason in _REPORT.items()
    ]


def few(tensor, most=32):
    """Some of the rows of a tensor."""
    for axis in range(tensor.dim() - 1):
        tensor = tensor.narrow(axis, 0, min(most, tensor.shape[axis]))
    return tensor


def normal(tensor):
    """A copy without a history, to which gradients may go even if the tensor was made in `torch.inference_mode()`."""
    with torch.inference_mode(False):
        return tensor.detach().clone()


@contextlib.contextmanager
def fixed_numbers():
    """Random numbers, such as those of an adapter's dropout, are the same each time, and the program's go on as they were."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(7)
        yield


def with_gradients(function, inputs):
    """The results of a function of tensors, and the gradients of those that are floats, for fixed gradients of the results."""
    with torch.enable_grad(), fixed_numbers():
        inputs = [normal(tensor).requires_grad_(tensor.is_floating_point()) for tensor in inputs]
        results = function(*inputs)
        results = results if isinstance(results, (tuple, list)) else (results,)
        generator = torch.Generator("cpu").manual_seed(7)
        seeds = [torch.randn(result.shape, generator=generator, device="cpu").to(result.dtype) for result in results]
        floats = [tensor for tensor in inputs if tensor.requires_grad]
        gradients = torch.autograd.grad(results, floats, seeds, allow_unused=True)
    return [result.detach() for result in results], gradients


def close(mine, own, ulps):
    """Whether numbers differ by so many units of the last place of the largest of them."""
    if mine.dtype != own.dtype or mine.shape != own.shape:
        return False
    largest = own.abs().max().double()
    difference = (mine.double() - own.double()).abs().max()
    return bool(difference <= ulps * torch.finfo(own.dtype).eps * largest)


def equal_but(mine, own, part):
    """Whether all but a part of the numbers are the same."""
    if mine.dtype != own.dtype or mine.shape != own.shape:
        return False
    return bool((mine != own).sum() <= max(1, part * own.numel()))


def says_little(results):
    """Whether any function would have these results: they are zero, missing or not finite."""
    return any(result.numel() == 0 or not bool(result.isfinite().all()) or not bool(result.any()) for result in results)


def choose(layer, kind, dtype, own, candidates, inputs, agrees):
    """Chooses the first of the candidates, `(settings, function)`, that agrees with the model's own function. Leaves it
    open if the inputs say too little."""
    with torch.inference_mode(False):
        return _choose(layer, kind, dtype, own, candidates, [normal(tensor) for tensor in inputs], agrees)


def _choose(layer, kind, dtype, own, candidates, inputs, agrees):
    try:
        results, gradients = with_gradients(own, inputs)
    except Exception as error:  # noqa: BLE001 - a model's own error comes from its own call
        return settle(layer, kind, dtype, None, "its own forward failed: {}".format(error))
    if says_little(results):
        return None
    reason = "it computes something else"
    for settings, function in candidates:
        try:
            mine, mine_gradients = with_gradients(function, inputs)
        except (ValueError, RuntimeError, TypeError, KeyError) as error:
            reason = str(error)
            continue
        same = agrees(mine, results) and all(
            a is None and b is None or a is not None and b is not None and close(a, b, 32)
            for a, b in zip(mine_gradients, gradients)
        )
        if same:
            return settle(layer, kind, dtype, settings, "package")
    return settle(layer, kind, dtype, None, reason)
