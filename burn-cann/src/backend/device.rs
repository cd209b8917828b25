//! Devices of this process, opened once, with a stream each.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;

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

    /// The stream that all operations on it run on. A new one takes its place once it was told that work on
    /// it failed: a stream tells its first failure for ever, and other users of the device go on.
    ///
    /// # Errors
    ///
    /// As [`CannDevice::open`].
    pub fn stream(&self) -> Result<Stream> {
        let (stream, failed) = lock(&OPENED).stream(self.index)?;
        // Outside the lock: the last clone of a stream waits for its work.
        drop(failed);
        Ok(stream)
    }

    pub(super) fn place(self) -> Result<Place> {
        let stream = self.stream()?;
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
    streams: Option<HashMap<u16, Stream>>,
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

    /// The stream of a device, and the one whose place it takes.
    fn stream(&mut self, index: u16) -> Result<(Stream, Option<Stream>)> {
        let known = self
            .streams
            .as_ref()
            .and_then(|streams| streams.get(&index));
        if let Some(stream) = known.filter(|stream| !stream.is_known_to_have_failed()) {
            return Ok((stream.clone(), None));
        }
        fallback::fallback()?;
        let cann = self.cann()?;
        let count = cann.device_count()?;
        if u32::from(index) >= count {
            let index = index.into();
            return Err(Error::NoDevice { index, count });
        }
        let stream = Device::open(&cann, index.into())?.stream()?;
        let streams = self.streams.get_or_insert_default();
        let failed = streams.insert(index, stream.clone());
        Ok((stream, failed))
    }
}
