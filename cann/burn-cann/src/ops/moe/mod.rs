//! Routing of a mixture of experts: `aclnnMoeTokenPermute` with its gradient, `aclnnMoeTokenUnpermute`,
//! `aclnnMoeGatingTopKSoftmaxV2` and `aclnnMoeGatingTopK`.
//!
//! A slot is one choice of a token: slot `t · K + k` is choice `k` of token `t`. Permuting sorts the slots by expert
//! and keeps the order of equal ones. The map that it returns holds **the row of each slot**.

mod gating;
mod gating_top_k;
mod permute;

pub use self::gating::*;
pub use self::gating_top_k::*;
pub use self::permute::*;
