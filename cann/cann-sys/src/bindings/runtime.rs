// Made from include/cann/runtime.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

pub use super::types::*;

pub const ACL_EVENT_SYNC: u32 = 1;
pub const ACL_EVENT_CAPTURE_STREAM_PROGRESS: u32 = 2;
pub const ACL_EVENT_TIME_LINE: u32 = 8;
pub const ACL_CONTINUE_ON_FAILURE: u32 = 0;
pub const ACL_STOP_ON_FAILURE: u32 = 1;
pub const ACL_HOST_REG_MAPPED: u32 = 2;
pub const ACL_HOST_REG_PINNED: u32 = 268435456;
pub const ACL_STREAM_FAST_LAUNCH: u32 = 1;
pub const ACL_STREAM_FAST_SYNC: u32 = 2;
pub const ACL_PKG_VERSION_MAX_SIZE: u32 = 128;
pub const ACL_PKG_VERSION_PARTS_MAX_SIZE: u32 = 64;
pub const ACL_RT_MEM_TYPE_DEV: u32 = 2;
pub const ACL_RT_MEM_TYPE_DVPP: u32 = 8;
pub const ACL_RT_MEM_TYPE_RSVD: u32 = 16;
pub const ACL_PKG_NAME_CANN: aclCANNPackageName = aclCANNPackageName(0);
pub const ACL_PKG_NAME_RUNTIME: aclCANNPackageName = aclCANNPackageName(1);
pub const ACL_PKG_NAME_COMPILER: aclCANNPackageName = aclCANNPackageName(2);
pub const ACL_PKG_NAME_HCCL: aclCANNPackageName = aclCANNPackageName(3);
pub const ACL_PKG_NAME_TOOLKIT: aclCANNPackageName = aclCANNPackageName(4);
pub const ACL_PKG_NAME_OPP: aclCANNPackageName = aclCANNPackageName(5);
pub const ACL_PKG_NAME_OPP_KERNEL: aclCANNPackageName = aclCANNPackageName(6);
pub const ACL_PKG_NAME_DRIVER: aclCANNPackageName = aclCANNPackageName(7);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclCANNPackageName(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclCANNPackageVersion {
    pub version: [::std::os::raw::c_char; 128usize],
    pub majorVersion: [::std::os::raw::c_char; 64usize],
    pub minorVersion: [::std::os::raw::c_char; 64usize],
    pub releaseVersion: [::std::os::raw::c_char; 64usize],
    pub patchVersion: [::std::os::raw::c_char; 64usize],
    pub reserved: [::std::os::raw::c_char; 128usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of aclCANNPackageVersion",
    ][::std::mem::size_of::<aclCANNPackageVersion>() - 512usize];
    [
        "Alignment of aclCANNPackageVersion",
    ][::std::mem::align_of::<aclCANNPackageVersion>() - 1usize];
    [
        "Offset of field: aclCANNPackageVersion::version",
    ][::std::mem::offset_of!(aclCANNPackageVersion, version) - 0usize];
    [
        "Offset of field: aclCANNPackageVersion::majorVersion",
    ][::std::mem::offset_of!(aclCANNPackageVersion, majorVersion) - 128usize];
    [
        "Offset of field: aclCANNPackageVersion::minorVersion",
    ][::std::mem::offset_of!(aclCANNPackageVersion, minorVersion) - 192usize];
    [
        "Offset of field: aclCANNPackageVersion::releaseVersion",
    ][::std::mem::offset_of!(aclCANNPackageVersion, releaseVersion) - 256usize];
    [
        "Offset of field: aclCANNPackageVersion::patchVersion",
    ][::std::mem::offset_of!(aclCANNPackageVersion, patchVersion) - 320usize];
    [
        "Offset of field: aclCANNPackageVersion::reserved",
    ][::std::mem::offset_of!(aclCANNPackageVersion, reserved) - 384usize];
};
pub const ACL_DEVICE_INFO_UNDEFINED: aclDeviceInfo = aclDeviceInfo(-1);
pub const ACL_DEVICE_INFO_AI_CORE_NUM: aclDeviceInfo = aclDeviceInfo(0);
pub const ACL_DEVICE_INFO_VECTOR_CORE_NUM: aclDeviceInfo = aclDeviceInfo(1);
pub const ACL_DEVICE_INFO_L2_SIZE: aclDeviceInfo = aclDeviceInfo(2);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclDeviceInfo(pub ::std::os::raw::c_int);
pub const ACL_OPT_DETERMINISTIC: aclSysParamOpt = aclSysParamOpt(0);
pub const ACL_OPT_ENABLE_DEBUG_KERNEL: aclSysParamOpt = aclSysParamOpt(1);
pub const ACL_OPT_STRONG_CONSISTENCY: aclSysParamOpt = aclSysParamOpt(2);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclSysParamOpt(pub ::std::os::raw::c_uint);
pub const ACL_DEV_ATTR_AICPU_CORE_NUM: aclrtDevAttr = aclrtDevAttr(1);
pub const ACL_DEV_ATTR_AICORE_CORE_NUM: aclrtDevAttr = aclrtDevAttr(101);
pub const ACL_DEV_ATTR_CUBE_CORE_NUM: aclrtDevAttr = aclrtDevAttr(102);
pub const ACL_DEV_ATTR_VECTOR_CORE_NUM: aclrtDevAttr = aclrtDevAttr(201);
pub const ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE: aclrtDevAttr = aclrtDevAttr(301);
pub const ACL_DEV_ATTR_L2_CACHE_SIZE: aclrtDevAttr = aclrtDevAttr(302);
pub const ACL_DEV_ATTR_PHY_CHIP_ID: aclrtDevAttr = aclrtDevAttr(402);
pub const ACL_DEV_ATTR_IS_VIRTUAL: aclrtDevAttr = aclrtDevAttr(501);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtDevAttr(pub ::std::os::raw::c_uint);
pub const ACL_RT_OVERFLOW_MODE_SATURATION: aclrtFloatOverflowMode = aclrtFloatOverflowMode(
    0,
);
pub const ACL_RT_OVERFLOW_MODE_INFNAN: aclrtFloatOverflowMode = aclrtFloatOverflowMode(
    1,
);
pub const ACL_RT_OVERFLOW_MODE_UNDEF: aclrtFloatOverflowMode = aclrtFloatOverflowMode(2);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtFloatOverflowMode(pub ::std::os::raw::c_uint);
pub const ACL_RT_DEV_RES_CUBE_CORE: aclrtDevResLimitType = aclrtDevResLimitType(0);
pub const ACL_RT_DEV_RES_VECTOR_CORE: aclrtDevResLimitType = aclrtDevResLimitType(1);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtDevResLimitType(pub ::std::os::raw::c_uint);
pub const ACL_RT_STREAM_WORK_ADDR_PTR: aclrtStreamConfigAttr = aclrtStreamConfigAttr(0);
pub const ACL_RT_STREAM_WORK_SIZE: aclrtStreamConfigAttr = aclrtStreamConfigAttr(1);
pub const ACL_RT_STREAM_FLAG: aclrtStreamConfigAttr = aclrtStreamConfigAttr(2);
pub const ACL_RT_STREAM_PRIORITY: aclrtStreamConfigAttr = aclrtStreamConfigAttr(3);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtStreamConfigAttr(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclrtStreamConfigHandle {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclDataBuffer {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclrtErrorInfo {
    _unused: [u8; 0],
}
pub const ACL_RT_THREAD_LEVEL: aclrtLastErrLevel = aclrtLastErrLevel(0);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtLastErrLevel(pub ::std::os::raw::c_uint);
pub const ACL_DEVICE: aclrtRunMode = aclrtRunMode(0);
pub const ACL_HOST: aclrtRunMode = aclrtRunMode(1);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtRunMode(pub ::std::os::raw::c_uint);
pub const ACL_TS_ID_AICORE: aclrtTsId = aclrtTsId(0);
pub const ACL_TS_ID_AIVECTOR: aclrtTsId = aclrtTsId(1);
pub const ACL_TS_ID_RESERVED: aclrtTsId = aclrtTsId(2);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtTsId(pub ::std::os::raw::c_uint);
pub const ACL_RT_DEVICE_STATUS_NORMAL: aclrtDeviceStatus = aclrtDeviceStatus(0);
pub const ACL_RT_DEVICE_STATUS_ABNORMAL: aclrtDeviceStatus = aclrtDeviceStatus(1);
pub const ACL_RT_DEVICE_STATUS_END: aclrtDeviceStatus = aclrtDeviceStatus(65535);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtDeviceStatus(pub ::std::os::raw::c_uint);
pub const ACL_STREAM_STATUS_COMPLETE: aclrtStreamStatus = aclrtStreamStatus(0);
pub const ACL_STREAM_STATUS_NOT_READY: aclrtStreamStatus = aclrtStreamStatus(1);
pub const ACL_STREAM_STATUS_RESERVED: aclrtStreamStatus = aclrtStreamStatus(65535);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtStreamStatus(pub ::std::os::raw::c_uint);
pub const ACL_EVENT_RECORDED_STATUS_NOT_READY: aclrtEventRecordedStatus = aclrtEventRecordedStatus(
    0,
);
pub const ACL_EVENT_RECORDED_STATUS_COMPLETE: aclrtEventRecordedStatus = aclrtEventRecordedStatus(
    1,
);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtEventRecordedStatus(pub ::std::os::raw::c_uint);
pub const ACL_EVENT_STATUS_COMPLETE: aclrtEventStatus = aclrtEventStatus(0);
pub const ACL_EVENT_STATUS_NOT_READY: aclrtEventStatus = aclrtEventStatus(1);
pub const ACL_EVENT_STATUS_RESERVED: aclrtEventStatus = aclrtEventStatus(2);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtEventStatus(pub ::std::os::raw::c_uint);
pub const ACL_EVENT_WAIT_STATUS_COMPLETE: aclrtEventWaitStatus = aclrtEventWaitStatus(0);
pub const ACL_EVENT_WAIT_STATUS_NOT_READY: aclrtEventWaitStatus = aclrtEventWaitStatus(
    1,
);
pub const ACL_EVENT_WAIT_STATUS_RESERVED: aclrtEventWaitStatus = aclrtEventWaitStatus(
    65535,
);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtEventWaitStatus(pub ::std::os::raw::c_uint);
pub const ACL_CALLBACK_NO_BLOCK: aclrtCallbackBlockType = aclrtCallbackBlockType(0);
pub const ACL_CALLBACK_BLOCK: aclrtCallbackBlockType = aclrtCallbackBlockType(1);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtCallbackBlockType(pub ::std::os::raw::c_uint);
pub const ACL_MEMCPY_HOST_TO_HOST: aclrtMemcpyKind = aclrtMemcpyKind(0);
pub const ACL_MEMCPY_HOST_TO_DEVICE: aclrtMemcpyKind = aclrtMemcpyKind(1);
pub const ACL_MEMCPY_DEVICE_TO_HOST: aclrtMemcpyKind = aclrtMemcpyKind(2);
pub const ACL_MEMCPY_DEVICE_TO_DEVICE: aclrtMemcpyKind = aclrtMemcpyKind(3);
pub const ACL_MEMCPY_DEFAULT: aclrtMemcpyKind = aclrtMemcpyKind(4);
pub const ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE: aclrtMemcpyKind = aclrtMemcpyKind(5);
pub const ACL_MEMCPY_INNER_DEVICE_TO_DEVICE: aclrtMemcpyKind = aclrtMemcpyKind(6);
pub const ACL_MEMCPY_INTER_DEVICE_TO_DEVICE: aclrtMemcpyKind = aclrtMemcpyKind(7);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtMemcpyKind(pub ::std::os::raw::c_uint);
pub const ACL_MEM_MALLOC_HUGE_FIRST: aclrtMemMallocPolicy = aclrtMemMallocPolicy(0);
pub const ACL_MEM_MALLOC_HUGE_ONLY: aclrtMemMallocPolicy = aclrtMemMallocPolicy(1);
pub const ACL_MEM_MALLOC_NORMAL_ONLY: aclrtMemMallocPolicy = aclrtMemMallocPolicy(2);
pub const ACL_MEM_MALLOC_HUGE_FIRST_P2P: aclrtMemMallocPolicy = aclrtMemMallocPolicy(3);
pub const ACL_MEM_MALLOC_HUGE_ONLY_P2P: aclrtMemMallocPolicy = aclrtMemMallocPolicy(4);
pub const ACL_MEM_MALLOC_NORMAL_ONLY_P2P: aclrtMemMallocPolicy = aclrtMemMallocPolicy(5);
pub const ACL_MEM_MALLOC_HUGE1G_ONLY: aclrtMemMallocPolicy = aclrtMemMallocPolicy(6);
pub const ACL_MEM_MALLOC_HUGE1G_ONLY_P2P: aclrtMemMallocPolicy = aclrtMemMallocPolicy(7);
pub const ACL_MEM_TYPE_LOW_BAND_WIDTH: aclrtMemMallocPolicy = aclrtMemMallocPolicy(256);
pub const ACL_MEM_TYPE_HIGH_BAND_WIDTH: aclrtMemMallocPolicy = aclrtMemMallocPolicy(
    4096,
);
pub const ACL_MEM_ACCESS_USER_SPACE_READONLY: aclrtMemMallocPolicy = aclrtMemMallocPolicy(
    1048576,
);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtMemMallocPolicy(pub ::std::os::raw::c_uint);
pub const ACL_DDR_MEM: aclrtMemAttr = aclrtMemAttr(0);
pub const ACL_HBM_MEM: aclrtMemAttr = aclrtMemAttr(1);
pub const ACL_DDR_MEM_HUGE: aclrtMemAttr = aclrtMemAttr(2);
pub const ACL_DDR_MEM_NORMAL: aclrtMemAttr = aclrtMemAttr(3);
pub const ACL_HBM_MEM_HUGE: aclrtMemAttr = aclrtMemAttr(4);
pub const ACL_HBM_MEM_NORMAL: aclrtMemAttr = aclrtMemAttr(5);
pub const ACL_DDR_MEM_P2P_HUGE: aclrtMemAttr = aclrtMemAttr(6);
pub const ACL_DDR_MEM_P2P_NORMAL: aclrtMemAttr = aclrtMemAttr(7);
pub const ACL_HBM_MEM_P2P_HUGE: aclrtMemAttr = aclrtMemAttr(8);
pub const ACL_HBM_MEM_P2P_NORMAL: aclrtMemAttr = aclrtMemAttr(9);
pub const ACL_HBM_MEM_HUGE1G: aclrtMemAttr = aclrtMemAttr(10);
pub const ACL_HBM_MEM_P2P_HUGE1G: aclrtMemAttr = aclrtMemAttr(11);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtMemAttr(pub ::std::os::raw::c_uint);
pub const ACL_RT_MEM_ATTR_RSV: aclrtMallocAttrType = aclrtMallocAttrType(0);
pub const ACL_RT_MEM_ATTR_MODULE_ID: aclrtMallocAttrType = aclrtMallocAttrType(1);
pub const ACL_RT_MEM_ATTR_DEVICE_ID: aclrtMallocAttrType = aclrtMallocAttrType(2);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtMallocAttrType(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Copy, Clone)]
pub union aclrtMallocAttrValue {
    pub moduleId: u16,
    pub deviceId: u32,
    pub rsv: [u8; 8usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of aclrtMallocAttrValue",
    ][::std::mem::size_of::<aclrtMallocAttrValue>() - 8usize];
    [
        "Alignment of aclrtMallocAttrValue",
    ][::std::mem::align_of::<aclrtMallocAttrValue>() - 4usize];
    [
        "Offset of field: aclrtMallocAttrValue::moduleId",
    ][::std::mem::offset_of!(aclrtMallocAttrValue, moduleId) - 0usize];
    [
        "Offset of field: aclrtMallocAttrValue::deviceId",
    ][::std::mem::offset_of!(aclrtMallocAttrValue, deviceId) - 0usize];
    [
        "Offset of field: aclrtMallocAttrValue::rsv",
    ][::std::mem::offset_of!(aclrtMallocAttrValue, rsv) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct aclrtMallocAttribute {
    pub attr: aclrtMallocAttrType,
    pub value: aclrtMallocAttrValue,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of aclrtMallocAttribute",
    ][::std::mem::size_of::<aclrtMallocAttribute>() - 12usize];
    [
        "Alignment of aclrtMallocAttribute",
    ][::std::mem::align_of::<aclrtMallocAttribute>() - 4usize];
    [
        "Offset of field: aclrtMallocAttribute::attr",
    ][::std::mem::offset_of!(aclrtMallocAttribute, attr) - 0usize];
    [
        "Offset of field: aclrtMallocAttribute::value",
    ][::std::mem::offset_of!(aclrtMallocAttribute, value) - 4usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclrtMallocConfig {
    pub attrs: *mut aclrtMallocAttribute,
    pub numAttrs: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aclrtMallocConfig"][::std::mem::size_of::<aclrtMallocConfig>() - 16usize];
    [
        "Alignment of aclrtMallocConfig",
    ][::std::mem::align_of::<aclrtMallocConfig>() - 8usize];
    [
        "Offset of field: aclrtMallocConfig::attrs",
    ][::std::mem::offset_of!(aclrtMallocConfig, attrs) - 0usize];
    [
        "Offset of field: aclrtMallocConfig::numAttrs",
    ][::std::mem::offset_of!(aclrtMallocConfig, numAttrs) - 8usize];
};
pub const ACL_MEM_LOCATION_TYPE_HOST: aclrtMemLocationType = aclrtMemLocationType(0);
pub const ACL_MEM_LOCATION_TYPE_DEVICE: aclrtMemLocationType = aclrtMemLocationType(1);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtMemLocationType(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclrtMemLocation {
    pub id: u32,
    pub type_: aclrtMemLocationType,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aclrtMemLocation"][::std::mem::size_of::<aclrtMemLocation>() - 8usize];
    [
        "Alignment of aclrtMemLocation",
    ][::std::mem::align_of::<aclrtMemLocation>() - 4usize];
    [
        "Offset of field: aclrtMemLocation::id",
    ][::std::mem::offset_of!(aclrtMemLocation, id) - 0usize];
    [
        "Offset of field: aclrtMemLocation::type_",
    ][::std::mem::offset_of!(aclrtMemLocation, type_) - 4usize];
};
pub type aclrtDrvMemHandle = *mut ::std::os::raw::c_void;
pub const ACL_MEM_HANDLE_TYPE_NONE: aclrtMemHandleType = aclrtMemHandleType(0);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtMemHandleType(pub ::std::os::raw::c_uint);
pub const ACL_MEM_ALLOCATION_TYPE_PINNED: aclrtMemAllocationType = aclrtMemAllocationType(
    0,
);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtMemAllocationType(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclrtPhysicalMemProp {
    pub handleType: aclrtMemHandleType,
    pub allocationType: aclrtMemAllocationType,
    pub memAttr: aclrtMemAttr,
    pub location: aclrtMemLocation,
    pub reserve: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of aclrtPhysicalMemProp",
    ][::std::mem::size_of::<aclrtPhysicalMemProp>() - 32usize];
    [
        "Alignment of aclrtPhysicalMemProp",
    ][::std::mem::align_of::<aclrtPhysicalMemProp>() - 8usize];
    [
        "Offset of field: aclrtPhysicalMemProp::handleType",
    ][::std::mem::offset_of!(aclrtPhysicalMemProp, handleType) - 0usize];
    [
        "Offset of field: aclrtPhysicalMemProp::allocationType",
    ][::std::mem::offset_of!(aclrtPhysicalMemProp, allocationType) - 4usize];
    [
        "Offset of field: aclrtPhysicalMemProp::memAttr",
    ][::std::mem::offset_of!(aclrtPhysicalMemProp, memAttr) - 8usize];
    [
        "Offset of field: aclrtPhysicalMemProp::location",
    ][::std::mem::offset_of!(aclrtPhysicalMemProp, location) - 12usize];
    [
        "Offset of field: aclrtPhysicalMemProp::reserve",
    ][::std::mem::offset_of!(aclrtPhysicalMemProp, reserve) - 24usize];
};
pub const ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM: aclrtMemGranularityOptions = aclrtMemGranularityOptions(
    0,
);
pub const ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED: aclrtMemGranularityOptions = aclrtMemGranularityOptions(
    1,
);
pub const ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF: aclrtMemGranularityOptions = aclrtMemGranularityOptions(
    65535,
);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtMemGranularityOptions(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclrtMemcpyBatchAttr {
    pub dstLoc: aclrtMemLocation,
    pub srcLoc: aclrtMemLocation,
    pub rsv: [u8; 16usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of aclrtMemcpyBatchAttr",
    ][::std::mem::size_of::<aclrtMemcpyBatchAttr>() - 32usize];
    [
        "Alignment of aclrtMemcpyBatchAttr",
    ][::std::mem::align_of::<aclrtMemcpyBatchAttr>() - 4usize];
    [
        "Offset of field: aclrtMemcpyBatchAttr::dstLoc",
    ][::std::mem::offset_of!(aclrtMemcpyBatchAttr, dstLoc) - 0usize];
    [
        "Offset of field: aclrtMemcpyBatchAttr::srcLoc",
    ][::std::mem::offset_of!(aclrtMemcpyBatchAttr, srcLoc) - 8usize];
    [
        "Offset of field: aclrtMemcpyBatchAttr::rsv",
    ][::std::mem::offset_of!(aclrtMemcpyBatchAttr, rsv) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclrtPtrAttributes {
    pub location: aclrtMemLocation,
    pub pageSize: u32,
    pub rsv: [u32; 4usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of aclrtPtrAttributes",
    ][::std::mem::size_of::<aclrtPtrAttributes>() - 28usize];
    [
        "Alignment of aclrtPtrAttributes",
    ][::std::mem::align_of::<aclrtPtrAttributes>() - 4usize];
    [
        "Offset of field: aclrtPtrAttributes::location",
    ][::std::mem::offset_of!(aclrtPtrAttributes, location) - 0usize];
    [
        "Offset of field: aclrtPtrAttributes::pageSize",
    ][::std::mem::offset_of!(aclrtPtrAttributes, pageSize) - 8usize];
    [
        "Offset of field: aclrtPtrAttributes::rsv",
    ][::std::mem::offset_of!(aclrtPtrAttributes, rsv) - 12usize];
};
pub const ACL_HOST_REGISTER_MAPPED: aclrtHostRegisterType = aclrtHostRegisterType(0);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtHostRegisterType(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclrtUtilizationExtendInfo {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclrtUtilizationInfo {
    pub cubeUtilization: i32,
    pub vectorUtilization: i32,
    pub aicpuUtilization: i32,
    pub memoryUtilization: i32,
    pub utilizationExtend: *mut aclrtUtilizationExtendInfo,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of aclrtUtilizationInfo",
    ][::std::mem::size_of::<aclrtUtilizationInfo>() - 24usize];
    [
        "Alignment of aclrtUtilizationInfo",
    ][::std::mem::align_of::<aclrtUtilizationInfo>() - 8usize];
    [
        "Offset of field: aclrtUtilizationInfo::cubeUtilization",
    ][::std::mem::offset_of!(aclrtUtilizationInfo, cubeUtilization) - 0usize];
    [
        "Offset of field: aclrtUtilizationInfo::vectorUtilization",
    ][::std::mem::offset_of!(aclrtUtilizationInfo, vectorUtilization) - 4usize];
    [
        "Offset of field: aclrtUtilizationInfo::aicpuUtilization",
    ][::std::mem::offset_of!(aclrtUtilizationInfo, aicpuUtilization) - 8usize];
    [
        "Offset of field: aclrtUtilizationInfo::memoryUtilization",
    ][::std::mem::offset_of!(aclrtUtilizationInfo, memoryUtilization) - 12usize];
    [
        "Offset of field: aclrtUtilizationInfo::utilizationExtend",
    ][::std::mem::offset_of!(aclrtUtilizationInfo, utilizationExtend) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclrtUuid {
    pub bytes: [::std::os::raw::c_char; 16usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aclrtUuid"][::std::mem::size_of::<aclrtUuid>() - 16usize];
    ["Alignment of aclrtUuid"][::std::mem::align_of::<aclrtUuid>() - 1usize];
    [
        "Offset of field: aclrtUuid::bytes",
    ][::std::mem::offset_of!(aclrtUuid, bytes) - 0usize];
};
pub const ACL_CANN_ATTR_UNDEFINED: aclCannAttr = aclCannAttr(-1);
pub const ACL_CANN_ATTR_INF_NAN: aclCannAttr = aclCannAttr(0);
pub const ACL_CANN_ATTR_BF16: aclCannAttr = aclCannAttr(1);
pub const ACL_CANN_ATTR_JIT_COMPILE: aclCannAttr = aclCannAttr(2);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclCannAttr(pub ::std::os::raw::c_int);
pub const ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV: aclrtDevFeatureType = aclrtDevFeatureType(
    1,
);
pub const ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV: aclrtDevFeatureType = aclrtDevFeatureType(
    21,
);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclrtDevFeatureType(pub ::std::os::raw::c_uint);
pub const ACL_REG_TYPE_ACL_MODEL: aclRegisterCallbackType = aclRegisterCallbackType(0);
pub const ACL_REG_TYPE_ACL_OP_EXECUTOR: aclRegisterCallbackType = aclRegisterCallbackType(
    1,
);
pub const ACL_REG_TYPE_ACL_OP_CBLAS: aclRegisterCallbackType = aclRegisterCallbackType(
    2,
);
pub const ACL_REG_TYPE_ACL_OP_COMPILER: aclRegisterCallbackType = aclRegisterCallbackType(
    3,
);
pub const ACL_REG_TYPE_ACL_TDT_CHANNEL: aclRegisterCallbackType = aclRegisterCallbackType(
    4,
);
pub const ACL_REG_TYPE_ACL_TDT_QUEUE: aclRegisterCallbackType = aclRegisterCallbackType(
    5,
);
pub const ACL_REG_TYPE_ACL_DVPP: aclRegisterCallbackType = aclRegisterCallbackType(6);
pub const ACL_REG_TYPE_ACL_RETR: aclRegisterCallbackType = aclRegisterCallbackType(7);
pub const ACL_REG_TYPE_OTHER: aclRegisterCallbackType = aclRegisterCallbackType(65535);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclRegisterCallbackType(pub ::std::os::raw::c_uint);
pub type aclInitCallbackFunc = ::std::option::Option<
    unsafe extern "C" fn(
        config: *const ::std::os::raw::c_char,
        length: usize,
        user_data: *mut ::std::os::raw::c_void,
    ) -> aclError,
>;
pub type aclFinalizeCallbackFunc = ::std::option::Option<
    unsafe extern "C" fn(user_data: *mut ::std::os::raw::c_void) -> aclError,
>;
pub type aclrtCallback = ::std::option::Option<
    unsafe extern "C" fn(user_data: *mut ::std::os::raw::c_void),
>;
pub type aclrtHostFunc = ::std::option::Option<
    unsafe extern "C" fn(user_data: *mut ::std::os::raw::c_void),
>;
pub type aclInit = unsafe extern "C" fn(
    config_path: *const ::std::os::raw::c_char,
) -> aclError;
pub type aclFinalize = unsafe extern "C" fn() -> aclError;
pub type aclFinalizeReference = unsafe extern "C" fn(references: *mut u64) -> aclError;
pub type aclInitCallbackRegister = unsafe extern "C" fn(
    type_: aclRegisterCallbackType,
    function: aclInitCallbackFunc,
    user_data: *mut ::std::os::raw::c_void,
) -> aclError;
pub type aclInitCallbackUnRegister = unsafe extern "C" fn(
    type_: aclRegisterCallbackType,
    function: aclInitCallbackFunc,
) -> aclError;
pub type aclFinalizeCallbackRegister = unsafe extern "C" fn(
    type_: aclRegisterCallbackType,
    function: aclFinalizeCallbackFunc,
    user_data: *mut ::std::os::raw::c_void,
) -> aclError;
pub type aclFinalizeCallbackUnRegister = unsafe extern "C" fn(
    type_: aclRegisterCallbackType,
    function: aclFinalizeCallbackFunc,
) -> aclError;
pub type aclrtGetVersion = unsafe extern "C" fn(
    major: *mut i32,
    minor: *mut i32,
    patch: *mut i32,
) -> aclError;
pub type aclsysGetCANNVersion = unsafe extern "C" fn(
    package: aclCANNPackageName,
    version: *mut aclCANNPackageVersion,
) -> aclError;
pub type aclsysGetVersionStr = unsafe extern "C" fn(
    package: *mut ::std::os::raw::c_char,
    version: *mut ::std::os::raw::c_char,
) -> aclError;
pub type aclsysGetVersionNum = unsafe extern "C" fn(
    package: *mut ::std::os::raw::c_char,
    version: *mut i32,
) -> aclError;
pub type aclGetRecentErrMsg = unsafe extern "C" fn() -> *const ::std::os::raw::c_char;
pub type aclrtPeekAtLastError = unsafe extern "C" fn(
    level: aclrtLastErrLevel,
) -> aclError;
pub type aclrtGetLastError = unsafe extern "C" fn(level: aclrtLastErrLevel) -> aclError;
pub type aclrtGetErrorVerbose = unsafe extern "C" fn(
    device: i32,
    error: *mut aclrtErrorInfo,
) -> aclError;
pub type aclDataTypeSize = unsafe extern "C" fn(data_type: aclDataType) -> usize;
pub type aclFloatToFloat16 = unsafe extern "C" fn(value: f32) -> aclFloat16;
pub type aclFloat16ToFloat = unsafe extern "C" fn(value: aclFloat16) -> f32;
pub type aclCreateDataBuffer = unsafe extern "C" fn(
    data: *mut ::std::os::raw::c_void,
    size: usize,
) -> *mut aclDataBuffer;
pub type aclDestroyDataBuffer = unsafe extern "C" fn(
    buffer: *const aclDataBuffer,
) -> aclError;
pub type aclUpdateDataBuffer = unsafe extern "C" fn(
    buffer: *mut aclDataBuffer,
    data: *mut ::std::os::raw::c_void,
    size: usize,
) -> aclError;
pub type aclGetDataBufferAddr = unsafe extern "C" fn(
    buffer: *const aclDataBuffer,
) -> *mut ::std::os::raw::c_void;
pub type aclGetDataBufferSize = unsafe extern "C" fn(
    buffer: *const aclDataBuffer,
) -> u32;
pub type aclGetDataBufferSizeV2 = unsafe extern "C" fn(
    buffer: *const aclDataBuffer,
) -> usize;
pub type aclrtGetDeviceCount = unsafe extern "C" fn(count: *mut u32) -> aclError;
pub type aclrtSetDevice = unsafe extern "C" fn(device: i32) -> aclError;
pub type aclrtGetDevice = unsafe extern "C" fn(device: *mut i32) -> aclError;
pub type aclrtResetDevice = unsafe extern "C" fn(device: i32) -> aclError;
pub type aclrtResetDeviceForce = unsafe extern "C" fn(device: i32) -> aclError;
pub type aclrtSynchronizeDevice = unsafe extern "C" fn() -> aclError;
pub type aclrtSynchronizeDeviceWithTimeout = unsafe extern "C" fn(
    milliseconds: i32,
) -> aclError;
pub type aclrtGetSocName = unsafe extern "C" fn() -> *const ::std::os::raw::c_char;
pub type aclGetDeviceCapability = unsafe extern "C" fn(
    device: u32,
    what: aclDeviceInfo,
    value: *mut i64,
) -> aclError;
pub type aclrtGetDeviceInfo = unsafe extern "C" fn(
    device: u32,
    what: aclrtDevAttr,
    value: *mut i64,
) -> aclError;
pub type aclrtGetResInCurrentThread = unsafe extern "C" fn(
    what: aclrtDevResLimitType,
    count: *mut u32,
) -> aclError;
pub type aclrtGetDeviceUtilizationRate = unsafe extern "C" fn(
    device: i32,
    rate: *mut aclrtUtilizationInfo,
) -> aclError;
pub type aclrtGetDeviceCapability = unsafe extern "C" fn(
    device: i32,
    what: aclrtDevFeatureType,
    value: *mut i32,
) -> aclError;
pub type aclrtCheckArchCompatibility = unsafe extern "C" fn(
    soc: *const ::std::os::raw::c_char,
    compatible: *mut i32,
) -> aclError;
pub type aclGetCannAttributeList = unsafe extern "C" fn(
    list: *mut *const aclCannAttr,
    count: *mut usize,
) -> aclError;
pub type aclGetCannAttribute = unsafe extern "C" fn(
    what: aclCannAttr,
    value: *mut i32,
) -> aclError;
pub type aclrtQueryDeviceStatus = unsafe extern "C" fn(
    device: i32,
    status: *mut aclrtDeviceStatus,
) -> aclError;
pub type aclrtDeviceCanAccessPeer = unsafe extern "C" fn(
    can: *mut i32,
    device: i32,
    peer: i32,
) -> aclError;
pub type aclrtDeviceEnablePeerAccess = unsafe extern "C" fn(
    peer: i32,
    flags: u32,
) -> aclError;
pub type aclrtDeviceDisablePeerAccess = unsafe extern "C" fn(peer: i32) -> aclError;
pub type aclrtGetLogicDevIdByUserDevId = unsafe extern "C" fn(
    user: i32,
    logic: *mut i32,
) -> aclError;
pub type aclrtGetUserDevIdByLogicDevId = unsafe extern "C" fn(
    logic: i32,
    user: *mut i32,
) -> aclError;
pub type aclrtGetPhyDevIdByLogicDevId = unsafe extern "C" fn(
    logic: i32,
    physical: *mut i32,
) -> aclError;
pub type aclrtGetLogicDevIdByPhyDevId = unsafe extern "C" fn(
    physical: i32,
    logic: *mut i32,
) -> aclError;
pub type aclrtGetUserDevIdByPhyDevId = unsafe extern "C" fn(
    physical: i32,
    user: *mut i32,
) -> aclError;
pub type aclrtGetPhyDevIdByUserDevId = unsafe extern "C" fn(
    user: i32,
    physical: *mut i32,
) -> aclError;
pub type aclrtDeviceGetUuid = unsafe extern "C" fn(
    device: i32,
    uuid: *mut aclrtUuid,
) -> aclError;
pub type aclrtDeviceGetPCIBusId = unsafe extern "C" fn(
    device: i32,
    text: *mut ::std::os::raw::c_char,
    size: i32,
) -> aclError;
pub type aclrtDeviceGetByPCIBusId = unsafe extern "C" fn(
    text: *const ::std::os::raw::c_char,
    device: *mut i32,
) -> aclError;
pub type aclrtGetRunMode = unsafe extern "C" fn(mode: *mut aclrtRunMode) -> aclError;
pub type aclrtSetTsDevice = unsafe extern "C" fn(id: aclrtTsId) -> aclError;
pub type aclrtCreateContext = unsafe extern "C" fn(
    context: *mut aclrtContext,
    device: i32,
) -> aclError;
pub type aclrtDestroyContext = unsafe extern "C" fn(context: aclrtContext) -> aclError;
pub type aclrtSetCurrentContext = unsafe extern "C" fn(
    context: aclrtContext,
) -> aclError;
pub type aclrtGetCurrentContext = unsafe extern "C" fn(
    context: *mut aclrtContext,
) -> aclError;
pub type aclrtCtxGetCurrentDefaultStream = unsafe extern "C" fn(
    stream: *mut aclrtStream,
) -> aclError;
pub type aclrtCtxGetSysParamOpt = unsafe extern "C" fn(
    option: aclSysParamOpt,
    value: *mut i64,
) -> aclError;
pub type aclrtCtxSetSysParamOpt = unsafe extern "C" fn(
    option: aclSysParamOpt,
    value: i64,
) -> aclError;
pub type aclrtGetSysParamOpt = unsafe extern "C" fn(
    option: aclSysParamOpt,
    value: *mut i64,
) -> aclError;
pub type aclrtSetSysParamOpt = unsafe extern "C" fn(
    option: aclSysParamOpt,
    value: i64,
) -> aclError;
pub type aclrtMalloc = unsafe extern "C" fn(
    address: *mut *mut ::std::os::raw::c_void,
    size: usize,
    policy: aclrtMemMallocPolicy,
) -> aclError;
pub type aclrtMallocAlign32 = unsafe extern "C" fn(
    address: *mut *mut ::std::os::raw::c_void,
    size: usize,
    policy: aclrtMemMallocPolicy,
) -> aclError;
pub type aclrtMallocCached = unsafe extern "C" fn(
    address: *mut *mut ::std::os::raw::c_void,
    size: usize,
    policy: aclrtMemMallocPolicy,
) -> aclError;
pub type aclrtMallocWithCfg = unsafe extern "C" fn(
    address: *mut *mut ::std::os::raw::c_void,
    size: usize,
    policy: aclrtMemMallocPolicy,
    config: *mut aclrtMallocConfig,
) -> aclError;
pub type aclrtFree = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
) -> aclError;
pub type aclrtFreeWithDevSync = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
) -> aclError;
pub type aclrtGetMemInfo = unsafe extern "C" fn(
    attribute: aclrtMemAttr,
    free: *mut usize,
    total: *mut usize,
) -> aclError;
pub type aclrtPointerGetAttributes = unsafe extern "C" fn(
    address: *const ::std::os::raw::c_void,
    attributes: *mut aclrtPtrAttributes,
) -> aclError;
pub type aclrtCheckMemType = unsafe extern "C" fn(
    addresses: *mut *mut ::std::os::raw::c_void,
    size: u32,
    type_: u32,
    matches: *mut u32,
    reserved: u32,
) -> aclError;
pub type aclrtReserveMemAddress = unsafe extern "C" fn(
    address: *mut *mut ::std::os::raw::c_void,
    size: usize,
    alignment: usize,
    wish: *mut ::std::os::raw::c_void,
    flags: u64,
) -> aclError;
pub type aclrtReleaseMemAddress = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
) -> aclError;
pub type aclrtMallocPhysical = unsafe extern "C" fn(
    handle: *mut aclrtDrvMemHandle,
    size: usize,
    properties: *const aclrtPhysicalMemProp,
    flags: u64,
) -> aclError;
pub type aclrtFreePhysical = unsafe extern "C" fn(handle: aclrtDrvMemHandle) -> aclError;
pub type aclrtMapMem = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
    size: usize,
    offset: usize,
    handle: aclrtDrvMemHandle,
    flags: u64,
) -> aclError;
pub type aclrtUnmapMem = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
) -> aclError;
pub type aclrtMemGetAllocationGranularity = unsafe extern "C" fn(
    properties: *mut aclrtPhysicalMemProp,
    option: aclrtMemGranularityOptions,
    granularity: *mut usize,
) -> aclError;
pub type aclrtMemExportToShareableHandle = unsafe extern "C" fn(
    handle: aclrtDrvMemHandle,
    type_: aclrtMemHandleType,
    flags: u64,
    shareable: *mut u64,
) -> aclError;
pub type aclrtMemSetPidToShareableHandle = unsafe extern "C" fn(
    shareable: u64,
    processes: *mut i32,
    count: usize,
) -> aclError;
pub type aclrtMemImportFromShareableHandle = unsafe extern "C" fn(
    shareable: u64,
    device: i32,
    handle: *mut aclrtDrvMemHandle,
) -> aclError;
pub type aclrtDeviceGetBareTgid = unsafe extern "C" fn(process: *mut i32) -> aclError;
pub type aclrtMallocHost = unsafe extern "C" fn(
    address: *mut *mut ::std::os::raw::c_void,
    size: usize,
) -> aclError;
pub type aclrtMallocHostWithCfg = unsafe extern "C" fn(
    address: *mut *mut ::std::os::raw::c_void,
    size: u64,
    config: *mut aclrtMallocConfig,
) -> aclError;
pub type aclrtFreeHost = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
) -> aclError;
pub type aclrtFreeHostWithDevSync = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
) -> aclError;
pub type aclrtHostRegister = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
    size: u64,
    type_: aclrtHostRegisterType,
    device_address: *mut *mut ::std::os::raw::c_void,
) -> aclError;
pub type aclrtHostRegisterV2 = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
    size: u64,
    flags: u32,
) -> aclError;
pub type aclrtHostGetDevicePointer = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
    device_address: *mut *mut ::std::os::raw::c_void,
    flags: u32,
) -> aclError;
pub type aclrtHostUnregister = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
) -> aclError;
pub type aclrtMemcpy = unsafe extern "C" fn(
    to: *mut ::std::os::raw::c_void,
    to_size: usize,
    from: *const ::std::os::raw::c_void,
    count: usize,
    kind: aclrtMemcpyKind,
) -> aclError;
pub type aclrtMemcpyAsync = unsafe extern "C" fn(
    to: *mut ::std::os::raw::c_void,
    to_size: usize,
    from: *const ::std::os::raw::c_void,
    count: usize,
    kind: aclrtMemcpyKind,
    stream: aclrtStream,
) -> aclError;
pub type aclrtMemcpyAsyncWithCondition = unsafe extern "C" fn(
    to: *mut ::std::os::raw::c_void,
    to_size: usize,
    from: *const ::std::os::raw::c_void,
    count: usize,
    kind: aclrtMemcpyKind,
    stream: aclrtStream,
) -> aclError;
pub type aclrtMemcpy2d = unsafe extern "C" fn(
    to: *mut ::std::os::raw::c_void,
    to_pitch: usize,
    from: *const ::std::os::raw::c_void,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: aclrtMemcpyKind,
) -> aclError;
pub type aclrtMemcpy2dAsync = unsafe extern "C" fn(
    to: *mut ::std::os::raw::c_void,
    to_pitch: usize,
    from: *const ::std::os::raw::c_void,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: aclrtMemcpyKind,
    stream: aclrtStream,
) -> aclError;
pub type aclrtMemcpyBatch = unsafe extern "C" fn(
    to: *mut *mut ::std::os::raw::c_void,
    to_sizes: *mut usize,
    from: *mut *mut ::std::os::raw::c_void,
    counts: *mut usize,
    copies: usize,
    attributes: *mut aclrtMemcpyBatchAttr,
    indices: *mut usize,
    kinds: usize,
    failed: *mut usize,
) -> aclError;
pub type aclrtMemcpyBatchAsync = unsafe extern "C" fn(
    to: *mut *mut ::std::os::raw::c_void,
    to_sizes: *mut usize,
    from: *mut *mut ::std::os::raw::c_void,
    counts: *mut usize,
    copies: usize,
    attributes: *mut aclrtMemcpyBatchAttr,
    indices: *mut usize,
    kinds: usize,
    failed: *mut usize,
    stream: aclrtStream,
) -> aclError;
pub type aclrtMemcpyBatchV2 = unsafe extern "C" fn(
    to: *mut *mut ::std::os::raw::c_void,
    to_sizes: *mut usize,
    from: *mut *mut ::std::os::raw::c_void,
    counts: *mut usize,
    copies: usize,
    attributes: *mut aclrtMemcpyBatchAttr,
    indices: *mut usize,
    kinds: usize,
) -> aclError;
pub type aclrtMemcpyBatchAsyncV2 = unsafe extern "C" fn(
    to: *mut *mut ::std::os::raw::c_void,
    to_sizes: *mut usize,
    from: *mut *mut ::std::os::raw::c_void,
    counts: *mut usize,
    copies: usize,
    attributes: *mut aclrtMemcpyBatchAttr,
    indices: *mut usize,
    kinds: usize,
    stream: aclrtStream,
) -> aclError;
pub type aclrtGetMemcpyDescSize = unsafe extern "C" fn(
    kind: aclrtMemcpyKind,
    size: *mut usize,
) -> aclError;
pub type aclrtSetMemcpyDesc = unsafe extern "C" fn(
    record: *mut ::std::os::raw::c_void,
    kind: aclrtMemcpyKind,
    from: *mut ::std::os::raw::c_void,
    to: *mut ::std::os::raw::c_void,
    count: usize,
    reserved: *mut ::std::os::raw::c_void,
) -> aclError;
pub type aclrtMemcpyAsyncWithDesc = unsafe extern "C" fn(
    record: *mut ::std::os::raw::c_void,
    kind: aclrtMemcpyKind,
    stream: aclrtStream,
) -> aclError;
pub type aclrtMemcpyAsyncWithOffset = unsafe extern "C" fn(
    to: *mut *mut ::std::os::raw::c_void,
    to_size: usize,
    to_offset: usize,
    from: *mut *const ::std::os::raw::c_void,
    count: usize,
    from_offset: usize,
    kind: aclrtMemcpyKind,
    stream: aclrtStream,
) -> aclError;
pub type aclrtMemset = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
    size: usize,
    value: i32,
    count: usize,
) -> aclError;
pub type aclrtMemsetAsync = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
    size: usize,
    value: i32,
    count: usize,
    stream: aclrtStream,
) -> aclError;
pub type aclrtMemsetD32 = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
    size: usize,
    value: u32,
    elements: usize,
) -> aclError;
pub type aclrtMemsetD32Async = unsafe extern "C" fn(
    address: *mut ::std::os::raw::c_void,
    size: usize,
    value: u32,
    elements: usize,
    stream: aclrtStream,
) -> aclError;
pub type aclrtCreateStream = unsafe extern "C" fn(stream: *mut aclrtStream) -> aclError;
pub type aclrtCreateStreamWithConfig = unsafe extern "C" fn(
    stream: *mut aclrtStream,
    priority: u32,
    flags: u32,
) -> aclError;
pub type aclrtCreateStreamConfigHandle = unsafe extern "C" fn() -> *mut aclrtStreamConfigHandle;
pub type aclrtSetStreamConfigOpt = unsafe extern "C" fn(
    config: *mut aclrtStreamConfigHandle,
    what: aclrtStreamConfigAttr,
    value: *const ::std::os::raw::c_void,
    size: usize,
) -> aclError;
pub type aclrtDestroyStreamConfigHandle = unsafe extern "C" fn(
    config: *mut aclrtStreamConfigHandle,
) -> aclError;
pub type aclrtCreateStreamV2 = unsafe extern "C" fn(
    stream: *mut aclrtStream,
    config: *const aclrtStreamConfigHandle,
) -> aclError;
pub type aclrtDestroyStream = unsafe extern "C" fn(stream: aclrtStream) -> aclError;
pub type aclrtDestroyStreamForce = unsafe extern "C" fn(stream: aclrtStream) -> aclError;
pub type aclrtStreamQuery = unsafe extern "C" fn(
    stream: aclrtStream,
    status: *mut aclrtStreamStatus,
) -> aclError;
pub type aclrtStreamGetId = unsafe extern "C" fn(
    stream: aclrtStream,
    id: *mut i32,
) -> aclError;
pub type aclrtStreamGetPriority = unsafe extern "C" fn(
    stream: aclrtStream,
    priority: *mut u32,
) -> aclError;
pub type aclrtStreamGetFlags = unsafe extern "C" fn(
    stream: aclrtStream,
    flags: *mut u32,
) -> aclError;
pub type aclrtGetStreamAvailableNum = unsafe extern "C" fn(count: *mut u32) -> aclError;
pub type aclrtSetStreamFailureMode = unsafe extern "C" fn(
    stream: aclrtStream,
    mode: u64,
) -> aclError;
pub type aclrtSynchronizeStream = unsafe extern "C" fn(stream: aclrtStream) -> aclError;
pub type aclrtSynchronizeStreamWithTimeout = unsafe extern "C" fn(
    stream: aclrtStream,
    milliseconds: i32,
) -> aclError;
pub type aclrtStreamWaitEvent = unsafe extern "C" fn(
    stream: aclrtStream,
    event: aclrtEvent,
) -> aclError;
pub type aclrtStreamWaitEventWithTimeout = unsafe extern "C" fn(
    stream: aclrtStream,
    event: aclrtEvent,
    milliseconds: i32,
) -> aclError;
pub type aclrtSetOpWaitTimeout = unsafe extern "C" fn(seconds: u32) -> aclError;
pub type aclrtSetOpExecuteTimeOut = unsafe extern "C" fn(seconds: u32) -> aclError;
pub type aclrtSetOpExecuteTimeOutWithMs = unsafe extern "C" fn(
    milliseconds: u32,
) -> aclError;
pub type aclrtSetOpExecuteTimeOutV2 = unsafe extern "C" fn(
    microseconds: u64,
    actual: *mut u64,
) -> aclError;
pub type aclrtGetOpExecuteTimeout = unsafe extern "C" fn(
    milliseconds: *mut u32,
) -> aclError;
pub type aclrtGetOpTimeOutInterval = unsafe extern "C" fn(
    microseconds: *mut u64,
) -> aclError;
pub type aclrtSetDeviceSatMode = unsafe extern "C" fn(
    mode: aclrtFloatOverflowMode,
) -> aclError;
pub type aclrtGetDeviceSatMode = unsafe extern "C" fn(
    mode: *mut aclrtFloatOverflowMode,
) -> aclError;
pub type aclrtSetStreamOverflowSwitch = unsafe extern "C" fn(
    stream: aclrtStream,
    on: u32,
) -> aclError;
pub type aclrtGetStreamOverflowSwitch = unsafe extern "C" fn(
    stream: aclrtStream,
    on: *mut u32,
) -> aclError;
pub type aclrtCreateEvent = unsafe extern "C" fn(event: *mut aclrtEvent) -> aclError;
pub type aclrtCreateEventWithFlag = unsafe extern "C" fn(
    event: *mut aclrtEvent,
    flags: u32,
) -> aclError;
pub type aclrtCreateEventExWithFlag = unsafe extern "C" fn(
    event: *mut aclrtEvent,
    flags: u32,
) -> aclError;
pub type aclrtDestroyEvent = unsafe extern "C" fn(event: aclrtEvent) -> aclError;
pub type aclrtRecordEvent = unsafe extern "C" fn(
    event: aclrtEvent,
    stream: aclrtStream,
) -> aclError;
pub type aclrtResetEvent = unsafe extern "C" fn(
    event: aclrtEvent,
    stream: aclrtStream,
) -> aclError;
pub type aclrtQueryEvent = unsafe extern "C" fn(
    event: aclrtEvent,
    status: *mut aclrtEventStatus,
) -> aclError;
pub type aclrtQueryEventStatus = unsafe extern "C" fn(
    event: aclrtEvent,
    status: *mut aclrtEventRecordedStatus,
) -> aclError;
pub type aclrtQueryEventWaitStatus = unsafe extern "C" fn(
    event: aclrtEvent,
    status: *mut aclrtEventWaitStatus,
) -> aclError;
pub type aclrtSynchronizeEvent = unsafe extern "C" fn(event: aclrtEvent) -> aclError;
pub type aclrtSynchronizeEventWithTimeout = unsafe extern "C" fn(
    event: aclrtEvent,
    milliseconds: i32,
) -> aclError;
pub type aclrtEventElapsedTime = unsafe extern "C" fn(
    milliseconds: *mut f32,
    start: aclrtEvent,
    end: aclrtEvent,
) -> aclError;
pub type aclrtEventGetTimestamp = unsafe extern "C" fn(
    event: aclrtEvent,
    microseconds: *mut u64,
) -> aclError;
pub type aclrtGetEventId = unsafe extern "C" fn(
    event: aclrtEvent,
    id: *mut u32,
) -> aclError;
pub type aclrtGetEventAvailNum = unsafe extern "C" fn(count: *mut u32) -> aclError;
pub type aclrtSubscribeReport = unsafe extern "C" fn(
    thread: u64,
    stream: aclrtStream,
) -> aclError;
pub type aclrtUnSubscribeReport = unsafe extern "C" fn(
    thread: u64,
    stream: aclrtStream,
) -> aclError;
pub type aclrtProcessReport = unsafe extern "C" fn(milliseconds: i32) -> aclError;
pub type aclrtLaunchCallback = unsafe extern "C" fn(
    function: aclrtCallback,
    user_data: *mut ::std::os::raw::c_void,
    blocking: aclrtCallbackBlockType,
    stream: aclrtStream,
) -> aclError;
pub type aclrtSubscribeHostFunc = unsafe extern "C" fn(
    thread: u64,
    stream: aclrtStream,
) -> aclError;
pub type aclrtUnSubscribeHostFunc = unsafe extern "C" fn(
    thread: u64,
    stream: aclrtStream,
) -> aclError;
pub type aclrtProcessHostFunc = unsafe extern "C" fn(milliseconds: i32) -> aclError;
pub type aclrtLaunchHostFunc = unsafe extern "C" fn(
    stream: aclrtStream,
    function: aclrtHostFunc,
    user_data: *mut ::std::os::raw::c_void,
) -> aclError;

crate::table::function_table! {
    /// The functions of `include/cann/runtime.h`.
    Runtime {
        aclInit,
        aclFinalize,
        aclFinalizeReference,
        aclInitCallbackRegister,
        aclInitCallbackUnRegister,
        aclFinalizeCallbackRegister,
        aclFinalizeCallbackUnRegister,
        aclrtGetVersion,
        aclsysGetCANNVersion,
        aclsysGetVersionStr,
        aclsysGetVersionNum,
        aclGetRecentErrMsg,
        aclrtPeekAtLastError,
        aclrtGetLastError,
        aclrtGetErrorVerbose,
        aclDataTypeSize,
        aclFloatToFloat16,
        aclFloat16ToFloat,
        aclCreateDataBuffer,
        aclDestroyDataBuffer,
        aclUpdateDataBuffer,
        aclGetDataBufferAddr,
        aclGetDataBufferSize,
        aclGetDataBufferSizeV2,
        aclrtGetDeviceCount,
        aclrtSetDevice,
        aclrtGetDevice,
        aclrtResetDevice,
        aclrtResetDeviceForce,
        aclrtSynchronizeDevice,
        aclrtSynchronizeDeviceWithTimeout,
        aclrtGetSocName,
        aclGetDeviceCapability,
        aclrtGetDeviceInfo,
        aclrtGetResInCurrentThread,
        aclrtGetDeviceUtilizationRate,
        aclrtGetDeviceCapability,
        aclrtCheckArchCompatibility,
        aclGetCannAttributeList,
        aclGetCannAttribute,
        aclrtQueryDeviceStatus,
        aclrtDeviceCanAccessPeer,
        aclrtDeviceEnablePeerAccess,
        aclrtDeviceDisablePeerAccess,
        aclrtGetLogicDevIdByUserDevId,
        aclrtGetUserDevIdByLogicDevId,
        aclrtGetPhyDevIdByLogicDevId,
        aclrtGetLogicDevIdByPhyDevId,
        aclrtGetUserDevIdByPhyDevId,
        aclrtGetPhyDevIdByUserDevId,
        aclrtDeviceGetUuid,
        aclrtDeviceGetPCIBusId,
        aclrtDeviceGetByPCIBusId,
        aclrtGetRunMode,
        aclrtSetTsDevice,
        aclrtCreateContext,
        aclrtDestroyContext,
        aclrtSetCurrentContext,
        aclrtGetCurrentContext,
        aclrtCtxGetCurrentDefaultStream,
        aclrtCtxGetSysParamOpt,
        aclrtCtxSetSysParamOpt,
        aclrtGetSysParamOpt,
        aclrtSetSysParamOpt,
        aclrtMalloc,
        aclrtMallocAlign32,
        aclrtMallocCached,
        aclrtMallocWithCfg,
        aclrtFree,
        aclrtFreeWithDevSync,
        aclrtGetMemInfo,
        aclrtPointerGetAttributes,
        aclrtCheckMemType,
        aclrtReserveMemAddress,
        aclrtReleaseMemAddress,
        aclrtMallocPhysical,
        aclrtFreePhysical,
        aclrtMapMem,
        aclrtUnmapMem,
        aclrtMemGetAllocationGranularity,
        aclrtMemExportToShareableHandle,
        aclrtMemSetPidToShareableHandle,
        aclrtMemImportFromShareableHandle,
        aclrtDeviceGetBareTgid,
        aclrtMallocHost,
        aclrtMallocHostWithCfg,
        aclrtFreeHost,
        aclrtFreeHostWithDevSync,
        aclrtHostRegister,
        aclrtHostRegisterV2,
        aclrtHostGetDevicePointer,
        aclrtHostUnregister,
        aclrtMemcpy,
        aclrtMemcpyAsync,
        aclrtMemcpyAsyncWithCondition,
        aclrtMemcpy2d,
        aclrtMemcpy2dAsync,
        aclrtMemcpyBatch,
        aclrtMemcpyBatchAsync,
        aclrtMemcpyBatchV2,
        aclrtMemcpyBatchAsyncV2,
        aclrtGetMemcpyDescSize,
        aclrtSetMemcpyDesc,
        aclrtMemcpyAsyncWithDesc,
        aclrtMemcpyAsyncWithOffset,
        aclrtMemset,
        aclrtMemsetAsync,
        aclrtMemsetD32,
        aclrtMemsetD32Async,
        aclrtCreateStream,
        aclrtCreateStreamWithConfig,
        aclrtCreateStreamConfigHandle,
        aclrtSetStreamConfigOpt,
        aclrtDestroyStreamConfigHandle,
        aclrtCreateStreamV2,
        aclrtDestroyStream,
        aclrtDestroyStreamForce,
        aclrtStreamQuery,
        aclrtStreamGetId,
        aclrtStreamGetPriority,
        aclrtStreamGetFlags,
        aclrtGetStreamAvailableNum,
        aclrtSetStreamFailureMode,
        aclrtSynchronizeStream,
        aclrtSynchronizeStreamWithTimeout,
        aclrtStreamWaitEvent,
        aclrtStreamWaitEventWithTimeout,
        aclrtSetOpWaitTimeout,
        aclrtSetOpExecuteTimeOut,
        aclrtSetOpExecuteTimeOutWithMs,
        aclrtSetOpExecuteTimeOutV2,
        aclrtGetOpExecuteTimeout,
        aclrtGetOpTimeOutInterval,
        aclrtSetDeviceSatMode,
        aclrtGetDeviceSatMode,
        aclrtSetStreamOverflowSwitch,
        aclrtGetStreamOverflowSwitch,
        aclrtCreateEvent,
        aclrtCreateEventWithFlag,
        aclrtCreateEventExWithFlag,
        aclrtDestroyEvent,
        aclrtRecordEvent,
        aclrtResetEvent,
        aclrtQueryEvent,
        aclrtQueryEventStatus,
        aclrtQueryEventWaitStatus,
        aclrtSynchronizeEvent,
        aclrtSynchronizeEventWithTimeout,
        aclrtEventElapsedTime,
        aclrtEventGetTimestamp,
        aclrtGetEventId,
        aclrtGetEventAvailNum,
        aclrtSubscribeReport,
        aclrtUnSubscribeReport,
        aclrtProcessReport,
        aclrtLaunchCallback,
        aclrtSubscribeHostFunc,
        aclrtUnSubscribeHostFunc,
        aclrtProcessHostFunc,
        aclrtLaunchHostFunc,
    }
}
