/* What programs report to CANN's profiler (libprofapi.so). Programs need none of it, but torch_npu links it. Zero is
 * success. */
#ifndef BURN_CANN_PROFILING_H
#define BURN_CANN_PROFILING_H

#include "cann/types.h"

CANN_BEGIN

/* A report about a call. Its layout matters only to those who write and read it. */
typedef struct MsprofApi MsprofApi;

/* What the profiler calls when it starts or stops. */
typedef int32_t (*ProfCommandHandle)(uint32_t type, void *data, uint32_t length);

int32_t MsprofRegisterCallback(uint32_t module, ProfCommandHandle callback);
int32_t MsprofReportApi(uint32_t ageing, const MsprofApi *report);
int32_t MsprofReportCompactInfo(uint32_t ageing, const void *data, uint32_t length);
int32_t MsprofReportAdditionalInfo(uint32_t ageing, const void *data, uint32_t length);
/* A number that stands for a text. */
uint64_t MsprofGetHashId(const char *text, size_t length);
/* The time, in ticks. */
uint64_t MsprofSysCycleTime(void);

CANN_END

#endif
