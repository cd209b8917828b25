/* Selecting, scattering and embedding rows. */
#ifndef BURN_CANN_INDEX_H
#define BURN_CANN_INDEX_H

#include "cann/op.h"

CANN_BEGIN

CANN_OP(aclnnIndexSelect, const aclTensor *input, int64_t axis, const aclTensor *index,
        aclTensor *output);
CANN_OP(aclnnGather, const aclTensor *input, int64_t axis, const aclTensor *index,
        aclTensor *output);
CANN_OP(aclnnScatterAdd, const aclTensor *input, int64_t axis, const aclTensor *index,
        const aclTensor *src, aclTensor *output);
CANN_OP(aclnnIndexAdd, const aclTensor *input, int64_t axis, const aclTensor *index,
        const aclTensor *source, const aclScalar *alpha, aclTensor *output);
CANN_OP(aclnnEmbedding, const aclTensor *weight, const aclTensor *indices, const aclTensor *output);
CANN_OP(aclnnEmbeddingDenseBackward, const aclTensor *gradient, const aclTensor *indices,
        uint64_t num_weights, uint64_t padding_idx, bool scale_grad_by_freq,
        const aclTensor *output);
CANN_OP(aclnnSWhere, const aclTensor *condition, const aclTensor *input, const aclTensor *rhs,
        aclTensor *output);
CANN_OP(aclnnScatter, const aclTensor *input, int64_t axis, const aclTensor *index,
        const aclTensor *src, int64_t reduction, aclTensor *output);
CANN_OP(aclnnIndexPutImpl, aclTensor *target, const aclTensorList *indices,
        const aclTensor *values, bool accumulate, bool unchecked);

CANN_END

#endif
