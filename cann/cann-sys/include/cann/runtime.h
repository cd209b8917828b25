/* Devices, memory, streams and events (libascendcl.so). */
#ifndef BURN_CANN_RUNTIME_H
#define BURN_CANN_RUNTIME_H

#include "cann/types.h"

CANN_BEGIN

#define ACL_EVENT_SYNC 0x00000001u
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 0x00000002u
#define ACL_EVENT_TIME_LINE 0x00000008u
/* The modes of a stream after a task has failed. */
#define ACL_CONTINUE_ON_FAILURE 0x00000000u
#define ACL_STOP_ON_FAILURE 0x00000001u
/* The purposes of registered host memory. */
#define ACL_HOST_REG_MAPPED 0x2UL
#define ACL_HOST_REG_PINNED 0x10000000UL
#define ACL_STREAM_FAST_LAUNCH 0x00000001u
#define ACL_STREAM_FAST_SYNC 0x00000002u
#define ACL_PKG_VERSION_MAX_SIZE 128
#define ACL_PKG_VERSION_PARTS_MAX_SIZE 64

typedef enum aclCANNPackageName {
    ACL_PKG_NAME_CANN = 0,
    ACL_PKG_NAME_RUNTIME = 1,
    ACL_PKG_NAME_COMPILER = 2,
    ACL_PKG_NAME_HCCL = 3,
    ACL_PKG_NAME_TOOLKIT = 4,
    ACL_PKG_NAME_OPP = 5,
    ACL_PKG_NAME_OPP_KERNEL = 6,
    ACL_PKG_NAME_DRIVER = 7,
} aclCANNPackageName;

typedef struct aclCANNPackageVersion {
    char version[ACL_PKG_VERSION_MAX_SIZE];
    char majorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char minorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char releaseVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char patchVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char reserved[ACL_PKG_VERSION_MAX_SIZE];
} aclCANNPackageVersion;

typedef enum {
    ACL_DEVICE_INFO_UNDEFINED = -1,
    ACL_DEVICE_INFO_AI_CORE_NUM = 0,
    ACL_DEVICE_INFO_VECTOR_CORE_NUM = 1,
    ACL_DEVICE_INFO_L2_SIZE = 2,
} aclDeviceInfo;

typedef enum {
    ACL_OPT_DETERMINISTIC = 0,
    ACL_OPT_ENABLE_DEBUG_KERNEL = 1,
    ACL_OPT_STRONG_CONSISTENCY = 2,
} aclSysParamOpt;

/* The first attributes of a device; the others are not declared here. */
typedef enum {
    ACL_DEV_ATTR_AICPU_CORE_NUM = 1,
    ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
    ACL_DEV_ATTR_CUBE_CORE_NUM = 102,
    ACL_DEV_ATTR_VECTOR_CORE_NUM = 201,
    ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301,
    ACL_DEV_ATTR_L2_CACHE_SIZE = 302,
    ACL_DEV_ATTR_PHY_CHIP_ID = 402,
    ACL_DEV_ATTR_IS_VIRTUAL = 501,
} aclrtDevAttr;

typedef enum aclrtFloatOverflowMode {
    ACL_RT_OVERFLOW_MODE_SATURATION = 0,
    ACL_RT_OVERFLOW_MODE_INFNAN = 1,
    ACL_RT_OVERFLOW_MODE_UNDEF = 2,
} aclrtFloatOverflowMode;

typedef enum {
    ACL_RT_DEV_RES_CUBE_CORE = 0,
    ACL_RT_DEV_RES_VECTOR_CORE = 1,
} aclrtDevResLimitType;

typedef enum {
    ACL_RT_STREAM_WORK_ADDR_PTR = 0,
    ACL_RT_STREAM_WORK_SIZE = 1,
    ACL_RT_STREAM_FLAG = 2,
    ACL_RT_STREAM_PRIORITY = 3,
} aclrtStreamConfigAttr;

/* These are made and destroyed by functions. Their contents are private to CANN. */
typedef struct aclrtStreamConfigHandle aclrtStreamConfigHandle;
typedef struct aclDataBuffer aclDataBuffer;

/* Two flags of a byte each, two bytes, the kind of the error as an int, and details that grow. */
typedef struct aclrtErrorInfo aclrtErrorInfo;

typedef enum aclrtLastErrLevel {
    ACL_RT_THREAD_LEVEL = 0,
} aclrtLastErrLevel;

typedef enum aclrtRunMode {
    ACL_DEVICE = 0,
    ACL_HOST = 1,
} aclrtRunMode;

typedef enum aclrtTsId {
    ACL_TS_ID_AICORE = 0,
    ACL_TS_ID_AIVECTOR = 1,
    ACL_TS_ID_RESERVED = 2,
} aclrtTsId;

typedef enum aclrtDeviceStatus {
    ACL_RT_DEVICE_STATUS_NORMAL = 0,
    ACL_RT_DEVICE_STATUS_ABNORMAL = 1,
    ACL_RT_DEVICE_STATUS_END = 0xFFFF,
} aclrtDeviceStatus;

typedef enum aclrtStreamStatus {
    ACL_STREAM_STATUS_COMPLETE = 0,
    ACL_STREAM_STATUS_NOT_READY = 1,
    ACL_STREAM_STATUS_RESERVED = 0xFFFF,
} aclrtStreamStatus;

/* The values are reversed compared with a stream's status. */
typedef enum aclrtEventRecordedStatus {
    ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
    ACL_EVENT_RECORDED_STATUS_COMPLETE = 1,
} aclrtEventRecordedStatus;

/* The values are those of a stream's status. */
typedef enum aclrtEventStatus {
    ACL_EVENT_STATUS_COMPLETE = 0,
    ACL_EVENT_STATUS_NOT_READY = 1,
    ACL_EVENT_STATUS_RESERVED = 2,
} aclrtEventStatus;

typedef enum aclrtEventWaitStatus {
    ACL_EVENT_WAIT_STATUS_COMPLETE = 0,
    ACL_EVENT_WAIT_STATUS_NOT_READY = 1,
    ACL_EVENT_WAIT_STATUS_RESERVED = 0xFFFF,
} aclrtEventWaitStatus;

typedef enum aclrtCallbackBlockType {
    ACL_CALLBACK_NO_BLOCK = 0,
    ACL_CALLBACK_BLOCK = 1,
} aclrtCallbackBlockType;

typedef enum aclrtMemcpyKind {
    ACL_MEMCPY_HOST_TO_HOST = 0,
    ACL_MEMCPY_HOST_TO_DEVICE = 1,
    ACL_MEMCPY_DEVICE_TO_HOST = 2,
    ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
    ACL_MEMCPY_DEFAULT = 4,
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5,
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6,
    ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7,
} aclrtMemcpyKind;

typedef enum aclrtMemMallocPolicy {
    ACL_MEM_MALLOC_HUGE_FIRST = 0,
    ACL_MEM_MALLOC_HUGE_ONLY = 1,
    ACL_MEM_MALLOC_NORMAL_ONLY = 2,
    ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3,
    ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4,
    ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5,
    ACL_MEM_MALLOC_HUGE1G_ONLY = 6,
    ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7,
    ACL_MEM_TYPE_LOW_BAND_WIDTH = 0x0100,
    ACL_MEM_TYPE_HIGH_BAND_WIDTH = 0x1000,
    ACL_MEM_ACCESS_USER_SPACE_READONLY = 0x100000,
} aclrtMemMallocPolicy;

typedef enum aclrtMemAttr {
    ACL_DDR_MEM = 0,
    ACL_HBM_MEM = 1,
    ACL_DDR_MEM_HUGE = 2,
    ACL_DDR_MEM_NORMAL = 3,
    ACL_HBM_MEM_HUGE = 4,
    ACL_HBM_MEM_NORMAL = 5,
    ACL_DDR_MEM_P2P_HUGE = 6,
    ACL_DDR_MEM_P2P_NORMAL = 7,
    ACL_HBM_MEM_P2P_HUGE = 8,
    ACL_HBM_MEM_P2P_NORMAL = 9,
    ACL_HBM_MEM_HUGE1G = 10,
    ACL_HBM_MEM_P2P_HUGE1G = 11,
} aclrtMemAttr;

typedef enum {
    ACL_RT_MEM_ATTR_RSV = 0,
    ACL_RT_MEM_ATTR_MODULE_ID = 1,
    ACL_RT_MEM_ATTR_DEVICE_ID = 2,
} aclrtMallocAttrType;

typedef union {
    uint16_t moduleId;
    uint32_t deviceId;
    uint8_t rsv[8];
} aclrtMallocAttrValue;

typedef struct {
    aclrtMallocAttrType attr;
    aclrtMallocAttrValue value;
} aclrtMallocAttribute;

typedef struct {
    aclrtMallocAttribute *attrs;
    size_t numAttrs;
} aclrtMallocConfig;

typedef enum aclrtMemLocationType {
    ACL_MEM_LOCATION_TYPE_HOST = 0,
    ACL_MEM_LOCATION_TYPE_DEVICE = 1,
} aclrtMemLocationType;

typedef struct aclrtMemLocation {
    uint32_t id;
    aclrtMemLocationType type;
} aclrtMemLocation;

/* Physical memory, which has no addresses until it is mapped to some. */
typedef void *aclrtDrvMemHandle;

typedef enum aclrtMemHandleType {
    ACL_MEM_HANDLE_TYPE_NONE = 0,
} aclrtMemHandleType;

typedef enum aclrtMemAllocationType {
    ACL_MEM_ALLOCATION_TYPE_PINNED = 0,
} aclrtMemAllocationType;

typedef struct aclrtPhysicalMemProp {
    aclrtMemHandleType handleType;
    aclrtMemAllocationType allocationType;
    aclrtMemAttr memAttr;
    aclrtMemLocation location;
    uint64_t reserve;
} aclrtPhysicalMemProp;

typedef enum aclrtMemGranularityOptions {
    ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
    ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
    ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF = 0xFFFF,
} aclrtMemGranularityOptions;

/* The locations of both ends of a batch's copies. */
typedef struct {
    aclrtMemLocation dstLoc;
    aclrtMemLocation srcLoc;
    uint8_t rsv[16];
} aclrtMemcpyBatchAttr;

/* Kinds of device memory, which can be combined. */
#define ACL_RT_MEM_TYPE_DEV 0x2U
#define ACL_RT_MEM_TYPE_DVPP 0x8U
#define ACL_RT_MEM_TYPE_RSVD 0x10U

typedef struct aclrtPtrAttributes {
    aclrtMemLocation location;
    uint32_t pageSize;
    uint32_t rsv[4];
} aclrtPtrAttributes;

typedef enum {
    ACL_HOST_REGISTER_MAPPED = 0,
} aclrtHostRegisterType;

typedef struct aclrtUtilizationExtendInfo aclrtUtilizationExtendInfo;

/* Percentages. The pointer must be NULL. */
typedef struct aclrtUtilizationInfo {
    int32_t cubeUtilization;
    int32_t vectorUtilization;
    int32_t aicpuUtilization;
    int32_t memoryUtilization;
    aclrtUtilizationExtendInfo *utilizationExtend;
} aclrtUtilizationInfo;

typedef struct aclrtUuid {
    char bytes[16];
} aclrtUuid;

/* Features of CANN on its processor: modes of overflow, bf16, operators as binaries. */
typedef enum {
    ACL_CANN_ATTR_UNDEFINED = -1,
    ACL_CANN_ATTR_INF_NAN = 0,
    ACL_CANN_ATTR_BF16 = 1,
    ACL_CANN_ATTR_JIT_COMPILE = 2,
} aclCannAttr;

typedef enum {
    ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV = 1,
    ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV = 21,
} aclrtDevFeatureType;

/* The registrant of callbacks for the start and the end of the process: parts of CANN, once each, and others. */
typedef enum aclRegisterCallbackType {
    ACL_REG_TYPE_ACL_MODEL = 0,
    ACL_REG_TYPE_ACL_OP_EXECUTOR = 1,
    ACL_REG_TYPE_ACL_OP_CBLAS = 2,
    ACL_REG_TYPE_ACL_OP_COMPILER = 3,
    ACL_REG_TYPE_ACL_TDT_CHANNEL = 4,
    ACL_REG_TYPE_ACL_TDT_QUEUE = 5,
    ACL_REG_TYPE_ACL_DVPP = 6,
    ACL_REG_TYPE_ACL_RETR = 7,
    ACL_REG_TYPE_OTHER = 0xFFFF,
} aclRegisterCallbackType;

typedef aclError (*aclInitCallbackFunc)(const char *config, size_t length, void *user_data);
typedef aclError (*aclFinalizeCallbackFunc)(void *user_data);
typedef void *aclrtDrvMemHandle;
typedef void (*aclrtCallback)(void *user_data);
typedef void (*aclrtHostFunc)(void *user_data);

/* The start and end of the process. A second aclInit returns ACL_ERROR_REPEAT_INITIALIZE. */
aclError aclInit(const char *config_path);
aclError aclFinalize();
aclError aclFinalizeReference(uint64_t *references);

/* Versions and errors. The text belongs to the thread and is valid until its next call. */
aclError aclInitCallbackRegister(aclRegisterCallbackType type, aclInitCallbackFunc function,
                                 void *user_data);
aclError aclInitCallbackUnRegister(aclRegisterCallbackType type, aclInitCallbackFunc function);
aclError aclFinalizeCallbackRegister(aclRegisterCallbackType type, aclFinalizeCallbackFunc function,
                                     void *user_data);
aclError aclFinalizeCallbackUnRegister(aclRegisterCallbackType type,
                                       aclFinalizeCallbackFunc function);
aclError aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch);
aclError aclsysGetCANNVersion(aclCANNPackageName package, aclCANNPackageVersion *version);
aclError aclsysGetVersionStr(char *package, char *version);
aclError aclsysGetVersionNum(char *package, int32_t *version);
const char *aclGetRecentErrMsg();
aclError aclrtPeekAtLastError(aclrtLastErrLevel level);
aclError aclrtGetLastError(aclrtLastErrLevel level);
aclError aclrtGetErrorVerbose(int32_t device, aclrtErrorInfo *error);
size_t aclDataTypeSize(aclDataType data_type);
aclFloat16 aclFloatToFloat16(float value);
float aclFloat16ToFloat(aclFloat16 value);

/* A record of an address and a size. It owns nothing. */
aclDataBuffer *aclCreateDataBuffer(void *data, size_t size);
aclError aclDestroyDataBuffer(const aclDataBuffer *buffer);
aclError aclUpdateDataBuffer(aclDataBuffer *buffer, void *data, size_t size);
void *aclGetDataBufferAddr(const aclDataBuffer *buffer);
uint32_t aclGetDataBufferSize(const aclDataBuffer *buffer);
size_t aclGetDataBufferSizeV2(const aclDataBuffer *buffer);

/* Devices. The current one, and its context, belong to the calling thread. */
aclError aclrtGetDeviceCount(uint32_t *count);
aclError aclrtSetDevice(int32_t device);
aclError aclrtGetDevice(int32_t *device);
aclError aclrtResetDevice(int32_t device);
aclError aclrtResetDeviceForce(int32_t device);
aclError aclrtSynchronizeDevice(void);
aclError aclrtSynchronizeDeviceWithTimeout(int32_t milliseconds);
const char *aclrtGetSocName();
aclError aclGetDeviceCapability(uint32_t device, aclDeviceInfo what, int64_t *value);
aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr what, int64_t *value);
aclError aclrtGetResInCurrentThread(aclrtDevResLimitType what, uint32_t *count);
aclError aclrtGetDeviceUtilizationRate(int32_t device, aclrtUtilizationInfo *rate);
aclError aclrtGetDeviceCapability(int32_t device, aclrtDevFeatureType what, int32_t *value);
aclError aclrtCheckArchCompatibility(const char *soc, int32_t *compatible);
aclError aclGetCannAttributeList(const aclCannAttr **list, size_t *count);
aclError aclGetCannAttribute(aclCannAttr what, int32_t *value);
aclError aclrtQueryDeviceStatus(int32_t device, aclrtDeviceStatus *status);
aclError aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer);
aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags);
aclError aclrtDeviceDisablePeerAccess(int32_t peer);
aclError aclrtGetLogicDevIdByUserDevId(const int32_t user, int32_t *const logic);
aclError aclrtGetUserDevIdByLogicDevId(const int32_t logic, int32_t *const user);
aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logic, int32_t *const physical);
aclError aclrtGetLogicDevIdByPhyDevId(const int32_t physical, int32_t *const logic);
aclError aclrtGetUserDevIdByPhyDevId(const int32_t physical, int32_t *const user);
aclError aclrtGetPhyDevIdByUserDevId(const int32_t user, int32_t *const physical);
aclError aclrtDeviceGetUuid(int32_t device, aclrtUuid *uuid);
aclError aclrtDeviceGetPCIBusId(int32_t device, char *text, int32_t size);
aclError aclrtDeviceGetByPCIBusId(const char *text, int32_t *device);
aclError aclrtGetRunMode(aclrtRunMode *mode);
aclError aclrtSetTsDevice(aclrtTsId id);

/* Contexts. */
aclError aclrtCreateContext(aclrtContext *context, int32_t device);
aclError aclrtDestroyContext(aclrtContext context);
aclError aclrtSetCurrentContext(aclrtContext context);
aclError aclrtGetCurrentContext(aclrtContext *context);
aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream);
aclError aclrtCtxGetSysParamOpt(aclSysParamOpt option, int64_t *value);
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt option, int64_t value);
aclError aclrtGetSysParamOpt(aclSysParamOpt option, int64_t *value);
aclError aclrtSetSysParamOpt(aclSysParamOpt option, int64_t value);

/* Device memory. It is not initialised, and aclrtFree does not wait for streams. */
aclError aclrtMalloc(void **address, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtMallocAlign32(void **address, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtMallocCached(void **address, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtMallocWithCfg(void **address, size_t size, aclrtMemMallocPolicy policy,
                            aclrtMallocConfig *config);
aclError aclrtFree(void *address);
aclError aclrtFreeWithDevSync(void *address);
aclError aclrtGetMemInfo(aclrtMemAttr attribute, size_t *free, size_t *total);
aclError aclrtPointerGetAttributes(const void *address, aclrtPtrAttributes *attributes);
aclError aclrtCheckMemType(void **addresses, uint32_t size, uint32_t type, uint32_t *matches,
                           uint32_t reserved);

/* Addresses that are reserved, and physical memory that is mapped to them and taken away again. Addresses are reserved
 * for normal (0) or huge pages (1); the alignment, the wish for an address, offsets and flags must be zero. All of the
 * physical memory is mapped, and it is unmapped before it is freed or its addresses are released. */
aclError aclrtReserveMemAddress(void **address, size_t size, size_t alignment, void *wish,
                                uint64_t flags);
aclError aclrtReleaseMemAddress(void *address);
aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                             const aclrtPhysicalMemProp *properties, uint64_t flags);
aclError aclrtFreePhysical(aclrtDrvMemHandle handle);
aclError aclrtMapMem(void *address, size_t size, size_t offset, aclrtDrvMemHandle handle,
                     uint64_t flags);
aclError aclrtUnmapMem(void *address);
aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *properties,
                                          aclrtMemGranularityOptions option, size_t *granularity);

/* Physical memory in several processes: one exports a number and lists the processes that may import it. */
aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType type,
                                         uint64_t flags, uint64_t *shareable);
aclError aclrtMemSetPidToShareableHandle(uint64_t shareable, int32_t *processes, size_t count);
aclError aclrtMemImportFromShareableHandle(uint64_t shareable, int32_t device,
                                           aclrtDrvMemHandle *handle);
aclError aclrtDeviceGetBareTgid(int32_t *process);

/* Host memory that copies use without staging. */
aclError aclrtMallocHost(void **address, size_t size);
aclError aclrtMallocHostWithCfg(void **address, uint64_t size, aclrtMallocConfig *config);
aclError aclrtFreeHost(void *address);
aclError aclrtFreeHostWithDevSync(void *address);

/* Host memory from elsewhere, in whole pages of 4 KiB. Only kernels may use a device's address of it. */
aclError aclrtHostRegister(void *address, uint64_t size, aclrtHostRegisterType type,
                           void **device_address);
aclError aclrtHostRegisterV2(void *address, uint64_t size, uint32_t flags);
aclError aclrtHostGetDevicePointer(void *address, void **device_address, uint32_t flags);
aclError aclrtHostUnregister(void *address);

/* Copies and fills. Only those on a stream wait for the stream. */
aclError aclrtMemcpy(void *to, size_t to_size, const void *from, size_t count,
                     aclrtMemcpyKind kind);
aclError aclrtMemcpyAsync(void *to, size_t to_size, const void *from, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream);
aclError aclrtMemcpyAsyncWithCondition(void *to, size_t to_size, const void *from, size_t count,
                                       aclrtMemcpyKind kind, aclrtStream stream);
aclError aclrtMemcpy2d(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                       size_t height, aclrtMemcpyKind kind);
aclError aclrtMemcpy2dAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                            size_t width, size_t height, aclrtMemcpyKind kind, aclrtStream stream);
/* Each attribute applies from the copy at its index on. `failed` receives the index of the copy that
 * failed, or SIZE_MAX if the failure is not that of one copy. */
aclError aclrtMemcpyBatch(void **to, size_t *to_sizes, void **from, size_t *counts, size_t copies,
                          aclrtMemcpyBatchAttr *attributes, size_t *indices, size_t kinds,
                          size_t *failed);
aclError aclrtMemcpyBatchAsync(void **to, size_t *to_sizes, void **from, size_t *counts,
                               size_t copies, aclrtMemcpyBatchAttr *attributes, size_t *indices,
                               size_t kinds, size_t *failed, aclrtStream stream);
aclError aclrtMemcpyBatchV2(void **to, size_t *to_sizes, void **from, size_t *counts,
                            size_t copies, aclrtMemcpyBatchAttr *attributes, size_t *indices,
                            size_t kinds);
aclError aclrtMemcpyBatchAsyncV2(void **to, size_t *to_sizes, void **from, size_t *counts,
                                 size_t copies, aclrtMemcpyBatchAttr *attributes, size_t *indices,
                                 size_t kinds, aclrtStream stream);
/* Copies that a device makes between addresses that are on the device: in a record, or behind a pointer. */
aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *size);
aclError aclrtSetMemcpyDesc(void *record, aclrtMemcpyKind kind, void *from, void *to, size_t count,
                            void *reserved);
aclError aclrtMemcpyAsyncWithDesc(void *record, aclrtMemcpyKind kind, aclrtStream stream);
aclError aclrtMemcpyAsyncWithOffset(void **to, size_t to_size, size_t to_offset, const void **from,
                                    size_t count, size_t from_offset, aclrtMemcpyKind kind,
                                    aclrtStream stream);
aclError aclrtMemset(void *address, size_t size, int32_t value, size_t count);
aclError aclrtMemsetAsync(void *address, size_t size, int32_t value, size_t count,
                          aclrtStream stream);

aclError aclrtMemsetD32(void *address, size_t size, uint32_t value, size_t elements);
aclError aclrtMemsetD32Async(void *address, size_t size, uint32_t value, size_t elements,
                             aclrtStream stream);

/* Streams. */
aclError aclrtCreateStream(aclrtStream *stream);
aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flags);
aclrtStreamConfigHandle *aclrtCreateStreamConfigHandle(void);
aclError aclrtSetStreamConfigOpt(aclrtStreamConfigHandle *config, aclrtStreamConfigAttr what,
                                 const void *value, size_t size);
aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle *config);
aclError aclrtCreateStreamV2(aclrtStream *stream, const aclrtStreamConfigHandle *config);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtDestroyStreamForce(aclrtStream stream);
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status);
aclError aclrtStreamGetId(aclrtStream stream, int32_t *id);
aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority);
aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags);
aclError aclrtGetStreamAvailableNum(uint32_t *count);
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t milliseconds);
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event,
                                         int32_t milliseconds);
aclError aclrtSetOpWaitTimeout(uint32_t seconds);
aclError aclrtSetOpExecuteTimeOut(uint32_t seconds);
aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t milliseconds);
aclError aclrtSetOpExecuteTimeOutV2(uint64_t microseconds, uint64_t *actual);
aclError aclrtGetOpExecuteTimeout(uint32_t *const milliseconds);
aclError aclrtGetOpTimeOutInterval(uint64_t *microseconds);

/* Overflow: what a result beyond its dtype becomes, for streams made later, and whether it is an error of a stream. */
aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode);
aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode);
aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t on);
aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *on);

/* Events. */
aclError aclrtCreateEvent(aclrtEvent *event);
aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flags);
aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flags);
aclError aclrtDestroyEvent(aclrtEvent event);
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status);
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);
aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status);
aclError aclrtSynchronizeEvent(aclrtEvent event);
aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t milliseconds);
aclError aclrtEventElapsedTime(float *milliseconds, aclrtEvent start, aclrtEvent end);

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *microseconds);
aclError aclrtGetEventId(aclrtEvent event, uint32_t *id);
aclError aclrtGetEventAvailNum(uint32_t *count);

/* Host functions in a stream. A thread that has subscribed to the stream runs them. Those of the second kind are run
 * by a thread of CANN if none has subscribed. */
aclError aclrtSubscribeReport(uint64_t thread, aclrtStream stream);
aclError aclrtUnSubscribeReport(uint64_t thread, aclrtStream stream);
aclError aclrtProcessReport(int32_t milliseconds);
aclError aclrtLaunchCallback(aclrtCallback function, void *user_data,
                             aclrtCallbackBlockType blocking, aclrtStream stream);
aclError aclrtSubscribeHostFunc(uint64_t thread, aclrtStream stream);
aclError aclrtUnSubscribeHostFunc(uint64_t thread, aclrtStream stream);
aclError aclrtProcessHostFunc(int32_t milliseconds);
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc function, void *user_data);

CANN_END

#endif
