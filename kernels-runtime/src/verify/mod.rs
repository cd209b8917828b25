//! Kernels beside their references: every kernel × semantics × dtype × shape class, forward and
//! gradients, against the reference computed in f64 from the same inputs.

mod budget;
pub(crate) mod case;
pub(crate) mod data;
#[cfg(all(test, feature = "remote"))]
mod served;

pub use budget::Budget;

use crate::device::DeviceKind;
use crate::dispatch::{Mode, Query, TensorType, best};
use crate::reason::Reason;
use crate::registry::{FloatType, kernels};
use crate::table::Table;
use burn::tensor::Device;
use case::{Case, cases};
use serde::Serialize;
use std::fmt;

/// What [`verify_all`] found.
#[derive(Clone, Debug, Serialize)]
pub struct VerifyReport {
    /// The kind of device that was verified.
    pub device: DeviceKind,
    /// One row a kernel, semantics key, dtype and shape class.
    pub rows: Vec<VerifyRow>,
    /// Kernels of the program that have no case here: nothing was found out about them.
    pub without_cases: Vec<&'static str>,
}

/// One verified case.
#[derive(Clone, Debug, Serialize)]
pub struct VerifyRow {
    /// The kernel.
    pub kernel: &'static str,
    /// What it was asked to compute.
    pub key: String,
    /// The dtype of the tensors.
    pub dtype: FloatType,
    /// The shapes and layout, in words.
    pub shape: String,
    /// How it went.
    pub outcome: Outcome,
}

/// How a case went.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// Every element of every result is within the budget.
    Passed {
        /// The largest error as a part of what the budget allows.
        worst: f64,
    },
    /// An element is outside the budget.
    Failed {
        /// Which result: `y`, or the gradient of an input, such as `d_x`.
        result: &'static str,
        /// Its flat index.
        element: usize,
        /// What the kernel computed.
        got: f64,
        /// What the f64 reference says.
        expected: f64,
        /// How far they may be apart.
        allowed: f64,
    },
    /// No kernel runs here.
    Unavailable {
        /// Why.
        reason: Reason,
    },
}

impl VerifyReport {
    /// Whether no case failed.
    pub fn passed(&self) -> bool {
        self.rows
            .iter()
            .all(|row| !matches!(row.outcome, Outcome::Failed { .. }))
    }

    /// How many cases ran and how many of them passed.
    pub fn counts(&self) -> (usize, usize) {
        let count =
            |which: fn(&Outcome) -> bool| self.rows.iter().filter(|r| which(&r.outcome)).count();
        (
            count(|o| !matches!(o, Outcome::Unavailable { .. })),
            count(|o| matches!(o, Outcome::Passed { .. })),
        )
    }
}

/// Verifies every kernel on `device` against the reference in f64 on `exact`, a device that has
/// f64 (the CPU).
pub fn verify_all(device: &Device, exact: &Device) -> VerifyReport {
    let rows: Vec<VerifyRow> = cases()
        .flat_map(|case| FloatType::ALL.map(|dtype| verify(&case, dtype, device, exact)))
        .collect();
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
    // Asked before there are tensors: a device may not even store the dtype.
    let mode = match case.key().is_differentiable() {
        true => Mode::Training,
        false => Mode::Inference,
    };
    let query = Query::new(device, TensorType::Float(dtype), mode);
    if let Err(reason) = best(case.kernel(), &case.key(), query) {
        return Outcome::Unavailable { reason };
    }
    // What is refused by the tensors of the call, not by their type.
    let got = match case.fused(dtype, device) {
        Ok(got) => got,
        Err(reason) => return Outcome::Unavailable { reason },
    };
    let expected = case.reference(dtype, exact);
    let budget = Budget::of(dtype);
    let mut worst = 0.0_f64;
    for (got, expected) in got.iter().zip(&expected) {
        match budget.worst(&got.values, &expected.exact()) {
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

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["kernel", "semantics", "dtype", "shape", "outcome"]);
        for row in &self.rows {
            table.row([
                row.kernel,
                &row.key,
                row.dtype.name(),
                &row.shape,
                &row.outcome.to_string(),
            ]);
        }
        table.fmt(f)?;
        let (ran, passed) = self.counts();
        writeln!(
            f,
            "{passed} of {ran} cases within the budget on {}",
            self.device
        )?;
        match self.without_cases.is_empty() {
            true => Ok(()),
            false => writeln!(f, "not verified here: {}", self.without_cases.join(", ")),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed { worst } => write!(f, "ok, {:.0} % of the budget", worst * 100.0),
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
