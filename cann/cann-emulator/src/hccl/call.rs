//! The parts that ranks bring to a collective, and the work on all parts.

use cann_sys::errors::{ACL_ERROR_RT_LINK_ERROR, ACL_ERROR_RT_PARAM_INVALID};
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

/// The part of a rank, with the places in its device's memory.
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

impl Call {
    /// Reads what the rank sends.
    pub(crate) fn read(&self, memory: &Memory) -> Outcome<Part> {
        let size = self.number.size();
        let read = |block: &Block| {
            let address = self.send + block.offset * size;
            Ok(memory.bytes(address, block.count * size)?.to_vec())
        };
        Ok(Part {
            operation: self.operation,
            number: self.number,
            sends: self.sends.iter().map(read).collect::<Outcome<_>>()?,
            receives: self.receives.iter().map(|block| block.count).collect(),
        })
    }

    /// Writes the data for the rank, which may come from another process. Fails before it writes if that is not the data of
    /// all blocks.
    pub(crate) fn write(&self, memory: &mut Memory, results: &[Vec<u8>]) -> Outcome<()> {
        let size = self.number.size();
        let sizes = self.receives.iter().map(|block| block.count * size);
        ensure!(sizes.eq(results.iter().map(Vec::len)), ACL_ERROR_RT_LINK_ERROR;
            "the process that made the group's root answered with other data than the call takes");
        for (block, bytes) in self.receives.iter().zip(results) {
            let address = self.receive + block.offset * size;
            memory
                .bytes_mut(address, bytes.len())?
                .copy_from_slice(bytes);
        }
        Ok(())
    }
}

/// The part of a rank, without its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) operation: Operation,
    pub(crate) number: Number,
    /// The bytes of each sent block.
    pub(crate) sends: Vec<Vec<u8>>,
    /// The number of elements of each received block.
    pub(crate) receives: Vec<usize>,
}

/// Checks that all parts have the same operation and dtype.
fn check(parts: &[Part]) -> Outcome<()> {
    let first = &parts[0];
    for (rank, part) in parts.iter().enumerate() {
        ensure!(
            part.operation == first.operation && part.number == first.number,
            ACL_ERROR_RT_PARAM_INVALID;
            "rank 0 is at {:?} of {:?} and rank {rank} at {:?} of {:?}; all ranks must call the \
             same collectives in the same order",
            first.operation, first.number, part.operation, part.number
        );
    }
    Ok(())
}

/// The bytes of each block that each rank receives.
pub(crate) type Results = Vec<Vec<Vec<u8>>>;

/// Does the work of all ranks, in their order.
pub(crate) fn perform(parts: &[Part]) -> Outcome<Results> {
    check(parts)?;
    let received = |rank: usize| {
        let part = &parts[rank];
        let blocks = part.receives.iter().enumerate();
        blocks
            .map(|(position, count)| {
                let bytes = incoming(parts, rank, position)?;
                let size = part.number.size();
                ensure!(Some(bytes.len()) == count.checked_mul(size), ACL_ERROR_RT_PARAM_INVALID;
                    "rank {rank} takes {count} elements where {} come; all ranks must say the same",
                    bytes.len() / size);
                Ok(bytes)
            })
            .collect()
    };
    (0..parts.len()).map(received).collect()
}

/// Returns the bytes that come to a rank for one of its receiving blocks.
fn incoming(parts: &[Part], rank: usize, position: usize) -> Outcome<Vec<u8>> {
    let from = |sender, position| sent(parts, sender, position).cloned();
    let reduced = |by, position| {
        let all: Outcome<Vec<&Vec<u8>>> = (0..parts.len())
            .map(|sender| sent(parts, sender, position))
            .collect();
        let all = all?;
        ensure!(all.iter().all(|part| part.len() == all[0].len()), ACL_ERROR_RT_PARAM_INVALID;
            "ranks bring different numbers of elements; all must say the same");
        Ok(reduce(parts[rank].number, by, &all))
    };
    match parts[rank].operation {
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

fn sent(parts: &[Part], sender: usize, position: usize) -> Outcome<&Vec<u8>> {
    match parts.get(sender).and_then(|part| part.sends.get(position)) {
        Some(bytes) => Ok(bytes),
        None => fail!(ACL_ERROR_RT_PARAM_INVALID; "a rank sends less than another takes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::memory;

    #[test]
    fn data_of_other_sizes_is_refused_before_any_is_written() {
        let mut memory = memory();
        let address = memory.allocate(0, 64, 1 << 20).expect("memory");
        let block = |offset| Block { count: 1, offset };
        let call = Call {
            operation: Operation::AllGather,
            number: Number::I16,
            send: 0,
            sends: Vec::new(),
            receive: address,
            receives: vec![block(0), block(1)],
        };
        memory.bytes_mut(address, 4).expect("its bytes").fill(7);
        let one = || vec![1, 2];
        for wrong in [
            vec![],
            vec![one()],
            vec![one(), vec![3]],
            vec![one(), vec![3, 4, 5]],
            vec![one(), one(), one()],
        ] {
            let failure = call.write(&mut memory, &wrong).expect_err("other data");
            assert_eq!(failure.code, ACL_ERROR_RT_LINK_ERROR);
            assert_eq!(memory.bytes(address, 4).expect("its bytes"), [7; 4]);
        }
        call.write(&mut memory, &[one(), vec![3, 4]])
            .expect("the data");
        assert_eq!(memory.bytes(address, 4).expect("its bytes"), [1, 2, 3, 4]);
    }
}
