"""Attention and losses in the forms that transformers calls."""

import functools

import torch
from torch.utils.weak import WeakIdKeyDictionary

from . import _losses as losses
from . import _operations as operations
from ._forwards import DTYPES
from ._operator import NAMESPACE
from ._verify import fixed_numbers

supports_flash_attn = True


def _torch_attention(query, key, value, mask, dropout, scale, causal):
    group = query.shape[1] // key.shape[1]
    if group > 1:
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    result = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout, scale=scale, is_causal=causal
    )
    return result.transpose(1, 2).contiguous()


def _has_ranges(mask):
    """Whether the keys that each query sees are neighbours, and neither end decreases: what the kernel takes."""
    if mask.numel() == 0:
        return True
    seen = mask.to(torch.int8)
    keys = mask.shape[-1]
    count = seen.sum(-1)
    first = seen.argmax(-1)
    last = keys - seen.flip(-1).argmax(-1)
    first, last = torch.where(count > 0, first, 0), torch.where(count > 0, last, 0)
    whole = (count == last - first).all()
    # A query that sees nothing takes the place of the one before.
    starts, ends = torch.where(count > 0, first, last.cummax(-1).values), last.cummax(-1).values
    order = (first == starts) | (count == 0)
    rising = (starts.diff(dim=-1) >= 0).all() & ((ends == last) | (count == 0)).all()
    return bool(whole & order.all() & rising)


# What was found for the masks that are alive, each with its version.
_masks = WeakIdKeyDictionary()


def _fits_mask(mask):
    """Whether the kernel takes a mask. The layers of a model share it, so it is looked at once."""
    if mask.is_inference():  # It has no version, and its numbers may change.
        return _has_ranges(mask)
    version, fits = _masks.get(mask, (None, False))
    if version != mask._version:
        fits = _has_ranges(mask)
        _masks[mask] = mask._version, fits
    return fits


def _band(queries, keys, causal, window, device):
    """The keys that each query sees: up to its own if causal, and with a window those less than that far from its own. The
    last query's own is the last key."""
    own = torch.arange(keys - queries, keys, device=device)[:, None]
    distance = own - torch.arange(keys, device=device)
    seen = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
    return (seen & (distance.abs() < window) if window else seen)[None, None]


def flash_attn_forward(
    module, query, key, value, attention_mask=None, dropout=0.0, scaling=None, sliding_window=None, softcap=None, s_aux=None,
    is_causal=None, **kwargs
):
    """Attention as transformers calls it: heads `[batch, heads, seq, width]` in, `([batch, seq, heads, width], None)` out.
    Without a mask, it is causal if the module is, and the window is that of the call; a mask has both in it. What the kernel
    does not take is torch's: dropout, masks of other forms, other dtypes."""
    if sliding_window is not None and sliding_window < 0:
        raise ValueError("attention: the window must not be negative, and is {}".format(sliding_window))
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal = bool(causal) and attention_mask is None
    scale = max(query.shape[-1], 1) ** -0.5 if scaling is None else scaling
    queries, keys = query.shape[2], key.shape[2]
    window = int(sliding_window) if sliding_window and attention_mask is None else 0
    if window and not causal:
        attention_mask, window = _band(queries, keys, False, window, query.device), 0
    tensors = (query, key, value)
    fits = dropout == 0.0 and kwargs.get("position_bias") is None and all(
        tensor.device.type == "cpu" and tensor.dtype == query.dtype and tensor.dtype in DTYPES for tensor in tensors
    )
    if fits and attention_mask is not None:
        fits = attention_mask.dtype == torch.bool and attention_mask.dim() == 4 and attention_mask.shape[1] == 1
        fits = fits and attention_mask.shape[0] in (1, query.shape[0]) and attention_mask.shape[-1] == keys
        fits = fits and attention_mask.shape[-2] in (1, queries)
        # In a graph, the numbers of a mask are not known. That of transformers has ranges, or the operator says so.
        fits = fits and (torch.compiler.is_compiling() or _fits_mask(attention_mask))
    if fits:
        sinks = None if s_aux is None else s_aux.to(query.dtype)
        if attention_mask is not None:
            attention_mask = attention_mask.expand(-1, -1, queries, -1)
        return operations.attention(query, key, value, sinks, attention_mask, causal, window, scale, softcap), None
    if softcap is not None or s_aux is not None:
        raise ValueError(
            "attention with a soft cap or with sinks takes no dropout, and masks of bools whose keys are neighbours; choose "
            'another one by model.set_attn_implementation("eager")'
        )
    if window or causal and queries != keys:  # torch's own causal form begins with the first key
        attention_mask, causal = _band(queries, keys, causal, window, query.device), False
    return _torch_attention(query, key, value, attention_mask, dropout, scale, causal), None


def causal_lm_loss(logits, labels, vocab_size, num_items_in_batch=None, ignore_index=-100, shift_labels=None, **kwargs):
    """The loss of a causal language model, in f32, with the arguments of transformers' `ForCausalLMLoss`. Half types are not
    copied to f32 first."""
    if shift_labels is None:
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:].contiguous()
    logits, targets = logits.reshape(-1, vocab_size), shift_labels.reshape(-1).to(logits.device)
    reduction = "mean" if num_items_in_batch is None else "sum"
    if logits.device.type == "cpu" and logits.dtype in DTYPES:
        loss = losses.cross_entropy(logits, targets, ignore_index, 0.0, reduction)
    else:
        loss = torch.nn.functional.cross_entropy(logits.float(), targets, ignore_index=ignore_index, reduction=reduction)
    return loss if num_items_in_batch is None else loss / num_items_in_batch


def _has_global_hooks():
    hooks = torch.nn.modules.module
    return bool(hooks._global_forward_hooks or hooks._global_forward_pre_hooks or hooks._global_backward_hooks)


def is_plain(head):
    """Whether a layer is its weight and its bias alone: no adapter is around it, and no hook sees its results."""
    hooks = (head._forward_hooks, head._forward_pre_hooks, head._backward_hooks, head._backward_pre_hooks)
    return type(head) is torch.nn.Linear and "forward" not in head.__dict__ and not any(hooks) and not _has_global_hooks()


def fused_loss_forward(kind):
    """The forward of a class of causal language models whose last layer is `lm_head`: with labels, the loss without the
    logits."""

    @functools.wraps(kind.forward)  # Trainers read the names of its arguments.
    def forward(self, *args, labels=None, logits_to_keep=0, **kwargs):
        head = self.lm_head
        takes = labels is not None and not args and not kwargs.get("output_logits")
        takes = takes and isinstance(logits_to_keep, int) and logits_to_keep == 0 and is_plain(head)
        takes = takes and (getattr(self.config, "return_dict", True) if kwargs.get("return_dict") is None else kwargs["return_dict"])
        if not takes or head.weight.device.type != "cpu" or head.weight.dtype not in DTYPES:
            return kind.forward(self, *args, labels=labels, logits_to_keep=logits_to_keep, **kwargs)
        hidden_size = head.weight.shape[1]
        numbers = {name: kwargs.pop(name, None) for name in ("num_items_in_batch", "shift_labels", "ignore_index")}
        kwargs.pop("return_dict", None)
        outputs = self.model(return_dict=True, **kwargs)
        hidden = outputs.last_hidden_state
        ignore_index = -100 if numbers["ignore_index"] is None else numbers["ignore_index"]
        targets = numbers["shift_labels"]
        if targets is None:
            targets = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:].contiguous()
        items = numbers["num_items_in_batch"]
        if hidden.dtype == head.weight.dtype:
            loss = losses.linear_cross_entropy(
                hidden.reshape(-1, hidden_size), head.weight, targets.reshape(-1), head.bias, ignore_index, 0.0,
                "mean" if items is None else "sum",
            )
            loss = loss if items is None else loss / items
        else:
            logits = head(hidden)
            loss = causal_lm_loss(logits, None, logits.shape[-1], items, ignore_index, targets)
        from transformers.modeling_outputs import CausalLMOutputWithPast

        return CausalLMOutputWithPast(
            loss=loss,
            logits=None,
            past_key_values=outputs.past_key_values,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )

    forward.of_package = NAMESPACE
    return forward


def verify_linear_loss(model, forward):
    """Whether a model's own forward and another one have the same loss and gradients of the last layer, for a few tokens:
    models that scale or cap their logits do not."""
    vocabulary, weight = model.lm_head.weight.shape[0], model.lm_head.weight
    tracked = weight.requires_grad
    found = []
    with torch.inference_mode(False), torch.enable_grad():
        ids = (torch.arange(18, device="cpu").reshape(2, 9) * 7 + 3) % vocabulary
        try:
            weight.requires_grad_(True)
            for call in (model.forward, forward):
                with fixed_numbers():
                    loss = call(input_ids=ids, labels=ids).loss
                    found.append((loss.detach(), torch.autograd.grad(loss, weight)[0].double()))
        finally:
            weight.requires_grad_(tracked)
    (own, own_gradient), (mine, gradient) = found
    bound = 1e-4 if weight.dtype == torch.float32 else 5e-2
    near = (gradient - own_gradient).norm() <= bound * own_gradient.norm()
    return bool(near) and bool((mine - own).abs() <= bound * own.abs())
