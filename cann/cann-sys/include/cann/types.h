/* Handles, dtypes and formats that every other header uses. */
#ifndef BURN_CANN_TYPES_H
#define BURN_CANN_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define CANN_BEGIN extern "C" {
#define CANN_END }
#else
#define CANN_BEGIN
#define CANN_END
#endif

CANN_BEGIN

/* The status of a call, for the runtime and for aclnn. Zero is success. */
typedef int aclError;
typedef int32_t aclnnStatus;

/* Handles of the runtime. A NULL stream is the default stream of the current context. */
typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef void *aclrtContext;

/* An IEEE half-precision number, as its bits. */
typedef uint16_t aclFloat16;

/* Objects behind pointers. Their layout is private to CANN. */
typedef struct aclTensor aclTensor;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalar aclScalar;
typedef struct aclScalarList aclScalarList;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclOpExecutor aclOpExecutor;

typedef enum {
    ACL_DT_UNDEFINED = -1,
    /* floating point */
    ACL_FLOAT = 0,
    ACL_FLOAT16 = 1,
    ACL_BF16 = 27,
    ACL_DOUBLE = 11,
    /* signed integers */
    ACL_INT4 = 29,
    ACL_INT8 = 2,
    ACL_INT16 = 6,
    ACL_INT32 = 3,
    ACL_INT64 = 9,
    /* unsigned integers */
    ACL_UINT1 = 30,
    ACL_UINT8 = 4,
    ACL_UINT16 = 7,
    ACL_UINT32 = 8,
    ACL_UINT64 = 10,
    /* the rest */
    ACL_BOOL = 12,
    ACL_STRING = 13,
    ACL_COMPLEX32 = 33,
    ACL_COMPLEX64 = 16,
    ACL_COMPLEX128 = 17,
    /* CANN 8.5 and later */
    ACL_HIFLOAT8 = 34,
    ACL_FLOAT8_E5M2 = 35,
    ACL_FLOAT8_E4M3FN = 36,
    ACL_FLOAT8_E8M0 = 37,
    ACL_FLOAT6_E3M2 = 38,
    ACL_FLOAT6_E2M3 = 39,
    ACL_FLOAT4_E2M1 = 40,
    ACL_FLOAT4_E1M2 = 41,
} aclDataType;

typedef enum {
    ACL_FORMAT_UNDEFINED = -1,
    /* axes without a meaning: the format that this project uses */
    ACL_FORMAT_ND = 2,
    /* named axes */
    ACL_FORMAT_NC = 35,
    ACL_FORMAT_NCL = 47,
    ACL_FORMAT_NCHW = 0,
    ACL_FORMAT_NHWC = 1,
    ACL_FORMAT_HWCN = 16,
    ACL_FORMAT_NCDHW = 30,
    ACL_FORMAT_NDHWC = 27,
    /* tiled for the matrix unit */
    ACL_FORMAT_NC1HWC0 = 3,
    ACL_FORMAT_NC1HWC0_C04 = 12,
    ACL_FORMAT_NDC1HWC0 = 32,
    ACL_FORMAT_FRACTAL_Z = 4,
    ACL_FORMAT_FRACTAL_NZ = 29,
    ACL_FRACTAL_Z_3D = 33,
} aclFormat;

CANN_END

#endif
