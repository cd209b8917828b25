//! Reductions over several devices of a server, each in the session of its device.

use super::size::{Need, like, sum};
use super::work::Operands;
use super::{Bounded, Host};
use burn::backend::distributed::{CollectiveTensor, DistributedOps, ReduceOperation};
use burn::backend::tensor::{Device, FloatTensor};
use burn::backend::{Device as BurnDevice, DeviceId};

impl<B: Host> DistributedOps<Self> for Bounded<B> {
    fn all_reduce(
        tensor: FloatTensor<Self>,
        operation: ReduceOperation,
        devices: Vec<DeviceId>,
    ) -> CollectiveTensor<Self> {
        // The sum, and the mean beside it.
        let need = Need::from(sum([like(&tensor), like(&tensor)]));
        let mut operands = Operands::new("all_reduce");
        let tensor = operands.open(tensor);
        let running = operands.begin(need);
        let devices: Vec<_> = devices.into_iter().map(B::Device::from_id).collect();
        let reduced = B::reduce_together(tensor, operation, &devices);
        let reduced = reduced.unwrap_or_else(|why| panic!("all_reduce: {why}"));
        CollectiveTensor::new(running.end(reduced))
    }

    /// Does nothing, because a backend's later work has the result.
    fn sync_collective(_device: &Device<Self>) {}
}
