/* Matrix products and convolutions. `cube_math`: 0 keeps the dtype, 1 lets f32 become HF32, 2 is
 * f16, 3 is HF32. */
#ifndef BURN_CANN_MATMUL_H
#define BURN_CANN_MATMUL_H

#include "cann/op.h"

CANN_BEGIN

CANN_OP(aclnnMatmul, const aclTensor *input, const aclTensor *right, aclTensor *output,
        int8_t cube_math);
CANN_OP(aclnnMm, const aclTensor *input, const aclTensor *right, aclTensor *output,
        int8_t cube_math);
CANN_OP(aclnnBatchMatMul, const aclTensor *input, const aclTensor *right, aclTensor *output,
        int8_t cube_math);
CANN_OP(aclnnAddmm, const aclTensor *input, const aclTensor *left, const aclTensor *right,
        const aclScalar *beta, const aclScalar *alpha, aclTensor *output, int8_t cube_math);
CANN_OP(aclnnInplaceAddmm, const aclTensor *target, const aclTensor *left, const aclTensor *right,
        const aclScalar *beta, const aclScalar *alpha, int8_t cube_math);
CANN_OP(aclnnBaddbmm, const aclTensor *input, const aclTensor *left, const aclTensor *right,
        const aclScalar *beta, const aclScalar *alpha, aclTensor *output, int8_t cube_math);
CANN_OP(aclnnInplaceBaddbmm, const aclTensor *target, const aclTensor *left,
        const aclTensor *right, const aclScalar *beta, const aclScalar *alpha, int8_t cube_math);
CANN_OP(aclnnConvolution, const aclTensor *input, const aclTensor *weight,
        const aclTensor *bias_or_null, const aclIntArray *stride, const aclIntArray *padding,
        const aclIntArray *dilation, bool transposed, const aclIntArray *output_padding,
        int64_t groups, aclTensor *output, int8_t cube_math);
CANN_OP(aclnnWeightQuantBatchMatmul, const aclTensor *x1, const aclTensor *x2,
        const aclTensor *diagonal_or_null, const aclTensor *deq_offset_or_null,
        const aclTensor *deq_scale_or_null, const aclTensor *add_offset_or_null,
        const aclTensor *mul_scale_or_null, const aclTensor *bias_or_null, bool transpose_x1,
        bool transpose_x2, float antiquant_scale, float antiquant_offset, aclTensor *output);
CANN_OP(aclnnWeightQuantBatchMatmulV2, const aclTensor *x, const aclTensor *weight,
        const aclTensor *antiquant_scale, const aclTensor *antiquant_offset_or_null,
        const aclTensor *quant_scale_or_null, const aclTensor *quant_offset_or_null,
        const aclTensor *bias_or_null, int antiquant_group_size, const aclTensor *output);
CANN_OP(aclnnWeightQuantBatchMatmulV3, const aclTensor *x, const aclTensor *weight,
        const aclTensor *antiquant_scale, const aclTensor *antiquant_offset_or_null,
        const aclTensor *quant_scale_or_null, const aclTensor *quant_offset_or_null,
        const aclTensor *bias_or_null, int antiquant_group_size, int inner_precise,
        const aclTensor *output);
CANN_OP(aclnnConvertWeightToINT4Pack, const aclTensor *weight, aclTensor *packed);
CANN_OP(aclnnMv, const aclTensor *input, const aclTensor *vector, aclTensor *output,
        int8_t cube_math);
CANN_OP(aclnnDot, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnConvolutionBackward, const aclTensor *d_output, const aclTensor *input,
        const aclTensor *weight, const aclIntArray *bias_sizes_or_null, const aclIntArray *stride,
        const aclIntArray *padding, const aclIntArray *dilation, bool transposed,
        const aclIntArray *output_padding, int groups, const aclBoolArray *output_mask,
        int8_t cube_math, aclTensor *d_input, aclTensor *d_weight, aclTensor *d_bias);

CANN_END

#endif
