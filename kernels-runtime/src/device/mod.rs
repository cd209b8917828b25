//! Devices as decisions see them: their kinds, their capabilities, and the kernels that devices of other processes run.

mod capability;
mod computes;
#[cfg(feature = "remote")]
pub(crate) mod connected;
mod kinds;
mod machine;
mod served;

#[cfg(feature = "remote")]
pub use capability::cpu as cpu_capability;
pub use capability::{ascend_capability, cuda_capability, x86_64_level};
pub(crate) use computes::{computes_in, device_computes_in};
pub use kinds::DeviceKinds;
pub use machine::Machine;
#[cfg(feature = "remote")]
pub use machine::processor;
pub use served::{KernelOp, Served};

use crate::near::unknown;
use burn::backend::{DeviceId, DeviceOps, DispatchDevice, DispatchTensorKind, TensorMetadata};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A kind of device that implementations are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum DeviceKind {
    /// Burn's Flex backend.
    Cpu = 1,
    /// CubeCL on CUDA.
    Cuda,
    /// CubeCL on ROCm (HIP).
    Rocm,
    /// CubeCL on Metal, native or through wgpu.
    Metal,
    /// CubeCL on Vulkan, through wgpu.
    Vulkan,
    /// CubeCL on wgpu, if neither Vulkan nor Metal was requested by name.
    #[serde(rename = "webgpu")]
    WebGpu,
    /// Huawei Ascend.
    Npu,
    /// A device that no kernel is written for, such as Burn's NdArray or LibTorch, CubeCL's CPU runtime, or a remote
    /// device whose server declares nothing.
    Other,
}

/// The place of tensors, as far as a decision depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The kind of device, also for a served device.
    pub(crate) kind: DeviceKind,
    /// The capability of the device; see [`DeviceKind::capability`].
    pub(crate) capability: u16,
    /// The operations that the device has kernels for.
    pub(crate) served: Served,
}

impl Place {
    /// Creates the place of a device of this process.
    #[inline]
    const fn here(kind: DeviceKind, capability: u16) -> Self {
        Self {
            kind,
            capability,
            served: Served::HERE,
        }
    }
}

impl DeviceKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Cpu,
        Self::Cuda,
        Self::Rocm,
        Self::Metal,
        Self::Vulkan,
        Self::WebGpu,
        Self::Npu,
        Self::Other,
    ];

    /// Returns the kind of a Burn device. Autodiff does not change it. A device from `remote::connect` has the kind
    /// that its server declares.
    pub fn of(device: &Device) -> Self {
        let id = device.as_dispatch().id();
        #[cfg(feature = "remote")]
        if let Some(place) = connected::place(id) {
            return place.kind;
        }
        Self::of_id(id)
    }

    /// Returns the capability of the device, as a number that [`CapabilityRange`] compares. Returns 0 if it is not
    /// known.
    ///
    /// | kind | number |
    /// |---|---|
    /// | `cpu` | the level of the x86-64 psABI, 1 to 4, as [`x86_64_level`] finds it; 64 on other architectures |
    /// | `cuda` | 10 · major + minor of the compute capability, as [`cuda_capability`] packs it |
    /// | `npu` | the generation of the SoC, as [`ascend_capability`] returns it |
    /// | others | 0 |
    ///
    /// Of this process's own devices, only the CPU and those of CUDA are asked, which opens them. A served device has the
    /// capability that its server declares. A mapping or implementation for an interval that does not contain 0 is therefore
    /// never chosen on an unknown device.
    ///
    /// [`CapabilityRange`]: crate::registry::CapabilityRange
    pub fn capability(device: &Device) -> u16 {
        Self::place(device).capability
    }

    /// Returns the capability of the devices of this kind in this process.
    #[inline]
    pub(crate) fn known_capability(self) -> u16 {
        match self {
            Self::Cpu => capability::cpu(),
            _ => 0,
        }
    }

    /// Returns the place of a device's tensors.
    pub(crate) fn place(device: &Device) -> Place {
        Self::place_of(device.as_dispatch())
    }

    fn place_of(device: &DispatchDevice) -> Place {
        let id = device.id();
        #[cfg(feature = "remote")]
        if let Some(place) = connected::place(id) {
            return place;
        }
        let kind = Self::of_id(id);
        #[cfg(feature = "cuda")]
        if kind == Self::Cuda {
            return Place::here(kind, capability::of_cuda(device));
        }
        Place::here(kind, kind.known_capability())
    }

    /// Returns the place of a tensor. Unlike `Tensor::device`, this allocates nothing for tensors on the CPU.
    #[inline]
    pub(crate) fn of_tensor(kind: &DispatchTensorKind) -> Place {
        match kind {
            DispatchTensorKind::Autodiff(inner) => Self::of_tensor(inner),
            #[cfg(feature = "cpu")]
            DispatchTensorKind::Flex(_) => Place::here(Self::Cpu, capability::cpu()),
            #[allow(unreachable_patterns)] // Burn's features decide which backends exist.
            other => Self::place_of(&other.device()),
        }
    }

    /// Returns the id of a tensor's device, or `None` for this process's CPU. This allocates nothing for tensors on the CPU.
    #[inline]
    pub(crate) fn id_of_tensor(kind: &DispatchTensorKind) -> Option<DeviceId> {
        match kind {
            DispatchTensorKind::Autodiff(inner) => Self::id_of_tensor(inner),
            #[cfg(feature = "cpu")]
            DispatchTensorKind::Flex(_) => None,
            #[allow(unreachable_patterns)] // Burn's features decide which backends exist.
            other => Some(other.device().id()),
        }
    }

    /// The number of the backend of all runtimes of CubeCL in Burn's device ids.
    const CUBE: u16 = 0;

    /// Returns `true` if Burn's device id is that of a runtime of CubeCL.
    fn is_of_cubecl(id: DeviceId) -> bool {
        id.type_id >> 8 == Self::CUBE
    }

    /// Reads the kind from Burn's device id: the backend is the upper byte of the type, CubeCL's runtime the three bits
    /// below, and the graphics API of wgpu the top bits of the index. Burn's and CubeCL's documentation fixes these
    /// numbers, so reading them needs no feature of Burn.
    pub(crate) fn of_id(id: DeviceId) -> Self {
        const FLEX: u16 = 4;
        const EXISTING_WGPU_SETUP: u16 = 5;
        let (backend, runtime) = (id.type_id >> 8, id.type_id >> 5 & 0b111);
        let (device_type, api) = (id.type_id & 0b1_1111, id.index_id >> 13);
        match (backend, runtime) {
            (FLEX, _) => Self::Cpu,
            (Self::CUBE, 0) => Self::Cuda,
            (Self::CUBE, 1) => Self::Rocm,
            (Self::CUBE, 2) => Self::Metal,
            (Self::CUBE, 3) => match api {
                1 if device_type != EXISTING_WGPU_SETUP => Self::Vulkan,
                2 if device_type != EXISTING_WGPU_SETUP => Self::Metal,
                _ => Self::WebGpu,
            },
            // It compiles kernels for GPUs to code for CPUs, and has none of a GPU's features.
            #[cfg(feature = "cube-cpu")]
            (Self::CUBE, 4) => Self::WebGpu,
            _ => Self::Other,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// Returns the name in reports, records and configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
            Self::Metal => "metal",
            Self::Vulkan => "vulkan",
            Self::WebGpu => "webgpu",
            Self::Npu => "npu",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DeviceKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| unknown("kind of device", name, Self::ALL.map(Self::name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_and_agree_with_serde() {
        for kind in DeviceKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        let message = "cud".parse::<DeviceKind>().unwrap_err();
        assert!(message.contains("did you mean `cuda`?"), "{message}");
    }

    #[test]
    fn kinds_are_read_off_the_ids_that_burn_documents() {
        let cube = |runtime: u16, device_type: u16, index| {
            DeviceKind::of_id(DeviceId::new(runtime << 5 | device_type, index))
        };
        assert_eq!(cube(0, 0, 1), DeviceKind::Cuda);
        assert_eq!(cube(1, 0, 0), DeviceKind::Rocm);
        assert_eq!(cube(2, 0, 0), DeviceKind::Metal);
        assert_eq!(cube(4, 0, 0), DeviceKind::Other);
        for (api, kind) in [
            (0, DeviceKind::WebGpu),
            (1, DeviceKind::Vulkan),
            (2, DeviceKind::Metal),
            (3, DeviceKind::WebGpu),
            (5, DeviceKind::WebGpu),
        ] {
            assert_eq!(cube(3, 0, api << 13 | 1), kind);
            // A setup that Burn did not make has an index without an API.
            assert_eq!(cube(3, 5, api << 13 | 1), DeviceKind::WebGpu);
        }
        for backend in [5, 6, 10, 11] {
            let id = DeviceId::new(backend << 8, 0);
            assert_eq!(DeviceKind::of_id(id), DeviceKind::Other);
        }
    }

    #[cfg(feature = "cpu")]
    #[test]
    fn flex_is_the_cpu_with_and_without_autodiff() {
        for device in [Device::flex(), Device::flex().autodiff()] {
            assert_eq!(DeviceKind::of(&device), DeviceKind::Cpu);
            let capability = DeviceKind::capability(&device);
            assert_eq!((1..=4).contains(&capability), cfg!(target_arch = "x86_64"));
        }
    }
}
