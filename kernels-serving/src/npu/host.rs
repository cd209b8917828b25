//! The facts about an NPU that the server declares, and its kernels.

use crate::remote::{
    Buffer, Host, Identity, InMemory, Kernels, MemoryLimits, ServeError, ServeOptions, Server,
    machine_memory,
};
use burn::backend::distributed::ReduceOperation;
use burn_cann::Tensor;
use burn_cann::backend::{self, CannBackend, CannDevice, CannQTensor, CannTensor};
use kernels_runtime::__serving::{facts, mistakes};
use kernels_runtime::dispatch::{DeviceKind, ascend_capability};

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
            // The device was opened before it was served, so it has been lost since.
            return Identity {
                kind: DeviceKind::Npu,
                capability: 0,
                f64: false,
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
            f64: false,
            name: format!("{}, {toolkit}", platform.soc),
            facts: facts(platform),
        }
    }

    fn kernels(kernels: Kernels<Self>) -> Kernels<Self> {
        kernels.all_of_npus()
    }

    /// Returns the memory limits: all memory of the device, which reports itself when it runs out, but at most half of
    /// this machine's memory for one session, because operations that run on the host can't report that.
    fn memory(device: &CannDevice) -> Option<MemoryLimits> {
        let (_, device) = device.stream().ok()?.device().memory().ok()?;
        let host = machine_memory().map_or(usize::MAX, |memory| memory / 2);
        Some(MemoryLimits {
            session: device.min(host),
            all: device,
        })
    }

    /// Gives the session its own streams, so that its failures do not affect other sessions.
    fn begin(device: &CannDevice) -> CannDevice {
        backend::own_streams();
        mistakes::begin();
        *device
    }

    fn end(_: &CannDevice) {
        mistakes::end();
        backend::give_streams_back();
    }

    fn join_party(device: &CannDevice, party: u64) {
        backend::join_party(party, *device);
    }

    fn reduce_together(
        tensor: CannTensor,
        operation: ReduceOperation,
        devices: &[CannDevice],
    ) -> Result<CannTensor, String> {
        backend::all_reduce(tensor, operation, devices).map_err(|error| error.to_string())
    }

    fn mistakes() -> Option<String> {
        mistakes::found()
    }

    fn start(
        devices: Vec<CannDevice>,
        options: ServeOptions,
        kernels: Kernels<Self>,
    ) -> Result<Server, ServeError> {
        Server::start_unopened::<Self>(devices, options, kernels)
    }
}
