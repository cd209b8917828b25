//! The state of the process: devices, contexts, streams and events, and those that each thread uses.

mod allocation;
mod context;
mod stream;
mod virtual_memory;

pub(crate) use self::allocation::*;
pub(crate) use self::context::*;
pub(crate) use self::stream::*;
pub(crate) use self::virtual_memory::*;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cann_sys::errors::*;

use crate::config::{self, Config};
use crate::error::{Failure, Outcome, ensure, fail};
use crate::event::Event;
use crate::loss;
use crate::memory::memory;
use crate::object;
use crate::stream::{Settings, Stream};

/// The first handle. Handles are numbers that are never given out twice, so a stale one is recognised, and they differ
/// from addresses of the host.
const FIRST_HANDLE: usize = 0x0e00_0000_0000_0000;

struct Device {
    /// The number of times that it was set and not reset.
    references: usize,
    context: usize,
}

#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) device: i32,
    default_stream: Arc<Stream>,
    /// A handle of the default stream besides NULL.
    default_handle: usize,
}

#[derive(Clone, Copy)]
struct Registered {
    size: usize,
    /// The device's address of the memory, if it was requested.
    mapped: Option<usize>,
}

#[derive(Default)]
struct Process {
    /// Read at the first use, and again by `aclInit` if no device is in use. None after `aclFinalize`.
    config: Option<Config>,
    /// True once `aclInit` was called. The runtime works without it, like CANN's.
    initialised: bool,
    /// The number of calls of `aclInit` without `aclFinalizeReference`.
    references: u64,
    finalised: bool,
    handles: usize,
    /// The number of allocations on devices so far.
    allocations: u64,
    devices: HashMap<i32, Device>,
    contexts: HashMap<usize, Context>,
    streams: HashMap<usize, Arc<Stream>>,
    events: HashMap<usize, Arc<Event>>,
    pinned: HashMap<usize, Box<[u64]>>,
    /// Registered host memory, by its address.
    registered: HashMap<usize, Registered>,
    /// Options by context; zero stands for the process.
    options: HashMap<(usize, u32), i64>,
    leaks: Vec<String>,
}

static PROCESS: Mutex<Option<Process>> = Mutex::new(None);

thread_local! {
    static CONTEXT: Cell<usize> = const { Cell::new(0) };
}

/// The process' state, locked as long as the guard lives.
struct Guard(MutexGuard<'static, Option<Process>>);

impl std::ops::Deref for Guard {
    type Target = Process;

    fn deref(&self) -> &Process {
        self.0.as_ref().expect("filled by process()")
    }
}

impl std::ops::DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut Process {
        self.0.as_mut().expect("filled by process()")
    }
}

fn process() -> Guard {
    let mut guard = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let process = guard.get_or_insert_with(Process::default);
    if process.config.is_none() && !process.finalised {
        process.config = config::current().ok();
    }
    Guard(guard)
}

impl Process {
    fn handle(&mut self) -> usize {
        self.handles += 1;
        FIRST_HANDLE + 16 * self.handles
    }

    fn config(&self) -> Outcome<&Config> {
        self.config.as_ref().ok_or_else(|| {
            let wrong = config::current()
                .err()
                .filter(|_| !self.finalised)
                .map(|text| Failure::new(ACL_ERROR_INVALID_PARAM, text));
            let text = "aclFinalize has been called";
            wrong.unwrap_or_else(|| Failure::new(ACL_ERROR_UNINITIALIZE, text))
        })
    }

    fn check_initialised(&self) -> Outcome<()> {
        ensure!(self.initialised, ACL_ERROR_UNINITIALIZE; "aclInit has not been called");
        Ok(())
    }

    /// Returns the context of the calling thread. Fails if its device is lost.
    fn current(&self) -> Outcome<(usize, &Context)> {
        self.config()?;
        let handle = CONTEXT.get();
        match self.contexts.get(&handle) {
            Some(context) => loss::check(context.device).map(|()| (handle, context)),
            None => fail!(ACL_ERROR_RT_CONTEXT_NULL;
                "this thread has no context; each thread must call aclrtSetDevice or \
                 aclrtSetCurrentContext"),
        }
    }

    fn stream(&self, handle: usize) -> Outcome<Arc<Stream>> {
        let (current, context) = self.current()?;
        if handle == 0 || handle == context.default_handle {
            return Ok(context.default_stream.clone());
        }
        let Some(stream) = self.streams.get(&handle) else {
            fail!(ACL_ERROR_RT_INVALID_HANDLE; "{handle:#x} is not a stream, or was destroyed")
        };
        ensure!(stream.context == current, ACL_ERROR_RT_STREAM_CONTEXT;
            "the stream belongs to another context (device {}) than the thread's (device {})",
            stream.device, context.device);
        Ok(stream.clone())
    }

    fn new_context(&mut self, device: i32) -> Outcome<usize> {
        let (handle, default_handle) = (self.handle(), self.handle());
        let default_stream = Arc::new(Stream::start(device, handle, Settings::default())?);
        self.contexts.insert(
            handle,
            Context {
                device,
                default_stream,
                default_handle,
            },
        );
        Ok(handle)
    }

    /// Removes a context. Returns its streams, which must be closed once the process is unlocked.
    fn remove_context(&mut self, handle: usize) -> Vec<Arc<Stream>> {
        let mut closing = Vec::new();
        if let Some(context) = self.contexts.remove(&handle) {
            closing.push(context.default_stream);
        }
        let lost: Vec<usize> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.context == handle)
            .map(|(handle, _)| *handle)
            .collect();
        for stream in lost {
            self.leaks
                .push(format!("stream {stream:#x} was never destroyed"));
            closing.extend(self.streams.remove(&stream));
        }
        self.options.retain(|(context, _), _| *context != handle);
        closing
    }

    fn check_device(&self, device: i32) -> Outcome<()> {
        let devices = self.config()?.devices;
        ensure!(
            u32::try_from(device).is_ok_and(|device| device < devices),
            ACL_ERROR_RT_INVALID_DEVICEID;
            "device {device} does not exist: the emulator has {devices} (CANN_EMULATOR_DEVICES)"
        );
        Ok(())
    }
}

fn close(streams: Vec<Arc<Stream>>, force: bool) {
    for stream in streams {
        stream.close(force);
    }
}

pub(crate) fn initialise() -> Outcome<()> {
    let mut process = process();
    process.references += 1;
    ensure!(!process.initialised, ACL_ERROR_REPEAT_INITIALIZE;
        "aclInit was called before; this may be ignored");
    let config = config::current().map_err(|text| Failure::new(ACL_ERROR_INVALID_PARAM, text))?;
    process.initialised = true;
    process.finalised = false;
    if !process.contexts.is_empty() {
        // Devices that are in use stay what they are.
        return Ok(());
    }
    process.config = Some(config);
    process.leaks.clear();
    drop(process);
    loss::forget();
    memory().forget_peaks();
    Ok(())
}

/// Undoes one `aclInit`. Returns the number of those left.
pub(crate) fn release() -> Outcome<u64> {
    let mut process = process();
    process.check_initialised()?;
    process.references -= 1;
    Ok(process.references)
}

/// Ends everything. Returns what was not given back.
pub(crate) fn finalise() -> Outcome<Vec<String>> {
    let (closing, pinned, mut report) = {
        let mut process = process();
        if process.finalised {
            fail!(ACL_ERROR_REPEAT_FINALIZE; "aclFinalize was called before");
        }
        process.check_initialised()?;
        let mut closing = Vec::new();
        let contexts: Vec<usize> = process.contexts.keys().copied().collect();
        for context in contexts {
            closing.extend(process.remove_context(context));
        }
        let mut report = std::mem::take(&mut process.leaks);
        report.extend(process.events.drain().map(|(handle, event)| {
            event.destroy();
            format!("event {handle:#x} was never destroyed")
        }));
        let pinned = std::mem::take(&mut process.pinned);
        report.extend(pinned.iter().map(|(address, words)| {
            let size = words.len() * 8;
            format!("{size} bytes of pinned host memory at {address:#x} were never freed")
        }));
        report.extend(process.registered.drain().map(|(address, found)| {
            let size = found.size;
            format!("{size} bytes of host memory at {address:#x} were never unregistered")
        }));
        report.extend(object::drain());
        process.devices.clear();
        process.options.clear();
        process.references = 0;
        process.config = None;
        process.initialised = false;
        process.finalised = true;
        process.allocations = 0;
        (closing, pinned, report)
    };
    // The process is unlocked, because a running kernel holds the memory and may need the process and the bytes that
    // it copies.
    close(closing, true);
    drop(pinned);
    let mut memory = memory();
    for (device, text) in memory.live() {
        report.push(text);
        memory.clear(device);
    }
    report.extend(memory.release_all_addresses());
    Ok(report)
}

/// Returns `true` between `aclInit` and `aclFinalize`.
pub(crate) fn is_initialised() -> bool {
    process().initialised
}

pub(crate) fn config() -> Outcome<Config> {
    process().config().cloned()
}
