//! The parts that ranks bring to a collective, and the work on all parts.

use cann_sys::errors::ACL_ERROR_RT_PARAM_INVALID;
use cann_sys::hccl::*;

use crate::error::{Outcome, ensure, fail};
use crate::memory::Memory;
use crate::ops::reduce_ranks::{Number, Reduction, reduce};

/// The collectives, with the arguments that all ranks must share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Barrier,
    Broadcast {
        root: usize,
    },
    Reduce {
        by: Reduction,
        root: usize,
    },
    AllReduce {
        by: Reduction,
    },
    ReduceScatter {
        by: Reduction,
    },
    AllGather,
    Scatter {
        root: usize,
    },
    AllToAll,
    /// A transfer between two ranks, of which the first sends.
    Pair,
}

/// A range of elements of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) count: usize,
    pub(crate) offset: usize,
}

/// The part of a rank.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) operation: Operation,
    pub(crate) number: Number,
    pub(crate) send: usize,
    /// One block for all ranks, or one for each.
    pub(crate) sends: Vec<Block>,
    pub(crate) receive: usize,
    /// One block from all ranks, or one from each.
    pub(crate) receives: Vec<Block>,
}

/// Returns the number type of HCCL's dtype.
pub(crate) fn number(dtype: HcclDataType) -> Option<Number> {
    Some(match dtype {
        HCCL_DATA_TYPE_INT8 => Number::I8,
        HCCL_DATA_TYPE_INT16 => Number::I16,
        HCCL_DATA_TYPE_INT32 => Number::I32,
        HCCL_DATA_TYPE_INT64 => Number::I64,
        HCCL_DATA_TYPE_UINT8 => Number::U8,
        HCCL_DATA_TYPE_UINT16 => Number::U16,
        HCCL_DATA_TYPE_UINT32 => Number::U32,
        HCCL_DATA_TYPE_UINT64 => Number::U64,
        HCCL_DATA_TYPE_FP16 => Number::F16,
        HCCL_DATA_TYPE_BFP16 => Number::BF16,
        HCCL_DATA_TYPE_FP32 => Number::F32,
        HCCL_DATA_TYPE_FP64 => Number::F64,
        _ => return None,
    })
}

/// Checks that all parts have the same operation and dtype.
fn check(calls: &[Call]) -> Outcome<()> {
    let first = &calls[0];
    for (rank, call) in calls.iter().enumerate() {
        ensure!(
            call.operation == first.operation && call.number == first.number,
            ACL_ERROR_RT_PARAM_INVALID,
            "rank 0 is at {:?} of {:?} and rank {rank} at {:?} of {:?}; \
             all ranks must call the same collectives in the same order",
            first.operation,
            first.number,
            call.operation,
            call.number
        );
    }
    Ok(())
}

/// Does the work of all ranks, in their order: reads everything, then writes.
pub(crate) fn perform(memory: &mut Memory, calls: &[Call]) -> Outcome<()> {
    check(calls)?;
    let mut results = Vec::new();
    for (rank, call) in calls.iter().enumerate() {
        for (position, block) in call.receives.iter().enumerate() {
            let bytes = incoming(memory, calls, rank, position)?;
            let size = call.number.size();
            ensure!(
                bytes.len() == block.count * size,
                ACL_ERROR_RT_PARAM_INVALID,
                "rank {rank} takes {} elements where {} come; all ranks must say the same",
                block.count,
                bytes.len() / size
            );
            results.push((call.receive + block.offset * size, bytes));
        }
    }
    for (address, bytes) in results {
        memory
            .bytes_mut(address, bytes.len())?
            .copy_from_slice(&bytes);
    }
    Ok(())
}

/// Returns the bytes that come to a rank for one of its receiving blocks.
fn incoming(memory: &Memory, calls: &[Call], rank: usize, position: usize) -> Outcome<Vec<u8>> {
    let from = |sender: usize, position: usize| sent(memory, &calls[sender], position);
    let reduced = |by: Reduction, position: usize| {
        let parts: Outcome<Vec<_>> = (0..calls.len())
            .map(|sender| from(sender, position))
            .collect();
        let parts = parts?;
        ensure!(
            parts.iter().all(|part| part.len() == parts[0].len()),
            ACL_ERROR_RT_PARAM_INVALID,
            "ranks bring different numbers of elements; all must say the same"
        );
        Ok(reduce(calls[rank].number, by, &parts))
    };
    match calls[rank].operation {
        Operation::Broadcast { root } => from(root, 0),
        Operation::Scatter { root } => from(root, rank),
        Operation::AllGather => from(position, 0),
        Operation::AllToAll => from(position, rank),
        Operation::Reduce { by, .. } | Operation::AllReduce { by } => reduced(by, 0),
        Operation::ReduceScatter { by } => reduced(by, rank),
        Operation::Pair => from(0, 0),
        Operation::Barrier => Ok(Vec::new()),
    }
}

fn sent(memory: &Memory, call: &Call, position: usize) -> Outcome<Vec<u8>> {
    let Some(block) = call.sends.get(position) else {
        fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "a rank sends less than another takes"
        )
    };
    let size = call.number.size();
    let address = call.send + block.offset * size;
    Ok(memory.bytes(address, block.count * size)?.to_vec())
}
