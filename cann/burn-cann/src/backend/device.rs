//! Devices of this process, each opened once. A device has one stream for the process, and others for threads that
//! want their own.
//!
//! # Failed work
//!
//! A tensor holds the stream that it was made on. The backend uses one stream per device and thread until a wait has
//! shown that work on it failed; then it makes a new stream. So an index out of range costs a client of a server its
//! own tensors on that device, and the other clients nothing, because each session has streams of its own
//! ([`own_streams`]).

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use burn_backend::{BoolStore, DType, DeviceId, DeviceOps, DeviceSettings};
use burn_std::device::Device as BurnDevice;
use burn_std::{QuantConfig, QuantScheme, QuantStore};

use super::error::{Error, Result};
use super::fallback;
use crate::cann::lock;
use crate::{Cann, Device, Stream};

/// An NPU of this machine, by its number.
///
/// The device is opened at its first use or by [`CannDevice::open`]. [`CannDevice::open`] returns errors, while Burn's
/// operations can only panic.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CannDevice {
    index: u16,
}

impl CannDevice {
    /// Returns NPU `index` without opening it. It need not exist.
    pub const fn new(index: u16) -> Self {
        Self { index }
    }

    /// Opens NPU `index`.
    ///
    /// # Errors
    ///
    /// Returns an error without CANN, if the device does not exist or is not usable, or if the value of
    /// `BURN_CANN_FALLBACK` is not known.
    pub fn open(index: usize) -> Result<Self> {
        let this = match u16::try_from(index) {
            Ok(index) => Self { index },
            Err(_) => {
                let count = lock(&OPENED).cann()?.device_count()?;
                return Err(Error::NoDevice { index, count });
            }
        };
        this.stream()?;
        Ok(this)
    }

    /// Returns the NPUs of this machine.
    ///
    /// # Errors
    ///
    /// Returns an error without CANN, or if the driver does not answer.
    pub fn all() -> Result<Vec<Self>> {
        let count = lock(&OPENED).cann()?.device_count()?;
        Ok((0..u16::try_from(count).unwrap_or(u16::MAX))
            .map(Self::new)
            .collect())
    }

    /// Returns the device's number.
    pub fn index(&self) -> usize {
        self.index.into()
    }

    /// Returns the stream that all operations on this device run on. A thread with [its own streams](own_streams) gets
    /// its own.
    ///
    /// Once a wait has shown that work on the stream failed, this returns a new stream. Earlier tensors are lost then;
    /// new ones are sound.
    ///
    /// # Errors
    ///
    /// Returns an error as [`CannDevice::open`] does.
    pub fn stream(&self) -> Result<Stream> {
        let (stream, failed) = lock(&OPENED).stream(self.index)?;
        // This is outside the lock, as in `close`.
        drop(failed);
        Ok(stream)
    }

    /// Waits for the work so far, even on a stream whose work is known to have failed.
    pub(super) fn synchronise(self) -> Result<()> {
        let current = lock(&OPENED).current(self.index);
        let stream = current.map_or_else(|| self.stream(), Ok)?;
        Ok(stream.synchronise()?)
    }

    /// Returns the place for a new tensor: a stream whose work has not failed.
    pub(super) fn place(self) -> Result<Place> {
        let mut opened = lock(&OPENED);
        if let Some(stream) = opened.current(self.index) {
            // The caller need not have caused the failure: it may be another client's.
            stream.look_for_failure();
        }
        let (stream, failed) = opened.stream(self.index)?;
        drop(opened);
        // This is outside the lock, as in `close`.
        drop(failed);
        Ok(Place {
            device: self,
            stream,
        })
    }
}

impl fmt::Debug for CannDevice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Npu({})", self.index)
    }
}

impl fmt::Display for CannDevice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "NPU {}", self.index)
    }
}

impl BurnDevice for CannDevice {
    fn from_id(id: DeviceId) -> Self {
        Self::new(id.index_id)
    }

    fn to_id(&self) -> DeviceId {
        DeviceId::new(0, self.index)
    }
}

impl DeviceOps for CannDevice {
    fn defaults(&self) -> DeviceSettings {
        let scheme = QuantScheme::default().with_store(QuantStore::Native);
        DeviceSettings::new(
            DType::F32,
            DType::I32,
            DType::Bool(BoolStore::Native),
            QuantConfig::new(scheme, Default::default()),
        )
    }
}

/// The place of a tensor: a device and its stream.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) device: CannDevice,
    pub(super) stream: Stream,
}

/// The devices and streams that the process has opened.
struct Opened {
    cann: Option<Cann>,
    streams: Option<HashMap<Key, Stream>>,
}

/// A device and the owner of the stream.
type Key = (u16, u64);

/// The owner of the streams that threads without streams of their own share.
const ALL: u64 = 0;

thread_local! {
    /// The owner of the streams that this thread uses.
    static OWNER: Cell<u64> = const { Cell::new(ALL) };
}

/// Gives this thread streams of its own, one on each device that it uses. A failure of work on them concerns nobody
/// else, except users of its tensors.
///
/// The thread must call [`give_streams_back`] before it ends. A tensor stays on the stream that it was made on,
/// whichever thread uses it; [`to_device`](burn_backend::ops::FloatTensorOps::float_to_device) brings it to the
/// thread's own streams.
pub fn own_streams() {
    static NEXT: AtomicU64 = AtomicU64::new(ALL + 1);
    give_streams_back();
    OWNER.set(NEXT.fetch_add(1, Ordering::Relaxed));
}

/// Makes this thread use the shared streams again. Its own streams end with the last tensor on them.
pub fn give_streams_back() {
    super::collective::leave();
    let owner = OWNER.replace(ALL);
    if owner == ALL {
        return;
    }
    let mut opened = lock(&OPENED);
    let streams = opened.streams.as_mut();
    let old: Vec<Stream> = streams.map_or_else(Vec::new, |streams| {
        let own = streams.extract_if(|(_, of), _| *of == owner);
        own.map(|(_, stream)| stream).collect()
    });
    drop(opened);
    // This is outside the lock, as in `close`.
    drop(old);
}

/// Returns `true` if this thread has streams of its own.
pub(super) fn has_own_streams() -> bool {
    OWNER.get() != ALL
}

/// Opens NPU `index` for a use beside its streams.
pub(super) fn open(index: u16) -> Result<Device> {
    lock(&OPENED).device(index)
}

static OPENED: Mutex<Opened> = Mutex::new(Opened {
    cann: None,
    streams: None,
});

/// Makes the backend use `cann` in place of the one that [`Cann::load`] finds. Devices that are open keep theirs until
/// [`close`].
pub fn install(cann: Cann) {
    lock(&OPENED).cann = Some(cann);
}

/// Drops all devices and the installed CANN. Each device closes with its last tensor, and a later use opens it again.
///
/// [`Cann::finalise`] needs this. A process that just exits does not.
pub fn close() {
    super::collective::close();
    let mut opened = lock(&OPENED);
    let old = (opened.cann.take(), opened.streams.take());
    drop(opened);
    // This is outside the lock, because the last clone of a stream waits for its work.
    drop(old);
}

impl Opened {
    fn cann(&mut self) -> Result<Cann> {
        match &self.cann {
            Some(cann) => Ok(cann.clone()),
            None => {
                let cann = Cann::load()?;
                self.cann = Some(cann.clone());
                Ok(cann)
            }
        }
    }

    fn device(&mut self, index: u16) -> Result<Device> {
        let cann = self.cann()?;
        let count = cann.device_count()?;
        if u32::from(index) >= count {
            let index = index.into();
            return Err(Error::NoDevice { index, count });
        }
        Ok(Device::open(&cann, index.into())?)
    }

    fn current(&self, index: u16) -> Option<Stream> {
        self.streams.as_ref()?.get(&(index, OWNER.get())).cloned()
    }

    /// Returns the stream of a device, and the failed stream that it replaces.
    fn stream(&mut self, index: u16) -> Result<(Stream, Option<Stream>)> {
        if let Some(stream) = self.current(index)
            && stream.failure().is_none()
        {
            return Ok((stream, None));
        }
        fallback::fallback()?;
        let stream = self.device(index)?.stream()?;
        let owner = OWNER.get();
        if owner != ALL {
            stream.keep_failures();
        }
        let streams = self.streams.get_or_insert_default();
        let failed = streams.insert((index, owner), stream.clone());
        Ok((stream, failed))
    }
}
