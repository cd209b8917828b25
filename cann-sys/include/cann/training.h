/* Losses and optimisers. */
#ifndef BURN_CANN_TRAINING_H
#define BURN_CANN_TRAINING_H

#include "cann/op.h"

CANN_BEGIN

CANN_OP(aclnnCrossEntropyLoss, const aclTensor *input, const aclTensor *target,
        const aclTensor *weight_or_null, char *reduction_or_null, int64_t ignore_index,
        double label_smoothing, double lse_square_scale_for_zloss, bool return_zloss,
        const aclTensor *loss_out, const aclTensor *log_prob_out, const aclTensor *zloss_out,
        const aclTensor *lse_for_zloss_out);
CANN_OP(aclnnCrossEntropyLossGrad, const aclTensor *grad_loss, const aclTensor *log_prob,
        const aclTensor *target, const aclTensor *weight_or_null,
        const aclTensor *grad_zloss_or_null, const aclTensor *lse_for_zloss_or_null,
        char *reduction_or_null, int64_t ignore_index, double label_smoothing,
        double lse_square_scale_for_zloss, const aclTensor *output);
CANN_OP(aclnnNLLLoss, const aclTensor *input, const aclTensor *target, const aclTensor *weight,
        int64_t reduction, int64_t ignore_index, aclTensor *output, aclTensor *total_weight_out);
CANN_OP(aclnnNLLLossBackward, const aclTensor *d_output, const aclTensor *input,
        const aclTensor *target, const aclTensor *weight, int64_t reduction, int64_t ignore_index,
        const aclTensor *total_weight, aclTensor *output);
CANN_OP(aclnnApplyAdamWV2, aclTensor *var_inout, aclTensor *m_inout, aclTensor *v_inout,
        aclTensor *max_grad_norm_optional_inout, const aclTensor *gradient, const aclTensor *step,
        float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad,
        bool maximize);

CANN_END

#endif
