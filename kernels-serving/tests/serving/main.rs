//! Tests of servers of this process and their clients. Programs beside this one have an allocator, an identity over Iroh
//! or so many failed sessions of their own that others would lose the reasons of theirs.

#![cfg(feature = "remote")]

#[path = "../hostile/mod.rs"]
mod hostile;

#[cfg(target_os = "linux")]
mod harmful;
mod limits;
mod memory;
mod registry;
mod served;
mod shapes;
