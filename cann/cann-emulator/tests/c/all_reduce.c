/* A group of two ranks by the published protocol: one thread per device, with the root passed between threads. */
#include <pthread.h>
#include <stdio.h>

#include "cann/errors.h"
#include "cann/hccl.h"
#include "cann/runtime.h"

#define RANKS 2
#define COUNT 8

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int status = (int)(call);                                                                  \
        if (status != 0) {                                                                         \
            const char *text = aclGetRecentErrMsg();                                               \
            fprintf(stderr, "%s: %d: %s\n", #call, status, text ? text : "no text");               \
            return &failed;                                                                        \
        }                                                                                          \
    } while (0)

static int failed;
static HcclRootInfo root;

static void *run(void *argument)
{
    int32_t rank = *(int *)argument;
    float values[COUNT];
    for (int i = 0; i < COUNT; i++) values[i] = (float)(i + rank * 10);
    aclrtStream stream;
    HcclComm comm;
    void *send, *receive;
    CHECK(aclrtSetDevice(rank));
    CHECK(aclrtCreateStream(&stream));
    CHECK(HcclCommInitRootInfo(RANKS, &root, (uint32_t)rank, &comm));
    CHECK(aclrtMalloc(&send, sizeof values, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(&receive, sizeof values, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(send, sizeof values, values, sizeof values, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(HcclAllReduce(send, receive, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(values, sizeof values, receive, sizeof values, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < COUNT; i++) CHECK(values[i] == (float)(2 * i + 10) ? 0 : 1);
    CHECK(HcclCommDestroy(comm));
    CHECK(aclrtFree(send));
    CHECK(aclrtFree(receive));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(rank));
    return NULL;
}

int main(void)
{
    pthread_t threads[RANKS];
    int ranks[RANKS] = {0, 1}, bad = 0;
    if (aclInit(NULL) != 0 || aclrtSetDevice(0) != 0 || HcclGetRootInfo(&root) != HCCL_SUCCESS) return 1;
    for (int i = 0; i < RANKS; i++) bad |= pthread_create(&threads[i], NULL, run, &ranks[i]);
    for (int i = 0; i < RANKS; i++) {
        void *result = NULL;
        bad |= pthread_join(threads[i], &result);
        bad |= result != NULL;
    }
    if (aclrtResetDevice(0) != 0 || aclFinalize() != 0 || bad) return 1;
    puts("done");
    return 0;
}
