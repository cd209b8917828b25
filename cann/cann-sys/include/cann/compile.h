/* Operators by name, which CANN compiles when they are called: descriptions, attributes and options. Programs that
 * use aclnn operators need none of them, but torch_npu links them. */
#ifndef BURN_CANN_COMPILE_H
#define BURN_CANN_COMPILE_H

#include "cann/runtime.h"

CANN_BEGIN

/* Objects behind pointers. Their layout is private to CANN. */
typedef struct aclTensorDesc aclTensorDesc;
typedef struct aclopAttr aclopAttr;

typedef enum {
    ACL_MEMTYPE_DEVICE = 0,
    ACL_MEMTYPE_HOST = 1,
    ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT = 2,
} aclMemType;

typedef enum {
    ACL_ENGINE_SYS = 0,
    ACL_ENGINE_AICORE = 1,
    ACL_ENGINE_VECTOR = 2,
} aclopEngineType;

typedef enum {
    ACL_COMPILE_SYS = 0,
    ACL_COMPILE_UNREGISTERED = 1,
} aclopCompileType;

typedef enum {
    ACL_PRECISION_MODE = 0,
    ACL_AICORE_NUM = 1,
    ACL_AUTO_TUNE_MODE = 2, /* no longer taken */
    ACL_OP_SELECT_IMPL_MODE = 3,
    ACL_OPTYPELIST_FOR_IMPLMODE = 4,
    ACL_OP_DEBUG_LEVEL = 5,
    ACL_DEBUG_DIR = 6,
    ACL_OP_COMPILER_CACHE_MODE = 7,
    ACL_OP_COMPILER_CACHE_DIR = 8,
    ACL_OP_PERFORMANCE_MODE = 9,
    ACL_OP_JIT_COMPILE = 10,
    ACL_OP_DETERMINISTIC = 11,
    ACL_CUSTOMIZE_DTYPES = 12,
    ACL_OP_PRECISION_MODE = 13,
    ACL_ALLOW_HF32 = 14,
    ACL_PRECISION_MODE_V2 = 15,
    ACL_OP_DEBUG_OPTION = 16,
} aclCompileOpt;

/* Descriptions of tensors, without data. */
aclTensorDesc *aclCreateTensorDesc(aclDataType dtype, int axes, const int64_t *shape,
                                   aclFormat format);
void aclDestroyTensorDesc(const aclTensorDesc *description);
aclDataType aclGetTensorDescType(const aclTensorDesc *description);
aclFormat aclGetTensorDescFormat(const aclTensorDesc *description);
size_t aclGetTensorDescSize(const aclTensorDesc *description);
size_t aclGetTensorDescElementCount(const aclTensorDesc *description);
size_t aclGetTensorDescNumDims(const aclTensorDesc *description);
aclError aclGetTensorDescDimV2(const aclTensorDesc *description, size_t axis, int64_t *length);
void aclSetTensorDescName(aclTensorDesc *description, const char *name);
const char *aclGetTensorDescName(aclTensorDesc *description);
aclError aclSetTensorFormat(aclTensorDesc *description, aclFormat format);
aclError aclSetTensorShape(aclTensorDesc *description, int axes, const int64_t *shape);
aclError aclSetTensorPlaceMent(aclTensorDesc *description, aclMemType place);

/* Attributes by name. */
aclopAttr *aclopCreateAttr();
void aclopDestroyAttr(const aclopAttr *attributes);
aclError aclopSetAttrBool(aclopAttr *attributes, const char *name, uint8_t value);
aclError aclopSetAttrInt(aclopAttr *attributes, const char *name, int64_t value);
aclError aclopSetAttrFloat(aclopAttr *attributes, const char *name, float value);
aclError aclopSetAttrString(aclopAttr *attributes, const char *name, const char *value);
aclError aclopSetAttrDataType(aclopAttr *attributes, const char *name, aclDataType value);
aclError aclopSetAttrListBool(aclopAttr *attributes, const char *name, int count,
                              const uint8_t *values);
aclError aclopSetAttrListInt(aclopAttr *attributes, const char *name, int count,
                             const int64_t *values);
aclError aclopSetAttrListFloat(aclopAttr *attributes, const char *name, int count,
                               const float *values);
aclError aclopSetAttrListString(aclopAttr *attributes, const char *name, int count,
                                const char **values);
aclError aclopSetAttrListListInt(aclopAttr *attributes, const char *name, int lists,
                                 const int *counts, const int64_t *const values[]);

/* Compiles an operator and enqueues its work. The second form also writes the shapes of results. */
aclError aclopCompileAndExecute(const char *name, int inputs,
                                const aclTensorDesc *const input_descriptions[],
                                const aclDataBuffer *const input_data[], int outputs,
                                const aclTensorDesc *const output_descriptions[],
                                aclDataBuffer *const output_data[], const aclopAttr *attributes,
                                aclopEngineType engine, aclopCompileType kind, const char *path,
                                aclrtStream stream);
aclError aclopCompileAndExecuteV2(const char *name, int inputs, aclTensorDesc *input_descriptions[],
                                  aclDataBuffer *input_data[], int outputs,
                                  aclTensorDesc *output_descriptions[],
                                  aclDataBuffer *output_data[], aclopAttr *attributes,
                                  aclopEngineType engine, aclopCompileType kind, const char *path,
                                  aclrtStream stream);

/* Options of the compiler, as text. The size is that of the place for a value, zero if none was set. */
aclError aclSetCompileopt(aclCompileOpt option, const char *value);
size_t aclGetCompileoptSize(aclCompileOpt option);
aclError aclGetCompileopt(aclCompileOpt option, char *value, size_t length);

/* Dumps of the data of operators into files. */
aclError aclmdlInitDump();
aclError aclmdlSetDump(const char *configuration);
aclError aclmdlFinalizeDump();

CANN_END

#endif
