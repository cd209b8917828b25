use super::DeviceKind;
use serde::{Serialize, Serializer};
use std::fmt;

/// A set of kinds of devices, on which an implementation runs. One source may be compiled for several runtimes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceKinds(u16);

impl DeviceKinds {
    /// The CPU.
    pub const CPU: Self = Self::of(&[DeviceKind::Cpu]);

    /// Huawei Ascend.
    pub const NPU: Self = Self::of(&[DeviceKind::Npu]);

    /// Every runtime of CubeCL on a GPU.
    pub const GPU: Self = Self::of(&[
        DeviceKind::Cuda,
        DeviceKind::Rocm,
        DeviceKind::Metal,
        DeviceKind::Vulkan,
        DeviceKind::WebGpu,
    ]);

    /// Creates the set of these kinds.
    pub const fn of(kinds: &[DeviceKind]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < kinds.len() {
            bits |= 1 << kinds[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    /// Returns `true` if the set contains the kind.
    #[inline]
    pub const fn contains(self, kind: DeviceKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Returns the kinds, in the order of [`DeviceKind::ALL`].
    pub fn iter(self) -> impl Iterator<Item = DeviceKind> {
        let all = DeviceKind::ALL.into_iter();
        all.filter(move |kind| self.contains(*kind))
    }
}

/// The names of the kinds, separated by spaces.
impl fmt::Display for DeviceKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(DeviceKind::name).collect();
        f.write_str(&names.join(" "))
    }
}

impl fmt::Debug for DeviceKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for DeviceKinds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_it_was_made_of() {
        for kind in DeviceKind::ALL {
            let one = DeviceKinds::of(&[kind]);
            assert!(one.iter().eq([kind]), "{one:?}");
            assert_eq!(one.to_string(), kind.name());
        }
        assert_eq!(
            DeviceKinds::GPU.to_string(),
            "cuda rocm metal vulkan webgpu"
        );
        assert!(DeviceKinds::of(&[]).iter().next().is_none());
    }
}
