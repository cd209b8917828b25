//! The tests of the package, but for those in `tests/optional` and those that need a device.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../models/tests/common/mod.rs"]
mod models;
#[path = "../page/mod.rs"]
mod page;
#[cfg(unix)]
#[path = "../terminal/mod.rs"]
mod terminal;

mod bench_compare;
#[cfg(unix)]
mod bisect;
mod compare_rows;
mod features;
mod inspect;
mod inspect_model;
mod metadata;
mod models_page;
mod new_kernel;
#[cfg(unix)]
mod pipes;
mod plan;
mod plan_bin;
mod profile;
mod quantize;
mod run;
mod run_parts;
mod run_pictures;
mod semantics;
#[cfg(unix)]
mod survival;
mod tables;
mod train;
mod tune;

/// Lets one test at a time use the report, which counts the whole process.
fn alone_with_the_report() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let alone = ALONE.lock();
    alone.unwrap_or_else(std::sync::PoisonError::into_inner)
}
