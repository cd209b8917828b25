//! Transfers between two ranks.

use std::ffi::c_void;
use std::sync::Arc;

use cann_sys::hccl::*;

use super::arguments::*;
use super::{PARA, PTR, communicator, function};
use crate::error::{Outcome, ensure, fail};
use crate::hccl::{Call, Communicator, Key, Operation};

/// Returns this rank's part of a transfer to or from another rank.
fn transfer(
    comm: &Arc<Communicator>,
    kind: HcclSendRecvType,
    data: *mut c_void,
    count: u64,
    dtype: HcclDataType,
    other: u32,
) -> Outcome<(Key, Call)> {
    let (count, number) = (elements(count)?, number(dtype)?);
    let rank = comm.rank as u32;
    ensure!(rank_of(comm, other)? != comm.rank, PARA;
        "rank {rank} sends to or receives from itself");
    check_buffer(comm, "the buffer", data as usize)?;
    let mut call = part(Operation::Pair, number);
    match kind {
        HCCL_SEND => {
            (call.send, call.sends) = (data as usize, one(count));
            Ok((comm.next_pair(rank, other), call))
        }
        HCCL_RECV => {
            (call.receive, call.receives) = (data as usize, one(count));
            Ok((comm.next_pair(other, rank), call))
        }
        unknown => fail!(PARA; "a transfer is sent or received, not {}", unknown.0),
    }
}

function!(HcclSend(
    data: *mut c_void, count: u64, dtype: HcclDataType, to: u32, comm: HcclComm, stream: aclrtStream
) {
    let comm = communicator(comm)?;
    ensure!(!stream.is_null(), PTR; "the stream is NULL");
    let part = transfer(&comm, HCCL_SEND, data, count, dtype, to)?;
    enqueue(&comm, stream, vec![part])
});

function!(HcclRecv(
    data: *mut c_void, count: u64, dtype: HcclDataType, from: u32, comm: HcclComm, stream: aclrtStream
) {
    let comm = communicator(comm)?;
    ensure!(!stream.is_null(), PTR; "the stream is NULL");
    let part = transfer(&comm, HCCL_RECV, data, count, dtype, from)?;
    enqueue(&comm, stream, vec![part])
});

function!(HcclBatchSendRecv(items: *mut HcclSendRecvItem, count: u32, comm: HcclComm, stream: aclrtStream) {
    let comm = communicator(comm)?;
    ensure!(!items.is_null() && !stream.is_null(), PTR; "the items or the stream are NULL");
    ensure!(count > 0, PARA; "a batch of no items");
    // SAFETY: the caller guarantees the array.
    let items = unsafe { std::slice::from_raw_parts(items, count as usize) };
    let parts: Outcome<Vec<_>> = items
        .iter()
        .map(|item| transfer(&comm, item.sendRecvType, item.buf, item.count, item.dataType, item.remoteRank))
        .collect();
    enqueue(&comm, stream, parts?)
});
