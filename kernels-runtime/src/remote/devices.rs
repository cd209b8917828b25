//! What is known of the remote devices of this process.

use super::Address;
use super::hello::Declaration;
use crate::device::connected::{self, index};
use crate::device::{DeviceKind, KernelOp, Place, Served};
use burn::backend::{DeviceId, DeviceOps, DispatchDevice};
use burn::tensor::Device;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// A device of another process or machine, as its server declared it.
#[derive(Clone, Debug)]
pub struct RemoteDevice {
    /// Where its server is.
    pub address: Address,
    /// Its place in the server's list.
    pub index: usize,
    /// What it is, such as `cpu` or `npu`.
    pub kind: DeviceKind,
    /// See [`DeviceKind::capability`].
    pub capability: u16,
    /// Its name, such as the model of a processor.
    pub name: String,
    /// The operations that run as kernels on it.
    pub kernels: Vec<KernelOp>,
    /// What else implementations have to know of it, by name.
    pub facts: Vec<(String, String)>,
    /// Whether server and client are on one machine and see the same files.
    pub same_host: bool,
    /// The facts as CANN's limits ask them, on every call.
    #[cfg(feature = "npu")]
    platform: burn_cann::Platform,
    /// The session, as the server knows it.
    pub(super) session: u64,
    pub(super) token: Vec<u8>,
}

impl fmt::Display for RemoteDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind, index, name, ..
        } = self;
        write!(f, "{kind}:{index} {name} at {}", self.address)
    }
}

impl RemoteDevice {
    pub(super) fn new(
        address: Address,
        index: usize,
        declared: Declaration,
        session: u64,
        token: Vec<u8>,
    ) -> Self {
        Self {
            address,
            index,
            kind: declared.kind,
            capability: declared.capability,
            kernels: declared.kernels().collect(),
            same_host: declared.is_same_host(),
            name: declared.name,
            #[cfg(feature = "npu")]
            platform: super::platform::platform(&declared.facts),
            facts: declared.facts,
            session,
            token,
        }
    }
}

/// By the index of Burn's device ids, which count up from 0.
static TABLE: RwLock<Vec<Option<Arc<RemoteDevice>>>> = RwLock::new(Vec::new());

pub(super) fn enter(device: &Device, remote: RemoteDevice) {
    let Some(index) = index(device.as_dispatch().id()) else {
        unreachable!("a device that was connected is a remote one")
    };
    connected::enter(
        index,
        Place {
            kind: remote.kind,
            capability: remote.capability,
            served: Served::with(remote.kernels.iter().copied()),
        },
    );
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    if table.len() <= index {
        table.resize(index + 1, None);
    }
    table[index] = Some(Arc::new(remote));
}

fn look_up<T>(id: DeviceId, read: impl FnOnce(&Arc<RemoteDevice>) -> T) -> Option<T> {
    let index = index(id)?;
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    table.get(index)?.as_ref().map(read)
}

/// What is known of a device that [`connect`](super::connect) gave; `None` for any other.
/// Autodiff does not change it.
pub fn describe(device: &Device) -> Option<RemoteDevice> {
    entry(device).map(|remote| (*remote).clone())
}

pub(super) fn entry(device: &Device) -> Option<Arc<RemoteDevice>> {
    look_up(device.as_dispatch().id(), Arc::clone)
}

/// What `read` makes of the platform that a tensor's device declared. The table's lock is not held meanwhile.
#[cfg(feature = "npu")]
pub(crate) fn with_platform<T>(
    tensor: &burn::backend::DispatchTensor,
    read: impl FnOnce(&burn_cann::Platform) -> T,
) -> Option<T> {
    use burn::backend::TensorMetadata;
    let remote = look_up(tensor.kind.device().id(), Arc::clone)?;
    Some(read(&remote.platform))
}

/// Burn's own handle of a remote device.
pub(super) fn handle(device: &Device) -> Option<burn::backend::RemoteDevice> {
    match device.clone().inner().as_dispatch() {
        DispatchDevice::Remote(remote) => Some(remote.clone()),
        _ => None,
    }
}
