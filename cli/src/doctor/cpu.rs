//! The processor and the kernels for it.

use super::report::Report;
use crate::processor;
use burn::tensor::Device;
use burn_kernels::dispatch::DeviceKind;
use burn_kernels::ops::linear::multiplies_in_tiles;
use burn_kernels::registry::{self, CapabilityRange};

/// Adds the processor, and the number of kernels that have an implementation for it.
pub fn look(report: &mut Report) {
    let processor = processor::level();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let text = format!("{processor}, {threads} threads");
    report.add("cpu", "ok", text, None);
    if multiplies_in_tiles() {
        let text =
            "AMX multiplies bf16, and large matrices in f32 as three parts of bf16".to_owned();
        report.add("cpu", "ok", text, None);
    }
    let all = registry::kernels().count();
    let here = DeviceKind::capability(&Device::flex());
    let found = Found {
        written: written().count(),
        run_here: written().filter(|one| one.contains(here)).count(),
    };
    let (state, text, advice) = kernels(all, found);
    report.add("cpu", state, text, advice);
}

/// The numbers of kernels that have an implementation for the CPU.
struct Found {
    written: usize,
    /// The number of these that run on this processor.
    run_here: usize,
}

/// Returns the capabilities of the best implementation for the CPU of each kernel that has one.
fn written() -> impl Iterator<Item = CapabilityRange> {
    registry::kernels().filter_map(|kernel| {
        let mut all = kernel.implementations.iter();
        let best = all.find(|one| one.device.contains(DeviceKind::Cpu))?;
        Some(best.capability)
    })
}

/// Returns the finding about the kernels: its state, its text and the advice.
fn kernels(all: usize, found: Found) -> (&'static str, String, Option<String>) {
    let Found { written, run_here } = found;
    let text = format!("{written} of {all} kernels have an implementation for the CPU");
    match written - run_here {
        0 => ("ok", text, None),
        others => (
            "missing",
            format!(
                "{text}, but {others} not for this processor: their sites compute the reference"
            ),
            Some("the CPU kernels need x86-64-v3, which has AVX2 and FMA".to_owned()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_is_too_old_is_named() {
        let found = |run_here| Found {
            written: 12,
            run_here,
        };
        let (state, text, advice) = kernels(13, found(12));
        assert_eq!((state, advice), ("ok", None));
        assert_eq!(text, "12 of 13 kernels have an implementation for the CPU");
        let (state, text, advice) = kernels(13, found(0));
        assert_eq!(state, "missing");
        assert!(text.contains("12 not for this processor"), "{text}");
        assert!(advice.unwrap().contains("x86-64-v3"));
    }
}
