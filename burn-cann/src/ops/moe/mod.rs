//! Routing of a mixture of experts: `aclnnMoeTokenPermute`, `aclnnMoeTokenUnpermute`, their gradients, and
//! `aclnnMoeGatingTopKSoftmax` with its V2.
//!
//! A slot is one choice of a token: slot `t · K + k` is choice `k` of token `t`. Permuting sorts the slots by expert
//! and keeps the order of equal ones. The map that it returns holds **the row of each slot**.

mod gating;
mod permute;

pub use self::gating::*;
pub use self::permute::*;
