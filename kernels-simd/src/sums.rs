//! Sums over rows, in an order that SIMD adds in and that does not depend on the processor.

use super::Real;

/// The number of independent sums, which let the compiler add with SIMD. It would not reorder a single sum.
const LANES: usize = 32;

/// The number of elements that are added at once. Sums of longer rows, which would drift in f32, are those of parts in f64.
pub const LONG: usize = 16 * 1024;

/// Adds the sums of a part to those of the parts before.
#[inline(always)]
fn add_part<const N: usize, A: Real>(totals: &mut [f64; N], sums: [A; N]) {
    for (total, sum) in totals.iter_mut().zip(sums) {
        *total += sum.into_f64();
    }
}

/// Returns `Σ term(left, right, weight)` over rows of the same length.
#[inline(always)]
pub fn sum_of<L: Copy, R: Copy, A: Real>(
    left: &[L],
    right: &[R],
    weights: &[A],
    term: impl Fn(L, R, A) -> A,
) -> A {
    let mut total = [0.0];
    let parts = left.chunks(LONG).zip(right.chunks(LONG));
    for ((left, right), weights) in parts.zip(weights.chunks(LONG)) {
        add_part(&mut total, [sum_of_part(left, right, weights, &term)]);
    }
    A::of(total[0])
}

#[inline(always)]
fn sum_of_part<L: Copy, R: Copy, A: Real>(
    left: &[L],
    right: &[R],
    weights: &[A],
    term: impl Fn(L, R, A) -> A,
) -> A {
    let mut lanes = [A::ZERO; LANES];
    let (left_body, left_tail) = left.as_chunks::<LANES>();
    let (right_body, right_tail) = right.as_chunks::<LANES>();
    let (weight_body, weight_tail) = weights.as_chunks::<LANES>();
    for ((l, r), w) in left_body.iter().zip(right_body).zip(weight_body) {
        for i in 0..LANES {
            lanes[i] += term(l[i], r[i], w[i]);
        }
    }
    // A copy, because places that are known only at run time would keep the lanes of the loop above in memory.
    let mut ended = lanes;
    let tails = left_tail.iter().zip(right_tail).zip(weight_tail);
    for (i, ((l, r), w)) in tails.enumerate() {
        ended[i] += term(*l, *r, *w);
    }
    fold(ended)
}

/// Returns `Σ value` over a row.
#[inline(always)]
pub fn sum<T: Copy, A: Real>(row: &[T], value: impl Fn(T) -> A) -> A {
    let mut total = [0.0];
    for part in row.chunks(LONG) {
        add_part(&mut total, [part_sum(part, &value)]);
    }
    A::of(total[0])
}

#[inline(always)]
fn part_sum<T: Copy, A: Real>(row: &[T], value: impl Fn(T) -> A) -> A {
    let mut lanes = [A::ZERO; LANES];
    let (body, tail) = row.as_chunks::<LANES>();
    for chunk in body {
        for i in 0..LANES {
            lanes[i] += value(chunk[i]);
        }
    }
    let mut ended = lanes; // As in `sum_of`.
    for (i, x) in tail.iter().enumerate() {
        ended[i] += value(*x);
    }
    fold(ended)
}

/// Returns `Σ value²` over a row.
#[inline(always)]
pub fn sum_of_squares<T: Copy, A: Real>(row: &[T], value: impl Fn(T) -> A) -> A {
    sum(row, |x| {
        let v = value(x);
        v * v
    })
}

/// Returns the sums of several terms over a row, in one pass.
#[inline(always)]
pub fn sums<const N: usize, T: Copy, A: Real>(row: &[T], terms: impl Fn(T) -> [A; N]) -> [A; N] {
    let mut totals = [0.0; N];
    for part in row.chunks(LONG) {
        add_part(&mut totals, part_sums(part, &terms));
    }
    totals.map(A::of)
}

#[inline(always)]
fn part_sums<const N: usize, T: Copy, A: Real>(row: &[T], terms: impl Fn(T) -> [A; N]) -> [A; N] {
    let mut lanes = [[A::ZERO; LANES]; N];
    let (body, tail) = row.as_chunks::<LANES>();
    for chunk in body {
        for (i, x) in chunk.iter().enumerate() {
            add(&mut lanes, i, terms(*x));
        }
    }
    let mut ended = lanes; // As in `sum_of`.
    for (i, x) in tail.iter().enumerate() {
        add(&mut ended, i, terms(*x));
    }
    ended.map(fold)
}

/// Returns the sums of several terms `(left, right, weight)` over rows of the same length, in one pass.
#[inline(always)]
pub fn sums_of<const N: usize, L: Copy, R: Copy, A: Real>(
    left: &[L],
    right: &[R],
    weights: &[A],
    terms: impl Fn(L, R, A) -> [A; N],
) -> [A; N] {
    let mut totals = [0.0; N];
    let parts = left.chunks(LONG).zip(right.chunks(LONG));
    for ((left, right), weights) in parts.zip(weights.chunks(LONG)) {
        add_part(&mut totals, sums_of_part(left, right, weights, &terms));
    }
    totals.map(A::of)
}

#[inline(always)]
fn sums_of_part<const N: usize, L: Copy, R: Copy, A: Real>(
    left: &[L],
    right: &[R],
    weights: &[A],
    terms: impl Fn(L, R, A) -> [A; N],
) -> [A; N] {
    let mut lanes = [[A::ZERO; LANES]; N];
    let (left_body, left_tail) = left.as_chunks::<LANES>();
    let (right_body, right_tail) = right.as_chunks::<LANES>();
    let (weight_body, weight_tail) = weights.as_chunks::<LANES>();
    for ((l, r), w) in left_body.iter().zip(right_body).zip(weight_body) {
        for i in 0..LANES {
            add(&mut lanes, i, terms(l[i], r[i], w[i]));
        }
    }
    let mut ended = lanes;
    let tails = left_tail.iter().zip(right_tail).zip(weight_tail);
    for (i, ((l, r), w)) in tails.enumerate() {
        add(&mut ended, i, terms(*l, *r, *w));
    }
    ended.map(fold)
}

/// Adds the terms of one element to lane `i` of each sum.
#[inline(always)]
fn add<const N: usize, A: Real>(lanes: &mut [[A; LANES]; N], i: usize, terms: [A; N]) {
    for (lanes, term) in lanes.iter_mut().zip(terms) {
        lanes[i] += term;
    }
}

/// Adds the lanes pairwise, which also keeps the rounding error small.
#[inline(always)]
fn fold<A: Real>(mut lanes: [A; LANES]) -> A {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_take_every_element_once() {
        for len in [0, 1, 31, 32, 33, 64, 100] {
            let row: Vec<f64> = (1..=len).map(f64::from).collect();
            let n = f64::from(len);
            assert_eq!(
                sum_of_squares(&row, |x| x),
                n * (n + 1.0) * (2.0 * n + 1.0) / 6.0
            );
            assert_eq!(sum_of(&row, &row, &row, |a, _, w| a - w + 1.0), n, "{len}");
            let triangle = n * (n + 1.0) / 2.0;
            assert_eq!(sum(&row, |x| x), triangle);
            assert_eq!(sums(&row, |x| [x, 1.0]), [triangle, n]);
            let terms = |a: f64, b: f64, w: f64| [a - b + 1.0, w];
            assert_eq!(sums_of(&row, &row, &row, terms), [n, triangle]);
        }
    }
}
