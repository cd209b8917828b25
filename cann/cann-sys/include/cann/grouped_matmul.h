/* Matrix products by group, for the experts of a mixture. */
#ifndef BURN_CANN_GROUPED_MATMUL_H
#define BURN_CANN_GROUPED_MATMUL_H

#include "cann/op.h"

CANN_BEGIN

CANN_OP(aclnnGroupedMatmulV5, const aclTensorList *x, const aclTensorList *weight,
        const aclTensorList *bias_or_null, const aclTensorList *scale_or_null,
        const aclTensorList *offset_or_null, const aclTensorList *antiquant_scale_or_null,
        const aclTensorList *antiquant_offset_or_null, const aclTensorList *per_token_scale_or_null,
        const aclTensor *group_list_or_null, const aclTensorList *activation_input_or_null,
        const aclTensorList *activation_quant_scale_or_null,
        const aclTensorList *activation_quant_offset_or_null, int64_t split_item,
        int64_t group_type, int64_t group_list_type, int64_t act_type,
        aclIntArray *tuning_config_or_null, aclTensorList *output,
        aclTensorList *activation_feature_out_or_null, aclTensorList *dyn_quant_scale_out_or_null);
CANN_OP(aclnnGroupedMatmulV4, const aclTensorList *x, const aclTensorList *weight,
        const aclTensorList *bias_or_null, const aclTensorList *scale_or_null,
        const aclTensorList *offset_or_null, const aclTensorList *antiquant_scale_or_null,
        const aclTensorList *antiquant_offset_or_null, const aclTensorList *per_token_scale_or_null,
        const aclTensor *group_list_or_null, const aclTensorList *activation_input_or_null,
        const aclTensorList *activation_quant_scale_or_null,
        const aclTensorList *activation_quant_offset_or_null, int64_t split_item,
        int64_t group_type, int64_t group_list_type, int64_t act_type, aclTensorList *output,
        aclTensorList *activation_feature_out_or_null, aclTensorList *dyn_quant_scale_out_or_null);
CANN_OP(aclnnGroupedMatmulV3, const aclTensorList *x, const aclTensorList *weight,
        const aclTensorList *bias_or_null, const aclTensorList *scale_or_null,
        const aclTensorList *offset_or_null, const aclTensorList *antiquant_scale_or_null,
        const aclTensorList *antiquant_offset_or_null, const aclTensor *group_list_or_null,
        int64_t split_item, int64_t group_type, const aclTensorList *outputs);
CANN_OP(aclnnGroupedMatmulV2, const aclTensorList *x, const aclTensorList *weight,
        const aclTensorList *bias_or_null, const aclTensorList *scale_or_null,
        const aclTensorList *offset_or_null, const aclTensorList *antiquant_scale_or_null,
        const aclTensorList *antiquant_offset_or_null, const aclIntArray *group_list_or_null,
        int64_t split_item, int64_t group_type, const aclTensorList *outputs);
CANN_OP(aclnnGroupedMatmul, const aclTensorList *x, const aclTensorList *weight,
        const aclTensorList *bias_or_null, const aclTensorList *scale_or_null,
        const aclTensorList *offset_or_null, const aclTensorList *antiquant_scale_or_null,
        const aclTensorList *antiquant_offset_or_null, const aclIntArray *group_list_or_null,
        int64_t split_item, const aclTensorList *outputs);
CANN_OP(aclnnGroupedMatmulAddV2, const aclTensor *x, const aclTensor *weight,
        const aclTensor *group_list, aclTensor *y_inout, bool transpose_x, bool transpose_weight,
        int64_t group_type, int64_t group_list_type);
CANN_OP(aclnnGroupedMatmulAdd, const aclTensor *x, const aclTensor *weight,
        const aclTensor *group_list, aclTensor *y_inout, bool transpose_x, bool transpose_weight,
        int64_t group_type);

CANN_END

#endif
