//! Groups of ranks and their collectives, in one or several processes of a machine.
//!
//! Buffers must be memory of the rank's device, and the stream must belong to that device. A call with a count of zero
//! does nothing, on any rank. As with other functions, the text of an error belongs to the thread.

mod arguments;
mod collective;
mod communicator;
mod config;
mod transfer;

pub use self::collective::*;
pub use self::communicator::*;
pub use self::config::*;
pub use self::transfer::*;

use std::sync::Arc;

use cann_sys::hccl::*;

use crate::error::{Outcome, ensure, fail, status};
use crate::hccl::Communicator;
use crate::object::{self, Object};

const PARA: i32 = HCCL_E_PARA.0 as i32;
const PTR: i32 = HCCL_E_PTR.0 as i32;
const NOT_SUPPORT: i32 = HCCL_E_NOT_SUPPORT.0 as i32;

/// Returns HCCL's code of an outcome. All errors of the runtime have a single code.
fn result(function: &str, work: impl FnOnce() -> Outcome<()>) -> HcclResult {
    match u32::try_from(status(function, work)) {
        Ok(code) if code <= HCCL_E_SUSPENDING.0 => HcclResult(code),
        _ => HCCL_E_RUNTIME,
    }
}

/// Exports a function and checks its prototype.
macro_rules! function {
    ($($function:tt)*) => {
        $crate::abi::exported!(hccl, HcclResult, $crate::abi::hccl::result; $($function)*);
    };
}
use function;

/// Writes to a place of the caller.
///
/// # Safety
///
/// `place` must be NULL or valid for a write.
unsafe fn give<T>(place: *mut T, value: T) -> Outcome<()> {
    // SAFETY: the caller guarantees it.
    unsafe { super::write(place, value, PTR) }
}

fn communicator(comm: HcclComm) -> Outcome<Arc<Communicator>> {
    ensure!(!comm.is_null(), PTR; "the communicator is NULL");
    match object::get(comm as usize) {
        Some(Object::Communicator(found)) => Ok(found),
        _ => fail!(PARA; "{comm:p} is not a communicator, or was destroyed"),
    }
}

fn handle(communicator: Arc<Communicator>) -> HcclComm {
    object::insert(Object::Communicator(communicator)) as HcclComm
}
