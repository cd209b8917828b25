use serde::{Deserialize, Serialize};
use std::fmt;

/// What changes the result of a rotary position embedding (Su et al., arXiv:2104.09864).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RopeKey {
    /// Which elements of a head are rotated together.
    pub style: RopeStyle,
}

/// How a rotary position embedding pairs the elements of a head of width `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RopeStyle {
    /// Element `i` with `i + d/2` ("rotate half"): Llama, Qwen, Mistral, Gemma.
    Half,
}

impl fmt::Display for RopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let style = match self.style {
            RopeStyle::Half => "half",
        };
        write!(f, "rope(style={style})")
    }
}
