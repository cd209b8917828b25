//! Tests of the allocator on a model of a device on which work takes time.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::*;

/// A device whose streams advance only on request.
#[derive(Default)]
struct Model {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    next: usize,
    limit: Option<usize>,
    held: HashMap<Address, usize>,
    /// The work queued and done, by stream.
    queued: HashMap<u64, u64>,
    done: HashMap<u64, u64>,
    /// The work that uses an address last, by stream.
    busy: HashMap<Address, (u64, u64)>,
    /// A stream whose work fails.
    failed: Option<u64>,
}

impl State {
    fn is_busy(&self, address: Address) -> Option<u64> {
        let (stream, work) = *self.busy.get(&address)?;
        (self.done.get(&stream).copied().unwrap_or(0) < work).then_some(stream)
    }
}

impl Model {
    /// Queues work on `stream` that uses `address`.
    fn work(&self, stream: u64, address: Address) {
        let mut state = self.state.borrow_mut();
        let queued = state.queued.entry(stream).or_default();
        *queued += 1;
        let work = *queued;
        state.busy.insert(address, (stream, work));
    }

    fn finish(&self, stream: u64, work: u64) {
        let mut state = self.state.borrow_mut();
        let queued = state.queued.get(&stream).copied().unwrap_or(0);
        let done = state.done.entry(stream).or_default();
        *done = (*done + work).min(queued);
    }

    fn held(&self) -> usize {
        self.state.borrow().held.values().sum()
    }
}

impl Backend for Model {
    type Stream = u64;
    type Event = (u64, u64);
    type Error = &'static str;

    fn allocate(&self, bytes: usize) -> Result<Option<Address>, Self::Error> {
        let held = self.held();
        let mut state = self.state.borrow_mut();
        if state.limit.is_some_and(|limit| held + bytes > limit) {
            return Ok(None);
        }
        state.next += 1 << 20;
        let address = Address(state.next);
        state.held.insert(address, bytes);
        Ok(Some(address))
    }

    fn release(&self, address: Address) {
        let mut state = self.state.borrow_mut();
        assert_eq!(
            state.is_busy(address),
            None,
            "memory was released under a stream's hands"
        );
        assert!(state.held.remove(&address).is_some(), "released twice");
    }

    fn mark(&self, stream: &u64) -> Result<(u64, u64), Self::Error> {
        let queued = self.state.borrow().queued.get(stream).copied().unwrap_or(0);
        Ok((*stream, queued))
    }

    fn passed(&self, (stream, work): &(u64, u64)) -> Result<bool, Self::Error> {
        Ok(self.state.borrow().done.get(stream).copied().unwrap_or(0) >= *work)
    }

    fn synchronise(&self) -> Result<(), Self::Error> {
        let streams: Vec<u64> = self.state.borrow().queued.keys().copied().collect();
        let waited: Vec<_> = streams.iter().map(|stream| self.wait(stream)).collect();
        waited.into_iter().collect()
    }

    fn wait(&self, stream: &u64) -> Result<(), Self::Error> {
        let mut state = self.state.borrow_mut();
        if state.failed == Some(*stream) {
            return Err("its work failed");
        }
        if let Some(&queued) = state.queued.get(stream) {
            state.done.insert(*stream, queued);
        }
        Ok(())
    }
}

fn pool(streams: u64) -> Pool<Model> {
    let mut pool = Pool::default();
    for stream in 0..streams {
        pool.stream_added(StreamId(stream), stream);
    }
    pool
}

#[test]
fn a_block_is_reused_on_its_stream_at_once() {
    let (model, mut pool) = (Model::default(), pool(1));
    let (address, size) = pool.allocate(&model, 1000, StreamId(0)).unwrap();
    model.work(0, address);
    pool.free(address, size, StreamId(0));
    assert_eq!(pool.allocate(&model, 900, StreamId(0)).unwrap().0, address);
    assert_eq!(pool.statistics().device_requests, 1);
}

#[test]
fn a_block_goes_to_another_stream_only_behind_its_last_use() {
    let (model, mut pool) = (Model::default(), pool(2));
    let (address, size) = pool.allocate(&model, 1000, StreamId(0)).unwrap();
    model.work(0, address);
    pool.free(address, size, StreamId(0));
    let (other, _) = pool.allocate(&model, 1000, StreamId(1)).unwrap();
    assert_ne!(other, address, "stream 0 still works on it");
    model.finish(0, 1);
    assert_eq!(pool.allocate(&model, 1000, StreamId(1)).unwrap().0, address);
}

#[test]
fn the_blocks_of_an_ended_stream_serve_all() {
    let (model, mut pool) = (Model::default(), pool(2));
    let (address, size) = pool.allocate(&model, 1000, StreamId(0)).unwrap();
    pool.free(address, size, StreamId(0));
    let lane = pool.stream_gone(StreamId(0)).unwrap();
    pool.lane_is_free(lane);
    assert_eq!(pool.allocate(&model, 1000, StreamId(1)).unwrap().0, address);
}

#[test]
fn want_of_memory_empties_the_cache_once_and_then_is_an_error() {
    let (model, mut pool) = (Model::default(), pool(1));
    model.state.borrow_mut().limit = Some(3 * 4096);
    let small: Vec<_> = (0..3)
        .map(|_| pool.allocate(&model, 4096, StreamId(0)).unwrap())
        .collect();
    for (address, size) in small {
        model.work(0, address);
        pool.free(address, size, StreamId(0));
    }
    let (large, size) = pool.allocate(&model, 3 * 4096, StreamId(0)).unwrap();
    assert_eq!(pool.statistics().flushes, 1);
    assert_eq!(
        (pool.statistics().cached, pool.statistics().in_use),
        (0, size)
    );
    let refused = pool.allocate(&model, 512, StreamId(0));
    assert!(matches!(refused, Err(Refused::OutOfMemory)));
    assert_eq!(pool.statistics().flushes, 2);
    pool.free(large, size, StreamId(0));
    assert_eq!(pool.statistics().in_use, 0);
}

/// One stream's failure must not keep memory from the others.
#[test]
fn a_stream_whose_work_failed_keeps_its_own_blocks_only() {
    let (model, mut pool) = (Model::default(), pool(2));
    let freed = |pool: &mut Pool<Model>, stream| {
        let (address, size) = pool.allocate(&model, 4096, StreamId(stream)).unwrap();
        model.work(stream, address);
        pool.free(address, size, StreamId(stream));
    };
    freed(&mut pool, 0);
    freed(&mut pool, 1);
    model.state.borrow_mut().failed = Some(1);
    pool.flush(&model).unwrap();
    assert_eq!((pool.statistics().cached, model.held()), (4096, 4096));
    // When the stream is gone and idle, its blocks are free for all.
    let lane = pool.stream_gone(StreamId(1)).unwrap();
    pool.lane_is_free(lane);
    model.finish(1, 1);
    pool.allocate(&model, 4096, StreamId(0)).unwrap();
    assert_eq!(pool.statistics().device_requests, 2);
    // If no stream could be waited for, it is an error.
    pool.stream_gone(StreamId(0));
    assert!(pool.flush(&model).is_err());
}

#[test]
fn figures_add_up() {
    let (model, mut pool) = (Model::default(), pool(1));
    let (one, size_one) = pool.allocate(&model, 10_000, StreamId(0)).unwrap();
    let (two, size_two) = pool.allocate(&model, 20_000, StreamId(0)).unwrap();
    pool.free(one, size_one, StreamId(0));
    let figures = pool.statistics();
    assert_eq!((figures.in_use, figures.cached), (size_two, size_one));
    assert_eq!(figures.peak, size_one + size_two);
    pool.reset_peak();
    assert_eq!(pool.statistics().peak, size_two);
    pool.free(two, size_two, StreamId(0));
    pool.flush(&model).unwrap();
    assert_eq!(pool.statistics().cached, 0);
    assert_eq!(model.held(), 0);
}

/// A random generator with the same numbers on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn no_sequence_hands_out_a_block_in_use() {
    // Miri is slow, and runs here to find other faults.
    for seed in 0..if cfg!(miri) { 2 } else { 200 } {
        let (model, mut pool) = (Model::default(), pool(3));
        model.state.borrow_mut().limit = Some(1 << 18);
        let mut random = Random(seed);
        let mut used: Vec<(Address, usize, u64)> = Vec::new();
        for _ in 0..300 {
            let stream = random.below(3);
            match random.below(4) {
                0 | 1 => {
                    let bytes = 1 + random.below(1 << 14) as usize;
                    let Ok((address, size)) = pool.allocate(&model, bytes, StreamId(stream)) else {
                        continue;
                    };
                    let busy = model.state.borrow().is_busy(address);
                    assert!(
                        busy.is_none_or(|other| other == stream),
                        "seed {seed}: in use on {busy:?}"
                    );
                    model.work(stream, address);
                    used.push((address, size, stream));
                }
                2 if !used.is_empty() => {
                    let place = random.below(used.len() as u64) as usize;
                    let (address, size, stream) = used.swap_remove(place);
                    pool.free(address, size, StreamId(stream));
                }
                _ => model.finish(stream, random.below(20)),
            }
            let distinct: HashSet<_> = used.iter().map(|(address, ..)| address).collect();
            assert_eq!(
                distinct.len(),
                used.len(),
                "seed {seed}: one block, two owners"
            );
            let sizes: usize = used.iter().map(|(_, size, _)| size).sum();
            assert_eq!(pool.statistics().in_use, sizes);
            assert_eq!(model.held(), sizes + pool.statistics().cached);
        }
        for (address, size, stream) in used {
            pool.free(address, size, StreamId(stream));
        }
        pool.flush(&model).unwrap();
        assert_eq!(model.held(), 0, "seed {seed}: memory was left");
    }
}
