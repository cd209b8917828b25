/* Error codes of the runtime. 1xxxxx: the caller's fault; 2xxxxx: a missing resource; 5xxxxx: an error inside CANN. */
#ifndef BURN_CANN_ERRORS_H
#define BURN_CANN_ERRORS_H

#include "cann/types.h"

/* the acl layer */
static const aclError ACL_SUCCESS = 0;
static const aclError ACL_ERROR_NONE = 0;
static const aclError ACL_ERROR_INVALID_PARAM = 100000;
static const aclError ACL_ERROR_UNINITIALIZE = 100001;
static const aclError ACL_ERROR_REPEAT_INITIALIZE = 100002;
static const aclError ACL_ERROR_INVALID_FILE = 100003;
static const aclError ACL_ERROR_OP_NOT_FOUND = 100024;
static const aclError ACL_ERROR_OP_LOAD_FAILED = 100025;
static const aclError ACL_ERROR_UNSUPPORTED_DATA_TYPE = 100026;
static const aclError ACL_ERROR_FORMAT_NOT_MATCH = 100027;
static const aclError ACL_ERROR_KERNEL_NOT_FOUND = 100029;
static const aclError ACL_ERROR_REPEAT_SUBSCRIBE = 100033;
static const aclError ACL_ERROR_STREAM_NOT_SUBSCRIBE = 100034;
static const aclError ACL_ERROR_THREAD_NOT_SUBSCRIBE = 100035;
static const aclError ACL_ERROR_WAIT_CALLBACK_TIMEOUT = 100036;
static const aclError ACL_ERROR_REPEAT_FINALIZE = 100037;
static const aclError ACL_ERROR_COMPILING_STUB_MODE = 100039;
static const aclError ACL_ERROR_INVALID_OPP_PATH = 148049;
static const aclError ACL_ERROR_BAD_ALLOC = 200000;
static const aclError ACL_ERROR_API_NOT_SUPPORT = 200001;
static const aclError ACL_ERROR_INVALID_DEVICE = 200002;
static const aclError ACL_ERROR_MEMORY_ADDRESS_UNALIGNED = 200003;
static const aclError ACL_ERROR_RESOURCE_NOT_MATCH = 200004;
static const aclError ACL_ERROR_INVALID_RESOURCE_HANDLE = 200005;
static const aclError ACL_ERROR_FEATURE_UNSUPPORTED = 200006;
static const aclError ACL_ERROR_STORAGE_OVER_LIMIT = 300000;
static const aclError ACL_ERROR_INTERNAL_ERROR = 500000;
static const aclError ACL_ERROR_FAILURE = 500001;
static const aclError ACL_ERROR_GE_FAILURE = 500002;
static const aclError ACL_ERROR_RT_FAILURE = 500003;
static const aclError ACL_ERROR_DRV_FAILURE = 500004;
static const aclError ACL_ERROR_PROFILING_FAILURE = 500005;

/* the runtime layer below it */
static const aclError ACL_RT_SUCCESS = 0;
static const aclError ACL_ERROR_RT_PARAM_INVALID = 107000;
static const aclError ACL_ERROR_RT_INVALID_DEVICEID = 107001;
static const aclError ACL_ERROR_RT_CONTEXT_NULL = 107002;
static const aclError ACL_ERROR_RT_STREAM_CONTEXT = 107003;
static const aclError ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID = 107006;
static const aclError ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL = 107007;
static const aclError ACL_ERROR_RT_ADDR_UNALIGNED = 107008;
static const aclError ACL_ERROR_RT_STREAM_SUBSCRIBE = 107011;
static const aclError ACL_ERROR_RT_THREAD_SUBSCRIBE = 107012;
static const aclError ACL_ERROR_RT_STREAM_NO_CB_REG = 107015;
static const aclError ACL_ERROR_RT_INVALID_MEMORY_TYPE = 107016;
static const aclError ACL_ERROR_RT_INVALID_HANDLE = 107017;
static const aclError ACL_ERROR_RT_INVALID_MALLOC_TYPE = 107018;
static const aclError ACL_ERROR_RT_WAIT_TIMEOUT = 107019;
static const aclError ACL_ERROR_RT_TASK_TIMEOUT = 107020;
static const aclError ACL_ERROR_RT_SYSPARAMOPT_NOT_SET = 107021;
static const aclError ACL_ERROR_RT_DEVICE_TASK_ABORT = 107022;
static const aclError ACL_ERROR_RT_STREAM_ABORT = 107023;
static const aclError ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000;
static const aclError ACL_ERROR_RT_MEMORY_ALLOCATION = 207001;
static const aclError ACL_ERROR_RT_MEMORY_FREE = 207002;
static const aclError ACL_ERROR_RT_AICORE_OVER_FLOW = 207003;
static const aclError ACL_ERROR_RT_NO_DEVICE = 207004;
static const aclError ACL_ERROR_RT_RESOURCE_ALLOC_FAIL = 207005;
static const aclError ACL_ERROR_RT_NO_PERMISSION = 207006;
static const aclError ACL_ERROR_RT_NO_EVENT_RESOURCE = 207007;
static const aclError ACL_ERROR_RT_NO_STREAM_RESOURCE = 207008;
static const aclError ACL_ERROR_RT_OVER_LIMIT = 207012;
static const aclError ACL_ERROR_RT_REPEATED_INIT = 207015;
static const aclError ACL_ERROR_RT_DEVICE_OOM = 207018;
static const aclError ACL_ERROR_RT_INTERNAL_ERROR = 507000;
static const aclError ACL_ERROR_RT_STREAM_TASK_FULL = 507002;
static const aclError ACL_ERROR_RT_STREAM_NOT_COMPLETE = 507004;
static const aclError ACL_ERROR_RT_EVENT_NOT_COMPLETE = 507006;
static const aclError ACL_ERROR_RT_SOC_VERSION = 507008;
static const aclError ACL_ERROR_RT_LOST_HEARTBEAT = 507010;
static const aclError ACL_ERROR_RT_REPORT_TIMEOUT = 507012;
static const aclError ACL_ERROR_RT_AICORE_TIMEOUT = 507014;
static const aclError ACL_ERROR_RT_AICORE_EXCEPTION = 507015;
static const aclError ACL_ERROR_RT_AICPU_TIMEOUT = 507017;
static const aclError ACL_ERROR_RT_AICPU_EXCEPTION = 507018;
static const aclError ACL_ERROR_RT_VECTOR_CORE_TIMEOUT = 507034;
static const aclError ACL_ERROR_RT_VECTOR_CORE_EXCEPTION = 507035;
static const aclError ACL_ERROR_RT_STREAM_SYNC_TIMEOUT = 507046;
static const aclError ACL_ERROR_RT_EVENT_SYNC_TIMEOUT = 507047;
static const aclError ACL_ERROR_RT_DEVICE_MEM_ERROR = 507053;
static const aclError ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR = 507054;
static const aclError ACL_ERROR_RT_LINK_ERROR = 507056;
static const aclError ACL_ERROR_RT_DRV_INTERNAL_ERROR = 507899;
static const aclError ACL_ERROR_RT_AICPU_INTERNAL_ERROR = 507900;
static const aclError ACL_ERROR_RT_SOCKET_CLOSE = 507901;

#endif
