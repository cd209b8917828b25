//! Tests that look at the whole process, one after the other: bytes in use, the report of all sites, the record of checked
//! calls, and seeds, because a device has one generator of random numbers for all threads.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../tests/comparison/mod.rs"]
mod comparison;
#[path = "../../../tests/counting/mod.rs"]
mod counting;

mod answers_memory;
mod dispatch;
mod mapping;
mod memory;
mod one_seed;
mod padded;
mod recompute;
mod semantics;
mod sites;
mod verification;
