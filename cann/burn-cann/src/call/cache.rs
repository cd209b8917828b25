//! Executors kept for the next call of the same operator, attributes, shapes, strides and dtypes.
//!
//! Phase one plans tiles and workspace on the host, which takes longer than the work for small tensors. A repeatable
//! executor is planned once; later calls only give it other addresses. An executor serves one call at a time.
//!
//! Many calls never come again. For example, the learning rate of a schedule and the bias corrections of Adam are
//! attributes that differ at every step, for every shape of parameter. As long as there is room, all executors are
//! kept. After that, a call is kept only if it came before, in place of the one used longest ago. So calls that come
//! once displace nothing, however many there are, and calls that come again soon take their places.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use super::executor::Executor;
use crate::tensor::Spec;

/// The default number of kept executors.
const LIMIT: usize = 256;

/// The number of calls that are remembered, by their hashes alone, because they were not kept. It must cover all calls
/// between two equal ones, such as the calls of a training step.
const REMEMBERED: usize = 16_384;

/// A parameter of an operator that is not a tensor.
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
    /// Takes the bits: zeros of either sign are different attributes, which does no harm.
    fn from(value: f64) -> Self {
        Self(value.to_bits())
    }
}

/// The call that an executor was planned for.
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
    /// The number of kept executors.
    pub kept: usize,
    /// The number of calls that found an executor.
    pub hits: u64,
    /// The number of calls that had to be planned.
    pub misses: u64,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    used: u64,
}

/// The answer of the cache for a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kept<T> {
    /// A kept value, which is given back after its use.
    Value(T),
    /// No value yet. The value that the call makes is to be given back.
    Room,
    /// No value. The value that the call makes is not to be given back.
    Nothing,
}

/// A bounded map. A value is taken out for its use and given back after it.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    entries: HashMap<Key, Entry<T>>,
    passed: Passed,
    limit: usize,
    clock: u64,
    hits: u64,
    misses: u64,
}

/// The executors that a device keeps.
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

    /// Takes the value for `key` out, because one value serves one call at a time.
    pub(crate) fn take(&mut self, key: &Key) -> Kept<T> {
        if let Some(entry) = self.entries.remove(key) {
            self.hits += 1;
            return Kept::Value(entry.value);
        }
        self.misses += 1;
        // Values in use leave room too: each call under way displaces at most one other value.
        if self.entries.len() < self.limit || self.passed.came_before(key) {
            return Kept::Room;
        }
        Kept::Nothing
    }

    /// Keeps `value` and returns the value that has no room: the one used longest ago, or another for the same key
    /// from a call at the same time. The caller must drop it outside the lock.
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

/// The latest calls for which nothing was kept.
#[derive(Debug, Default)]
struct Passed {
    hasher: RandomState,
    order: VecDeque<u64>,
    known: HashSet<u64>,
}

impl Passed {
    /// Returns `true` if a call like this one came before and was not kept. Remembers the call.
    ///
    /// Two keys with the same hash count as one. At worst this costs an executor its place.
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

    /// Makes a call as users of the cache do. Returns `true` if it found its value.
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
        // Calls that come once fill the cache first. Then four calls come again and again among them.
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
