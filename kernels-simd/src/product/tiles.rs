//! Products of f32 with AVX-512, where `gemm` would copy an operand first or keep too few sums in
//! registers. The experts' weights are used once or a few times in a call, so copying them costs
//! as much as multiplying.
//!
//! `out[o, l] = Σ_k others[k, o] · lanes[k, l]`. Elements that are contiguous along `l` fill
//! vectors. The other operand is read element by element, in any order of its axes, and the load itself
//! broadcasts each element to a vector. A tile of the result, three vectors by eight, is summed in
//! registers.

mod sums;
#[cfg(test)]
mod tests;

use super::gemm::{Kind, Terms};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
pub(super) use sums::add_pairs;
use sums::{mask, sum, sum_pairs};

/// Returns whether this machine has the instructions of [`multiply`].
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f")
}

/// The number of elements of a vector.
pub(super) const LANES: usize = 16;

/// The numbers of vectors and of others of the largest tile: 24 sums in the 32 registers.
const VECTORS: usize = 3;
const OTHERS: usize = 8;

/// An operand: its elements, and their distances along `k` and along the operand's own axis.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) data: &'a [f32],
    pub(super) k_stride: usize,
    pub(super) stride: usize,
}

/// Returns the part of `k` that is summed at a time. Elements that are traversed repeatedly must stay in the
/// second-level cache, and so must lines of weights at distances of a power of two.
fn depth(kind: Kind, others: usize) -> usize {
    match kind {
        Kind::ByFeatures | Kind::Outer => 1024,
        // Few others need little work for each line of weights: the lines are read along, not across.
        Kind::ByRows => (4 * others).clamp(16, PACKED),
    }
}

/// The sizes of a product.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) lanes: usize,
    pub(super) others: usize,
    pub(super) k: usize,
}

/// Computes `out = …` as above, or `out += …` if `add`. Lines of `out` are `out_stride` apart. There is one for each of
/// the others, but in products [by features](Kind::ByFeatures) one for each lane.
///
/// # Safety
/// The machine must have the [instructions](available), and AVX512-BF16 for pairs. `lanes.stride` must be 1, and
/// in an outer product also `others.stride`. Every element that sizes and strides reach must be in
/// its slice. If `add`, the places of `out` must have been written.
pub(super) unsafe fn multiply(
    kind: Kind,
    sizes: Sizes,
    lanes: Operand<'_>,
    others: Operand<'_>,
    (out, out_stride): (&mut [MaybeUninit<f32>], usize),
    add: bool,
    terms: Terms,
) {
    if sizes.lanes == 0 || sizes.others == 0 {
        return;
    }
    let out = out.as_mut_ptr().cast::<f32>();
    if sizes.k == 0 {
        let (lines, length) = match kind {
            Kind::ByFeatures => (sizes.lanes, sizes.others),
            Kind::ByRows | Kind::Outer => (sizes.others, sizes.lanes),
        };
        for line in (0..lines).filter(|_| !add) {
            // SAFETY: the lines of `out` are in its slice.
            unsafe { out.add(line * out_stride).write_bytes(0, length) };
        }
        return;
    }
    let depth = depth(kind, sizes.others);
    for start in (0..sizes.k).step_by(depth) {
        let walk = Walk {
            // SAFETY: `start` is below `k`, so these are elements of the slices.
            lanes: unsafe { lanes.data.as_ptr().add(start * lanes.k_stride) },
            lanes_k: lanes.k_stride,
            // SAFETY: as above.
            others: unsafe { others.data.as_ptr().add(start * others.k_stride) },
            others_k: others.k_stride,
            other: others.stride,
            k: depth.min(sizes.k - start),
            out,
            out_stride,
            add: add || start > 0,
            pairs: terms == Terms::Pairs,
            past_cache: false,
            ahead: std::ptr::null(),
            ahead_k: lanes.k_stride,
            ahead_steps: 0,
        };
        // SAFETY: the caller upholds the requirements. The depth stays below `k`, and places that are added to
        // were written by the first part, which covers all of `out`.
        unsafe {
            match kind {
                Kind::ByFeatures => walk.by_features(sizes),
                Kind::ByRows => walk.by_rows(sizes),
                Kind::Outer => walk.outer(sizes),
            }
        }
    }
}

/// The variants of [`Kind`] as constants for const generics.
const BY_FEATURES: u8 = 0;
const BY_ROWS: u8 = 1;
const OUTER: u8 = 2;

/// The number of bytes from which an outer product is written past the caches: it is not read soon, and ordinary
/// stores would first read the memory that they overwrite.
const LARGE: usize = 1 << 17;

/// The number of bytes of lanes of an outer product that are traversed repeatedly, for all the others. They stay
/// in the second-level cache.
const AGAIN: usize = 1 << 19;

/// The largest part of `k` that is [packed](Packed), and the smallest number of others for which packing pays.
const PACKED: usize = 128;
const MANY: usize = 24;

/// The lanes of a panel, copied so that they are contiguous and stay in the first-level cache. In that cache, lines at
/// distances of a power of two would evict each other.
#[repr(align(64))]
struct Packed([MaybeUninit<f32>; VECTORS * LANES * PACKED]);

/// A part of `k` of a product, or a tile of it.
#[derive(Clone, Copy)]
struct Walk {
    lanes: *const f32,
    lanes_k: usize,
    others: *const f32,
    others_k: usize,
    other: usize,
    k: usize,
    out: *mut f32,
    out_stride: usize,
    add: bool,
    /// True if elements are pairs of bf16, for which the machine has instructions.
    pairs: bool,
    /// True if whole vectors of `out` are aligned and written past the caches.
    past_cache: bool,
    /// The lanes to prefetch, their stride, and the steps of `k` to prefetch while [`LANES`] steps are summed.
    ahead: *const f32,
    ahead_k: usize,
    ahead_steps: usize,
}

/// Some lanes: the first of them, and their number.
type Panel = (usize, usize);

impl Walk {
    /// # Safety
    /// The requirements are those of [`multiply`].
    unsafe fn by_features(self, sizes: Sizes) {
        for (other, count) in tiles(sizes.others) {
            for panel in panels(0, sizes.lanes) {
                // SAFETY: panels and tiles are parts of `sizes`.
                unsafe {
                    let tile = self.at(panel.0, other);
                    let out = self.out.add(panel.0 * self.out_stride + other);
                    Self { out, ..tile }.tile::<BY_FEATURES>(panel.1, count);
                }
            }
        }
    }

    /// # Safety
    /// The requirements are those of [`multiply`].
    unsafe fn by_rows(self, sizes: Sizes) {
        let tiles = tiles(sizes.others);
        let steps = LANES.div_ceil(tiles.clone().count());
        let mut packed = Packed([MaybeUninit::uninit(); _]);
        let mut panels = panels(0, sizes.lanes).peekable();
        while let Some(panel) = panels.next() {
            // The last panel is followed by the first panel of the next part of `k`.
            let next = panels.peek().map_or(self.k * self.lanes_k, |next| next.0);
            let next = self.lanes.wrapping_add(next);
            for (index, (other, count)) in tiles.clone().enumerate() {
                // SAFETY: panels and tiles are parts of `sizes`, and the depth of `by_rows` is at
                // most that of `packed`.
                unsafe {
                    let mut tile = self.at(panel.0, other);
                    if sizes.others >= MANY {
                        if index == 0 {
                            pack(tile, panel.1, &mut packed);
                        }
                        tile.lanes = packed.0.as_ptr().cast();
                        tile.lanes_k = panel.1.next_multiple_of(LANES);
                    }
                    // Each tile prefetches its share.
                    let first = index * steps * self.k.div_ceil(LANES);
                    tile.ahead = next.wrapping_add(first * self.lanes_k);
                    tile.ahead_steps = if first < self.k { steps } else { 0 };
                    tile.out = self.out.add(other * self.out_stride + panel.0);
                    tile.tile::<BY_ROWS>(panel.1, count);
                }
            }
        }
    }

    /// # Safety
    /// The requirements are those of [`multiply`].
    unsafe fn outer(self, sizes: Sizes) {
        let large = size_of::<f32>() * sizes.lanes * sizes.others >= LARGE;
        // Sums of pairs are read soon, to be rounded.
        let past_cache = large && !self.add && !self.pairs && self.out_stride.is_multiple_of(LANES);
        let first = match past_cache {
            true => self
                .out
                .align_offset(LANES * size_of::<f32>())
                .min(sizes.lanes),
            false => 0,
        };
        let before = (first > 0).then_some((0, first));
        let panels: Vec<Panel> = before
            .into_iter()
            .chain(panels(first, sizes.lanes))
            .collect();
        let panel = size_of::<f32>() * self.k * VECTORS * LANES;
        let parts = (panel * panels.len()).div_ceil(AGAIN);
        for panels in panels.chunks(panels.len().div_ceil(parts)) {
            for (other, count) in tiles(sizes.others) {
                for panel in panels {
                    // SAFETY: panels and tiles are parts of `sizes`.
                    unsafe {
                        let tile = Self {
                            out: self.out.add(other * self.out_stride + panel.0),
                            past_cache: past_cache && panel.0 >= first,
                            ..self.at(panel.0, other)
                        };
                        tile.tile::<OUTER>(panel.1, count);
                    }
                }
            }
        }
        if past_cache {
            // SAFETY: every x86-64 machine has the instruction.
            unsafe { _mm_sfence() };
        }
    }

    /// Returns the walk from a lane and another on.
    ///
    /// # Safety
    /// The lane and the other must exist.
    unsafe fn at(self, lane: usize, other: usize) -> Self {
        // SAFETY: the caller upholds the requirements.
        unsafe {
            Self {
                lanes: self.lanes.add(lane),
                others: self.others.add(other * self.other),
                ..self
            }
        }
    }

    /// Computes one tile: some lanes by `count` others.
    ///
    /// # Safety
    /// The requirements are those of [`multiply`].
    unsafe fn tile<const KIND: u8>(self, lanes: usize, count: usize) {
        let vectors = lanes.div_ceil(LANES);
        let last = lanes - (vectors - 1) * LANES;
        macro_rules! sizes {
            ($sum:ident) => {
                match (vectors, count) {
                    (1, 8) => $sum::<KIND, 1, 8>(self, last),
                    (1, 4) => $sum::<KIND, 1, 4>(self, last),
                    (1, 2) => $sum::<KIND, 1, 2>(self, last),
                    (1, _) => $sum::<KIND, 1, 1>(self, last),
                    (2, 8) => $sum::<KIND, 2, 8>(self, last),
                    (2, 4) => $sum::<KIND, 2, 4>(self, last),
                    (2, 2) => $sum::<KIND, 2, 2>(self, last),
                    (2, _) => $sum::<KIND, 2, 1>(self, last),
                    (_, 8) => $sum::<KIND, 3, 8>(self, last),
                    (_, 4) => $sum::<KIND, 3, 4>(self, last),
                    (_, 2) => $sum::<KIND, 3, 2>(self, last),
                    (_, _) => $sum::<KIND, 3, 1>(self, last),
                }
            };
        }
        // SAFETY: the caller upholds the requirements.
        unsafe {
            if self.pairs {
                sizes!(sum_pairs)
            } else {
                sizes!(sum)
            }
        }
    }
}

/// Returns the lanes from `first` on in panels of nearly equal size, because a single vector keeps too few sums.
fn panels(first: usize, lanes: usize) -> impl Iterator<Item = Panel> {
    let vectors = (lanes - first).div_ceil(LANES);
    let panels = vectors.div_ceil(VECTORS);
    let at = move |index: usize| (first + vectors * index / panels * LANES).min(lanes);
    (0..panels).map(move |index| (at(index), at(index + 1) - at(index)))
}

/// Returns the others in parts of 8, then 4, 2 and 1: the start of each part and its length.
fn tiles(others: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    let mut next = 0;
    std::iter::from_fn(move || {
        let count = match others - next {
            0 => return None,
            left => OTHERS.min(1 << left.ilog2()),
        };
        next += count;
        Some((next - count, count))
    })
}

/// Copies the lanes of a panel, one step of `k` after the other.
///
/// # Safety
/// The requirements are those of [`multiply`], for the panel. There must be at most [`PACKED`] steps.
#[target_feature(enable = "avx512f")]
unsafe fn pack(panel: Walk, lanes: usize, packed: &mut Packed) {
    let to = packed.0.as_mut_ptr().cast::<f32>();
    let width = lanes.next_multiple_of(LANES);
    for step in 0..panel.k {
        for lane in (0..lanes).step_by(LANES) {
            let mask = mask(lanes - lane);
            // SAFETY: the caller upholds the requirements.
            unsafe {
                let from = panel.lanes.add(step * panel.lanes_k + lane);
                let vector = _mm512_maskz_loadu_ps(mask, from);
                _mm512_storeu_ps(to.add(step * width + lane), vector);
            }
        }
    }
}
