use crate::semantics::Dtypes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// The key of AdamW. It has no variants: its numbers belong to each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct AdamWKey;

impl Dtypes for AdamWKey {}

impl<'de> Deserialize<'de> for AdamWKey {
    /// There is no setting to read.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl fmt::Display for AdamWKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("adam_w")
    }
}
