//! The processor and the kernels for it.

use super::report::Report;
use burn_kernels::dispatch::{DeviceKind, x86_64_level};
use burn_kernels::ops::linear::multiplies_in_tiles;
use burn_kernels::registry;

/// Adds the processor, and the number of kernels that have an implementation for it.
pub fn look(report: &mut Report) {
    let processor = match std::env::consts::ARCH {
        "x86_64" => format!("x86-64-v{}", x86_64_level()),
        other => other.to_owned(),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let text = format!("{processor}, {threads} threads");
    report.add("cpu", "ok", text, None);
    if multiplies_in_tiles() {
        let text =
            "AMX multiplies bf16, and large matrices in f32 as three parts of bf16".to_owned();
        report.add("cpu", "ok", text, None);
    }
    let all = registry::kernels().count();
    let here = registry::kernels()
        .filter(|kernel| {
            let mut all = kernel.implementations.iter();
            all.any(|one| one.device.contains(DeviceKind::Cpu))
        })
        .count();
    let text = format!("{here} of {all} kernels have an implementation for the CPU");
    report.add("cpu", "ok", text, None);
}
