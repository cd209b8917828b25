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
CANN_OP(aclnnMseLoss, const aclTensor *input, const aclTensor *target, int64_t reduction,
        aclTensor *output);
CANN_OP(aclnnApplyAdamWV2, aclTensor *var_inout, aclTensor *m_inout, aclTensor *v_inout,
        aclTensor *max_grad_norm_optional_inout, const aclTensor *gradient, const aclTensor *step,
        float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad,
        bool maximize);
CANN_OP(aclnnMseLossBackward, const aclTensor *d_output, const aclTensor *input,
        const aclTensor *target, int64_t reduction, aclTensor *d_input);
CANN_OP(aclnnForeachAddScalarV2, const aclTensorList *x, const aclScalar *scalar,
        aclTensorList *output);
CANN_OP(aclnnForeachMulScalarV2, const aclTensorList *x, const aclScalar *scalar,
        aclTensorList *output);
CANN_OP(aclnnForeachDivScalarV2, const aclTensorList *x, const aclScalar *scalar,
        aclTensorList *output);
CANN_OP(aclnnForeachLerpScalar, const aclTensorList *x1, const aclTensorList *x2,
        const aclScalar *scalar, aclTensorList *output);
CANN_OP(aclnnForeachAddListV2, const aclTensorList *x1, const aclTensorList *x2,
        const aclScalar *scalar, aclTensorList *output);
CANN_OP(aclnnForeachAddcmulScalarV2, const aclTensorList *x1, const aclTensorList *x2,
        const aclTensorList *x3, const aclScalar *scalar, aclTensorList *output);
CANN_OP(aclnnForeachAddcdivScalarV2, const aclTensorList *x1, const aclTensorList *x2,
        const aclTensorList *x3, const aclScalar *scalar, aclTensorList *output);
CANN_OP(aclnnForeachMulScalarList, const aclTensorList *x, const aclScalarList *scalars,
        aclTensorList *output);
CANN_OP(aclnnForeachDivScalarList, const aclTensorList *x, const aclScalarList *scalars,
        aclTensorList *output);
CANN_OP(aclnnForeachAddcdivScalarList, const aclTensorList *x1, const aclTensorList *x2,
        const aclTensorList *x3, const aclScalarList *scalars, aclTensorList *output);
CANN_OP(aclnnForeachSqrt, const aclTensorList *x, aclTensorList *output);
CANN_OP(aclnnForeachMulList, const aclTensorList *x1, const aclTensorList *x2,
        aclTensorList *output);
CANN_OP(aclnnForeachDivList, const aclTensorList *x1, const aclTensorList *x2,
        aclTensorList *output);
CANN_OP(aclnnForeachNorm, const aclTensorList *x, const aclScalar *order, aclTensorList *output);
CANN_OP(aclnnL1Loss, const aclTensor *input, const aclTensor *target, int64_t reduction,
        aclTensor *output);
CANN_OP(aclnnL1LossBackward, const aclTensor *d_output, const aclTensor *input,
        const aclTensor *target, int64_t reduction, aclTensor *d_input);
CANN_OP(aclnnSmoothL1Loss, const aclTensor *input, const aclTensor *target, int64_t reduction,
        float beta, aclTensor *output);
CANN_OP(aclnnSmoothL1LossBackward, const aclTensor *d_output, const aclTensor *input,
        const aclTensor *target, int64_t reduction, float beta, aclTensor *d_input);
CANN_OP(aclnnKlDiv, const aclTensor *input, const aclTensor *target, int64_t reduction,
        bool log_target, aclTensor *output);
CANN_OP(aclnnKlDivBackward, const aclTensor *d_output, const aclTensor *input,
        const aclTensor *target, int64_t reduction, bool log_target, aclTensor *d_input);
CANN_OP(aclnnBinaryCrossEntropy, const aclTensor *input, const aclTensor *target,
        const aclTensor *weight_or_null, int64_t reduction, aclTensor *output);
CANN_OP(aclnnBinaryCrossEntropyBackward, const aclTensor *d_output, const aclTensor *input,
        const aclTensor *target, const aclTensor *weight_or_null, int64_t reduction,
        aclTensor *d_input);
CANN_OP(aclnnBinaryCrossEntropyWithLogits, const aclTensor *input, const aclTensor *target,
        const aclTensor *weight_or_null, const aclTensor *pos_weight_or_null, int64_t reduction,
        aclTensor *output);
CANN_OP(aclnnBinaryCrossEntropyWithLogitsBackward, const aclTensor *d_output,
        const aclTensor *input, const aclTensor *target, const aclTensor *weight_or_null,
        const aclTensor *pos_weight_or_null, int64_t reduction, aclTensor *d_input);
CANN_OP(aclnnBinaryCrossEntropyWithLogitsTargetBackward, const aclTensor *d_output,
        const aclTensor *input, const aclTensor *target, const aclTensor *weight_or_null,
        const aclTensor *pos_weight_or_null, int64_t reduction, aclTensor *d_target);

CANN_END

#endif
