//! The NPUs of this machine, behind a server in this process.
//!
//! It listens on a port of loopback, so other users of the machine can see that and connect to it. Without the
//! token, which is random and stays in this process, they can send 64 KiB each and are closed after 10 s;
//! 64 may wait at once, and whoever has most of them makes room. [`remote`](crate::remote) says what else.

use crate::device::DeviceKind;
use crate::remote::{
    self, Address, ConnectError, Host, InvalidAddress, ServeError, ServeOptions, Server,
};
use burn::tensor::Device;
use burn_cann::backend::{CannBackend, CannDevice};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Why there is no NPU.
#[derive(thiserror::Error)]
pub enum DeviceError {
    /// No toolkit, no driver, a device that is not usable, or a setting that means nothing.
    // Its text says all that its causes say, so it is not a cause itself.
    #[error("{0}{more}", more = advice(.0))]
    Cann(burn_cann::backend::Error),
    /// CANN is there and counts no device.
    #[error("CANN counts no NPU on this machine; see `npu-smi info` and ASCEND_RT_VISIBLE_DEVICES")]
    NoDevices,
    /// An NPU that CANN counts and that does not work.
    #[error("NPU {index} fails: {reason}; ASCEND_RT_VISIBLE_DEVICES can leave it out")]
    Unusable {
        /// Its number.
        index: usize,
        /// What is known of it.
        reason: String,
    },
    /// The server in this process did not start.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// It could not be reached, or another machine's could not.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

impl From<burn_cann::backend::Error> for DeviceError {
    fn from(error: burn_cann::backend::Error) -> Self {
        Self::Cann(error)
    }
}

/// Where to look further, unless the error says it all.
fn advice(error: &burn_cann::backend::Error) -> &'static str {
    use burn_cann::backend::Error;
    match error {
        Error::NoDevice { .. } | Error::Setting { .. } => "",
        _ => "; `kernels doctor` looks at everything that an NPU needs",
    }
}

/// The server of this process and the devices that it gave, by their numbers.
struct Here {
    // Dropped after the devices, which say nothing when they go.
    given: BTreeMap<usize, Device>,
    server: Server,
    /// How many devices there are.
    count: usize,
}

static HERE: Mutex<Option<Here>> = Mutex::new(None);

/// NPU `index` of this machine, numbered from 0. Always the same device until [`close`], also after an
/// operation failed and ended its session. The others are not opened.
///
/// # Errors
/// See [`DeviceError`].
pub fn device(index: usize) -> Result<Device, DeviceError> {
    let mut here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
    give(started(&mut here)?, index)
}

/// The NPUs of this machine. All are opened.
///
/// # Errors
/// See [`DeviceError`].
pub fn devices() -> Result<Vec<Device>, DeviceError> {
    let mut here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
    let here = started(&mut here)?;
    (0..here.count).map(|index| give(here, index)).collect()
}

/// The server of this process, which is started if there is none.
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
    // The server is this process: it may read the weights that this process may read.
    let options = ServeOptions::websocket(([127, 0, 0, 1], 0))
        .weights("/")
        .without_memory_limit();
    let server = Server::start_unopened::<CannBackend>(devices, options, CannBackend::kernels)?;
    Ok(Here {
        given: BTreeMap::new(),
        server,
        count,
    })
}

fn give(here: &mut Here, index: usize) -> Result<Device, DeviceError> {
    if let Some(device) = here.given.get(&index) {
        return Ok(device.clone());
    }
    // What is wrong with it is said here and not by the first operation.
    CannDevice::open(index).map_err(|error| opened(index, error))?;
    let (address, token) = (here.server.address(), here.server.token());
    let device = remote::connect_to(address, token, index).map_err(of_npu)?;
    here.given.insert(index, device.clone());
    Ok(device)
}

/// Here the device is no other program's.
fn of_npu(error: ConnectError) -> DeviceError {
    match error {
        ConnectError::Device { index, reason, .. } => DeviceError::Unusable { index, reason },
        other => other.into(),
    }
}

/// Serves the NPUs of this machine to other programs, which [`connect`] to them. All are opened.
///
/// Each session has a stream of its own on its device: where the work of one client fails on the device itself, on an
/// index out of range say, that client loses what it has there and is told so; the others lose nothing.
///
/// # Errors
/// See [`DeviceError`].
pub fn serve(options: ServeOptions) -> Result<Server, DeviceError> {
    let devices = CannDevice::all()?;
    if devices.is_empty() {
        return Err(DeviceError::NoDevices);
    }
    for device in &devices {
        // What is wrong with it is said here and not by the first operation.
        CannDevice::open(device.index()).map_err(|error| opened(device.index(), error))?;
    }
    Ok(Server::start::<CannBackend>(devices, options)?)
}

fn opened(index: usize, error: burn_cann::backend::Error) -> DeviceError {
    use burn_cann::backend::Error;
    match error {
        // These are not the device's.
        Error::Setting { .. } | Error::NoDevice { .. } => error.into(),
        of_device => DeviceError::Unusable {
            index,
            reason: of_device.to_string(),
        },
    }
}

/// The NPUs that a server elsewhere serves; its other devices are left out.
///
/// # Errors
/// See [`DeviceError`].
pub fn connect(
    address: impl TryInto<Address, Error: Into<InvalidAddress>>,
    token: &str,
) -> Result<Vec<Device>, DeviceError> {
    let mut devices = remote::connect(address, token)?;
    devices.retain(|device| DeviceKind::of(device) == DeviceKind::Npu);
    Ok(devices)
}

/// Stops the server of this process. Tensors on its devices are lost; a later [`device`] starts
/// anew, which is also the way on after an operation failed. An NPU whose driver lost it stays lost for
/// the process: [`device`] says so then.
pub fn close() {
    let mut here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
    drop(here.take());
}
