//! What the server says of an NPU, and the kernels that it has.

use super::limits;
use crate::dispatch::{DeviceKind, ascend_capability};
use crate::remote::{Host, Identity, Kernels};
use burn_cann::backend::{CannBackend, CannDevice};

impl Host for CannBackend {
    fn identity(device: &CannDevice) -> Identity {
        let Ok(stream) = device.stream() else {
            // It was opened before it was served, so it was lost since.
            return Identity {
                kind: DeviceKind::Npu,
                capability: 0,
                name: format!("{device}, which can't be opened"),
                facts: Vec::new(),
            };
        };
        let device = stream.device();
        let platform = device.platform();
        let toolkit = match device.cann().sys().emulator() {
            Some(emulator) => format!("emulator {emulator} of CANN {}", platform.version),
            None => format!("CANN {}", platform.version),
        };
        Identity {
            kind: DeviceKind::Npu,
            capability: ascend_capability(platform.soc.name()),
            name: format!("{}, {toolkit}", platform.soc),
            facts: limits::facts(platform),
        }
    }

    fn kernels(kernels: Kernels<Self>) -> Kernels<Self> {
        kernels.all()
    }
}
