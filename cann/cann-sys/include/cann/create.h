/* Filling a tensor. */
#ifndef BURN_CANN_CREATE_H
#define BURN_CANN_CREATE_H

#include "cann/op.h"

CANN_BEGIN

CANN_OP(aclnnInplaceZero, aclTensor *target);
CANN_OP(aclnnInplaceFillScalar, aclTensor *target, const aclScalar *fill);
CANN_OP(aclnnInplaceFillTensor, aclTensor *target, const aclTensor *fill);
CANN_OP(aclnnInplaceOne, const aclTensor *target);
CANN_OP(aclnnInplaceMaskedFillTensor, aclTensor *target, const aclTensor *mask,
        const aclTensor *fill);
CANN_OP(aclnnArange, const aclScalar *start, const aclScalar *end, const aclScalar *step,
        aclTensor *output);
CANN_OP(aclnnInplaceNormal, const aclTensor *target, float mean, float deviation, int64_t seed,
        int64_t generator_offset);
CANN_OP(aclnnInplaceUniform, const aclTensor *target, double low, double high, uint64_t seed,
        uint64_t generator_offset);
CANN_OP(aclnnInplaceMaskedFillScalar, aclTensor *target, const aclTensor *mask,
        const aclScalar *fill);
CANN_OP(aclnnInplaceRandom, const aclTensor *target, int64_t low, int64_t high, int64_t seed,
        int64_t generator_offset);
CANN_OP(aclnnInplaceBernoulli, const aclTensor *target, const aclScalar *probability, int64_t seed,
        int64_t generator_offset);
CANN_OP(aclnnMultinomial, const aclTensor *input, int64_t draws, bool replacement, int64_t seed,
        int64_t generator_offset, aclTensor *output);
CANN_OP(aclnnLinspace, const aclScalar *start, const aclScalar *end, int64_t steps,
        aclTensor *output);
CANN_OP(aclnnEye, int64_t rows, int64_t columns, aclTensor *output);

CANN_END

#endif
