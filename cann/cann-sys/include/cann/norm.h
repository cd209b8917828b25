/* RMS norm and layer norm, with the operations fused into them. */
#ifndef BURN_CANN_NORM_H
#define BURN_CANN_NORM_H

#include "cann/op.h"

CANN_BEGIN

CANN_OP(aclnnRmsNorm, const aclTensor *x, const aclTensor *gamma, double epsilon,
        const aclTensor *y_out, const aclTensor *rstd_out);
CANN_OP(aclnnRmsNormGrad, const aclTensor *dy, const aclTensor *x, const aclTensor *rstd,
        const aclTensor *gamma, const aclTensor *dx_out, const aclTensor *dgamma_out);
CANN_OP(aclnnAddRmsNorm, const aclTensor *x1, const aclTensor *x2, const aclTensor *gamma,
        double epsilon, const aclTensor *y_out, const aclTensor *rstd_out, const aclTensor *x_out);
CANN_OP(aclnnInplaceAddRmsNorm, aclTensor *x1_inout, aclTensor *x2_inout, const aclTensor *gamma,
        double epsilon, const aclTensor *rstd_out);
CANN_OP(aclnnGemmaRmsNorm, const aclTensor *x, const aclTensor *gamma, double epsilon,
        const aclTensor *y_out, const aclTensor *rstd_out);
CANN_OP(aclnnLayerNorm, const aclTensor *input, const aclIntArray *normalized_shape,
        const aclTensor *weight_or_null, const aclTensor *bias_or_null, double eps,
        aclTensor *output, aclTensor *mean_out_or_null, aclTensor *rstd_out_or_null);
CANN_OP(aclnnLayerNormWithImplMode, const aclTensor *input, const aclIntArray *normalized_shape,
        const aclTensor *weight_or_null, const aclTensor *bias_or_null, double eps,
        aclTensor *output, aclTensor *mean_out_or_null, aclTensor *rstd_out_or_null,
        int32_t impl_mode);
CANN_OP(aclnnLayerNormBackward, const aclTensor *d_output, const aclTensor *input,
        const aclIntArray *normalized_shape, const aclTensor *mean, const aclTensor *rstd,
        const aclTensor *weight_or_null, const aclTensor *bias_or_null,
        const aclBoolArray *output_mask, aclTensor *d_input_out, aclTensor *d_weight_out,
        aclTensor *d_bias_out);
CANN_OP(aclnnGroupNorm, const aclTensor *input, const aclTensor *gamma_or_null,
        const aclTensor *beta_or_null, int64_t batch, int64_t channels, int64_t places,
        int64_t groups, double eps, aclTensor *output, aclTensor *mean_out, aclTensor *rstd_out);
CANN_OP(aclnnGroupNormBackward, const aclTensor *d_output, const aclTensor *input,
        const aclTensor *mean, const aclTensor *rstd, const aclTensor *gamma_or_null, int64_t batch,
        int64_t channels, int64_t places, int64_t groups, const aclBoolArray *output_mask,
        aclTensor *d_input, aclTensor *d_gamma, aclTensor *d_beta);

CANN_END

#endif
