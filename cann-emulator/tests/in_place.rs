//! Tests of the operators that overwrite their first tensor: each equals the one with an output, takes views, and
//! refuses a result that the tensor cannot hold.

mod common;

use cann_emulator::abi::{create::*, elementwise::*, matmul::*, rearrange::*, reduce::*};
use cann_sys::meta::*;
use common::host::{
    InPlace, OfOne, OfScalar, OfTwo, Scalar, Status, bytes, exact, in_place, of_one, of_scalar,
    of_two, refused,
};
use common::{BF16, F16, F32, PhaseTwo, Session, Tensor, assert_close, noise, run};

/// An operator and its form in place. `const` and `mut` are the same to a caller.
struct Both<One, Place>(&'static str, One, PhaseTwo, Place, PhaseTwo);

type PlaceOfTensor = unsafe extern "C" fn(
    *mut aclTensor,
    *const aclTensor,
    *mut u64,
    *mut *mut aclOpExecutor,
) -> aclnnStatus;
type PlaceOfScalar = unsafe extern "C" fn(
    *mut aclTensor,
    *const aclScalar,
    *mut u64,
    *mut *mut aclOpExecutor,
) -> aclnnStatus;

/// Lists operators whose form in place has a mutable pointer.
macro_rules! both {
    ($($one:ident, $two:ident, $place_one:ident, $place_two:ident;)*) => {
        vec![$(Both(stringify!($two), $one as _, $two as PhaseTwo, $place_one as _, $place_two as PhaseTwo)),*]
    };
}

/// Makes a function with a mutable pointer of one with a constant pointer.
macro_rules! with_mut {
    ($($name:ident => $of:ident($($argument:ident: $type:ty),*);)*) => {$(
        unsafe extern "C" fn $name(
            target: *mut aclTensor,
            $($argument: $type,)*
            size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            // SAFETY: the caller's.
            unsafe { $of(target, $($argument,)* size, executor) }
        }
    )*};
}

with_mut! {
    reciprocal => aclnnInplaceReciprocalGetWorkspaceSize();
    round => aclnnInplaceRoundGetWorkspaceSize();
    tan => aclnnInplaceTanGetWorkspaceSize();
    hardswish => aclnnInplaceHardswishGetWorkspaceSize();
    ones => aclnnInplaceOneGetWorkspaceSize();
    greater => aclnnInplaceGtTensorGetWorkspaceSize(rhs: *const aclTensor);
    eq_tensor => aclnnInplaceEqTensorGetWorkspaceSize(rhs: *const aclTensor);
    lt_tensor => aclnnInplaceLtTensorGetWorkspaceSize(rhs: *const aclTensor);
    eq_scalar => aclnnInplaceEqScalarGetWorkspaceSize(rhs: *const aclScalar);
    lt_scalar => aclnnInplaceLtScalarGetWorkspaceSize(rhs: *const aclScalar);
    bitwise_and_tensor => aclnnInplaceBitwiseAndTensorGetWorkspaceSize(rhs: *const aclTensor);
    bitwise_and_scalar => aclnnInplaceBitwiseAndScalarGetWorkspaceSize(rhs: *const aclScalar);
    pow_tensor_tensor => aclnnInplacePowTensorTensorGetWorkspaceSize(rhs: *const aclTensor);
    clamp_max => aclnnInplaceClampMaxGetWorkspaceSize(rhs: *const aclScalar);
    power => aclnnInplacePowTensorScalarGetWorkspaceSize(rhs: *const aclScalar);
}

unsafe extern "C" fn hardswish_into(
    x: *const aclTensor,
    y: *mut aclTensor,
    size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    // SAFETY: the caller's.
    unsafe { aclnnHardswishGetWorkspaceSize(x, y, size, executor) }
}

unsafe extern "C" fn relu_into(
    x: *const aclTensor,
    y: *mut aclTensor,
    size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    // SAFETY: the caller's.
    unsafe { aclnnReluGetWorkspaceSize(x, y, size, executor) }
}

unsafe extern "C" fn power_into(
    x: *const aclTensor,
    s: *const aclScalar,
    y: *mut aclTensor,
    size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    // SAFETY: the caller's.
    unsafe { aclnnPowTensorScalarGetWorkspaceSize(x, s, y, size, executor) }
}

unsafe extern "C" fn angle(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    // SAFETY: the caller's.
    unsafe { aclnnInplaceAtan2GetWorkspaceSize(target, rhs.cast_mut(), size, executor) }
}

fn of_one_tensor() -> Vec<Both<OfOne, InPlace>> {
    both! {
        aclnnAcosGetWorkspaceSize, aclnnAcos, aclnnInplaceAcosGetWorkspaceSize, aclnnInplaceAcos;
        aclnnAcoshGetWorkspaceSize, aclnnAcosh, aclnnInplaceAcoshGetWorkspaceSize, aclnnInplaceAcosh;
        aclnnAsinGetWorkspaceSize, aclnnAsin, aclnnInplaceAsinGetWorkspaceSize, aclnnInplaceAsin;
        aclnnAsinhGetWorkspaceSize, aclnnAsinh, aclnnInplaceAsinhGetWorkspaceSize, aclnnInplaceAsinh;
        aclnnAtanGetWorkspaceSize, aclnnAtan, aclnnInplaceAtanGetWorkspaceSize, aclnnInplaceAtan;
        aclnnAtanhGetWorkspaceSize, aclnnAtanh, aclnnInplaceAtanhGetWorkspaceSize, aclnnInplaceAtanh;
        aclnnCeilGetWorkspaceSize, aclnnCeil, aclnnInplaceCeilGetWorkspaceSize, aclnnInplaceCeil;
        aclnnCosGetWorkspaceSize, aclnnCos, aclnnInplaceCosGetWorkspaceSize, aclnnInplaceCos;
        aclnnCoshGetWorkspaceSize, aclnnCosh, aclnnInplaceCoshGetWorkspaceSize, aclnnInplaceCosh;
        aclnnErfGetWorkspaceSize, aclnnErf, aclnnInplaceErfGetWorkspaceSize, aclnnInplaceErf;
        aclnnExpGetWorkspaceSize, aclnnExp, aclnnInplaceExpGetWorkspaceSize, aclnnInplaceExp;
        aclnnExpm1GetWorkspaceSize, aclnnExpm1, aclnnInplaceExpm1GetWorkspaceSize, aclnnInplaceExpm1;
        aclnnFloorGetWorkspaceSize, aclnnFloor, aclnnInplaceFloorGetWorkspaceSize, aclnnInplaceFloor;
        aclnnLogGetWorkspaceSize, aclnnLog, aclnnInplaceLogGetWorkspaceSize, aclnnInplaceLog;
        aclnnLog1pGetWorkspaceSize, aclnnLog1p, aclnnInplaceLog1pGetWorkspaceSize, aclnnInplaceLog1p;
        aclnnLogicalNotGetWorkspaceSize, aclnnLogicalNot,
            aclnnInplaceLogicalNotGetWorkspaceSize, aclnnInplaceLogicalNot;
        aclnnMishGetWorkspaceSize, aclnnMish, aclnnInplaceMishGetWorkspaceSize, aclnnInplaceMish;
        aclnnNegGetWorkspaceSize, aclnnNeg, aclnnInplaceNegGetWorkspaceSize, aclnnInplaceNeg;
        aclnnReciprocalGetWorkspaceSize, aclnnReciprocal, reciprocal, aclnnInplaceReciprocal;
        aclnnRoundGetWorkspaceSize, aclnnRound, round, aclnnInplaceRound;
        aclnnRsqrtGetWorkspaceSize, aclnnRsqrt, aclnnInplaceRsqrtGetWorkspaceSize, aclnnInplaceRsqrt;
        aclnnSigmoidGetWorkspaceSize, aclnnSigmoid, aclnnInplaceSigmoidGetWorkspaceSize, aclnnInplaceSigmoid;
        aclnnSinGetWorkspaceSize, aclnnSin, aclnnInplaceSinGetWorkspaceSize, aclnnInplaceSin;
        aclnnSinhGetWorkspaceSize, aclnnSinh, aclnnInplaceSinhGetWorkspaceSize, aclnnInplaceSinh;
        aclnnSqrtGetWorkspaceSize, aclnnSqrt, aclnnInplaceSqrtGetWorkspaceSize, aclnnInplaceSqrt;
        aclnnTanGetWorkspaceSize, aclnnTan, tan, aclnnInplaceTan;
        aclnnTanhGetWorkspaceSize, aclnnTanh, aclnnInplaceTanhGetWorkspaceSize, aclnnInplaceTanh;
        aclnnTruncGetWorkspaceSize, aclnnTrunc, aclnnInplaceTruncGetWorkspaceSize, aclnnInplaceTrunc;
        relu_into, aclnnRelu, aclnnInplaceReluGetWorkspaceSize, aclnnInplaceRelu;
        hardswish_into, aclnnHardswish, hardswish, aclnnInplaceHardswish;
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
    for Both(name, one, two, place_one, place_two) in of_one_tensor() {
        for dtype in [F32, F16, BF16] {
            let x = Tensor::floats(dtype, &[6], &values);
            let y = Tensor::empty(dtype, &[6]);
            of_one(one, two, &x, &y).expect(name);
            in_place(place_one, place_two, &x).expect(name);
            same(name, &x.read(), &y.read());
        }
        // Every second element is overwritten.
        let spread = Tensor::strided(F32, &[3], Some(&[2]), 0, 6);
        spread.fill(&values);
        in_place(place_one, place_two, &spread).expect(name);
        let left: Vec<f32> = spread.read().into_iter().skip(1).step_by(2).collect();
        assert_eq!(left, [values[1], values[3], values[5]], "{name}");
        // Elements that share memory are read but not written.
        let shared = Tensor::strided(F32, &[2], Some(&[0]), 0, 1);
        refused(in_place(place_one, place_two, &shared), "share memory");
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
    for Both(name, _, _, place_one, place_two) in of_one_tensor() {
        let x = Tensor::integers(ACL_INT64, &[2], &[-2, 3]);
        let status = in_place(place_one, place_two, &x);
        if whole.contains(&name) {
            status.expect(name);
        } else {
            refused(status, "selfRef is i64");
        }
    }
    let x = Tensor::integers(ACL_INT64, &[2], &[-2, 0]);
    in_place(
        aclnnInplaceLogicalNotGetWorkspaceSize,
        aclnnInplaceLogicalNot,
        &x,
    )
    .expect("taken");
    assert_eq!(x.read_integers(), [0, 1]);
}

fn place_of_tensor(one: PlaceOfTensor, two: PhaseTwo, x: &Tensor, rhs: &Tensor) -> Status {
    // SAFETY: handles are checked, the places are variables.
    run(
        |size, executor| unsafe { one(x.handle, rhs.handle, size, executor) },
        two,
    )
}

fn place_of_scalar(one: PlaceOfScalar, two: PhaseTwo, x: &Tensor, rhs: &Scalar) -> Status {
    // SAFETY: as above.
    run(
        |size, executor| unsafe { one(x.handle, rhs.0, size, executor) },
        two,
    )
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
    let table: Vec<Both<OfTwo, PlaceOfTensor>> = both! {
        aclnnMulGetWorkspaceSize, aclnnMul, aclnnInplaceMulGetWorkspaceSize, aclnnInplaceMul;
        aclnnDivGetWorkspaceSize, aclnnDiv, aclnnInplaceDivGetWorkspaceSize, aclnnInplaceDiv;
        aclnnGtTensorGetWorkspaceSize, aclnnGtTensor, greater, aclnnInplaceGtTensor;
        aclnnEqTensorGetWorkspaceSize, aclnnEqTensor, eq_tensor, aclnnInplaceEqTensor;
        aclnnLtTensorGetWorkspaceSize, aclnnLtTensor, lt_tensor, aclnnInplaceLtTensor;
        aclnnPowTensorTensorGetWorkspaceSize, aclnnPowTensorTensor, pow_tensor_tensor, aclnnInplacePowTensorTensor;
        aclnnNeTensorGetWorkspaceSize, aclnnNeTensor, aclnnInplaceNeTensorGetWorkspaceSize, aclnnInplaceNeTensor;
        aclnnGeTensorGetWorkspaceSize, aclnnGeTensor, aclnnInplaceGeTensorGetWorkspaceSize, aclnnInplaceGeTensor;
        aclnnLeTensorGetWorkspaceSize, aclnnLeTensor, aclnnInplaceLeTensorGetWorkspaceSize, aclnnInplaceLeTensor;
        aclnnLogicalAndGetWorkspaceSize, aclnnLogicalAnd,
            aclnnInplaceLogicalAndGetWorkspaceSize, aclnnInplaceLogicalAnd;
        aclnnLogicalOrGetWorkspaceSize, aclnnLogicalOr, aclnnInplaceLogicalOrGetWorkspaceSize, aclnnInplaceLogicalOr;
        aclnnRemainderTensorTensorGetWorkspaceSize, aclnnRemainderTensorTensor,
            aclnnInplaceRemainderTensorTensorGetWorkspaceSize, aclnnInplaceRemainderTensorTensor;
        aclnnFmodTensorGetWorkspaceSize, aclnnFmodTensor,
            aclnnInplaceFmodTensorGetWorkspaceSize, aclnnInplaceFmodTensor;
        aclnnAtan2GetWorkspaceSize, aclnnAtan2, angle, aclnnInplaceAtan2;
        aclnnClampMinTensorGetWorkspaceSize, aclnnClampMinTensor,
            aclnnInplaceClampMinTensorGetWorkspaceSize, aclnnInplaceClampMinTensor;
        aclnnClampMaxTensorGetWorkspaceSize, aclnnClampMaxTensor,
            aclnnInplaceClampMaxTensorGetWorkspaceSize, aclnnInplaceClampMaxTensor;
    };
    for Both(name, one, two, place_one, place_two) in table {
        for (dtype, other) in [(F32, F32), (F16, F32), (BF16, BF16)] {
            let x = Tensor::floats(dtype, &[2, 3], &noise(6, 1));
            let rhs = Tensor::floats(other, &[3], &noise(3, 2));
            let y = Tensor::empty(dtype, &[2, 3]);
            of_two(one, two, &x, &rhs, &y).expect(name);
            place_of_tensor(place_one, place_two, &x, &rhs).expect(name);
            same(name, &x.read(), &y.read());
            refused(
                place_of_tensor(place_one, place_two, &rhs, &x),
                "selfRef has the shape [3]",
            );
        }
        if !gives_truth(name) {
            let whole = Tensor::integers(ACL_INT32, &[1], &[1]);
            let half = Tensor::floats(F32, &[1], &[0.5]);
            refused(
                place_of_tensor(place_one, place_two, &whole, &half),
                "selfRef is i32",
            );
        }
    }
}

#[test]
fn operators_of_a_scalar_equal_those_with_an_output() {
    let _session = Session::start();
    let table: Vec<Both<OfScalar, PlaceOfScalar>> = both! {
        aclnnMulsGetWorkspaceSize, aclnnMuls, aclnnInplaceMulsGetWorkspaceSize, aclnnInplaceMuls;
        aclnnDivsGetWorkspaceSize, aclnnDivs, aclnnInplaceDivsGetWorkspaceSize, aclnnInplaceDivs;
        aclnnClampMaxGetWorkspaceSize, aclnnClampMax, clamp_max, aclnnInplaceClampMax;
        aclnnEqScalarGetWorkspaceSize, aclnnEqScalar, eq_scalar, aclnnInplaceEqScalar;
        aclnnLtScalarGetWorkspaceSize, aclnnLtScalar, lt_scalar, aclnnInplaceLtScalar;
        aclnnNeScalarGetWorkspaceSize, aclnnNeScalar, aclnnInplaceNeScalarGetWorkspaceSize, aclnnInplaceNeScalar;
        aclnnGtScalarGetWorkspaceSize, aclnnGtScalar, aclnnInplaceGtScalarGetWorkspaceSize, aclnnInplaceGtScalar;
        aclnnGeScalarGetWorkspaceSize, aclnnGeScalar, aclnnInplaceGeScalarGetWorkspaceSize, aclnnInplaceGeScalar;
        aclnnLeScalarGetWorkspaceSize, aclnnLeScalar, aclnnInplaceLeScalarGetWorkspaceSize, aclnnInplaceLeScalar;
        aclnnRemainderTensorScalarGetWorkspaceSize, aclnnRemainderTensorScalar,
            aclnnInplaceRemainderTensorScalarGetWorkspaceSize, aclnnInplaceRemainderTensorScalar;
        aclnnFmodScalarGetWorkspaceSize, aclnnFmodScalar,
            aclnnInplaceFmodScalarGetWorkspaceSize, aclnnInplaceFmodScalar;
        power_into, aclnnPowTensorScalar, power, aclnnInplacePowTensorScalar;
        aclnnLeakyReluGetWorkspaceSize, aclnnLeakyRelu, aclnnInplaceLeakyReluGetWorkspaceSize, aclnnInplaceLeakyRelu;
    };
    let half = Scalar::float(0.5);
    for Both(name, one, two, place_one, place_two) in table {
        let x = Tensor::floats(F32, &[6], &noise(6, 1));
        let y = Tensor::empty(F32, &[6]);
        of_scalar(one, two, &x, &half, &y).expect(name);
        place_of_scalar(place_one, place_two, &x, &half).expect(name);
        same(name, &x.read(), &y.read());
        if !gives_truth(name) {
            let whole = Tensor::integers(ACL_INT32, &[1], &[1]);
            refused(
                place_of_scalar(place_one, place_two, &whole, &half),
                "selfRef is i32",
            );
        }
    }
}

#[test]
fn bits_and_truth_are_kept_in_integers() {
    let _session = Session::start();
    type Row<Place> = (Place, PhaseTwo, [i64; 3]);
    let rows: [Row<PlaceOfTensor>; 11] = [
        (
            bitwise_and_tensor,
            aclnnInplaceBitwiseAndTensor,
            [1 & 3, 3 & 3, 6 & 3],
        ),
        (
            aclnnInplaceBitwiseOrTensorGetWorkspaceSize,
            aclnnInplaceBitwiseOrTensor,
            [1 | 3, 3, 6 | 3],
        ),
        (
            aclnnInplaceBitwiseXorTensorGetWorkspaceSize,
            aclnnInplaceBitwiseXorTensor,
            [1 ^ 3, 0, 6 ^ 3],
        ),
        (eq_tensor, aclnnInplaceEqTensor, [0, 1, 0]),
        (
            aclnnInplaceNeTensorGetWorkspaceSize,
            aclnnInplaceNeTensor,
            [1, 0, 1],
        ),
        (lt_tensor, aclnnInplaceLtTensor, [1, 0, 0]),
        (
            aclnnInplaceLeTensorGetWorkspaceSize,
            aclnnInplaceLeTensor,
            [1, 1, 0],
        ),
        (greater, aclnnInplaceGtTensor, [0, 0, 1]),
        (
            aclnnInplaceGeTensorGetWorkspaceSize,
            aclnnInplaceGeTensor,
            [0, 1, 1],
        ),
        (
            aclnnInplaceLogicalAndGetWorkspaceSize,
            aclnnInplaceLogicalAnd,
            [1, 1, 1],
        ),
        (
            aclnnInplaceLogicalOrGetWorkspaceSize,
            aclnnInplaceLogicalOr,
            [1, 1, 1],
        ),
    ];
    for dtype in [ACL_INT32, ACL_INT64] {
        let rhs = Tensor::integers(dtype, &[1], &[3]);
        for (one, two, expected) in rows {
            let x = Tensor::integers(dtype, &[3], &[1, 3, 6]);
            place_of_tensor(one, two, &x, &rhs).expect("documented");
            assert_eq!(x.read_integers(), expected);
        }
    }
    let rows: [Row<PlaceOfScalar>; 9] = [
        (
            bitwise_and_scalar,
            aclnnInplaceBitwiseAndScalar,
            [1 & 3, 3 & 3, 6 & 3],
        ),
        (
            aclnnInplaceBitwiseOrScalarGetWorkspaceSize,
            aclnnInplaceBitwiseOrScalar,
            [1 | 3, 3, 6 | 3],
        ),
        (
            aclnnInplaceBitwiseXorScalarGetWorkspaceSize,
            aclnnInplaceBitwiseXorScalar,
            [1 ^ 3, 0, 6 ^ 3],
        ),
        (eq_scalar, aclnnInplaceEqScalar, [0, 1, 0]),
        (
            aclnnInplaceNeScalarGetWorkspaceSize,
            aclnnInplaceNeScalar,
            [1, 0, 1],
        ),
        (lt_scalar, aclnnInplaceLtScalar, [1, 0, 0]),
        (
            aclnnInplaceLeScalarGetWorkspaceSize,
            aclnnInplaceLeScalar,
            [1, 1, 0],
        ),
        (
            aclnnInplaceGtScalarGetWorkspaceSize,
            aclnnInplaceGtScalar,
            [0, 0, 1],
        ),
        (
            aclnnInplaceGeScalarGetWorkspaceSize,
            aclnnInplaceGeScalar,
            [0, 1, 1],
        ),
    ];
    let rhs = Scalar::int(3);
    for (one, two, expected) in rows {
        let x = Tensor::integers(ACL_INT64, &[3], &[1, 3, 6]);
        place_of_scalar(one, two, &x, &rhs).expect("documented");
        assert_eq!(x.read_integers(), expected);
    }
    // Floats have no bits.
    let x = Tensor::floats(F32, &[1], &[1.0]);
    let rhs = Tensor::integers(ACL_INT32, &[1], &[3]);
    for (one, two) in [
        (
            bitwise_and_tensor as PlaceOfTensor,
            aclnnInplaceBitwiseAndTensor as PhaseTwo,
        ),
        (
            aclnnInplaceBitwiseOrTensorGetWorkspaceSize,
            aclnnInplaceBitwiseOrTensor,
        ),
        (
            aclnnInplaceBitwiseXorTensorGetWorkspaceSize,
            aclnnInplaceBitwiseXorTensor,
        ),
    ] {
        refused(place_of_tensor(one, two, &x, &rhs), "f32");
    }
}

#[test]
fn sums_and_rounded_quotients_are_kept_in_place() {
    let _session = Session::start();
    let (one, half) = (Scalar::int(1), Scalar::float(0.5));
    let x = Tensor::floats(F32, &[3], &[1.0, 2.0, 4.0]);
    let rhs = Tensor::integers(ACL_INT32, &[1], &[2]);
    let sum = |x: &Tensor, alpha: &Scalar| {
        run(
            // SAFETY: handles are checked, the places are variables.
            |size, executor| unsafe {
                aclnnInplaceAddGetWorkspaceSize(x.handle, rhs.handle, alpha.0, size, executor)
            },
            aclnnInplaceAdd,
        )
    };
    sum(&x, &half).expect("documented");
    assert_eq!(x.read(), [2.0, 3.0, 5.0]);
    let narrow = bytes(ACL_INT8, &[126, 0]);
    sum(&narrow, &one).expect("integers become integers");
    assert_eq!(common::download::<i8>(narrow.address, 2), [-128, 2]);
    refused(sum(&narrow, &half), "alpha is f32");
    // SAFETY: as above.
    let status = run(
        |size, executor| unsafe {
            aclnnInplaceAddsGetWorkspaceSize(x.handle, half.0, one.0, size, executor)
        },
        aclnnInplaceAdds,
    );
    status.expect("documented");
    assert_eq!(x.read(), [2.5, 3.5, 5.5]);
    // SAFETY: as above.
    let status = run(
        |size, executor| unsafe {
            aclnnInplaceSubGetWorkspaceSize(x.handle, rhs.handle, one.0, size, executor)
        },
        aclnnInplaceSub,
    );
    status.expect("documented");
    assert_eq!(x.read(), [0.5, 1.5, 3.5]);
    // SAFETY: as above.
    let status = run(
        |size, executor| unsafe {
            aclnnInplaceSubsGetWorkspaceSize(x.handle, half.0, half.0, size, executor)
        },
        aclnnInplaceSubs,
    );
    status.expect("documented");
    assert_eq!(x.read(), [0.25, 1.25, 3.25]);
    let divided = |mode| {
        run(
            // SAFETY: handles are checked, the places are variables.
            |size, executor| unsafe {
                aclnnInplaceDivModsGetWorkspaceSize(x.handle, half.0, mode, size, executor)
            },
            aclnnInplaceDivMods,
        )
    };
    divided(2).expect("documented");
    assert_eq!(x.read(), [0.0, 2.0, 6.0]);
    refused(divided(3), "mode is 3");
    // SAFETY: as above.
    let status = run(
        |size, executor| unsafe {
            aclnnInplaceDivModGetWorkspaceSize(x.handle, rhs.handle, 0, size, executor)
        },
        aclnnInplaceDivMod,
    );
    status.expect("documented");
    assert_eq!(x.read(), [0.0, 1.0, 3.0]);
}

#[test]
fn fills_triangles_and_products_overwrite() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[2], &[5.0, f32::NAN]);
        in_place(ones, aclnnInplaceOne, &x).expect("documented");
        assert_eq!(x.read(), [1.0, 1.0]);
    }
    let x = Tensor::integers(ACL_INT64, &[2], &[5, 6]);
    in_place(ones, aclnnInplaceOne, &x).expect("documented");
    assert_eq!(x.read_integers(), [1, 1]);
    refused(
        in_place(ones, aclnnInplaceOne, &Tensor::empty(ACL_UINT32, &[1])),
        "selfRef is u32",
    );
    let fill = |x: &Tensor, value: &Tensor| {
        let place = aclnnInplaceFillTensorGetWorkspaceSize;
        place_of_tensor(place, aclnnInplaceFillTensor, x, value)
    };
    let y = Tensor::empty(F16, &[3]);
    fill(&y, &Tensor::floats(F32, &[], &[0.1])).expect("converted");
    assert_close("fill", &y.read(), &[f64::from(0.1f32); 3], F16, 0.0);
    refused(
        fill(&x, &Tensor::floats(F32, &[1], &[0.5])),
        "selfRef is i64",
    );
    refused(fill(&y, &Tensor::empty(F32, &[2])), "one element is needed");
    refused(
        fill(&y, &Tensor::empty(F32, &[1, 1])),
        "one element is needed",
    );
    let square: Vec<f32> = (1..=9).map(|x| x as f32).collect();
    let (upper, lower) = (
        Tensor::floats(F32, &[3, 3], &square),
        Tensor::floats(F32, &[3, 3], &square),
    );
    // SAFETY: handles are checked, the places are variables.
    run(
        |size, executor| unsafe {
            aclnnInplaceTriuGetWorkspaceSize(upper.handle, 1, size, executor)
        },
        aclnnInplaceTriu,
    )
    .expect("documented");
    // SAFETY: as above.
    run(
        |size, executor| unsafe {
            aclnnInplaceTrilGetWorkspaceSize(lower.handle, 0, size, executor)
        },
        aclnnInplaceTril,
    )
    .expect("documented");
    let (u, l) = (upper.read(), lower.read());
    assert_eq!(u, [0.0, 2.0, 3.0, 0.0, 0.0, 6.0, 0.0, 0.0, 0.0]);
    assert_eq!(l, [1.0, 0.0, 0.0, 4.0, 5.0, 0.0, 7.0, 8.0, 9.0]);
    // SAFETY: as above.
    let line = run(
        |size, executor| unsafe { aclnnInplaceTrilGetWorkspaceSize(y.handle, 0, size, executor) },
        aclnnInplaceTril,
    );
    refused(line, "two or more");
    let axis = Scalar::new(-1i32, ACL_INT32);
    place_of_scalar(
        aclnnInplaceCumprodGetWorkspaceSize,
        aclnnInplaceCumprod,
        &lower,
        &axis,
    )
    .expect("documented");
    assert_eq!(
        lower.read(),
        [1.0, 0.0, 0.0, 4.0, 20.0, 0.0, 7.0, 56.0, 504.0]
    );
    let float = Scalar::float(0.0);
    refused(
        place_of_scalar(
            aclnnInplaceCumprodGetWorkspaceSize,
            aclnnInplaceCumprod,
            &lower,
            &float,
        ),
        "dim is f32",
    );
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
        // SAFETY: handles are checked, the places are variables.
        run(
            |size, executor| unsafe {
                let (beta, alpha) = (beta.0, alpha.0);
                aclnnBaddbmmGetWorkspaceSize(xh, ah, bh, beta, alpha, yh, 0, size, executor)
            },
            aclnnBaddbmm,
        )
        .expect("documented");
        assert_close("sum", &y.read(), &expected, dtype, 1e-6);
        let place = |a: *mut aclTensor| {
            run(
                // SAFETY: handles are checked, the places are variables.
                |size, executor| unsafe {
                    let (beta, alpha) = (beta.0, alpha.0);
                    aclnnInplaceBaddbmmGetWorkspaceSize(xh, a, bh, beta, alpha, 0, size, executor)
                },
                aclnnInplaceBaddbmm,
            )
        };
        place(ah).expect("documented");
        assert_eq!(x.read(), y.read());
        let one = Tensor::empty(dtype, &[1, 2, 3]);
        refused(place(one.handle), "both have one batch");
    }
}
