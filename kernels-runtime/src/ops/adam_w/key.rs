use crate::semantics::Dtypes;
use serde::Serialize;
use std::fmt;

/// The key of AdamW, which has no variants: its numbers are those of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct AdamWKey;

impl Dtypes for AdamWKey {}

impl fmt::Display for AdamWKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("adam_w")
    }
}
