//! Packages as others make them: variants, files, libraries, calls, locks, caches and hubs.

mod bindings;
mod cache;
mod calls;
mod files;
#[cfg(feature = "hub")]
mod hub;
mod libraries;
mod lock;
mod own;
#[path = "../support/mod.rs"]
mod support;
mod variants;
