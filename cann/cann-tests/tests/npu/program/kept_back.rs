//! Reductions over emulated NPUs whose parts Burn's client keeps back.

use super::alone;
use burn::tensor::distributed::{ReduceOperation, all_reduce};
use burn::tensor::{Device, Tensor};
use burn_kernels::npu;
use std::sync::mpsc;
use std::thread;

fn sum(part: f32, on: &Device, devices: &[Device]) -> Tensor<1> {
    let part = Tensor::<1>::from_data([part], on);
    all_reduce(part, ReduceOperation::Sum, devices.to_vec()).resolve()
}

fn read(sum: Tensor<1>) -> Vec<f32> {
    sum.into_data().try_into_vec().unwrap()
}

/// Reads one part of a sum while the thread of the other part has neither read nor flushed it, as a worker of Burn's `Learner`
/// does whose neighbour's metrics are behind.
#[test]
fn a_part_that_nobody_waits_for_is_sent() {
    alone(&[], || {
        let devices = npu::devices().unwrap();
        let (told, tell) = mpsc::channel();
        thread::scope(|scope| {
            let devices = &devices;
            let other = scope.spawn(move || {
                let sum = sum(2.0, &devices[1], devices);
                tell.recv().unwrap();
                read(sum)
            });
            assert_eq!(read(sum(1.0, &devices[0], devices)), [3.0]);
            told.send(()).unwrap();
            assert_eq!(other.join().unwrap(), [3.0]);
        });
    });
}
