/* A group of two ranks in two processes: the root goes through a pipe. The child is killed, and the parent hears of it
 * by a status code and not by a signal. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cann/errors.h"
#include "cann/hccl.h"
#include "cann/runtime.h"

#define COUNT 8

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int status = (int)(call);                                                                  \
        if (status != 0) {                                                                         \
            const char *text = aclGetRecentErrMsg();                                               \
            fprintf(stderr, "%s: %d: %s\n", #call, status, text ? text : "no text");               \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static int run(uint32_t rank, int input, int output, pid_t child)
{
    HcclRootInfo root;
    HcclComm comm;
    aclrtStream stream;
    void *data;
    float values[COUNT];
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    if (rank == 0) {
        CHECK(HcclGetRootInfo(&root));
        CHECK(write(output, &root, sizeof root) == sizeof root ? 0 : 1);
    } else {
        size_t got = 0;
        while (got < sizeof root) {
            ssize_t more = read(input, (char *)&root + got, sizeof root - got);
            CHECK(more > 0 ? 0 : 1);
            got += (size_t)more;
        }
    }
    CHECK(HcclCommInitRootInfo(2, &root, rank, &comm));
    for (int i = 0; i < COUNT; i++) values[i] = (float)(i + (int)rank * 10);
    CHECK(aclrtMalloc(&data, sizeof values, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(data, sizeof values, values, sizeof values, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(HcclAllReduce(data, data, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(values, sizeof values, data, sizeof values, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < COUNT; i++) CHECK(values[i] == (float)(2 * i + 10) ? 0 : 1);
    if (rank == 1) pause();
    CHECK(kill(child, SIGKILL));
    CHECK(waitpid(child, NULL, 0) == child ? 0 : 1);
    for (int i = 0; i < 2; i++) {
        CHECK(HcclBroadcast(data, COUNT, HCCL_DATA_TYPE_FP32, 0, comm, stream));
        CHECK(aclrtSynchronizeStream(stream) == ACL_ERROR_RT_LINK_ERROR ? 0 : 1);
    }
    CHECK(HcclCommDestroy(comm));
    CHECK(aclrtFree(data));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    puts("done");
    return 0;
}

int main(void)
{
    int ends[2];
    if (pipe(ends) != 0) return 1;
    /* Before either uses CANN, whose threads a fork would not have. */
    pid_t child = fork();
    if (child < 0) return 1;
    return child == 0 ? run(1, ends[0], -1, 0) : run(0, -1, ends[1], child);
}
