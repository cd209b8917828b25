/* Arithmetic by element. A plural name takes a scalar on the right; `Inplace` writes over its first tensor. */
#ifndef BURN_CANN_ELEMENTWISE_H
#define BURN_CANN_ELEMENTWISE_H

#include "cann/op.h"

CANN_BEGIN

CANN_OP(aclnnAdd, const aclTensor *input, const aclTensor *rhs, const aclScalar *alpha,
        aclTensor *output);
CANN_OP(aclnnInplaceAdd, const aclTensor *target, const aclTensor *rhs, const aclScalar *alpha);
CANN_OP(aclnnAdds, const aclTensor *input, const aclScalar *rhs, const aclScalar *alpha,
        aclTensor *output);
CANN_OP(aclnnInplaceAdds, const aclTensor *target, const aclScalar *rhs, const aclScalar *alpha);
CANN_OP(aclnnClamp, const aclTensor *input, const aclScalar *low, const aclScalar *high,
        aclTensor *output);
CANN_OP(aclnnClampMax, const aclTensor *input, const aclScalar *high, aclTensor *output);
CANN_OP(aclnnInplaceClampMax, const aclTensor *target, const aclScalar *high);
CANN_OP(aclnnClampMaxTensor, const aclTensor *input, const aclTensor *high, aclTensor *output);
CANN_OP(aclnnInplaceClampMaxTensor, aclTensor *target, const aclTensor *high);
CANN_OP(aclnnClampMin, const aclTensor *input, const aclScalar *low, aclTensor *output);
CANN_OP(aclnnClampMinTensor, const aclTensor *input, const aclTensor *low, aclTensor *output);
CANN_OP(aclnnInplaceClampMinTensor, aclTensor *target, const aclTensor *low);
CANN_OP(aclnnClampTensor, const aclTensor *input, const aclTensor *low, const aclTensor *high,
        aclTensor *output);
CANN_OP(aclnnDiv, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceDiv, aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnDivMod, const aclTensor *input, const aclTensor *rhs, int mode, aclTensor *output);
CANN_OP(aclnnInplaceDivMod, aclTensor *target, const aclTensor *rhs, int mode);
CANN_OP(aclnnDivMods, const aclTensor *input, const aclScalar *rhs, int mode, aclTensor *output);
CANN_OP(aclnnInplaceDivMods, aclTensor *target, const aclScalar *rhs, int mode);
CANN_OP(aclnnDivs, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnInplaceDivs, aclTensor *target, const aclScalar *rhs);
CANN_OP(aclnnExp, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceExp, aclTensor *target);
CANN_OP(aclnnGtTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceGtTensor, const aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnInplaceLog, aclTensor *target);
CANN_OP(aclnnLog, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnMaximum, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceMul, aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnMul, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceMuls, aclTensor *target, const aclScalar *rhs);
CANN_OP(aclnnMuls, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnInplaceNeg, aclTensor *target);
CANN_OP(aclnnNeg, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnPowScalarTensor, const aclScalar *input, const aclTensor *exponent,
        const aclTensor *output);
CANN_OP(aclnnInplacePowTensorScalar, const aclTensor *input, const aclScalar *exponent);
CANN_OP(aclnnPowTensorScalar, const aclTensor *input, const aclScalar *exponent,
        const aclTensor *output);
CANN_OP(aclnnInplaceRsqrt, aclTensor *target);
CANN_OP(aclnnRsqrt, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceSqrt, aclTensor *input);
CANN_OP(aclnnSqrt, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceSub, aclTensor *target, const aclTensor *rhs, const aclScalar *alpha);
CANN_OP(aclnnSub, const aclTensor *input, const aclTensor *rhs, const aclScalar *alpha,
        aclTensor *output);
CANN_OP(aclnnInplaceSubs, aclTensor *target, const aclScalar *rhs, const aclScalar *alpha);
CANN_OP(aclnnSubs, const aclTensor *input, const aclScalar *rhs, const aclScalar *alpha,
        aclTensor *output);

CANN_END

#endif
