/* Collective communication between devices (libhccl.so). It has dtypes of its own, other than those of acl. */
#ifndef BURN_CANN_HCCL_H
#define BURN_CANN_HCCL_H

#include "cann/runtime.h"

CANN_BEGIN

typedef void *HcclComm;

typedef enum {
    HCCL_SUCCESS = 0,
    HCCL_E_PARA = 1,
    HCCL_E_PTR = 2,
    HCCL_E_MEMORY = 3,
    HCCL_E_INTERNAL = 4,
    HCCL_E_NOT_SUPPORT = 5,
    HCCL_E_NOT_FOUND = 6,
    HCCL_E_UNAVAIL = 7,
    HCCL_E_SYSCALL = 8,
    HCCL_E_TIMEOUT = 9,
    HCCL_E_OPEN_FILE_FAILURE = 10,
    HCCL_E_TCP_CONNECT = 11,
    HCCL_E_ROCE_CONNECT = 12,
    HCCL_E_TCP_TRANSFER = 13,
    HCCL_E_ROCE_TRANSFER = 14,
    HCCL_E_RUNTIME = 15,
    HCCL_E_DRV = 16,
    HCCL_E_PROFILING = 17,
    HCCL_E_CCE = 18,
    HCCL_E_NETWORK = 19,
    HCCL_E_AGAIN = 20,
    HCCL_E_REMOTE = 21,
    HCCL_E_SUSPENDING = 22,
} HcclResult;

typedef enum {
    HCCL_DATA_TYPE_FP16 = 3,
    HCCL_DATA_TYPE_BFP16 = 11,
    HCCL_DATA_TYPE_FP32 = 4,
    HCCL_DATA_TYPE_FP64 = 10,
    HCCL_DATA_TYPE_INT8 = 0,
    HCCL_DATA_TYPE_INT16 = 1,
    HCCL_DATA_TYPE_INT32 = 2,
    HCCL_DATA_TYPE_INT64 = 5,
    HCCL_DATA_TYPE_INT128 = 12,
    HCCL_DATA_TYPE_UINT8 = 7,
    HCCL_DATA_TYPE_UINT16 = 8,
    HCCL_DATA_TYPE_UINT32 = 9,
    HCCL_DATA_TYPE_UINT64 = 6,
    HCCL_DATA_TYPE_RESERVED = 255,
} HcclDataType;

/* There is no mean: take the sum and divide. */
typedef enum {
    HCCL_REDUCE_SUM = 0,
    HCCL_REDUCE_PROD = 1,
    HCCL_REDUCE_MAX = 2,
    HCCL_REDUCE_MIN = 3,
    HCCL_REDUCE_RESERVED = 255,
} HcclReduceOp;

typedef enum {
    HCCL_DETERMINISTIC = 0,
} HcclConfig;

typedef union HcclConfigValue {
    int32_t value;
} HcclConfigValue;

#define HCCL_ROOT_INFO_BYTES 4108

/* The bytes that rank 0 sends to the others. They have no meaning outside HCCL. */
typedef struct HcclRootInfoDef {
    char internal[HCCL_ROOT_INFO_BYTES];
} HcclRootInfo;

/* Opaque, because it grows with every version of CANN. */
typedef struct HcclCommConfigDef HcclCommConfig;

typedef enum {
    HCCL_SEND = 0,
    HCCL_RECV = 1,
} HcclSendRecvType;

typedef struct HcclSendRecvItemDef {
    HcclSendRecvType sendRecvType;
    void *buf;
    uint64_t count;
    HcclDataType dataType;
    uint32_t remoteRank;
} HcclSendRecvItem;

/* Making and ending groups of ranks. */
HcclResult HcclGetRootInfo(HcclRootInfo *root);
HcclResult HcclCommInitRootInfo(uint32_t ranks, const HcclRootInfo *root, uint32_t rank,
                                HcclComm *comm);
HcclResult HcclCommInitRootInfoConfig(uint32_t ranks, const HcclRootInfo *root, uint32_t rank,
                                      const HcclCommConfig *config, HcclComm *comm);
HcclResult HcclCommInitClusterInfo(const char *rank_table, uint32_t rank, HcclComm *comm);
HcclResult HcclCommInitClusterInfoConfig(const char *rank_table, uint32_t rank,
                                         HcclCommConfig *config, HcclComm *comm);
HcclResult HcclCommInitAll(uint32_t count, int32_t *devices, HcclComm *comms);
HcclResult HcclCreateSubCommConfig(HcclComm *comm, uint32_t count, uint32_t *ranks, uint64_t id,
                                   uint32_t rank, HcclCommConfig *config, HcclComm *part);
HcclResult HcclCommSuspend(HcclComm comm);
HcclResult HcclCommResume(HcclComm comm);
HcclResult HcclCommDestroy(HcclComm comm);

/* The size and state of a group. */
HcclResult HcclGetRankSize(HcclComm comm, uint32_t *ranks);
HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank);
HcclResult HcclGetCommName(HcclComm comm, char *name);
HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *error);
const char *HcclGetErrorString(HcclResult code);
uint32_t HcclGetCommConfigCapability();
HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue value);
HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *value);

/* Collectives, which are all enqueued on the stream. Counts are in elements. They are those of this rank's share if
 * the name has send or receive. */
HcclResult HcclBarrier(HcclComm comm, aclrtStream stream);
HcclResult HcclBroadcast(void *data, uint64_t count, HcclDataType type, uint32_t root, HcclComm comm,
                         aclrtStream stream);
HcclResult HcclAllReduce(void *send, void *receive, uint64_t count, HcclDataType type,
                         HcclReduceOp op, HcclComm comm, aclrtStream stream);
HcclResult HcclReduce(void *send, void *receive, uint64_t count, HcclDataType type, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream);
HcclResult HcclReduceScatter(void *send, void *receive, uint64_t receive_count, HcclDataType type,
                             HcclReduceOp op, HcclComm comm, aclrtStream stream);
HcclResult HcclReduceScatterV(void *send, const void *send_counts, const void *send_offsets,
                              void *receive, uint64_t receive_count, HcclDataType type,
                              HcclReduceOp op, HcclComm comm, aclrtStream stream);
HcclResult HcclAllGather(void *send, void *receive, uint64_t send_count, HcclDataType type,
                         HcclComm comm, aclrtStream stream);
HcclResult HcclAllGatherV(void *send, uint64_t send_count, void *receive, const void *receive_counts,
                          const void *receive_offsets, HcclDataType type, HcclComm comm,
                          aclrtStream stream);
HcclResult HcclScatter(void *send, void *receive, uint64_t receive_count, HcclDataType type,
                       uint32_t root, HcclComm comm, aclrtStream stream);
HcclResult HcclAlltoAll(const void *send, uint64_t send_count, HcclDataType send_type,
                        const void *receive, uint64_t receive_count, HcclDataType receive_type,
                        HcclComm comm, aclrtStream stream);
HcclResult HcclAlltoAllV(const void *send, const void *send_counts, const void *send_offsets,
                         HcclDataType send_type, const void *receive, const void *receive_counts,
                         const void *receive_offsets, HcclDataType receive_type, HcclComm comm,
                         aclrtStream stream);

/* Transfers from one rank to another. */
HcclResult HcclSend(void *data, uint64_t count, HcclDataType type, uint32_t to, HcclComm comm,
                    aclrtStream stream);
HcclResult HcclRecv(void *data, uint64_t count, HcclDataType type, uint32_t from, HcclComm comm,
                    aclrtStream stream);
HcclResult HcclBatchSendRecv(HcclSendRecvItem *items, uint32_t count, HcclComm comm,
                             aclrtStream stream);

/* Memory that collectives may use in place. */
HcclResult HcclCommSetMemoryRange(HcclComm comm, void *base, size_t size, size_t alignment,
                                  uint64_t flags);
HcclResult HcclCommUnsetMemoryRange(HcclComm comm, void *base);
HcclResult HcclCommActivateCommMemory(HcclComm comm, void *address, size_t size, size_t offset,
                                      aclrtDrvMemHandle handle, uint64_t flags);
HcclResult HcclCommDeactivateCommMemory(HcclComm comm, void *address);

CANN_END

#endif
