//! Tests that look at the whole process or add to its registry, one after the other: bytes in use, and seeds, because a device
//! has one generator of random numbers for all threads; and kernels of other crates, which `verify` in `tests/main` knows no
//! cases of.
#![cfg(feature = "cpu")]

#[path = "../support/cancelling.rs"]
mod cancelling;
#[path = "../../../tests/comparison/mod.rs"]
mod comparison;
#[path = "../../../tests/counting/mod.rs"]
mod counting;
#[path = "../support/declared.rs"]
mod declared;

mod attention_memory;
mod derived;
mod linear_cross_entropy_memory;
mod live_rows;
mod moe_memory;
mod tune;
