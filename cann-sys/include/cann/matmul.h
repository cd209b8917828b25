/* Matrix products. `cube_math`: 0 keeps the dtype, 1 lets f32 become HF32, 2 is f16, 3 is HF32. */
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

CANN_END

#endif
