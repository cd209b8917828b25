//! Backends that can be served with kernels.

use super::Kernels;
use crate::dispatch::{DeviceKind, x86_64_level};
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

/// A backend whose devices can be served together with kernels for them.
pub trait Host: BackendIr {
    /// What a device is.
    fn identity(device: &Self::Device) -> Identity;

    /// Adds the kernels that the backend has.
    fn kernels(kernels: Kernels<Self>) -> Kernels<Self>;
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
