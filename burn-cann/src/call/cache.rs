//! Executors kept for the next call of the same operator, attributes, shapes, strides and dtypes.
//!
//! Phase one plans tiles and workspace on the host, which for small tensors takes longer than the work. A
//! repeatable executor is planned once; later calls only give it other addresses.
//!
//! Many calls never come again: the learning rate of a schedule and the bias corrections of Adam are attributes, other
//! ones at every step, for every shape of parameter. As long as there is room, all are kept. After that a call has to
//! have come before to be kept, and takes the place of the one used longest ago: so calls that come once displace
//! nothing, however many there are, and what they once filled is soon taken by those that come again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use super::executor::Executor;
use crate::tensor::Spec;

/// How many executors are kept unless somebody asks for another number.
const LIMIT: usize = 256;

/// How many calls that were not kept are remembered, by their hashes alone: as many as come between two of the same,
/// such as the calls of a training step.
const REMEMBERED: usize = 16_384;

/// A parameter of an operator that is no tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Attribute(u64);

impl From<i64> for Attribute {
    fn from(value: i64) -> Self {
        Self(value.cast_unsigned())
    }
}

impl From<bool> for Attribute {
    fn from(value: bool) -> Self {
        Self(value.into())
    }
}

impl From<f64> for Attribute {
    /// By its bits: zeros of either sign are different attributes, which is harmless.
    fn from(value: f64) -> Self {
        Self(value.to_bits())
    }
}

/// What an executor was planned for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) operator: &'static str,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) operands: Vec<Spec>,
}

/// Figures of a device's executors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutorStatistics {
    /// Executors that are kept.
    pub kept: usize,
    /// Calls that found one.
    pub hits: u64,
    /// Calls that were planned.
    pub misses: u64,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    used: u64,
}

/// What is kept for a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kept<T> {
    /// This, to be given back after its use.
    Value(T),
    /// Nothing yet: what the call makes is to be given back.
    Room,
    /// Nothing, and what the call makes is not to be given back.
    Nothing,
}

/// A bounded map from which a value is taken for its use and given back after.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    entries: HashMap<Key, Entry<T>>,
    passed: Passed,
    limit: usize,
    clock: u64,
    hits: u64,
    misses: u64,
}

/// The executors of a device.
pub(crate) type ExecutorCache = Cache<Executor>;

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            passed: Passed::default(),
            limit: LIMIT,
            clock: 0,
            hits: 0,
            misses: 0,
        }
    }
}

impl<T> Cache<T> {
    pub(crate) fn is_on(&self) -> bool {
        self.limit > 0
    }

    /// Takes the value for `key` out: one value serves one call at a time.
    pub(crate) fn take(&mut self, key: &Key) -> Kept<T> {
        if let Some(entry) = self.entries.remove(key) {
            self.hits += 1;
            return Kept::Value(entry.value);
        }
        self.misses += 1;
        // Values that are out leave room too: then at most as many others as calls are under way displace one.
        if self.entries.len() < self.limit || self.passed.came_before(key) {
            return Kept::Room;
        }
        Kept::Nothing
    }

    /// Keeps `value`, and gives back what has no room: the one used longest ago, or another for the same
    /// key from a call at the same time. To be dropped outside the lock.
    #[must_use]
    pub(crate) fn give_back(&mut self, key: Key, value: T) -> Option<T> {
        if self.limit == 0 {
            return Some(value);
        }
        self.clock += 1;
        let used = self.clock;
        if let Some(other) = self.entries.insert(key, Entry { value, used }) {
            return Some(other.value);
        }
        (self.entries.len() > self.limit)
            .then(|| self.evict())
            .flatten()
    }

    #[must_use]
    pub(crate) fn set_limit(&mut self, limit: usize) -> Vec<T> {
        self.limit = limit;
        let surplus = self.entries.len().saturating_sub(limit);
        (0..surplus).filter_map(|_| self.evict()).collect()
    }

    #[must_use]
    pub(crate) fn clear(&mut self) -> Vec<T> {
        self.entries.drain().map(|(_, entry)| entry.value).collect()
    }

    pub(crate) fn statistics(&self) -> ExecutorStatistics {
        ExecutorStatistics {
            kept: self.entries.len(),
            hits: self.hits,
            misses: self.misses,
        }
    }

    fn evict(&mut self) -> Option<T> {
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
        let key = oldest.map(|(key, _)| key.clone())?;
        self.entries.remove(&key).map(|entry| entry.value)
    }
}

/// Calls for which nothing was kept, the latest of them.
#[derive(Debug, Default)]
struct Passed {
    hasher: RandomState,
    order: VecDeque<u64>,
    known: HashSet<u64>,
}

impl Passed {
    /// Whether a call like this one was not kept before; from now on that is known.
    ///
    /// Two keys of one hash count as one, which costs an executor its place at worst.
    fn came_before(&mut self, key: &Key) -> bool {
        let hash = self.hasher.hash_one(key);
        if !self.known.insert(hash) {
            return true;
        }
        self.order.push_back(hash);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Layout};

    fn key(size: usize) -> Key {
        Key {
            operator: "aclnnTest",
            attributes: vec![1.into(), 1e-6.into()],
            operands: vec![Spec::contiguous(DType::F32, [size]).unwrap()],
        }
    }

    #[test]
    fn a_value_serves_one_call_at_a_time() {
        let mut cache = Cache::default();
        assert_eq!(cache.take(&key(1)), Kept::Room);
        assert_eq!(cache.give_back(key(1), 10), None);
        assert_eq!(cache.take(&key(1)), Kept::Value(10));
        assert_eq!(cache.take(&key(1)), Kept::Room);
        assert_eq!(cache.give_back(key(1), 10), None);
        assert_eq!(cache.give_back(key(1), 11), Some(10));
        let figures = cache.statistics();
        assert_eq!((figures.kept, figures.hits, figures.misses), (1, 1, 2));
    }

    #[test]
    fn the_one_used_longest_ago_makes_room() {
        let mut cache = Cache::default();
        assert!(cache.set_limit(2).is_empty());
        for value in [1, 2] {
            assert_eq!(cache.give_back(key(value), value), None);
        }
        assert_eq!(cache.take(&key(1)), Kept::Value(1));
        assert_eq!(cache.give_back(key(1), 1), None);
        assert_eq!(cache.give_back(key(3), 3), Some(2));
        assert_eq!(cache.set_limit(0).len(), 2);
        assert_eq!(cache.give_back(key(4), 4), Some(4));
    }

    /// A call, as those who use the cache make it: whether it found its value.
    fn call(cache: &mut Cache<usize>, size: usize) -> bool {
        match cache.take(&key(size)) {
            Kept::Value(value) => {
                assert_eq!(value, size);
                let _ = cache.give_back(key(size), value);
                true
            }
            Kept::Room => {
                let _ = cache.give_back(key(size), size);
                false
            }
            Kept::Nothing => false,
        }
    }

    #[test]
    fn calls_that_come_once_displace_nothing() {
        let mut cache = Cache::default();
        assert!(cache.set_limit(8).is_empty());
        // They come first and fill it; then four that come again and again among them.
        let mut next = 100..;
        let mut once = |cache: &mut Cache<usize>, count: usize| {
            for size in next.by_ref().take(count) {
                assert!(!call(cache, size));
            }
        };
        once(&mut cache, 50);
        for round in 0..1000 {
            for size in 1..=4 {
                assert_eq!(call(&mut cache, size), round > 1, "{size} in round {round}");
            }
            once(&mut cache, 20);
        }
        assert_eq!(cache.statistics().kept, 8);
        assert_eq!(cache.statistics().hits, 4 * 998);
    }

    #[test]
    fn what_changes_makes_room_for_what_comes_now() {
        let mut cache = Cache::default();
        assert!(cache.set_limit(4).is_empty());
        for size in [1..5, 11..15] {
            for round in 0..5 {
                for size in size.clone() {
                    let found = call(&mut cache, size);
                    assert_eq!(found, round > 1 || (round == 1 && size < 5), "{size}");
                }
            }
        }
    }

    #[test]
    fn the_memory_of_calls_is_bounded() {
        let mut passed = Passed::default();
        for size in 0..3 * REMEMBERED {
            assert!(!passed.came_before(&key(size)));
        }
        assert_eq!(passed.order.len(), REMEMBERED);
        assert_eq!(passed.known.len(), REMEMBERED);
        assert!(passed.came_before(&key(3 * REMEMBERED - 1)));
        assert!(!passed.came_before(&key(0)));
    }

    #[test]
    fn every_part_of_the_description_matters() {
        let base = key(4);
        let mut other = base.clone();
        other.attributes[1] = 1e-5.into();
        assert_ne!(base, other);
        let mut other = base.clone();
        other.operands[0].dtype = DType::F16;
        assert_ne!(base, other);
        for layout in [
            Layout::strided([4], [2], 0).unwrap(),
            Layout::strided([4], [1], 4).unwrap(),
            Layout::contiguous([2, 2]).unwrap(),
        ] {
            let mut other = base.clone();
            other.operands[0].layout = layout;
            assert_ne!(base, other);
        }
    }
}
