//! Arguments of calls: checks, and putting the calls on a stream.

use std::ffi::c_void;
use std::sync::Arc;

use cann_sys::hccl::*;

use super::{NOT_SUPPORT, PARA, PTR};
use crate::error::{Outcome, ensure, fail};
use crate::hccl::{Block, Call, Communicator, Key, Limit, Operation, call};
use crate::memory::memory;
use crate::ops::reduce_ranks::{Number, Reduction};
use crate::state;
use crate::stream::Task;

/// The documented maximum of elements of a call.
const MOST: u64 = 0x7fff_ffff;

pub(super) fn elements(count: u64) -> Outcome<usize> {
    ensure!(count <= MOST, PARA; "{count} elements; at most {MOST} at once");
    Ok(count as usize)
}

/// Returns the number type of a dtype that can be transferred.
pub(super) fn number(dtype: HcclDataType) -> Outcome<Number> {
    match call::number(dtype) {
        Some(number) => Ok(number),
        None => fail!(NOT_SUPPORT; "dtype {} is not supported on this chip", dtype.0),
    }
}

/// Returns the reduction. Reductions take fewer dtypes than transfers, and products still fewer.
pub(super) fn reduction(op: HcclReduceOp, number: Number) -> Outcome<Reduction> {
    let by = match op {
        HCCL_REDUCE_SUM => Reduction::Sum,
        HCCL_REDUCE_PROD => Reduction::Product,
        HCCL_REDUCE_MAX => Reduction::Maximum,
        HCCL_REDUCE_MIN => Reduction::Minimum,
        other => fail!(PARA; "unknown reduction {}", other.0),
    };
    use Number::{BF16, F16, F32, I8, I16, I32, I64};
    ensure!([I8, I16, I32, I64, F16, F32, BF16].contains(&number), NOT_SUPPORT;
        "{number:?} is not reduced");
    ensure!(by != Reduction::Product || ![I16, BF16].contains(&number), NOT_SUPPORT;
        "{number:?} can't be multiplied");
    Ok(by)
}

/// Returns the rank, if the group has it.
pub(super) fn rank_of(communicator: &Communicator, rank: u32) -> Outcome<usize> {
    ensure!((rank as usize) < communicator.group.size, PARA;
        "rank {rank} of a group of {}", communicator.group.size);
    Ok(rank as usize)
}

/// Checks that a buffer is memory of the rank's device.
pub(super) fn check_buffer(communicator: &Communicator, name: &str, address: usize) -> Outcome<()> {
    ensure!(address != 0, PTR; "{name} is NULL");
    let found = memory().device_of(address);
    ensure!(found == Some(communicator.device), PARA;
        "{name} at {address:#x} is not memory of the rank's device {}", communicator.device);
    Ok(())
}

/// Returns a part without buffers.
pub(super) fn part(operation: Operation, number: Number) -> Call {
    Call {
        operation,
        number,
        send: 0,
        sends: Vec::new(),
        receive: 0,
        receives: Vec::new(),
    }
}

pub(super) fn one(count: usize) -> Vec<Block> {
    vec![Block { count, offset: 0 }]
}

pub(super) fn each(count: usize, ranks: usize) -> Vec<Block> {
    (0..ranks)
        .map(|rank| Block {
            count,
            offset: rank * count,
        })
        .collect()
}

/// Returns the blocks of each rank, from arrays of counts and offsets on the host.
///
/// # Safety
///
/// The arrays must be NULL or have a number for each rank.
pub(super) unsafe fn listed(
    counts: *const c_void,
    offsets: *const c_void,
    ranks: usize,
) -> Outcome<Vec<Block>> {
    ensure!(!counts.is_null() && !offsets.is_null(), PTR; "counts or offsets are NULL");
    // SAFETY: the caller guarantees the arrays.
    let (counts, offsets) = unsafe {
        (
            std::slice::from_raw_parts(counts.cast::<u64>(), ranks),
            std::slice::from_raw_parts(offsets.cast::<u64>(), ranks),
        )
    };
    counts
        .iter()
        .zip(offsets)
        .map(|(count, offset)| {
            Ok(Block {
                count: elements(*count)?,
                offset: elements(*offset)?,
            })
        })
        .collect()
}

/// Puts calls on the stream. All are entered before any is waited for.
pub(super) fn enqueue(
    communicator: &Arc<Communicator>,
    stream: aclrtStream,
    calls: Vec<(Key, Call)>,
) -> Outcome<()> {
    ensure!(!stream.is_null(), PTR; "the stream is NULL");
    let stream = state::stream(stream as usize)?;
    ensure!(stream.device == communicator.device, PARA;
        "the stream is of device {}, the rank of device {}", stream.device, communicator.device);
    let limit = Limit::read()?;
    // The task keeps the rank in the group until it is done.
    let communicator = communicator.clone();
    stream.enqueue(Task::Patient(Box::new(move |abandoned| {
        let deadline = limit.deadline();
        let done = calls.iter().map(|(key, call)| {
            let part = call.read(&memory());
            communicator.enter(*key, part)
        });
        let entered: Vec<Outcome<()>> = done.collect();
        let mut outcome = entered.into_iter().collect::<Outcome<()>>();
        for (key, call) in &calls {
            let left = communicator.leave(*key, deadline, abandoned);
            let written = left.and_then(|results| match results {
                Some(results) => call.write(&mut memory(), &results),
                None => Ok(()),
            });
            outcome = outcome.and(written);
        }
        outcome.inspect_err(|failure| communicator.group.fail(failure))
    })))
}
