/* The library before aclInit, and in a destructor, which runs when the thread has given up its own variables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cann/errors.h"
#include "cann/runtime.h"

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            _Exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void at_exit(void)
{
    const char *text;
    EXPECT(aclGetRecentErrMsg() == NULL);
    EXPECT(aclrtFree((void *)8) != ACL_SUCCESS);
    text = aclGetRecentErrMsg();
    EXPECT(text && strstr(text, "aclrtFree"));
    EXPECT(aclrtGetLastError(ACL_RT_THREAD_LEVEL) != ACL_SUCCESS);
    EXPECT(aclrtGetLastError(ACL_RT_THREAD_LEVEL) == ACL_SUCCESS);
    puts("at exit");
}

int main(void)
{
    uint32_t devices = 0;
    int32_t device = -1;
    void *memory, *host;
    aclrtStream stream;
    float there = 2.5f, back = 0;

    EXPECT(atexit(at_exit) == 0);
    /* Without aclInit. */
    EXPECT(aclrtGetDeviceCount(&devices) == ACL_SUCCESS && devices == 2);
    EXPECT(aclrtMalloc(&memory, 4, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT(aclrtSetDevice(1) == ACL_SUCCESS);
    EXPECT(aclrtGetDevice(&device) == ACL_SUCCESS && device == 1);
    EXPECT(aclrtMalloc(&memory, 4, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    EXPECT(aclrtMemcpy(memory, 4, &there, 4, ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS);
    EXPECT(aclFinalize() == ACL_ERROR_UNINITIALIZE);

    /* What is in use stays. */
    EXPECT(aclInit(NULL) == ACL_SUCCESS);
    EXPECT(aclInit(NULL) == ACL_ERROR_REPEAT_INITIALIZE);
    EXPECT(aclrtCreateStream(&stream) == ACL_SUCCESS);
    EXPECT(aclrtMallocHost(&host, 4) == ACL_SUCCESS);
    EXPECT(aclrtMemcpyAsync(host, 4, memory, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream) == ACL_SUCCESS);
    EXPECT(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
    memcpy(&back, host, 4);
    EXPECT(back == there);
    EXPECT(aclrtFreeHost(host) == ACL_SUCCESS && aclrtFree(memory) == ACL_SUCCESS);
    EXPECT(aclrtDestroyStream(stream) == ACL_SUCCESS && aclrtResetDevice(1) == ACL_SUCCESS);
    EXPECT(aclFinalize() == ACL_SUCCESS);
    EXPECT(aclrtSetDevice(0) == ACL_ERROR_UNINITIALIZE);
    /* The message is read, so that the thread has none left. */
    EXPECT(aclGetRecentErrMsg() != NULL);
    puts("done");
    return 0;
}
