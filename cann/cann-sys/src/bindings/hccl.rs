// Made from include/cann/hccl.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

pub use super::types::*;
pub use super::runtime::*;

pub const HCCL_ROOT_INFO_BYTES: u32 = 4108;
pub type HcclComm = *mut ::std::os::raw::c_void;
pub const HCCL_SUCCESS: HcclResult = HcclResult(0);
pub const HCCL_E_PARA: HcclResult = HcclResult(1);
pub const HCCL_E_PTR: HcclResult = HcclResult(2);
pub const HCCL_E_MEMORY: HcclResult = HcclResult(3);
pub const HCCL_E_INTERNAL: HcclResult = HcclResult(4);
pub const HCCL_E_NOT_SUPPORT: HcclResult = HcclResult(5);
pub const HCCL_E_NOT_FOUND: HcclResult = HcclResult(6);
pub const HCCL_E_UNAVAIL: HcclResult = HcclResult(7);
pub const HCCL_E_SYSCALL: HcclResult = HcclResult(8);
pub const HCCL_E_TIMEOUT: HcclResult = HcclResult(9);
pub const HCCL_E_OPEN_FILE_FAILURE: HcclResult = HcclResult(10);
pub const HCCL_E_TCP_CONNECT: HcclResult = HcclResult(11);
pub const HCCL_E_ROCE_CONNECT: HcclResult = HcclResult(12);
pub const HCCL_E_TCP_TRANSFER: HcclResult = HcclResult(13);
pub const HCCL_E_ROCE_TRANSFER: HcclResult = HcclResult(14);
pub const HCCL_E_RUNTIME: HcclResult = HcclResult(15);
pub const HCCL_E_DRV: HcclResult = HcclResult(16);
pub const HCCL_E_PROFILING: HcclResult = HcclResult(17);
pub const HCCL_E_CCE: HcclResult = HcclResult(18);
pub const HCCL_E_NETWORK: HcclResult = HcclResult(19);
pub const HCCL_E_AGAIN: HcclResult = HcclResult(20);
pub const HCCL_E_REMOTE: HcclResult = HcclResult(21);
pub const HCCL_E_SUSPENDING: HcclResult = HcclResult(22);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct HcclResult(pub ::std::os::raw::c_uint);
pub const HCCL_DATA_TYPE_FP16: HcclDataType = HcclDataType(3);
pub const HCCL_DATA_TYPE_BFP16: HcclDataType = HcclDataType(11);
pub const HCCL_DATA_TYPE_FP32: HcclDataType = HcclDataType(4);
pub const HCCL_DATA_TYPE_FP64: HcclDataType = HcclDataType(10);
pub const HCCL_DATA_TYPE_INT8: HcclDataType = HcclDataType(0);
pub const HCCL_DATA_TYPE_INT16: HcclDataType = HcclDataType(1);
pub const HCCL_DATA_TYPE_INT32: HcclDataType = HcclDataType(2);
pub const HCCL_DATA_TYPE_INT64: HcclDataType = HcclDataType(5);
pub const HCCL_DATA_TYPE_INT128: HcclDataType = HcclDataType(12);
pub const HCCL_DATA_TYPE_UINT8: HcclDataType = HcclDataType(7);
pub const HCCL_DATA_TYPE_UINT16: HcclDataType = HcclDataType(8);
pub const HCCL_DATA_TYPE_UINT32: HcclDataType = HcclDataType(9);
pub const HCCL_DATA_TYPE_UINT64: HcclDataType = HcclDataType(6);
pub const HCCL_DATA_TYPE_RESERVED: HcclDataType = HcclDataType(255);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct HcclDataType(pub ::std::os::raw::c_uint);
pub const HCCL_REDUCE_SUM: HcclReduceOp = HcclReduceOp(0);
pub const HCCL_REDUCE_PROD: HcclReduceOp = HcclReduceOp(1);
pub const HCCL_REDUCE_MAX: HcclReduceOp = HcclReduceOp(2);
pub const HCCL_REDUCE_MIN: HcclReduceOp = HcclReduceOp(3);
pub const HCCL_REDUCE_RESERVED: HcclReduceOp = HcclReduceOp(255);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct HcclReduceOp(pub ::std::os::raw::c_uint);
pub const HCCL_DETERMINISTIC: HcclConfig = HcclConfig(0);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct HcclConfig(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Copy, Clone)]
pub union HcclConfigValue {
    pub value: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of HcclConfigValue"][::std::mem::size_of::<HcclConfigValue>() - 4usize];
    ["Alignment of HcclConfigValue"][::std::mem::align_of::<HcclConfigValue>() - 4usize];
    [
        "Offset of field: HcclConfigValue::value",
    ][::std::mem::offset_of!(HcclConfigValue, value) - 0usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct HcclRootInfoDef {
    pub internal: [::std::os::raw::c_char; 4108usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of HcclRootInfoDef"][::std::mem::size_of::<HcclRootInfoDef>() - 4108usize];
    ["Alignment of HcclRootInfoDef"][::std::mem::align_of::<HcclRootInfoDef>() - 1usize];
    [
        "Offset of field: HcclRootInfoDef::internal",
    ][::std::mem::offset_of!(HcclRootInfoDef, internal) - 0usize];
};
pub type HcclRootInfo = HcclRootInfoDef;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct HcclCommConfigDef {
    _unused: [u8; 0],
}
pub type HcclCommConfig = HcclCommConfigDef;
pub const HCCL_SEND: HcclSendRecvType = HcclSendRecvType(0);
pub const HCCL_RECV: HcclSendRecvType = HcclSendRecvType(1);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct HcclSendRecvType(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct HcclSendRecvItemDef {
    pub sendRecvType: HcclSendRecvType,
    pub buf: *mut ::std::os::raw::c_void,
    pub count: u64,
    pub dataType: HcclDataType,
    pub remoteRank: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of HcclSendRecvItemDef",
    ][::std::mem::size_of::<HcclSendRecvItemDef>() - 32usize];
    [
        "Alignment of HcclSendRecvItemDef",
    ][::std::mem::align_of::<HcclSendRecvItemDef>() - 8usize];
    [
        "Offset of field: HcclSendRecvItemDef::sendRecvType",
    ][::std::mem::offset_of!(HcclSendRecvItemDef, sendRecvType) - 0usize];
    [
        "Offset of field: HcclSendRecvItemDef::buf",
    ][::std::mem::offset_of!(HcclSendRecvItemDef, buf) - 8usize];
    [
        "Offset of field: HcclSendRecvItemDef::count",
    ][::std::mem::offset_of!(HcclSendRecvItemDef, count) - 16usize];
    [
        "Offset of field: HcclSendRecvItemDef::dataType",
    ][::std::mem::offset_of!(HcclSendRecvItemDef, dataType) - 24usize];
    [
        "Offset of field: HcclSendRecvItemDef::remoteRank",
    ][::std::mem::offset_of!(HcclSendRecvItemDef, remoteRank) - 28usize];
};
pub type HcclSendRecvItem = HcclSendRecvItemDef;
pub type HcclGetRootInfo = unsafe extern "C" fn(root: *mut HcclRootInfo) -> HcclResult;
pub type HcclCommInitRootInfo = unsafe extern "C" fn(
    ranks: u32,
    root: *const HcclRootInfo,
    rank: u32,
    comm: *mut HcclComm,
) -> HcclResult;
pub type HcclCommInitRootInfoConfig = unsafe extern "C" fn(
    ranks: u32,
    root: *const HcclRootInfo,
    rank: u32,
    config: *const HcclCommConfig,
    comm: *mut HcclComm,
) -> HcclResult;
pub type HcclCommInitClusterInfo = unsafe extern "C" fn(
    rank_table: *const ::std::os::raw::c_char,
    rank: u32,
    comm: *mut HcclComm,
) -> HcclResult;
pub type HcclCommInitClusterInfoConfig = unsafe extern "C" fn(
    rank_table: *const ::std::os::raw::c_char,
    rank: u32,
    config: *mut HcclCommConfig,
    comm: *mut HcclComm,
) -> HcclResult;
pub type HcclCommInitAll = unsafe extern "C" fn(
    count: u32,
    devices: *mut i32,
    comms: *mut HcclComm,
) -> HcclResult;
pub type HcclCreateSubCommConfig = unsafe extern "C" fn(
    comm: *mut HcclComm,
    count: u32,
    ranks: *mut u32,
    id: u64,
    rank: u32,
    config: *mut HcclCommConfig,
    part: *mut HcclComm,
) -> HcclResult;
pub type HcclCommSuspend = unsafe extern "C" fn(comm: HcclComm) -> HcclResult;
pub type HcclCommResume = unsafe extern "C" fn(comm: HcclComm) -> HcclResult;
pub type HcclCommDestroy = unsafe extern "C" fn(comm: HcclComm) -> HcclResult;
pub type HcclGetRankSize = unsafe extern "C" fn(
    comm: HcclComm,
    ranks: *mut u32,
) -> HcclResult;
pub type HcclGetRankId = unsafe extern "C" fn(
    comm: HcclComm,
    rank: *mut u32,
) -> HcclResult;
pub type HcclGetCommName = unsafe extern "C" fn(
    comm: HcclComm,
    name: *mut ::std::os::raw::c_char,
) -> HcclResult;
pub type HcclGetCommAsyncError = unsafe extern "C" fn(
    comm: HcclComm,
    error: *mut HcclResult,
) -> HcclResult;
pub type HcclGetErrorString = unsafe extern "C" fn(
    code: HcclResult,
) -> *const ::std::os::raw::c_char;
pub type HcclGetCommConfigCapability = unsafe extern "C" fn() -> u32;
pub type HcclSetConfig = unsafe extern "C" fn(
    config: HcclConfig,
    value: HcclConfigValue,
) -> HcclResult;
pub type HcclGetConfig = unsafe extern "C" fn(
    config: HcclConfig,
    value: *mut HcclConfigValue,
) -> HcclResult;
pub type HcclBarrier = unsafe extern "C" fn(
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult;
pub type HcclBroadcast = unsafe extern "C" fn(
    data: *mut ::std::os::raw::c_void,
    count: u64,
    type_: HcclDataType,
    root: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult;
pub type HcclAllReduce = unsafe extern "C" fn(
    send: *mut ::std::os::raw::c_void,
    receive: *mut ::std::os::raw::c_void,
    count: u64,
    type_: HcclDataType,
    op: HcclReduceOp,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult;
pub type HcclReduce = unsafe extern "C" fn(
    send: *mut ::std::os::raw::c_void,
    receive: *mut ::std::os::raw::c_void,
    count: u64,
    type_: HcclDataType,
    op: HcclReduceOp,
    root: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult;
pub type HcclReduceScatter = unsafe extern "C" fn(
    send: *mut ::std::os::raw::c_void,
    receive: *mut ::std::os::raw::c_void,
    receive_count: u64,
    type_: HcclDataType,
    op: HcclReduceOp,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult;
pub type HcclReduceScatterV = unsafe extern "C" fn(
    send: *mut ::std::os::raw::c_void,
    send_counts: *const ::std::os::raw::c_void,
    send_offsets: *const ::std::os::raw::c_void,
    receive: *mut ::std::os::raw::c_void,
    receive_count: u64,
    type_: HcclDataType,
    op: HcclReduceOp,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult;
pub type HcclAllGather = unsafe extern "C" fn(
    send: *mut ::std::os::raw::c_void,
    receive: *mut ::std::os::raw::c_void,
    send_count: u64,
    type_: HcclDataType,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult;
pub type HcclAllGatherV = unsafe extern "C" fn(
    send: *mut ::std::os::raw::c_void,
    send_count: u64,
    receive: *mut ::std::os::raw::c_void,
    receive_counts: *const ::std::os::raw::c_void,
    receive_offsets: *const ::std::os::raw::c_void,
    type_: HcclDataType,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult;
pub type HcclScatter = unsafe extern "C" fn(
    send: *mut ::std::os::raw::c_void,
    receive: *mut ::std::os::raw::c_void,
    receive_count: u64,
    type_: HcclDataType,
    root: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult;
pub type HcclAlltoAll = unsafe extern "C" fn(
    send: *const ::std::os::raw::c_void,
    send_count: u64,
    send_type: HcclDataType,
    receive: *const ::std::os::raw::c_void,
    receive_count: u64,
    receive_type: HcclDataType,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult;
pub type HcclAlltoAllV = unsafe extern "C" fn(
    send: *const ::std::os::raw::c_void,
    send_counts: *const ::std::os::raw::c_void,
    send_offsets: *const ::std::os::raw::c_void,
    send_type: HcclDataType,
    receive: *const ::std::os::raw::c_void,
    receive_counts: *const ::std::os::raw::c_void,
    receive_offsets: *const ::std::os::raw::c_void,
    receive_type: HcclDataType,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult;
pub type HcclSend = unsafe extern "C" fn(
    data: *mut ::std::os::raw::c_void,
    count: u64,
    type_: HcclDataType,
    to: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult;
pub type HcclRecv = unsafe extern "C" fn(
    data: *mut ::std::os::raw::c_void,
    count: u64,
    type_: HcclDataType,
    from: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult;
pub type HcclBatchSendRecv = unsafe extern "C" fn(
    items: *mut HcclSendRecvItem,
    count: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult;
pub type HcclCommSetMemoryRange = unsafe extern "C" fn(
    comm: HcclComm,
    base: *mut ::std::os::raw::c_void,
    size: usize,
    alignment: usize,
    flags: u64,
) -> HcclResult;
pub type HcclCommUnsetMemoryRange = unsafe extern "C" fn(
    comm: HcclComm,
    base: *mut ::std::os::raw::c_void,
) -> HcclResult;
pub type HcclCommActivateCommMemory = unsafe extern "C" fn(
    comm: HcclComm,
    address: *mut ::std::os::raw::c_void,
    size: usize,
    offset: usize,
    handle: aclrtDrvMemHandle,
    flags: u64,
) -> HcclResult;
pub type HcclCommDeactivateCommMemory = unsafe extern "C" fn(
    comm: HcclComm,
    address: *mut ::std::os::raw::c_void,
) -> HcclResult;

crate::table::function_table! {
    /// The functions of `include/cann/hccl.h`.
    Hccl {
        HcclGetRootInfo,
        HcclCommInitRootInfo,
        HcclCommInitRootInfoConfig,
        HcclCommInitClusterInfo,
        HcclCommInitClusterInfoConfig,
        HcclCommInitAll,
        HcclCreateSubCommConfig,
        HcclCommSuspend,
        HcclCommResume,
        HcclCommDestroy,
        HcclGetRankSize,
        HcclGetRankId,
        HcclGetCommName,
        HcclGetCommAsyncError,
        HcclGetErrorString,
        HcclGetCommConfigCapability,
        HcclSetConfig,
        HcclGetConfig,
        HcclBarrier,
        HcclBroadcast,
        HcclAllReduce,
        HcclReduce,
        HcclReduceScatter,
        HcclReduceScatterV,
        HcclAllGather,
        HcclAllGatherV,
        HcclScatter,
        HcclAlltoAll,
        HcclAlltoAllV,
        HcclSend,
        HcclRecv,
        HcclBatchSendRecv,
        HcclCommSetMemoryRange,
        HcclCommUnsetMemoryRange,
        HcclCommActivateCommMemory,
        HcclCommDeactivateCommMemory,
    }
}
