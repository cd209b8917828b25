use serde::Serialize;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The generations of a kind of device that an implementation is for, both ends included.
///
/// The meaning of the number depends on the kind of device: the compute capability of CUDA as `10 · major + minor`, the
/// generation of an Ascend SoC, or the level of the x86-64 psABI of a CPU. See `DeviceKind::capability`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct CapabilityRange {
    /// The oldest generation.
    pub min: u16,
    /// The newest generation.
    pub max: u16,
}

impl CapabilityRange {
    /// Every device of the kind.
    pub const ANY: Self = Self {
        min: 0,
        max: u16::MAX,
    };

    /// Creates the range from `min` to `max`, both included.
    ///
    /// # Panics
    /// Panics if `min` is greater than `max`. In a constant this is a compile error.
    pub const fn new(min: u16, max: u16) -> Self {
        assert!(min <= max, "an interval starts before it ends");
        Self { min, max }
    }

    /// Returns `true` if a device of this capability is in the range.
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

impl From<RangeInclusive<u16>> for CapabilityRange {
    /// # Panics
    /// Panics if the range is empty.
    fn from(range: RangeInclusive<u16>) -> Self {
        Self::new(*range.start(), *range.end())
    }
}

impl FromStr for CapabilityRange {
    type Err = String;

    /// Reads `any`, `80..`, `80..=90` or a single number.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "invalid interval of capabilities `{text}`; write `any`, `80`, `80..` or `80..=90`"
            )
        };
        let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
        if text == "any" {
            return Ok(Self::ANY);
        }
        let (min, max) = match text.split_once("..") {
            None => (number(text)?, number(text)?),
            Some((min, "")) => (number(min)?, u16::MAX),
            Some((min, max)) => (
                number(min)?,
                number(max.strip_prefix('=').ok_or_else(wrong)?)?,
            ),
        };
        if min > max {
            return Err(wrong());
        }
        Ok(Self { min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_parse_back() {
        let range = CapabilityRange::new;
        for range in [
            CapabilityRange::ANY,
            range(80, u16::MAX),
            range(0, 3),
            range(86, 86),
        ] {
            assert_eq!(range.to_string().parse(), Ok(range));
        }
        assert_eq!("86".parse(), Ok(range(86, 86)));
        for text in ["", "a", "9..=3", "1..2", "..", "..=4", "70000"] {
            assert!(text.parse::<CapabilityRange>().is_err(), "{text}");
        }
    }
}
