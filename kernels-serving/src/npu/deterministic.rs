//! CANN's setting for equal bits from run to run.

use super::DeviceError;
use burn_cann::backend::CannDevice;
use kernels_runtime::__private::warn;
use kernels_runtime::__serving::{is_deterministic, on_deterministic};
use kernels_runtime::policy;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The indices of the open devices. CANN has a separate setting for each.
static OPEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Makes a newly opened device deterministic, now if a policy has asked for it, otherwise as soon as one does. The
/// setting stays, because work that was requested under such a policy may run after its scope ended.
pub(super) fn follow_policy(device: CannDevice) -> Result<(), DeviceError> {
    on_deterministic(set_all);
    // This reads the environment's policy. If it is invalid, the first layer reports the error.
    let _ = policy::current();
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.insert(device.index());
    match is_deterministic() {
        true => set(device),
        false => Ok(()),
    }
}

fn set_all() {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    for &index in open.iter() {
        if let Err(error) = CannDevice::open(index).map_err(Into::into).and_then(set) {
            warn(format_args!(
                "NPU {index} cannot be set to compute deterministically: {error}"
            ));
        }
    }
}

fn set(device: CannDevice) -> Result<(), DeviceError> {
    let stream = device.stream().map_err(DeviceError::Cann)?;
    let set = stream.device().set_deterministic(true);
    set.map_err(|error| DeviceError::Cann(error.into()))
}
