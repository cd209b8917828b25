//! Tests of policies and mappings, which hold for the whole process, on kernels and sites as another crate would add them to
//! the registry.
#![cfg(feature = "cpu")]

mod acme;
#[path = "../counting/mod.rs"]
mod counting;
#[path = "../../../tests/process/mod.rs"]
mod process;
mod warnings_log;

mod allocations;
mod apply;
mod choices;
mod idle;
mod mapping;
mod steps;
mod warnings;
