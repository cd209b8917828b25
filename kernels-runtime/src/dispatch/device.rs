use burn::backend::{DispatchDevice, DispatchTensorKind};
use burn::tensor::Device;
use serde::Serialize;
use std::fmt;

/// The kinds of device that implementations are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum DeviceKind {
    /// Burn's Flex backend.
    Cpu = 1,
    /// A device that no kernel is written for yet.
    Other,
}

impl DeviceKind {
    const ALL: [Self; 2] = [Self::Cpu, Self::Other];

    /// The kind of a Burn device; autodiff does not change it.
    pub fn of(device: &Device) -> Self {
        Self::of_dispatch(device.clone().inner().as_dispatch())
    }

    fn of_dispatch(device: &DispatchDevice) -> Self {
        match device {
            #[cfg(feature = "cpu")]
            DispatchDevice::Flex(_) => Self::Cpu,
            #[allow(unreachable_patterns)] // Which backends exist is decided by Burn's features.
            _ => Self::Other,
        }
    }

    /// The kind of device that a tensor lives on, and whether autodiff is enabled for it. Unlike
    /// `Tensor::device` this allocates nothing.
    pub(crate) fn of_tensor(kind: &DispatchTensorKind) -> (Self, bool) {
        match kind {
            DispatchTensorKind::Autodiff(inner) => (Self::of_tensor(inner).0, true),
            #[cfg(feature = "cpu")]
            DispatchTensorKind::Flex(_) => (Self::Cpu, false),
            #[allow(unreachable_patterns)] // Which backends exist is decided by Burn's features.
            _ => (Self::Other, false),
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// The name in reports and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
