/* Rotary position embeddings. */
#ifndef BURN_CANN_ROTARY_H
#define BURN_CANN_ROTARY_H

#include "cann/op.h"

CANN_BEGIN

CANN_OP(aclnnRotaryPositionEmbedding, const aclTensor *x, const aclTensor *cos,
        const aclTensor *sin, int64_t mode, aclTensor *output);
CANN_OP(aclnnRotaryPositionEmbeddingV2, const aclTensor *x, const aclTensor *cos,
        const aclTensor *sin, int64_t mode, const aclTensor *rotate, aclTensor *output);
CANN_OP(aclnnRotaryPositionEmbeddingGrad, const aclTensor *dy, const aclTensor *cos,
        const aclTensor *sin, const aclTensor *x_or_null, int64_t mode, const aclTensor *dx_out,
        const aclTensor *dcos_out, const aclTensor *dsin_out);
CANN_OP(aclnnApplyRotaryPosEmb, aclTensor *query_inout, aclTensor *key_inout, const aclTensor *cos,
        const aclTensor *sin, int64_t layout);
CANN_OP(aclnnApplyRotaryPosEmbV2, aclTensor *query_inout, aclTensor *key_inout,
        const aclTensor *cos, const aclTensor *sin, int64_t layout, char *rotary_mode);

CANN_END

#endif
