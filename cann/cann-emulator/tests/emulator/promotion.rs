//! Tests of elementwise operators whose operands and results have different dtypes.

use crate::common::*;
use cann_emulator::abi::elementwise::*;

fn add(a: &Tensor, b: &Tensor, alpha: &Scalar, y: &Tensor) -> Status {
    call!(aclnnAdd: a, b, alpha, y)
}

#[test]
fn floats_and_integers_meet_in_the_float() {
    let _session = Session::start();
    let one = Scalar::new(1i64, ACL_INT64);
    let (x, y) = (noise(8, 1), noise(8, 2));
    for (left, right, both) in [
        (F32, F16, F32),
        (BF16, F32, F32),
        (F16, BF16, F32),
        (F16, F16, F16),
    ] {
        let a = Tensor::floats(left, &[8], &x);
        let b = Tensor::floats(right, &[8], &y);
        let exact: Vec<f64> = a
            .read()
            .into_iter()
            .zip(b.read())
            .map(|(a, b)| f64::from(a) + f64::from(b))
            .collect();
        for narrow in [both, F16] {
            let out = Tensor::empty(narrow, &[8]);
            add(&a, &b, &one, &out).expect("promoted");
            out.assert_close("sum", &exact, 1e-7);
        }
    }
    let x = Tensor::floats(F32, &[3], &[0.5, -1.5, 2.0]);
    let whole = Tensor::integers(ACL_INT32, &[3], &[3, 5, -7]);
    let out = Tensor::empty(F32, &[3]);
    call!(aclnnMul: x, whole, out).expect("promoted");
    assert_eq!(out.read(), [1.5, -7.5, -14.0]);
    each! { refused: call!(aclnnMul: x, whole, whole), "out is i32, to which f32 is not converted" }
    // The integer is rounded to the float before the operation.
    let half = Tensor::floats(F16, &[1], &[-1.0]);
    let large = Tensor::integers(ACL_INT32, &[1], &[2049]);
    let out = Tensor::empty(F32, &[1]);
    add(&half, &large, &one, &out).expect("promoted");
    assert_eq!(out.read(), [2047.0], "2049 is 2048 in f16");
}

#[test]
fn integers_meet_in_the_wider_one_and_results_are_rounded_before_conversion() {
    let _session = Session::start();
    let one = Scalar::new(1i64, ACL_INT64);
    let (signed, unsigned) = (bytes(ACL_INT8, &[127, 0x80]), bytes(ACL_UINT8, &[200, 1]));
    let out = Tensor::empty(ACL_INT32, &[2]);
    add(&signed, &unsigned, &one, &out).expect("as i16");
    assert_eq!(out.read_integers(), [327, -127]);
    add(&signed, &signed, &one, &out).expect("as i8");
    assert_eq!(out.read_integers(), [-2, 0], "the sum wraps in i8");
    let (yes, no) = (bytes(ACL_BOOL, &[1, 1]), bytes(ACL_BOOL, &[1, 0]));
    add(&yes, &no, &one, &out).expect("as bool");
    assert_eq!(out.read_integers(), [1, 1], "the sum of booleans is one");
    each! { refused: add(&yes, &signed, &one, &yes), "out is bool, to which i8 is not converted" }
    let half = Scalar::new(0.5f32, F32);
    refused(add(&yes, &no, &half, &out), "alpha is f32");
    let wide = Tensor::empty(ACL_UINT16, &[2]);
    let less = |a: &Tensor, b: &Tensor| call!(aclnnLtTensor: a, b, out);
    refused(less(&wide, &signed), "no dtype in common");
}

/// Makes a tensor with one axis of any dtype.
fn numbers<T: Copy>(dtype: aclDataType, values: &[T]) -> Tensor {
    let tensor = Tensor::empty(dtype, &[values.len()]);
    upload(tensor.address, values);
    tensor
}

#[test]
fn unsigned_integers_are_compared_without_signs() {
    let _session = Session::start();
    let large = u64::MAX;
    for (x, y) in [
        (
            numbers(ACL_UINT64, &[large, 1]),
            numbers(ACL_UINT64, &[1, large]),
        ),
        (
            numbers(ACL_UINT32, &[u32::MAX, 1]),
            numbers(ACL_UINT32, &[1, u32::MAX]),
        ),
        (
            numbers(ACL_UINT16, &[u16::MAX, 1]),
            numbers(ACL_UINT16, &[1, u16::MAX]),
        ),
    ] {
        let out = Tensor::empty(ACL_INT32, &[2]);
        let table = operators! { OfTwo (x, rhs, out):
            aclnnLtTensor, [0, 1];
            aclnnGtTensor, [1, 0];
            aclnnGeTensor, [1, 0];
        };
        for (name, call, expected) in table {
            call(&x, &y, &out).expect(name);
            assert_eq!(out.read_integers(), expected);
        }
        each! { refused: call!(aclnnEqTensor: x, y, out), "self is u" }
        let le = call!(aclnnLeTensor: x, y, out);
        match x.dtype {
            ACL_UINT16 => le.expect("documented"),
            _ => refused(le, "self is u"),
        }
    }
    let x = numbers(ACL_UINT64, &[large, 1]);
    let out = Tensor::empty(ACL_INT32, &[2]);
    let two = Scalar::new(2u64, ACL_UINT64);
    let table = operators! { OfScalar (x, rhs, out):
        aclnnLtScalar, [0, 1];
        aclnnGtScalar, [1, 0];
        aclnnGeScalar, [1, 0];
    };
    for (name, call, expected) in table {
        call(&x, &two, &out).expect(name);
        assert_eq!(out.read_integers(), expected);
    }
    let le = |x: &Tensor| call!(aclnnLeScalar: x, two, out);
    refused(le(&x), "self is u64");
    le(&numbers(ACL_UINT16, &[u16::MAX, 1])).expect("documented");
    assert_eq!(out.read_integers(), [0, 1]);
    // As a float the greatest is positive.
    let float = Scalar::new(0.5f32, F32);
    call!(aclnnLtScalar: x, float, out).expect("promoted");
    assert_eq!(out.read_integers(), [0, 0]);
}

#[test]
fn the_root_of_i64_is_computed_in_f64() {
    let _session = Session::start();
    let value = (1i64 << 53) - 1;
    let x = Tensor::integers(ACL_INT64, &[2], &[value, -1]);
    let sqrt = |x: &Tensor, y: &Tensor| call!(aclnnSqrt: x, y);
    let y = Tensor::empty(ACL_DOUBLE, &[2]);
    sqrt(&x, &y).expect("documented");
    let roots: Vec<f64> = download(y.address, 2);
    assert_eq!(roots[0], (value as f64).sqrt());
    assert!(roots[1].is_nan());
    let half = Tensor::empty(F16, &[2]);
    sqrt(&Tensor::integers(ACL_INT64, &[2], &[9, 2]), &half).expect("rounded once");
    assert_eq!(
        half.read(),
        [3.0, half::f16::from_f64(2f64.sqrt()).to_f32()]
    );
    // Narrower integers are computed in f32.
    sqrt(&Tensor::integers(ACL_INT32, &[2], &[2, 16]), &y).expect("documented");
    assert_eq!(download::<f64>(y.address, 2), [f64::from(2f32.sqrt()), 4.0]);
    each! { refused:
        sqrt(&x, &x), "out is i64, to which f64 is not converted";
        call!(aclnnInplaceSqrt: x), "selfRef is i64";
    }
}

#[test]
fn a_scalar_of_a_higher_kind_makes_its_dtype() {
    let _session = Session::start();
    let half = Scalar::new(0.5f64, ACL_DOUBLE);
    let one = Scalar::new(1i64, ACL_INT64);
    let whole = Tensor::integers(ACL_INT64, &[2], &[3, -4]);
    let out = Tensor::empty(F32, &[2]);
    let adds = |y: &Tensor| call!(aclnnAdds: whole, half, one, y);
    adds(&out).expect("a float of integers");
    assert_eq!(out.read(), [3.5, -3.5]);
    refused(adds(&whole), "out is i64, to which f32 is not converted");
    call!(aclnnLtScalar: whole, half, out).expect("compared as floats");
    assert_eq!(out.read(), [0.0, 1.0]);
    // The scalar is rounded to the tensor's float, so that a tenth equals a tenth.
    let tenth = Scalar::new(0.1f64, ACL_DOUBLE);
    let x = Tensor::floats(F16, &[1], &[0.1]);
    let equal = bytes(ACL_BOOL, &[0]);
    call!(aclnnEqScalar: x, tenth, equal).expect("documented");
    assert_eq!(download::<u8>(equal.address, 1), [1]);
}

#[test]
fn comparisons_and_logic_give_booleans_of_any_dtype() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[3], &[1.0, 2.0, 0.0]);
    let y = Tensor::integers(ACL_INT32, &[3], &[2, 2, 0]);
    let (float, whole) = (Tensor::empty(F16, &[3]), Tensor::empty(ACL_INT64, &[3]));
    let table = operators! { OfTwo (x, rhs, out):
        aclnnEqTensor, [0, 1, 1];
        aclnnNeTensor, [1, 0, 0];
        aclnnLtTensor, [1, 0, 0];
        aclnnLeTensor, [1, 1, 1];
        aclnnGtTensor, [0, 0, 0];
        aclnnGeTensor, [0, 1, 1];
        aclnnLogicalAnd, [1, 1, 0];
        aclnnLogicalOr, [1, 1, 0];
        aclnnLogicalXor, [0, 0, 0];
    };
    for (name, call, expected) in table {
        call(&x, &y, &whole).expect(name);
        assert_eq!(whole.read_integers(), expected, "{name}");
        call(&x, &y, &float).expect(name);
        assert_eq!(float.read(), expected.map(|bit| bit as f32), "{name}");
    }
    let not = |y: &Tensor| call!(aclnnLogicalNot: x, y);
    not(&float).expect("into a float");
    assert_eq!(float.read(), [0.0, 0.0, 1.0]);
    let two_tensors = |a: &Tensor, b: &Tensor| call!(aclnnGeTensor: a, b, whole);
    let bits = bytes(ACL_BOOL, &[1, 0, 1]);
    refused(two_tensors(&bits, &bits), "self is bool");
    refused(two_tensors(&x, &bits), "other is bool");
}

#[test]
fn a_choice_promotes_its_sides() {
    let _session = Session::start();
    let choice = bytes(ACL_BOOL, &[1, 0]);
    let x = Tensor::floats(F16, &[2], &[0.5, 1.5]);
    let y = Tensor::integers(ACL_INT32, &[2], &[7, 9]);
    let choose = |out: &Tensor| call!(aclnnSWhere: choice, x, y, out);
    let out = Tensor::empty(F32, &[2]);
    choose(&out).expect("promoted");
    assert_eq!(out.read(), [0.5, 9.0]);
    refused(choose(&y), "out is i32, to which f16 is not converted");
}
