//! The comparison of kernels with their references. It covers every combination of kernel, semantics, dtype and class
//! of shapes, forward and gradients. The reference is computed in f64 from the same inputs.

mod budget;
pub(crate) mod case;
pub(crate) mod data;
mod page;

pub use budget::Budget;

use crate::device::DeviceKind;
use crate::dispatch::{Mode, Query, TensorType, best};
use crate::reason::Reason;
use crate::registry::{FloatType, kernels};
use burn::tensor::Device;
use case::{Case, cases};
use serde::Serialize;
use std::fmt;

/// The result of [`verify_all`].
#[derive(Clone, Debug, Serialize)]
pub struct VerifyReport {
    /// The kind of device that was verified.
    pub device: DeviceKind,
    /// One row per kernel, semantics key, dtype and class of shapes.
    pub rows: Vec<VerifyRow>,
    /// Kernels of the program without cases here. They were not verified.
    pub without_cases: Vec<&'static str>,
}

/// One verified case.
#[derive(Clone, Debug, Serialize)]
pub struct VerifyRow {
    /// The kernel.
    pub kernel: &'static str,
    /// The semantics key.
    pub key: String,
    /// The dtype of the tensors.
    pub dtype: FloatType,
    /// The shapes and layout, in words.
    pub shape: String,
    /// The outcome of the case.
    pub outcome: Outcome,
}

/// The outcome of a case.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// Every element of every result is within the budget.
    Passed {
        /// The largest error as a fraction of the error that the budget allows.
        worst: f64,
    },
    /// An element is outside the budget.
    Failed {
        /// The result: `y`, or the gradient of an input, such as `d_x`.
        result: &'static str,
        /// The element's flat index.
        element: usize,
        /// The kernel's value.
        got: f64,
        /// The value of the f64 reference.
        expected: f64,
        /// The allowed distance of the two.
        allowed: f64,
    },
    /// No kernel can run here.
    Unavailable {
        /// The reason.
        reason: Reason,
    },
}

impl VerifyReport {
    /// Returns `true` if no case failed.
    pub fn passed(&self) -> bool {
        self.rows
            .iter()
            .all(|row| !matches!(row.outcome, Outcome::Failed { .. }))
    }

    /// Returns the number of cases that ran and the number of those that passed.
    pub fn counts(&self) -> (usize, usize) {
        let count =
            |which: fn(&Outcome) -> bool| self.rows.iter().filter(|r| which(&r.outcome)).count();
        (
            count(|o| !matches!(o, Outcome::Unavailable { .. })),
            count(|o| matches!(o, Outcome::Passed { .. })),
        )
    }
}

/// Verifies every kernel on `device` against the reference in f64 on `exact`, a device that supports f64 (the CPU).
pub fn verify_all(device: &Device, exact: &Device) -> VerifyReport {
    verify_some(device, exact, |_, _| true)
}

/// Verifies as [`verify_all`] does, the kernels in the types that are wanted.
pub fn verify_some(
    device: &Device,
    exact: &Device,
    wanted: impl Fn(&str, FloatType) -> bool,
) -> VerifyReport {
    let verified = |case: Case| -> Vec<VerifyRow> {
        let dtypes = FloatType::ALL.into_iter();
        let dtypes = dtypes.filter(|dtype| wanted(case.kernel().id, *dtype));
        let rows = dtypes.map(|dtype| verify(&case, dtype, device, exact));
        rows.collect()
    };
    let rows: Vec<VerifyRow> = cases().flat_map(verified).collect();
    let without_cases = kernels()
        .map(|kernel| kernel.id)
        .filter(|id| rows.iter().all(|row| row.kernel != *id))
        .collect();
    VerifyReport {
        device: DeviceKind::of(device),
        rows,
        without_cases,
    }
}

fn verify(case: &Case, dtype: FloatType, device: &Device, exact: &Device) -> VerifyRow {
    VerifyRow {
        kernel: case.kernel().id,
        key: case.key().to_string(),
        dtype,
        shape: case.describe(),
        outcome: compare(case, dtype, device, exact),
    }
}

fn compare(case: &Case, dtype: FloatType, device: &Device, exact: &Device) -> Outcome {
    // This is checked before tensors are made, because a device may not even store the dtype.
    let mode = match case.key().is_differentiable() {
        true => Mode::Training,
        false => Mode::Inference,
    };
    let query = Query::new(device, TensorType::Float(dtype), mode);
    if let Err(reason) = best(case.kernel(), &case.key(), query) {
        return Outcome::Unavailable { reason };
    }
    // The kernel may still refuse the shapes or layouts of the call.
    let got = match case.fused(dtype, device) {
        Ok(got) => got,
        Err(reason) => return Outcome::Unavailable { reason },
    };
    let expected = case.reference(dtype, exact);
    let budget = Budget::of(dtype);
    let mut worst = 0.0_f64;
    for (got, expected) in got.iter().zip(&expected) {
        let exact = expected.exact();
        assert_eq!(
            got.values.len(),
            exact.values.len(),
            "{} of {}, {}: results of different sizes",
            got.name,
            case.key(),
            case.describe()
        );
        match budget.worst(&got.values, &exact) {
            Ok(part) => worst = worst.max(part),
            Err(miss) => {
                return Outcome::Failed {
                    result: got.name,
                    element: miss.element,
                    got: miss.got,
                    expected: miss.expected,
                    allowed: miss.allowed,
                };
            }
        }
    }
    Outcome::Passed { worst }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed { worst } => write!(f, "ok, {} of the budget", percent(*worst)),
            Self::Failed {
                result,
                element,
                got,
                expected,
                allowed,
            } => write!(
                f,
                "FAILED: {result}[{element}] is {got:e}, the reference {expected:e}, allowed \
                 ±{allowed:.1e}"
            ),
            Self::Unavailable { reason } => write!(f, "not run: {reason}"),
        }
    }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}
