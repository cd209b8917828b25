"""The product of rows with the matrices of their experts, as LLaMA-Factory computes it."""

import torch
import torch_npu


class GroupedMatmul(torch.autograd.Function):
    """Rows times the matrix of their expert. Both gradients are products by groups, too."""

    @staticmethod
    def forward(ctx, x, weights, counts):
        ctx.save_for_backward(x, weights, counts)
        return torch_npu.npu_grouped_matmul(
            [x], [weights], group_list=counts, split_item=2, group_type=0, group_list_type=1
        )[0]

    @staticmethod
    def backward(ctx, grad):
        x, weights, counts = ctx.saved_tensors
        dx = torch_npu.npu_grouped_matmul(
            [grad], [weights.transpose(1, 2)], group_list=counts, split_item=2, group_type=0, group_list_type=1
        )[0]
        dw = torch_npu.npu_grouped_matmul(
            [x.T], [grad], group_list=counts, split_item=3, group_type=2, group_list_type=1
        )[0]
        return dx, dw, None
