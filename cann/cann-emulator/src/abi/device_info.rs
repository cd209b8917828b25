//! Information about a device.

use std::ffi::{CStr, c_char};

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::runtime::{function, give};
use crate::chip::Chip;
use crate::config::Config;
use crate::error::{Outcome, ensure, fail};
use crate::state;

fn config_of(device: i64) -> Outcome<Config> {
    let config = state::config()?;
    ensure!((0..i64::from(config.devices)).contains(&device), ACL_ERROR_RT_INVALID_DEVICEID;
        "device {device} does not exist");
    Ok(config)
}

/// Returns the figures of the chip. Fails for an unknown chip.
fn chip(config: &Config) -> Outcome<Chip> {
    match Chip::of(&config.soc) {
        Some(chip) => Ok(chip),
        None => fail!(ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
            "the emulator does not know how many cores {} has", config.soc),
    }
}

function!(aclGetDeviceCapability(device: u32, what: aclDeviceInfo, value: *mut i64) {
    let chip = chip(&config_of(device.into())?)?;
    let found = match what {
        ACL_DEVICE_INFO_AI_CORE_NUM => chip.cube_cores,
        ACL_DEVICE_INFO_VECTOR_CORE_NUM => chip.vector_cores,
        ACL_DEVICE_INFO_L2_SIZE => chip.l2_bytes,
        other => fail!(ACL_ERROR_INVALID_PARAM; "unknown capability {}", other.0),
    };
    // SAFETY: the caller guarantees the place.
    unsafe { give(value, found) }
});
function!(aclrtGetDeviceInfo(device: u32, what: aclrtDevAttr, value: *mut i64) {
    let config = config_of(device.into())?;
    let found = match what {
        ACL_DEV_ATTR_AICORE_CORE_NUM | ACL_DEV_ATTR_CUBE_CORE_NUM => chip(&config)?.cube_cores,
        ACL_DEV_ATTR_VECTOR_CORE_NUM => chip(&config)?.vector_cores,
        ACL_DEV_ATTR_L2_CACHE_SIZE => chip(&config)?.l2_bytes,
        ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE => config.memory as i64,
        ACL_DEV_ATTR_PHY_CHIP_ID => device.into(),
        ACL_DEV_ATTR_IS_VIRTUAL => 0,
        other => fail!(ACL_ERROR_RT_FEATURE_NOT_SUPPORT; "the attribute {} is not emulated", other.0),
    };
    // SAFETY: the caller guarantees the place.
    unsafe { give(value, found) }
});
function!(aclrtGetResInCurrentThread(what: aclrtDevResLimitType, count: *mut u32) {
    state::current_device()?;
    let chip = chip(&state::config()?)?;
    let found = match what {
        ACL_RT_DEV_RES_CUBE_CORE => chip.cube_cores,
        ACL_RT_DEV_RES_VECTOR_CORE => chip.vector_cores,
        other => fail!(ACL_ERROR_INVALID_PARAM; "unknown resource type {}", other.0),
    };
    // SAFETY: the caller guarantees the place.
    unsafe { give(count, found as u32) }
});
// The emulator has none of these features: they belong to tasks and queues that it lacks.
function!(aclrtGetDeviceCapability(device: i32, what: aclrtDevFeatureType, value: *mut i32) {
    config_of(device.into())?;
    ensure!(
        [ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV, ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV].contains(&what),
        ACL_ERROR_RT_PARAM_INVALID;
        "unknown feature {}", what.0
    );
    // SAFETY: the caller guarantees the place.
    unsafe { give(value, 0) }
});

/// Families of processors that run each other's operators, by the start of the name. The first match counts.
const FAMILIES: [&str; 4] = ["Ascend910_93", "Ascend910B", "Ascend310P", "Ascend950"];

function!(aclrtCheckArchCompatibility(soc: *const c_char, compatible: *mut i32) {
    ensure!(!soc.is_null(), ACL_ERROR_INVALID_PARAM; "the name of the processor is NULL");
    // SAFETY: checked above, and the caller gives a C string.
    let asked = unsafe { CStr::from_ptr(soc) }.to_string_lossy().into_owned();
    let own = state::config()?.soc;
    let family = FAMILIES.iter().find(|family| own.starts_with(*family));
    let same = asked == own || family.is_some_and(|family| asked.starts_with(family));
    // SAFETY: the caller guarantees the place.
    unsafe { give(compatible, i32::from(same)) }
});

static ATTRIBUTES: [aclCannAttr; 3] = [
    ACL_CANN_ATTR_INF_NAN,
    ACL_CANN_ATTR_BF16,
    ACL_CANN_ATTR_JIT_COMPILE,
];

function!(aclGetCannAttributeList(list: *mut *const aclCannAttr, count: *mut usize) {
    state::config()?;
    // SAFETY: the caller guarantees the places.
    unsafe { give(list, ATTRIBUTES.as_ptr()).and(give(count, ATTRIBUTES.len())) }
});
// Chips with bf16 are those with infinities, and exported operators need no compiler.
function!(aclGetCannAttribute(what: aclCannAttr, value: *mut i32) {
    let config = state::config()?;
    let found = match what {
        ACL_CANN_ATTR_INF_NAN | ACL_CANN_ATTR_BF16 => config.has_bf16(),
        ACL_CANN_ATTR_JIT_COMPILE => true,
        other => fail!(ACL_ERROR_INVALID_PARAM; "unknown attribute {}", other.0),
    };
    // SAFETY: the caller guarantees the place.
    unsafe { give(value, i32::from(found)) }
});

/// Returns the number of a device. The emulator has one numbering: the user's numbers are those of the driver and the
/// board.
fn same_number(device: i32, place: *mut i32) -> Outcome<()> {
    config_of(device.into())?;
    // SAFETY: the caller guarantees the place.
    unsafe { give(place, device) }
}

function!(aclrtGetLogicDevIdByUserDevId(user: i32, logic: *mut i32) { same_number(user, logic) });
function!(aclrtGetUserDevIdByLogicDevId(logic: i32, user: *mut i32) { same_number(logic, user) });
function!(aclrtGetPhyDevIdByLogicDevId(logic: i32, physical: *mut i32) { same_number(logic, physical) });
function!(aclrtGetLogicDevIdByPhyDevId(physical: i32, logic: *mut i32) { same_number(physical, logic) });
function!(aclrtGetUserDevIdByPhyDevId(physical: i32, user: *mut i32) { same_number(physical, user) });
function!(aclrtGetPhyDevIdByUserDevId(user: i32, physical: *mut i32) { same_number(user, physical) });
// The text is that of a bus: domain, bus, device, function.
function!(aclrtDeviceGetPCIBusId(device: i32, text: *mut c_char, size: i32) {
    config_of(device.into())?;
    let found = format!("0000:{device:02x}:00.0\0");
    ensure!(!text.is_null(), ACL_ERROR_INVALID_PARAM; "the place for the text is NULL");
    ensure!(found.len() as i64 <= i64::from(size), ACL_ERROR_RT_PARAM_INVALID;
        "{size} bytes for a text of {} with its end", found.len());
    // SAFETY: checked above, and the caller guarantees the place.
    unsafe { std::ptr::copy_nonoverlapping(found.as_ptr().cast(), text, found.len()) };
    Ok(())
});
function!(aclrtDeviceGetByPCIBusId(text: *const c_char, device: *mut i32) {
    ensure!(!text.is_null(), ACL_ERROR_INVALID_PARAM; "the text is NULL");
    // SAFETY: checked above, and the caller gives a C string.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().to_ascii_lowercase();
    let devices = state::config()?.devices as i32;
    match (0..devices).find(|device| text == format!("0000:{device:02x}:00.0")) {
        // SAFETY: the caller guarantees the place.
        Some(found) => unsafe { give(device, found) },
        None => fail!(ACL_ERROR_RT_INVALID_DEVICEID; "no device has the address {text}"),
    }
});
function!(aclrtDeviceGetUuid(device: i32, uuid: *mut aclrtUuid) {
    config_of(device.into())?;
    let mut bytes = *b"cann-emulator\0\0\0";
    bytes[15] = device as u8;
    // SAFETY: the caller guarantees the place.
    unsafe { give(uuid, aclrtUuid { bytes: bytes.map(|byte| byte as c_char) }) }
});
// Threads of the host do the work, so the device's units are never busy.
function!(aclrtGetDeviceUtilizationRate(device: i32, rate: *mut aclrtUtilizationInfo) {
    config_of(device.into())?;
    ensure!(!rate.is_null(), ACL_ERROR_INVALID_PARAM; "the place for the result is NULL");
    // SAFETY: checked above, and the caller guarantees the place.
    let extend = unsafe { (*rate).utilizationExtend };
    ensure!(extend.is_null(), ACL_ERROR_INVALID_PARAM; "utilizationExtend is reserved and must be NULL");
    let idle = aclrtUtilizationInfo {
        cubeUtilization: 0,
        vectorUtilization: 0,
        aicpuUtilization: 0,
        memoryUtilization: 0,
        utilizationExtend: std::ptr::null_mut(),
    };
    // SAFETY: as above.
    unsafe { give(rate, idle) }
});
// Emulated devices have no hardware faults, so they report no kind of error and no detail.
function!(aclrtGetErrorVerbose(device: i32, error: *mut aclrtErrorInfo) {
    config_of(device.into())?;
    // This is the head of the record, which every version has: two flags, two bytes, the kind.
    // SAFETY: the caller guarantees the place, which is larger.
    unsafe { give(error.cast::<[u32; 2]>(), [0, 0]) }
});
