//! The variants of the kernels, and the one of each that runs: how many units a cube has, and what waits in shared memory.
//!
//! Some variants have fewer units than others: they need more registers than compilers give to each of 256 units without
//! spilling some, as `benches/gpu/sass.py` found.

use super::{ACROSS, EACH};

/// The rows of a block of few rows.
const FEW: usize = 16;

/// The most lines of units.
const MOST_LINES: usize = 16;

/// The width of the heads of most models. A unit has the sums of more elements in wider ones.
const WIDE: usize = 128;

/// The variant of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct Form {
    /// The number of lines of units.
    pub(in super::super) lines: usize,
    /// The number of heads of queries that share a head of keys.
    pub(in super::super) group: usize,
    /// The number of parts of a row of keys, and of one of values, each as wide as a line has units.
    pub(in super::super) parts: usize,
    pub(in super::super) value_parts: usize,
    pub(in super::super) is_capped: bool,
    /// True if products wait in shared memory for others, because there are too few registers.
    pub(in super::super) puts_aside: bool,
}

impl Form {
    /// Returns the number of rows of a block.
    pub(in super::super) const fn rows(self) -> usize {
        self.lines * EACH
    }

    /// Returns the number of units of a cube.
    pub(in super::super) const fn units(self) -> usize {
        self.lines * ACROSS
    }
}

/// The heads of a call, as far as the variants of its kernels depend on them.
#[derive(Clone, Copy)]
pub(in super::super) struct Heads {
    /// The number of elements of a vector.
    pub(in super::super) size: usize,
    /// The number of elements of a row of keys, and of one of values.
    pub(in super::super) width: usize,
    pub(in super::super) value_width: usize,
    /// The number of heads of queries that share a head of keys.
    pub(in super::super) group: usize,
    pub(in super::super) is_capped: bool,
}

impl Heads {
    /// Returns the variant of the kernel of results, for some rows of queries.
    pub(in super::super) fn results(self, rows: usize) -> Form {
        let lines = match self.are_wide() || self.is_capped {
            true => 12,
            false => MOST_LINES,
        };
        self.form(rows, lines, false)
    }

    /// Returns the variant of the kernel of the sums along results, for some rows of queries.
    pub(in super::super) fn sums(self, rows: usize) -> Form {
        let lines = match (self.is_capped, self.size) {
            (true, 1) | (false, 4) => 14,
            _ => MOST_LINES,
        };
        self.form(rows, lines, self.is_capped)
    }

    /// Returns the variant of the kernel of the gradients of queries, for some rows of these.
    pub(in super::super) fn queries(self, rows: usize) -> Form {
        let lines = match self.are_wide() {
            true => 12,
            false => MOST_LINES,
        };
        self.form(rows, lines, self.are_wide() || self.is_capped)
    }

    /// Returns the variant of the kernel whose rows are keys, for some of them.
    pub(in super::super) fn keys(self, rows: usize) -> Form {
        let lines = match self.is_capped || self.size != 2 && !self.are_wide() {
            true => 12,
            false => MOST_LINES,
        };
        self.form(rows, lines, false)
    }

    fn are_wide(self) -> bool {
        self.width.max(self.value_width) > WIDE
    }

    /// Returns a variant with at most so many lines of units.
    fn form(self, rows: usize, lines: usize, puts_aside: bool) -> Form {
        let parts = |width: usize| (width / self.size).div_ceil(ACROSS);
        Form {
            lines: match rows > FEW {
                true => lines,
                false => FEW / EACH,
            },
            group: self.group,
            parts: parts(self.width),
            value_parts: parts(self.value_width),
            is_capped: self.is_capped,
            puts_aside,
        }
    }
}
