//! Streams: queues of a device's work.
//!
//! # Lifetime of what the work needs
//!
//! Device memory needs no care here: it is reused only behind its last use. A stream keeps the pinned buffers and
//! events of its work until an event shows that it has passed them. A stream waits for its work when it ends.
//!
//! # Failed work
//!
//! A stream remembers its failure for ever. Once a wait has returned the failure, the stream takes no more work, and
//! nothing that it wrote is used. The blocks and buffers of such a stream are reused once it is destroyed. If
//! destroying it fails too, they are leaked, because the device may still use them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use cann_sys::runtime::{ACL_STREAM_STATUS_COMPLETE, aclrtStreamStatus};
use cann_sys::types::aclrtStream;

use crate::cann::{call, lock};
use crate::collective::{self, Part};
use crate::device::{Device, DeviceInner, Handle};
use crate::error::{Error, Result};
use crate::event::{Event, RawEvent};
use crate::memory::{Memory, StreamId};

/// A queue of work on a device. Cheap to clone; shared between threads.
///
/// Calls return before their work has run. Everything that the work needs lives until then: device memory by the order
/// of reuse (see [`Memory`]), pinned buffers and events because the stream keeps them.
///
/// When the last clone is dropped, it waits for the work. A tensor holds the stream that used it last.
///
/// Once a wait has returned that its work failed, a stream takes no more work ([`Error::FailedBefore`]). Other streams
/// refuse the tensors that this one used last, because their contents are unknown.
#[derive(Clone)]
pub struct Stream(Arc<StreamInner>);

pub(crate) struct StreamInner {
    device: Arc<DeviceInner>,
    id: StreamId,
    handle: Handle,
    /// Things that work in flight needs, each with the event behind it. The oldest is first.
    kept: Mutex<VecDeque<Kept>>,
    /// The streams whose work this one's builds on, since the last wait.
    upstream: Mutex<Vec<Weak<StreamInner>>>,
    /// The failure of its work or of a stream that it builds on, once a wait has returned it.
    failure: OnceLock<Error>,
    /// True if only users of its tensors get to know of the failure.
    keeps_failures: AtomicBool,
    /// Its parts in groups of devices that compute together.
    parts: Mutex<Vec<Part>>,
    /// True if it waits for a device that is lost, so that its work never ends.
    given_up: AtomicBool,
}

struct Kept {
    passed: RawEvent,
    _thing: Box<dyn Send>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl fmt::Debug for StreamInner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Stream({} on device {})", self.id.0, self.device.id())
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Stream {}

impl Stream {
    pub(crate) fn new(device: &Arc<DeviceInner>) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        device.enter()?;
        let mut stream = std::ptr::null_mut();
        // SAFETY: there is a place for the answer. The stream is destroyed once, with the last clone.
        unsafe { call!(device.cann(), runtime.aclrtCreateStream(&mut stream)) }?;
        let id = StreamId(NEXT.fetch_add(1, Ordering::Relaxed));
        let handle = Handle(stream);
        lock(device.pool()).stream_added(id, handle);
        Ok(Self(Arc::new(StreamInner {
            device: device.clone(),
            id,
            handle,
            kept: Mutex::default(),
            upstream: Mutex::default(),
            failure: OnceLock::new(),
            keeps_failures: AtomicBool::new(false),
            parts: Mutex::default(),
            given_up: AtomicBool::new(false),
        })))
    }

    /// Returns the stream's device.
    pub fn device(&self) -> Device {
        Device(self.0.device.clone())
    }

    /// Waits for all work so far, and for the work of other streams that it builds on.
    ///
    /// # Errors
    ///
    /// Returns an error if work failed on this stream, on one that it builds on, or on a stream of the device that was
    /// dropped before anybody waited for it.
    pub fn synchronise(&self) -> Result<()> {
        self.0.device.enter()?;
        self.0.synchronise().or_else(|error| self.failed(error))?;
        self.0.let_go()?;
        // Other streams also pass an event behind work that failed; only the stream of that work reports the failure.
        // The list is taken out first, because streams may build on each other.
        let upstream = std::mem::take(&mut *lock(&self.0.upstream));
        upstream
            .into_iter()
            .filter_map(|stream| stream.upgrade())
            .try_for_each(|stream| Self(stream).synchronise())
            .or_else(|error| self.failed(error))?;
        self.0.device.take_failure()
    }

    /// Returns the failure that a wait has returned, of this stream's work or of a stream that it builds on.
    pub fn failure(&self) -> Option<&Error> {
        self.0.failure.get()
    }

    /// Remembers a failure that is being returned.
    fn failed(&self, error: Error) -> Result<()> {
        // The first failure is the cause of those that follow.
        let _ = self.0.failure.set(error.clone());
        self.0.tell(&error);
        Err(error)
    }

    fn usable(&self) -> Result<()> {
        match self.failure() {
            Some(error) => Err(Error::FailedBefore(Box::new(error.clone()))),
            None => Ok(()),
        }
    }

    /// Returns `true` if all work is done.
    ///
    /// # Errors
    ///
    /// Returns an error if the work failed.
    pub fn is_idle(&self) -> Result<bool> {
        self.0.device.enter()?;
        let mut status = aclrtStreamStatus(0);
        let cann = self.0.device.cann();
        // SAFETY: the stream lives, and there is a place for the answer.
        unsafe { call!(cann, runtime.aclrtStreamQuery(self.0.handle.0, &mut status)) }?;
        Ok(status == ACL_STREAM_STATUS_COMPLETE)
    }

    /// Remembers and logs a failure that is known without waiting, because the code that asked for the work may never
    /// wait.
    #[cfg(feature = "backend")]
    pub(crate) fn look_for_failure(&self) {
        if self.failure().is_none()
            && let Err(error) = self.is_idle()
        {
            tracing::error!(%error, "a stream's work failed");
            let _ = self.failed(error);
        }
    }

    /// Keeps this stream's failure from those who wait for the device after the stream was dropped.
    #[cfg(feature = "backend")]
    pub(crate) fn keep_failures(&self) {
        self.0.keeps_failures.store(true, Ordering::Relaxed);
    }

    /// Records an event behind all work so far.
    ///
    /// # Errors
    ///
    /// Returns an error if the device has no more events.
    pub fn record(&self) -> Result<Event> {
        self.0.device.enter()?;
        Event::record(&self.0.device, self.0.handle.0, false)
    }

    /// Records an event behind all work so far that also keeps the time.
    ///
    /// # Errors
    ///
    /// Returns an error if the device has no more events.
    pub fn record_time(&self) -> Result<Event> {
        self.0.device.enter()?;
        Event::record(&self.0.device, self.0.handle.0, true)
    }

    /// Makes later work wait for an event of another stream of this device.
    ///
    /// Tensors don't need this: work on them is ordered by itself.
    ///
    /// # Errors
    ///
    /// Returns an error if the event belongs to another device.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        self.same_device("the event", &event.0.device)?;
        self.0.device.enter()?;
        event.0.raw.hold_back(self.0.handle.0)?;
        self.keep(event.clone())
    }

    /// Keeps a part in a group of devices, until the stream has ended.
    pub(crate) fn take_part(&self, part: Part) -> Weak<StreamInner> {
        lock(&self.0.parts).push(part);
        Arc::downgrade(&self.0)
    }

    pub(crate) fn is(&self, other: &Weak<StreamInner>) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.0), other.as_ptr())
    }

    pub(crate) fn of(inner: Arc<StreamInner>) -> Self {
        Self(inner)
    }

    pub(crate) fn id(&self) -> StreamId {
        self.0.id
    }

    pub(crate) fn inner_device(&self) -> &Arc<DeviceInner> {
        &self.0.device
    }

    pub(crate) fn same_device(&self, what: &'static str, device: &Arc<DeviceInner>) -> Result<()> {
        if Arc::ptr_eq(device, &self.0.device) {
            return Ok(());
        }
        Err(Error::OtherDevice {
            what,
            found: device.id(),
            stream: self.0.device.id(),
        })
    }

    /// Allocates memory whose first use is on this stream.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<Memory> {
        self.0.device.allocate(bytes, self)
    }

    /// Hands work that uses `memory` to the stream, behind the work of other streams on it.
    pub(crate) fn submit<R>(
        &self,
        memory: &[&Memory],
        launch: impl FnOnce(aclrtStream) -> Result<R>,
    ) -> Result<R> {
        for memory in memory {
            self.same_device("a tensor", memory.device())?;
        }
        self.usable()?;
        self.0.device.enter()?;
        // Streams that the memory leaves are dropped after the lock, since the last clone waits for its work.
        let mut left = Vec::new();
        let order = lock(self.0.device.order());
        for memory in memory {
            self.take_over(memory, &mut left)?;
        }
        let result = launch(self.0.handle.0);
        drop(order);
        result
    }

    /// Moves the last use of `memory` to this stream, behind its last use on another.
    fn take_over(&self, memory: &Memory, left: &mut Vec<Stream>) -> Result<()> {
        let mut last = memory.last_stream();
        if *last == *self {
            return Ok(());
        }
        last.usable()?;
        let mark = RawEvent::new(self.0.device.cann(), false)?;
        mark.record(last.0.handle.0)?;
        mark.hold_back(self.0.handle.0)?;
        self.build_on(&last);
        left.push(std::mem::replace(&mut *last, self.clone()));
        drop(last);
        self.keep(mark)
    }

    fn build_on(&self, other: &Self) {
        let mut upstream = lock(&self.0.upstream);
        upstream.retain(|stream| stream.strong_count() > 0);
        let other = Arc::downgrade(&other.0);
        if !upstream.iter().any(|stream| stream.ptr_eq(&other)) {
            upstream.push(other);
        }
    }

    /// Keeps `thing` until the stream has passed its work so far. The context must be current.
    pub(crate) fn keep(&self, thing: impl Send + 'static) -> Result<()> {
        let device = &self.0.device;
        let thing: Box<dyn Send> = Box::new(thing);
        let passed = RawEvent::new(device.cann(), false)
            .and_then(|event| event.record(self.0.handle.0).map(|()| event));
        match passed {
            Ok(passed) => {
                lock(&self.0.kept).push_back(Kept {
                    passed,
                    _thing: thing,
                });
                self.0.let_go()
            }
            Err(error) => {
                // Without an event, only a wait shows that dropping is safe. If the wait fails too, it is not.
                if self.0.synchronise().is_err() {
                    std::mem::forget(thing);
                }
                Err(error)
            }
        }
    }
}

impl StreamInner {
    fn synchronise(&self) -> Result<()> {
        let cann = self.device.cann();
        cann.count_wait();
        let parts = lock(&self.parts).clone();
        let has_limit = cann.sys().runtime.aclrtSynchronizeStreamWithTimeout.get();
        if parts.is_empty() || has_limit.is_err() {
            // SAFETY: the stream lives, and its context is current.
            return unsafe { call!(cann, runtime.aclrtSynchronizeStream(self.handle.0)) };
        }
        let waited = collective::wait(&parts, |limit| {
            self.device.enter()?;
            let limit = limit.as_millis() as i32;
            // SAFETY: the stream lives, and its context is current.
            unsafe {
                call!(
                    cann,
                    runtime.aclrtSynchronizeStreamWithTimeout(self.handle.0, limit)
                )
            }
        });
        if let Err(Error::Collective(_)) = &waited {
            self.given_up.store(true, Ordering::Relaxed);
        }
        // A look at other devices made their contexts current.
        let back = self.device.enter();
        waited.and(back)
    }

    /// Tells groups of devices of a failure, so that the others don't wait for this stream.
    fn tell(&self, error: &Error) {
        for part in lock(&self.parts).iter() {
            part.failed(error);
        }
    }

    /// Drops the things that the stream has passed.
    fn let_go(&self) -> Result<()> {
        let mut done = Vec::new();
        let mut kept = lock(&self.kept);
        while let Some(oldest) = kept.front() {
            if !oldest.passed.is_complete()? {
                break;
            }
            done.extend(kept.pop_front());
        }
        drop(kept);
        // This is outside the lock, because a dropped thing may hold a stream of its own.
        drop(done);
        Ok(())
    }

    fn close(&self) -> Result<()> {
        self.device.enter()?;
        self.synchronise()
    }
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        let closed = self.close();
        if let Err(error) = &closed {
            tracing::error!(%error, "a stream's work failed");
            self.tell(error);
            if self.failure.get().is_none() && !self.keeps_failures.load(Ordering::Relaxed) {
                self.device.leave_failure(error.clone());
            }
        }
        // No block refers to the stream any more, and no event is recorded on it from here on.
        let lane = lock(self.device.pool()).stream_gone(self.id);
        let (cann, given_up) = (self.device.cann(), self.given_up.load(Ordering::Relaxed));
        let destroyed = if given_up {
            // SAFETY: as below. This does not wait for the work.
            unsafe { call!(cann, runtime.aclrtDestroyStreamForce(self.handle.0)) }
        } else {
            // SAFETY: the stream was made by `new` and is destroyed only here; no clone is left.
            unsafe { call!(cann, runtime.aclrtDestroyStream(self.handle.0)) }
        };
        if let Err(error) = &destroyed {
            tracing::error!(%error, "a stream could not be destroyed");
        }
        // Destroying a stream whose work failed waits for the rest, unless it was given up. If that fails too, the device
        // may still use what the stream held, so it is leaked.
        let idle = closed.is_ok() || (destroyed.is_ok() && !given_up);
        let kept = std::mem::take(&mut *lock(&self.kept));
        let mut pool = lock(self.device.pool());
        if let Some(lane) = lane {
            if idle {
                pool.lane_is_free(lane);
            } else {
                pool.lane_is_lost(lane);
            }
        }
        drop(pool);
        if !idle {
            tracing::error!("what a stream held is lost");
            kept.into_iter().for_each(std::mem::forget);
        }
    }
}
