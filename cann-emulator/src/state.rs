//! The process: devices, contexts, streams and events, and which of them a thread uses.

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

/// Handles are numbers that are never given out twice, so that a stale one is known for what it is.
/// They look like no address of the host.
const FIRST_HANDLE: usize = 0x0e00_0000_0000_0000;

struct Device {
    /// How often it was set and not reset.
    references: usize,
    context: usize,
}

#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) device: i32,
    default_stream: Arc<Stream>,
    /// A name for the default stream besides NULL.
    default_handle: usize,
}

#[derive(Clone, Copy)]
struct Registered {
    size: usize,
    /// The device's address of it, if it was asked for.
    mapped: Option<usize>,
}

#[derive(Default)]
struct Process {
    config: Option<Config>,
    /// How often `aclInit` was called and `aclFinalizeReference` was not.
    references: u64,
    finalised: bool,
    handles: usize,
    /// Allocations on devices so far.
    allocations: u64,
    devices: HashMap<i32, Device>,
    contexts: HashMap<usize, Context>,
    streams: HashMap<usize, Arc<Stream>>,
    events: HashMap<usize, Arc<Event>>,
    pinned: HashMap<usize, Box<[u64]>>,
    /// Host memory from elsewhere, by its address.
    registered: HashMap<usize, Registered>,
    /// By context; zero stands for the process.
    options: HashMap<(usize, u32), i64>,
    leaks: Vec<String>,
}

static PROCESS: Mutex<Option<Process>> = Mutex::new(None);

thread_local! {
    static CONTEXT: Cell<usize> = const { Cell::new(0) };
}

/// The process' state, for as long as the guard lives.
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
    guard.get_or_insert_with(Process::default);
    Guard(guard)
}

impl Process {
    fn handle(&mut self) -> usize {
        self.handles += 1;
        FIRST_HANDLE + 16 * self.handles
    }

    fn config(&self) -> Outcome<&Config> {
        self.config.as_ref().ok_or_else(|| {
            Failure::new(
                ACL_ERROR_UNINITIALIZE,
                "aclInit has not been called, or aclFinalize has",
            )
        })
    }

    /// The context of the calling thread, whose device must not be lost.
    fn current(&self) -> Outcome<(usize, &Context)> {
        self.config()?;
        let handle = CONTEXT.get();
        match self.contexts.get(&handle) {
            Some(context) => loss::check(context.device).map(|()| (handle, context)),
            None => fail!(
                ACL_ERROR_RT_CONTEXT_NULL,
                "this thread has no context; each thread must call aclrtSetDevice or aclrtSetCurrentContext"
            ),
        }
    }

    fn stream(&self, handle: usize) -> Outcome<Arc<Stream>> {
        let (current, context) = self.current()?;
        if handle == 0 || handle == context.default_handle {
            return Ok(context.default_stream.clone());
        }
        let Some(stream) = self.streams.get(&handle) else {
            fail!(
                ACL_ERROR_RT_INVALID_HANDLE,
                "{handle:#x} is not a stream, or was destroyed"
            )
        };
        ensure!(
            stream.context == current,
            ACL_ERROR_RT_STREAM_CONTEXT,
            "the stream belongs to another context (device {}) than the thread's (device {})",
            stream.device,
            context.device
        );
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

    /// Removes a context; its streams, to be closed once the process is unlocked.
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
            ACL_ERROR_RT_INVALID_DEVICEID,
            "there is no device {device}: the emulator has {devices} (CANN_EMULATOR_DEVICES)"
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
    ensure!(
        process.config.is_none(),
        ACL_ERROR_REPEAT_INITIALIZE,
        "aclInit was called before; this may be ignored"
    );
    let config = config::current().map_err(|text| Failure::new(ACL_ERROR_INVALID_PARAM, text))?;
    process.config = Some(config);
    process.finalised = false;
    process.leaks.clear();
    drop(process);
    loss::forget();
    memory().forget_peaks();
    Ok(())
}

/// One `aclInit` less; how many are left.
pub(crate) fn release() -> Outcome<u64> {
    let mut process = process();
    process.config()?;
    process.references -= 1;
    Ok(process.references)
}

/// Ends everything; what was not given back.
pub(crate) fn finalise() -> Outcome<Vec<String>> {
    let (closing, pinned, mut report) = {
        let mut process = process();
        if process.config.is_none() && process.finalised {
            fail!(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize was called before");
        }
        process.config()?;
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
        process.finalised = true;
        process.allocations = 0;
        (closing, pinned, report)
    };
    // Unlocked: a kernel that runs has the memory, and may need the process and what it copies.
    close(closing, true);
    drop(pinned);
    let mut memory = memory();
    for (address, size, device) in memory.live() {
        report.push(format!(
            "{size} bytes at {address:#x} on device {device} were never freed"
        ));
        memory.clear(device);
    }
    Ok(report)
}

pub(crate) fn config() -> Outcome<Config> {
    process().config().cloned()
}

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
            fail!(
                ACL_ERROR_RT_CONTEXT_NULL,
                "device {device} was not set, or was reset before"
            )
        };
        known.references = if force { 0 } else { known.references - 1 };
        if known.references > 0 {
            return Ok(());
        }
        let context = known.context;
        process.devices.remove(&device);
        process.remove_context(context)
    };
    // Unlocked: what the streams still have to do may need the process, and the memory.
    // What was not waited for is lost with the device.
    close(closing, true);
    let lost: Vec<_> = memory()
        .live()
        .into_iter()
        .filter(|live| live.2 == device)
        .collect();
    let leaks = lost.into_iter().map(|(address, size, _)| {
        format!("{size} bytes at {address:#x} on device {device} were never freed")
    });
    process().leaks.extend(leaks);
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
        ensure!(
            !default && process.contexts.contains_key(&context),
            ACL_ERROR_RT_INVALID_HANDLE,
            "{context:#x} was not made by aclrtCreateContext, or was destroyed"
        );
        process.remove_context(context)
    };
    close(closing, false);
    Ok(())
}

pub(crate) fn set_context(context: usize) -> Outcome<()> {
    let process = process();
    process.config()?;
    ensure!(
        process.contexts.contains_key(&context),
        ACL_ERROR_RT_INVALID_HANDLE,
        "{context:#x} is not a context, or was destroyed"
    );
    CONTEXT.set(context);
    Ok(())
}

pub(crate) fn current_context() -> Outcome<usize> {
    Ok(process().current()?.0)
}

/// What a system option belongs to.
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

/// A system option.
pub(crate) fn option(scope: Scope, option: u32) -> Outcome<i64> {
    let process = process();
    match process.options.get(&(scope.key(&process)?, option)) {
        Some(value) => Ok(*value),
        None => fail!(
            ACL_ERROR_RT_SYSPARAMOPT_NOT_SET,
            "the option {option} was not set"
        ),
    }
}

pub(crate) fn set_option(scope: Scope, option: u32, value: i64) -> Outcome<()> {
    let mut process = process();
    let key = scope.key(&process)?;
    process.options.insert((key, option), value);
    Ok(())
}

pub(crate) fn allocate(size: usize) -> Outcome<usize> {
    let (device, limit) = {
        let mut process = process();
        let device = process.current()?.1.device;
        process.allocations += 1;
        let number = process.allocations;
        let config = process.config()?;
        ensure!(
            config.out_of_memory_at != Some(number),
            ACL_ERROR_RT_MEMORY_ALLOCATION,
            "out of memory at allocation {number}, as the emulator was asked (out_of_memory_at)"
        );
        (device, config.memory)
    };
    memory().allocate(device, size, limit)
}

pub(crate) fn free(address: usize) -> Outcome<()> {
    process().current()?;
    memory().free(address)
}

pub(crate) fn pin(size: usize) -> Outcome<usize> {
    let mut process = process();
    process.current()?;
    ensure!(
        size > 0,
        ACL_ERROR_INVALID_PARAM,
        "0 bytes of host memory; ask for at least 1"
    );
    let mut words = vec![u64::MAX; size.div_ceil(8)].into_boxed_slice();
    let address = words.as_mut_ptr() as usize;
    process.pinned.insert(address, words);
    Ok(address)
}

pub(crate) fn unpin(address: usize) -> Outcome<()> {
    // No kernel copies from or to it meanwhile.
    let _memory = memory();
    let mut process = process();
    process.config()?;
    ensure!(
        process.pinned.remove(&address).is_some(),
        ACL_ERROR_INVALID_PARAM,
        "{address:#x} is not from aclrtMallocHost, or was freed before"
    );
    Ok(())
}

/// Whether the bytes lie in memory from `aclrtMallocHost`, or in registered memory.
pub(crate) fn is_pinned(address: usize, count: usize) -> bool {
    let process = process();
    let pinned = process
        .pinned
        .iter()
        .map(|(start, words)| (*start, words.len() * 8));
    let registered = process
        .registered
        .iter()
        .map(|(start, found)| (*start, found.size));
    pinned
        .chain(registered)
        .any(|(start, size)| address >= start && address + count <= start + size)
}

/// The pages of the host that memory is registered by.
const PAGE: usize = 4096;

/// Registers memory of the host; an address of the device for it, if `mapped`.
pub(crate) fn register(address: usize, size: usize, mapped: bool) -> Outcome<Option<usize>> {
    let mut memory = memory();
    let mut process = process();
    let device = process.current()?.1.device;
    ensure!(
        address != 0 && size > 0,
        ACL_ERROR_INVALID_PARAM,
        "no memory to register"
    );
    ensure!(
        address.is_multiple_of(PAGE),
        ACL_ERROR_RT_PARAM_INVALID,
        "{address:#x} is not aligned to a page of {PAGE} bytes"
    );
    ensure!(
        !memory.is_device(address),
        ACL_ERROR_RT_PARAM_INVALID,
        "{address:#x} is an address of a device; only host memory is registered"
    );
    let overlaps = process
        .registered
        .iter()
        .any(|(start, found)| address < start + found.size && *start < address + size);
    ensure!(
        !overlaps,
        ACL_ERROR_RT_PARAM_INVALID,
        "some of the {size} bytes at {address:#x} are registered already"
    );
    let mapped = mapped.then(|| memory.unbacked(device, size)).transpose()?;
    process
        .registered
        .insert(address, Registered { size, mapped });
    Ok(mapped)
}

pub(crate) fn unregister(address: usize) -> Outcome<()> {
    // No kernel copies from or to it meanwhile.
    let _memory = memory();
    let mut process = process();
    process.current()?;
    ensure!(
        process.registered.remove(&address).is_some(),
        ACL_ERROR_RT_PARAM_INVALID,
        "{address:#x} is not registered, or was unregistered before"
    );
    Ok(())
}

/// The device's address of registered host memory.
pub(crate) fn mapped(address: usize) -> Outcome<usize> {
    let process = process();
    process.current()?;
    match process
        .registered
        .get(&address)
        .and_then(|found| found.mapped)
    {
        Some(mapped) => Ok(mapped),
        None => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "{address:#x} is not host memory that was registered and mapped"
        ),
    }
}

pub(crate) fn create_stream(settings: Settings) -> Outcome<usize> {
    let mut process = process();
    let (context, device) = process
        .current()
        .map(|(handle, context)| (handle, context.device))?;
    let stream = Arc::new(Stream::start(device, context, settings)?);
    let handle = process.handle();
    process.streams.insert(handle, stream);
    Ok(handle)
}

pub(crate) fn destroy_stream(handle: usize, force: bool) -> Outcome<()> {
    let stream = {
        let mut process = process();
        ensure!(
            handle != 0 && handle != process.current()?.1.default_handle,
            ACL_ERROR_INVALID_PARAM,
            "the default stream cannot be destroyed"
        );
        process.stream(handle)?;
        process.streams.remove(&handle)
    };
    close(stream.into_iter().collect(), force);
    Ok(())
}

/// The stream of a handle; NULL is the default stream of the thread's context.
pub(crate) fn stream(handle: usize) -> Outcome<Arc<Stream>> {
    process().stream(handle)
}

/// The default stream of the current context, by a handle of its own.
pub(crate) fn default_stream() -> Outcome<usize> {
    Ok(process().current()?.1.default_handle)
}

/// All streams of the current context.
pub(crate) fn streams_of_context() -> Outcome<Vec<Arc<Stream>>> {
    let process = process();
    let (handle, context) = process.current()?;
    let own = process
        .streams
        .values()
        .filter(|stream| stream.context == handle);
    let default = std::iter::once(&context.default_stream);
    Ok(default.chain(own).cloned().collect())
}

/// All streams of the current device.
pub(crate) fn streams_of_device() -> Outcome<Vec<Arc<Stream>>> {
    let process = process();
    let device = process.current()?.1.device;
    let default = process
        .contexts
        .values()
        .map(|context| &context.default_stream);
    let all = default.chain(process.streams.values());
    Ok(all
        .filter(|stream| stream.device == device)
        .cloned()
        .collect())
}

/// How many streams and events there are.
pub(crate) fn counts() -> Outcome<(usize, usize)> {
    let process = process();
    process.current()?;
    Ok((process.streams.len(), process.events.len()))
}

pub(crate) fn create_event() -> Outcome<usize> {
    let mut process = process();
    process.current()?;
    let handle = process.handle();
    process.events.insert(handle, Arc::default());
    Ok(handle)
}

pub(crate) fn event(handle: usize) -> Outcome<Arc<Event>> {
    let process = process();
    process.config()?;
    match process.events.get(&handle) {
        Some(event) => Ok(event.clone()),
        None => fail!(
            ACL_ERROR_RT_INVALID_HANDLE,
            "{handle:#x} is not an event, or was destroyed"
        ),
    }
}

pub(crate) fn destroy_event(handle: usize) -> Outcome<()> {
    event(handle)?.destroy();
    process().events.remove(&handle);
    Ok(())
}
