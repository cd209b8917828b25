//! Tests of operators that put elements at places: scattering, padding, rows that are on at one place, and the
//! coordinates of elements; and of equality, rounded quotients and sums of exponentials.

use crate::common::*;
use cann_emulator::abi::elementwise::*;
use cann_emulator::abi::equal::*;
use cann_emulator::abi::found::*;
use cann_emulator::abi::one_hot::*;
use cann_emulator::abi::pad::*;
use cann_emulator::abi::reduce::*;
use cann_emulator::abi::scatter::*;

#[test]
fn elements_are_scattered_over_a_copy_or_in_place() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let index = Tensor::integers(ACL_INT64, &[1, 2], &[2, 0]);
        let src = Tensor::floats(dtype, &[1, 2], &[0.5, -2.0]);
        let value = Scalar::float(3.0);
        let (i, s) = (index.handle, src.handle);
        let start = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
        for (reduction, new, filled) in [
            (
                0,
                [1.0, -2.0, 4.0, 8.0, 0.5, 32.0],
                [1.0, 3.0, 4.0, 8.0, 3.0, 32.0],
            ),
            (
                1,
                [1.0, 0.0, 4.0, 8.0, 16.5, 32.0],
                [1.0, 5.0, 4.0, 8.0, 19.0, 32.0],
            ),
            (
                2,
                [1.0, -4.0, 4.0, 8.0, 8.0, 32.0],
                [1.0, 6.0, 4.0, 8.0, 48.0, 32.0],
            ),
        ] {
            let x = Tensor::floats(dtype, &[3, 2], &start);
            let y = Tensor::empty(dtype, &[3, 2]);
            let (from, to) = (x.handle, y.handle);
            call!(aclnnScatterValue: from, 0, i, value, reduction, to).expect("documented");
            assert_eq!(y.read(), filled);
            assert_eq!(x.read(), start, "the input stays");
            call!(aclnnInplaceScatter: from, 0, i, s, reduction).expect("documented");
            assert_eq!(x.read(), new);
            x.fill(&start);
            call!(aclnnInplaceScatterValue: from, -2, i, value, reduction).expect("documented");
            assert_eq!(x.read(), filled);
        }
    }
}

#[test]
fn scatters_are_refused_outside_their_tensor() {
    let _session = Session::start();
    let (x, value) = (Tensor::floats(F32, &[2], &[1.0, 2.0]), Scalar::float(3.0));
    let call = |index: &Tensor, value: &Scalar, reduction| {
        call!(
            aclnnInplaceScatterValue: x, 0, index, value, reduction
        )
    };
    let index = |place| Tensor::integers(ACL_INT64, &[1], &[place]);
    each! { refused:
        call(&index(0), &value, 3), "reduce is 3";
        call(&Tensor::floats(F32, &[1], &[0.0]), &value, 0), "index is f32";
    }
    broke(call(&index(2), &value, 0), "aclnnInplaceScatterValue");
}

fn pad(x: &Tensor, margins: &[i64], value: &Scalar, y: &Tensor) -> Status {
    let margins = Ints::new(margins);
    call!(aclnnConstantPadNd: x, margins, value, y)
}

#[test]
fn margins_are_filled_and_negative_ones_cut() {
    let _session = Session::start();
    let value = Scalar::float(9.0);
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let y = Tensor::empty(dtype, &[2, 4]);
        pad(&x, &[-1, 2], &value, &y).expect("documented");
        assert_eq!(y.read(), [2.0, 3.0, 9.0, 9.0, 5.0, 6.0, 9.0, 9.0]);
        let y = Tensor::empty(dtype, &[3, 3]);
        pad(&x, &[0, 0, 1, 0], &value, &y).expect("documented");
        assert_eq!(y.read(), [9.0, 9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        refused(pad(&x, &[1], &value, &y), "pad has 1 numbers");
        refused(pad(&x, &[0; 6], &value, &y), "at most 2 axes");
        refused(pad(&x, &[-4, 0], &value, &y), "pad cuts more");
        refused(pad(&x, &[1, 1], &value, &y), "out has the shape");
    }
    let whole = Tensor::integers(ACL_INT64, &[1], &[1]);
    let y = Tensor::empty(ACL_INT64, &[2]);
    for value in [Scalar::int(7), Scalar::new(7.0, ACL_DOUBLE)] {
        pad(&whole, &[0, 1], &value, &y).expect("documented");
        assert_eq!(y.read_integers(), [1, 7]);
    }
}

#[test]
fn a_row_is_on_at_its_class() {
    let _session = Session::start();
    let on = Tensor::integers(ACL_INT64, &[1], &[5]);
    let off = Tensor::integers(ACL_INT64, &[1], &[-5]);
    let call =
        |x: &Tensor, classes, axis, y: &Tensor| call!(aclnnOneHot: x, classes, on, off, axis, y);
    for dtype in [ACL_INT64, ACL_INT32] {
        // The last index is outside of the classes.
        let x = Tensor::integers(dtype, &[3], &[1, 0, 2]);
        let y = Tensor::empty(ACL_INT64, &[3, 2]);
        call(&x, 2, -1, &y).expect("documented");
        assert_eq!(y.read_integers(), [-5, 5, 5, -5, -5, -5]);
        let y = Tensor::empty(ACL_INT64, &[2, 3]);
        call(&x, 2, 0, &y).expect("documented");
        assert_eq!(y.read_integers(), [-5, 5, -5, 5, -5, -5]);
        refused(call(&x, 2, 2, &y), "axis is 2");
        refused(call(&x, -1, 0, &y), "numClasses is -1");
        refused(call(&x, 3, 0, &y), "out has the shape");
    }
    let floats = Tensor::floats(F32, &[1], &[1.0]);
    let y = Tensor::empty(ACL_INT64, &[1, 2]);
    refused(call(&floats, 2, -1, &y), "self is f32");
}

#[test]
fn coordinates_are_rows_of_axes() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[2, 3], &[0.0, 1.0, 0.0, 2.0, 0.0, -1.0]);
    let found = Tensor::empty(ACL_INT64, &[2, 6]);
    call!(aclnnNonzeroV2: x, found).expect("documented");
    let (mut shape, mut axes) = (std::ptr::null_mut(), 0);
    // SAFETY: the places are variables.
    unsafe { aclGetViewShape(found.handle, &mut shape, &mut axes) };
    // SAFETY: the array has as many lengths as were given, and is ours.
    let lengths = unsafe { std::slice::from_raw_parts(shape, axes as usize) };
    assert_eq!(lengths, [2, 3]);
    assert_eq!(download::<i64>(found.address, 6), [0, 1, 1, 1, 0, 2]);
    let narrow = Tensor::empty(ACL_INT64, &[2, 2]);
    let status = call!(aclnnNonzeroV2: x, narrow);
    assert!(status.expect_err("it must fail").1.contains("room for 2"));
    let rows = Tensor::empty(ACL_INT64, &[6, 2]);
    let status = call!(aclnnNonzeroV2: x, rows);
    refused(status, "out has the shape");
}

#[test]
fn tensors_are_equal_as_a_whole() {
    let _session = Session::start();
    let y = bytes(ACL_BOOL, &[7]);
    let equal = |a: &Tensor, b: &Tensor| {
        call!(aclnnEqual: a, b, y).map(|()| download::<u8>(y.address, 1)[0])
    };
    for dtype in [F32, F16, BF16] {
        let [x, same, other] =
            [[1.0, 2.0], [1.0, 2.0], [1.0, 2.5]].map(|v| Tensor::floats(dtype, &[2], &v));
        each! { assert_same:
            equal(&x, &same), Ok(1);
            equal(&x, &other), Ok(0);
            equal(&x, &Tensor::floats(dtype, &[1, 2], &[1.0, 2.0])), Ok(0);
        }
    }
    let nan = Tensor::floats(F32, &[1], &[f32::NAN]);
    assert_eq!(equal(&nan, &nan), Ok(0));
    let whole = Tensor::integers(ACL_INT64, &[1], &[1]);
    refused(equal(&nan, &whole).map(drop), "other is i64");
}

#[test]
fn quotients_are_rounded_down() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[4], &[7.0, -7.0, 6.0, -0.5]);
        let by = Tensor::floats(dtype, &[1], &[2.0]);
        let y = Tensor::empty(dtype, &[4]);
        call!(aclnnFloorDivide: x, by, y).expect("documented");
        assert_eq!(y.read(), [3.0, -4.0, 3.0, -1.0]);
        let two = Scalar::float(2.0);
        y.fill(&[0.0; 4]);
        call!(aclnnFloorDivides: x, two, y).expect("documented");
        assert_eq!(y.read(), [3.0, -4.0, 3.0, -1.0]);
        let (xs, bys) = (x.handle, by.handle);
        call!(aclnnInplaceFloorDivide: xs, bys).expect("documented");
        call!(aclnnInplaceFloorDivides: xs, two).expect("documented");
        assert_eq!(x.read(), [1.0, -2.0, 1.0, -1.0]);
    }
    let [x, by] = [[7, -7], [2, 2]].map(|values| Tensor::integers(ACL_INT64, &[2], &values));
    let y = Tensor::empty(ACL_INT64, &[2]);
    call!(aclnnFloorDivide: x, by, y).expect("documented");
    assert_eq!(y.read_integers(), [3, -4]);
}

#[test]
fn sums_of_exponentials_do_not_overflow() {
    let _session = Session::start();
    let axes = Ints::new(&[1]);
    let call = |x: &Tensor, y: &Tensor| call!(aclnnLogSumExp: x, axes, false, y);
    for dtype in [F32, F16, BF16] {
        let values: Vec<f32> = noise(8, 1).into_iter().map(|x| 300.0 * x).collect();
        let x = Tensor::floats(dtype, &[2, 4], &values);
        let y = Tensor::empty(dtype, &[2]);
        call(&x, &y).expect("documented");
        let expected: Vec<f64> = exact(&x)
            .chunks(4)
            .map(|row| {
                let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                most + row.iter().map(|x| (x - most).exp()).sum::<f64>().ln()
            })
            .collect();
        y.assert_close("sum", &expected, 1e-6);
    }
    let low = Tensor::floats(
        F32,
        &[2, 2],
        &[f32::NEG_INFINITY, f32::NEG_INFINITY, f32::INFINITY, 0.0],
    );
    let y = Tensor::empty(F32, &[2]);
    call(&low, &y).expect("documented");
    assert_eq!(y.read(), [f32::NEG_INFINITY, f32::INFINITY]);
    refused(call(&low, &Tensor::empty(F16, &[2])), "out is f16");
}
