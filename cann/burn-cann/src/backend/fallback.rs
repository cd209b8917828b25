//! The fallback to the host: operands go from the device to Flex, and results back. Every run is counted, logged and
//! can be denied.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use super::device::Place;
use super::error::{Declined, Error, Native, Result};
use super::host::Returned;
use super::operation::Operation;

/// The handling of operations that the device does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fallback {
    /// The operation runs on the host. Each run is counted, and the first is logged.
    Allow,
    /// The operation is an error.
    Deny,
}

const UNSET: u8 = 0;
const ALLOW: u8 = 1;
const DENY: u8 = 2;

static SETTING: AtomicU8 = AtomicU8::new(UNSET);

/// Sets the handling of operations that the device does not run, for the whole process. It takes precedence over the
/// environment variable `BURN_CANN_FALLBACK`.
pub fn set_fallback(fallback: Fallback) {
    let value = match fallback {
        Fallback::Allow => ALLOW,
        Fallback::Deny => DENY,
    };
    SETTING.store(value, Ordering::Relaxed);
}

/// Returns the handling of operations that the device does not run. This is the value of [`set_fallback`], else that
/// of `BURN_CANN_FALLBACK` (`allow` or `deny`), else [`Fallback::Allow`].
///
/// # Errors
///
/// Returns an error if the variable has another value.
pub fn fallback() -> Result<Fallback> {
    match SETTING.load(Ordering::Relaxed) {
        ALLOW => Ok(Fallback::Allow),
        DENY => Ok(Fallback::Deny),
        _ => {
            let found = parse(std::env::var_os("BURN_CANN_FALLBACK").as_deref())?;
            set_fallback(found);
            Ok(found)
        }
    }
}

fn parse(value: Option<&std::ffi::OsStr>) -> Result<Fallback> {
    match value.map(std::ffi::OsStr::to_string_lossy).as_deref() {
        None | Some("allow") => Ok(Fallback::Allow),
        Some("deny") => Ok(Fallback::Deny),
        Some(other) => Err(Error::Setting {
            found: other.to_owned(),
        }),
    }
}

/// Returns the operations that ran on the host, with their number of runs since the start or [`reset_fallbacks`].
pub fn fallbacks() -> Vec<(&'static str, u64)> {
    super::ops()
        .map(|operation| (operation.name(), operation.times_on_host()))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Resets the counts. The next run of each operation on the host is logged again.
pub fn reset_fallbacks() {
    super::ops().for_each(Operation::forget);
}

/// The reason for the host of operations with the path `host`.
pub(super) const NO_OPERATOR: &str = "CANN has no operator for it";

/// Returns the place of the first argument that has one.
pub(super) fn first_place(arguments: &[&dyn Fn() -> Result<Option<Place>>]) -> Result<Place> {
    for argument in arguments {
        if let Some(place) = argument()? {
            return Ok(place);
        }
    }
    Err(Error::NoTensor)
}

/// Returns the result of the device, or the reason for running on the host.
pub(super) fn accepted<T>(
    operation: &'static Operation,
    outcome: Native<T>,
) -> std::result::Result<T, String> {
    match outcome {
        Ok(output) => Ok(output),
        Err(Declined::ToHost(reason)) => Err(reason),
        Err(Declined::Failed(error)) => fail(operation, &Error::from(error)),
    }
}

/// Runs an operation on the host. `run` reads its operands and computes.
pub(super) fn on_host<T: Returned<H>, H>(
    operation: &'static Operation,
    reason: &str,
    place: Result<Place>,
    run: impl FnOnce() -> Result<H>,
) -> T {
    let place = admit(operation, reason, place);
    let output = run().and_then(|output| T::from_host(output, &place));
    output.unwrap_or_else(|error| fail(operation, &error))
}

/// Counts and logs a run on the host, or ends the operation if the fallback is denied.
fn admit(operation: &'static Operation, reason: &str, place: Result<Place>) -> Place {
    let admitted = place.and_then(|place| match fallback()? {
        Fallback::Allow => Ok(place),
        Fallback::Deny => Err(Error::Denied {
            operation: operation.name(),
            reason: reason.to_owned(),
        }),
    });
    let place = admitted.unwrap_or_else(|error| fail(operation, &error));
    if operation.count() {
        tracing::warn!(
            operation = operation.name(),
            reason,
            "runs on the host; logged once"
        );
    }
    place
}

/// Ends an operation with a panic, because Burn's operations can't return an error.
#[cold]
pub(super) fn fail(operation: &'static Operation, error: &dyn fmt::Display) -> ! {
    panic!("{} on the NPU: {error}", operation.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_s_values() {
        let parse = |value: &str| parse(Some(value.as_ref()));
        assert_eq!(super::parse(None).unwrap(), Fallback::Allow);
        assert_eq!(parse("allow").unwrap(), Fallback::Allow);
        assert_eq!(parse("deny").unwrap(), Fallback::Deny);
        let error = parse("no").unwrap_err().to_string();
        assert!(
            error.contains("\"no\"") && error.contains("deny"),
            "{error}"
        );
    }
}
