//! What the server says of an NPU, and the kernels that it has.

use crate::device::{DeviceKind, ascend_capability};
use crate::remote::{
    Buffer, Host, Identity, InMemory, Kernels, MemoryLimits, machine_memory, platform,
};
use burn_cann::Tensor;
use burn_cann::backend::{self, CannBackend, CannDevice, CannQTensor, CannTensor};

fn buffer(tensor: &Tensor) -> Option<Buffer> {
    let memory = tensor.memory()?;
    Some(Buffer {
        id: memory.id(),
        bytes: memory.size(),
        contiguous: tensor.layout().is_contiguous(),
    })
}

impl InMemory for CannTensor {
    fn buffer(&self) -> Option<Buffer> {
        buffer(self.tensor())
    }
}

impl InMemory for CannQTensor {
    fn buffer(&self) -> Option<Buffer> {
        buffer(self.bytes())
    }
}

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
            facts: platform::facts(platform),
        }
    }

    fn kernels(kernels: Kernels<Self>) -> Kernels<Self> {
        kernels.all()
    }

    /// All of the device's: it says itself when there is no more. But no more than half of this machine's, since
    /// there is no such error for operations that run on the host.
    fn memory(device: &CannDevice) -> Option<MemoryLimits> {
        let (_, device) = device.stream().ok()?.device().memory().ok()?;
        let host = machine_memory().map_or(usize::MAX, |memory| memory / 2);
        Some(MemoryLimits {
            session: device.min(host),
            all: device,
        })
    }

    /// On streams of its own: work that fails costs the other sessions nothing.
    fn begin(device: &CannDevice) -> CannDevice {
        backend::own_streams();
        *device
    }

    fn end(_: &CannDevice) {
        backend::give_streams_back();
    }
}
