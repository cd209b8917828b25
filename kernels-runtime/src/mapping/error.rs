use super::ModeFlags;
use crate::device::DeviceKind;
use crate::near;
use kernels_io::{escape, escape_lines};
use thiserror::Error;

/// The reason why something is not a valid mapping.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MappingError {
    /// A text that is not a rule.
    #[error(
        "invalid rule `{}` of a mapping; a rule is `layer@device=kernel`, after the device perhaps \
         `:80..=90` (capabilities) and `/training+compile` (the mode)",
        escape(.rule)
    )]
    Rule {
        /// The text.
        rule: String,
    },
    /// An unknown name or an invalid interval.
    #[error("{}", escape(.0))]
    Text(String),
    /// Flags that are not a valid mode.
    #[error("invalid mode `{mode}`: {why}")]
    Mode {
        /// The flags.
        mode: ModeFlags,
        /// The problem with the flags.
        why: &'static str,
    },
    /// A kernel that is registered for a mode that it does not support.
    #[error(
        "layer `{}`: kernel `{}` is registered for `{mode}` on {device}, but {why}; \
         register it as fallback or map the mode to another kernel",
        escape(.layer),
        escape(.kernel)
    )]
    CannotDo {
        /// The layer.
        layer: String,
        /// The kernel.
        kernel: String,
        /// The mode.
        mode: ModeFlags,
        /// The device.
        device: DeviceKind,
        /// The feature that the kernel lacks.
        why: &'static str,
    },
    /// TOML that is not a mapping.
    #[error("the mapping is not valid TOML: {}", escape_lines(.0))]
    Toml(String),
}

impl MappingError {
    pub(super) fn unknown<'a>(
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self::Text(near::unknown(what, name, known))
    }
}
