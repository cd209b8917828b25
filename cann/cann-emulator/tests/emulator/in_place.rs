//! Tests of the operators that overwrite their first tensor: each equals the one with an output, takes views, and
//! refuses a result that the tensor cannot hold.

use crate::common::*;
use cann_emulator::abi::{create::*, elementwise::*, matmul::*, rearrange::*, reduce::*};

fn of_one_tensor() -> [(&'static str, OfOne, InPlace); 30] {
    operators! { OfOne (x, out), InPlace (x):
        aclnnAcos, aclnnInplaceAcos;
        aclnnAcosh, aclnnInplaceAcosh;
        aclnnAsin, aclnnInplaceAsin;
        aclnnAsinh, aclnnInplaceAsinh;
        aclnnAtan, aclnnInplaceAtan;
        aclnnAtanh, aclnnInplaceAtanh;
        aclnnCeil, aclnnInplaceCeil;
        aclnnCos, aclnnInplaceCos;
        aclnnCosh, aclnnInplaceCosh;
        aclnnErf, aclnnInplaceErf;
        aclnnExp, aclnnInplaceExp;
        aclnnExpm1, aclnnInplaceExpm1;
        aclnnFloor, aclnnInplaceFloor;
        aclnnLog, aclnnInplaceLog;
        aclnnLog1p, aclnnInplaceLog1p;
        aclnnLogicalNot, aclnnInplaceLogicalNot;
        aclnnMish, aclnnInplaceMish;
        aclnnNeg, aclnnInplaceNeg;
        aclnnReciprocal, aclnnInplaceReciprocal;
        aclnnRound, aclnnInplaceRound;
        aclnnRsqrt, aclnnInplaceRsqrt;
        aclnnSigmoid, aclnnInplaceSigmoid;
        aclnnSin, aclnnInplaceSin;
        aclnnSinh, aclnnInplaceSinh;
        aclnnSqrt, aclnnInplaceSqrt;
        aclnnTan, aclnnInplaceTan;
        aclnnTanh, aclnnInplaceTanh;
        aclnnTrunc, aclnnInplaceTrunc;
        aclnnRelu, aclnnInplaceRelu;
        aclnnHardswish, aclnnInplaceHardswish;
    }
}

/// Compares bits, because NaN is among the results.
fn same(what: &str, found: &[f32], expected: &[f32]) {
    let bits = |values: &[f32]| {
        values
            .iter()
            .map(|value| value.to_bits())
            .collect::<Vec<_>>()
    };
    assert_eq!(bits(found), bits(expected), "{what}");
}

#[test]
fn functions_overwrite_a_view() {
    let _session = Session::start();
    let values: Vec<f32> = noise(6, 1).iter().map(|x| 2.0 * x).collect();
    for (name, call, place) in of_one_tensor() {
        for dtype in [F32, F16, BF16] {
            let x = Tensor::floats(dtype, &[6], &values);
            let y = Tensor::empty(dtype, &[6]);
            call(&x, &y).expect(name);
            place(&x).expect(name);
            same(name, &x.read(), &y.read());
        }
        // Every second element is overwritten.
        let spread = Tensor::strided(F32, &[3], Some(&[2]), 0, 6);
        spread.fill(&values);
        place(&spread).expect(name);
        let left: Vec<f32> = spread.read().into_iter().skip(1).step_by(2).collect();
        assert_eq!(left, [values[1], values[3], values[5]], "{name}");
        // Elements that share memory are read but not written.
        let shared = Tensor::strided(F32, &[2], Some(&[0]), 0, 1);
        refused(place(&shared), "share memory");
    }
}

#[test]
fn integers_hold_no_floats() {
    let _session = Session::start();
    let whole = [
        "aclnnFloor",
        "aclnnLogicalNot",
        "aclnnNeg",
        "aclnnRelu",
        "aclnnRound",
    ];
    for (name, _, place) in of_one_tensor() {
        let x = Tensor::integers(ACL_INT64, &[2], &[-2, 3]);
        let status = place(&x);
        if whole.contains(&name) {
            status.expect(name);
        } else {
            refused(status, "selfRef is i64");
        }
    }
    let x = Tensor::integers(ACL_INT64, &[2], &[-2, 0]);
    call!(aclnnInplaceLogicalNot: x).expect("taken");
    assert_eq!(x.read_integers(), [0, 1]);
}

/// Returns whether a function gives booleans, which every dtype holds.
fn gives_truth(name: &str) -> bool {
    let heads = [
        "Eq",
        "Ne",
        "Gt",
        "Ge",
        "Lt",
        "Le",
        "LogicalAnd",
        "LogicalOr",
    ];
    heads
        .iter()
        .flat_map(|head| ["", "Scalar", "Tensor"].map(|tail| format!("aclnn{head}{tail}")))
        .any(|of| of == name)
}

#[test]
fn operators_of_two_tensors_broadcast_only_the_second() {
    let _session = Session::start();
    let table = operators! { OfTwo (x, rhs, out), OfOne (x, rhs):
        aclnnMul, aclnnInplaceMul;
        aclnnDiv, aclnnInplaceDiv;
        aclnnGtTensor, aclnnInplaceGtTensor;
        aclnnEqTensor, aclnnInplaceEqTensor;
        aclnnLtTensor, aclnnInplaceLtTensor;
        aclnnPowTensorTensor, aclnnInplacePowTensorTensor;
        aclnnNeTensor, aclnnInplaceNeTensor;
        aclnnGeTensor, aclnnInplaceGeTensor;
        aclnnLeTensor, aclnnInplaceLeTensor;
        aclnnLogicalAnd, aclnnInplaceLogicalAnd;
        aclnnLogicalOr, aclnnInplaceLogicalOr;
        aclnnRemainderTensorTensor, aclnnInplaceRemainderTensorTensor;
        aclnnFmodTensor, aclnnInplaceFmodTensor;
        aclnnAtan2, aclnnInplaceAtan2;
        aclnnClampMinTensor, aclnnInplaceClampMinTensor;
        aclnnClampMaxTensor, aclnnInplaceClampMaxTensor;
    };
    for (name, call, place) in table {
        for (dtype, other) in [(F32, F32), (F16, F32), (BF16, BF16)] {
            let x = Tensor::floats(dtype, &[2, 3], &noise(6, 1));
            let rhs = Tensor::floats(other, &[3], &noise(3, 2));
            let y = Tensor::empty(dtype, &[2, 3]);
            call(&x, &rhs, &y).expect(name);
            place(&x, &rhs).expect(name);
            same(name, &x.read(), &y.read());
            refused(place(&rhs, &x), "selfRef has the shape [3]");
        }
        if !gives_truth(name) {
            let whole = Tensor::integers(ACL_INT32, &[1], &[1]);
            let half = Tensor::floats(F32, &[1], &[0.5]);
            refused(place(&whole, &half), "selfRef is i32");
        }
    }
}

#[test]
fn operators_of_a_scalar_equal_those_with_an_output() {
    let _session = Session::start();
    let table = operators! { OfScalar (x, rhs, out), InPlaceOfScalar (x, rhs):
        aclnnMuls, aclnnInplaceMuls;
        aclnnDivs, aclnnInplaceDivs;
        aclnnClampMax, aclnnInplaceClampMax;
        aclnnEqScalar, aclnnInplaceEqScalar;
        aclnnLtScalar, aclnnInplaceLtScalar;
        aclnnNeScalar, aclnnInplaceNeScalar;
        aclnnGtScalar, aclnnInplaceGtScalar;
        aclnnGeScalar, aclnnInplaceGeScalar;
        aclnnLeScalar, aclnnInplaceLeScalar;
        aclnnRemainderTensorScalar, aclnnInplaceRemainderTensorScalar;
        aclnnFmodScalar, aclnnInplaceFmodScalar;
        aclnnPowTensorScalar, aclnnInplacePowTensorScalar;
        aclnnLeakyRelu, aclnnInplaceLeakyRelu;
    };
    let half = Scalar::float(0.5);
    for (name, call, place) in table {
        let x = Tensor::floats(F32, &[6], &noise(6, 1));
        let y = Tensor::empty(F32, &[6]);
        call(&x, &half, &y).expect(name);
        place(&x, &half).expect(name);
        same(name, &x.read(), &y.read());
        if !gives_truth(name) {
            let whole = Tensor::integers(ACL_INT32, &[1], &[1]);
            refused(place(&whole, &half), "selfRef is i32");
        }
    }
}

#[test]
fn bits_and_truth_are_kept_in_integers() {
    let _session = Session::start();
    let rows = operators! { OfOne (x, rhs):
        aclnnInplaceBitwiseAndTensor, [1 & 3, 3 & 3, 6 & 3];
        aclnnInplaceBitwiseOrTensor, [1 | 3, 3, 6 | 3];
        aclnnInplaceBitwiseXorTensor, [1 ^ 3, 0, 6 ^ 3];
        aclnnInplaceEqTensor, [0, 1, 0];
        aclnnInplaceNeTensor, [1, 0, 1];
        aclnnInplaceLtTensor, [1, 0, 0];
        aclnnInplaceLeTensor, [1, 1, 0];
        aclnnInplaceGtTensor, [0, 0, 1];
        aclnnInplaceGeTensor, [0, 1, 1];
        aclnnInplaceLogicalAnd, [1, 1, 1];
        aclnnInplaceLogicalOr, [1, 1, 1];
    };
    for dtype in [ACL_INT32, ACL_INT64] {
        let rhs = Tensor::integers(dtype, &[1], &[3]);
        for (name, call, expected) in rows {
            let x = Tensor::integers(dtype, &[3], &[1, 3, 6]);
            call(&x, &rhs).expect(name);
            assert_eq!(x.read_integers(), expected);
        }
    }
    let rows = operators! { InPlaceOfScalar (x, rhs):
        aclnnInplaceBitwiseAndScalar, [1 & 3, 3 & 3, 6 & 3];
        aclnnInplaceBitwiseOrScalar, [1 | 3, 3, 6 | 3];
        aclnnInplaceBitwiseXorScalar, [1 ^ 3, 0, 6 ^ 3];
        aclnnInplaceEqScalar, [0, 1, 0];
        aclnnInplaceNeScalar, [1, 0, 1];
        aclnnInplaceLtScalar, [1, 0, 0];
        aclnnInplaceLeScalar, [1, 1, 0];
        aclnnInplaceGtScalar, [0, 0, 1];
        aclnnInplaceGeScalar, [0, 1, 1];
    };
    let rhs = Scalar::int(3);
    for (name, call, expected) in rows {
        let x = Tensor::integers(ACL_INT64, &[3], &[1, 3, 6]);
        call(&x, &rhs).expect(name);
        assert_eq!(x.read_integers(), expected);
    }
    // Floats have no bits.
    let x = Tensor::floats(F32, &[1], &[1.0]);
    let rhs = Tensor::integers(ACL_INT32, &[1], &[3]);
    for (_, call) in operators! { OfOne (x, rhs):
        aclnnInplaceBitwiseAndTensor;
        aclnnInplaceBitwiseOrTensor;
        aclnnInplaceBitwiseXorTensor;
    } {
        refused(call(&x, &rhs), "f32");
    }
}

#[test]
fn sums_and_rounded_quotients_are_kept_in_place() {
    let _session = Session::start();
    let (one, half) = (Scalar::int(1), Scalar::float(0.5));
    let x = Tensor::floats(F32, &[3], &[1.0, 2.0, 4.0]);
    let rhs = Tensor::integers(ACL_INT32, &[1], &[2]);
    let sum = |x: &Tensor, alpha: &Scalar| call!(aclnnInplaceAdd: x, rhs, alpha);
    sum(&x, &half).expect("documented");
    assert_eq!(x.read(), [2.0, 3.0, 5.0]);
    let narrow = bytes(ACL_INT8, &[126, 0]);
    sum(&narrow, &one).expect("integers become integers");
    assert_eq!(crate::common::download::<i8>(narrow.address, 2), [-128, 2]);
    refused(sum(&narrow, &half), "alpha is f32");
    call!(aclnnInplaceAdds: x, half, one).expect("documented");
    assert_eq!(x.read(), [2.5, 3.5, 5.5]);
    call!(aclnnInplaceSub: x, rhs, one).expect("documented");
    assert_eq!(x.read(), [0.5, 1.5, 3.5]);
    call!(aclnnInplaceSubs: x, half, half).expect("documented");
    assert_eq!(x.read(), [0.25, 1.25, 3.25]);
    let divided = |mode| call!(aclnnInplaceDivMods: x, half, mode);
    divided(2).expect("documented");
    assert_eq!(x.read(), [0.0, 2.0, 6.0]);
    refused(divided(3), "mode is 3");
    call!(aclnnInplaceDivMod: x, rhs, 0).expect("documented");
    assert_eq!(x.read(), [0.0, 1.0, 3.0]);
}

#[test]
fn fills_triangles_and_products_overwrite() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[2], &[5.0, f32::NAN]);
        call!(aclnnInplaceOne: x).expect("documented");
        assert_eq!(x.read(), [1.0, 1.0]);
    }
    let x = Tensor::integers(ACL_INT64, &[2], &[5, 6]);
    call!(aclnnInplaceOne: x).expect("documented");
    assert_eq!(x.read_integers(), [1, 1]);
    refused(
        call!(aclnnInplaceOne: Tensor::empty(ACL_UINT32, &[1])),
        "selfRef is u32",
    );
    let fill = |x: &Tensor, value: &Tensor| call!(aclnnInplaceFillTensor: x, value);
    let y = Tensor::empty(F16, &[3]);
    fill(&y, &Tensor::floats(F32, &[], &[0.1])).expect("converted");
    y.assert_close("fill", &[f64::from(0.1f32); 3], 0.0);
    each! { refused:
        fill(&x, &Tensor::floats(F32, &[1], &[0.5])), "selfRef is i64";
        fill(&y, &Tensor::empty(F32, &[2])), "one element is needed";
        fill(&y, &Tensor::empty(F32, &[1, 1])), "one element is needed";
    }
    let square: Vec<f32> = (1..=9).map(|x| x as f32).collect();
    let upper = Tensor::floats(F32, &[3, 3], &square);
    let lower = Tensor::floats(F32, &[3, 3], &square);
    call!(aclnnInplaceTriu: upper, 1).expect("documented");
    call!(aclnnInplaceTril: lower, 0).expect("documented");
    let (u, l) = (upper.read(), lower.read());
    assert_eq!(u, [0.0, 2.0, 3.0, 0.0, 0.0, 6.0, 0.0, 0.0, 0.0]);
    assert_eq!(l, [1.0, 0.0, 0.0, 4.0, 5.0, 0.0, 7.0, 8.0, 9.0]);
    refused(call!(aclnnInplaceTril: y, 0), "two or more");
    let axis = Scalar::new(-1i32, ACL_INT32);
    call!(aclnnInplaceCumprod: lower, axis).expect("documented");
    assert_eq!(
        lower.read(),
        [1.0, 0.0, 0.0, 4.0, 20.0, 0.0, 7.0, 56.0, 504.0]
    );
    let float = Scalar::float(0.0);
    each! { refused: call!(aclnnInplaceCumprod: lower, float), "dim is f32" }
}

#[test]
fn batches_of_products_are_added() {
    let _session = Session::start();
    let (beta, alpha) = (Scalar::float(0.5), Scalar::float(-2.0));
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[2, 2, 2], &noise(8, 1));
        let a = Tensor::floats(dtype, &[2, 2, 3], &noise(12, 2));
        let b = Tensor::floats(dtype, &[2, 3, 2], &noise(12, 3));
        let (ax, bx, before) = (exact(&a), exact(&b), exact(&x));
        let expected: Vec<f64> = (0..8)
            .map(|at| {
                let (batch, row, column) = (at / 4, at / 2 % 2, at % 2);
                let product: f64 = (0..3)
                    .map(|i| ax[batch * 6 + row * 3 + i] * bx[batch * 6 + i * 2 + column])
                    .sum();
                0.5 * before[at] - 2.0 * product
            })
            .collect();
        let y = Tensor::empty(dtype, &[2, 2, 2]);
        let (xh, ah, bh, yh) = (x.handle, a.handle, b.handle, y.handle);
        call!(aclnnBaddbmm: xh, ah, bh, beta, alpha, yh, 0).expect("documented");
        y.assert_close("sum", &expected, 1e-6);
        let place = |a: *mut aclTensor| call!(aclnnInplaceBaddbmm: xh, a, bh, beta, alpha, 0);
        place(ah).expect("documented");
        assert_eq!(x.read(), y.read());
        let one = Tensor::empty(dtype, &[1, 2, 3]);
        refused(place(one.handle), "both have one batch");
    }
}
