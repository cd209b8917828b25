//! Soft capping, `y = cap · tanh(x / cap)` for each element, and its gradient, `dx = dy / cosh²(x / cap)`.
//!
//! With `z = x / cap`, the slope is computed as `4 · σ(2z) · σ(−2z)`. Unlike `1 − tanh²(z)`, it loses no digits where the result
//! is near the cap.

use crate::{
    Blocks, Context, Element, Kernel, LANES, Number, Output, Read, Rows, Unwritten, Values, View,
    block, run, with_type,
};
use std::ops::Range;

/// Returns the result of `x`, whose rows are contiguous.
///
/// # Panics
/// Panics if the tensor can't be read in place.
pub fn forward(x: &View<'_>, cap: f64) -> Values {
    with_type!(x.dtype(), T => compute::<T>(x, None, cap))
}

/// Returns the gradient of `x`, from that of the result. The rows of both are contiguous.
///
/// # Panics
/// Panics if sizes or types differ, or if a tensor can't be read in place.
pub fn backward(dy: &View<'_>, x: &View<'_>, cap: f64) -> Values {
    dy.must_be_like(x);
    with_type!(x.dtype(), T => compute::<T>(x, Some(dy), cap))
}

fn compute<T: Element>(x: &View<'_>, dy: Option<&View<'_>>, cap: f64) -> Values {
    let pass = Pass::<T> {
        x: Rows::of(x),
        dy: dy.map(Rows::of),
        cap,
    };
    let (count, width) = (pass.x.count(), pass.x.width());
    let mut results = Output::<T>::new([count, width]);
    run(&pass, count, width, [&mut results], &mut Output::none());
    T::values(results.into_values())
}

/// A pass over the rows: backward if there is a gradient.
struct Pass<'a, T> {
    x: Rows<'a, T>,
    dy: Option<Rows<'a, T>>,
    cap: f64,
}

impl<T: Element> Kernel<1> for Pass<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        c: C,
        range: Range<usize>,
        [mut results]: [Unwritten<'_, T>; 1],
        _: Unwritten<'_, ()>,
    ) {
        let (width, cap) = (self.x.width(), self.cap);
        match &self.dy {
            None => {
                for x in self.x.range(range) {
                    let _ = results.row(width).write_blocks(&Capped { c, x, cap });
                }
            }
            Some(dy) => {
                for (x, dy) in self.x.range(range.clone()).zip(dy.range(range)) {
                    let _ = results.row(width).write_blocks(&Slopes { c, x, dy, cap });
                }
            }
        }
    }
}

/// The results of a row.
struct Capped<'a, T, C> {
    c: C,
    x: &'a [T],
    cap: f64,
}

impl<T: Element, C: Context> Blocks<T> for Capped<'_, T, C> {
    #[inline(always)]
    fn at<R: Read>(&self, at: usize) -> [T; LANES] {
        let x = block::<C, T, R>(self.c, self.x, at);
        let cap = x.like(self.cap);
        T::rounded(self.c, (x / cap).tanh() * cap)
    }
}

/// The gradients of a row.
struct Slopes<'a, T, C> {
    c: C,
    x: &'a [T],
    dy: &'a [T],
    cap: f64,
}

impl<T: Element, C: Context> Blocks<T> for Slopes<'_, T, C> {
    #[inline(always)]
    fn at<R: Read>(&self, at: usize) -> [T; LANES] {
        let x = block::<C, T, R>(self.c, self.x, at);
        let dy = block::<C, T, R>(self.c, self.dy, at);
        let z = x / x.like(self.cap);
        let (s, rest) = (z + z).sigmoid_and_rest();
        T::rounded(self.c, dy * (x.like(4.0) * s * rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};
    use std::panic::catch_unwind;

    /// Returns `count` numbers up to about 400, of both signs.
    fn numbers(count: usize) -> Vec<f32> {
        let each = |i: usize| ((i * 37 % 101) as f32 - 50.0) * 0.125 * (1 + i % 64) as f32;
        (0..count).map(each).collect()
    }

    fn f32s(values: Values) -> Vec<f32> {
        match values {
            Values::F32(values) => values,
            other => panic!("{other:?}"),
        }
    }

    /// Results are within 6 ulp: 4 of the tangent, and one each of the division and the product. The relative error of the
    /// slope is that of two exponentials, which grows with `|z|` by the rounding of `z`.
    #[test]
    fn results_and_gradients_are_those_in_f64() {
        let x = numbers(3 * 67);
        let dy: Vec<f32> = numbers(3 * 67 + 5)[5..].to_vec();
        for cap in [0.5, 30.0, 50.0, 1e6] {
            let (view, dy_view) = (View::whole(&x, &[3, 67]), View::whole(&dy, &[3, 67]));
            let (y, dx) = (forward(&view, cap), backward(&dy_view, &view, cap));
            for (i, (y, dx)) in f32s(y).into_iter().zip(f32s(dx)).enumerate() {
                let z = f64::from(x[i]) / cap;
                let exact = cap * z.tanh();
                let error = (f64::from(y) - exact).abs();
                assert!(
                    error <= 6.0 * 2.0_f64.powi(-23) * exact.abs(),
                    "{z}: {y} {exact}"
                );
                let exact = f64::from(dy[i]) / z.cosh().powi(2);
                let error = (f64::from(dx) - exact).abs();
                // Where the slope is below the smallest normal number, it has fewer digits.
                let least = f64::from(f32::MIN_POSITIVE) * (1.0 + f64::from(dy[i]).abs());
                let bound = (16.0 + 2.0 * z.abs()) * 2.0_f64.powi(-23) * exact.abs() + least;
                assert!(error <= bound, "{z}: {dx} {exact}");
            }
        }
    }

    #[test]
    fn half_types_are_rounded_once() {
        let x = numbers(43);
        let wide = |x: Vec<f32>| f32s(forward(&View::whole(&x, &[43]), 30.0));
        let halves: Vec<bf16> = x.iter().map(|x| bf16::from_f32(*x)).collect();
        let expected = wide(halves.iter().map(|x| x.to_f32()).collect());
        let expected = expected.into_iter().map(bf16::from_f32).collect();
        let found = forward(&View::whole(&halves, &[43]), 30.0);
        assert_eq!(found, Values::Bf16(expected));
        let halves: Vec<f16> = x.iter().map(|x| f16::from_f32(*x)).collect();
        let expected = wide(halves.iter().map(|x| x.to_f32()).collect());
        let expected = expected.into_iter().map(f16::from_f32).collect();
        let found = forward(&View::whole(&halves, &[43]), 30.0);
        assert_eq!(found, Values::F16(expected));
    }

    #[test]
    fn infinite_and_zero_elements_have_their_limits() {
        let x = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0, -0.0, 1e38];
        let view = View::whole(&x, &[6]);
        let y = f32s(forward(&view, 30.0));
        assert_eq!(
            [y[0], y[1], y[3], y[4], y[5]],
            [30.0, -30.0, 0.0, 0.0, 30.0]
        );
        assert!(y[2].is_nan());
        let dx = f32s(backward(&View::whole(&[2.0_f32; 6], &[6]), &view, 30.0));
        assert_eq!(
            [dx[0], dx[1], dx[3], dx[4], dx[5]],
            [0.0, 0.0, 2.0, 2.0, 0.0]
        );
        assert!(dx[2].is_nan());
    }

    #[test]
    fn strided_rows_and_threads_change_no_bit() {
        let (count, width) = if cfg!(miri) { (3, 5) } else { (1500, 96) };
        let x = numbers(count * width * 2);
        let apart = View::of(&x, &[count, width], &[2 * width as isize, 1], 0);
        let rows = x.chunks(2 * width).flat_map(|row| row[..width].to_vec());
        let together: Vec<f32> = rows.collect();
        let found = forward(&apart, 50.0);
        assert_eq!(
            found,
            forward(&View::whole(&together, &[count, width]), 50.0)
        );
        for (row, x) in f32s(found).chunks(width).zip(together.chunks(width)) {
            assert_eq!(row, f32s(forward(&View::whole(x, &[width]), 50.0)));
        }
    }

    #[test]
    fn tensors_that_do_not_go_together_are_refused() {
        let numbers = [1.0_f32; 6];
        let x = View::whole(&numbers, &[2, 3]);
        for dy in [
            View::whole(&numbers, &[3, 2]),
            View::whole(&numbers, &[6]),
            View::whole(&[1.0_f64; 6], &[2, 3]),
        ] {
            assert!(catch_unwind(|| backward(&dy, &x, 1.0)).is_err(), "{dy:?}");
        }
        let columns = View::of(&numbers, &[3, 2], &[1, 3], 0);
        assert!(catch_unwind(|| forward(&columns, 1.0)).is_err());
    }
}
