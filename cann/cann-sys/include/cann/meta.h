/* Operands of aclnn operations, and the executor between the two phases (libnnopbase.so). */
#ifndef BURN_CANN_META_H
#define BURN_CANN_META_H

#include "cann/types.h"

CANN_BEGIN

/* Status codes of aclnn. */
static const aclnnStatus ACLNN_SUCCESS = 0;
static const aclnnStatus ACLNN_ERR_PARAM_NULLPTR = 161001;
static const aclnnStatus ACLNN_ERR_PARAM_INVALID = 161002;
static const aclnnStatus ACLNN_ERR_RUNTIME_ERROR = 361001;
static const aclnnStatus ACLNN_ERR_INNER = 561000;
static const aclnnStatus ACLNN_ERR_INNER_INFERSHAPE_ERROR = 561001;
static const aclnnStatus ACLNN_ERR_INNER_TILING_ERROR = 561002;
static const aclnnStatus ACLNN_ERR_INNER_FIND_KERNEL_ERROR = 561003;
static const aclnnStatus ACLNN_ERR_INNER_CREATE_EXECUTOR = 561101;
static const aclnnStatus ACLNN_ERR_INNER_NULLPTR = 561103;
static const aclnnStatus ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND = 561107;
static const aclnnStatus ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND = 561112;

/* The start and end of the library. Neither call is needed. */
aclnnStatus aclnnInit(const char *config_path);
aclnnStatus aclnnFinalize();

/* A view of device memory. Shapes and strides are copied; `strides` may be NULL for a contiguous view. Strides and
 * offset count elements from `data`. Returns NULL for a bad argument. */
aclTensor *aclCreateTensor(const int64_t *shape, uint64_t rank, aclDataType data_type,
                           const int64_t *strides, int64_t offset, aclFormat format,
                           const int64_t *storage_shape, uint64_t storage_rank, void *data);
aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *shape, uint64_t rank,
                          aclDataType data_type, const int64_t *strides, int64_t offset,
                          aclFormat format, const int64_t *storage_shape, uint64_t storage_rank,
                          void *data);
aclnnStatus aclDestroyTensor(const aclTensor *tensor);

/* The properties of a tensor. C++ allocates the arrays, which C and Rust can't free. */
aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *data_type);
aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format);
aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset);
aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **shape, uint64_t *rank);
aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **strides, uint64_t *rank);
aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **shape, uint64_t *rank);
aclnnStatus aclGetRawTensorAddr(const aclTensor *tensor, void **data);
aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *data);

/* Lists copy the pointers and own the members: destroying a list destroys its members. */
aclTensorList *aclCreateTensorList(const aclTensor *const *tensors, uint64_t count);
aclnnStatus aclGetTensorListSize(const aclTensorList *list, uint64_t *count);
aclnnStatus aclDestroyTensorList(const aclTensorList *list);
aclScalarList *aclCreateScalarList(const aclScalar *const *scalars, uint64_t count);
aclnnStatus aclGetScalarListSize(const aclScalarList *list, uint64_t *count);
aclnnStatus aclDestroyScalarList(const aclScalarList *list);

/* Scalars and arrays on the host. The values are copied. */
aclScalar *aclCreateScalar(void *value, aclDataType data_type);
aclnnStatus aclDestroyScalar(const aclScalar *scalar);
aclIntArray *aclCreateIntArray(const int64_t *values, uint64_t count);
aclnnStatus aclGetIntArraySize(const aclIntArray *array, uint64_t *count);
aclnnStatus aclDestroyIntArray(const aclIntArray *array);
aclFloatArray *aclCreateFloatArray(const float *values, uint64_t count);
aclnnStatus aclGetFloatArraySize(const aclFloatArray *array, uint64_t *count);
aclnnStatus aclDestroyFloatArray(const aclFloatArray *array);
aclBoolArray *aclCreateBoolArray(const bool *values, uint64_t count);
aclnnStatus aclGetBoolArraySize(const aclBoolArray *array, uint64_t *count);
aclnnStatus aclDestroyBoolArray(const aclBoolArray *array);

/* An executor outlives phase two only if it was made repeatable right after phase one. */
aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor);
aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor);

/* Phase two of any operator. The operators' own functions call it. */
aclnnStatus CommonOpExecutorRun(void *workspace, uint64_t workspace_size, aclOpExecutor *executor,
                                aclrtStream stream);

/* Sets addresses of the operands of a repeatable executor. The index counts all operands, the inputs or the outputs;
 * members of a list are given by list and member. The capitalised names are the old ones. */
aclnnStatus aclSetTensorAddr(aclOpExecutor *executor, size_t index, aclTensor *tensor, void *data);
aclnnStatus aclSetInputTensorAddr(aclOpExecutor *executor, size_t index, aclTensor *tensor,
                                  void *data);
aclnnStatus aclSetOutputTensorAddr(aclOpExecutor *executor, size_t index, aclTensor *tensor,
                                   void *data);
aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor *executor, size_t list, size_t member,
                                    aclTensorList *tensors, void *data);
aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor *executor, size_t list, size_t member,
                                         aclTensorList *tensors, void *data);
aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor *executor, size_t list, size_t member,
                                          aclTensorList *tensors, void *data);
aclnnStatus AclSetTensorAddr(aclOpExecutor *executor, size_t index, aclTensor *tensor, void *data);
aclnnStatus AclSetInputTensorAddr(aclOpExecutor *executor, size_t index, aclTensor *tensor,
                                  void *data);
aclnnStatus AclSetOutputTensorAddr(aclOpExecutor *executor, size_t index, aclTensor *tensor,
                                   void *data);
aclnnStatus AclSetDynamicTensorAddr(aclOpExecutor *executor, size_t list, size_t member,
                                    aclTensorList *tensors, void *data);
aclnnStatus AclSetDynamicInputTensorAddr(aclOpExecutor *executor, size_t list, size_t member,
                                         aclTensorList *tensors, void *data);
aclnnStatus AclSetDynamicOutputTensorAddr(aclOpExecutor *executor, size_t list, size_t member,
                                          aclTensorList *tensors, void *data);

CANN_END

#endif
