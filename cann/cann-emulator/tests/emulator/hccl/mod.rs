//! Tests of groups of ranks, with a thread and a device each, against the definitions of the collectives.

mod config;
mod processes;
mod refusals;
#[cfg(target_os = "linux")]
mod strangers;
mod work;

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::Barrier;
use std::time::Duration;

use crate::common::{Session, download, each, malloc, message, upload};
use cann_emulator::Config;
use cann_emulator::abi::{hccl::*, runtime::*};
use cann_sys::errors::*;
use cann_sys::hccl::*;

const SUM: HcclReduceOp = HCCL_REDUCE_SUM;

const F32: HcclDataType = HCCL_DATA_TYPE_FP32;

fn session(devices: u32, delay: u64) -> Session {
    Session::with(Config {
        devices,
        delay: Duration::from_millis(delay),
        ..Config::default()
    })
}

fn root() -> HcclRootInfo {
    let mut root = HcclRootInfo {
        internal: [0; HCCL_ROOT_INFO_BYTES as usize],
    };
    // SAFETY: the place is a variable.
    assert_eq!(unsafe { HcclGetRootInfo(&mut root) }, HCCL_SUCCESS);
    root
}

/// A rank: its group, its stream, and memory that is freed at the end.
struct Rank {
    rank: usize,
    ranks: usize,
    comm: HcclComm,
    stream: aclrtStream,
    buffers: std::cell::RefCell<Vec<*mut c_void>>,
}

impl Rank {
    fn buffer<T: Copy>(&self, values: &[T]) -> *mut c_void {
        let address = malloc(size_of_val(values));
        upload(address, values);
        self.buffers.borrow_mut().push(address);
        address
    }

    fn wait(&self) {
        // SAFETY: handles are checked.
        let status = unsafe { aclrtSynchronizeStream(self.stream) };
        assert_eq!(status, 0, "{}", message());
    }

    fn read<T: Copy + Default>(&self, address: *mut c_void, count: usize) -> Vec<T> {
        self.wait();
        download(address, count)
    }
}

#[track_caller]
fn ok(result: HcclResult) {
    assert_eq!(result, HCCL_SUCCESS, "{}", message());
}

/// Runs `work` as a rank of a group, with a device of this process.
fn run(root: &HcclRootInfo, ranks: usize, rank: usize, device: i32, work: impl Fn(&Rank)) {
    let (mut comm, mut stream) = (null_mut(), null_mut());
    // SAFETY: the places are variables, handles are checked.
    unsafe {
        assert_eq!(aclrtSetDevice(device), 0);
        assert_eq!(aclrtCreateStream(&mut stream), 0);
        ok(HcclCommInitRootInfo(
            ranks as u32,
            root,
            rank as u32,
            &mut comm,
        ));
    }
    let this = Rank {
        rank,
        ranks,
        comm,
        stream,
        buffers: Default::default(),
    };
    work(&this);
    // SAFETY: handles are checked.
    unsafe {
        aclrtSynchronizeStream(stream);
        ok(HcclCommDestroy(comm));
        for buffer in this.buffers.take() {
            assert_eq!(aclrtFree(buffer), 0);
        }
        assert_eq!(aclrtDestroyStream(stream), 0);
        assert_eq!(aclrtResetDevice(device), 0);
    }
}

/// Runs `work` as every rank of a group, each in a thread with a device.
fn group(ranks: usize, work: impl Fn(&Rank) + Sync) {
    let root = root();
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            let (root, work) = (&root, &work);
            scope.spawn(move || run(root, ranks, rank, rank as i32, work));
        }
    });
}

/// Returns the values that rank `rank` brings.
fn brings(rank: usize, count: usize) -> Vec<f32> {
    (0..count)
        .map(|at| (rank * 100 + at) as f32 - 7.5)
        .collect()
}

#[test]
fn a_group_knows_itself() {
    let session = session(3, 0);
    group(3, |this| {
        let (mut ranks, mut rank, mut error) = (0, 0, HCCL_E_INTERNAL);
        let mut name = [0; 128];
        // SAFETY: the places are variables.
        unsafe {
            ok(HcclGetRankSize(this.comm, &mut ranks));
            ok(HcclGetRankId(this.comm, &mut rank));
            ok(HcclGetCommName(this.comm, name.as_mut_ptr()));
            ok(HcclGetCommAsyncError(this.comm, &mut error));
            let name = CStr::from_ptr(name.as_ptr()).to_string_lossy();
            assert!(name.starts_with("cann_emulator_group_"), "{name}");
        }
        assert_eq!((ranks, rank as usize, error), (3, this.rank, HCCL_SUCCESS));
    });
    assert_eq!(session.end(), Vec::<String>::new());
}

#[test]
fn every_collective_of_two_and_of_three_ranks() {
    for (ranks, delay) in [(2, 0), (3, 2), (1, 0)] {
        let session = session(ranks as u32, delay);
        group(ranks, work::every_collective);
        assert_eq!(session.end(), Vec::<String>::new());
    }
}

#[test]
fn ranks_may_send_different_numbers_of_elements() {
    let _session = session(2, 0);
    group(2, work::different_counts);
}

#[test]
fn reductions_of_every_type() {
    let _session = session(3, 0);
    group(3, work::every_reduction);
}

#[test]
fn transfers_meet_in_their_order_whatever_the_ranks_do_first() {
    let session = session(2, 1);
    group(2, work::transfers);
    assert_eq!(session.end(), Vec::<String>::new());
}

#[test]
fn one_thread_has_the_communicators_of_all_devices() {
    let session = session(2, 0);
    let (mut devices, mut comms) = ([1, 0], [null_mut(); 2]);
    // SAFETY: the arrays are variables, handles are checked.
    unsafe {
        let mut twice = [0, 0];
        let result = HcclCommInitAll(2, twice.as_mut_ptr(), comms.as_mut_ptr());
        assert_eq!(result, HCCL_E_PARA);
        assert!(message().contains("twice"));
        ok(HcclCommInitAll(2, devices.as_mut_ptr(), comms.as_mut_ptr()));
        let mut parts = Vec::new();
        for (rank, device) in devices.into_iter().enumerate() {
            let mut stream = null_mut();
            assert_eq!(aclrtSetDevice(device), 0);
            assert_eq!(aclrtCreateStream(&mut stream), 0);
            let data = malloc(4);
            upload(data, &[rank as f32 + 1.0]);
            ok(HcclAllReduce(data, data, 1, F32, SUM, comms[rank], stream));
            parts.push((device, stream, data));
        }
        for (rank, (device, stream, data)) in parts.into_iter().enumerate() {
            assert_eq!(aclrtSetDevice(device), 0);
            assert_eq!(aclrtSynchronizeStream(stream), 0);
            assert_eq!(download::<f32>(data, 1), [3.0]);
            assert_eq!(aclrtFree(data), 0);
            assert_eq!(aclrtDestroyStream(stream), 0);
            ok(HcclCommDestroy(comms[rank]));
            assert_eq!(HcclCommDestroy(comms[rank]), HCCL_E_PARA);
        }
    }
    assert_eq!(session.end(), Vec::<String>::new());
}
