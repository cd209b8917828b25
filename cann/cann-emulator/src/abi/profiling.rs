//! Reports to CANN's profiler. No profiler ever starts here, and reports to one that is off are taken and forgotten.

use std::ffi::{c_char, c_void};
use std::hash::{DefaultHasher, Hasher};
use std::sync::OnceLock;
use std::time::Instant;

use cann_sys::profiling::*;

use super::exports;

/// The status of a report that has no data.
const FAILED: i32 = -1;

fn taken(is_there: bool) -> i32 {
    if is_there { 0 } else { FAILED }
}

/// Takes what a profiler would call when it starts. It is never called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MsprofRegisterCallback(_module: u32, callback: ProfCommandHandle) -> i32 {
    taken(callback.is_some())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn MsprofReportApi(_ageing: u32, report: *const MsprofApi) -> i32 {
    taken(!report.is_null())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn MsprofReportCompactInfo(
    _ageing: u32,
    data: *const c_void,
    length: u32,
) -> i32 {
    taken(!data.is_null() && length > 0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn MsprofReportAdditionalInfo(
    _ageing: u32,
    data: *const c_void,
    length: u32,
) -> i32 {
    taken(!data.is_null() && length > 0)
}

/// Returns the same number for the same text, and zero for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MsprofGetHashId(text: *const c_char, length: usize) -> u64 {
    if text.is_null() || length == 0 {
        return 0;
    }
    // SAFETY: checked above, and the caller guarantees as many bytes.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
}

/// Returns the nanoseconds since the first call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MsprofSysCycleTime() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let passed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
}

exports!(profiling: MsprofRegisterCallback, MsprofReportApi, MsprofReportCompactInfo, MsprofReportAdditionalInfo,
    MsprofGetHashId, MsprofSysCycleTime);
