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
#[test]
fn bindgen_test_layout_HcclConfigValue() {
    const UNINIT: ::std::mem::MaybeUninit<HcclConfigValue> = ::std::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::std::mem::size_of:: < HcclConfigValue > (), 4usize, concat!("Size of: ",
        stringify!(HcclConfigValue))
    );
    assert_eq!(
        ::std::mem::align_of:: < HcclConfigValue > (), 4usize, concat!("Alignment of ",
        stringify!(HcclConfigValue))
    );
    assert_eq!(
        unsafe { ::std::ptr::addr_of!((* ptr).value) as usize - ptr as usize }, 0usize,
        concat!("Offset of field: ", stringify!(HcclConfigValue), "::",
        stringify!(value))
    );
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct HcclRootInfoDef {
    pub internal: [::std::os::raw::c_char; 4108usize],
}
#[test]
fn bindgen_test_layout_HcclRootInfoDef() {
    const UNINIT: ::std::mem::MaybeUninit<HcclRootInfoDef> = ::std::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::std::mem::size_of:: < HcclRootInfoDef > (), 4108usize, concat!("Size of: ",
        stringify!(HcclRootInfoDef))
    );
    assert_eq!(
        ::std::mem::align_of:: < HcclRootInfoDef > (), 1usize, concat!("Alignment of ",
        stringify!(HcclRootInfoDef))
    );
    assert_eq!(
        unsafe { ::std::ptr::addr_of!((* ptr).internal) as usize - ptr as usize },
        0usize, concat!("Offset of field: ", stringify!(HcclRootInfoDef), "::",
        stringify!(internal))
    );
}
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
#[test]
fn bindgen_test_layout_HcclSendRecvItemDef() {
    const UNINIT: ::std::mem::MaybeUninit<HcclSendRecvItemDef> = ::std::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::std::mem::size_of:: < HcclSendRecvItemDef > (), 32usize, concat!("Size of: ",
        stringify!(HcclSendRecvItemDef))
    );
    assert_eq!(
        ::std::mem::align_of:: < HcclSendRecvItemDef > (), 8usize,
        concat!("Alignment of ", stringify!(HcclSendRecvItemDef))
    );
    assert_eq!(
        unsafe { ::std::ptr::addr_of!((* ptr).sendRecvType) as usize - ptr as usize },
        0usize, concat!("Offset of field: ", stringify!(HcclSendRecvItemDef), "::",
        stringify!(sendRecvType))
    );
    assert_eq!(
        unsafe { ::std::ptr::addr_of!((* ptr).buf) as usize - ptr as usize }, 8usize,
        concat!("Offset of field: ", stringify!(HcclSendRecvItemDef), "::",
        stringify!(buf))
    );
    assert_eq!(
        unsafe { ::std::ptr::addr_of!((* ptr).count) as usize - ptr as usize }, 16usize,
        concat!("Offset of field: ", stringify!(HcclSendRecvItemDef), "::",
        stringify!(count))
    );
    assert_eq!(
        unsafe { ::std::ptr::addr_of!((* ptr).dataType) as usize - ptr as usize },
        24usize, concat!("Offset of field: ", stringify!(HcclSendRecvItemDef), "::",
        stringify!(dataType))
    );
    assert_eq!(
        unsafe { ::std::ptr::addr_of!((* ptr).remoteRank) as usize - ptr as usize },
        28usize, concat!("Offset of field: ", stringify!(HcclSendRecvItemDef), "::",
        stringify!(remoteRank))
    );
}
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
