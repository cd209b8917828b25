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
CANN_OP(aclnnInplacePowTensorTensor, const aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnRemainderTensorTensor, const aclTensor *input, const aclTensor *rhs,
        aclTensor *output);
CANN_OP(aclnnInplaceRemainderTensorTensor, aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnRemainderTensorScalar, const aclTensor *input, const aclScalar *rhs,
        aclTensor *output);
CANN_OP(aclnnInplaceRemainderTensorScalar, aclTensor *target, const aclScalar *rhs);
CANN_OP(aclnnFmodTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceFmodTensor, aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnFmodScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnInplaceFmodScalar, aclTensor *target, const aclScalar *rhs);
CANN_OP(aclnnBitwiseAndTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceBitwiseAndTensor, const aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnBitwiseAndScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnInplaceBitwiseAndScalar, const aclTensor *target, const aclScalar *rhs);
CANN_OP(aclnnBitwiseOrTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceBitwiseOrTensor, aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnBitwiseOrScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnInplaceBitwiseOrScalar, aclTensor *target, const aclScalar *rhs);
CANN_OP(aclnnBitwiseXorTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceBitwiseXorTensor, aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnBitwiseXorScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnInplaceBitwiseXorScalar, aclTensor *target, const aclScalar *rhs);
CANN_OP(aclnnBitwiseNot, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnLeftShift, const aclTensor *input, const aclTensor *bits, aclTensor *output);
CANN_OP(aclnnRightShift, const aclTensor *input, const aclTensor *bits, aclTensor *output);
CANN_OP(aclnnLogicalAnd, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceLogicalAnd, aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnLogicalOr, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceLogicalOr, aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnLogicalXor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnLogicalNot, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceLogicalNot, aclTensor *target);
CANN_OP(aclnnAbs, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnCeil, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceCeil, aclTensor *target);
CANN_OP(aclnnCos, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceCos, aclTensor *target);
CANN_OP(aclnnErf, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceErf, aclTensor *target);
CANN_OP(aclnnExpm1, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceExpm1, aclTensor *target);
CANN_OP(aclnnFloor, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceFloor, aclTensor *target);
CANN_OP(aclnnIsFinite, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnLog1p, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceLog1p, aclTensor *target);
CANN_OP(aclnnReciprocal, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceReciprocal, const aclTensor *target);
CANN_OP(aclnnRound, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceRound, const aclTensor *target);
CANN_OP(aclnnSign, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnSin, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceSin, aclTensor *target);
CANN_OP(aclnnTan, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceTan, const aclTensor *target);
CANN_OP(aclnnTrunc, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceTrunc, aclTensor *target);
CANN_OP(aclnnEqTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceEqTensor, const aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnNeTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceNeTensor, aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnGeTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceGeTensor, aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnLtTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceLtTensor, const aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnLeTensor, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceLeTensor, aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnEqScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnInplaceEqScalar, const aclTensor *target, const aclScalar *rhs);
CANN_OP(aclnnNeScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnInplaceNeScalar, aclTensor *target, const aclScalar *rhs);
CANN_OP(aclnnGtScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnInplaceGtScalar, aclTensor *target, const aclScalar *rhs);
CANN_OP(aclnnGeScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnInplaceGeScalar, aclTensor *target, const aclScalar *rhs);
CANN_OP(aclnnLtScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnInplaceLtScalar, const aclTensor *target, const aclScalar *rhs);
CANN_OP(aclnnLeScalar, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnInplaceLeScalar, aclTensor *target, const aclScalar *rhs);
CANN_OP(aclnnAcos, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceAcos, aclTensor *target);
CANN_OP(aclnnAcosh, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceAcosh, aclTensor *target);
CANN_OP(aclnnAsin, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceAsin, aclTensor *target);
CANN_OP(aclnnAsinh, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceAsinh, aclTensor *target);
CANN_OP(aclnnAtan, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceAtan, aclTensor *target);
CANN_OP(aclnnAtanh, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceAtanh, aclTensor *target);
CANN_OP(aclnnCosh, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceCosh, aclTensor *target);
CANN_OP(aclnnSinh, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceSinh, aclTensor *target);
CANN_OP(aclnnAtan2, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceAtan2, aclTensor *target, aclTensor *rhs);
CANN_OP(aclnnRsub, const aclTensor *input, const aclTensor *rhs, const aclScalar *alpha,
        aclTensor *output);
CANN_OP(aclnnRsubs, const aclTensor *input, const aclScalar *rhs, const aclScalar *alpha,
        aclTensor *output);
CANN_OP(aclnnAddcmul, const aclTensor *input, const aclTensor *left, const aclTensor *right,
        const aclScalar *scale, aclTensor *output);
CANN_OP(aclnnInplaceAddcmul, const aclTensor *target, const aclTensor *left, const aclTensor *right,
        const aclScalar *scale);
CANN_OP(aclnnAddcdiv, const aclTensor *input, const aclTensor *left, const aclTensor *right,
        const aclScalar *scale, aclTensor *output);
CANN_OP(aclnnInplaceAddcdiv, const aclTensor *target, const aclTensor *left, const aclTensor *right,
        const aclScalar *scale);
CANN_OP(aclnnLerps, const aclTensor *input, const aclTensor *end, const aclScalar *weight,
        aclTensor *output);
CANN_OP(aclnnInplaceLerps, aclTensor *target, const aclTensor *end, const aclScalar *weight);
CANN_OP(aclnnFloorDivide, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnInplaceFloorDivide, aclTensor *target, const aclTensor *rhs);
CANN_OP(aclnnFloorDivides, const aclTensor *input, const aclScalar *rhs, aclTensor *output);
CANN_OP(aclnnInplaceFloorDivides, aclTensor *target, const aclScalar *rhs);
CANN_OP(aclnnEqual, const aclTensor *input, const aclTensor *rhs, aclTensor *output);
CANN_OP(aclnnLog2, const aclTensor *input, const aclTensor *output);
CANN_OP(aclnnInplaceLog2, const aclTensor *target);
CANN_OP(aclnnLog10, const aclTensor *input, const aclTensor *output);
CANN_OP(aclnnInplaceLog10, const aclTensor *target);
CANN_OP(aclnnExp2, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnInplaceExp2, aclTensor *target);
CANN_OP(aclnnNanToNum, const aclTensor *input, float nan, float positive_infinity,
        float negative_infinity, aclTensor *output);
CANN_OP(aclnnInplaceNanToNum, aclTensor *target, float nan, float positive_infinity,
        float negative_infinity);
CANN_OP(aclnnIsClose, const aclTensor *input, const aclTensor *rhs, double relative,
        double absolute, bool equal_nan, aclTensor *output);

CANN_END

#endif
