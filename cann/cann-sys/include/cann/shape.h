/* Copies, conversions and operators that move elements without arithmetic. */
#ifndef BURN_CANN_SHAPE_H
#define BURN_CANN_SHAPE_H

#include "cann/op.h"

CANN_BEGIN

CANN_OP(aclnnInplaceCopy, aclTensor *target, const aclTensor *src);
CANN_OP(aclnnCast, const aclTensor *input, aclDataType to_dtype, aclTensor *output);
CANN_OP(aclnnCat, const aclTensorList *tensors, int64_t axis, aclTensor *output);
CANN_OP(aclnnStack, const aclTensorList *tensors, int64_t axis, aclTensor *output);
CANN_OP(aclnnPermute, const aclTensor *input, const aclIntArray *axes, aclTensor *output);
CANN_OP(aclnnSlice, const aclTensor *input, int64_t axis, int64_t start, int64_t end, int64_t step,
        aclTensor *output);
CANN_OP(aclnnExpand, const aclTensor *input, const aclIntArray *shape, aclTensor *output);
CANN_OP(aclnnTriu, const aclTensor *input, int64_t diagonal, aclTensor *output);
CANN_OP(aclnnInplaceTriu, aclTensor *target, int64_t diagonal);
CANN_OP(aclnnTril, const aclTensor *input, int64_t diagonal, aclTensor *output);
CANN_OP(aclnnInplaceTril, const aclTensor *target, int64_t diagonal);
CANN_OP(aclnnFlip, const aclTensor *input, const aclIntArray *axes, aclTensor *output);
CANN_OP(aclnnRepeat, const aclTensor *input, const aclIntArray *repeats, aclTensor *output);
CANN_OP(aclnnRoll, const aclTensor *input, const aclIntArray *shifts, const aclIntArray *axes,
        aclTensor *output);
CANN_OP(aclnnRepeatInterleaveIntWithDim, const aclTensor *input, int64_t repeats, int64_t axis,
        int64_t output_size, aclTensor *output);
CANN_OP(aclnnConstantPadNd, const aclTensor *input, const aclIntArray *pad, const aclScalar *value,
        aclTensor *output);

CANN_END

#endif
