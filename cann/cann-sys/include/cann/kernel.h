/* Kernels given as binaries. Programs that use aclnn operators need none of them, but torch_npu links them. The functions
 * rt… are those of libruntime.so, below the acl layer. */
#ifndef BURN_CANN_KERNEL_H
#define BURN_CANN_KERNEL_H

#include "cann/types.h"

CANN_BEGIN

/* The status of a call of the runtime, with the numbers of aclError. */
typedef int32_t rtError_t;
typedef void *rtStream_t;
typedef struct tagRtSmCtrl rtSmDesc_t;

/* The file of a kernel. */
typedef struct tagRtDevBinary {
    uint32_t magic;
    uint32_t version;
    const void *data;
    uint64_t length;
} rtDevBinary_t;

/* A binary, a function of it by the address that stands for it on the host, and a launch by that address. */
rtError_t rtDevBinaryRegister(const rtDevBinary_t *binary, void **handle);
rtError_t rtFunctionRegister(void *handle, const void *stub, const char *name,
                             const void *description, uint32_t mode);
rtError_t rtKernelLaunch(const void *stub, uint32_t blocks, void *arguments, uint32_t size,
                         rtSmDesc_t *shared, rtStream_t stream);
/* The address by which the cores of a kernel wait for each other. */
rtError_t rtGetC2cCtrlAddr(uint64_t *address, uint32_t *length);

typedef void *aclrtBinHandle;
typedef void *aclrtFuncHandle;
typedef struct aclrtBinaryLoadOptions aclrtBinaryLoadOptions;

aclError aclrtBinaryLoadFromData(const void *data, size_t length,
                                 const aclrtBinaryLoadOptions *options, aclrtBinHandle *binary);
aclError aclrtBinaryGetFunction(const aclrtBinHandle binary, const char *name,
                                aclrtFuncHandle *function);
aclError aclrtGetFunctionAddr(aclrtFuncHandle function, void **matrix, void **vector);

CANN_END

#endif
