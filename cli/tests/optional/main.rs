//! Tests of what features add to the program, and of commands that say which it has. They are a program of their own, because
//! they run again with other features.

#[path = "../common/mod.rs"]
mod common;
#[cfg(any(feature = "images", feature = "remote"))]
#[path = "../../../models/tests/common/mod.rs"]
mod models;
#[cfg(all(feature = "text", unix))]
#[path = "../terminal/mod.rs"]
mod terminal;

mod docs;
mod doctor;
#[cfg(feature = "text")]
mod finetune;
#[cfg(feature = "text")]
mod generate;
#[cfg(feature = "packages")]
mod packages;
#[cfg(feature = "remote")]
mod serve;
#[cfg(feature = "text")]
mod text;
