//! The results of calls, from the values of all ranks.

use crate::element::{Carried, Element, Summed, Values};
use crate::request::{Call, Reply, Request, compare};
use crate::{Error, digest};
use std::ops::Range;
use std::sync::Arc;

/// Returns the result of a call for one rank, from the requests of all ranks, in their order.
pub(crate) fn answer(
    requests: &[Arc<Request>],
    rank: usize,
    names: &[String],
) -> Result<Reply, Error> {
    let headers: Vec<_> = requests.iter().map(|request| request.header()).collect();
    compare(&headers, names)?;
    if let Call::Agree(_) = requests[rank].call {
        digest::compare(&digests(requests), names)?;
        return Ok(Request::empty(Call::Barrier).into_reply());
    }
    Ok(match &requests[rank].values {
        Values::F32(_) => sum_or_move::<f32>(requests, rank),
        Values::F64(_) => sum_or_move::<f64>(requests, rank),
        Values::U64(_) => sum_or_move::<u64>(requests, rank),
        Values::U8(_) => moved::<u8>(requests, rank),
    })
}

fn digests(requests: &[Arc<Request>]) -> Vec<(String, Vec<u8>)> {
    let item = |request: &Arc<Request>| match (&request.call, &request.values) {
        (Call::Agree(what), Values::U8(digest)) => (what.clone(), digest.clone()),
        other => unreachable!("compared before: {other:?}"),
    };
    requests.iter().map(item).collect()
}

fn sum_or_move<T: Summed>(requests: &[Arc<Request>], rank: usize) -> Reply {
    let own = &requests[rank];
    let range = match own.call {
        Call::AllReduce => 0..own.values.len(),
        Call::ReduceScatter => segment(&own.counts, rank),
        _ => return moved::<T>(requests, rank),
    };
    let values = sum_in_order(
        requests
            .iter()
            .map(|request| &slice::<T>(request)[range.clone()]),
    );
    reply(values, Vec::new())
}

fn moved<T: Element>(requests: &[Arc<Request>], rank: usize) -> Reply {
    match requests[rank].call {
        Call::AllGather => reply(
            requests
                .iter()
                .flat_map(|r| slice::<T>(r))
                .copied()
                .collect(),
            Vec::new(),
        ),
        Call::AllToAll => {
            let part = |r: &Arc<Request>| slice::<T>(r)[segment(&r.counts, rank)].to_vec();
            let counts = requests.iter().map(|r| r.counts[rank]).collect();
            reply(requests.iter().flat_map(part).collect(), counts)
        }
        Call::Broadcast { root } => reply(slice::<T>(&requests[root]).to_vec(), Vec::new()),
        _ => Request::empty(Call::Barrier).into_reply(),
    }
}

/// Adds the values of ranks, in the order of the ranks. They have one length.
pub(crate) fn sum_in_order<'a, T: Summed>(mut ranks: impl Iterator<Item = &'a [T]>) -> Vec<T> {
    let mut sum = ranks.next().unwrap_or(&[]).to_vec();
    for values in ranks {
        for (sum, value) in sum.iter_mut().zip(values) {
            *sum = sum.plus(*value);
        }
    }
    sum
}

/// Returns the places of one rank's values, in values laid out by rank.
pub(crate) fn segment(counts: &[usize], rank: usize) -> Range<usize> {
    let start = counts[..rank].iter().sum();
    start..start + counts[rank]
}

fn slice<T: Element>(request: &Request) -> &[T] {
    T::view(&request.values)
}

fn reply<T: Carried>(values: Vec<T>, counts: Vec<usize>) -> Reply {
    let values = T::wrap(values);
    Reply { values, counts }
}

impl Request {
    /// Returns the values as they are.
    pub(crate) fn into_reply(self) -> Reply {
        let Self { values, counts, .. } = self;
        Reply { values, counts }
    }
}
