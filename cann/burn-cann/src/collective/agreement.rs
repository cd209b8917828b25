//! The comparison of the calls of a group's devices.

use std::collections::VecDeque;

use crate::DType;

/// The facts of a call that all devices must share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) count: usize,
    pub(super) dtype: DType,
}

/// The calls that some devices have made and others have not.
#[derive(Debug)]
pub(super) struct Agreement {
    /// The number of calls of each rank.
    made: Vec<u64>,
    /// The number of calls before the first one in `open`.
    before: u64,
    /// Each call with the rank that made it first.
    open: VecDeque<(Call, usize)>,
}

impl Agreement {
    pub(super) fn new(ranks: usize) -> Self {
        Self {
            made: vec![0; ranks],
            before: 0,
            open: VecDeque::new(),
        }
    }

    /// Takes the next call of a rank. Returns the rank and the call that it differs from, if there is one.
    pub(super) fn take(&mut self, rank: usize, call: Call) -> Result<(), (usize, Call)> {
        let place = (self.made[rank] - self.before) as usize;
        match self.open.get(place) {
            Some((first, by)) if *first != call => return Err((*by, *first)),
            Some(_) => {}
            None => self.open.push_back((call, rank)),
        }
        self.made[rank] += 1;
        let all = self.made.iter().min().copied().unwrap_or(self.before);
        self.open.drain(..(all - self.before) as usize);
        self.before = all;
        Ok(())
    }

    /// Returns the number of calls that a rank has made.
    pub(super) fn made(&self, rank: usize) -> u64 {
        self.made[rank]
    }

    /// Returns `true` if a rank has made all calls of another.
    pub(super) fn has_kept_up(&self, rank: usize, other: usize) -> bool {
        self.made[rank] >= self.made[other]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn call(count: usize) -> Call {
        Call {
            count,
            dtype: DType::F32,
        }
    }

    #[test]
    fn calls_are_compared_by_their_order() {
        let mut agreement = Agreement::new(3);
        assert_eq!(agreement.take(1, call(5)), Ok(()));
        assert_eq!(agreement.take(1, call(6)), Ok(()));
        assert_eq!([agreement.made(0), agreement.made(1)], [0, 2]);
        assert!(agreement.has_kept_up(1, 0) && !agreement.has_kept_up(0, 1));
        assert_eq!(agreement.take(0, call(5)), Ok(()));
        assert_eq!(agreement.take(2, call(5)), Ok(()));
        assert_eq!(agreement.open.len(), 1, "the first call is done");
        assert_eq!(agreement.take(2, call(7)), Err((1, call(6))));
        assert_eq!(agreement.take(2, call(6)), Ok(()));
        assert!(agreement.has_kept_up(2, 1) && !agreement.has_kept_up(0, 2));
    }
}
