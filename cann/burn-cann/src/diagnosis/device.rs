//! Checks of the devices: each is opened, examined, and tried with a small RMSNorm.

use super::finding::{Area, Finding};
use crate::cann::Cann;
use crate::device::Device;
use crate::error::Result;
use crate::ops::rms_norm::rms_norm;
use crate::tensor::Tensor;

/// Returns the findings, and the devices that computed the right result.
pub(super) fn findings(cann: &Cann) -> (Vec<Finding>, Vec<u32>) {
    let count = match cann.device_count() {
        Ok(0) => return (vec![none()], Vec::new()),
        Ok(count) => count,
        Err(error) => {
            let advice = "see that the driver fits the toolkit: `npu-smi info` has to work";
            let text = format!("the driver can't be asked: {error}");
            return (
                vec![Finding::missing(Area::Device, text, advice)],
                Vec::new(),
            );
        }
    };
    let mut findings = Vec::new();
    let mut usable = Vec::new();
    for id in 0..count {
        match trial(cann, id) {
            Ok(finding) => {
                findings.push(finding);
                usable.push(id);
            }
            Err(finding) => findings.push(finding),
        }
    }
    (findings, usable)
}

fn none() -> Finding {
    Finding::missing(
        Area::Device,
        "the driver sees no device",
        "look at `npu-smi info`; if ASCEND_RT_VISIBLE_DEVICES is set, see that it names one",
    )
}

/// Tries a device. Returns a good finding as `Ok`, and any other as `Err`.
fn trial(cann: &Cann, id: u32) -> Result<Finding, Finding> {
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        let advice =
            "see CANN's own log (ASCEND_GLOBAL_LOG_LEVEL=1, ASCEND_SLOG_PRINT_TO_STDOUT=1)";
        Finding::missing(Area::Device, format!("{id}: {what}: {error}"), advice)
    };
    let device = Device::open(cann, id).map_err(|error| failed("it can't be opened", &error))?;
    let soc = device.platform().soc.clone();
    if !soc.has_fused_operators() {
        return Err(Finding::missing(
            Area::Device,
            format!("{id}: {soc} ({})", soc.family()),
            "the fused operators are used where their limits are documented: on Ascend 910B (Atlas A2) and \
             910C (Atlas A3). On this chip the references run, on the host",
        ));
    }
    let result = normalise(&device).map_err(|error| failed("RMSNorm failed", &error))?;
    if !is_right(&result) {
        return Err(failed("RMSNorm gave wrong numbers", &format!("{result:?}")));
    }
    let memory = match device.memory() {
        Ok((free, total)) => format!(", {} of {} MiB free", free >> 20, total >> 20),
        Err(_) => String::new(),
    };
    Ok(Finding::good(
        Area::Device,
        format!("{id}: {soc} ({}){memory}; RMSNorm is right", soc.family()),
    ))
}

const ROW: [f32; 4] = [1.0, -2.0, 3.0, -4.0];

fn normalise(device: &Device) -> Result<Vec<f32>> {
    let stream = device.stream()?;
    let x = Tensor::from_slice(&stream, &ROW, [1, 4])?;
    let gamma = Tensor::from_slice(&stream, &[1.0f32, 2.0, 1.0, 0.5], [4])?;
    rms_norm(&stream, &x, &gamma, 0.0)?.y.to_vec(&stream)
}

/// Returns `true` if the result is right. The mean square of the row is 7.5.
fn is_right(result: &[f32]) -> bool {
    let rstd = 7.5f32.sqrt().recip();
    let expected = [rstd, -4.0 * rstd, 3.0 * rstd, -2.0 * rstd];
    result.len() == expected.len()
        && result
            .iter()
            .zip(expected)
            .all(|(found, expected)| (found - expected).abs() <= 1e-3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poison_and_wrong_numbers_are_seen() {
        assert!(is_right(&[0.36515, -1.4606, 1.09545, -0.7303]));
        assert!(!is_right(&[f32::NAN; 4]));
        assert!(!is_right(&[0.36515, -1.4606, 1.09545, 0.7303]));
        assert!(!is_right(&[]));
    }
}
