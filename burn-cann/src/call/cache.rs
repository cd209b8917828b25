//! Executors kept for the next call of the same operator, attributes, shapes, strides and dtypes.
//!
//! Phase one plans tiles and workspace on the host, which for small tensors takes longer than the work. A
//! repeatable executor is planned once; later calls only give it other addresses.

use std::collections::HashMap;

use super::executor::Executor;
use crate::tensor::Spec;

/// How many executors are kept unless somebody asks for another number.
const LIMIT: usize = 256;

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

/// A bounded map from which a value is taken for its use and given back after.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    entries: HashMap<Key, Entry<T>>,
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
    pub(crate) fn take(&mut self, key: &Key) -> Option<T> {
        let found = self.entries.remove(key).map(|entry| entry.value);
        match found {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        found
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
        assert_eq!(cache.take(&key(1)), None);
        assert_eq!(cache.give_back(key(1), 10), None);
        assert_eq!(cache.take(&key(1)), Some(10));
        assert_eq!(cache.take(&key(1)), None);
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
        let one = cache.take(&key(1)).unwrap();
        assert_eq!(cache.give_back(key(1), one), None);
        assert_eq!(cache.give_back(key(3), 3), Some(2));
        assert_eq!(cache.set_limit(0).len(), 2);
        assert_eq!(cache.give_back(key(4), 4), Some(4));
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
