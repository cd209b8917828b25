//! Tests of operators of three tensors and of activations with parameters, against f64.

mod common;

use cann_emulator::abi::elementwise::*;
use cann_sys::meta::*;
use common::host::{Scalar, Status, exact, of_one, of_scalar, refused};
use common::{BF16, F16, F32, PhaseTwo, Session, Tensor, assert_close, noise, run};

type OfFour = unsafe extern "C" fn(
    *const aclTensor,
    *const aclTensor,
    *const aclTensor,
    *const aclScalar,
    *mut aclTensor,
    *mut u64,
    *mut *mut aclOpExecutor,
) -> aclnnStatus;
type InPlaceOfFour = unsafe extern "C" fn(
    *const aclTensor,
    *const aclTensor,
    *const aclTensor,
    *const aclScalar,
    *mut u64,
    *mut *mut aclOpExecutor,
) -> aclnnStatus;

/// An operator and its form in place, and what it does with the two tensors.
type WithTwo = (
    OfFour,
    PhaseTwo,
    InPlaceOfFour,
    PhaseTwo,
    fn(f64, f64) -> f64,
);

#[test]
fn products_and_quotients_are_added() {
    let _session = Session::start();
    let scale = Scalar::float(-0.5);
    let table: [WithTwo; 2] = [
        (
            aclnnAddcmulGetWorkspaceSize,
            aclnnAddcmul,
            aclnnInplaceAddcmulGetWorkspaceSize,
            aclnnInplaceAddcmul,
            |a, b| a * b,
        ),
        (
            aclnnAddcdivGetWorkspaceSize,
            aclnnAddcdiv,
            aclnnInplaceAddcdivGetWorkspaceSize,
            aclnnInplaceAddcdiv,
            |a, b| a / b,
        ),
    ];
    for (one, two, place_one, place_two, together) in table {
        for (dtype, other) in [(F32, F32), (F16, F16), (BF16, BF16), (F16, F32)] {
            let x = Tensor::floats(dtype, &[2, 3], &noise(6, 1));
            let a = Tensor::floats(dtype, &[3], &noise(3, 2));
            let b = Tensor::floats(other, &[2, 1], &[0.75, -1.5]);
            let (ax, bx) = (exact(&a), exact(&b));
            let expected: Vec<f64> = exact(&x)
                .into_iter()
                .enumerate()
                .map(|(at, x)| x - 0.5 * together(ax[at % 3], bx[at / 3]))
                .collect();
            let y = Tensor::empty(dtype, &[2, 3]);
            let (xh, ah, bh) = (x.handle, a.handle, b.handle);
            // SAFETY: handles are checked, the places are variables.
            let status = run(
                |size, executor| unsafe { one(xh, ah, bh, scale.0, y.handle, size, executor) },
                two,
            );
            status.expect("documented");
            assert_close("sum", &y.read(), &expected, dtype, 1e-6);
            // SAFETY: as above.
            let status = run(
                |size, executor| unsafe { place_one(xh, ah, bh, scale.0, size, executor) },
                place_two,
            );
            status.expect("documented");
            assert_eq!(x.read(), y.read());
            // SAFETY: as above.
            let status = run(
                |size, executor| unsafe { place_one(ah, xh, bh, scale.0, size, executor) },
                place_two,
            );
            refused(status, "selfRef has the shape [3]");
        }
    }
    // Integers multiply, with a whole factor, but do not divide.
    let x = Tensor::integers(ACL_INT32, &[2], &[3, 5]);
    let (xh, three) = (x.handle, Scalar::int(3));
    let multiplied = |scale: &Scalar| {
        run(
            // SAFETY: handles are checked, the places are variables.
            |size, executor| unsafe {
                aclnnInplaceAddcmulGetWorkspaceSize(xh, xh, xh, scale.0, size, executor)
            },
            aclnnInplaceAddcmul,
        )
    };
    multiplied(&three).expect("documented");
    assert_eq!(x.read_integers(), [30, 80]);
    refused(multiplied(&scale), "value is f32");
    // SAFETY: as above.
    let divided = run(
        |size, executor| unsafe {
            aclnnInplaceAddcdivGetWorkspaceSize(xh, xh, xh, three.0, size, executor)
        },
        aclnnInplaceAddcdiv,
    );
    refused(divided, "selfRef is i32");
}

#[test]
fn bounds_may_be_tensors() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[4], &[-2.0, 0.5, 3.0, f32::NAN]);
    let (low, high) = (
        Tensor::floats(F32, &[1], &[-1.0]),
        Tensor::floats(F32, &[4], &[0.0, 0.25, 4.0, 1.0]),
    );
    let y = Tensor::empty(F32, &[4]);
    let clamp = |low: &Tensor, y: &Tensor| {
        run(
            // SAFETY: handles are checked, the places are variables.
            |size, executor| unsafe {
                let (x, low, high) = (x.handle, low.handle, high.handle);
                aclnnClampTensorGetWorkspaceSize(x, low, high, y.handle, size, executor)
            },
            aclnnClampTensor,
        )
    };
    clamp(&low, &y).expect("documented");
    let found = y.read();
    assert_eq!(found[..3], [-1.0, 0.25, 3.0]);
    assert!(found[3].is_nan());
    refused(clamp(&Tensor::empty(F32, &[3]), &y), "cannot be broadcast");
    refused(
        clamp(&Tensor::empty(ACL_BOOL, &[1]), &y),
        "clipValueMin is bool",
    );
}

#[test]
fn a_weight_leads_from_one_tensor_to_another() {
    let _session = Session::start();
    let quarter = Scalar::float(0.25);
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[2, 2], &noise(4, 1));
        let end = Tensor::floats(dtype, &[2], &noise(2, 2));
        let (values, ends) = (exact(&x), exact(&end));
        let expected: Vec<f64> = (0..4)
            .map(|at| values[at] + 0.25 * (ends[at % 2] - values[at]))
            .collect();
        let y = Tensor::empty(dtype, &[2, 2]);
        let lerp = |end: &Tensor, y: &Tensor| {
            run(
                // SAFETY: handles are checked, the places are variables.
                |size, executor| unsafe {
                    let (x, end) = (x.handle, end.handle);
                    aclnnLerpsGetWorkspaceSize(x, end, quarter.0, y.handle, size, executor)
                },
                aclnnLerps,
            )
        };
        lerp(&end, &y).expect("documented");
        assert_close("lerp", &y.read(), &expected, dtype, 1e-6);
        let other = Tensor::empty(if dtype == F32 { F16 } else { F32 }, &[2]);
        refused(lerp(&other, &y), "other is");
        // SAFETY: as above.
        run(
            |size, executor| unsafe {
                aclnnInplaceLerpsGetWorkspaceSize(x.handle, end.handle, quarter.0, size, executor)
            },
            aclnnInplaceLerps,
        )
        .expect("documented");
        assert_eq!(x.read(), y.read());
    }
}

#[test]
fn differences_may_be_turned_round() {
    let _session = Session::start();
    let (three, half) = (Scalar::float(3.0), Scalar::float(0.5));
    let x = Tensor::floats(BF16, &[3], &noise(3, 1));
    let rhs = Tensor::floats(F32, &[1], &[0.75]);
    let y = Tensor::empty(F32, &[3]);
    // SAFETY: handles are checked, the places are variables.
    run(
        |size, executor| unsafe {
            let (x, rhs) = (x.handle, rhs.handle);
            aclnnRsubGetWorkspaceSize(x, rhs, half.0, y.handle, size, executor)
        },
        aclnnRsub,
    )
    .expect("documented");
    let expected: Vec<f64> = exact(&x).iter().map(|x| 0.75 - 0.5 * x).collect();
    assert_close("rsub", &y.read(), &expected, F32, 1e-7);
    let rsubs = |x: &Tensor, y: &Tensor| {
        run(
            // SAFETY: as above.
            |size, executor| unsafe {
                aclnnRsubsGetWorkspaceSize(x.handle, three.0, half.0, y.handle, size, executor)
            },
            aclnnRsubs,
        )
    };
    let narrow = Tensor::empty(BF16, &[3]);
    rsubs(&x, &narrow).expect("documented");
    let expected: Vec<f64> = exact(&x).iter().map(|x| 3.0 - 0.5 * x).collect();
    assert_close("rsubs", &narrow.read(), &expected, BF16, 1e-7);
    let bits = Tensor::empty(ACL_BOOL, &[3]);
    refused(rsubs(&bits, &y), "self is bool");
}

/// Calls an activation with its parameters.
fn activation(name: &str, x: &Tensor, parameters: &[&Scalar], y: &Tensor) -> Status {
    match (name, parameters) {
        ("leaky", [slope]) => {
            of_scalar(aclnnLeakyReluGetWorkspaceSize, aclnnLeakyRelu, x, slope, y)
        }
        ("elu", [alpha, scale, input]) => run(
            // SAFETY: handles are checked, the places are variables.
            |size, executor| unsafe {
                let (x, y) = (x.handle, y.handle);
                aclnnEluGetWorkspaceSize(x, alpha.0, scale.0, input.0, y, size, executor)
            },
            aclnnElu,
        ),
        ("elu in place", [alpha, scale, input]) => run(
            // SAFETY: as above.
            |size, executor| unsafe {
                let x = x.handle;
                aclnnInplaceEluGetWorkspaceSize(x, alpha.0, scale.0, input.0, size, executor)
            },
            aclnnInplaceElu,
        ),
        ("softplus", [beta, threshold]) => run(
            // SAFETY: as above.
            |size, executor| unsafe {
                let (x, y) = (x.handle, y.handle);
                aclnnSoftplusGetWorkspaceSize(x, beta.0, threshold.0, y, size, executor)
            },
            aclnnSoftplus,
        ),
        ("mish", []) => of_one(aclnnMishGetWorkspaceSize, aclnnMish, x, y),
        ("hardswish", []) => run(
            // SAFETY: as above.
            |size, executor| unsafe {
                aclnnHardswishGetWorkspaceSize(x.handle, y.handle, size, executor)
            },
            aclnnHardswish,
        ),
        (name, _) => panic!("{name} has other parameters"),
    }
}

#[test]
fn activations_with_parameters_are_their_formulas() {
    let _session = Session::start();
    let values: Vec<f32> = noise(64, 3)
        .iter()
        .map(|x| 8.0 * x)
        .chain([0.0, 3.0, -3.0])
        .collect();
    let [quarter, two, half, twenty] = [0.25, 2.0, 0.5, 20.0].map(Scalar::float);
    type Formula = fn(f64) -> f64;
    let table: [(&str, Vec<&Scalar>, Formula); 5] = [
        (
            "leaky",
            vec![&quarter],
            |x| if x > 0.0 { x } else { 0.25 * x },
        ),
        ("elu", vec![&quarter, &two, &half], |x| {
            if x > 0.0 {
                2.0 * x
            } else {
                0.5 * ((0.5 * x).exp() - 1.0)
            }
        }),
        ("softplus", vec![&two, &twenty], |x| {
            if 2.0 * x > 20.0 {
                x
            } else {
                (1.0 + (2.0 * x).exp()).ln() / 2.0
            }
        }),
        ("mish", vec![], |x| x * (1.0 + x.exp()).ln().tanh()),
        ("hardswish", vec![], |x| {
            if x > 3.0 {
                x
            } else if x <= -3.0 {
                0.0
            } else {
                x * (x + 3.0) / 6.0
            }
        }),
    ];
    for (name, parameters, formula) in table {
        for dtype in [F32, F16, BF16] {
            let x = Tensor::floats(dtype, &[values.len()], &values);
            let y = Tensor::empty(dtype, &[values.len()]);
            activation(name, &x, &parameters, &y).expect(name);
            let expected: Vec<f64> = exact(&x).into_iter().map(formula).collect();
            assert_close(name, &y.read(), &expected, dtype, 1e-6);
            if name == "elu" {
                activation("elu in place", &x, &parameters, &x).expect(name);
                assert_eq!(x.read(), y.read());
            }
        }
        let whole = Tensor::empty(ACL_INT32, &[1]);
        refused(activation(name, &whole, &parameters, &whole), "self is i32");
        let (x, y) = (Tensor::empty(F32, &[1]), Tensor::empty(F16, &[1]));
        refused(activation(name, &x, &parameters, &y), "out is f16");
    }
}
