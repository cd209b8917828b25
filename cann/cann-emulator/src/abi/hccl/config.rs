//! Configurations of groups, which grow with every version of CANN.
//!
//! A record begins with its size, a mark, its version and eight reserved bytes. Then come the size of buffers and
//! determinism, both an u32, and the name of the group. The emulator reads these three: it has no buffers, and its
//! reductions have a fixed order in any case.

use std::ffi::CStr;

use cann_sys::hccl::*;

use super::{PARA, PTR};
use crate::abi::exports;
use crate::error::{Outcome, ensure, fail};

/// The mark of a record that `HcclCommConfigInit` of CANN's header filled.
const MARK: u32 = 0xf0f0_f0f0;
/// The size of a name, with the zero at its end.
const NAME: usize = 128;
/// The number of settings that are taken.
const TAKEN: u32 = 3;
/// The value of a setting that is left to CANN.
const UNSET: u32 = u32::MAX;

/// The beginning of a record, which all versions share.
#[repr(C)]
struct Record {
    size: usize,
    mark: u32,
    version: u32,
    reserved: u64,
    buffer_megabytes: u32,
    deterministic: u32,
    name: [u8; NAME],
}

/// The settings that change a group.
pub(super) struct Settings {
    pub(super) name: Option<String>,
}

impl Settings {
    /// Reads a record.
    ///
    /// # Safety
    ///
    /// `config` must be NULL or valid for reads of as many bytes as its first number says, and of at least 24.
    pub(super) unsafe fn read(config: *const HcclCommConfig) -> Outcome<Self> {
        ensure!(!config.is_null(), PTR; "the configuration is NULL");
        let record = config.cast::<Record>();
        // SAFETY: the caller guarantees the first 24 bytes.
        let (size, mark) = unsafe { ((*record).size, (*record).mark) };
        ensure!(mark == MARK && size >= size_of::<Record>(), PARA;
            "a configuration of {size} bytes with the mark {mark:#x}: HcclCommConfigInit fills it");
        // SAFETY: the caller guarantees as many bytes as the size, which is enough, as checked.
        let record = unsafe { record.read() };
        ensure!(record.version > 0, PARA; "the version of the configuration is 0");
        ensure!(record.reserved == 0, PARA; "reserved bytes of the configuration are used");
        ensure!(record.buffer_megabytes > 0, PARA; "hcclBufferSize is 0; at least 1 MB is needed");
        ensure!([0, 1, 2, UNSET].contains(&record.deterministic), PARA;
            "hcclDeterministic is {}", record.deterministic);
        let Ok(name) = CStr::from_bytes_until_nul(&record.name) else {
            fail!(PARA; "hcclCommName has no end within {NAME} bytes")
        };
        let name = name.to_string_lossy().into_owned();
        Ok(Self {
            name: (!name.is_empty()).then_some(name),
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn HcclGetCommConfigCapability() -> u32 {
    TAKEN
}

exports!(hccl: HcclGetCommConfigCapability);
