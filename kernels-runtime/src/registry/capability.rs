use serde::Serialize;
use std::fmt;

/// Which generations of a kind of device an implementation is for, both ends included.
///
/// The number depends on the kind of device: the compute capability of CUDA as `10 · major +
/// minor`, the generation of an Ascend SoC, the level of the x86-64 psABI of a CPU. See
/// `DeviceKind::capability`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct CapabilityRange {
    /// The oldest.
    pub min: u16,
    /// The newest.
    pub max: u16,
}

impl CapabilityRange {
    /// Every device of the kind.
    pub const ANY: Self = Self {
        min: 0,
        max: u16::MAX,
    };

    /// Whether a device of this capability is in the range.
    pub const fn contains(&self, capability: u16) -> bool {
        self.min <= capability && capability <= self.max
    }
}

impl fmt::Display for CapabilityRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (0, u16::MAX) => f.write_str("any"),
            (min, u16::MAX) => write!(f, "{min}.."),
            (min, max) => write!(f, "{min}..={max}"),
        }
    }
}
