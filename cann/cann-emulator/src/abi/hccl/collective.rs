//! Collectives, in which all ranks take part.

use std::ffi::c_void;
use std::sync::Arc;

use cann_sys::hccl::*;

use super::arguments::{
    check_buffer, each, elements, enqueue, listed, number, one, part, rank_of, reduction,
};
use super::{PARA, PTR, communicator, function};
use crate::error::{Outcome, ensure};
use crate::hccl::{Call, Communicator, Operation};
use crate::ops::reduce_ranks::Number;

/// Enqueues a collective of all ranks.
fn collective(communicator: &Arc<Communicator>, stream: aclrtStream, call: Call) -> Outcome<()> {
    if !call.sends.is_empty() {
        check_buffer(communicator, "the buffer to send", call.send)?;
    }
    if !call.receives.is_empty() {
        check_buffer(communicator, "the buffer to receive", call.receive)?;
    }
    ensure!(!stream.is_null(), PTR; "the stream is NULL");
    enqueue(communicator, stream, vec![(communicator.next(), call)])
}

function!(HcclBarrier(comm: HcclComm, stream: aclrtStream) {
    collective(&communicator(comm)?, stream, part(Operation::Barrier, Number::I8))
});

function!(HcclBroadcast(
    data: *mut c_void, count: u64, dtype: HcclDataType, root: u32, comm: HcclComm, stream: aclrtStream
) {
    let comm = communicator(comm)?;
    let (count, number, root) = (elements(count)?, number(dtype)?, rank_of(&comm, root)?);
    let mut call = part(Operation::Broadcast { root }, number);
    (call.send, call.receive) = (data as usize, data as usize);
    if comm.rank == root {
        call.sends = one(count);
    } else {
        call.receives = one(count);
    }
    if count == 0 { Ok(()) } else { collective(&comm, stream, call) }
});

function!(HcclAllReduce(
    send: *mut c_void, receive: *mut c_void, count: u64, dtype: HcclDataType, op: HcclReduceOp, comm: HcclComm,
    stream: aclrtStream
) {
    let comm = communicator(comm)?;
    let (count, number) = (elements(count)?, number(dtype)?);
    let mut call = part(Operation::AllReduce { by: reduction(op, number)? }, number);
    (call.send, call.sends) = (send as usize, one(count));
    (call.receive, call.receives) = (receive as usize, one(count));
    if count == 0 { Ok(()) } else { collective(&comm, stream, call) }
});

function!(HcclReduce(
    send: *mut c_void, receive: *mut c_void, count: u64, dtype: HcclDataType, op: HcclReduceOp, root: u32,
    comm: HcclComm, stream: aclrtStream
) {
    let comm = communicator(comm)?;
    let (count, number, root) = (elements(count)?, number(dtype)?, rank_of(&comm, root)?);
    let mut call = part(Operation::Reduce { by: reduction(op, number)?, root }, number);
    (call.send, call.sends) = (send as usize, one(count));
    if comm.rank == root {
        (call.receive, call.receives) = (receive as usize, one(count));
    }
    if count == 0 { Ok(()) } else { collective(&comm, stream, call) }
});

function!(HcclReduceScatter(
    send: *mut c_void, receive: *mut c_void, count: u64, dtype: HcclDataType, op: HcclReduceOp, comm: HcclComm,
    stream: aclrtStream
) {
    let comm = communicator(comm)?;
    let (count, number) = (elements(count)?, number(dtype)?);
    let mut call = part(Operation::ReduceScatter { by: reduction(op, number)? }, number);
    (call.send, call.sends) = (send as usize, each(count, comm.group.size));
    (call.receive, call.receives) = (receive as usize, one(count));
    if count == 0 { Ok(()) } else { collective(&comm, stream, call) }
});

function!(HcclReduceScatterV(
    send: *mut c_void, counts: *const c_void, offsets: *const c_void, receive: *mut c_void, count: u64,
    dtype: HcclDataType, op: HcclReduceOp, comm: HcclComm, stream: aclrtStream
) {
    let comm = communicator(comm)?;
    let number = number(dtype)?;
    let mut call = part(Operation::ReduceScatter { by: reduction(op, number)? }, number);
    // SAFETY: the caller guarantees the arrays.
    (call.send, call.sends) = (send as usize, unsafe { listed(counts, offsets, comm.group.size) }?);
    (call.receive, call.receives) = (receive as usize, one(elements(count)?));
    collective(&comm, stream, call)
});

function!(HcclAllGather(
    send: *mut c_void, receive: *mut c_void, count: u64, dtype: HcclDataType, comm: HcclComm, stream: aclrtStream
) {
    let comm = communicator(comm)?;
    let count = elements(count)?;
    let mut call = part(Operation::AllGather, number(dtype)?);
    (call.send, call.sends) = (send as usize, one(count));
    (call.receive, call.receives) = (receive as usize, each(count, comm.group.size));
    if count == 0 { Ok(()) } else { collective(&comm, stream, call) }
});

function!(HcclAllGatherV(
    send: *mut c_void, count: u64, receive: *mut c_void, counts: *const c_void, offsets: *const c_void,
    dtype: HcclDataType, comm: HcclComm, stream: aclrtStream
) {
    let comm = communicator(comm)?;
    let mut call = part(Operation::AllGather, number(dtype)?);
    (call.send, call.sends) = (send as usize, one(elements(count)?));
    // SAFETY: the caller guarantees the arrays.
    (call.receive, call.receives) = (receive as usize, unsafe { listed(counts, offsets, comm.group.size) }?);
    collective(&comm, stream, call)
});

function!(HcclScatter(
    send: *mut c_void, receive: *mut c_void, count: u64, dtype: HcclDataType, root: u32, comm: HcclComm,
    stream: aclrtStream
) {
    let comm = communicator(comm)?;
    let (count, root) = (elements(count)?, rank_of(&comm, root)?);
    let mut call = part(Operation::Scatter { root }, number(dtype)?);
    if comm.rank == root {
        (call.send, call.sends) = (send as usize, each(count, comm.group.size));
    }
    (call.receive, call.receives) = (receive as usize, one(count));
    if count == 0 { Ok(()) } else { collective(&comm, stream, call) }
});

function!(HcclAlltoAll(
    send: *const c_void, send_count: u64, send_type: HcclDataType, receive: *const c_void, receive_count: u64,
    receive_type: HcclDataType, comm: HcclComm, stream: aclrtStream
) {
    let comm = communicator(comm)?;
    ensure!(send_count == receive_count && send_type == receive_type, PARA;
        "what is sent to each rank, {send_count} of dtype {}, is not what is received, \
         {receive_count} of dtype {}", send_type.0, receive_type.0);
    let count = elements(send_count)?;
    let mut call = part(Operation::AllToAll, number(send_type)?);
    (call.send, call.sends) = (send as usize, each(count, comm.group.size));
    (call.receive, call.receives) = (receive as usize, each(count, comm.group.size));
    if count == 0 { Ok(()) } else { collective(&comm, stream, call) }
});

function!(HcclAlltoAllV(
    send: *const c_void, send_counts: *const c_void, send_offsets: *const c_void, send_type: HcclDataType,
    receive: *const c_void, receive_counts: *const c_void, receive_offsets: *const c_void,
    receive_type: HcclDataType, comm: HcclComm, stream: aclrtStream
) {
    let comm = communicator(comm)?;
    ensure!(send_type == receive_type, PARA; "the dtypes {} and {} differ", send_type.0, receive_type.0);
    let mut call = part(Operation::AllToAll, number(send_type)?);
    // SAFETY: the caller guarantees the arrays.
    unsafe {
        (call.send, call.sends) = (send as usize, listed(send_counts, send_offsets, comm.group.size)?);
        (call.receive, call.receives) =
            (receive as usize, listed(receive_counts, receive_offsets, comm.group.size)?);
    }
    collective(&comm, stream, call)
});
