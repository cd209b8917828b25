/* Gated linear units, activations and softmax. */
#ifndef BURN_CANN_ACTIVATION_H
#define BURN_CANN_ACTIVATION_H

#include "cann/op.h"

CANN_BEGIN

CANN_OP(aclnnSwiGlu, const aclTensor *x, int64_t axis, const aclTensor *output);
CANN_OP(aclnnSwiGluGrad, const aclTensor *y_grad, const aclTensor *x, int64_t axis,
        const aclTensor *output);
CANN_OP(aclnnSilu, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnSiluBackward, const aclTensor *d_output, const aclTensor *input, aclTensor *d_input);
CANN_OP(aclnnGelu, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnRelu, const aclTensor *input, const aclTensor *output);
CANN_OP(aclnnInplaceRelu, aclTensor *target);
CANN_OP(aclnnSigmoid, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceSigmoid, aclTensor *target);
CANN_OP(aclnnTanh, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceTanh, aclTensor *target);
CANN_OP(aclnnSoftmax, const aclTensor *input, int64_t axis, aclTensor *output);
CANN_OP(aclnnSoftmaxBackward, const aclTensor *d_output, const aclTensor *forward_output,
        int64_t axis, aclTensor *output);
CANN_OP(aclnnLogSoftmax, const aclTensor *input, int64_t axis, aclTensor *output);
CANN_OP(aclnnGeGluV3, const aclTensor *x, int64_t axis, int64_t approximation, bool gate_first,
        aclTensor *output, aclTensor *gelu);
CANN_OP(aclnnGeGluV3Backward, const aclTensor *d_output, const aclTensor *x, const aclTensor *gelu,
        int64_t axis, int64_t approximation, bool gate_first, aclTensor *d_input);
CANN_OP(aclnnGeluV2, const aclTensor *input, int64_t approximation, aclTensor *output);
CANN_OP(aclnnLeakyRelu, const aclTensor *input, const aclScalar *slope, aclTensor *output);
CANN_OP(aclnnInplaceLeakyRelu, aclTensor *target, const aclScalar *slope);
CANN_OP(aclnnElu, const aclTensor *input, const aclScalar *alpha, const aclScalar *scale,
        const aclScalar *input_scale, aclTensor *output);
CANN_OP(aclnnInplaceElu, aclTensor *target, const aclScalar *alpha, const aclScalar *scale,
        const aclScalar *input_scale);
CANN_OP(aclnnMish, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceMish, aclTensor *target);
CANN_OP(aclnnSoftplus, const aclTensor *input, const aclScalar *beta, const aclScalar *threshold,
        aclTensor *output);
CANN_OP(aclnnHardswish, const aclTensor *input, const aclTensor *output);
CANN_OP(aclnnInplaceHardswish, const aclTensor *target);
CANN_OP(aclnnLogSoftmaxBackward, const aclTensor *d_output, const aclTensor *forward_output,
        int64_t axis, aclTensor *output);
CANN_OP(aclnnSigmoidBackward, const aclTensor *d_output, const aclTensor *forward_output,
        aclTensor *d_input);
CANN_OP(aclnnTanhBackward, const aclTensor *d_output, const aclTensor *forward_output,
        aclTensor *d_input);
CANN_OP(aclnnGeluBackward, const aclTensor *d_output, const aclTensor *input, aclTensor *d_input);
CANN_OP(aclnnGeluBackwardV2, const aclTensor *d_output, const aclTensor *input, char *approximation,
        aclTensor *d_input);
CANN_OP(aclnnHardswishBackward, const aclTensor *d_output, const aclTensor *input,
        aclTensor *d_input);
CANN_OP(aclnnThresholdBackward, const aclTensor *d_output, const aclTensor *input,
        const aclScalar *threshold, aclTensor *d_input);
CANN_OP(aclnnLeakyReluBackward, const aclTensor *d_output, const aclTensor *input,
        const aclScalar *slope, bool input_is_result, aclTensor *d_input);
CANN_OP(aclnnSoftplusBackward, const aclTensor *d_output, const aclTensor *input,
        const aclScalar *beta, const aclScalar *threshold, aclTensor *d_input);
CANN_OP(aclnnMishBackward, const aclTensor *d_output, const aclTensor *input, aclTensor *d_input);
CANN_OP(aclnnEluBackward, const aclTensor *d_output, const aclScalar *alpha, const aclScalar *scale,
        const aclScalar *input_scale, bool input_is_result, const aclTensor *input,
        aclTensor *d_input);

CANN_END

#endif
