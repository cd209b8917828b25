//! Passes over a block of scores: one line for each key, one lane for each query.
//!
//! They are plain loops over whole vectors of lanes, compiled for the widest instructions of the machine.

use super::hidden::hide;
use super::lanes::Lanes;
use super::view::View;
use super::{KEYS, KEYS_OF_TILES};
use crate::lanes::{Task, dispatch, vectorize};
use crate::product::Gemm;
use crate::{Context, Element, LANES, Lanes as _, Number, Real};
use std::ops::Range;

/// A block of scores in a buffer of lines of `stride` lanes.
pub(super) struct Place {
    pub(super) stride: usize,
    pub(super) lanes: Range<usize>,
    pub(super) keys: Range<usize>,
}

impl Place {
    /// Returns the lines of a buffer, cut to the lanes.
    #[inline(always)]
    pub(super) fn lines<'a, A>(&self, scores: &'a mut [A]) -> impl Iterator<Item = &'a mut [A]> {
        let lanes = self.lanes.clone();
        let lines = scores.chunks_exact_mut(self.stride).take(self.keys.len());
        lines.map(move |line| &mut line[lanes.clone()])
    }
}

/// Sets the other lanes of the lines to zero, so that whole lines can be multiplied.
pub(super) fn clear_others<A: Gemm>(place: &Place, values: &mut [A]) {
    let Range { start, end } = place.lanes;
    if start == 0 && end == place.stride {
        return;
    }
    for line in values.chunks_exact_mut(place.stride).take(place.keys.len()) {
        line[..start].fill(Gemm::ZERO);
        line[end..].fill(Gemm::ZERO);
    }
}

/// Caps the scores, and returns the slopes of the cap in `slopes`, if they are wanted. Adds the bias and hides keys.
pub(super) fn adjust<T: Element>(
    view: &View<'_, T>,
    lanes: &Lanes,
    place: &Place,
    scores: &mut [T::Acc],
    slopes: Option<&mut [T::Acc]>,
) where
    T::Acc: Gemm,
{
    if let Some(cap) = view.cap {
        match slopes {
            None => vectorize(CapScores { place, scores, cap }),
            Some(slopes) => vectorize(CapWithSlopes {
                place,
                scores,
                slopes,
                cap,
            }),
        }
    }
    if let Some(bias) = &view.bias {
        for lane in place.lanes.clone() {
            let (head, query) = lanes.queries[lane];
            let row = bias.of([lanes.batch, head, query], place.keys.clone());
            for (line, bias) in scores.chunks_exact_mut(place.stride).zip(row) {
                line[lane] += bias.load();
            }
        }
    }
    hide(lanes, place, scores);
}

/// Subtracts a number of each lane from its scores.
pub(super) fn lower<A: Real>(place: &Place, scores: &mut [A], bases: &[A]) {
    for line in place.lines(scores) {
        for (score, base) in line.iter_mut().zip(&bases[place.lanes.clone()]) {
            *score = *score - *base;
        }
    }
}

struct CapScores<'a, A> {
    place: &'a Place,
    scores: &'a mut [A],
    cap: A,
}

impl<A: Real> pulp::WithSimd for CapScores<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let inverse = A::ONE / self.cap;
        for line in self.place.lines(self.scores) {
            for score in line {
                *score = self.cap * (*score * inverse).tanh();
            }
        }
    }
}

struct CapWithSlopes<'a, A> {
    place: &'a Place,
    scores: &'a mut [A],
    slopes: &'a mut [A],
    cap: A,
}

impl<A: Real> pulp::WithSimd for CapWithSlopes<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let inverse = A::ONE / self.cap;
        let lines = self.place.lines(self.scores);
        for (scores, slopes) in lines.zip(self.place.lines(self.slopes)) {
            for (score, slope) in scores.iter_mut().zip(slopes) {
                let tanh = (*score * inverse).tanh();
                *score = self.cap * tanh;
                *slope = A::ONE - tanh * tanh;
            }
        }
    }
}

/// The softmax of each lane so far: its largest score and its sum of `e^(score − largest)`.
pub(super) struct Running<A> {
    pub(super) largest: Vec<A>,
    pub(super) sums: Vec<A>,
    /// The factors of the last block for what was summed before it.
    pub(super) factors: Vec<A>,
}

impl<A: Real> Running<A> {
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            largest: vec![A::of(f64::NEG_INFINITY); lanes],
            sums: vec![A::ZERO; lanes],
            factors: vec![A::ONE; lanes],
        }
    }

    /// Replaces scores by `e^(score − largest)`, with the largest score of the lane so far, and adds them to the sums.
    /// Returns true if a factor is not 1.
    pub(super) fn add(&mut self, place: &Place, scores: &mut [A]) -> bool {
        dispatch(Add {
            place,
            scores,
            running: self.in_vectors(),
        })
    }

    /// Returns the sums to update, vector by vector.
    pub(super) fn in_vectors(&mut self) -> Vectors<'_, A> {
        Vectors {
            largest: &mut self.largest,
            sums: &mut self.sums,
            factors: &mut self.factors,
        }
    }

    /// Adds a score of one lane. Returns the factor for what was summed before it.
    pub(super) fn add_one(&mut self, lane: usize, score: A) -> A {
        let before = self.largest[lane];
        let largest = if score > before { score } else { before };
        let base = finite_base(largest);
        let factor = (before - base).exp();
        self.largest[lane] = largest;
        self.sums[lane] = self.sums[lane] * factor + (score - base).exp();
        factor
    }

    /// Returns the logarithm of a lane's sum of exponentials.
    pub(super) fn lse(&self, lane: usize) -> A {
        finite_base(self.largest[lane]) + self.sums[lane].ln()
    }
}

/// [`Running`], for updates of the lanes of a vector.
pub(super) struct Vectors<'a, A> {
    largest: &'a mut [A],
    sums: &'a mut [A],
    factors: &'a mut [A],
}

impl<'a, A: Gemm> Vectors<'a, A> {
    /// Returns the same in f32, or `None` if the type is not f32.
    pub(super) fn in_f32(self) -> Option<Vectors<'a, f32>> {
        Some(Vectors {
            largest: A::as_f32_mut(self.largest)?,
            sums: A::as_f32_mut(self.sums)?,
            factors: A::as_f32_mut(self.factors)?,
        })
    }
}

impl<A: Real> Vectors<'_, A> {
    /// Takes the largest scores of a block for the lanes of a vector. Returns the numbers to subtract from the scores.
    #[inline(always)]
    pub(super) fn raise<C: Context>(&mut self, c: C, lane: usize, most: C::Of<A>) -> C::Of<A> {
        let largest = vector(&mut self.largest[lane..]);
        let before = read(c, largest);
        let most = before.at_least(most);
        let base = finite_bases(most);
        *largest = most.values();
        *vector(&mut self.factors[lane..]) = (before - base).exp().values();
        base
    }

    /// Adds the sums of a block's exponentials, for the lanes of a vector. Returns true if a factor is not 1.
    #[inline(always)]
    pub(super) fn add_sums<C: Context>(&mut self, c: C, lane: usize, block: C::Of<A>) -> bool {
        let factors = vector(&mut self.factors[lane..]);
        let sums = vector(&mut self.sums[lane..]);
        *sums = read(c, sums).mul_add(read(c, factors), block).values();
        factors.iter().any(|factor| *factor != A::ONE)
    }
}

/// Returns the largest score, or zero if all are hidden: `-∞` can't be subtracted from itself.
#[inline(always)]
fn finite_base<A: Real>(largest: A) -> A {
    if largest == A::of(f64::NEG_INFINITY) {
        A::ZERO
    } else {
        largest
    }
}

struct Add<'a, A> {
    place: &'a Place,
    scores: &'a mut [A],
    running: Vectors<'a, A>,
}

impl<A: Real> Task for Add<'_, A> {
    type Acc = A;
    type Output = bool;

    #[inline(always)]
    fn run<C: Context>(mut self, c: C) -> bool {
        let Place {
            stride,
            lanes,
            keys,
        } = self.place;
        let scores = &mut self.scores[..stride * keys.len()];
        let mut changed = false;
        for lane in lanes.clone().step_by(LANES) {
            let most = largest_of(c, scores, *stride, lane);
            let base = self.running.raise(c, lane, most);
            let mut sums = C::Of::splat(c, A::ZERO);
            for line in scores.chunks_exact_mut(*stride) {
                let scores = vector(&mut line[lane..]);
                let exponentials = (read(c, scores) - base).exp();
                *scores = exponentials.values();
                sums = sums + exponentials;
            }
            changed |= self.running.add_sums(c, lane, sums);
        }
        changed
    }
}

/// The number of lines whose largest scores are found together: the next maximum of a line need not wait for the last one.
const TOGETHER: usize = 4;

/// Returns the largest score of each lane of a vector. The vector has 64 or 128 lines, which stay in the first-level cache until
/// their exponentials are computed.
#[inline(always)]
pub(super) fn largest_of<C: Context, A: Real>(
    c: C,
    scores: &[A],
    stride: usize,
    lane: usize,
) -> C::Of<A> {
    let mut most = [C::Of::splat(c, A::of(f64::NEG_INFINITY)); TOGETHER];
    let mut parts = scores.chunks_exact(TOGETHER * stride);
    for lines in &mut parts {
        for (line, most) in most.iter_mut().enumerate() {
            *most = most.at_least(vector_of(c, &lines[line * stride..], lane));
        }
    }
    for line in parts.remainder().chunks_exact(stride) {
        most[0] = most[0].at_least(vector_of(c, line, lane));
    }
    let [a, b, c, d] = most;
    a.at_least(b).at_least(c.at_least(d))
}

/// Computes [`finite_base`] of each lane.
#[inline(always)]
fn finite_bases<N: Number>(largest: N) -> N {
    let zero = largest.like(0.0);
    largest.where_at_most(zero.like(f64::NEG_INFINITY), zero, largest)
}

/// Multiplies lines of lanes by the factors of the lanes.
pub(super) fn scale<A: Real>(values: &mut [A], stride: usize, lanes: Range<usize>, factors: &[A]) {
    vectorize(Scale {
        values,
        stride,
        factors: &factors[lanes.clone()],
        lanes,
    });
}

struct Scale<'a, A> {
    values: &'a mut [A],
    stride: usize,
    lanes: Range<usize>,
    factors: &'a [A],
}

impl<A: Real> pulp::WithSimd for Scale<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for line in self.values.chunks_exact_mut(self.stride) {
            for (value, factor) in line[self.lanes.clone()].iter_mut().zip(self.factors) {
                *value = *value * *factor;
            }
        }
    }
}

/// Adds `Σ p · (dy · v)` over a block of keys to the sum of each lane.
pub(super) struct Along<'a, A> {
    pub(super) place: &'a Place,
    pub(super) scores: &'a [A],
    /// `dy · v` of each pair.
    pub(super) d_scores: &'a [A],
    /// `lse` of each lane, as in [`Gradient`].
    pub(super) lse: &'a [A],
    pub(super) along: &'a mut [A],
}

impl<A: Real> Task for Along<'_, A> {
    type Acc = A;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let Place {
            stride,
            lanes,
            keys,
        } = self.place;
        let count = stride * keys.len();
        let lines = self.scores[..count].chunks_exact(*stride);
        for (scores, d_scores) in lines.zip(self.d_scores[..count].chunks_exact(*stride)) {
            for lane in lanes.clone().step_by(LANES) {
                let [scores, d_scores, lse] = [scores, d_scores, self.lse]
                    .map(|all| read(c, all[lane..].first_chunk().expect(WHOLE)));
                let along = vector(&mut self.along[lane..]);
                let sum = (scores - lse).exp().mul_add(d_scores, read(c, along));
                *along = sum.values();
            }
        }
    }
}

/// Computes the gradients of a block of scores, before the cap and the scale.
pub(super) struct Gradient<'a, A> {
    pub(super) place: &'a Place,
    /// The scores, which become `p = e^(score − lse)`.
    pub(super) scores: &'a mut [A],
    /// `dy · v` of each pair, which become the gradients.
    pub(super) d_scores: &'a mut [A],
    /// `lse` of each lane; zero where it is `-∞`, since such a lane has no visible score, and `∞` without a query.
    pub(super) lse: &'a [A],
    /// `Σ dy · y` of each lane.
    pub(super) along: &'a [A],
}

impl<A: Real> Task for Gradient<'_, A> {
    type Acc = A;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let Place {
            stride,
            lanes,
            keys,
        } = self.place;
        let count = stride * keys.len();
        let lines = self.scores[..count].chunks_exact_mut(*stride);
        let lines = lines.zip(self.d_scores[..count].chunks_exact_mut(*stride));
        for (scores, d_scores) in lines {
            for lane in lanes.clone().step_by(LANES) {
                let scores = vector(&mut scores[lane..]);
                let d_scores = vector(&mut d_scores[lane..]);
                let lse = read(c, self.lse[lane..].first_chunk().expect(WHOLE));
                let along = read(c, self.along[lane..].first_chunk().expect(WHOLE));
                let p = (read(c, scores) - lse).exp();
                *scores = p.values();
                *d_scores = (p * (read(c, d_scores) - along)).values();
            }
        }
    }
}

/// Multiplies a block of gradients by the slopes of the cap.
pub(super) struct Multiply<'a, A> {
    pub(super) place: &'a Place,
    pub(super) d_scores: &'a mut [A],
    pub(super) slopes: &'a [A],
}

impl<A: Real> pulp::WithSimd for Multiply<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Place { stride, lanes, .. } = self.place;
        let lines = self.place.lines(self.d_scores);
        for (d_scores, slopes) in lines.zip(self.slopes.chunks_exact(*stride)) {
            for (d_score, slope) in d_scores.iter_mut().zip(&slopes[lanes.clone()]) {
                *d_score = *d_score * *slope;
            }
        }
    }
}

#[inline(always)]
fn read<C: Context, A: Real>(c: C, values: &[A; LANES]) -> C::Of<A> {
    C::Of::<A>::read(c, values)
}

const WHOLE: &str = "lanes come in whole vectors";

/// Returns a vector of a line, from a lane on.
#[inline(always)]
pub(super) fn vector_of<C: Context, A: Real>(c: C, line: &[A], lane: usize) -> C::Of<A> {
    read(c, line[lane..].first_chunk().expect(WHOLE))
}

/// Returns the first [`LANES`] elements.
#[inline(always)]
fn vector<A>(values: &mut [A]) -> &mut [A; LANES] {
    values.first_chunk_mut().expect(WHOLE)
}

const _: () = assert!(
    KEYS <= 256 && KEYS_OF_TILES <= 256,
    "keys of a block are exact in every type"
);
