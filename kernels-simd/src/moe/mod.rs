//! Mixtures of experts: routers, experts, and moving tokens to rows sorted by expert.

pub mod experts;
pub mod grouped_matmul;
mod groups;
mod in_place;
mod numbers;
pub mod permute;
pub mod router;

pub use groups::{Groups, Integers, MOST_EXPERTS};
