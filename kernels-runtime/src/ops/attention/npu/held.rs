//! The keys and values of a call where they lie in memory, as the operator of inference calls takes them.
//!
//! The operator takes contiguous tensors and the number of keys that each sequence has. A cache has room for more keys
//! than there are, so the views that it hands out are not contiguous, but all of its memory is. The operator is given the
//! memory, and skips the keys in front of the view and behind it.

use burn_cann::ops::attention::Axes;
use burn_cann::{Layout, Tensor};
use std::ops::Range;

/// A contiguous tensor that a view is a part of.
pub(super) struct Whole {
    pub(super) tensor: Tensor,
    /// The number of positions in front of those of the view.
    pub(super) before: usize,
    /// The number of all positions.
    pub(super) room: usize,
}

impl Whole {
    /// Returns the contiguous tensor around a view in the order of the axes, which differs from it only in the number of
    /// positions. There is none if the strides are others, or if the memory does not reach that far.
    pub(super) fn around(view: &Tensor, axes: Axes) -> Option<Self> {
        let lie = view.layout();
        let &[batch, one, other, width] = lie.shape() else {
            return None;
        };
        let (groups, positions, row) = match axes {
            Axes::Bnsd => (batch * one, other, width),
            Axes::Bsnd => (batch, one, other * width),
            Axes::Bsh | Axes::Sbh => return None,
        };
        let room = room(lie, axes, positions, row)?;
        let held = view.memory()?.size() / view.dtype().size();
        let reach = lie.offset() + groups * room * row;
        // The view of the last sequence ends behind the memory by the positions in front of the first.
        let before = reach.saturating_sub(held).div_ceil(row);
        if before + positions > room {
            return None;
        }
        let shape = match axes {
            Axes::Bnsd => [batch, one, room, width],
            _ => [batch, room, other, width],
        };
        let start = lie.offset().checked_sub(before * row)?;
        let strides = strides(shape);
        let whole = Layout::strided(shape, strides, start).ok()?;
        Some(Self {
            tensor: view.with_layout(whole).ok()?,
            before,
            room,
        })
    }
}

/// Returns the number of positions from one group to the next, if the strides are otherwise those of a contiguous tensor.
/// Strides of axes with one element have no effect.
fn room(lie: &Layout, axes: Axes, positions: usize, row: usize) -> Option<usize> {
    let (shape, is) = (lie.shape(), lie.strides());
    let fits = |axis: usize, stride: usize| shape[axis] == 1 || is[axis] == stride;
    let last = shape[3];
    let in_rows = match axes {
        Axes::Bnsd => fits(2, last),
        _ => fits(1, row) && fits(2, last),
    };
    if !fits(3, 1) || !in_rows || row == 0 {
        return None;
    }
    let groups = match axes {
        Axes::Bnsd => shape[1],
        _ => 1,
    };
    // The stride of the innermost axis that has one leads from group to group.
    let apart = match (groups > 1, shape[0] > 1) {
        (true, _) => is[1],
        (false, true) => is[0],
        (false, false) => positions * row,
    };
    let of_batch = fits(0, groups * apart);
    let room = apart / row;
    (apart.is_multiple_of(row) && of_batch && room >= positions).then_some(room)
}

fn strides(shape: [usize; 4]) -> [usize; 4] {
    let [_, a, b, c] = shape;
    [a * b * c, b * c, c, 1]
}

/// The keys of each sequence of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// One length for each sequence, or one for all.
    pub(super) lengths: Vec<usize>,
    /// The number of keys behind those of all sequences, if they do not begin at the first key.
    pub(super) behind: Option<usize>,
}

impl Kept {
    /// Returns the keys of the ranges, one for each sequence or one for all, among so many positions. There are none that
    /// the operator takes if neither their beginnings are the first key nor their ends are one.
    pub(super) fn of(ranges: &[Range<usize>], room: usize) -> Option<Self> {
        let mut lengths: Vec<usize> = ranges.iter().map(Range::len).collect();
        if lengths.windows(2).all(|pair| pair[0] == pair[1]) {
            lengths.truncate(1);
        }
        if ranges.iter().all(|range| range.start == 0) {
            return Some(Self {
                lengths,
                behind: None,
            });
        }
        let end = ranges.first()?.end;
        let together = ranges.iter().all(|range| range.end == end);
        together.then(|| Self {
            lengths,
            behind: Some(room - end),
        })
    }
}
