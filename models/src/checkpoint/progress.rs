//! The progress of a load.

use burn::module::Param;
use burn::tensor::Tensor;

use super::check::stored_ways;
use super::shards::Shards;
use crate::parameters::layout::Part;
use crate::parameters::{Configured, ParameterInfo, Visit, walk};

/// The part of a checkpoint that has been read; see [`load_with`](crate::load_with).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The number of bytes of tensors that have been read.
    pub read: u64,
    /// The number of bytes of all tensors of the model in the checkpoint.
    pub total: u64,
}

/// Counts the bytes of a load.
pub(super) struct Counter<'a> {
    progress: Progress,
    report: &'a mut dyn FnMut(Progress),
}

impl<'a> Counter<'a> {
    pub(super) fn new(
        shards: &Shards,
        model: &impl Configured,
        report: &'a mut dyn FnMut(Progress),
    ) -> Self {
        let mut sum = Sum { shards, total: 0 };
        walk(model, &mut sum);
        let progress = Progress {
            read: 0,
            total: sum.total,
        };
        report(progress);
        Self { progress, report }
    }

    /// Adds the tensors of a parameter.
    pub(super) fn add(&mut self, shards: &Shards, parts: &[Part]) {
        self.progress.read += bytes(shards, parts);
        (self.report)(self.progress);
    }
}

fn bytes(shards: &Shards, parts: &[Part]) -> u64 {
    parts.iter().map(|part| shards.bytes_of(&part.name)).sum()
}

/// The number of bytes of the tensors that a load reads.
struct Sum<'a> {
    shards: &'a Shards,
    total: u64,
}

impl Visit for Sum<'_> {
    fn visit<const D: usize>(&mut self, info: &ParameterInfo, param: &Param<Tensor<D>>) {
        let shape = param.lazy_shape();
        if let Some(parts) = stored_ways(self.shards, info, shape.as_slice()).pop() {
            self.total += bytes(self.shards, &parts);
        }
    }
}
