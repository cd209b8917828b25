//! The NPUs of this machine, behind a server in this process.
//!
//! The server listens on a loopback port, so other users of the machine can see the port and connect to it. The token
//! is random and stays in this process. Without it, a connection can send at most 64 KiB and is closed after 10 s. At
//! most 64 such connections may wait at once; beyond that, the client with the most of them loses one.
//! [`remote`](crate::remote) has more about security.

use super::deterministic;
use crate::remote::{
    self, Address, ConnectError, Host, InvalidAddress, Kernels, Sending, ServeError, ServeOptions,
    Server,
};
use burn::tensor::Device;
use burn_cann::backend::{CannBackend, CannDevice};
use kernels_runtime::__serving::{connect_to, unique};
use kernels_runtime::dispatch::DeviceKind;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

/// The reason why an NPU can't be used.
#[derive(thiserror::Error)]
pub enum DeviceError {
    /// A missing toolkit or driver, an unusable device, or an invalid setting.
    // Its text includes its causes, so it is not a source itself.
    #[error("{0}{more}", more = advice(.0))]
    Cann(burn_cann::backend::Error),
    /// CANN is installed but finds no device.
    #[error("CANN counts no NPU on this machine; see `npu-smi info` and ASCEND_RT_VISIBLE_DEVICES")]
    NoDevices,
    /// An NPU that CANN counts but that does not work.
    #[error("NPU {index} fails: {reason}; ASCEND_RT_VISIBLE_DEVICES can leave it out")]
    Unusable {
        /// The number of the NPU.
        index: usize,
        /// The known facts about the problem.
        reason: String,
    },
    /// The server in this process did not start.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The server of this process, or of another machine, could not be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

impl From<burn_cann::backend::Error> for DeviceError {
    fn from(error: burn_cann::backend::Error) -> Self {
        Self::Cann(error)
    }
}

/// Returns a hint at further diagnosis, unless the error is complete.
fn advice(error: &burn_cann::backend::Error) -> &'static str {
    use burn_cann::backend::Error;
    match error {
        Error::NoDevice { .. } | Error::Setting { .. } => "",
        _ => "; `kernels doctor` looks at everything that an NPU needs",
    }
}

/// The server of this process and the devices that it has provided, by their numbers.
struct Here {
    // The server is dropped after the devices, which send nothing when they are dropped.
    given: BTreeMap<usize, Device>,
    sending: Sending,
    server: Server,
    /// The number of devices.
    count: usize,
    /// The party in which they reduce tensors together.
    party: u64,
}

static HERE: Mutex<Option<Here>> = Mutex::new(None);

/// Returns NPU `index` of this machine, numbered from 0. It is the same device until [`close`], also after an operation
/// failed and ended its session. The other NPUs are not opened.
///
/// # Errors
/// Returns an error as described by [`DeviceError`].
pub fn device(index: usize) -> Result<Device, DeviceError> {
    let mut here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
    give(started(&mut here)?, index)
}

/// Returns the NPUs of this machine and opens all of them.
///
/// # Errors
/// Returns an error as described by [`DeviceError`].
pub fn devices() -> Result<Vec<Device>, DeviceError> {
    let mut here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
    let here = started(&mut here)?;
    (0..here.count).map(|index| give(here, index)).collect()
}

/// Returns the server of this process, and starts it if necessary.
fn started(here: &mut Option<Here>) -> Result<&mut Here, DeviceError> {
    if here.is_none() {
        *here = Some(start()?);
    }
    Ok(here.as_mut().expect("it was started"))
}

fn start() -> Result<Here, DeviceError> {
    let devices = CannDevice::all()?;
    if devices.is_empty() {
        return Err(DeviceError::NoDevices);
    }
    let count = devices.len();
    // The server runs in this process, so it may read every file of weights that this process may read.
    let options = ServeOptions::websocket(([127, 0, 0, 1], 0))
        .weights("/")
        .without_memory_limit();
    let server = CannBackend::start(devices, options, Kernels::new().all_of_npus())?;
    Ok(Here {
        given: BTreeMap::new(),
        sending: Sending::default(),
        server,
        count,
        party: unique(),
    })
}

fn give(here: &mut Here, index: usize) -> Result<Device, DeviceError> {
    if let Some(device) = here.given.get(&index) {
        return Ok(device.clone());
    }
    // The device is opened now, so that a problem is reported here and not by the first operation.
    let device = CannDevice::open(index).map_err(|error| opened(index, error))?;
    deterministic::follow_policy(device)?;
    let (address, token) = (here.server.address(), here.server.token());
    let device = connect_to(address, token, (index, here.party)).map_err(of_npu)?;
    send_if_several(here, &device).map_err(ServeError::Start)?;
    here.given.insert(index, device.clone());
    Ok(device)
}

/// Starts to send what Burn keeps back for a device that is not the only one.
fn send_if_several(here: &Here, device: &Device) -> io::Result<()> {
    let mut given = here.given.values();
    match (given.next(), given.next()) {
        (None, _) => Ok(()),
        // The first was alone until now.
        (Some(first), None) => here
            .sending
            .add(first)
            .and_then(|()| here.sending.add(device)),
        (Some(_), Some(_)) => here.sending.add(device),
    }
}

/// Converts an error. In this case, no other program has the device.
fn of_npu(error: ConnectError) -> DeviceError {
    match error {
        ConnectError::Device { index, reason, .. } => DeviceError::Unusable { index, reason },
        other => other.into(),
    }
}

/// Serves the NPUs of this machine to other programs, which [`connect`] to them. All NPUs are opened.
///
/// Each session has its own stream on its device. If the work of one client fails on the device itself, for example
/// because an index is out of range, that client receives an error and loses its data on the device. Other clients lose
/// nothing.
///
/// # Errors
/// Returns an error as described by [`DeviceError`].
pub fn serve(options: ServeOptions) -> Result<Server, DeviceError> {
    let devices = CannDevice::all()?;
    if devices.is_empty() {
        return Err(DeviceError::NoDevices);
    }
    for device in &devices {
        // The device is opened now, so that a problem is reported here and not by the first operation.
        CannDevice::open(device.index()).map_err(|error| opened(device.index(), error))?;
        deterministic::follow_policy(*device)?;
    }
    Ok(Server::start::<CannBackend>(devices, options)?)
}

fn opened(index: usize, error: burn_cann::backend::Error) -> DeviceError {
    use burn_cann::backend::Error;
    match error {
        // These errors are not about the device.
        Error::Setting { .. } | Error::NoDevice { .. } => error.into(),
        of_device => DeviceError::Unusable {
            index,
            reason: of_device.to_string(),
        },
    }
}

/// Returns the NPUs that a server on another machine serves. Its other devices are left out.
///
/// # Errors
/// Returns an error as described by [`DeviceError`].
pub fn connect(
    address: impl TryInto<Address, Error: Into<InvalidAddress>>,
    token: &str,
) -> Result<Vec<Device>, DeviceError> {
    let mut devices = remote::connect(address, token)?;
    devices.retain(|device| DeviceKind::of(device) == DeviceKind::Npu);
    Ok(devices)
}

/// Stops the server of this process. Tensors on its devices are lost. A later call of [`device`] starts a new server,
/// which is also the way to recover after an operation failed. An NPU that its driver lost stays lost for the process:
/// [`device`] then returns an error.
pub fn close() {
    let mut here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
    drop(here.take());
}
