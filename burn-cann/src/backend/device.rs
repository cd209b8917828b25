//! Devices of this process, opened once, with a stream each, and others for threads that want their own.

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
/// It is opened when it is first used, or by [`CannDevice::open`], which returns errors in place of the
/// panics that Burn's operations are left with.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CannDevice {
    index: u16,
}

impl CannDevice {
    /// NPU `index`, which need not be there.
    pub const fn new(index: u16) -> Self {
        Self { index }
    }

    /// NPU `index`, opened.
    ///
    /// # Errors
    ///
    /// No CANN, no such device, it is not usable, or `BURN_CANN_FALLBACK` is set to what means nothing.
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

    /// The NPUs of this machine.
    ///
    /// # Errors
    ///
    /// No CANN, or the driver could not be asked.
    pub fn all() -> Result<Vec<Self>> {
        let count = lock(&OPENED).cann()?.device_count()?;
        Ok((0..u16::try_from(count).unwrap_or(u16::MAX))
            .map(Self::new)
            .collect())
    }

    /// Its number.
    pub fn index(&self) -> usize {
        self.index.into()
    }

    /// The stream that all operations on it run on, of this thread if it has [its own](own_streams). Another one after a wait has told that work on it
    /// failed: tensors of before are lost then, those that are made from then on are not.
    ///
    /// # Errors
    ///
    /// As [`CannDevice::open`].
    pub fn stream(&self) -> Result<Stream> {
        let (stream, failed) = lock(&OPENED).stream(self.index)?;
        // Outside the lock, as in `close`.
        drop(failed);
        Ok(stream)
    }

    /// Waits for the work so far, also on a stream of which it is known that its work failed.
    pub(super) fn synchronise(self) -> Result<()> {
        let current = lock(&OPENED).current(self.index);
        let stream = current.map_or_else(|| self.stream(), Ok)?;
        Ok(stream.synchronise()?)
    }

    /// Where a tensor is that is made anew: on a stream whose work has not failed.
    pub(super) fn place(self) -> Result<Place> {
        let mut opened = lock(&OPENED);
        if let Some(stream) = opened.current(self.index) {
            // Who comes after a failure need not have caused it: it may be another client's.
            stream.look_for_failure();
        }
        let (stream, failed) = opened.stream(self.index)?;
        drop(opened);
        // Outside the lock, as in `close`.
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

/// A device with its stream: where a tensor is.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) device: CannDevice,
    pub(super) stream: Stream,
}

/// What the process has opened.
struct Opened {
    cann: Option<Cann>,
    streams: Option<HashMap<Key, Stream>>,
}

/// A device, and whose stream it is.
type Key = (u16, u64);

/// The owner of the streams of a thread without its own.
const ALL: u64 = 0;

thread_local! {
    /// Whose streams this thread uses.
    static OWNER: Cell<u64> = const { Cell::new(ALL) };
}

/// Gives this thread streams of its own from now on, one on each device that it uses, until
/// [`give_streams_back`] or its end, where that has to be called. Work that fails on them is nobody else's
/// matter, unless somebody uses a tensor of it.
///
/// A tensor stays on the stream that it was made on, whichever thread uses it;
/// [`to_device`](burn_backend::ops::FloatTensorOps::float_to_device) brings it to those of the thread.
pub fn own_streams() {
    static NEXT: AtomicU64 = AtomicU64::new(ALL + 1);
    give_streams_back();
    OWNER.set(NEXT.fetch_add(1, Ordering::Relaxed));
}

/// This thread uses the same streams as others again. Its own end with the last tensor on them.
pub fn give_streams_back() {
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
    // Outside the lock, as in `close`.
    drop(old);
}

static OPENED: Mutex<Opened> = Mutex::new(Opened {
    cann: None,
    streams: None,
});

/// Lets the backend use `cann` in place of the one that [`Cann::load`] finds. Devices that are opened
/// already stay with theirs until [`close`].
pub fn install(cann: Cann) {
    lock(&OPENED).cann = Some(cann);
}

/// Lets go of all devices and of the CANN that was installed: each device closes with its last tensor. A
/// later use opens it anew.
///
/// Needed before [`Cann::finalise`]; a process that just exits needs it not.
pub fn close() {
    let mut opened = lock(&OPENED);
    let old = (opened.cann.take(), opened.streams.take());
    drop(opened);
    // Outside the lock: the last clone of a stream waits for its work.
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

    fn current(&self, index: u16) -> Option<Stream> {
        self.streams.as_ref()?.get(&(index, OWNER.get())).cloned()
    }

    /// The stream of a device, and the one that it takes the place of.
    fn stream(&mut self, index: u16) -> Result<(Stream, Option<Stream>)> {
        if let Some(stream) = self.current(index)
            && stream.failure().is_none()
        {
            return Ok((stream, None));
        }
        fallback::fallback()?;
        let cann = self.cann()?;
        let count = cann.device_count()?;
        if u32::from(index) >= count {
            let index = index.into();
            return Err(Error::NoDevice { index, count });
        }
        let stream = Device::open(&cann, index.into())?.stream()?;
        let owner = OWNER.get();
        if owner != ALL {
            stream.keep_failures();
        }
        let streams = self.streams.get_or_insert_default();
        let failed = streams.insert((index, owner), stream.clone());
        Ok((stream, failed))
    }
}
