//! Kinds of Ascend processors and their abilities.

use std::fmt;

use crate::version::Version;

/// A family of processors with the same limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// Ascend 310 and its variants, for inference.
    Ascend310,
    /// The first Ascend 910, whose variants have names such as 910A and 910B.
    Ascend910,
    /// Ascend 910B1 to B4: Atlas A2.
    Ascend910B,
    /// Ascend 910_93xx: Atlas A3.
    Ascend910C,
    /// Ascend 950.
    Ascend950,
    /// A family that this crate does not know.
    Unknown,
}

impl fmt::Display for Family {
    /// Writes the family's name, and that of its systems.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Ascend310 => "Ascend 310 or 310P, for inference",
            Self::Ascend910 => "the first Ascend 910",
            Self::Ascend910B => "Ascend 910B, Atlas A2",
            Self::Ascend910C => "Ascend 910C, Atlas A3",
            Self::Ascend950 => "Ascend 950",
            Self::Unknown => "of an unknown family",
        })
    }
}

/// A processor, by CANN's name of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Soc {
    name: String,
    family: Family,
}

impl Soc {
    /// Returns the processor that `aclrtGetSocName` calls `name`.
    pub fn from_name(name: &str) -> Self {
        let rest = name.strip_prefix("Ascend").unwrap_or("");
        let family = if rest.starts_with("910_93") {
            Family::Ascend910C
        } else if is_910b(rest) {
            Family::Ascend910B
        } else if rest.starts_with("910") {
            Family::Ascend910
        } else if rest.starts_with("310") {
            Family::Ascend310
        } else if rest.starts_with("950") {
            Family::Ascend950
        } else {
            Family::Unknown
        };
        Self {
            name: name.to_owned(),
            family,
        }
    }

    /// Returns a processor of an unknown kind.
    pub fn unknown() -> Self {
        Self {
            name: "unknown".to_owned(),
            family: Family::Unknown,
        }
    }

    /// Returns CANN's name of the processor, such as `Ascend910B1`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the processor's family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Returns `true` if the processor computes in bf16, as Ascend 910B and later do.
    pub fn has_bf16(&self) -> bool {
        matches!(
            self.family,
            Family::Ascend910B | Family::Ascend910C | Family::Ascend950
        )
    }

    /// Returns `true` if the limits that this crate checks are documented for the processor: Atlas A2 and A3.
    pub fn has_fused_operators(&self) -> bool {
        matches!(self.family, Family::Ascend910B | Family::Ascend910C)
    }
}

impl fmt::Display for Soc {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)
    }
}

/// Returns `true` for 910B1 and later, but not for `910B` alone or other variants of the first 910.
fn is_910b(rest: &str) -> bool {
    rest.strip_prefix("910B")
        .is_some_and(|binning| binning.starts_with(|first: char| first.is_ascii_digit()))
}

/// The facts that decide whether an operator takes its operands. With them, checks need no device.
#[derive(Debug, Clone)]
pub struct Platform {
    /// The processor.
    pub soc: Soc,
    /// The toolkit.
    pub version: Version,
    /// The number of vector cores of the device, if the device reports it.
    pub vector_cores: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_by_name() {
        for (name, family) in [
            ("Ascend910B1", Family::Ascend910B),
            ("Ascend910B2C", Family::Ascend910B),
            ("Ascend910B4-1", Family::Ascend910B),
            ("Ascend910_9391", Family::Ascend910C),
            ("Ascend910A", Family::Ascend910),
            ("Ascend910B", Family::Ascend910),
            ("Ascend910PremiumA", Family::Ascend910),
            ("Ascend310P3", Family::Ascend310),
            ("Ascend950PR", Family::Ascend950),
            ("Kirin", Family::Unknown),
        ] {
            assert_eq!(Soc::from_name(name).family(), family, "{name}");
        }
    }

    #[test]
    fn bf16_begins_with_910b1() {
        assert!(Soc::from_name("Ascend910B1").has_bf16());
        assert!(Soc::from_name("Ascend910_9362").has_bf16());
        assert!(!Soc::from_name("Ascend910A").has_bf16());
        assert!(!Soc::from_name("Ascend310P1").has_bf16());
        assert!(!Soc::unknown().has_bf16());
    }
}
