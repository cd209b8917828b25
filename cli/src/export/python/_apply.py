"""Puts the package into a model of transformers, and takes it out again."""

import sys
import types

import torch

from . import _forwards as forwards
from ._operator import NAMESPACE
from ._transformers import causal_lm_loss, flash_attn_forward, fused_loss_forward, is_plain, verify_linear_loss
from ._verify import UNDECIDED, decided, settle

LAYERS = ("RMSNorm", "rotary_pos_emb", "SwiGLUMLP", "Experts", "attention", "loss", "linear_loss")
# All but the loss that leaves the model's output without logits.
DEFAULT = ("RMSNorm", "rotary_pos_emb", "SwiGLUMLP", "Experts", "attention", "loss")


def _forward_of(module):
    """The layer that a module may be, and its forward."""
    name = type(module).__name__
    if name.endswith("RMSNorm") and getattr(module, "weight", None) is not None:
        return "RMSNorm", forwards.rms_norm
    if all(isinstance(getattr(module, part, None), torch.nn.Linear) for part in ("gate_proj", "up_proj", "down_proj")):
        if type(getattr(module, "act_fn", None)).__name__ in forwards.ACTIVATIONS:
            return "SwiGLUMLP", forwards.mlp
    if name.endswith("Experts") and forwards.experts_settings(module) is not None:
        return "Experts", forwards.experts
    return None, None


def _verify_now(layer, module):
    """Decides for the class of a module by random numbers, if its first call has not decided yet."""
    weight = {"RMSNorm": "weight", "SwiGLUMLP": "gate_proj", "Experts": "gate_up_proj"}[layer]
    weight = getattr(module, weight)
    weight = getattr(weight, "weight", weight)
    if weight.device.type != "cpu" or weight.dtype not in forwards.DTYPES or layer == "Experts":
        return
    numbers = torch.randn(2, 5, weight.shape[-1], generator=torch.Generator("cpu").manual_seed(0), device="cpu").to(weight.dtype)
    if layer == "RMSNorm" and forwards.eps_of(module) is not None:
        if decided(layer, type(module), weight.dtype) is UNDECIDED:
            forwards.verify_rms_norm(module, numbers)
    if layer == "SwiGLUMLP":
        activation = forwards.ACTIVATIONS[type(module.act_fn).__name__]
        if decided(layer, type(module), (weight.dtype, activation)) is UNDECIDED:
            forwards.verify_mlp(module, numbers, activation)


def _rotations(model):
    """The functions `apply_rotary_pos_emb` of the modules that a model's classes come from."""
    for name in sorted({type(module).__module__ for module in model.modules()}):
        source = sys.modules.get(name)
        function = getattr(source, "apply_rotary_pos_emb", None)
        if callable(function) and "modeling" in name:
            yield source, function


def _verify_rotation(kind, own, dtype):
    if dtype not in forwards.DTYPES or decided("rotary_pos_emb", kind, (dtype, dtype)) is not UNDECIDED:
        return
    generator = torch.Generator("cpu").manual_seed(0)
    q, k = (torch.randn(2, heads, 5, 16, generator=generator, device="cpu").to(dtype) for heads in (4, 2))
    angles = torch.rand(2, 5, 8, generator=generator, device="cpu") * 6
    for tables in (torch.cat((angles, angles), -1), angles):  # of the width of a head, or of half of it
        cos, sin = tables.cos().to(dtype), tables.sin().to(dtype)
        try:
            own(q, k, cos, sin, 1)
        except (RuntimeError, TypeError):
            continue
        return forwards.verify_rotary(kind, own, q, k, cos, sin, 1)


# For each module of transformers whose rotation is replaced: the number of models that asked for it, and how to undo it.
_ROTATED = {}


def _rotate(source, function, dtype):
    """Replaces the rotation of a module of transformers, for all models of that kind. Returns the module's name, or None if
    something else has replaced it."""
    name = source.__name__
    if name in _ROTATED:
        _ROTATED[name][0] += 1
        return name
    if isinstance(function, torch.nn.Module):  # as the library kernels makes it
        if "forward" in function.__dict__:
            return None
        kind = type(function)

        def own(*arguments):
            return kind.forward(function, *arguments)

    else:
        kind = own = function
    _verify_rotation(kind, own, dtype)

    def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
        return forwards.rotary(kind, own, q, k, cos, sin, unsqueeze_dim)

    if kind is not function:
        function.forward = apply_rotary_pos_emb
        _ROTATED[name] = [1, lambda: function.__dict__.pop("forward", None)]
    else:
        source.apply_rotary_pos_emb = apply_rotary_pos_emb
        _ROTATED[name] = [1, lambda: setattr(source, "apply_rotary_pos_emb", function)]
    return name


def _rotate_no_more(name):
    """Undoes a replacement that no other model asked for."""
    entry = _ROTATED.get(name)
    if entry is not None:
        entry[0] -= 1
        if entry[0] == 0:
            del _ROTATED[name]
            entry[1]()


def apply(model, layers=DEFAULT):
    """Puts the kernels into a model of transformers, in place, and returns it.

    `layers` are some of `RMSNorm`, `rotary_pos_emb`, `SwiGLUMLP`, `Experts`, `attention`, `loss` and `linear_loss`. The
    rotation belongs to all models of a kind in the process. With `linear_loss`, a forward with labels returns the loss
    without logits. After an error, the model is as it was.
    """
    layers = {layers} if isinstance(layers, str) else set(layers)
    unknown = layers - set(LAYERS)
    if unknown:
        raise ValueError("unknown layers {}; known are {}".format(", ".join(sorted(unknown)), ", ".join(LAYERS)))
    if getattr(model, "_burn_kernels", None) is not None:
        raise ValueError("the model has the kernels already; remove(model) takes them out")
    # What `remove` needs beside the layers themselves. It is plain data, so that a copy of the model has its own.
    model._burn_kernels = {"rotations": []}
    try:
        _put(model, layers, model._burn_kernels)
    except BaseException:
        remove(model)
        raise
    return model


def _put(model, layers, before):
    dtype = getattr(model, "dtype", torch.float32)
    for module in model.modules():
        layer, forward = _forward_of(module)
        if layer is not None and layer in layers and "forward" not in module.__dict__:
            _verify_now(layer, module)
            module.forward = types.MethodType(forward, module)
    if "rotary_pos_emb" in layers:
        for source, function in _rotations(model):
            name = _rotate(source, function, dtype)
            if name is not None:
                before["rotations"].append(name)
    if "attention" in layers and hasattr(model, "set_attn_implementation"):
        _attend(model, before)
    if "loss" in layers and type(getattr(model, "loss_function", None)).__name__ == "function":
        if model.loss_function.__name__ == "ForCausalLMLoss":
            before["loss"] = model.__dict__.get("_loss_function")
            model.loss_function = causal_lm_loss
    if "linear_loss" in layers:
        _lose(model)


def _lose(model):
    head = getattr(model, "lm_head", None)
    dtype = getattr(model, "dtype", None)
    takes = isinstance(head, torch.nn.Module) and hasattr(model, "model") and "forward" not in model.__dict__
    # The loss of a router is added by the model's own forward.
    if not takes or hasattr(model.config, "router_aux_loss_coef"):
        return settle("linear_loss", type(model), dtype, None, "the model is of another form")
    if not is_plain(head):
        return settle("linear_loss", type(model), dtype, None, "the last layer is not a plain linear one, without adapters and hooks")
    if head.weight.device.type != "cpu" or head.weight.dtype not in forwards.DTYPES:
        return settle("linear_loss", type(model), dtype, None, "the last layer is on another device or in another dtype")
    forward = types.MethodType(fused_loss_forward(type(model)), model)
    if not verify_linear_loss(model, forward):
        return settle("linear_loss", type(model), dtype, None, "it computes something else")
    settle("linear_loss", type(model), dtype, (), "package")
    model.forward = forward


def _attention_of(config):
    """The name of the attention of a model, or a dictionary with those of its parts."""
    parts = {key: getattr(config, key, None) for key in getattr(config, "sub_configs", ())}
    parts = {key: _attention_of(part) for key, part in parts.items() if part is not None}
    return {"": config._attn_implementation, **parts} if parts else config._attn_implementation


def _attend(model, before):
    from transformers import AttentionInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

    AttentionInterface.register(NAMESPACE, flash_attn_forward)
    AttentionMaskInterface.register(NAMESPACE, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    before["attention"] = _attention_of(model.config)
    model.set_attn_implementation(NAMESPACE)


def remove(model):
    """Takes the kernels out of a model that `apply` put them into, and returns it."""
    before = getattr(model, "_burn_kernels", None)
    if before is None:
        return model
    model._burn_kernels = None
    for module in model.modules():
        forward = getattr(module.__dict__.get("forward"), "__func__", None)
        if getattr(forward, "of_package", None) == NAMESPACE:
            del module.__dict__["forward"]
    for name in before["rotations"]:
        _rotate_no_more(name)
    if "loss" in before:
        model.__dict__.pop("_loss_function", None)
        if before["loss"] is not None:
            model._loss_function = before["loss"]
    if "attention" in before and before["attention"] != _attention_of(model.config):
        model.set_attn_implementation(before["attention"])
    return model


def mark(model):
    """Marks the classes of a model that transformers does not mark, MLPs and experts, as `SwiGLUMLP` and `Experts`, and
    Gemma's norms as `Gemma3RMSNorm`, for `kernels.kernelize`."""
    from kernels import replace_kernel_forward_from_hub

    marked = []
    for kind in {type(module): module for module in model.modules()}.values():
        layer, _ = _forward_of(kind)
        if layer == "RMSNorm":
            layer = "Gemma3RMSNorm" if "Gemma" in type(kind).__name__ else "RMSNorm"
        if layer is not None and not hasattr(type(kind), "kernel_layer_name"):
            replace_kernel_forward_from_hub(type(kind), layer)
            marked.append((type(kind).__name__, layer))
    return marked
