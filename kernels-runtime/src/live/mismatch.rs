//! The message of a failed check.

use super::sampling;
use super::tolerance::Miss;
use crate::dispatch::Site;
use crate::registry::Implementation;
use crate::warning::warning;
use std::fmt;

/// A call that failed its check.
pub(super) struct Mismatch {
    pub(super) site: &'static Site,
    pub(super) implementation: &'static Implementation,
    /// The names, dtypes and shapes of the operands.
    pub(super) operands: String,
    /// The compared part of the operands, if it is not the whole.
    pub(super) compared: Option<String>,
    /// The kernel's error as a fraction of the allowed error, or the mismatch. `None` if the kernel was checked
    /// separately.
    pub(super) kernel: Option<Result<f64, Miss>>,
    /// The body's error in the same form. `None` if the body can't be compared.
    pub(super) body: Option<Result<f64, Miss>>,
}

impl Mismatch {
    /// Panics, and lets each later call of the site panic. If the sampling in force has `warn`, logs the difference and
    /// counts it instead.
    #[track_caller]
    pub(super) fn raise(self) {
        if !sampling::active().goes_on() {
            let message = self.to_string();
            self.site.checks().fail(&message);
            panic!("{message}");
        }
        warning!("{self}");
        self.site.checks().differ();
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (site, spec) = (self.site.name(), self.site.spec());
        let (kernel, implementation) = (spec.kernel, self.implementation.name);
        let odd = match (&self.kernel, &self.body) {
            (Some(Err(_)), None | Some(Ok(_))) => "the kernel is the odd one out",
            (Some(Err(_)), Some(Err(_))) => {
                "both the kernel and the annotated body differ from the reference"
            }
            _ => "the annotated body is the odd one out",
        };
        writeln!(f, "live verification of {site} failed: {odd}")?;
        writeln!(f, "  at        {}:{}", spec.file, spec.line)?;
        writeln!(f, "  computes  {}, as its attribute says", spec.key)?;
        writeln!(f, "  operands  {}", self.operands)?;
        if let Some(compared) = &self.compared {
            writeln!(f, "  compared  {compared}")?;
        }
        if let Some(outcome) = &self.kernel {
            line(
                f,
                "kernel",
                outcome,
                &format!("{kernel} ({implementation})"),
            )?;
        }
        if let Some(outcome) = &self.body {
            line(f, "body", outcome, "the annotated body")?;
        }
        if !matches!(self.kernel, Some(Err(_))) {
            writeln!(
                f,
                "  The body computes something else than {}: write what it computes into the \
                 attribute, or change the body.",
                spec.key
            )?;
        }
        write!(
            f,
            "  To run the body instead of the kernel here: BURN_KERNELS=all,-{site}; to stop \
             checking this site: BURN_KERNELS_VERIFY=first,-{site} (or off); to log such differences and \
             go on: BURN_KERNELS_VERIFY=warn:first."
        )
    }
}

fn line(
    f: &mut fmt::Formatter<'_>,
    label: &str,
    outcome: &Result<f64, Miss>,
    who: &str,
) -> fmt::Result {
    match outcome {
        Ok(part) => writeln!(
            f,
            "  {label:<8}  within {:.0} % of what is allowed",
            part * 100.0
        ),
        Err(miss) => writeln!(f, "  {label:<8}  {who}: {miss}"),
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Element {
                result,
                element,
                got,
                expected,
                allowed,
            } => write!(
                f,
                "{result}[{element}] is {got:e}, the reference in f64 says {expected:e}, allowed \
                 are ±{allowed:.1e}"
            ),
            Self::Norm {
                result,
                distance,
                allowed,
                element,
                got,
                expected,
            } => write!(
                f,
                "{result} is {distance:.1e} of its size from the reference in f64, allowed are \
                 {allowed:.1e}; farthest is {result}[{element}], {got:e} in place of {expected:e}"
            ),
            Self::Type {
                result,
                got,
                expected,
                cast,
            } => {
                write!(f, "{result} is {got}, the reference {expected}")?;
                match cast {
                    Some(dtype) => write!(
                        f,
                        "; cast in the body to the type of the kernel's result, `.cast(FloatDType::{dtype:?})`"
                    ),
                    None => Ok(()),
                }
            }
            Self::NoGradient { result } => write!(
                f,
                "{result} is missing, though the result depends on the operand: the body cuts \
                 its gradient off"
            ),
            Self::Order {
                result,
                order,
                agree,
                differ,
            } => write!(
                f,
                "{result} is rounded in the order of `{order}`: of the {differ} elements in which \
                 the orders differ, {agree} are as it rounds them"
            ),
            Self::Epsilon { miss, kernel, body } => write!(
                f,
                "{miss}\n            its numbers are those of eps = {body:?}, but the attribute gives the kernel eps = \
                 {kernel:?}: name the body's epsilon in the attribute, `eps = ..`, or compute with the kernel's"
            ),
        }
    }
}
