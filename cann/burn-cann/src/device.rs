//! A device, its context, and the state that belongs to it.
//!
//! # Locks
//!
//! A device's lock `order` is taken before a block's `last` stream and before a stream's `kept` list. No other lock is
//! taken under those of the allocator, of the pinned cache and of the executors. CANN's handles are dropped outside the
//! locks wherever dropping may wait.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock};

use cann_sys::errors::ACL_ERROR_RT_SYSPARAMOPT_NOT_SET;
use cann_sys::runtime::{
    ACL_DEVICE_INFO_VECTOR_CORE_NUM, ACL_HBM_MEM, ACL_MEM_MALLOC_HUGE_FIRST, ACL_OPT_DETERMINISTIC,
    ACL_RT_DEVICE_STATUS_NORMAL,
};
use cann_sys::types::aclrtContext;

use crate::call::ExecutorCache;
use crate::cann::{Cann, InUse, call, lock};
use crate::error::{Error, Result};
use crate::event::RawEvent;
use crate::memory::{
    Address, Backend, Memory, PinnedCache, PinnedStatistics, Pool, Refused, Start, Statistics,
};
use crate::soc::Platform;
use crate::stream::Stream;

/// A device of this process, with its allocator and executors. Cheap to clone; shared between threads.
///
/// CANN keeps the current device per thread. Every call of this crate sets the device's context first, so that any
/// thread may use anything of any device.
#[derive(Debug, Clone)]
pub struct Device(pub(crate) Arc<DeviceInner>);

#[derive(Debug)]
pub(crate) struct DeviceInner {
    cann: Cann,
    id: i32,
    context: Handle,
    pool: Mutex<Pool<Allocations>>,
    executors: Mutex<ExecutorCache>,
    pinned: Mutex<PinnedCache<Start>>,
    /// Held while work is handed to a stream, so that blocks change streams in the order of the work.
    order: Mutex<()>,
    /// The failure of a dropped stream, which the next wait on this device returns.
    unreported: Mutex<Option<Error>>,
    platform: OnceLock<Platform>,
    _in_use: InUse,
}

/// A pointer of CANN's that the host does not follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) *mut c_void);

// SAFETY: the host never follows the pointer. CANN takes its contexts, streams and events from any thread whose
// current context is theirs, and every call here sets that context.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Device {
    /// Opens device `id`, or shares it if it is open already.
    ///
    /// # Errors
    ///
    /// Returns an error if the device does not exist or is not usable.
    pub fn open(cann: &Cann, id: u32) -> Result<Self> {
        let id = i32::try_from(id).unwrap_or(i32::MAX);
        let inner = cann.shared_device(id, || DeviceInner::open(cann, id))?;
        Ok(Self(inner))
    }

    /// Returns the device's number.
    pub fn id(&self) -> u32 {
        self.0.id.unsigned_abs()
    }

    /// Returns the CANN that the device belongs to.
    pub fn cann(&self) -> &Cann {
        &self.0.cann
    }

    /// Makes a new stream.
    ///
    /// # Errors
    ///
    /// Returns an error if the device has no more streams.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(&self.0)
    }

    /// Returns the facts about the device that the operators' checks need.
    pub fn platform(&self) -> &Platform {
        self.0.platform.get_or_init(|| Platform {
            soc: self.0.cann.soc(),
            version: self.0.cann.version().clone(),
            vector_cores: self.0.vector_cores(),
        })
    }

    /// Returns the free memory and all memory in bytes, as the device counts them.
    ///
    /// # Errors
    ///
    /// Returns an error if the device does not answer.
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.0.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: there are two places for the answer, and the context is current.
        unsafe {
            call!(
                self.0.cann,
                runtime.aclrtGetMemInfo(ACL_HBM_MEM, &mut free, &mut total)
            )
        }?;
        Ok((free, total))
    }

    /// Returns the allocator's figures.
    pub fn statistics(&self) -> Statistics {
        lock(&self.0.pool).statistics()
    }

    /// Starts the peak of [`Device::statistics`] anew.
    pub fn reset_peak(&self) {
        lock(&self.0.pool).reset_peak();
    }

    /// Waits for all streams, then gives the allocator's cached blocks back to the device and the kept pinned memory
    /// back to the host.
    ///
    /// # Errors
    ///
    /// Returns an error if the work of a stream failed.
    pub fn release_cache(&self) -> Result<()> {
        self.0.enter()?;
        self.0.release_pinned();
        lock(&self.0.pool).flush(&Allocations::of(&self.0))
    }

    /// Sets how many bytes of pinned host memory are kept for the next buffers. The default is 64 MiB.
    pub fn keep_pinned(&self, limit: usize) {
        let surplus = lock(&self.0.pinned).set_limit(limit);
        self.0.free_pinned(surplus);
    }

    /// Returns the figures of pinned host memory.
    pub fn pinned_statistics(&self) -> PinnedStatistics {
        lock(&self.0.pinned).statistics()
    }

    /// Waits for all streams.
    ///
    /// # Errors
    ///
    /// Returns an error if the work of a stream failed.
    pub fn synchronise(&self) -> Result<()> {
        self.0.enter()?;
        self.0.cann.count_wait();
        // SAFETY: the context is current.
        unsafe { call!(self.0.cann, runtime.aclrtSynchronizeDevice()) }?;
        self.0.take_failure()
    }

    /// Sets whether results have the same bits from run to run. Without it, the gradient of RmsNorm may add in any
    /// order.
    ///
    /// # Errors
    ///
    /// Returns an error if the toolkit does not offer it.
    pub fn set_deterministic(&self, deterministic: bool) -> Result<()> {
        self.0.enter()?;
        let value = i64::from(deterministic);
        // SAFETY: an option of the current context.
        unsafe {
            call!(
                self.0.cann,
                runtime.aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, value)
            )
        }?;
        // The executors were prepared under the old setting.
        self.clear_executors();
        Ok(())
    }

    /// Returns `true` if [`Device::set_deterministic`] was called with `true`.
    ///
    /// # Errors
    ///
    /// Returns an error if the toolkit does not answer.
    pub fn is_deterministic(&self) -> Result<bool> {
        self.0.enter()?;
        let mut value = 0;
        // SAFETY: the function writes the option of the current context to this place.
        let asked = unsafe {
            call!(
                self.0.cann,
                runtime.aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &mut value)
            )
        };
        match asked {
            Ok(()) => Ok(value != 0),
            // CANN has no value for an option that nobody set.
            Err(Error::Call { code, .. }) if code.number() == ACL_ERROR_RT_SYSPARAMOPT_NOT_SET => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Sets how many prepared executors are kept for calls of the same operator, shapes, strides and dtypes. The
    /// default is 256, and 0 keeps none.
    ///
    /// Once that many are kept, only calls that came before are kept, in place of those used longest ago.
    pub fn keep_executors(&self, limit: usize) {
        let old = lock(&self.0.executors).set_limit(limit);
        drop(old);
    }

    /// Returns how many executors are kept, and how many calls found one and how many did not.
    pub fn executor_statistics(&self) -> crate::call::ExecutorStatistics {
        lock(&self.0.executors).statistics()
    }

    pub(crate) fn inner(&self) -> &Arc<DeviceInner> {
        &self.0
    }

    fn clear_executors(&self) {
        let old = lock(&self.0.executors).clear();
        drop(old);
    }
}

impl DeviceInner {
    fn open(cann: &Cann, id: i32) -> Result<Self> {
        let in_use = InUse::new()?;
        // SAFETY: the call makes the device's default context current on this thread. Dropping undoes it.
        unsafe { call!(cann, runtime.aclrtSetDevice(id)) }?;
        let mut context: aclrtContext = std::ptr::null_mut();
        // SAFETY: there is a place for the answer.
        let found = unsafe { call!(cann, runtime.aclrtGetCurrentContext(&mut context)) };
        if let Err(error) = found {
            // SAFETY: the call undoes the one above; nothing of the device is in use.
            let _ = unsafe { call!(cann, runtime.aclrtResetDevice(id)) };
            return Err(error);
        }
        Ok(Self {
            cann: cann.clone(),
            id,
            context: Handle(context),
            pool: Mutex::default(),
            executors: Mutex::default(),
            pinned: Mutex::default(),
            order: Mutex::new(()),
            unreported: Mutex::default(),
            platform: OnceLock::new(),
            _in_use: in_use,
        })
    }

    pub(crate) fn cann(&self) -> &Cann {
        &self.cann
    }

    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    pub(crate) fn pool(&self) -> &Mutex<Pool<Allocations>> {
        &self.pool
    }

    pub(crate) fn order(&self) -> &Mutex<()> {
        &self.order
    }

    pub(crate) fn executors(&self) -> &Mutex<ExecutorCache> {
        &self.executors
    }

    pub(crate) fn pinned(&self) -> &Mutex<PinnedCache<Start>> {
        &self.pinned
    }

    /// Gives the kept pinned memory back to the host. Returns `true` if there was any.
    pub(crate) fn release_pinned(&self) -> bool {
        let kept = lock(&self.pinned).drain();
        let any = !kept.is_empty();
        self.free_pinned(kept);
        any
    }

    fn free_pinned(&self, kept: Vec<Start>) {
        if kept.is_empty() {
            return;
        }
        if let Err(error) = self.enter() {
            tracing::error!(%error, "pinned memory could not be freed");
            return;
        }
        for start in kept {
            // SAFETY: the cache holds allocations of `aclrtMallocHost` that nobody uses, each once.
            unsafe { start.free(&self.cann) };
        }
    }

    /// Makes the device's context the current one of this thread. The thread's context is not remembered, because
    /// other code in the process may change it and setting it costs next to nothing.
    pub(crate) fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as the device is set, which is as long as `self`.
        unsafe { call!(self.cann, runtime.aclrtSetCurrentContext(self.context.0)) }
    }

    /// Returns `false` if the toolkit says that the device does not work.
    pub(crate) fn works(&self) -> Result<bool> {
        let runtime = &self.cann.sys().runtime;
        if runtime.aclrtQueryDeviceStatus.get().is_err() {
            return Ok(true);
        }
        let mut status = ACL_RT_DEVICE_STATUS_NORMAL;
        // SAFETY: there is a place for the answer.
        unsafe {
            call!(
                self.cann,
                runtime.aclrtQueryDeviceStatus(self.id, &mut status)
            )
        }?;
        Ok(status == ACL_RT_DEVICE_STATUS_NORMAL)
    }

    /// Keeps the failure of a dropped stream for the next wait.
    pub(crate) fn leave_failure(&self, error: Error) {
        lock(&self.unreported).get_or_insert(error);
    }

    /// Returns the failure of a dropped stream as an error, once.
    pub(crate) fn take_failure(&self) -> Result<()> {
        lock(&self.unreported).take().map_or(Ok(()), Err)
    }

    fn vector_cores(&self) -> Option<u32> {
        let mut cores = 0;
        let (id, what) = (self.id.unsigned_abs(), ACL_DEVICE_INFO_VECTOR_CORE_NUM);
        // SAFETY: there is a place for the answer.
        unsafe {
            call!(
                self.cann,
                runtime.aclGetDeviceCapability(id, what, &mut cores)
            )
        }
        .ok()?;
        u32::try_from(cores).ok().filter(|&cores| cores > 0)
    }

    /// Allocates device memory for use on `stream`.
    pub(crate) fn allocate(self: &Arc<Self>, bytes: usize, stream: &Stream) -> Result<Memory> {
        self.enter()?;
        let mut pool = lock(&self.pool);
        match pool.allocate(&Allocations::of(self), bytes, stream.id()) {
            Ok((address, size)) => {
                drop(pool);
                Ok(Memory::new(self.clone(), address, size, stream.clone()))
            }
            Err(Refused::Device(error)) => Err(error),
            Err(Refused::OutOfMemory) => Err(Error::OutOfMemory {
                device: self.id,
                bytes,
                statistics: pool.statistics(),
            }),
        }
    }
}

impl Drop for DeviceInner {
    fn drop(&mut self) {
        let closed = self.enter().and_then(|()| {
            drop(lock(&self.executors).clear());
            self.release_pinned();
            lock(&self.pool).flush(&Allocations {
                cann: self.cann.clone(),
            })?;
            // SAFETY: streams, events and blocks hold the device, so none is left.
            unsafe { call!(self.cann, runtime.aclrtResetDevice(self.id)) }
        });
        if let Err(error) = closed {
            tracing::error!(device = self.id, %error, "a device could not be closed");
        }
    }
}

/// The allocator's access to the device, whose context must be current.
#[derive(Debug)]
pub(crate) struct Allocations {
    cann: Cann,
}

impl Allocations {
    pub(crate) fn of(device: &DeviceInner) -> Self {
        Self {
            cann: device.cann.clone(),
        }
    }
}

impl Backend for Allocations {
    type Stream = Handle;
    type Event = RawEvent;
    type Error = Error;

    fn allocate(&self, bytes: usize) -> Result<Option<Address>> {
        let mut pointer = std::ptr::null_mut();
        let policy = ACL_MEM_MALLOC_HUGE_FIRST;
        // SAFETY: there is a place for the answer. The size is not zero, since no size class is.
        match unsafe { call!(self.cann, runtime.aclrtMalloc(&mut pointer, bytes, policy)) } {
            Ok(()) => Ok(Some(Address::new(pointer))),
            Err(Error::Call { code, .. }) if code.is_out_of_memory() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn release(&self, address: Address) {
        // SAFETY: the address came from `allocate`, is released once, and the pool waited for its last use.
        if let Err(error) = unsafe { call!(self.cann, runtime.aclrtFree(address.pointer())) } {
            tracing::error!(%error, "device memory could not be freed");
        }
    }

    fn mark(&self, stream: &Handle) -> Result<RawEvent> {
        let event = RawEvent::new(&self.cann, false)?;
        event.record(stream.0)?;
        Ok(event)
    }

    fn passed(&self, mark: &RawEvent) -> Result<bool> {
        mark.is_complete()
    }

    fn synchronise(&self) -> Result<()> {
        self.cann.count_wait();
        // SAFETY: the context is current.
        unsafe { call!(self.cann, runtime.aclrtSynchronizeDevice()) }
    }

    fn wait(&self, stream: &Handle) -> Result<()> {
        self.cann.count_wait();
        // SAFETY: the context is current, and the stream of a lane is not destroyed yet.
        unsafe { call!(self.cann, runtime.aclrtSynchronizeStream(stream.0)) }
    }
}

impl std::fmt::Debug for Pool<Allocations> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.statistics(), out)
    }
}
