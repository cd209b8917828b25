//! Tests of running sums with their options, histograms, and counts of integers, against f64.

use crate::common::host::doubles;
use crate::common::*;
use cann_emulator::abi::reduce::*;

fn cumsum(x: &Tensor, axis: i64, [exclusive, reverse]: [bool; 2], y: &Tensor) -> Status {
    call!(aclnnCumsumV2: x, axis, exclusive, reverse, y)
}

/// Returns the sums along the last axis of rows.
fn sums(values: &[f64], width: usize, [exclusive, reverse]: [bool; 2]) -> Vec<f64> {
    let of = |row: &[f64], at: usize| {
        let own = usize::from(!exclusive);
        match reverse {
            false => row[..at + own].iter().sum::<f64>(),
            true => row[at + 1 - own..].iter().sum(),
        }
    };
    let rows = values.chunks(width);
    rows.flat_map(|row| (0..width).map(move |at| of(row, at)))
        .collect()
}

#[test]
fn running_sums_begin_at_either_end_and_may_leave_their_own_out() {
    let _session = Session::start();
    for options in [[false, false], [false, true], [true, false], [true, true]] {
        for dtype in [F32, F16, BF16] {
            let x = Tensor::floats(dtype, &[3, 5], &noise(15, 4));
            let y = Tensor::empty(dtype, &[3, 5]);
            cumsum(&x, -1, options, &y).expect("documented");
            let expected = sums(&exact(&x), 5, options);
            y.assert_close("sums", &expected, 1e-6);
            // Along the first axis of the transposed view they are the same.
            let turned = Tensor::strided(dtype, &[5, 3], Some(&[1, 5]), 0, 15);
            turned.fill(&x.read());
            cumsum(&turned, 0, options, &turned).expect("a view");
            turned.assert_close("a view", &expected, 1e-6);
        }
    }
    let whole = Tensor::integers(ACL_INT64, &[3], &[1, 1 << 60, 5]);
    cumsum(&whole, 0, [true, true], &whole).expect("documented");
    assert_eq!(whole.read_integers(), [(1 << 60) + 5, 5, 0]);
    let one = doubles(&[], &[2.5]);
    cumsum(&one, -1, [false, true], &one).expect("no axes");
    assert_eq!(download::<f64>(one.address, 1), [2.5]);
}

#[test]
fn running_sums_refuse_other_dtypes_axes_and_shapes() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let x = t(F32, &[2, 3]);
    let plain = [false; 2];
    refused(cumsum(&x, 2, plain, &x), "has no axis 2");
    refused(cumsum(&x, 0, plain, &t(F16, &[2, 3])), "out is f16");
    refused(cumsum(&x, 0, plain, &t(F32, &[3])), "out has the shape");
    let truth = bytes(ACL_BOOL, &[1]);
    refused(cumsum(&truth, 0, plain, &truth), "self is bool");
    let many = t(F32, &[1; 9]);
    refused(cumsum(&many, 0, plain, &many), "9 axes");
}

fn histogram(x: &Tensor, bins: i64, [low, high]: [f32; 2], y: &Tensor) -> Status {
    let (low, high) = (Scalar::float(low), Scalar::float(high));
    call!(aclnnHistc: x, bins, low, high, y)
}

#[test]
fn a_histogram_counts_the_values_of_equal_parts() {
    let _session = Session::start();
    for dtype in [F32, F16] {
        let x = Tensor::floats(dtype, &[4, 25], &noise(100, 8));
        let values = exact(&x);
        let expected: Vec<f32> = (0..5)
            .map(|bin| {
                let (from, to) = (-0.5 + 0.2 * f64::from(bin), -0.3 + 0.2 * f64::from(bin));
                // The last part has its upper end.
                let inside = |x: &&f64| **x >= from && (**x < to || bin == 4 && **x == 0.5);
                values.iter().filter(inside).count() as f32
            })
            .collect();
        let y = Tensor::empty(dtype, &[5]);
        histogram(&x, 5, [-0.5, 0.5], &y).expect("documented");
        assert_eq!(y.read(), expected);
    }
    // The last part has its upper end, and NaN is nowhere.
    let x = Tensor::floats(F32, &[6], &[0.0, 1.0, 2.0, 2.0, f32::NAN, 3.0]);
    let y = Tensor::empty(ACL_INT32, &[2]);
    histogram(&x, 2, [0.0, 2.0], &y).expect("documented");
    assert_eq!(y.read_integers(), [1, 3]);
    // Equal limits stand for those of the values.
    let whole = Tensor::integers(ACL_INT64, &[4], &[-4, 0, 4, 4]);
    histogram(&whole, 2, [7.0, 7.0], &y).expect("documented");
    assert_eq!(y.read_integers(), [1, 3]);
    let same = Tensor::integers(ACL_INT32, &[3], &[5, 5, 5]);
    histogram(&same, 2, [0.0, 0.0], &y).expect("one further on both sides");
    assert_eq!(y.read_integers(), [0, 3]);
    let none = Tensor::empty(F32, &[0]);
    histogram(&none, 2, [0.0, 0.0], &y).expect("nothing");
    assert_eq!(y.read_integers(), [0, 0]);
}

#[test]
fn histograms_are_checked() {
    let _session = Session::start();
    let (x, y) = (Tensor::empty(F32, &[4]), Tensor::empty(F32, &[2]));
    refused(histogram(&x, 0, [0.0, 1.0], &y), "0 bins");
    refused(histogram(&x, 2, [1.0, 0.0], &y), "min is at most max");
    refused(histogram(&x, 3, [0.0, 1.0], &y), "out has the shape");
    let bf16 = Tensor::empty(BF16, &[4]);
    each! { refused:
        histogram(&bf16, 2, [0.0, 1.0], &y), "self is bf16";
        histogram(&x, 2, [0.0, 1.0], &Tensor::empty(ACL_DOUBLE, &[2])), "out is f64";
    }
    let wide = Tensor::floats(F32, &[2], &[f32::INFINITY, 0.0]);
    broke(histogram(&wide, 2, [0.0, 0.0], &y), "which has no bins");
}

fn bincount(x: &Tensor, weights: Option<&Tensor>, least: i64, y: &Tensor) -> Status {
    let weights = weights.map_or(std::ptr::null_mut(), |weights| weights.handle);
    call!(aclnnBincount: x, weights, least, y)
}

#[test]
fn integers_are_counted_or_weighed() {
    let _session = Session::start();
    let x = Tensor::integers(ACL_INT32, &[5], &[0, 3, 3, 1, 3]);
    let counts = Tensor::empty(ACL_INT64, &[4]);
    bincount(&x, None, 0, &counts).expect("documented");
    assert_eq!(counts.read_integers(), [1, 1, 0, 3]);
    let more = Tensor::empty(ACL_INT64, &[6]);
    bincount(&x, None, 6, &more).expect("documented");
    assert_eq!(more.read_integers(), [1, 1, 0, 3, 0, 0]);
    for dtype in [F32, F16] {
        let weights = Tensor::floats(dtype, &[5], &noise(5, 6));
        let w = exact(&weights);
        let expected = [w[0], w[3], 0.0, w[1] + w[2] + w[4]];
        let y = Tensor::empty(F32, &[4]);
        bincount(&x, Some(&weights), 0, &y).expect("documented");
        y.assert_close("weights", &expected, 1e-6);
        let y = Tensor::empty(ACL_DOUBLE, &[4]);
        bincount(&x, Some(&weights), 0, &y).expect("documented");
        assert_eq!(download::<f64>(y.address, 4), expected);
    }
    let truth = bytes(ACL_BOOL, &[1, 0, 1, 1, 1]);
    bincount(&x, Some(&truth), 0, &counts).expect("documented");
    assert_eq!(counts.read_integers(), [1, 1, 0, 2]);
}

#[test]
fn counts_are_checked() {
    let _session = Session::start();
    let x = Tensor::integers(ACL_INT64, &[2], &[2, 0]);
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    each! { refused:
        bincount(&t(F32, &[2]), None, 0, &t(F32, &[3])), "self is f32";
        bincount(&x, None, 0, &t(F16, &[3])), "out is f16";
        bincount(&x, None, 4, &t(F32, &[3])), "minlength is 4";
        bincount(&x, Some(&t(F32, &[3])), 0, &t(F32, &[3])), "weights has the shape";
        bincount(&x, Some(&t(BF16, &[2])), 0, &t(F32, &[3])), "weights is bf16";
        bincount(&t(ACL_INT64, &[1, 2]), None, 0, &t(F32, &[3])), "self has 2 axes";
    }
}

#[test]
fn counts_that_do_not_fit_fail_on_the_stream() {
    for (values, length, why) in [
        ([2, 0], 4, "out has the shape [4]"),
        ([-1, 0], 3, "not negative"),
        ([1 << 40, 0], 3, "too large"),
    ] {
        let _session = Session::start();
        let x = Tensor::integers(ACL_INT64, &[2], &values);
        let out = Tensor::empty(F32, &[length]);
        broke(bincount(&x, None, 0, &out), why);
    }
}
