//! The collectives of MPI, started and tested.

use super::worker::{Worker, reply};
use crate::Error;
use crate::answer::sum_in_order;
use crate::element::{Carried, Element, Summed};
use crate::request::{Call, Reply, Request, total};
use mpi::collective::SystemOperation;
use mpi::datatype::{Partition, PartitionMut};
use mpi::traits::*;

/// The most elements of one call, which MPI counts in a C `int`.
pub(super) const LONGEST: usize = i32::MAX as usize;
/// The elements of a sum or a broadcast that are given to MPI at a time.
const PART: usize = 1 << 28;
/// The lengths of sums whose memory is kept for the next: not those of some flags, and not those of gigabytes.
const KEPT: std::ops::RangeInclusive<usize> = 1 << 16..=1 << 23;

impl Worker {
    /// Returns the sums over all ranks. Where the order of ranks is asked for, one rank adds each part in it, and all
    /// ranks gather the parts: as many bytes as a sum in any order.
    pub(super) fn all_reduce<T: Summed + Equivalence + Default>(&self, values: Vec<T>) -> Vec<T> {
        let mut sums = self.room(values.len());
        for (part, sum) in values.chunks(PART).zip(sums.chunks_mut(PART)) {
            if self.deterministic {
                let counts = shares(part.len(), self.size());
                let own = self.reduce_scatter(part, &counts);
                self.all_gather(&own, &counts, sum);
            } else {
                mpi::request::scope(|scope| {
                    let operation = SystemOperation::sum();
                    self.finish(
                        self.world
                            .immediate_all_reduce_into(scope, part, sum, operation),
                    );
                });
            }
        }
        if KEPT.contains(&values.len()) {
            self.spare.set(Some(T::wrap(values)));
        }
        sums
    }

    /// Returns memory for a sum, whose values don't matter.
    fn room<T: Summed + Default>(&self, len: usize) -> Vec<T> {
        if KEPT.contains(&len)
            && let Some(spare) = self.spare.take()
            && spare.len() == len
            && spare.code() == T::wrap(Vec::new()).code()
        {
            return T::unwrap(spare);
        }
        vec![T::default(); len]
    }

    /// Sends each rank its part, and adds the parts for this rank in the order of ranks.
    pub(super) fn reduce_scatter<T: Summed + Equivalence + Default>(
        &self,
        values: &[T],
        counts: &[usize],
    ) -> Vec<T> {
        let own = counts[self.rank];
        let parts = self.exchange(values, counts, &vec![own; self.size()]);
        match own {
            0 => Vec::new(),
            own => sum_in_order(parts.chunks_exact(own)),
        }
    }

    /// Runs a call that adds nothing.
    pub(super) fn moved<T>(
        &self,
        call: Call,
        values: Vec<T>,
        counts: &[usize],
    ) -> Result<Reply, Error>
    where
        T: Element + Carried + Equivalence + Default,
    {
        Ok(match call {
            Call::AllGather => {
                let mut all = vec![T::default(); counts.iter().sum()];
                self.all_gather(&values, counts, &mut all);
                reply(all)
            }
            Call::AllToAll => {
                let received = self.exchange_counts(counts);
                let values = self.exchange(&values, counts, &received);
                Reply {
                    values: T::wrap(values),
                    counts: received,
                }
            }
            Call::Broadcast { root } => reply(self.broadcast(values, root)),
            // A barrier and a farewell need no more than the comparison of headers.
            _ => Request::empty(Call::Barrier).into_reply(),
        })
    }

    fn all_gather<T: Element + Equivalence + Default>(
        &self,
        values: &[T],
        counts: &[usize],
        all: &mut [T],
    ) {
        let (counts, starts) = places(counts);
        let mut parts = PartitionMut::new(all, counts, starts);
        mpi::request::scope(|scope| {
            self.finish(
                self.world
                    .immediate_all_gather_varcount_into(scope, values, &mut parts),
            );
        });
    }

    fn exchange<T>(&self, values: &[T], sent: &[usize], received: &[usize]) -> Vec<T>
    where
        T: Element + Equivalence + Default,
    {
        let total = total(received);
        if total > LONGEST {
            self.give_up(&format!(
                "it would receive {total} elements, but MPI takes at most {LONGEST} in one call"
            ));
        }
        let mut all = vec![T::default(); total];
        let (counts, starts) = places(sent);
        let from = Partition::new(values, counts, starts);
        let (counts, starts) = places(received);
        let mut into = PartitionMut::new(&mut all[..], counts, starts);
        mpi::request::scope(|scope| {
            self.finish(
                self.world
                    .immediate_all_to_all_varcount_into(scope, &from, &mut into),
            );
        });
        all
    }

    fn exchange_counts(&self, counts: &[usize]) -> Vec<usize> {
        let sent: Vec<u64> = counts.iter().map(|count| *count as u64).collect();
        let mut received = vec![0u64; sent.len()];
        mpi::request::scope(|scope| {
            self.finish(
                self.world
                    .immediate_all_to_all_into(scope, &sent[..], &mut received[..]),
            );
        });
        received.into_iter().map(|count| count as usize).collect()
    }

    fn broadcast<T: Element + Equivalence>(&self, mut values: Vec<T>, root: usize) -> Vec<T> {
        let root = self.world.process_at_rank(root as i32);
        for part in values.chunks_mut(PART) {
            mpi::request::scope(|scope| self.finish(root.immediate_broadcast_into(scope, part)));
        }
        values
    }
}

/// Returns counts and starts of parts that lie one after the other. Their sum was checked to be at most [`LONGEST`].
fn places(counts: &[usize]) -> (Vec<i32>, Vec<i32>) {
    let starts = (0..counts.len()).scan(0, |start, rank| {
        let own = *start;
        *start += counts[rank];
        Some(own as i32)
    });
    (
        counts.iter().map(|count| *count as i32).collect(),
        starts.collect(),
    )
}

/// Divides elements among ranks.
fn shares(len: usize, ranks: usize) -> Vec<usize> {
    (0..ranks)
        .map(|rank| len / ranks + usize::from(rank < len % ranks))
        .collect()
}
