/* The two phases of an aclnn operation. */
#ifndef BURN_CANN_OP_H
#define BURN_CANN_OP_H

#include "cann/types.h"

/* Declares both phases of an operation. The first checks the operands, returns the size of the workspace and makes an
 * executor. The second enqueues the work and frees the executor, even if it fails. `workspace` may be NULL only if the
 * size is zero. */
#define CANN_OP(name, ...)                                                                         \
    aclnnStatus name##GetWorkspaceSize(__VA_ARGS__, uint64_t *workspace_size,                      \
                                       aclOpExecutor **executor);                                  \
    aclnnStatus name(void *workspace, uint64_t workspace_size, aclOpExecutor *executor,            \
                     aclrtStream stream)

#endif
