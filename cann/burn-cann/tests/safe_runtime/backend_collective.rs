//! Tests of the backend's reductions over several NPUs: sums, means, parties, and threads that end.

use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use crate::common::Scenario;
use burn_backend::distributed::{DistributedOps, ReduceOperation};
use burn_backend::ops::FloatTensorOps;
use burn_backend::{FloatDType, TensorData, read_sync};
use burn_cann::Cann;
use burn_cann::backend::{self, CannBackend, CannDevice, CannTensor, all_reduce};

fn with(cann: &Cann, body: impl FnOnce()) {
    backend::install(cann.clone());
    body();
    backend::close();
}

fn tensor(values: &[f32], index: u16) -> CannTensor {
    CannBackend::float_from_data(TensorData::from(values), &CannDevice::new(index))
}

fn data(tensor: CannTensor) -> Vec<f32> {
    let wide = CannBackend::float_cast(tensor, FloatDType::F32);
    let data = read_sync(CannBackend::float_into_data(wide)).expect("a read");
    data.try_to_vec().expect("of f32")
}

fn pair() -> [CannDevice; 2] {
    [CannDevice::new(0), CannDevice::new(1)]
}

#[test]
fn sums_and_means_are_those_of_all_npus() {
    Scenario::new().run(|cann| {
        with(cann, || {
            let dtypes = [FloatDType::F32, FloatDType::BF16, FloatDType::F16];
            for (dtype, operation, expected) in dtypes.into_iter().flat_map(|dtype| {
                [
                    (dtype, ReduceOperation::Sum, [4.0, 1.0]),
                    (dtype, ReduceOperation::Mean, [2.0, 0.5]),
                ]
            }) {
                let parts = [[1.0, 2.0], [3.0, -1.0]];
                // Each names the devices in another order.
                let reduced: Vec<_> = (0..2u16)
                    .map(|index| {
                        let x = CannBackend::float_cast(
                            tensor(&parts[usize::from(index)], index),
                            dtype,
                        );
                        let mut devices = pair();
                        devices.rotate_left(index.into());
                        all_reduce(x, operation, &devices).unwrap()
                    })
                    .collect();
                for found in reduced {
                    assert_eq!(data(found), expected, "{dtype:?} {operation:?}");
                }
            }
            // The sum of f16 has no room for this, and the mean has.
            let large = |index| {
                let x = CannBackend::float_cast(tensor(&[60000.0], index), FloatDType::F16);
                all_reduce(x, ReduceOperation::Mean, &pair()).unwrap()
            };
            let [one, other] = [large(0), large(1)].map(data);
            assert_eq!((one[0], other[0]), (60000.0, 60000.0));
            let alone = all_reduce(tensor(&[3.0], 1), ReduceOperation::Mean, &pair()[1..]).unwrap();
            assert_eq!(data(alone), [3.0]);
            assert_eq!(backend::fallbacks(), []);
        });
    });
}

#[test]
fn lists_that_make_no_sense_are_refused() {
    Scenario::new().run(|cann| {
        with(cann, || {
            let [zero, one] = pair();
            for devices in [&[one][..], &[zero, zero, one], &[]] {
                let reduced = all_reduce(tensor(&[1.0], 0), ReduceOperation::Sum, devices);
                let said = reduced.unwrap_err().to_string();
                assert!(said.contains("NPU 0 reduces with"), "{said}");
            }
            let beyond = [zero, CannDevice::new(7)];
            let reduced = all_reduce(tensor(&[1.0], 0), ReduceOperation::Sum, &beyond);
            assert!(
                reduced
                    .unwrap_err()
                    .to_string()
                    .contains("NPU 7 does not exist")
            );
        });
    });
}

/// Reduces once on one NPU in a thread with streams of its own, as a server's session does. It begins when all others have
/// joined their parties.
fn session(
    index: u16,
    party: Option<u64>,
    value: f32,
    joined: &Arc<Barrier>,
) -> thread::JoinHandle<Result<Vec<f32>, String>> {
    let joined = joined.clone();
    thread::spawn(move || {
        backend::own_streams();
        if let Some(party) = party {
            backend::join_party(party, CannDevice::new(index));
        }
        joined.wait();
        let reduced = all_reduce(tensor(&[value], index), ReduceOperation::Sum, &pair());
        let read = reduced.map(data).map_err(|error| error.to_string());
        backend::give_streams_back();
        read
    })
}

/// Two clients reduce on the same NPUs at the same time, and neither gets numbers of the other.
#[test]
fn parties_do_not_mix() {
    let scenario = Scenario::new().set("CANN_EMULATOR_DELAY_US", 300);
    scenario.run(|cann| {
        with(cann, || {
            let sessions = [(0, 1, 1.0), (1, 2, 20.0), (0, 2, 10.0), (1, 1, 2.0)];
            let joined = Arc::new(Barrier::new(sessions.len()));
            let threads =
                sessions.map(|(index, party, value)| session(index, Some(party), value, &joined));
            let found = threads.map(|thread| thread.join().unwrap().unwrap());
            assert_eq!(found, [[3.0], [30.0], [30.0], [3.0]]);
            let alone = Arc::new(Barrier::new(1));
            let said = session(0, None, 1.0, &alone).join().unwrap().unwrap_err();
            assert!(
                said.contains("connect to the server with burn-kernels"),
                "{said}"
            );
        });
    });
}

/// A thread ends before its part, and the other's read fails. Later threads begin anew.
#[test]
fn a_thread_that_ends_is_an_error_of_the_other() {
    let scenario = Scenario::new().leaks();
    scenario.run(|cann| {
        with(cann, || {
            let (go, wait) = mpsc::channel();
            let joined = Arc::new(Barrier::new(2));
            let both = joined.clone();
            let first = thread::spawn(move || {
                backend::own_streams();
                backend::join_party(5, CannDevice::new(0));
                both.wait();
                let sum = |x| {
                    CannBackend::all_reduce(
                        x,
                        ReduceOperation::Sum,
                        vec![
                            burn_backend::DeviceId::new(0, 1),
                            burn_backend::DeviceId::new(0, 0),
                        ],
                    )
                };
                let once = sum(tensor(&[1.0], 0)).resolve();
                assert_eq!(data(once.clone()), [3.0]);
                wait.recv().unwrap();
                let twice = sum(once).resolve();
                let read = read_sync(CannBackend::float_into_data(twice));
                backend::give_streams_back();
                read.unwrap_err().to_string()
            });
            let second = session(1, Some(5), 2.0, &joined);
            assert_eq!(second.join().unwrap().unwrap(), [3.0]);
            go.send(()).unwrap();
            let said = first.join().unwrap();
            assert!(
                said.contains("NPU 1 is lost for the group of NPU 0, NPU 1"),
                "{said}"
            );
            let again =
                [(0, 1.0), (1, 4.0)].map(|(index, value)| session(index, Some(5), value, &joined));
            assert_eq!(
                again.map(|thread| thread.join().unwrap().unwrap()),
                [[5.0], [5.0]]
            );
        });
    });
}

/// A thread joins and ends without a reduction, before or after the other's call. The other does not wait for it.
#[test]
fn a_thread_that_never_reduces_is_an_error_of_the_other() {
    let scenario = Scenario::new().leaks();
    scenario.run(|cann| {
        with(cann, || {
            for ends_first in [true, false] {
                let joined = Arc::new(Barrier::new(2));
                let (go, wait) = mpsc::channel();
                let (both, ended) = (joined.clone(), Arc::new(Barrier::new(2)));
                let end = ended.clone();
                let lost = thread::spawn(move || {
                    backend::own_streams();
                    backend::join_party(6, CannDevice::new(0));
                    both.wait();
                    if !ends_first {
                        wait.recv().unwrap();
                    }
                    backend::give_streams_back();
                    if ends_first {
                        end.wait();
                    }
                });
                backend::own_streams();
                backend::join_party(6, CannDevice::new(1));
                joined.wait();
                if ends_first {
                    ended.wait();
                }
                let reduced = all_reduce(tensor(&[1.0], 1), ReduceOperation::Sum, &pair());
                go.send(()).unwrap_or_default();
                let read = reduced.map(|sum| read_sync(CannBackend::float_into_data(sum)));
                let said = match read {
                    Ok(read) => read.unwrap_err().to_string(),
                    Err(error) => error.to_string(),
                };
                backend::give_streams_back();
                lost.join().unwrap();
                let expected =
                    "NPU 0 is lost for the group of NPU 0, NPU 1: its session or thread ended";
                assert!(said.contains(expected), "{said}");
            }
        });
    });
}
