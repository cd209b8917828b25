//! Tests of reductions: the dtypes and shapes of their results.

use crate::common::*;
use cann_emulator::abi::reduce::*;

fn mean(x: &Tensor, axes: &[i64], dtype: aclDataType, y: &Tensor) -> Status {
    let axes = Ints::new(axes);
    call!(aclnnMean: x, axes, false, dtype, y)
}

#[test]
fn the_mean_of_integers_is_whole_and_may_be_converted() {
    let _session = Session::start();
    let x = Tensor::integers(ACL_INT64, &[2, 3], &[1, 2, 4, -1, -2, -5]);
    let whole = Tensor::empty(ACL_INT64, &[2]);
    mean(&x, &[1], ACL_INT64, &whole).expect("documented");
    assert_eq!(whole.read_integers(), [2, -2]);
    let float = Tensor::empty(F32, &[2]);
    mean(&x, &[1], F32, &float).expect("documented");
    assert_eq!(float.read(), [7.0 / 3.0, -8.0 / 3.0]);
    let half = Tensor::empty(F16, &[2]);
    mean(&x, &[1], F32, &half).expect("into another float");
    each! { refused:
        mean(&x, &[1], F32, &whole), "out is i64, to which f32 is not converted";
        mean(&float, &[0], ACL_INT64, &Tensor::empty(ACL_INT64, &[])),
            "dtype is i64, to which f32 is not converted";
        mean(&bytes(ACL_BOOL, &[1, 0]), &[0], F32, &Tensor::empty(F32, &[])), "self is bool";
    }
    for axes in [&[][..], &[1]] {
        let all = Tensor::empty(F32, axes);
        mean(&x, &[], F32, &all).expect("one element");
        assert_eq!(all.read(), [-1.0 / 6.0]);
    }
    each! { refused: mean(&x, &[], F32, &Tensor::empty(F32, &[1, 1])), "out has the shape" }
}

#[test]
fn the_mean_without_axes_is_of_all_or_of_none() {
    let _session = Session::start();
    let x = Tensor::floats(F16, &[2, 2], &[1.0, 2.0, 3.0, 6.0]);
    let mean = |axes: &[i64], keep, noop, y: &Tensor| {
        let axes = Ints::new(axes);
        call!(aclnnMeanV2: x, axes, keep, noop, y)
    };
    let all = Tensor::empty(F16, &[]);
    let rows = Tensor::empty(F16, &[2, 1]);
    let same = Tensor::empty(F16, &[2, 2]);
    mean(&[], false, false, &all).expect("documented");
    assert_eq!(all.read(), [3.0]);
    mean(&[-1], true, true, &rows).expect("documented");
    assert_eq!(rows.read(), [1.5, 4.5]);
    mean(&[], false, true, &same).expect("documented");
    assert_eq!(same.read(), x.read());
    each! { refused:
        mean(&[], false, true, &all), "out has the shape";
        mean(&[0], false, false, &Tensor::empty(F32, &[2])), "out is f32";
    }
}

#[test]
fn places_of_extremes_have_32_or_64_bits() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[2, 3], &[3.0, 1.0, 2.0, -1.0, 0.0, -2.0]);
    type Places = fn(&Tensor, i64, bool, &Tensor) -> Status;
    for (name, call, expected) in operators! { Places (x, axis, keep, out):
        aclnnArgMin, [1, 2];
        aclnnArgMax, [0, 1];
    } {
        let place = |y: &Tensor| call(&x, 1, false, y);
        for dtype in [ACL_INT32, ACL_INT64] {
            let y = Tensor::empty(dtype, &[2]);
            place(&y).expect(name);
            assert_eq!(y.read_integers(), expected);
        }
        refused(place(&Tensor::empty(ACL_INT16, &[2])), "out is i16");
    }
}

#[test]
fn the_product_of_all_may_have_one_axis() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[2, 2], &[0.5, 3.0, -2.0, 4.0]);
    let prod = |y: &Tensor| call!(aclnnProd: x, F32, y);
    for axes in [&[][..], &[1]] {
        let y = Tensor::empty(F32, axes);
        prod(&y).expect("one element");
        assert_eq!(y.read(), [-12.0]);
    }
    refused(prod(&Tensor::empty(F32, &[2])), "out has the shape");
    refused(prod(&Tensor::empty(F16, &[1])), "out is f16");
}

#[test]
fn any_and_all_give_booleans_of_any_dtype() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[2, 2], &[0.0, -0.5, 2.0, f32::NAN]);
    type Truth = fn(&Tensor, &Ints, bool, &Tensor) -> Status;
    let axes = Ints::new(&[1]);
    for (_, call, expected) in operators! { Truth (x, axes, keep, out):
        aclnnAll, [0, 1];
        aclnnAny, [1, 1];
    } {
        let truth = |y: &Tensor| call(&x, &axes, false, y);
        let (whole, float) = (Tensor::empty(ACL_INT32, &[2]), Tensor::empty(F16, &[2]));
        truth(&whole).expect("into integers");
        assert_eq!(whole.read_integers(), expected);
        truth(&float).expect("into floats");
        assert_eq!(float.read(), expected.map(|bit| bit as f32));
        refused(truth(&Tensor::empty(F16, &[3])), "out has the shape");
    }
}

#[test]
fn the_greatest_and_the_least_of_all() {
    let _session = Session::start();
    let x = Tensor::floats(BF16, &[2, 2], &[1.0, -3.0, 2.0, 0.5]);
    for axes in [&[][..], &[1]] {
        let y = Tensor::empty(BF16, axes);
        call!(aclnnMax: x, y).expect("documented");
        assert_eq!(y.read(), [2.0]);
        call!(aclnnMin: x, y).expect("documented");
        assert_eq!(y.read(), [-3.0]);
    }
    let whole = Tensor::integers(ACL_INT64, &[2], &[(1 << 60) + 1, 1 << 60]);
    let y = Tensor::empty(ACL_INT64, &[]);
    call!(aclnnMax: whole, y).expect("exact");
    assert_eq!(y.read_integers(), [(1 << 60) + 1]);
    let max = |x: &Tensor, y: &Tensor| call!(aclnnMax: x, y);
    refused(max(&x, &Tensor::empty(F32, &[])), "out is f32");
    refused(max(&x, &Tensor::empty(BF16, &[2])), "out has the shape");
    let none = Tensor::empty(BF16, &[0]);
    refused(max(&none, &Tensor::empty(BF16, &[])), "of an empty tensor");
}

#[test]
fn variances_are_corrected() {
    let _session = Session::start();
    type Corrected = fn(&Tensor, &Ints, i64, bool, &Tensor) -> Status;
    type Function = fn(f64) -> f64;
    for (name, corrected, of) in operators! { Corrected (x, axes, correction, keep, out):
        aclnnVarCorrection, (|v| v) as Function;
        aclnnStd, f64::sqrt;
    } {
        for dtype in [F32, F16, BF16] {
            let x = Tensor::floats(dtype, &[3, 5], &noise(15, 7));
            let values = exact(&x);
            for correction in [0, 1, 2] {
                let expected: Vec<f64> = values
                    .chunks(5)
                    .map(|row| {
                        let mean = row.iter().sum::<f64>() / 5.0;
                        let squares: f64 = row.iter().map(|x| (x - mean).powi(2)).sum();
                        of(squares / (5 - correction) as f64)
                    })
                    .collect();
                let (y, axes) = (Tensor::empty(dtype, &[3, 1]), Ints::new(&[-1]));
                corrected(&x, &axes, correction, true, &y).expect(name);
                y.assert_close("variance", &expected, 1e-6);
            }
        }
        let x = Tensor::floats(F32, &[2], &[1.0, 2.0]);
        let y = Tensor::empty(F32, &[]);
        let axes = Ints::new(&[]);
        let call = |x: &Tensor, y: &Tensor, correction| corrected(x, &axes, correction, false, y);
        // A divisor is not less than zero.
        call(&x, &y, 5).expect("documented");
        assert_eq!(y.read(), [f32::INFINITY]);
        refused(call(&x, &Tensor::empty(F16, &[]), 1), "out is f16");
        let whole = Tensor::empty(ACL_INT32, &[2]);
        each! { refused: call(&whole, &Tensor::empty(ACL_INT32, &[]), 1), "self is i32" }
    }
}

#[test]
fn norms_of_every_order() {
    let _session = Session::start();
    let norm = |x: &Tensor, order: f32, dtype, y: &Tensor| {
        let (order, axes) = (Scalar::float(order), Ints::new(&[1]));
        call!(aclnnLinalgVectorNorm: x, order, axes, false, dtype, y)
    };
    for dtype in [F32, F16, BF16] {
        let mut values = noise(12, 9);
        values[3] = 0.0;
        let x = Tensor::floats(dtype, &[2, 6], &values);
        let values = exact(&x);
        for order in [2.0f32, 1.0, 3.0, 0.5, 0.0, f32::INFINITY, f32::NEG_INFINITY] {
            let expected: Vec<f64> = values
                .chunks(6)
                .map(|row| {
                    let sizes = row.iter().map(|x| x.abs());
                    let order = f64::from(order);
                    match order {
                        f64::INFINITY => sizes.fold(0.0, f64::max),
                        f64::NEG_INFINITY => sizes.fold(f64::INFINITY, f64::min),
                        0.0 => sizes.filter(|x| *x != 0.0).count() as f64,
                        _ => sizes.map(|x| x.powf(order)).sum::<f64>().powf(1.0 / order),
                    }
                })
                .collect();
            for out in [F32, dtype] {
                let y = Tensor::empty(out, &[2]);
                norm(&x, order, out, &y).expect("documented");
                y.assert_close(&format!("order {order}"), &expected, 1e-6);
            }
        }
    }
    let (x, y) = (Tensor::empty(F32, &[2, 0]), Tensor::empty(F32, &[2]));
    norm(&x, 2.0, F32, &y).expect("zero");
    assert_eq!(y.read(), [0.0, 0.0]);
    each! { refused:
        norm(&x, f32::INFINITY, F32, &y), "of an empty tensor";
        norm(&x, 2.0, F16, &y), "out is f32";
        norm(&x, 2.0, ACL_DOUBLE, &Tensor::empty(ACL_DOUBLE, &[2])), "dtype is f64";
    }
    let whole = Tensor::empty(ACL_INT32, &[2, 2]);
    refused(norm(&whole, 2.0, F32, &y), "self is i32");
}
