//! Devices and contexts of threads, and their options.

use cann_sys::errors::*;

use super::{CONTEXT, Device, Process, close, process};
use crate::error::{Outcome, ensure, fail};
use crate::loss;
use crate::memory::memory;

pub(crate) fn set_device(device: i32) -> Outcome<()> {
    let mut process = process();
    process.check_device(device)?;
    loss::check(device)?;
    let context = match process.devices.get_mut(&device) {
        Some(known) => {
            known.references += 1;
            known.context
        }
        None => {
            let context = process.new_context(device)?;
            process.devices.insert(
                device,
                Device {
                    references: 1,
                    context,
                },
            );
            context
        }
    };
    CONTEXT.set(context);
    Ok(())
}

pub(crate) fn reset_device(device: i32, force: bool) -> Outcome<()> {
    let closing = {
        let mut process = process();
        process.check_device(device)?;
        let Some(known) = process.devices.get_mut(&device) else {
            fail!(ACL_ERROR_RT_CONTEXT_NULL; "device {device} was not set, or was reset before")
        };
        known.references = if force { 0 } else { known.references - 1 };
        if known.references > 0 {
            return Ok(());
        }
        let context = known.context;
        process.devices.remove(&device);
        process.remove_context(context)
    };
    // The process is unlocked, because work on the streams may need it and the memory. Work that nobody waited for is
    // lost with the device.
    close(closing, true);
    let lost = memory().live();
    let leaks = lost.into_iter().filter(|(of, _)| *of == device);
    process().leaks.extend(leaks.map(|(_, text)| text));
    memory().clear(device);
    Ok(())
}

pub(crate) fn current_device() -> Outcome<i32> {
    Ok(process().current()?.1.device)
}

pub(crate) fn create_context(device: i32) -> Outcome<usize> {
    let mut process = process();
    process.check_device(device)?;
    loss::check(device)?;
    let context = process.new_context(device)?;
    CONTEXT.set(context);
    Ok(context)
}

pub(crate) fn destroy_context(context: usize) -> Outcome<()> {
    let closing = {
        let mut process = process();
        process.config()?;
        let default = process
            .devices
            .values()
            .any(|device| device.context == context);
        ensure!(!default && process.contexts.contains_key(&context), ACL_ERROR_RT_INVALID_HANDLE;
            "{context:#x} was not made by aclrtCreateContext, or was destroyed");
        process.remove_context(context)
    };
    close(closing, false);
    Ok(())
}

pub(crate) fn set_context(context: usize) -> Outcome<()> {
    let process = process();
    process.config()?;
    ensure!(process.contexts.contains_key(&context), ACL_ERROR_RT_INVALID_HANDLE;
        "{context:#x} is not a context, or was destroyed");
    CONTEXT.set(context);
    Ok(())
}

pub(crate) fn current_context() -> Outcome<usize> {
    Ok(process().current()?.0)
}

/// The scope of a system option.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The current context.
    Context,
    Process,
}

impl Scope {
    fn key(self, process: &Process) -> Outcome<usize> {
        match self {
            Self::Context => Ok(process.current()?.0),
            Self::Process => process.config().map(|_| 0),
        }
    }
}

/// Returns a system option. One of the process is zero until it is set.
pub(crate) fn option(scope: Scope, option: u32) -> Outcome<i64> {
    let process = process();
    match process.options.get(&(scope.key(&process)?, option)) {
        Some(value) => Ok(*value),
        None if scope == Scope::Process => Ok(0),
        None => fail!(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET; "the option {option} was not set"),
    }
}

pub(crate) fn set_option(scope: Scope, option: u32, value: i64) -> Outcome<()> {
    let mut process = process();
    let key = scope.key(&process)?;
    process.options.insert((key, option), value);
    Ok(())
}
