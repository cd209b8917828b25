//! Experts divided among devices.
//!
//! Each part of a batch is on its own device, and each shard of the experts too. A part sorts its tokens by expert, which
//! makes the rows of a shard adjacent, and sends every shard its rows. The shards compute the rows of all parts, and
//! send the results back. So each part sends to each shard and each shard to each part (all-to-all), and the backward
//! pass does the same in the other direction.

use super::{KERNEL, Weights, check, fused, reference};
use crate::ops::moe::steps::SHARD;
use crate::ops::moe::{Permuted, moe_permute, moe_unpermute};
use crate::ops::operands::checked;
use crate::semantics::MoeExpertsKey;
use burn::tensor::{Device, Int, Tensor, TensorData};
use std::ops::Range;

/// The tokens of a part of a batch, on one device.
#[derive(Clone, Debug)]
pub struct Part {
    /// The tokens, `[T, H]`.
    pub x: Tensor<2>,
    /// The experts of each token, `[T, k]`, counted over all shards.
    pub indices: Tensor<2, Int>,
    /// The weights of these experts, `[T, k]`, in the dtype of `x` or in f32.
    pub routing: Tensor<2>,
}

/// Computes the experts of a mixture that are divided among devices. Returns the result of each part, with the shape, dtype
/// and device of its tokens.
///
/// `shards` are the experts in their order: the first shard has the experts from 0 on, and so on. Shards may have
/// different numbers of experts, and parts different numbers of tokens. Each shard's tensors are on one device. A part
/// and a shard may share a device. The results and gradients are those of [`fused`](super::fused()) with all experts on
/// one device, except that the results of half types are rounded once more, before they are weighted. An expert without
/// rows has zero gradients here too, if there is a token at all.
///
/// Each device uses its fused kernels, and the reference where it has none or the policy says so; the report counts both.
/// A transfer needs the number of its rows, so
/// the host waits for one small tensor of each part, and for the indices where a reference reads them. Burn moves
/// tensors between its remote devices, as NPUs are, by way of the host.
///
/// # Panics
/// Panics if there is no shard, if shapes or dtypes don't fit together, or if operands don't match the key. Except on
/// an NPU, also panics if an index is below 0 or above the number of all experts; that number itself means no expert at
/// all.
pub fn sharded(
    parts: Vec<Part>,
    shards: &[Weights],
    limit: Option<f64>,
    key: MoeExpertsKey,
) -> Vec<Tensor<2>> {
    assert!(!shards.is_empty(), "experts: there is no shard");
    for Part {
        x,
        indices,
        routing,
    } in &parts
    {
        for shard in shards {
            checked(check(x, indices, routing, shard, limit, key).dtype());
        }
    }
    if parts.is_empty() {
        return Vec::new();
    }
    let experts = shards.iter().map(Weights::experts).sum();
    let mut parts: Vec<_> = parts
        .into_iter()
        .map(|part| Sender::new(part, experts))
        .collect();
    let mut first = 0;
    for weights in shards {
        let shard = Shard {
            weights,
            experts: first..first + weights.experts(),
            device: weights.device(),
            limit,
            key,
        };
        first = shard.experts.end;
        shard.run(&mut parts);
    }
    parts.into_iter().map(Sender::result).collect()
}

/// A part of a batch, sorted by expert.
struct Sender {
    device: Device,
    permuted: Permuted,
    routing: Tensor<2>,
    /// The number of rows of each expert.
    counts: Vec<usize>,
    /// The results of the shards so far, in the order of the rows.
    results: Vec<Tensor<2>>,
    /// The sum of the results of rows that no token has.
    unused: Option<Tensor<2>>,
}

impl Sender {
    fn new(part: Part, experts: usize) -> Self {
        let device = part.x.device();
        let permuted = moe_permute(part.x, part.indices, experts, None);
        let counts = permuted.counts.clone().into_data();
        Self {
            device,
            routing: part.routing,
            counts: counts.iter::<i64>().map(|count| count as usize).collect(),
            permuted,
            results: Vec::new(),
            unused: None,
        }
    }

    fn has_slots(&self) -> bool {
        self.routing.shape().num_elements() > 0
    }

    /// Returns the number of rows of some experts.
    fn count(&self, experts: &Range<usize>) -> usize {
        self.counts[experts.clone()].iter().sum()
    }

    /// Returns the rows of some experts, of which there is at least one, on another device.
    fn rows(&self, experts: &Range<usize>, device: &Device) -> Tensor<2> {
        let start = self.count(&(0..experts.start));
        let rows = self.permuted.rows.clone();
        rows.slice_dim(0, start..start + self.count(experts))
            .to_device(device)
    }

    /// Returns the expert of each of these rows, counted from the first of these experts.
    fn numbers(&self, experts: &Range<usize>) -> impl Iterator<Item = i64> {
        let counts = self.counts[experts.clone()].iter().enumerate();
        counts.flat_map(|(expert, count)| std::iter::repeat_n(expert as i64, *count))
    }

    /// Adds up the results of each token.
    fn result(self) -> Tensor<2> {
        let Self {
            permuted,
            routing,
            mut results,
            unused,
            ..
        } = self;
        // No slot has this row: the entry of a slot without a row is the number of all slots, and where there is such a
        // slot, the rows here are not more than that.
        results.extend(unused);
        let rows = match results.is_empty() {
            true => permuted.rows,
            false => Tensor::cat(results, 0),
        };
        moe_unpermute(rows, permuted.row_map, Some(routing))
    }
}

/// A shard, with its experts among those of all shards.
struct Shard<'a> {
    weights: &'a Weights,
    experts: Range<usize>,
    device: Device,
    limit: Option<f64>,
    key: MoeExpertsKey,
}

impl Shard<'_> {
    /// Computes the rows that the parts have for the shard.
    fn run(&self, parts: &mut [Sender]) {
        let of_parts: Vec<usize> = parts.iter().map(|part| part.count(&self.experts)).collect();
        if of_parts.iter().all(|count| *count == 0) {
            return self.run_unused(parts);
        }
        let senders = || parts.iter().filter(|part| part.count(&self.experts) > 0);
        let rows = senders().map(|part| part.rows(&self.experts, &self.device));
        let rows = Tensor::cat(rows.collect(), 0);
        let of_rows: Vec<i64> = senders()
            .flat_map(|part| part.numbers(&self.experts))
            .collect();
        let y = self.compute(rows, of_rows);
        let mut start = 0;
        for (part, count) in parts.iter_mut().zip(of_parts) {
            if count > 0 {
                let rows = y.clone().slice_dim(0, start..start + count);
                part.results.push(rows.to_device(&part.device));
                start += count;
            }
        }
    }

    /// Computes a row of zeros, so that the weights have gradients, of zero.
    fn run_unused(&self, parts: &mut [Sender]) {
        let Some(part) = parts.iter_mut().find(|part| part.has_slots()) else {
            return;
        };
        let row = part.permuted.rows.clone().slice_dim(0, 0..1).zeros_like();
        let y = self.compute(row.to_device(&self.device), vec![0]);
        let y = y.to_device(&part.device);
        part.unused = Some(match part.unused.take() {
            Some(unused) => unused + y,
            None => y,
        });
    }

    /// Computes rows of which each has one expert of the shard.
    fn compute(&self, rows: Tensor<2>, experts: Vec<i64>) -> Tensor<2> {
        let (dtype, shape) = (rows.dtype(), [experts.len(), 1]);
        let indices: Tensor<2, Int> =
            Tensor::from_data(TensorData::new(experts, shape), &rows.device().inner());
        let routing = Tensor::ones(shape, (&rows.device(), dtype));
        let weights = || self.weights.clone();
        let (x, chosen, ones) = (rows.clone(), indices.clone(), routing.clone());
        SHARD.run(
            KERNEL,
            &[&rows.clone().into_dispatch()],
            || fused(x, chosen, ones, weights(), self.limit, self.key),
            || reference(rows, indices, routing, weights(), self.limit, self.key),
        )
    }
}
