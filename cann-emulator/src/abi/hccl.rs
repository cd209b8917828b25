//! Groups of ranks and their collectives, in one process.
//!
//! Buffers must be memory of the rank's device, and the stream one of that device. A count of zero does nothing,
//! on no rank. The text of an error is the thread's, as of other functions.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use cann_sys::hccl::*;

use crate::abi::exports;
use crate::error::{Outcome, ensure, fail, status};
use crate::hccl::{self, Block, Call, Communicator, Key, Operation, Root, call, patience};
use crate::memory::memory;
use crate::object::{self, Object};
use crate::ops::reduce_ranks::{Number, Reduction};
use crate::state;
use crate::stream::Task;

const PARA: i32 = HCCL_E_PARA.0 as i32;
const PTR: i32 = HCCL_E_PTR.0 as i32;
const NOT_SUPPORT: i32 = HCCL_E_NOT_SUPPORT.0 as i32;

/// HCCL's code of an outcome: errors of the runtime are one code of it.
fn result(function: &str, outcome: Outcome<()>) -> HcclResult {
    match u32::try_from(status(function, outcome)) {
        Ok(code) if code <= HCCL_E_SUSPENDING.0 => HcclResult(code),
        _ => HCCL_E_RUNTIME,
    }
}

macro_rules! function {
    ($name:ident($($argument:ident: $type:ty),*) $body:block) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> HcclResult {
            let work = || -> Outcome<()> { $body };
            result(stringify!($name), work())
        }
        exports!(hccl: $name);
    };
}

/// Writes to a place that the caller gave.
///
/// # Safety
///
/// `place` is NULL or valid for a write.
unsafe fn give<T>(place: *mut T, value: T) -> Outcome<()> {
    ensure!(!place.is_null(), PTR, "the place for the result is NULL");
    // SAFETY: the caller vouches for it.
    unsafe { place.write(value) };
    Ok(())
}

fn communicator(comm: HcclComm) -> Outcome<Arc<Communicator>> {
    ensure!(!comm.is_null(), PTR, "the communicator is NULL");
    match object::get(comm as usize) {
        Some(Object::Communicator(found)) => Ok(found),
        _ => fail!(PARA, "{comm:p} is not a communicator, or was destroyed"),
    }
}

fn handle(communicator: Arc<Communicator>) -> HcclComm {
    object::insert(Object::Communicator(communicator)) as HcclComm
}

function!(HcclGetRootInfo(root: *mut HcclRootInfo) {
    state::current_device()?;
    ensure!(!root.is_null(), PTR, "the place for the root is NULL");
    let mut bytes = [0; HCCL_ROOT_INFO_BYTES as usize];
    hccl::root().write(&mut bytes);
    // SAFETY: checked above, and the caller vouches for the place.
    unsafe { give(root, HcclRootInfo { internal: bytes.map(|byte| byte as c_char) }) }
});

function!(HcclCommInitRootInfo(ranks: u32, root: *const HcclRootInfo, rank: u32, comm: *mut HcclComm) {
    let device = state::current_device()?;
    ensure!(!comm.is_null(), PTR, "the place for the communicator is NULL");
    // SAFETY: the caller vouches for the root.
    let Some(root) = (unsafe { root.as_ref() }) else { fail!(PTR, "the root is NULL") };
    let root = Root::read(&root.internal.map(|byte| byte as u8))?;
    let joined = hccl::join(root, ranks as usize, rank as usize, device)?;
    // SAFETY: checked above, and the caller vouches for the place.
    unsafe { give(comm, handle(joined)) }
});

function!(HcclCommInitAll(count: u32, devices: *mut i32, comms: *mut HcclComm) {
    let known = state::config()?.devices as i32;
    ensure!(!devices.is_null() && !comms.is_null(), PTR, "devices or communicators are NULL");
    ensure!(count > 0, PARA, "a group of no devices");
    // SAFETY: the caller vouches for the array.
    let devices = unsafe { std::slice::from_raw_parts(devices, count as usize) };
    for (position, device) in devices.iter().enumerate() {
        ensure!((0..known).contains(device), PARA, "there is no device {device}: there are {known}");
        ensure!(!devices[..position].contains(device), PARA, "device {device} is there twice");
    }
    for (position, joined) in hccl::whole(devices).into_iter().enumerate() {
        // SAFETY: the caller vouches for as many places as devices.
        unsafe { comms.add(position).write(handle(joined)) };
    }
    Ok(())
});

function!(HcclCommDestroy(comm: HcclComm) {
    communicator(comm)?;
    object::remove(comm as usize);
    Ok(())
});
function!(HcclGetRankSize(comm: HcclComm, ranks: *mut u32) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(ranks, communicator(comm)?.group.size as u32) }
});
function!(HcclGetRankId(comm: HcclComm, rank: *mut u32) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(rank, communicator(comm)?.rank as u32) }
});
function!(HcclGetCommName(comm: HcclComm, name: *mut c_char) {
    let text = format!("cann_emulator_group_{}\0", communicator(comm)?.group.id);
    ensure!(!name.is_null(), PTR, "the place for the name is NULL");
    // SAFETY: the caller vouches for a place of the documented 128 bytes.
    unsafe { name.copy_from_nonoverlapping(text.as_ptr().cast(), text.len()) };
    Ok(())
});
function!(HcclGetCommAsyncError(comm: HcclComm, error: *mut HcclResult) {
    let failed = communicator(comm)?.group.has_failed();
    // SAFETY: the caller vouches for the place.
    unsafe { give(error, if failed { HCCL_E_REMOTE } else { HCCL_SUCCESS }) }
});

/// By code.
const ERRORS: [&CStr; 23] = [
    c"no error",
    c"a parameter is wrong",
    c"a pointer is NULL",
    c"out of memory",
    c"an error inside HCCL",
    c"not supported",
    c"not found",
    c"not available",
    c"a system call failed",
    c"out of time",
    c"a file could not be opened",
    c"no TCP connection",
    c"no RoCE connection",
    c"a TCP transfer failed",
    c"a RoCE transfer failed",
    c"a call of the runtime failed",
    c"a call of the driver failed",
    c"a call of the profiler failed",
    c"a call of CCE failed",
    c"a call of the network failed",
    c"to be tried again",
    c"another rank failed",
    c"suspended",
];

#[unsafe(no_mangle)]
pub unsafe extern "C" fn HcclGetErrorString(code: HcclResult) -> *const c_char {
    ERRORS
        .get(code.0 as usize)
        .unwrap_or(&c"an unknown error")
        .as_ptr()
}
exports!(hccl: HcclGetErrorString);

/// Documented as the most elements of a call.
const MOST: u64 = 0x7fff_ffff;

fn elements(count: u64) -> Outcome<usize> {
    ensure!(
        count <= MOST,
        PARA,
        "{count} elements; at most {MOST} at once"
    );
    Ok(count as usize)
}

/// The number type, of those that are moved.
fn number(dtype: HcclDataType) -> Outcome<Number> {
    match call::number(dtype) {
        Some(number) => Ok(number),
        None => fail!(NOT_SUPPORT, "there is no dtype {} on this chip", dtype.0),
    }
}

/// How values are reduced: of fewer types, and products of fewer still.
fn reduction(op: HcclReduceOp, number: Number) -> Outcome<Reduction> {
    let by = match op {
        HCCL_REDUCE_SUM => Reduction::Sum,
        HCCL_REDUCE_PROD => Reduction::Product,
        HCCL_REDUCE_MAX => Reduction::Maximum,
        HCCL_REDUCE_MIN => Reduction::Minimum,
        other => fail!(PARA, "there is no reduction {}", other.0),
    };
    use Number::{BF16, F16, F32, I8, I16, I32, I64};
    ensure!(
        [I8, I16, I32, I64, F16, F32, BF16].contains(&number),
        NOT_SUPPORT,
        "{number:?} is not reduced"
    );
    ensure!(
        by != Reduction::Product || ![I16, BF16].contains(&number),
        NOT_SUPPORT,
        "there are no products of {number:?}"
    );
    Ok(by)
}

/// The rank, if the group has it.
fn rank_of(communicator: &Communicator, rank: u32) -> Outcome<usize> {
    ensure!(
        (rank as usize) < communicator.group.size,
        PARA,
        "rank {rank} of a group of {}",
        communicator.group.size
    );
    Ok(rank as usize)
}

/// A buffer of the rank's device.
fn check_buffer(communicator: &Communicator, name: &str, address: usize) -> Outcome<()> {
    ensure!(address != 0, PTR, "{name} is NULL");
    let found = memory().device_of(address);
    ensure!(
        found == Some(communicator.device),
        PARA,
        "{name} at {address:#x} is not memory of the rank's device {}",
        communicator.device
    );
    Ok(())
}

/// A part that says nothing yet.
fn part(operation: Operation, number: Number) -> Call {
    Call {
        operation,
        number,
        send: 0,
        sends: Vec::new(),
        receive: 0,
        receives: Vec::new(),
    }
}

fn one(count: usize) -> Vec<Block> {
    vec![Block { count, offset: 0 }]
}

fn each(count: usize, ranks: usize) -> Vec<Block> {
    (0..ranks)
        .map(|rank| Block {
            count,
            offset: rank * count,
        })
        .collect()
}

/// Counts and offsets of each rank, from arrays of the host.
///
/// # Safety
///
/// The arrays are NULL or have a number for each rank.
unsafe fn listed(
    counts: *const c_void,
    offsets: *const c_void,
    ranks: usize,
) -> Outcome<Vec<Block>> {
    ensure!(
        !counts.is_null() && !offsets.is_null(),
        PTR,
        "counts or offsets are NULL"
    );
    // SAFETY: the caller vouches for the arrays.
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

/// Puts parts of meetings onto the stream: all are entered before any is waited for.
fn enqueue(
    communicator: &Arc<Communicator>,
    stream: aclrtStream,
    parts: Vec<(Key, usize, usize, Call)>,
) -> Outcome<()> {
    ensure!(!stream.is_null(), PTR, "the stream is NULL");
    let stream = state::stream(stream as usize)?;
    ensure!(
        stream.device == communicator.device,
        PARA,
        "the stream is of device {}, the rank of device {}",
        stream.device,
        communicator.device
    );
    let limit = patience("HCCL_EXEC_TIMEOUT", 1836)?;
    let group = communicator.group.clone();
    stream.enqueue(Task::Patient(Box::new(move |abandoned| {
        let keys: Vec<Key> = parts.iter().map(|(key, ..)| *key).collect();
        for (key, size, place, call) in parts {
            group.meetings.enter(key, size, place, call);
        }
        for key in keys {
            let met = group.meetings.leave(key, limit, abandoned);
            met.inspect_err(|failure| group.fail(failure))?;
        }
        Ok(())
    })))
}

/// A collective of all ranks.
fn collective(communicator: &Arc<Communicator>, stream: aclrtStream, call: Call) -> Outcome<()> {
    if !call.sends.is_empty() {
        check_buffer(communicator, "the buffer to send", call.send)?;
    }
    if !call.receives.is_empty() {
        check_buffer(communicator, "the buffer to receive", call.receive)?;
    }
    ensure!(!stream.is_null(), PTR, "the stream is NULL");
    let (size, rank) = (communicator.group.size, communicator.rank);
    let key = communicator.next();
    enqueue(communicator, stream, vec![(key, size, rank, call)])
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
    // SAFETY: the caller vouches for the arrays.
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
    // SAFETY: the caller vouches for the arrays.
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
    ensure!(
        send_count == receive_count && send_type == receive_type,
        PARA,
        "what is sent to each rank, {send_count} of dtype {}, is not what is received, {receive_count} of dtype {}",
        send_type.0,
        receive_type.0
    );
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
    ensure!(send_type == receive_type, PARA, "the dtypes {} and {} differ", send_type.0, receive_type.0);
    let mut call = part(Operation::AllToAll, number(send_type)?);
    // SAFETY: the caller vouches for the arrays.
    unsafe {
        (call.send, call.sends) = (send as usize, listed(send_counts, send_offsets, comm.group.size)?);
        (call.receive, call.receives) =
            (receive as usize, listed(receive_counts, receive_offsets, comm.group.size)?);
    }
    collective(&comm, stream, call)
});

/// This rank's part of a transfer to or from another.
fn transfer(
    comm: &Arc<Communicator>,
    kind: HcclSendRecvType,
    data: *mut c_void,
    count: u64,
    dtype: HcclDataType,
    other: u32,
) -> Outcome<(Key, usize, usize, Call)> {
    let (count, number) = (elements(count)?, number(dtype)?);
    let rank = comm.rank as u32;
    ensure!(
        rank_of(comm, other)? != comm.rank,
        PARA,
        "rank {rank} sends to or receives from itself"
    );
    check_buffer(comm, "the buffer", data as usize)?;
    let mut call = part(Operation::Pair, number);
    match kind {
        HCCL_SEND => {
            (call.send, call.sends) = (data as usize, one(count));
            Ok((comm.next_pair(rank, other), 2, 0, call))
        }
        HCCL_RECV => {
            (call.receive, call.receives) = (data as usize, one(count));
            Ok((comm.next_pair(other, rank), 2, 1, call))
        }
        unknown => fail!(PARA, "a transfer is sent or received, not {}", unknown.0),
    }
}

function!(HcclSend(
    data: *mut c_void, count: u64, dtype: HcclDataType, to: u32, comm: HcclComm, stream: aclrtStream
) {
    let comm = communicator(comm)?;
    ensure!(!stream.is_null(), PTR, "the stream is NULL");
    let part = transfer(&comm, HCCL_SEND, data, count, dtype, to)?;
    enqueue(&comm, stream, vec![part])
});
function!(HcclRecv(
    data: *mut c_void, count: u64, dtype: HcclDataType, from: u32, comm: HcclComm, stream: aclrtStream
) {
    let comm = communicator(comm)?;
    ensure!(!stream.is_null(), PTR, "the stream is NULL");
    let part = transfer(&comm, HCCL_RECV, data, count, dtype, from)?;
    enqueue(&comm, stream, vec![part])
});
function!(HcclBatchSendRecv(items: *mut HcclSendRecvItem, count: u32, comm: HcclComm, stream: aclrtStream) {
    let comm = communicator(comm)?;
    ensure!(!items.is_null() && !stream.is_null(), PTR, "the items or the stream are NULL");
    ensure!(count > 0, PARA, "a batch of no items");
    // SAFETY: the caller vouches for the array.
    let items = unsafe { std::slice::from_raw_parts(items, count as usize) };
    let parts: Outcome<Vec<_>> = items
        .iter()
        .map(|item| transfer(&comm, item.sendRecvType, item.buf, item.count, item.dataType, item.remoteRank))
        .collect();
    enqueue(&comm, stream, parts?)
});
