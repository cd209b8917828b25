//! Tests that look at the whole process, one after the other: bytes in use, the report of all sites, the record of checked
//! calls, and seeds, because a device has one generator of random numbers for all threads.

#[path = "../comparison/mod.rs"]
mod comparison;
#[path = "../counting/mod.rs"]
mod counting;
#[path = "../process/mod.rs"]
mod process;

mod expert_lora_memory;
mod first_use;
mod lora_memory;
mod measure;
mod one_seed;
#[cfg(feature = "optim")]
mod optim;
mod unheard;
