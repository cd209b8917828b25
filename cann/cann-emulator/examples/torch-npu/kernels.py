"""Forwards of transformers' Qwen3 models on torch_npu's operators, as LLaMA-Factory's kernels for NPUs compute them."""

import torch
import torch.nn.functional as F
import torch_npu
from transformers.models.qwen3 import modeling_qwen3
from transformers.models.qwen3_moe import modeling_qwen3_moe

from grouped import GroupedMatmul


def rms_norm(self, hidden_states):
    return torch_npu.npu_rms_norm(hidden_states, self.weight, self.variance_epsilon)[0]


def swiglu(self, hidden_state):
    both = torch.cat((self.gate_proj(hidden_state), self.up_proj(hidden_state)), dim=-1)
    return self.down_proj(torch_npu.npu_swiglu(both, dim=-1))


def rotary(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return torch_npu.npu_rotary_mul(q, cos, sin), torch_npu.npu_rotary_mul(k, cos, sin)


def sparse_moe(self, hidden_states):
    shape = hidden_states.shape
    tokens = hidden_states.reshape(-1, shape[-1])
    logits = self.gate(tokens)
    shares, chosen = torch.topk(F.softmax(logits, dim=1, dtype=torch.float), self.top_k, dim=-1)
    if self.norm_topk_prob:
        shares = shares / shares.sum(dim=-1, keepdim=True)
    shares = shares.to(tokens.dtype)
    rows, places = torch_npu.npu_moe_token_permute(tokens, chosen.to(torch.int32))
    counts = F.one_hot(chosen.flatten(), self.num_experts).sum(0)

    def weights(name):
        return torch.stack([getattr(expert, name).weight.t() for expert in self.experts])

    gate_up = torch.cat((weights("gate_proj"), weights("up_proj")), dim=2)
    inner = torch_npu.npu_swiglu(GroupedMatmul.apply(rows, gate_up, counts), dim=-1)
    rows = GroupedMatmul.apply(inner, weights("down_proj"), counts)
    return torch_npu.npu_moe_token_unpermute(rows, places, probs=shares).view(shape), logits


def patch():
    """Replaces the forwards in transformers, for every model of the process."""
    for module, name in ((modeling_qwen3, "Qwen3"), (modeling_qwen3_moe, "Qwen3Moe")):
        getattr(module, f"{name}RMSNorm").forward = rms_norm
        getattr(module, f"{name}MLP").forward = swiglu
        module.apply_rotary_pos_emb = rotary
    modeling_qwen3_moe.Qwen3MoeSparseMoeBlock.forward = sparse_moe
