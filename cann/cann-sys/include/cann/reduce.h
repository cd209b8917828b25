/* Reductions, sorting and counting. */
#ifndef BURN_CANN_REDUCE_H
#define BURN_CANN_REDUCE_H

#include "cann/op.h"

CANN_BEGIN

CANN_OP(aclnnReduceSum, const aclTensor *input, const aclIntArray *axes, bool keep,
        aclDataType to_dtype, aclTensor *output);
CANN_OP(aclnnMean, const aclTensor *input, const aclIntArray *axis, bool keep, aclDataType to_dtype,
        aclTensor *output);
CANN_OP(aclnnMeanV2, const aclTensor *input, const aclIntArray *axis, bool keep,
        bool noop_with_empty_axes, aclTensor *output);
CANN_OP(aclnnAmax, const aclTensor *input, const aclIntArray *axis, bool keep, aclTensor *output);
CANN_OP(aclnnMaxDim, const aclTensor *input, int64_t axis, bool keep, aclTensor *output,
        aclTensor *indices);
CANN_OP(aclnnArgMax, const aclTensor *input, int64_t axis, bool keep, aclTensor *output);
CANN_OP(aclnnArgsort, const aclTensor *input, int64_t axis, bool descending, aclTensor *output);
CANN_OP(aclnnSort, const aclTensor *input, bool stable, int64_t axis, bool descending,
        aclTensor *values_out, aclTensor *indices_out);
CANN_OP(aclnnTopk, const aclTensor *input, int64_t k, int64_t axis, bool largest, bool sorted,
        aclTensor *values_out, aclTensor *indices_out);
CANN_OP(aclnnHistc, const aclTensor *input, int64_t bins, const aclScalar *low,
        const aclScalar *high, aclTensor *output);
CANN_OP(aclnnBincount, const aclTensor *input, const aclTensor *weights, int64_t minlength,
        aclTensor *output);
CANN_OP(aclnnCumsum, const aclTensor *input, int64_t axis, aclDataType to_dtype, aclTensor *output);
CANN_OP(aclnnCumsumV2, const aclTensor *input, int64_t axis, bool exclusive, bool reverse,
        aclTensor *output);
CANN_OP(aclnnProd, const aclTensor *input, aclDataType to_dtype, aclTensor *output);
CANN_OP(aclnnProdDim, const aclTensor *input, int64_t axis, bool keep, aclDataType to_dtype,
        aclTensor *output);
CANN_OP(aclnnAmin, const aclTensor *input, const aclIntArray *axis, bool keep, aclTensor *output);
CANN_OP(aclnnMinDim, const aclTensor *input, int64_t axis, bool keep, aclTensor *output,
        aclTensor *indices);
CANN_OP(aclnnArgMin, const aclTensor *input, int64_t axis, bool keep, aclTensor *output);
CANN_OP(aclnnAny, const aclTensor *input, const aclIntArray *axis, bool keep, aclTensor *output);
CANN_OP(aclnnAll, const aclTensor *input, const aclIntArray *axis, bool keep, aclTensor *output);
CANN_OP(aclnnVar, const aclTensor *input, const aclIntArray *axis, bool unbiased, bool keep,
        aclTensor *output);
CANN_OP(aclnnCumprod, const aclTensor *input, const aclScalar *axis, aclDataType to_dtype,
        aclTensor *output);
CANN_OP(aclnnInplaceCumprod, aclTensor *target, const aclScalar *axis);
CANN_OP(aclnnMax, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnMin, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnStd, const aclTensor *input, const aclIntArray *axis, int64_t correction, bool keep,
        aclTensor *output);
CANN_OP(aclnnVarCorrection, const aclTensor *input, const aclIntArray *axis, int64_t correction,
        bool keep, aclTensor *output);
CANN_OP(aclnnLinalgVectorNorm, const aclTensor *input, const aclScalar *order,
        const aclIntArray *axes, bool keep, aclDataType to_dtype, aclTensor *output);
CANN_OP(aclnnLogSumExp, const aclTensor *input, const aclIntArray *axes, bool keep,
        aclTensor *output);

CANN_END

#endif
