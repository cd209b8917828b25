//! The capability of a device, as one number for each kind of device.

#[cfg(feature = "cuda")]
use burn::backend::{DeviceId, DeviceOps, DispatchDevice};
#[cfg(feature = "cuda")]
use std::cell::Cell;
use std::sync::LazyLock;

/// Returns the level of the x86-64 psABI of this processor and operating system, found at run time:
///
/// * 4: AVX-512 F, BW, CD, DQ and VL;
/// * 3: AVX, AVX2, BMI1, BMI2, F16C, FMA, LZCNT and MOVBE;
/// * 2: CMPXCHG16B, POPCNT, SSE3, SSSE3, SSE4.1 and SSE4.2. LAHF-SAHF also belongs to this level. Rust can't detect it,
///   but it is older than the others;
/// * 1: x86-64, and every other processor. [`DeviceKind::capability`] tells these apart.
///
/// Source: System V Application Binary Interface, AMD64 supplement, "Micro-Architecture Levels".
///
/// [`DeviceKind::capability`]: super::DeviceKind::capability
pub fn x86_64_level() -> u16 {
    #[cfg(target_arch = "x86_64")]
    {
        let v2 = is_x86_feature_detected!("cmpxchg16b")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("sse3")
            && is_x86_feature_detected!("ssse3")
            && is_x86_feature_detected!("sse4.1")
            && is_x86_feature_detected!("sse4.2");
        let v3 = v2
            && is_x86_feature_detected!("avx")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("movbe");
        let v4 = v3
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        1 + u16::from(v2) + u16::from(v3) + u16::from(v4)
    }
    #[cfg(not(target_arch = "x86_64"))]
    1
}

/// Returns the compute capability of a CUDA device as one number: `10 · major + minor`. For example, 8.6 is 86 and 12.0
/// is 120.
pub const fn cuda_capability(major: u16, minor: u16) -> u16 {
    10 * major + minor
}

/// Returns the compute capability of a CUDA device of this process, as [`cuda_capability`] packs it. CubeCL names its compiled
/// kernels after it. Asking opens the device, so each thread remembers the one that it asked last.
#[cfg(feature = "cuda")]
pub(super) fn of_cuda(device: &DispatchDevice) -> u16 {
    thread_local! {
        static ASKED: Cell<Option<(DeviceId, u16)>> = const { Cell::new(None) };
    }
    let id = device.id();
    let found = match ASKED.get() {
        Some((asked, found)) if asked == id => found,
        _ => {
            let known = device.identity();
            known.map_or(0, |known| of_compiled_for(&known.fingerprint))
        }
    };
    ASKED.set(Some((id, found)));
    found
}

/// Returns the compute capability in the name of what CubeCL compiles for, such as `ptx_sm90`, or 0.
#[cfg(any(feature = "cuda", test))]
fn of_compiled_for(name: &str) -> u16 {
    let number = name.strip_prefix("ptx_sm");
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Returns the generation of an Ascend SoC from the name that CANN's `aclrtGetSocName` returns, such as `Ascend910B3`.
/// Returns 0 for an unknown name.
///
/// | number | SoC |
/// |---|---|
/// | 10 | 310 |
/// | 20 | 910 (first generation: 910A, 910ProA, 910ProB, 910PremiumA) |
/// | 30 | 310P |
/// | 40 | 910B (Atlas A2) |
/// | 50 | 910_93 (Atlas A3, also sold as 910C) |
/// | 60 | 950 |
///
/// The numbers are defined by this project. They follow the order of the generations, with gaps between them.
pub fn ascend_capability(soc: &str) -> u16 {
    let name = soc.strip_prefix("Ascend").unwrap_or(soc);
    // Longer names come first, because 910B and 910_93 also start with 910.
    const GENERATIONS: [(&str, u16); 7] = [
        ("910_93", 50),
        ("910C", 50),
        ("910B", 40),
        ("310P", 30),
        ("950", 60),
        ("910", 20),
        ("310", 10),
    ];
    GENERATIONS
        .into_iter()
        .find(|(start, _)| name.starts_with(start))
        .map_or(0, |(_, number)| number)
}

/// The capability of processors of other architectures than x86-64. It is above the levels of that one, because what is
/// compiled for another architecture runs on every processor of it.
const OTHER_ARCHITECTURE: u16 = 64;

/// Returns the capability of this processor, detected once.
#[inline]
pub fn cpu() -> u16 {
    static LEVEL: LazyLock<u16> = LazyLock::new(|| match cfg!(target_arch = "x86_64") {
        true => x86_64_level(),
        false => OTHER_ARCHITECTURE,
    });
    *LEVEL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_that_of_the_instructions_there_are() {
        let level = x86_64_level();
        assert!((1..=4).contains(&level));
        #[cfg(target_arch = "x86_64")]
        {
            assert!(level < 3 || is_x86_feature_detected!("avx2"));
            assert!(level < 4 || is_x86_feature_detected!("avx512vl"));
        }
        let here = match cfg!(target_arch = "x86_64") {
            true => level,
            false => OTHER_ARCHITECTURE,
        };
        assert_eq!(cpu(), here);
    }

    #[test]
    fn the_compute_capability_is_in_the_name_of_compiled_kernels() {
        assert_eq!(of_compiled_for("ptx_sm90"), cuda_capability(9, 0));
        assert_eq!(of_compiled_for("ptx_sm120"), cuda_capability(12, 0));
        for other in ["hip-kernel_gfx942", "ptx_sm", "ptx_sm90a", ""] {
            assert_eq!(of_compiled_for(other), 0, "{other}");
        }
    }

    #[test]
    fn capabilities_are_ordered_like_the_generations() {
        let numbers = [
            "Ascend310",
            "Ascend910ProA",
            "Ascend310P3",
            "Ascend910B4",
            "Ascend910_9391",
            "Ascend950",
        ]
        .map(ascend_capability);
        assert_eq!(numbers, [10, 20, 30, 40, 50, 60]);
        assert_eq!(ascend_capability("910B"), 40);
        assert_eq!(ascend_capability("Ascend1"), 0);
        assert_eq!(cuda_capability(8, 6), 86);
        assert!(cuda_capability(12, 0) > cuda_capability(9, 0));
    }
}
