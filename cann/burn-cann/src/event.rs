//! Events: marks in a stream's work.

use std::sync::Arc;

use cann_sys::runtime::{
    ACL_EVENT_CAPTURE_STREAM_PROGRESS, ACL_EVENT_RECORDED_STATUS_COMPLETE, ACL_EVENT_SYNC,
    ACL_EVENT_TIME_LINE, aclrtEventRecordedStatus,
};
use cann_sys::types::aclrtStream;

use crate::cann::{Cann, call};
use crate::device::{DeviceInner, Handle};
use crate::error::Result;

/// An event recorded in a stream. It is complete once the stream's earlier work is.
///
/// [`Stream::record`](crate::Stream::record) and [`Stream::record_time`](crate::Stream::record_time) make events.
/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Event(pub(crate) Arc<EventInner>);

#[derive(Debug)]
pub(crate) struct EventInner {
    pub(crate) raw: RawEvent,
    // Declared after the event, which needs it.
    pub(crate) device: Arc<DeviceInner>,
}

impl Drop for EventInner {
    fn drop(&mut self) {
        // The event is destroyed next, in the device's context.
        if let Err(error) = self.device.enter() {
            tracing::error!(%error, "the context of an event could not be set");
        }
    }
}

impl Event {
    pub(crate) fn record(
        device: &Arc<DeviceInner>,
        stream: aclrtStream,
        timed: bool,
    ) -> Result<Self> {
        let raw = RawEvent::new(device.cann(), timed)?;
        raw.record(stream)?;
        let device = device.clone();
        Ok(Self(Arc::new(EventInner { raw, device })))
    }

    /// Returns `true` if the stream has passed the event, also if its work failed. Only
    /// [`synchronise`](Self::synchronise) reports the failure.
    ///
    /// # Errors
    ///
    /// Returns an error if CANN does not answer.
    pub fn is_complete(&self) -> Result<bool> {
        self.0.device.enter()?;
        self.0.raw.is_complete()
    }

    /// Waits until the stream has passed the event.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream's work before the event failed.
    pub fn synchronise(&self) -> Result<()> {
        self.0.device.enter()?;
        self.0.raw.synchronise()
    }

    /// Returns the time on the device from `earlier` to this event, in milliseconds. Both must come from
    /// [`Stream::record_time`](crate::Stream::record_time) and be complete.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them is not complete or keeps no time.
    pub fn milliseconds_since(&self, earlier: &Self) -> Result<f32> {
        self.0.device.enter()?;
        let mut milliseconds = 0.0;
        let (start, end) = (earlier.0.raw.handle.0, self.0.raw.handle.0);
        let cann = self.0.device.cann();
        // SAFETY: both events live, and there is a place for the answer.
        unsafe {
            call!(
                cann,
                runtime.aclrtEventElapsedTime(&mut milliseconds, start, end)
            )
        }?;
        Ok(milliseconds)
    }
}

/// An event of CANN. The device's context must be current wherever it is used.
#[derive(Debug)]
pub(crate) struct RawEvent {
    cann: Cann,
    handle: Handle,
}

impl RawEvent {
    pub(crate) fn new(cann: &Cann, timed: bool) -> Result<Self> {
        let mut flags = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS;
        if timed {
            flags |= ACL_EVENT_TIME_LINE;
        }
        let mut event = std::ptr::null_mut();
        // SAFETY: there is a place for the answer. The event is destroyed once, when dropped.
        unsafe { call!(cann, runtime.aclrtCreateEventExWithFlag(&mut event, flags)) }?;
        let handle = Handle(event);
        Ok(Self {
            cann: cann.clone(),
            handle,
        })
    }

    pub(crate) fn record(&self, stream: aclrtStream) -> Result<()> {
        // SAFETY: the event lives, and so does the stream, which the caller holds.
        unsafe { call!(self.cann, runtime.aclrtRecordEvent(self.handle.0, stream)) }
    }

    pub(crate) fn is_complete(&self) -> Result<bool> {
        let mut status = aclrtEventRecordedStatus(0);
        // SAFETY: the event lives, and there is a place for the answer.
        unsafe {
            call!(
                self.cann,
                runtime.aclrtQueryEventStatus(self.handle.0, &mut status)
            )
        }?;
        Ok(status == ACL_EVENT_RECORDED_STATUS_COMPLETE)
    }

    pub(crate) fn synchronise(&self) -> Result<()> {
        self.cann.count_wait();
        // SAFETY: the event lives.
        unsafe { call!(self.cann, runtime.aclrtSynchronizeEvent(self.handle.0)) }
    }

    /// Makes later work on `stream` wait for the event.
    pub(crate) fn hold_back(&self, stream: aclrtStream) -> Result<()> {
        // SAFETY: both live, and the caller keeps the event until the stream has passed it.
        unsafe {
            call!(
                self.cann,
                runtime.aclrtStreamWaitEvent(stream, self.handle.0)
            )
        }
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        // SAFETY: the event was made by `new` and is destroyed only here.
        if let Err(error) = unsafe { call!(self.cann, runtime.aclrtDestroyEvent(self.handle.0)) } {
            tracing::error!(%error, "an event could not be destroyed");
        }
    }
}
