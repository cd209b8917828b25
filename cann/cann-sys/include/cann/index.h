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
CANN_OP(aclnnIndex, const aclTensor *input, const aclTensorList *indices, aclTensor *output);
CANN_OP(aclnnMaskedSelect, const aclTensor *input, const aclTensor *mask, aclTensor *output);
CANN_OP(aclnnNonzero, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnUnique2, const aclTensor *input, bool sorted, bool return_inverse, bool return_counts,
        aclTensor *values_out, aclTensor *inverse_out, aclTensor *counts_out);
CANN_OP(aclnnNonzeroV2, const aclTensor *input, aclTensor *output);
CANN_OP(aclnnOneHot, const aclTensor *input, int classes, const aclTensor *on, const aclTensor *off,
        int64_t axis, aclTensor *output);
CANN_OP(aclnnInplaceScatter, aclTensor *target, int64_t axis, const aclTensor *index,
        const aclTensor *src, int64_t reduction);
CANN_OP(aclnnScatterValue, const aclTensor *input, int64_t axis, const aclTensor *index,
        const aclScalar *value, int64_t reduction, aclTensor *output);
CANN_OP(aclnnInplaceScatterValue, aclTensor *target, int64_t axis, const aclTensor *index,
        const aclScalar *value, int64_t reduction);
CANN_OP(aclnnInplaceMaskedScatter, aclTensor *target, const aclTensor *mask,
        const aclTensor *source);
CANN_OP(aclnnIndexFillTensor, const aclTensor *input, int64_t axis, const aclIntArray *index,
        const aclScalar *fill, aclTensor *output);
CANN_OP(aclnnInplaceIndexFillTensor, aclTensor *target, int64_t axis, const aclIntArray *index,
        const aclScalar *fill);
CANN_OP(aclnnIndexFill, const aclTensor *input, int64_t axis, const aclTensor *index,
        const aclScalar *fill, aclTensor *output);
CANN_OP(aclnnInplaceIndexFill, aclTensor *target, int64_t axis, const aclTensor *index,
        const aclScalar *fill);

CANN_END

#endif
