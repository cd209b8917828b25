/* The parts of CANN's runtime that programs use besides operators: contexts, host functions, matrices, host memory
 * from elsewhere, events, settings of streams, figures of devices, and errors. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cann/errors.h"
#include "cann/meta.h"
#include "cann/runtime.h"

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            const char *text = aclGetRecentErrMsg();                                               \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, text ? text : "no text");   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define CHECK(call) EXPECT((call) == ACL_SUCCESS)

static aclrtContext context;
static volatile int stop;
static int calls[8], count;

static void note(void *argument)
{
    calls[count++] = *(int *)argument;
}

/* Runs the functions that arrive, as the published samples do. */
static void *serve(void *argument)
{
    (void)argument;
    CHECK(aclrtSetCurrentContext(context));
    while (!stop) {
        aclError report = aclrtProcessReport(20), function = aclrtProcessHostFunc(20);
        EXPECT(report == ACL_SUCCESS || report == ACL_ERROR_RT_REPORT_TIMEOUT
               || report == ACL_ERROR_RT_THREAD_SUBSCRIBE);
        EXPECT(function == ACL_SUCCESS || function == ACL_ERROR_RT_REPORT_TIMEOUT
               || function == ACL_ERROR_RT_THREAD_SUBSCRIBE);
    }
    return NULL;
}

static void host_functions(aclrtStream stream)
{
    int numbers[] = {1, 2, 3, 4};
    EXPECT(aclrtLaunchCallback(note, &numbers[0], ACL_CALLBACK_BLOCK, stream)
           == ACL_ERROR_RT_STREAM_NO_CB_REG);
    EXPECT(aclrtProcessReport(1) == ACL_ERROR_RT_THREAD_SUBSCRIBE);
    EXPECT(aclrtProcessReport(0) == ACL_ERROR_INVALID_PARAM);
    /* No thread has subscribed, so a thread of CANN runs it. */
    CHECK(aclrtLaunchHostFunc(stream, note, &numbers[0]));
    CHECK(aclrtSynchronizeStream(stream));

    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, serve, NULL) == 0);
    CHECK(aclrtSubscribeReport((uint64_t)thread, stream));
    EXPECT(aclrtSubscribeReport((uint64_t)thread, stream) == ACL_ERROR_RT_STREAM_SUBSCRIBE);
    CHECK(aclrtSubscribeHostFunc((uint64_t)thread, stream));
    CHECK(aclrtLaunchCallback(note, &numbers[1], ACL_CALLBACK_BLOCK, stream));
    CHECK(aclrtLaunchHostFunc(stream, note, &numbers[2]));
    CHECK(aclrtLaunchCallback(note, &numbers[3], ACL_CALLBACK_BLOCK, stream));
    CHECK(aclrtSynchronizeStream(stream));
    stop = 1;
    EXPECT(pthread_join(thread, NULL) == 0);
    CHECK(aclrtUnSubscribeReport((uint64_t)thread, stream));
    CHECK(aclrtUnSubscribeHostFunc((uint64_t)thread, stream));
    EXPECT(aclrtUnSubscribeReport((uint64_t)thread, stream) == ACL_ERROR_RT_THREAD_SUBSCRIBE);
    EXPECT(count == 4 && calls[0] == 1 && calls[1] == 2 && calls[2] == 3 && calls[3] == 4);
}

static void copies(aclrtStream stream)
{
    unsigned char from[6 * 16], to[6 * 16], *pages = NULL;
    for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)i;
    memset(to, 0xee, sizeof to);
    void *device = NULL, *pinned = NULL, *mapped = NULL;
    CHECK(aclrtMalloc(&device, 6 * 32, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemset(device, 6 * 32, 7, 6 * 32));
    /* Six rows of ten bytes, with a pitch of 16 on the host and of 32 on the device. */
    CHECK(aclrtMemcpy2d(device, 32, from, 16, 10, 6, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclrtMallocHost(&pinned, sizeof to));
    CHECK(aclrtMemcpy2dAsync(pinned, 16, device, 32, 12, 6, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK(aclrtMemcpy2dAsync(to, 16, device, 32, 12, 6, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK(aclrtSynchronizeStream(stream));
    for (int i = 0; i < 6 * 16; i++) {
        int expected = i % 16 < 10 ? i : i % 16 < 12 ? 7 : 0xee;
        EXPECT(to[i] == expected);
        EXPECT(i % 16 >= 12 || ((unsigned char *)pinned)[i] == expected);
    }
    EXPECT(aclrtMemcpy2d(device, 8, from, 16, 10, 6, ACL_MEMCPY_HOST_TO_DEVICE)
           == ACL_ERROR_RT_PARAM_INVALID);
    EXPECT(aclrtMemcpy2d(device, 32, device, 32, 10, 2, ACL_MEMCPY_DEVICE_TO_DEVICE)
           == ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK(aclrtFreeHostWithDevSync(pinned));

    EXPECT(posix_memalign((void **)&pages, 4096, 8192) == 0);
    EXPECT(aclrtHostRegister(pages + 1, 64, ACL_HOST_REGISTER_MAPPED, &mapped) != ACL_SUCCESS);
    CHECK(aclrtHostRegister(pages, 8192, ACL_HOST_REGISTER_MAPPED, &mapped));
    EXPECT(mapped != NULL && mapped != (void *)pages);
    EXPECT(aclrtHostRegisterV2(pages + 4096, 4096, ACL_HOST_REG_PINNED) != ACL_SUCCESS);
    CHECK(aclrtHostUnregister(pages));
    EXPECT(aclrtHostUnregister(pages) != ACL_SUCCESS);
    CHECK(aclrtHostRegisterV2(pages, 8192, ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED));
    CHECK(aclrtHostGetDevicePointer(pages, &mapped, 0));
    CHECK(aclrtMemsetAsync(device, 64, 9, 64, stream));
    CHECK(aclrtMemcpyAsync(pages, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK(aclrtSynchronizeStreamWithTimeout(stream, 5000));
    EXPECT(pages[0] == 9 && pages[63] == 9);

    aclrtPtrAttributes attributes;
    CHECK(aclrtPointerGetAttributes(device, &attributes));
    EXPECT(attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE);
    CHECK(aclrtHostUnregister(pages));
    free(pages);
    CHECK(aclrtFreeWithDevSync(device));
}

/* The two ends of a batch's copies. */
static aclrtMemcpyBatchAttr ends(aclrtMemLocationType to, aclrtMemLocationType from)
{
    aclrtMemcpyBatchAttr attribute;
    memset(&attribute, 0, sizeof attribute);
    attribute.dstLoc.type = to;
    attribute.srcLoc.type = from;
    return attribute;
}

static void batches(aclrtStream stream)
{
    enum { COPIES = 3, BYTES = 64 };
    const aclrtMemLocationType host = ACL_MEM_LOCATION_TYPE_HOST,
                               device = ACL_MEM_LOCATION_TYPE_DEVICE;
    void *from[COPIES], *on[COPIES], *back[COPIES], *mixed[COPIES];
    size_t sizes[COPIES], indices[2] = {0, 2}, failed = 0;
    uint32_t matches = 7;
    for (int i = 0; i < COPIES; i++) {
        CHECK(aclrtMallocHost(&from[i], BYTES));
        CHECK(aclrtMallocHost(&back[i], BYTES));
        CHECK(aclrtMalloc(&on[i], BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
        /* The same function fills host memory, at once. */
        CHECK(aclrtMemset(from[i], BYTES, 3 + i, BYTES));
        CHECK(aclrtMemsetAsync(back[i], BYTES, 0, BYTES, stream));
        EXPECT(((unsigned char *)from[i])[BYTES - 1] == 3 + i && !*(unsigned char *)back[i]);
        sizes[i] = BYTES;
        mixed[i] = i == 1 ? from[i] : on[i];
    }
    aclrtMemcpyBatchAttr up[] = {ends(device, host), ends(device, host)}, down = ends(host, device);
    CHECK(aclrtMemcpyBatch(on, sizes, from, sizes, COPIES, up, indices, 2, &failed));
    EXPECT(failed == SIZE_MAX);
    CHECK(aclrtMemcpyBatchAsync(back, sizes, on, sizes, COPIES, &down, indices, 1, &failed, stream));
    CHECK(aclrtSynchronizeStream(stream));
    for (int i = 0; i < COPIES; i++) EXPECT(memcmp(from[i], back[i], BYTES) == 0);
    CHECK(aclrtMemcpyBatchAsyncV2(on, sizes, back, sizes, COPIES, up, indices, 2, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpyBatchV2(back, sizes, on, sizes, COPIES, &down, indices, 1));
    /* The second copy does not agree with its attribute; the third has another direction. */
    EXPECT(aclrtMemcpyBatch(mixed, sizes, from, sizes, COPIES, up, indices, 1, &failed)
           != ACL_SUCCESS);
    EXPECT(failed == 1);
    aclrtMemcpyBatchAttr both[] = {ends(device, host), ends(host, device)};
    mixed[0] = on[0], mixed[1] = on[1], mixed[2] = back[2];
    void *sources[COPIES] = {from[0], from[1], on[2]};
    EXPECT(aclrtMemcpyBatch(mixed, sizes, sources, sizes, COPIES, both, indices, 2, &failed)
           != ACL_SUCCESS);
    EXPECT(failed == 2);
    indices[0] = 1;
    EXPECT(aclrtMemcpyBatch(on, sizes, from, sizes, COPIES, up, indices, 2, &failed)
           == ACL_ERROR_RT_PARAM_INVALID);
    EXPECT(failed == SIZE_MAX);

    CHECK(aclrtCheckMemType(on, COPIES, ACL_RT_MEM_TYPE_DEV, &matches, 0));
    EXPECT(matches == 1);
    CHECK(aclrtCheckMemType(sources, COPIES, ACL_RT_MEM_TYPE_DEV, &matches, 0));
    EXPECT(matches == 0);
    CHECK(aclrtCheckMemType(on, COPIES, ACL_RT_MEM_TYPE_DVPP, &matches, 0));
    EXPECT(matches == 0);
    for (int i = 0; i < COPIES; i++) {
        CHECK(aclrtFree(on[i]));
        CHECK(aclrtFreeHost(from[i]));
        CHECK(aclrtFreeHost(back[i]));
    }
}

/* Copies between addresses stored on the device, fills with whole numbers, and time limits. */
static void indirect(aclrtStream stream)
{
    enum { COUNT = 16, BYTES = 4 * COUNT };
    uint32_t expected[COUNT], found[COUNT], milliseconds;
    uint64_t interval, actual;
    void *from, *to, *record, *places[2], *place;
    size_t size = 0;
    for (int i = 0; i < COUNT; i++) expected[i] = 0x1000u + (uint32_t)i;
    CHECK(aclrtMalloc(&from, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(&to, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(from, BYTES, expected, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclrtMemsetD32Async(to, BYTES, 0xdeadbeefu, COUNT, stream));
    CHECK(aclrtMemsetD32(found, BYTES, 7, COUNT));
    EXPECT(found[0] == 7 && found[COUNT - 1] == 7);
    EXPECT(aclrtMemsetD32(found, BYTES, 7, COUNT + 1) == ACL_ERROR_RT_PARAM_INVALID);

    /* Three elements, from the second on, are copied to the fifth and after. */
    places[0] = to, places[1] = from;
    CHECK(aclrtMalloc(&place, sizeof places, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(place, sizeof places, places, sizeof places, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclrtMemcpyAsyncWithOffset((void **)place, BYTES, 16, (const void **)((char *)place + 8),
                                     12, 4, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
    EXPECT(aclrtMemcpyAsyncWithOffset((void **)place, 8, 4, (const void **)place, 8, 0,
                                      ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream)
           == ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(found, BYTES, to, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < COUNT; i++)
        EXPECT(found[i] == (i >= 4 && i < 7 ? expected[i - 3] : 0xdeadbeefu));

    CHECK(aclrtGetMemcpyDescSize(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, &size));
    EXPECT(aclrtGetMemcpyDescSize(ACL_MEMCPY_HOST_TO_DEVICE, &size) != ACL_SUCCESS);
    CHECK(aclrtMalloc(&record, size, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtSetMemcpyDesc(record, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, from, to, BYTES, NULL));
    CHECK(aclrtMemcpyAsyncWithDesc(record, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(found, BYTES, to, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(memcmp(found, expected, BYTES) == 0);
    CHECK(aclrtFree(from));
    CHECK(aclrtFree(to));
    CHECK(aclrtFree(place));
    CHECK(aclrtFree(record));

    CHECK(aclrtGetOpTimeOutInterval(&interval));
    CHECK(aclrtSetOpExecuteTimeOutV2(interval + 1, &actual));
    EXPECT(interval > 0 && actual == 2 * interval);
    CHECK(aclrtGetOpExecuteTimeout(&milliseconds));
    EXPECT(milliseconds == actual / 1000);
    CHECK(aclrtSetOpExecuteTimeOutWithMs(1));
    CHECK(aclrtGetOpExecuteTimeout(&milliseconds));
    EXPECT(milliseconds == interval / 1000);
}

static int begun, ended;

static aclError begin(const char *config, size_t length, void *argument)
{
    EXPECT(config != NULL && strlen(config) == length);
    begun += *(int *)argument;
    return ACL_SUCCESS;
}

static aclError unwanted(const char *config, size_t length, void *argument)
{
    (void)config, (void)length, (void)argument;
    exit(1);
}

static aclError end(void *argument)
{
    ended += *(int *)argument;
    return ACL_SUCCESS;
}

/* A device has one number in every numbering. */
static void numbers(void)
{
    int32_t found;
    aclrtUuid first, second;
    CHECK(aclrtGetLogicDevIdByUserDevId(1, &found));
    EXPECT(found == 1);
    CHECK(aclrtGetUserDevIdByLogicDevId(1, &found));
    EXPECT(found == 1);
    CHECK(aclrtGetPhyDevIdByLogicDevId(0, &found));
    EXPECT(found == 0);
    CHECK(aclrtGetLogicDevIdByPhyDevId(1, &found));
    EXPECT(found == 1);
    CHECK(aclrtGetPhyDevIdByUserDevId(0, &found));
    EXPECT(found == 0);
    CHECK(aclrtGetUserDevIdByPhyDevId(1, &found));
    EXPECT(found == 1);
    EXPECT(aclrtGetUserDevIdByPhyDevId(999, &found) == ACL_ERROR_RT_INVALID_DEVICEID);
    char bus[13];
    CHECK(aclrtDeviceGetPCIBusId(1, bus, sizeof bus));
    CHECK(aclrtDeviceGetByPCIBusId(bus, &found));
    EXPECT(strlen(bus) == 12 && found == 1);
    EXPECT(aclrtDeviceGetPCIBusId(1, bus, 12) == ACL_ERROR_RT_PARAM_INVALID);
    EXPECT(aclrtDeviceGetByPCIBusId("nowhere", &found) != ACL_SUCCESS);
    CHECK(aclrtDeviceGetUuid(0, &first));
    CHECK(aclrtDeviceGetUuid(1, &second));
    EXPECT(memcmp(&first, &second, sizeof first) != 0);
}

static void events(aclrtStream stream)
{
    aclrtStream other;
    aclrtEvent event;
    uint32_t id, left, more;
    aclrtEventStatus status;
    aclrtEventWaitStatus wait;
    uint64_t microseconds;
    CHECK(aclrtCreateStreamWithConfig(&other, 3, ACL_STREAM_FAST_LAUNCH));
    CHECK(aclrtGetEventAvailNum(&left));
    CHECK(aclrtCreateEvent(&event));
    CHECK(aclrtGetEventAvailNum(&more));
    EXPECT(more + 1 == left);
    CHECK(aclrtGetEventId(event, &id));
    CHECK(aclrtRecordEvent(event, stream));
    CHECK(aclrtStreamWaitEventWithTimeout(other, event, 5000));
    CHECK(aclrtSynchronizeStream(other));
    CHECK(aclrtQueryEventWaitStatus(event, &wait));
    EXPECT(wait == ACL_EVENT_WAIT_STATUS_COMPLETE);
    CHECK(aclrtSynchronizeEventWithTimeout(event, 5000));
    CHECK(aclrtQueryEvent(event, &status));
    EXPECT(status == ACL_EVENT_STATUS_COMPLETE);
    CHECK(aclrtEventGetTimestamp(event, &microseconds));
    CHECK(aclrtResetEvent(event, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtQueryEvent(event, &status));
    EXPECT(status == ACL_EVENT_STATUS_NOT_READY);
    CHECK(aclrtDestroyEvent(event));

    int32_t one, two;
    uint32_t priority, flags;
    CHECK(aclrtStreamGetId(stream, &one));
    CHECK(aclrtStreamGetId(other, &two));
    CHECK(aclrtStreamGetPriority(other, &priority));
    CHECK(aclrtStreamGetFlags(other, &flags));
    EXPECT(one != two && priority == 3 && flags == ACL_STREAM_FAST_LAUNCH);
    CHECK(aclrtDestroyStream(other));

    aclrtStreamConfigHandle *config = aclrtCreateStreamConfigHandle();
    priority = 5;
    CHECK(aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_PRIORITY, &priority, sizeof priority));
    CHECK(aclrtCreateStreamV2(&other, config));
    CHECK(aclrtDestroyStreamConfigHandle(config));
    CHECK(aclrtStreamGetPriority(other, &priority));
    EXPECT(priority == 5);
    CHECK(aclrtSetStreamFailureMode(other, ACL_STOP_ON_FAILURE));
    CHECK(aclrtDestroyStreamForce(other));
}

static void devices(void)
{
    int64_t cores, value;
    int32_t can, version;
    aclrtUtilizationInfo rate;
    aclrtRunMode mode;
    aclrtStream stream;
    char text[ACL_PKG_VERSION_MAX_SIZE], package[] = "runtime";
    memset(&rate, 0, sizeof rate);
    CHECK(aclGetDeviceCapability(0, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &cores));
    CHECK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_VECTOR_CORE_NUM, &value));
    EXPECT(cores == 48 && value == 48);
    CHECK(aclrtGetDeviceUtilizationRate(0, &rate));
    CHECK(aclrtDeviceCanAccessPeer(&can, 0, 1));
    EXPECT(can == 1);
    CHECK(aclrtDeviceEnablePeerAccess(1, 0));
    CHECK(aclrtDeviceDisablePeerAccess(1));
    CHECK(aclrtGetRunMode(&mode));
    EXPECT(mode == ACL_HOST);
    CHECK(aclsysGetVersionStr(package, text));
    CHECK(aclsysGetVersionNum(package, &version));
    EXPECT(strcmp(text, "8.5.0") == 0 && version == 80500000);
    CHECK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    EXPECT(value == 0);
    CHECK(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    CHECK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    EXPECT(value == 1);
    EXPECT(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value) == ACL_ERROR_RT_SYSPARAMOPT_NOT_SET);
    const aclCannAttr *attributes;
    size_t attribute_count;
    CHECK(aclGetCannAttributeList(&attributes, &attribute_count));
    EXPECT(attribute_count == 3);
    for (size_t i = 0; i < attribute_count; i++) {
        CHECK(aclGetCannAttribute(attributes[i], &version));
        EXPECT(version == 1);
    }
    EXPECT(aclGetCannAttribute(ACL_CANN_ATTR_UNDEFINED, &version) == ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtCheckArchCompatibility(aclrtGetSocName(), &can));
    EXPECT(can == 1);
    CHECK(aclrtCheckArchCompatibility("Ascend910B4", &can));
    EXPECT(can == 1);
    CHECK(aclrtCheckArchCompatibility("Ascend310P3", &can));
    EXPECT(can == 0);
    CHECK(aclrtGetDeviceCapability(0, ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV, &can));
    EXPECT(can == 0);
    CHECK(aclrtCtxGetCurrentDefaultStream(&stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtSetTsDevice(ACL_TS_ID_AIVECTOR));
    CHECK(aclrtSetOpWaitTimeout(3));
    CHECK(aclrtSetOpExecuteTimeOut(3));
}

static void errors(void)
{
    /* Its size is that in the newest CANN. */
    uint64_t verbose[512] = {0};
    aclError found = aclrtGetRunMode(NULL);
    EXPECT(found != ACL_SUCCESS);
    EXPECT(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) == found);
    EXPECT(aclrtGetLastError(ACL_RT_THREAD_LEVEL) == found);
    EXPECT(aclGetRecentErrMsg() != NULL);
    CHECK(aclrtGetErrorVerbose(0, (aclrtErrorInfo *)verbose));
    EXPECT(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) == ACL_SUCCESS);
    EXPECT(aclGetRecentErrMsg() == NULL);
}

static void records(void)
{
    int64_t shape[] = {2, 3}, *dims = NULL;
    float scale = 2.5f;
    uint64_t rank = 0, size = 0;
    bool flags[] = {true, false};
    float floats[] = {1, 2, 3};
    aclDataBuffer *buffer = aclCreateDataBuffer(shape, sizeof shape);
    EXPECT(aclGetDataBufferAddr(buffer) == shape);
    EXPECT(aclGetDataBufferSizeV2(buffer) == sizeof shape);
    CHECK(aclUpdateDataBuffer(buffer, dims, 4));
    EXPECT(aclGetDataBufferSize(buffer) == 4);
    CHECK(aclDestroyDataBuffer(buffer));
    EXPECT(aclFloat16ToFloat(aclFloatToFloat16(1.625f)) == 1.625f);

    aclTensor *tensor = aclCreateTensor(shape, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, 2, NULL);
    CHECK(aclGetViewShape(tensor, &dims, &rank));
    EXPECT(rank == 2 && dims[0] == 2 && dims[1] == 3);
    free(dims);
    const aclTensor *members[] = {tensor};
    aclTensorList *list = aclCreateTensorList(members, 1);
    CHECK(aclGetTensorListSize(list, &size));
    EXPECT(size == 1);
    CHECK(aclDestroyTensorList(list));
    const aclScalar *scalars[] = {aclCreateScalar(&scale, ACL_FLOAT)};
    aclScalarList *numbers = aclCreateScalarList(scalars, 1);
    CHECK(aclDestroyScalarList(numbers));
    aclBoolArray *bools = aclCreateBoolArray(flags, 2);
    CHECK(aclGetBoolArraySize(bools, &size));
    CHECK(aclDestroyBoolArray(bools));
    aclFloatArray *array = aclCreateFloatArray(floats, 3);
    CHECK(aclGetFloatArraySize(array, &size));
    EXPECT(size == 3);
    CHECK(aclDestroyFloatArray(array));
    CHECK(aclnnInit(NULL));
    CHECK(aclnnFinalize());
}

int main(void)
{
    aclrtContext current;
    aclrtStream stream;
    uint64_t references = 7;
    int one = 1;
    CHECK(aclInitCallbackRegister(ACL_REG_TYPE_OTHER, begin, &one));
    CHECK(aclInitCallbackRegister(ACL_REG_TYPE_OTHER, unwanted, &one));
    CHECK(aclInitCallbackUnRegister(ACL_REG_TYPE_OTHER, unwanted));
    CHECK(aclInit(NULL));
    EXPECT(begun == 1);
    CHECK(aclInitCallbackRegister(ACL_REG_TYPE_ACL_MODEL, begin, &one));
    EXPECT(begun == 2);
    EXPECT(aclInitCallbackRegister(ACL_REG_TYPE_ACL_MODEL, begin, &one) != ACL_SUCCESS);
    CHECK(aclFinalizeCallbackRegister(ACL_REG_TYPE_OTHER, end, &one));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateContext(&context, 0));
    CHECK(aclrtGetCurrentContext(&current));
    EXPECT(current == context);
    CHECK(aclrtCreateStream(&stream));
    host_functions(stream);
    copies(stream);
    batches(stream);
    numbers();
    indirect(stream);
    events(stream);
    devices();
    errors();
    records();
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtDestroyContext(context));
    CHECK(aclrtResetDeviceForce(0));
    EXPECT(aclInit(NULL) == ACL_ERROR_REPEAT_INITIALIZE);
    CHECK(aclFinalizeReference(&references));
    EXPECT(references == 1);
    CHECK(aclFinalizeReference(NULL));
    EXPECT(aclFinalize() == ACL_ERROR_REPEAT_FINALIZE);
    EXPECT(begun == 2 && ended == 1);
    CHECK(aclFinalizeCallbackUnRegister(ACL_REG_TYPE_OTHER, end));
    CHECK(aclInitCallbackUnRegister(ACL_REG_TYPE_OTHER, begin));
    puts("done");
    return 0;
}
