/* Elementwise arithmetic. A plural name takes a scalar on the right; `Inplace` overwrites its first tensor. */
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
CANN_OP(aclnnMinimum, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnPowTensorTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnRemainderTensorTensor, const aclTensor *input, const aclTensor *rhs,
        aclTensor *output);
CANN_OP(aclnnRemainderTensorScalar, const aclTensor *input, const aclScalar *rhs,
        aclTensor *output);
CANN_OP(aclnnFmodTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnFmodScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnBitwiseAndTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnBitwiseAndScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnBitwiseOrTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnBitwiseOrScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnBitwiseXorTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnBitwiseXorScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnBitwiseNot, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnLeftShift, const aclTensor *input, const aclTensor *bits, aclTensor *output);
CANN_OP(aclnnRightShift, const aclTensor *input, const aclTensor *bits, aclTensor *output);
CANN_OP(aclnnLogicalAnd, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnLogicalOr, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnLogicalXor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnLogicalNot, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnAbs, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnCeil, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnCos, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnErf, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnExpm1, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnFloor, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnIsFinite, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnLog1p, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnReciprocal, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnRound, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnSign, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnSin, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnTan, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnTrunc, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnEqTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnNeTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnGeTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnLtTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnLeTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnEqScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnNeScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnGtScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnGeScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnLtScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnLeScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnAcos, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnAcosh, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnAsin, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnAsinh, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnAtan, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnAtanh, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnCosh, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnSinh, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnAtan2, const aclTensor *input, const aclTensor *rhs, aclTensor *output);

CANN_END

#endif
