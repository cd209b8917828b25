"""The CPU kernels of burn-kernels for torch and transformers.

`apply(model)` puts them into a model, `remove(model)` takes them out, `report()` says what was decided for each class of
layers. `layers` has the layers for the library `kernels`, and the functions below are operators for models of one's own.
"""

from . import layers
from ._apply import apply, mark, remove
from ._library import FUNCTIONS as _functions
from ._losses import cross_entropy, linear_cross_entropy
from ._mixture import experts
from ._operations import attention, glu, layer_norm, linear, rms_norm, rope
from ._transformers import causal_lm_loss, flash_attn_forward, supports_flash_attn
from ._verify import report


def calls():
    """The number of calls of each function of the library so far."""
    return {name: function.calls for name, function in _functions.items() if function.calls}


__all__ = [
    "apply",
    "attention",
    "calls",
    "causal_lm_loss",
    "cross_entropy",
    "experts",
    "flash_attn_forward",
    "glu",
    "layer_norm",
    "layers",
    "linear",
    "linear_cross_entropy",
    "mark",
    "remove",
    "report",
    "rms_norm",
    "rope",
    "supports_flash_attn",
]
