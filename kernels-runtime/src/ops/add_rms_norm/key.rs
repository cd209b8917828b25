use crate::semantics::{Dtypes, Gating, Groups, Offset, RmsNormKey, Rounding, Scale, Shift};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings that change the result of a sum and its RMSNorm. They are the settings of [`RmsNormKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AddRmsNormKey {
    /// See [`RmsNormKey::offset`].
    pub offset: Offset,
    /// See [`RmsNormKey::rounding`].
    pub rounding: Rounding,
    /// See [`RmsNormKey::scale`].
    pub scale: Scale,
    /// See [`RmsNormKey::gating`].
    pub gating: Gating,
    /// See [`RmsNormKey::groups`].
    pub groups: Groups,
}

impl AddRmsNormKey {
    /// Llama's norm.
    pub const LLAMA: Self = Self::of_norm(RmsNormKey::LLAMA);

    /// Gemma's norm.
    pub const GEMMA: Self = Self::of_norm(RmsNormKey::GEMMA);

    /// Returns the key of a sum with this norm, without its bias.
    pub const fn of_norm(norm: RmsNormKey) -> Self {
        let RmsNormKey {
            offset,
            rounding,
            scale,
            gating,
            groups,
            shift: _,
        } = norm;
        Self {
            offset,
            rounding,
            scale,
            gating,
            groups,
        }
    }

    /// Returns the key of the norm.
    pub const fn norm(self) -> RmsNormKey {
        let Self {
            offset,
            rounding,
            scale,
            gating,
            groups,
        } = self;
        RmsNormKey {
            offset,
            rounding,
            scale,
            gating,
            groups,
            shift: Shift::None,
        }
    }
}

impl Dtypes for AddRmsNormKey {}

impl fmt::Display for AddRmsNormKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "add_{}", self.norm())
    }
}
