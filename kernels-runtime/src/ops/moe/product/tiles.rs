//! Products of f32 with AVX-512, where `gemm` would copy an operand first or keep too few sums in
//! registers: the experts' weights are used once or a few times a call, so that copying them costs
//! as much as multiplying.
//!
//! `out[o, l] = Σ_k others[k, o] · lanes[k, l]`. What lies together in memory along `l` fills
//! vectors; the other operand is read element by element, in any order of its axes, and spread
//! over a vector by the load itself. A tile of the result, three vectors by eight, is summed in
//! registers.

use super::gemm::{Kind, Terms};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Whether this machine has what [`multiply`] is made of.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f")
}

/// Elements of a vector.
pub(super) const LANES: usize = 16;

/// Vectors and others of the largest tile: 24 sums of the 32 registers.
const VECTORS: usize = 3;
const OTHERS: usize = 8;

/// An operand: where its elements are, and how far apart along `k` and along its own axis.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) data: &'a [f32],
    pub(super) k_stride: usize,
    pub(super) stride: usize,
}

/// How much of `k` is summed at a time. What is walked through again and again must stay in the
/// second-level cache, and so must lines of weights which are a power of two apart.
fn depth(kind: Kind, others: usize) -> usize {
    match kind {
        Kind::ByFeatures | Kind::Outer => 1024,
        // Few others are soon done with: their lines of weights are read along, not across.
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

/// `out = …` as above, or `out += …` if `add`. Lines of `out` are `out_stride` apart: one for each of
/// the others, but in products [by features](Kind::ByFeatures) one for each lane.
///
/// # Safety
/// The machine has [what it takes](available), and AVX512-BF16 for pairs; `lanes.stride` is 1, and
/// if it is an outer product `others.stride` too; every element that sizes and strides name is in
/// its slice; if `add`, the places of `out` have been written.
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
            // SAFETY: lines of `out` are in its slice.
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
        // SAFETY: the caller's promises; the depth stays below `k`, and what is added to was
        // written by the first part, which covers all of `out`.
        unsafe {
            match kind {
                Kind::ByFeatures => walk.by_features(sizes),
                Kind::ByRows => walk.by_rows(sizes),
                Kind::Outer => walk.outer(sizes),
            }
        }
    }
}

/// [`Kind`], for the compiler.
const BY_FEATURES: u8 = 0;
const BY_ROWS: u8 = 1;
const OUTER: u8 = 2;

/// From this many bytes on, an outer product is written past the caches: nobody reads it soon, and
/// what it would replace in them is read first otherwise.
const LARGE: usize = 1 << 17;

/// Bytes of lanes of an outer product that are walked through again and again, for all the others:
/// they stay in the second-level cache.
const AGAIN: usize = 1 << 19;

/// The most that is [packed](Packed) of `k`, and the fewest others for which that pays.
const PACKED: usize = 128;
const MANY: usize = 24;

/// Lanes of a panel one behind the other, so that they stay in the first-level cache, out of which
/// lines a power of two apart drive each other.
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
    /// Whether elements are pairs of bf16, for which the machine has instructions.
    pairs: bool,
    /// Whether whole vectors of `out` are aligned and written past the caches.
    past_cache: bool,
    /// Lanes to fetch ahead, and how many steps of `k` of them while [`LANES`] are summed.
    ahead: *const f32,
    ahead_k: usize,
    ahead_steps: usize,
}

/// Some lanes: the first of them, and how many.
type Panel = (usize, usize);

impl Walk {
    /// # Safety
    /// As [`multiply`]'s.
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
    /// As [`multiply`]'s.
    unsafe fn by_rows(self, sizes: Sizes) {
        let tiles = tiles(sizes.others);
        let steps = LANES.div_ceil(tiles.clone().count());
        let mut packed = Packed([MaybeUninit::uninit(); _]);
        let mut panels = panels(0, sizes.lanes).peekable();
        while let Some(panel) = panels.next() {
            // After the last panel comes the first of the next part of `k`.
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
                    // Each tile fetches its share.
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
    /// As [`multiply`]'s.
    unsafe fn outer(self, sizes: Sizes) {
        let large = size_of::<f32>() * sizes.lanes * sizes.others >= LARGE;
        // Pairs are summed to be rounded, and read for that.
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
            // SAFETY: every x86-64 has it.
            unsafe { _mm_sfence() };
        }
    }

    /// From a lane and another on.
    ///
    /// # Safety
    /// There are such.
    unsafe fn at(self, lane: usize, other: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                lanes: self.lanes.add(lane),
                others: self.others.add(other * self.other),
                ..self
            }
        }
    }

    /// One tile: some lanes by `count` others.
    ///
    /// # Safety
    /// As [`multiply`]'s.
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
        // SAFETY: the caller's promise.
        unsafe {
            if self.pairs {
                sizes!(sum_pairs)
            } else {
                sizes!(sum)
            }
        }
    }
}

/// The lanes from `first` on, in panels of nearly one size: one vector alone keeps too few sums.
fn panels(first: usize, lanes: usize) -> impl Iterator<Item = Panel> {
    let vectors = (lanes - first).div_ceil(LANES);
    let panels = vectors.div_ceil(VECTORS);
    let at = move |index: usize| (first + vectors * index / panels * LANES).min(lanes);
    (0..panels).map(move |index| (at(index), at(index + 1) - at(index)))
}

/// The others in parts of 8, then 4, 2 and 1: where each starts, and how many.
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

/// The lanes of a panel, one step of `k` behind the other.
///
/// # Safety
/// As [`multiply`]'s, for the panel; there are at most [`PACKED`] steps.
#[target_feature(enable = "avx512f")]
unsafe fn pack(panel: Walk, lanes: usize, packed: &mut Packed) {
    let to = packed.0.as_mut_ptr().cast::<f32>();
    let width = lanes.next_multiple_of(LANES);
    for step in 0..panel.k {
        for lane in (0..lanes).step_by(LANES) {
            let mask = mask(lanes - lane);
            // SAFETY: the caller's promise.
            unsafe {
                let from = panel.lanes.add(step * panel.lanes_k + lane);
                let vector = _mm512_maskz_loadu_ps(mask, from);
                _mm512_storeu_ps(to.add(step * width + lane), vector);
            }
        }
    }
}

/// The first `count` lanes of a vector, or all.
#[inline(always)]
fn mask(count: usize) -> __mmask16 {
    if count >= LANES {
        __mmask16::MAX
    } else {
        (1 << count) - 1
    }
}

/// Defines a kernel for tiles by the instruction that adds a product.
macro_rules! kernel {
    ($name:ident, $features:literal, $add:expr) => {
        /// The sums of a tile of `V` vectors, the last of which has `last` lanes, by `N` others.
        ///
        /// # Safety
        /// As [`multiply`]'s, for the tile.
        #[target_feature(enable = $features)]
        unsafe fn $name<const KIND: u8, const V: usize, const N: usize>(tile: Walk, last: usize) {
            let mut sums = [[_mm512_setzero_ps(); N]; V];
            let (mut lanes, mut others, mut left) = (tile.lanes, tile.others, tile.k);
            let mut ahead = tile.ahead;
            let last_mask = mask(last);
            while left > 0 {
                // Hints: any address will do.
                if KIND == BY_FEATURES {
                    for n in 0..N {
                        let next = others.wrapping_add((N + n) * tile.other);
                        _mm_prefetch::<_MM_HINT_T1>(next.cast());
                    }
                }
                if KIND == BY_ROWS {
                    for _ in 0..tile.ahead_steps {
                        for v in 0..V {
                            // The line that a vector ends in: lines and vectors need not begin together.
                            let end = ahead.wrapping_add((v + 1) * LANES - 1);
                            _mm_prefetch::<_MM_HINT_T1>(end.cast());
                        }
                        ahead = ahead.wrapping_add(tile.ahead_k);
                    }
                }
                let steps = left.min(LANES);
                for _ in 0..steps {
                    let mut vectors = [_mm512_setzero_ps(); V];
                    for v in 0..V {
                        let mask = if v + 1 == V {
                            last_mask
                        } else {
                            __mmask16::MAX
                        };
                        // SAFETY: the caller's promise.
                        vectors[v] = unsafe { _mm512_maskz_loadu_ps(mask, lanes.add(v * LANES)) };
                    }
                    for n in 0..N {
                        let at = if KIND == OUTER { n } else { n * tile.other };
                        // SAFETY: the caller's promise.
                        let other = _mm512_set1_ps(unsafe { *others.add(at) });
                        for v in 0..V {
                            sums[v][n] = $add(sums[v][n], vectors[v], other);
                        }
                    }
                    lanes = lanes.wrapping_add(tile.lanes_k);
                    others = others.wrapping_add(tile.others_k);
                }
                left -= steps;
            }
            for v in 0..V {
                let count = if v + 1 == V { last } else { LANES };
                // SAFETY: the caller's promise; if `add`, the places have been written.
                unsafe {
                    if KIND == BY_FEATURES {
                        let out = tile.out.add(v * LANES * tile.out_stride);
                        write_turned(tile, sums[v], out, count);
                    } else {
                        write(tile, sums[v], tile.out.add(v * LANES), count);
                    }
                }
            }
        }
    };
}

kernel!(sum, "avx512f", |sum, x, y| _mm512_fmadd_ps(x, y, sum));
kernel!(sum_pairs, "avx512f,avx512bf16", |sum, x, y| add_pairs(
    sum, x, y
));

/// Adds the products of pairs.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) fn add_pairs(sum: __m512, x: __m512, y: __m512) -> __m512 {
    // SAFETY: the types are both 512 bits. One by one: through an array they pass through memory.
    let (x, y) = unsafe {
        let x = std::mem::transmute::<__m512, __m512bh>(x);
        (x, std::mem::transmute::<__m512, __m512bh>(y))
    };
    _mm512_dpbf16_ps(sum, x, y)
}

/// Writes the sums of one vector of lanes by `N` others, a line for each other.
///
/// # Safety
/// As [`sum`]'s.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn write<const N: usize>(tile: Walk, sums: [__m512; N], out: *mut f32, lanes: usize) {
    let mask = mask(lanes);
    for (n, sum) in sums.into_iter().enumerate() {
        // SAFETY: the caller's promise; past the caches, whole vectors are aligned.
        unsafe {
            let place = out.add(n * tile.out_stride);
            if tile.add {
                let sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, place));
                _mm512_mask_storeu_ps(place, mask, sum);
            } else if tile.past_cache && lanes == LANES {
                _mm512_stream_ps(place, sum);
            } else {
                _mm512_mask_storeu_ps(place, mask, sum);
            }
        }
    }
}

/// Writes the sums of one vector of lanes by `N` others, a line for each lane.
///
/// # Safety
/// As [`sum`]'s.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn write_turned<const N: usize>(tile: Walk, sums: [__m512; N], out: *mut f32, lanes: usize) {
    for part in (0..N).step_by(FOUR) {
        let sum = |n: usize| if n < N { sums[n] } else { _mm512_setzero_ps() };
        let four = [sum(part), sum(part + 1), sum(part + 2), sum(part + 3)];
        for (first, lines) in turn(four).into_iter().enumerate() {
            let lines: [__m128; FOUR] = [
                _mm512_extractf32x4_ps::<0>(lines),
                _mm512_extractf32x4_ps::<1>(lines),
                _mm512_extractf32x4_ps::<2>(lines),
                _mm512_extractf32x4_ps::<3>(lines),
            ];
            for (group, line) in lines.into_iter().enumerate() {
                let lane = group * FOUR + first;
                if lane >= lanes {
                    continue;
                }
                // SAFETY: the caller's promise.
                unsafe {
                    let place = out.add(lane * tile.out_stride + part);
                    if N >= FOUR {
                        let line = match tile.add {
                            true => _mm_add_ps(line, _mm_loadu_ps(place)),
                            false => line,
                        };
                        _mm_storeu_ps(place, line);
                    } else {
                        let mut values = [0.0; FOUR];
                        _mm_storeu_ps(values.as_mut_ptr(), line);
                        for (n, value) in values.into_iter().enumerate().take(N) {
                            let before = if tile.add { *place.add(n) } else { 0.0 };
                            place.add(n).write(before + value);
                        }
                    }
                }
            }
        }
    }
}

/// Elements of a quarter of a vector.
const FOUR: usize = 4;

/// Four vectors of lanes as lines of four: vector `r` has those of lanes `r`, `r + 4`, …
#[inline]
#[target_feature(enable = "avx512f")]
fn turn([a, b, c, d]: [__m512; FOUR]) -> [__m512; FOUR] {
    let pairs = |x, y| (_mm512_unpacklo_ps(x, y), _mm512_unpackhi_ps(x, y));
    let ((ab_low, ab_high), (cd_low, cd_high)) = (pairs(a, b), pairs(c, d));
    let low = |x, y| _mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y));
    let high = |x, y| _mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y));
    [
        low(ab_low, cd_low),
        high(ab_low, cd_low),
        low(ab_high, cd_high),
        high(ab_high, cd_high),
    ]
    .map(|lines| _mm512_castpd_ps(lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every size around those of tiles, with elements between that must not be touched.
    #[test]
    fn tiles_of_all_sizes() {
        if !super::super::tested(available(), "AVX-512") {
            return;
        }
        let value = |i: usize| ((i * 7919) % 101) as f32 - 50.0;
        for (lanes, others, k) in [
            (1, 1, 1),
            (15, 7, 16),
            (16, 8, 17),
            (17, 9, 3),
            (48, 16, 130),
            (49, 3, 513),
            (70, 21, 5),
            (33, 1, 129),
            (16, 43, 33),
            (9, 16, 1030),
            (100, 27, 140),
            (5, 4, 0),
            // Large enough to be written past the caches.
            (303, 120, 9),
            // Of more lanes than are walked through at a time, also past the caches.
            (200, 12, 700),
            (500, 80, 300),
        ] {
            for (kind, add) in [
                (Kind::ByFeatures, false),
                (Kind::ByFeatures, true),
                (Kind::ByRows, false),
                (Kind::ByRows, true),
                (Kind::Outer, false),
                (Kind::Outer, true),
            ] {
                check(kind, Sizes { lanes, others, k }, add, value);
            }
        }
    }

    fn check(kind: Kind, sizes: Sizes, add: bool, value: impl Fn(usize) -> f32) {
        let Sizes { lanes, others, k } = sizes;
        let (k_stride, stride) = match kind {
            Kind::Outer => (others, 1),
            Kind::ByFeatures | Kind::ByRows => (1, k.max(1)),
        };
        // Exactly as long as needed: a memory checker sees a read beyond.
        let left: Vec<f32> = (0..lanes * k).map(&value).collect();
        let right: Vec<f32> = (0..others * k).map(|i| value(i + 13)).collect();
        let (lines, length) = match kind {
            Kind::ByFeatures => (lanes, others),
            Kind::ByRows | Kind::Outer => (others, lanes),
        };
        let out_stride = length.next_multiple_of(LANES) + LANES;
        let mut out = vec![MaybeUninit::new(7.0); lines * out_stride];
        let (left_operand, right_operand) = (
            Operand {
                data: &left,
                k_stride: lanes,
                stride: 1,
            },
            Operand {
                data: &right,
                k_stride,
                stride,
            },
        );
        // SAFETY: asked for before; all slices are as long as sizes and strides say.
        unsafe {
            let out = (&mut out[..], out_stride);
            multiply(
                kind,
                sizes,
                left_operand,
                right_operand,
                out,
                add,
                Terms::Single,
            );
        }
        for (at, sum) in out.into_iter().enumerate() {
            // SAFETY: initialised from the start.
            let sum = unsafe { sum.assume_init() };
            let (line, along) = (at / out_stride, at % out_stride);
            if along >= length {
                assert_eq!(sum, 7.0, "a place between lines was written");
                continue;
            }
            let (lane, other) = match kind {
                Kind::ByFeatures => (line, along),
                Kind::ByRows | Kind::Outer => (along, line),
            };
            let exact: f32 = (0..k)
                .map(|k| left[k * lanes + lane] * right[k * k_stride + other * stride])
                .sum();
            let expected = exact + if add { 7.0 } else { 0.0 };
            assert_eq!(sum, expected, "{lanes} × {others} × {k} at {other}, {lane}");
        }
    }
}
