//! Backends that can be served with kernels.

use super::Kernels;
use super::bounded::{InMemory, machine_memory};
use crate::device::{DeviceKind, x86_64_level};
use burn::backend::Flex;
use burn::backend::ir::BackendIr;

/// What a server says a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The kind, by which clients choose implementations.
    pub kind: DeviceKind,
    /// See [`DeviceKind::capability`].
    pub capability: u16,
    /// For people, such as the model of the processor.
    pub name: String,
    /// What else implementations have to know before they choose, by name.
    pub facts: Vec<(String, String)>,
}

/// The bytes of a device that sessions may hold, unless the server is told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// One session.
    pub session: usize,
    /// All of the device's sessions together.
    pub all: usize,
}

/// A backend whose devices can be served together with kernels for them.
///
/// Its tensors say what memory they keep, so that a session can be held to its limit.
pub trait Host:
    BackendIr<
        FloatTensorPrimitive: InMemory,
        IntTensorPrimitive: InMemory,
        BoolTensorPrimitive: InMemory,
        QuantizedTensorPrimitive: InMemory,
    >
{
    /// What a device is.
    fn identity(device: &Self::Device) -> Identity;

    /// Adds the kernels that the backend has.
    fn kernels(kernels: Kernels<Self>) -> Kernels<Self>;

    /// Returns the part of a device that sessions may hold, from the memory that it has. None if nobody says.
    fn memory(device: &Self::Device) -> Option<MemoryLimits>;

    /// The device as one session uses it: what the session does to it leaves the others alone. Called on the
    /// session's thread, before its first operation.
    fn begin(device: &Self::Device) -> Self::Device {
        device.clone()
    }

    /// The session is at its end; what it left on the way, such as data that is being sent, may still be there.
    /// Called on the session's thread with what [`begin`](Self::begin) gave.
    fn end(_device: &Self::Device) {}
}

impl Host for Flex {
    fn identity(_: &Self::Device) -> Identity {
        Identity {
            kind: DeviceKind::Cpu,
            capability: x86_64_level(),
            name: processor(),
            facts: Vec::new(),
        }
    }

    fn kernels(kernels: Kernels<Self>) -> Kernels<Self> {
        kernels.all()
    }

    /// Half of this machine's memory, or of the control group's that this process is in; three quarters for all.
    fn memory(_: &Self::Device) -> Option<MemoryLimits> {
        machine_memory().map(|memory| MemoryLimits {
            session: memory / 2,
            all: memory / 4 * 3,
        })
    }
}

/// The processor's model as Linux names it, else its architecture.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    model.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
