"""What the operators of torch have in common."""

import torch

# The operators of two versions of this package don't meet: its name is made of its content.
NAMESPACE = __package__.split(".")[-1].strip("_").replace("-", "_")


def operator(function):
    name = "{}::{}".format(NAMESPACE, function.__name__)
    return torch.library.custom_op(name, function, mutates_args=(), device_types="cpu")


def rows(tensor):
    """The tensor, or a copy whose rows are contiguous."""
    if tensor is None or tensor.dim() == 0 or tensor.stride(-1) == 1 or tensor.shape[-1] == 1:
        return tensor
    return tensor.contiguous()


def matrix(tensor):
    """The tensor, or a copy whose rows are contiguous and lie apart."""
    apart = all(stride > 0 or size == 1 for size, stride in zip(tensor.shape, tensor.stride()))
    return rows(tensor) if apart else tensor.contiguous()


def whole(tensor):
    return None if tensor is None else tensor.contiguous()


def or_empty(result, like):
    return like.new_empty(0) if result is None else result


def accumulated(tensor):
    return torch.float32 if tensor.dtype in (torch.bfloat16, torch.float16) else tensor.dtype
