//! A device, its context and what belongs to it.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock};

use cann_sys::runtime::{
    ACL_DEVICE_INFO_VECTOR_CORE_NUM, ACL_HBM_MEM, ACL_MEM_MALLOC_HUGE_FIRST, ACL_OPT_DETERMINISTIC,
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
/// CANN keeps the current device per thread. Here every call sets the device's context first, so that
/// any thread may use anything of any device.
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
    /// Held while work is handed to a stream, so that the order in which blocks change streams is the
    /// order of the work.
    order: Mutex<()>,
    /// A failure of a stream that nobody could wait for any more: for the next who waits on this device.
    unreported: Mutex<Option<Error>>,
    platform: OnceLock<Platform>,
    _in_use: InUse,
}

/// A pointer of CANN's that means nothing to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) *mut c_void);

// SAFETY: the host never follows it, and CANN takes its contexts, streams and events from any thread
// whose context is theirs, which every call here sees to.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Device {
    /// Opens device `id`, or shares it with those who have it already.
    ///
    /// # Errors
    ///
    /// There is no such device, or it is not usable.
    pub fn open(cann: &Cann, id: u32) -> Result<Self> {
        let id = i32::try_from(id).unwrap_or(i32::MAX);
        let inner = cann.shared_device(id, || DeviceInner::open(cann, id))?;
        Ok(Self(inner))
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.0.id.unsigned_abs()
    }

    /// The CANN that it is of.
    pub fn cann(&self) -> &Cann {
        &self.0.cann
    }

    /// A new stream.
    ///
    /// # Errors
    ///
    /// The device has no more streams.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(&self.0)
    }

    /// What operators' checks ask about the device.
    pub fn platform(&self) -> &Platform {
        self.0.platform.get_or_init(|| Platform {
            soc: self.0.cann.soc(),
            version: self.0.cann.version().clone(),
            vector_cores: self.0.vector_cores(),
        })
    }

    /// Memory that is free and all memory, in bytes, as the device counts them.
    ///
    /// # Errors
    ///
    /// The device could not be asked.
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.0.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: two places for the answer; the context is current.
        unsafe {
            call!(
                self.0.cann,
                runtime.aclrtGetMemInfo(ACL_HBM_MEM, &mut free, &mut total)
            )
        }?;
        Ok((free, total))
    }

    /// The allocator's figures.
    pub fn statistics(&self) -> Statistics {
        lock(&self.0.pool).statistics()
    }

    /// Lets the peak begin anew.
    pub fn reset_peak(&self) {
        lock(&self.0.pool).reset_peak();
    }

    /// Waits for all streams and gives the allocator's cache back to the device, and pinned memory that is
    /// kept to the host.
    ///
    /// # Errors
    ///
    /// A stream's work failed.
    pub fn release_cache(&self) -> Result<()> {
        self.0.enter()?;
        self.0.release_pinned();
        lock(&self.0.pool).flush(&Allocations::of(&self.0))
    }

    /// How many bytes of pinned host memory are kept for the next buffers; 64 MiB unless set.
    pub fn keep_pinned(&self, limit: usize) {
        let surplus = lock(&self.0.pinned).set_limit(limit);
        self.0.free_pinned(surplus);
    }

    /// The figures of pinned host memory.
    pub fn pinned_statistics(&self) -> PinnedStatistics {
        lock(&self.0.pinned).statistics()
    }

    /// Waits for all streams.
    ///
    /// # Errors
    ///
    /// A stream's work failed.
    pub fn synchronise(&self) -> Result<()> {
        self.0.enter()?;
        self.0.cann.count_wait();
        // SAFETY: the context is current.
        unsafe { call!(self.0.cann, runtime.aclrtSynchronizeDevice()) }?;
        self.0.take_failure()
    }

    /// Asks for the same bits from run to run. RmsNorm's gradient is otherwise free to add in any order.
    ///
    /// # Errors
    ///
    /// The toolkit can't.
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
        // Executors were prepared under the old setting.
        self.clear_executors();
        Ok(())
    }

    /// How many prepared executors are kept for calls of the same operator, shapes, strides and dtypes;
    /// 256 unless set. None are kept at 0. Once so many are kept, only calls that came before are, in place of
    /// those used longest ago.
    pub fn keep_executors(&self, limit: usize) {
        let old = lock(&self.0.executors).set_limit(limit);
        drop(old);
    }

    /// Executors that are kept, calls that found theirs and calls that did not.
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
        // SAFETY: makes the device's default context current on this thread; undone when dropped.
        unsafe { call!(cann, runtime.aclrtSetDevice(id)) }?;
        let mut context: aclrtContext = std::ptr::null_mut();
        // SAFETY: a place for the answer.
        let found = unsafe { call!(cann, runtime.aclrtGetCurrentContext(&mut context)) };
        if let Err(error) = found {
            // SAFETY: undoes the call above; nothing of the device is in use.
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

    /// Gives the pinned memory that is kept back to the host; whether there was any.
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
            // SAFETY: the cache has what came from `aclrtMallocHost` and nobody uses, once.
            unsafe { start.free(&self.cann) };
        }
    }

    /// Makes the device's context the current one of this thread. Not remembered per thread: others in
    /// the process may change it, and setting it costs next to nothing.
    pub(crate) fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as the device is set, which is as long as `self`.
        unsafe { call!(self.cann, runtime.aclrtSetCurrentContext(self.context.0)) }
    }

    /// Keeps the failure of a stream that is gone.
    pub(crate) fn leave_failure(&self, error: Error) {
        lock(&self.unreported).get_or_insert(error);
    }

    /// The failure of a stream that is gone, once.
    pub(crate) fn take_failure(&self) -> Result<()> {
        lock(&self.unreported).take().map_or(Ok(()), Err)
    }

    fn vector_cores(&self) -> Option<u32> {
        let mut cores = 0;
        let (id, what) = (self.id.unsigned_abs(), ACL_DEVICE_INFO_VECTOR_CORE_NUM);
        // SAFETY: a place for the answer.
        unsafe {
            call!(
                self.cann,
                runtime.aclGetDeviceCapability(id, what, &mut cores)
            )
        }
        .ok()?;
        u32::try_from(cores).ok().filter(|&cores| cores > 0)
    }

    /// Device memory for use on `stream`.
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

/// The allocator's way to the device, whose context must be current.
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
        // SAFETY: a place for the answer; the size is not zero, since no class is.
        match unsafe { call!(self.cann, runtime.aclrtMalloc(&mut pointer, bytes, policy)) } {
            Ok(()) => Ok(Some(Address::new(pointer))),
            Err(Error::Call { code, .. }) if code.is_out_of_memory() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn release(&self, address: Address) {
        // SAFETY: it came from `allocate`, is released once, and the pool waited for its last use.
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
