//! A group, the membership of its devices, and the wait of a stream for the others.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use cann_sys::errors::ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;

use super::agreement::{Agreement, Call};
use super::communicator::{Communicator, MOST, dtype, join};
use crate::cann::lock;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::stream::{Stream, StreamInner};
use crate::tensor::Tensor;

/// The interval in which a waiting host looks at the other devices.
const INTERVAL: Duration = Duration::from_millis(100);

/// Devices that reduce tensors together. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Group(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ranks: Vec<Rank>,
    agreement: Mutex<Agreement>,
    /// The first failure, which is that of all devices.
    failure: OnceLock<Error>,
}

#[derive(Debug)]
struct Rank {
    communicator: Communicator,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The stream of its reductions, once there was one.
    stream: Option<Weak<StreamInner>>,
    /// The number of its reductions that are known to be done.
    done: u64,
    /// The number of memberships.
    members: usize,
    /// True once a membership ended and no other is left.
    ended: bool,
}

/// A stream's part in a group. The stream holds it, so that the communicators outlive its work.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    group: Group,
    rank: usize,
}

/// A device's membership in a group. Dropping it says that the device calls no more reductions, so that the others
/// don't wait for them.
#[derive(Debug)]
pub struct Membership(Part);

impl Group {
    /// Makes a group of several devices of this process.
    ///
    /// # Errors
    ///
    /// Returns an error if the toolkit has no HCCL, if HCCL can't connect the devices, or if one is named twice.
    pub fn new(devices: &[Device]) -> Result<Self> {
        let inner = devices.iter().map(|device| device.inner().clone());
        let cann = match devices {
            [first, _, ..] => first.cann(),
            _ => {
                let text = "a group needs at least two devices".to_owned();
                return Err(Error::Collective(text));
            }
        };
        let ranks = join(cann, inner.collect())?;
        let agreement = Mutex::new(Agreement::new(ranks.len()));
        let rank = |communicator| Rank {
            communicator,
            state: Mutex::default(),
        };
        Ok(Self(Arc::new(Inner {
            ranks: ranks.into_iter().map(rank).collect(),
            agreement,
            failure: OnceLock::new(),
        })))
    }

    /// Returns the failure of the group, after which it reduces nothing.
    pub fn failure(&self) -> Option<&Error> {
        self.0.failure.get()
    }

    /// Returns `true` if both are the same group.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Makes a device a member.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is not of this group, or if the group failed.
    pub fn join(&self, device: &Device) -> Result<Membership> {
        let rank = self.rank_of(device)?;
        self.usable()?;
        let mut state = lock(&self.0.ranks[rank].state);
        state.members += 1;
        state.ended = false;
        drop(state);
        let group = self.clone();
        Ok(Membership(Part { group, rank }))
    }

    /// Adds up the tensors of all devices. Each device calls this with a contiguous tensor of the same dtype and number
    /// of elements. Returns the sum, which later work on `stream` may use.
    ///
    /// # Errors
    ///
    /// Returns an error if the tensor is not of f32, f16 or bf16, if it differs from those of the other devices, if the
    /// device used another stream before, if another device was lost, or if HCCL refuses the call.
    pub fn sum(&self, stream: &Stream, tensor: &Tensor) -> Result<Tensor> {
        let rank = self.rank_of(&stream.device())?;
        let Some(kind) = dtype(tensor.dtype()) else {
            return Err(Error::Collective(format!(
                "tensors of f32, f16 and bf16 are reduced together, and this one is of {}; convert it first",
                tensor.dtype()
            )));
        };
        self.usable()?;
        self.enter(rank, stream)?;
        let output = Tensor::empty(stream, tensor.dtype(), tensor.shape())?;
        let length = tensor.spec().len();
        let (Some((source, _)), Some((target, _))) = (tensor.run(length)?, output.run(length)?)
        else {
            return Ok(output);
        };
        let memory: Vec<_> = [tensor, &output]
            .into_iter()
            .filter_map(Tensor::memory)
            .collect();
        let size = tensor.dtype().size();
        for first in (0..length).step_by(MOST) {
            let count = (length - first).min(MOST);
            self.agree(rank, count, tensor)?;
            let at = (
                source.wrapping_byte_add(first * size),
                target.wrapping_byte_add(first * size),
            );
            let communicator = &self.0.ranks[rank].communicator;
            let launched = stream.submit(&memory, |raw| {
                // SAFETY: both blocks have `count` elements from here on, and the stream orders their reuse. `enter`
                // gave the stream a part of the group, which it holds until it has ended.
                unsafe { communicator.sum(at, count, kind, raw) }
            });
            launched.map_err(|error| self.fail(rank, error))?;
        }
        Ok(output)
    }

    fn rank_of(&self, device: &Device) -> Result<usize> {
        let mut ranks = self.0.ranks.iter();
        let found = ranks.position(|rank| rank.communicator.device.id() == device.inner().id());
        found.ok_or_else(|| {
            let (id, others) = (device.id(), self.names());
            Error::Collective(format!("NPU {id} is not in the group of {others}"))
        })
    }

    fn names(&self) -> String {
        let names = self.0.ranks.iter().map(Rank::name);
        names.collect::<Vec<_>>().join(", ")
    }

    fn usable(&self) -> Result<()> {
        self.failure().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Gives the stream its part of the group. A rank has one stream, because the order of two would be open.
    fn enter(&self, rank: usize, stream: &Stream) -> Result<()> {
        let mut state = lock(&self.0.ranks[rank].state);
        match &state.stream {
            Some(known) if stream.is(known) => Ok(()),
            Some(_) => Err(Error::Collective(format!(
                "{} took part with another stream before; begin anew with a new group of {}",
                self.0.ranks[rank].name(),
                self.names()
            ))),
            None => {
                let group = self.clone();
                state.stream = Some(stream.take_part(Part { group, rank }));
                Ok(())
            }
        }
    }

    /// Compares the call with those of the other devices.
    fn agree(&self, rank: usize, count: usize, tensor: &Tensor) -> Result<()> {
        let dtype = tensor.dtype();
        let taken = lock(&self.0.agreement).take(rank, Call { count, dtype });
        taken.map_err(|(other, call)| {
            let text = format!(
                "{} reduces {count} elements of {dtype} where {} reduces {} of {}; all devices must \
                 reduce the same tensors in the same order",
                self.0.ranks[rank].name(),
                self.0.ranks[other].name(),
                call.count,
                call.dtype
            );
            self.fail(rank, Error::Collective(text))
        })
    }

    /// Makes an error of one device the failure of the group.
    fn fail(&self, rank: usize, error: Error) -> Error {
        let of_group = match &error {
            Error::Collective(_) => error.clone(),
            other => self.lost(rank, other),
        };
        let _ = self.0.failure.set(of_group);
        error
    }

    fn lost(&self, rank: usize, why: impl std::fmt::Display) -> Error {
        let name = self.0.ranks[rank].name();
        Error::Collective(format!(
            "{name} is lost for the group of {}: {why}",
            self.names()
        ))
    }

    fn made(&self, rank: usize) -> u64 {
        lock(&self.0.agreement).made(rank)
    }

    /// Returns an error if a reduction of `rank` will never end, because another device is lost.
    fn look_around(&self, rank: usize) -> Result<()> {
        if self.made(rank) == lock(&self.0.ranks[rank].state).done {
            return Ok(());
        }
        self.usable()?;
        for (other, of) in self.0.ranks.iter().enumerate() {
            if other == rank {
                continue;
            }
            let state = lock(&of.state);
            let stream = state.stream.as_ref().map(Weak::upgrade);
            let ended = state.ended || matches!(stream, Some(None));
            drop(state);
            let works = match stream.flatten() {
                Some(stream) => Stream::of(stream).is_idle().map(|_| true),
                // The work that failed may have come before its first reduction.
                None => of.communicator.device.works(),
            };
            let why = match works {
                Ok(true) => None,
                Ok(false) => Some("the toolkit says that it does not work".to_owned()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(why) = why {
                return Err(self.fail(other, self.lost(other, why)));
            }
            if ended && !lock(&self.0.agreement).has_kept_up(other, rank) {
                let why = "its session or thread ended before the others' reductions";
                return Err(self.fail(other, self.lost(other, why)));
            }
        }
        Ok(())
    }
}

impl Part {
    /// Tells the other devices that this stream's work failed.
    pub(crate) fn failed(&self, error: &Error) {
        self.group.fail(self.rank, error.clone());
    }
}

impl Rank {
    fn name(&self) -> String {
        format!("NPU {}", self.communicator.device.id())
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let Part { group, rank } = &self.0;
        let mut state = lock(&group.0.ranks[*rank].state);
        state.members -= 1;
        state.ended = state.members == 0;
    }
}

/// Waits for a stream that takes part in groups: `wait` waits for some time at most. Returns the failure of a group in
/// which the stream waits for a lost device.
pub(crate) fn wait(parts: &[Part], mut wait: impl FnMut(Duration) -> Result<()>) -> Result<()> {
    let made = |part: &Part| part.group.made(part.rank);
    let before: Vec<u64> = parts.iter().map(made).collect();
    loop {
        match wait(INTERVAL) {
            Err(Error::Call { code, .. }) if code.number() == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT => {}
            Err(failed) => return Err(failed),
            Ok(()) => break,
        }
        let lost = |part: &Part| part.group.look_around(part.rank);
        parts.iter().try_for_each(lost)?;
    }
    for (part, made) in parts.iter().zip(before) {
        let mut state = lock(&part.group.0.ranks[part.rank].state);
        state.done = state.done.max(made);
    }
    Ok(())
}
