/* Routing of tokens to experts and back. */
#ifndef BURN_CANN_MOE_H
#define BURN_CANN_MOE_H

#include "cann/op.h"

CANN_BEGIN

CANN_OP(aclnnMoeGatingTopKSoftmax, const aclTensor *x, const aclTensor *finished_or_null, int64_t k,
        const aclTensor *y_out, const aclTensor *expert_idx_out, const aclTensor *row_idx_out);
CANN_OP(aclnnMoeGatingTopKSoftmaxV2, const aclTensor *x, const aclTensor *finished_or_null,
        int64_t k, int64_t renorm, bool output_softmax_result_flag, const aclTensor *y_out,
        const aclTensor *expert_idx_out, const aclTensor *softmax_result_out_or_null);
CANN_OP(aclnnMoeGatingTopK, const aclTensor *x, const aclTensor *bias_or_null, int64_t k,
        int64_t k_group, int64_t group_count, int64_t group_select_mode, int64_t renorm,
        int64_t norm_type, bool out_flag, double routed_scaling_factor, double eps,
        const aclTensor *y_out, const aclTensor *expert_idx_out, const aclTensor *full_output);
CANN_OP(aclnnMoeTokenPermute, const aclTensor *tokens, const aclTensor *indices,
        int64_t num_out_tokens, bool padded_mode, const aclTensor *permute_tokens_out,
        const aclTensor *sorted_indices_out);
CANN_OP(aclnnMoeTokenPermuteGrad, const aclTensor *permuted_output_grad,
        const aclTensor *sorted_indices, int64_t num_topk, bool padded_mode,
        const aclTensor *output);
CANN_OP(aclnnMoeTokenUnpermute, const aclTensor *permuted_tokens, const aclTensor *sorted_indices,
        const aclTensor *probs_or_null, bool padded_mode, const aclIntArray *restore_shape_or_null,
        const aclTensor *output);
CANN_OP(aclnnMoeTokenUnpermuteGrad, const aclTensor *permuted_tokens,
        const aclTensor *unpermuted_tokens_grad, const aclTensor *sorted_indices,
        const aclTensor *probs_or_null, bool padded_mode, const aclIntArray *restore_shape_or_null,
        const aclTensor *permuted_tokens_grad_out, const aclTensor *probs_grad_out);
CANN_OP(aclnnMoeInitRouting, const aclTensor *x, const aclTensor *row_idx,
        const aclTensor *expert_idx, int64_t active_num, const aclTensor *expanded_x_out,
        const aclTensor *expanded_row_idx_out, const aclTensor *expanded_expert_idx_out);
CANN_OP(aclnnMoeInitRoutingV2, const aclTensor *x, const aclTensor *expert_idx, int64_t active_num,
        int64_t expert_capacity, int64_t expert_num, int64_t drop_pad_mode,
        int64_t expert_tokens_count_or_cumsum_flag, bool expert_tokens_before_capacity_flag,
        const aclTensor *expanded_x_out, const aclTensor *expanded_row_idx_out,
        const aclTensor *expert_tokens_count_or_cumsum_out_or_null,
        const aclTensor *expert_tokens_before_capacity_out_or_null);
CANN_OP(aclnnMoeInitRoutingV2Grad, const aclTensor *grad_expanded_x,
        const aclTensor *expanded_row_idx, int64_t top_k, int64_t drop_pad_mode, int64_t active_num,
        const aclTensor *output);
CANN_OP(aclnnMoeInitRoutingV3, const aclTensor *x, const aclTensor *expert_idx,
        const aclTensor *scale_or_null, const aclTensor *offset_or_null, int64_t active_num,
        int64_t expert_capacity, int64_t expert_num, int64_t drop_pad_mode,
        int64_t expert_tokens_num_type, bool expert_tokens_num_flag, int64_t quant_mode,
        const aclIntArray *active_expert_range_or_null, int64_t row_idx_type,
        const aclTensor *expanded_x_out, const aclTensor *expanded_row_idx_out,
        const aclTensor *expert_tokens_count_or_cumsum_out, const aclTensor *expanded_scale_out);
CANN_OP(aclnnMoeFinalizeRoutingV2, const aclTensor *expanded_x, const aclTensor *expanded_row_idx,
        const aclTensor *x1_or_null, const aclTensor *x2_or_null, const aclTensor *bias_or_null,
        const aclTensor *scales_or_null, const aclTensor *expert_idx_or_null, int64_t drop_pad_mode,
        const aclTensor *output);
CANN_OP(aclnnMoeFinalizeRoutingV2Grad, const aclTensor *grad_y, const aclTensor *expanded_row_idx,
        const aclTensor *expanded_x_or_null, const aclTensor *scales_or_null,
        const aclTensor *expert_idx_or_null, const aclTensor *bias_or_null, int64_t drop_pad_mode,
        int64_t active_num, int64_t expert_num, int64_t expert_capacity,
        const aclTensor *grad_expanded_x_out, const aclTensor *grad_scales_out);
CANN_OP(aclnnMoeComputeExpertTokens, const aclTensor *sorted_experts, int64_t num_experts,
        const aclTensor *output);

CANN_END

#endif
