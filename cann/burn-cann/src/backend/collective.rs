//! Reductions over several NPUs: Burn's `DistributedOps`, over HCCL.
//!
//! Each NPU calls [`all_reduce`] once for each reduction, with its own tensor and the same list of NPUs. Groups are made
//! by the first call that needs them. Work stays in the order of the NPU's stream, so that there is nothing to do for
//! `sync_collective`.
//!
//! # Parties
//!
//! Threads that share the process's streams reduce together, or one thread calls for all NPUs. A thread with
//! [streams of its own](super::own_streams) reduces only with threads of its party ([`join_party`]), because it may
//! serve another client than its neighbour does. All of them join before one reduces, so a thread that ended is known to be
//! gone, even if it never reduced.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Mutex;

use burn_backend::distributed::{CollectiveTensor, DistributedOps, ReduceOperation};
use burn_backend::{DType, DeviceId, Scalar};
use burn_std::device::Device as BurnDevice;

use super::CannBackend;
use super::device::{self, CannDevice};
use super::error::{Declined, Error, Result};
use super::native::elementwise::by;
use super::tensor::CannTensor;
use crate::cann::lock;
use crate::ops::elementwise::BinaryScalar;
use crate::{Device, Error as CannError, Group, Membership};

/// A party and its NPUs, in ascending order.
type Key = (u64, Vec<u16>);

/// The party of the threads that share the process's streams.
const ALL: u64 = 0;

static GROUPS: Mutex<BTreeMap<Key, Group>> = Mutex::new(BTreeMap::new());

/// The memberships of a thread, by group and NPU.
type Members = BTreeMap<(Key, u16), (Group, Membership)>;

/// The threads with a party, by party and NPU. Each has a membership in every group of its party, from the group's first
/// reduction on, so that others don't wait for one that ends before its own.
static PRESENT: Mutex<BTreeMap<(u64, u16), Vec<Membership>>> = Mutex::new(BTreeMap::new());

thread_local! {
    static MEMBERS: RefCell<Members> = const { RefCell::new(BTreeMap::new()) };
    static PARTY: Cell<Option<(u64, u16)>> = const { Cell::new(None) };
}

/// Lets this thread, which has streams of its own, reduce on `device` with other threads of the party. The threads of all
/// devices must join before one of them reduces.
pub fn join_party(party: u64, device: CannDevice) {
    leave();
    let place = (party, device.to_id().index_id);
    lock(&PRESENT).entry(place).or_default();
    PARTY.set(Some(place));
}

/// Ends this thread's memberships: others no longer wait for its reductions.
pub(super) fn leave() {
    let place = PARTY.take();
    let of_party = place.and_then(|place| lock(&PRESENT).remove(&place));
    let members = MEMBERS.take();
    forget(|known| members.values().any(|(group, _)| group.is_same(known)));
    drop((members, of_party));
}

/// Drops all groups.
pub(super) fn close() {
    leave();
    forget(|_| true);
}

/// Makes groups unknown to later calls. Those who are in them keep them.
fn forget(which: impl Fn(&Group) -> bool) {
    let mut groups = lock(&GROUPS);
    let old: Vec<_> = groups.extract_if(.., |_, group| which(group)).collect();
    drop(groups);
    // This is outside the lock, because the last clone of a group disconnects its devices.
    drop(old);
}

/// Adds up the tensors of several NPUs, or computes their mean. The tensor's own NPU must be one of `devices`, in any
/// order.
///
/// The mean of f16 divides before it adds, because the sum may be too large for f16.
///
/// # Errors
///
/// Returns an error if the tensors are not of f32, f16 or bf16 or differ in size, if `devices` names another list than
/// those of the other NPUs, if HCCL fails, or if an NPU of the group was lost.
pub fn all_reduce(
    tensor: CannTensor,
    operation: ReduceOperation,
    devices: &[CannDevice],
) -> Result<CannTensor> {
    let own = tensor.place.device;
    let mut ids: Vec<u16> = devices
        .iter()
        .map(|device| device.to_id().index_id)
        .collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) || !devices.contains(&own) {
        return Err(refused(format!(
            "{own} reduces with {devices:?}; the list must have it and each other NPU once"
        )));
    }
    if ids.len() == 1 {
        return Ok(tensor);
    }
    let group = group(own, ids)?;
    let count = devices.len() as f64;
    let tensor = tensor.contiguous()?;
    match (operation, tensor.dtype) {
        (ReduceOperation::Sum, _) => sum(&group, &tensor),
        (ReduceOperation::Mean, DType::F16) => sum(&group, &divided(&tensor, count)?),
        (ReduceOperation::Mean, _) => divided(&sum(&group, &tensor)?, count),
    }
}

fn refused(text: String) -> Error {
    CannError::Collective(text).into()
}

fn sum(group: &Group, tensor: &CannTensor) -> Result<CannTensor> {
    let sum = group.sum(&tensor.place.stream, &tensor.tensor)?;
    Ok(CannTensor::at(&tensor.place, sum))
}

fn divided(tensor: &CannTensor, by_count: f64) -> Result<CannTensor> {
    by(BinaryScalar::Div)(tensor, Scalar::Float(by_count)).map_err(|declined| match declined {
        Declined::Failed(error) => error.into(),
        Declined::ToHost(reason) => refused(reason),
    })
}

/// Returns the group of these NPUs in which this thread calls for `own`.
fn group(own: CannDevice, ids: Vec<u16>) -> Result<Group> {
    let party = match device::has_own_streams() {
        false => ALL,
        true => PARTY.get().map(|(party, _)| party).ok_or_else(|| {
            let text = "this session has not said which others it reduces with; connect to the server with burn-kernels";
            refused(text.to_owned())
        })?,
    };
    let (key, own_id) = ((party, ids), own.to_id().index_id);
    MEMBERS.with_borrow_mut(|members| {
        let place = (key, own_id);
        if let Some((group, _)) = members.get(&place) {
            return Ok(group.clone());
        }
        let group = known(&place.0)?;
        let device = own.stream()?.device();
        let membership = group.join(&device)?;
        members.insert(place, (group.clone(), membership));
        Ok(group)
    })
}

/// Returns the group of a party, and makes it if it does not exist yet or failed.
fn known(key: &Key) -> Result<Group> {
    let mut groups = lock(&GROUPS);
    if let Some(group) = groups.get(key)
        && group.failure().is_none()
    {
        return Ok(group.clone());
    }
    let devices: Result<Vec<_>> = key.1.iter().map(|id| device::open(*id)).collect();
    let devices = devices?;
    let group = Group::new(&devices)?;
    if key.0 != ALL {
        make_members(&group, key, &devices)?;
    }
    let failed = groups.insert(key.clone(), group.clone());
    drop(groups);
    // This is outside the lock, as in `forget`.
    drop(failed);
    Ok(group)
}

/// Makes the threads of a party members of a new group.
fn make_members(group: &Group, (party, ids): &Key, devices: &[Device]) -> Result<()> {
    let mut present = lock(&PRESENT);
    if let Some(lost) = ids.iter().find(|id| !present.contains_key(&(*party, **id))) {
        let names: Vec<String> = ids.iter().map(|id| format!("NPU {id}")).collect();
        return Err(refused(format!(
            "NPU {lost} is lost for the group of {}: its session or thread ended before the others' reductions",
            names.join(", ")
        )));
    }
    for (id, device) in ids.iter().zip(devices) {
        let membership = group.join(device)?;
        present.entry((*party, *id)).or_default().push(membership);
    }
    Ok(())
}

impl DistributedOps<Self> for CannBackend {
    fn all_reduce(
        tensor: CannTensor,
        operation: ReduceOperation,
        devices: Vec<DeviceId>,
    ) -> CollectiveTensor<Self> {
        let devices: Vec<_> = devices.into_iter().map(CannDevice::from_id).collect();
        let reduced = all_reduce(tensor, operation, &devices);
        CollectiveTensor::new(
            reduced.unwrap_or_else(|error| panic!("all_reduce on the NPU: {error}")),
        )
    }

    /// Does nothing, because later work on the stream has the result.
    fn sync_collective(_device: &CannDevice) {}
}
