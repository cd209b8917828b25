/* A program for CANN by the published protocol: RMS norm of two rows on a stream, checked on the host.
 * It is compiled against this project's headers and linked with the names of CANN's libraries. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cann/errors.h"
#include "cann/meta.h"
#include "cann/norm.h"
#include "cann/runtime.h"

#define ROWS 2
#define WIDTH 8

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int status = (call);                                                                       \
        if (status != 0) {                                                                         \
            const char *text = aclGetRecentErrMsg();                                               \
            fprintf(stderr, "%s: %d: %s\n", #call, status, text ? text : "no text");               \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* A contiguous tensor of floats with memory of its own. */
static aclTensor *make_tensor(void **data, const int64_t *shape, uint64_t rank)
{
    int64_t count = 1;
    for (uint64_t axis = 0; axis < rank; axis++) count *= shape[axis];
    if (aclrtMalloc(data, (size_t)count * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST) != 0) return NULL;
    return aclCreateTensor(shape, rank, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &count, 1, *data);
}

int main(void)
{
    const int64_t x_shape[] = {ROWS, WIDTH}, gamma_shape[] = {WIDTH}, rstd_shape[] = {ROWS, 1};
    float x[ROWS * WIDTH], gamma[WIDTH], y[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(i % 5) - 1.5f;
    for (int i = 0; i < WIDTH; i++) gamma[i] = 0.5f + 0.125f * (float)i;

    aclrtStream stream;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    printf("%s\n", aclrtGetSocName());

    void *x_data, *gamma_data, *y_data, *rstd_data;
    aclTensor *x_tensor = make_tensor(&x_data, x_shape, 2);
    aclTensor *gamma_tensor = make_tensor(&gamma_data, gamma_shape, 1);
    aclTensor *y_tensor = make_tensor(&y_data, x_shape, 2);
    aclTensor *rstd_tensor = make_tensor(&rstd_data, rstd_shape, 2);
    CHECK(aclrtMemcpy(x_data, sizeof x, x, sizeof x, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclrtMemcpy(gamma_data, sizeof gamma, gamma, sizeof gamma, ACL_MEMCPY_HOST_TO_DEVICE));

    uint64_t workspace_size = 0;
    aclOpExecutor *executor = NULL;
    CHECK(aclnnRmsNormGetWorkspaceSize(x_tensor, gamma_tensor, 1e-6, y_tensor, rstd_tensor,
                                       &workspace_size, &executor));
    void *workspace = NULL;
    if (workspace_size > 0) {
        CHECK(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    CHECK(aclnnRmsNorm(workspace, workspace_size, executor, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(y, sizeof y, y_data, sizeof y, ACL_MEMCPY_DEVICE_TO_HOST));

    for (int row = 0; row < ROWS; row++) {
        double squares = 0;
        for (int i = 0; i < WIDTH; i++) squares += (double)x[row * WIDTH + i] * x[row * WIDTH + i];
        double rstd = 1 / sqrt(squares / WIDTH + 1e-6);
        for (int i = 0; i < WIDTH; i++) {
            double expected = x[row * WIDTH + i] * rstd * gamma[i];
            if (!(fabs(y[row * WIDTH + i] - expected) <= 1e-6)) {
                fprintf(stderr, "y[%d][%d] is %g, expected %g\n", row, i, y[row * WIDTH + i], expected);
                return 1;
            }
        }
    }

    const aclTensor *tensors[] = {x_tensor, gamma_tensor, y_tensor, rstd_tensor};
    for (int i = 0; i < 4; i++) CHECK(aclDestroyTensor(tensors[i]));
    void *data[] = {x_data, gamma_data, y_data, rstd_data, workspace};
    for (int i = 0; i < 5; i++) {
        if (data[i] != NULL) CHECK(aclrtFree(data[i]));
    }
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
