//! Tests of logarithms and powers of two and ten, of replaced NaN, and of numbers that are close, against f64.

use crate::common::*;
use cann_emulator::abi::elementwise::*;

#[test]
fn logarithms_and_powers_of_two_and_ten() {
    let _session = Session::start();
    type Function = fn(f64) -> f64;
    let cases = operators! { OfOne (x, out):
        aclnnLog2, f64::log2 as Function;
        aclnnLog10, f64::log10;
        aclnnExp2, f64::exp2;
    };
    for dtype in [F32, F16, BF16] {
        let values: Vec<f32> = noise(24, 5)
            .into_iter()
            .map(|x| x.abs() * 9.0 + 0.1)
            .collect();
        let x = Tensor::floats(dtype, &[4, 6], &values);
        for (name, call, function) in cases {
            let y = Tensor::empty(dtype, &[4, 6]);
            call(&x, &y).expect(name);
            let expected: Vec<f64> = exact(&x).into_iter().map(function).collect();
            y.assert_close(name, &expected, 1e-6);
        }
    }
    // Integers give f32.
    let x = Tensor::integers(ACL_INT64, &[3], &[1, 8, 1024]);
    let y = Tensor::empty(F32, &[3]);
    call!(aclnnLog2: x, y).expect("documented");
    assert_eq!(y.read(), [0.0, 3.0, 10.0]);
    each! { refused:
        call!(aclnnLog2: x, Tensor::empty(F32, &[4])), "out has the shape";
        call!(aclnnLog2: x, Tensor::empty(ACL_INT64, &[3])), "out is i64";
    }
    let x = Tensor::floats(F32, &[2], &[3.0, -1.0]);
    call!(aclnnInplaceExp2: x).expect("documented");
    assert_eq!(x.read(), [8.0, 0.5]);
    call!(aclnnInplaceLog2: x).expect("documented");
    assert_eq!(x.read(), [3.0, -1.0]);
    call!(aclnnInplaceLog10: x).expect("documented");
    assert!((x.read()[0] - 3f32.log10()).abs() < 1e-6 && x.read()[1].is_nan());
}

fn nan_to_num(x: &Tensor, y: &Tensor) -> Status {
    call!(aclnnNanToNum: x, 7.0, 8.0, -9.0, y)
}

#[test]
fn nan_and_infinities_are_replaced() {
    let _session = Session::start();
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.5, -0.0];
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[5], &values);
        let y = Tensor::empty(dtype, &[5]);
        nan_to_num(&x, &y).expect("documented");
        assert_eq!(y.read(), [7.0, 8.0, -9.0, 1.5, -0.0]);
        call!(aclnnInplaceNanToNum: x, 7.0, 8.0, -9.0).expect("documented");
        assert_eq!(x.read(), y.read());
    }
    let x = Tensor::integers(ACL_INT32, &[2], &[3, -4]);
    let y = Tensor::empty(ACL_INT32, &[2]);
    nan_to_num(&x, &y).expect("documented");
    assert_eq!(y.read_integers(), [3, -4]);
    let empty = Tensor::empty(F32, &[0, 3]);
    nan_to_num(&empty, &Tensor::empty(F32, &[0, 3])).expect("documented");
    refused(nan_to_num(&x, &Tensor::empty(F32, &[2])), "out is f32");
    let double = Tensor::empty(ACL_DOUBLE, &[2]);
    refused(nan_to_num(&double, &double), "self is f64");
}

fn is_close(x: &Tensor, y: &Tensor, nan: bool, out: &Tensor) -> Status {
    call!(aclnnIsClose: x, y, 0.125, 0.5, nan, out)
}

#[test]
fn numbers_are_close_within_both_limits() {
    let _session = Session::start();
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    // At 4, the limit is 0.5 + 4/8 = 1.
    let x = Tensor::floats(F32, &[7], &[5.0, 5.5, -3.0, nan, inf, inf, 1.0]);
    let y = Tensor::floats(F32, &[7], &[4.0, 4.0, -4.0, nan, inf, -inf, inf]);
    let out = Tensor::empty(ACL_BOOL, &[7]);
    for equal_nan in [false, true] {
        is_close(&x, &y, equal_nan, &out).expect("documented");
        let expected = [1, 0, 1, u8::from(equal_nan), 1, 0, 0];
        assert_eq!(download::<u8>(out.address, 7), expected);
    }
    // One number is compared with many, also of integers.
    let one = Tensor::integers(ACL_INT32, &[], &[16]);
    let many = Tensor::integers(ACL_INT32, &[2, 2], &[16, 18, 19, 13]);
    let out = Tensor::empty(ACL_BOOL, &[2, 2]);
    is_close(&one, &many, false, &out).expect("documented");
    assert_eq!(download::<u8>(out.address, 4), [1, 1, 0, 0]);
    let truth = bytes(ACL_BOOL, &[0, 1]);
    is_close(&truth, &truth, false, &Tensor::empty(ACL_BOOL, &[2])).expect("documented");
    each! { refused:
        is_close(&one, &x, false, &out), "other is f32";
        is_close(&x, &Tensor::empty(F32, &[6]), false, &out), "broadcast";
        is_close(&x, &y, false, &out), "out has the shape";
        is_close(&x, &y, false, &x), "out is f32";
    }
}
