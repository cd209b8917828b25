//! Devices as measured times depend on them.

use super::DeviceKind;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::LazyLock;

/// A device with everything by which times that were measured on it are known again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The kind of device.
    pub kind: DeviceKind,
    /// The capability of the device; see [`DeviceKind::capability`].
    pub capability: u16,
    /// The model of the processor and the number of its threads; of a GPU its name; of a served device the name and the
    /// versions that its server declares. `None` if nothing tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Machine {
    /// Returns the machine of a device. It may open the device.
    pub fn of(device: &Device) -> Self {
        let place = DeviceKind::place(device);
        Self {
            kind: place.kind,
            capability: place.capability,
            name: name(device, place.kind),
        }
    }

    /// Returns whether devices with other times have another [`Machine`].
    pub(crate) fn is_told_apart(&self) -> bool {
        self.name.is_some()
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if self.capability != 0 {
            write!(f, " {}", self.capability)?;
        }
        match &self.name {
            Some(name) => write!(f, " ({name})"),
            None => Ok(()),
        }
    }
}

fn name(device: &Device, kind: DeviceKind) -> Option<String> {
    #[cfg(feature = "remote")]
    {
        use burn::backend::DeviceOps;
        let id = device.as_dispatch().id();
        if let Some(name) = super::connected::name(id) {
            return Some(name);
        }
    }
    #[cfg(feature = "gpu")]
    if super::DeviceKinds::GPU.contains(kind) {
        return device.identity().map(|known| known.name);
    }
    #[cfg(not(any(feature = "remote", feature = "gpu")))]
    let _ = device;
    (kind == DeviceKind::Cpu).then(|| CPU.clone())
}

/// The processor with the threads that operations run on.
static CPU: LazyLock<String> = LazyLock::new(|| {
    #[cfg(feature = "cpu")]
    let threads = rayon::current_num_threads();
    #[cfg(not(feature = "cpu"))]
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, threads: {threads}", processor())
});

/// Returns the processor's model in Linux's words, or else its architecture.
pub fn processor() -> String {
    const LIMIT: kernels_io::Limit = kernels_io::Limit::mib("a list of processors", 16);
    let text = kernels_io::read_text("/proc/cpuinfo".as_ref(), LIMIT).unwrap_or_default();
    let model = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    model.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_a_name_with_and_without_autodiff() {
        let machine = Machine::of(&Device::flex());
        assert_eq!(machine, Machine::of(&Device::flex().autodiff()));
        let name = machine.name.clone().unwrap();
        assert!(name.contains("threads: "), "{name}");
        assert!(machine.to_string().starts_with("cpu"), "{machine}");
    }
}
