//! Routing of a mixture of experts: `aclnnMoeTokenPermute`, `aclnnMoeTokenUnpermute`, their gradients, and
//! `aclnnMoeGatingTopKSoftmax` (and V2).
//!
//! Slots are the choices of all tokens, slot `t · K + k` the k-th of token `t`. Permuting sorts slots by
//! expert, stably; the map that comes with it says **at which row a slot lies**.

mod gating;
mod permute;

pub use self::gating::*;
pub use self::permute::*;
