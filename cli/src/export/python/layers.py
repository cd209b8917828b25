"""The layers of this package under the names that transformers marks its own with, for the library `kernels`. `rotary_pos_emb`
is a function there. `SwiGLUMLP` and `Experts` are layers that no class of transformers is marked with: `mark` does."""

import torch
from torch import nn

from . import _forwards as forwards


class RMSNorm(nn.Module):
    can_torch_compile = True

    weight: torch.Tensor

    def forward(self, hidden_states):
        return forwards.rms_norm(self, hidden_states)


class Gemma3RMSNorm(nn.Module):
    can_torch_compile = True

    weight: torch.Tensor

    def forward(self, x):
        return forwards.rms_norm(self, x)


class rotary_pos_emb(nn.Module):  # noqa: N801 - the name that transformers gives it
    can_torch_compile = True

    def forward(self, q, k, cos, sin, unsqueeze_dim=1):
        def own(*arguments):
            return type(self).forward(self, *arguments)

        return forwards.rotary(type(self), own, q, k, cos, sin, unsqueeze_dim)


class SwiGLUMLP(nn.Module):
    can_torch_compile = True

    def forward(self, x):
        return forwards.mlp(self, x)


class Experts(nn.Module):
    can_torch_compile = True

    def forward(self, hidden_states, top_k_index, top_k_weights):
        return forwards.experts(self, hidden_states, top_k_index, top_k_weights)
