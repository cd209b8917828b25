//! The state of Ascend NPUs in this build and on this machine.

use super::report::Report;
use serde_json::{Value, json};
use std::fmt;

/// The state of NPUs in this build, on this machine.
pub enum Npu {
    /// The program was built without the feature `npu`.
    #[cfg_attr(feature = "npu", allow(dead_code, reason = "known at build time"))]
    NotBuilt,
    /// A number of things are missing.
    #[cfg_attr(not(feature = "npu"), allow(dead_code, reason = "not looked for"))]
    NotReady(usize),
    /// These real devices work.
    #[cfg_attr(not(feature = "npu"), allow(dead_code, reason = "not looked for"))]
    Ready(Vec<u32>),
    /// These emulated devices work.
    #[cfg_attr(not(feature = "npu"), allow(dead_code, reason = "not looked for"))]
    Emulated(Vec<u32>),
}

impl Npu {
    /// Returns `true` if a real NPU works.
    pub fn is_real(&self) -> bool {
        matches!(self, Self::Ready(_))
    }

    /// Returns `true` if an emulated NPU works.
    pub fn is_emulated(&self) -> bool {
        matches!(self, Self::Emulated(_))
    }

    /// Returns the state as JSON.
    pub fn json(&self) -> Value {
        let devices = match self {
            Self::Ready(devices) | Self::Emulated(devices) => devices.as_slice(),
            Self::NotBuilt | Self::NotReady(_) => &[],
        };
        json!({
            "built": !matches!(self, Self::NotBuilt),
            "ready": self.is_real(),
            "emulated": self.is_emulated(),
            "devices": devices,
        })
    }
}

impl fmt::Display for Npu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => write!(
                f,
                "this program was built without NPUs: build it with `--features npu`"
            ),
            Self::NotReady(1) => write!(f, "an NPU can't be used here: 1 thing is missing"),
            Self::NotReady(count) => {
                write!(f, "an NPU can't be used here: {count} things are missing")
            }
            Self::Ready(devices) => write!(f, "NPUs ready: {}", numbers(devices)),
            Self::Emulated(devices) => write!(
                f,
                "emulated NPUs ready: {}; for a real one unset CANN_LIB_DIR",
                numbers(devices)
            ),
        }
    }
}

fn numbers(devices: &[u32]) -> String {
    let numbers: Vec<_> = devices.iter().map(u32::to_string).collect();
    numbers.join(", ")
}

/// Checks everything from the platform to a small calculation on each device.
#[cfg(feature = "npu")]
pub fn look(report: &mut Report) -> Npu {
    use burn_cann::diagnosis::{Diagnosis, State};

    let diagnosis = Diagnosis::of_process();
    for finding in diagnosis.findings() {
        let area = format!("npu {}", finding.area);
        report.add(area, finding.state, &finding.text, finding.advice.clone());
    }
    let missing = |finding: &&burn_cann::diagnosis::Finding| finding.state == State::Missing;
    match (diagnosis.devices(), diagnosis.emulator()) {
        ([], _) => Npu::NotReady(diagnosis.findings().iter().filter(missing).count()),
        (devices, Some(_)) => Npu::Emulated(devices.to_vec()),
        (devices, None) => Npu::Ready(devices.to_vec()),
    }
}

/// Returns [`Npu::NotBuilt`], because this build has no code for NPUs.
#[cfg(not(feature = "npu"))]
pub fn look(_: &mut Report) -> Npu {
    Npu::NotBuilt
}
