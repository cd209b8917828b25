//! The known facts about the remote devices of this process.

use super::Address;
use super::declaration::Declaration;
use crate::device::connected::{self, index};
use crate::device::{DeviceKind, KernelOp, Place, Served};
use burn::backend::{DeviceId, DeviceOps, DispatchDevice};
use burn::tensor::Device;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// A device of another process or machine, as its server declared it.
#[derive(Clone, Debug)]
pub struct RemoteDevice {
    /// The server's address.
    pub address: Address,
    /// The index of the device in the server's list.
    pub index: usize,
    /// The kind of device, such as `cpu` or `npu`.
    pub kind: DeviceKind,
    /// The capability of the device; see [`DeviceKind::capability`].
    pub capability: u16,
    /// True if its kernels compute in f64 too.
    pub f64: bool,
    /// The name of the device, such as the model of a processor.
    pub name: String,
    /// The operations that run as kernels on it.
    pub kernels: Vec<KernelOp>,
    /// Other facts that implementations have to know, by name.
    pub facts: Vec<(String, String)>,
    /// True if server and client run on one machine and see the same files.
    pub same_host: bool,
    /// The facts in the form that the checks of CANN's limits use at every call.
    #[cfg(feature = "npu")]
    platform: burn_cann::Platform,
    /// The session's number on the server.
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
            f64: declared.f64,
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

/// The devices by the index of Burn's device ids, which count up from 0.
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
            served: Served::with(remote.kernels.iter().copied(), remote.f64),
        },
        with_facts(&remote),
    );
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    if table.len() <= index {
        table.resize(index + 1, None);
    }
    table[index] = Some(Arc::new(remote));
}

/// Returns a device's name with the facts that its server declares, such as versions, on which its times depend.
fn with_facts(remote: &RemoteDevice) -> String {
    let facts = remote.facts.iter();
    facts.fold(remote.name.clone(), |name, (fact, value)| {
        format!("{name}, {fact} {value}")
    })
}

fn look_up<T>(id: DeviceId, read: impl FnOnce(&Arc<RemoteDevice>) -> T) -> Option<T> {
    let index = index(id)?;
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    table.get(index)?.as_ref().map(read)
}

/// Returns the facts about a device that [`connect`](super::connect) returned, or `None` for any other device. Autodiff
/// does not change them.
pub fn describe(device: &Device) -> Option<RemoteDevice> {
    entry(device).map(|remote| (*remote).clone())
}

pub(super) fn entry(device: &Device) -> Option<Arc<RemoteDevice>> {
    look_up(device.as_dispatch().id(), Arc::clone)
}

/// Returns the number of the session of a tensor's device.
#[cfg(all(feature = "packages", feature = "npu"))]
pub(super) fn session(tensor: &burn::backend::DispatchTensor) -> Option<u64> {
    use burn::backend::TensorMetadata;
    look_up(tensor.kind.device().id(), |remote| remote.session)
}

/// Returns the result of `read` for the platform that a tensor's device declared. The table's lock is not held
/// meanwhile.
#[cfg(feature = "npu")]
pub(crate) fn with_platform<T>(
    tensor: &burn::backend::DispatchTensor,
    read: impl FnOnce(&burn_cann::Platform) -> T,
) -> Option<T> {
    use burn::backend::TensorMetadata;
    let remote = look_up(tensor.kind.device().id(), Arc::clone)?;
    Some(read(&remote.platform))
}

/// Returns Burn's own handle of a remote device.
pub(super) fn handle(device: &Device) -> Option<burn::backend::RemoteDevice> {
    match device.clone().inner().as_dispatch() {
        DispatchDevice::Remote(remote) => Some(remote.clone()),
        _ => None,
    }
}
