//! Tests of operators of three tensors and of activations with parameters, against f64.

use crate::common::*;
use cann_emulator::abi::elementwise::*;

#[test]
fn products_and_quotients_are_added() {
    let _session = Session::start();
    let scale = Scalar::float(-0.5);
    type Function = fn(f64, f64) -> f64;
    type OfFour = fn([&Tensor; 3], &Scalar, &Tensor) -> Status;
    type InPlaceOfFour = fn([&Tensor; 3], &Scalar) -> Status;
    let table: [(OfFour, InPlaceOfFour, Function); 2] = [
        (
            |[x, a, b], scale, y| call!(aclnnAddcmul: x, a, b, scale, y),
            |[x, a, b], scale| call!(aclnnInplaceAddcmul: x, a, b, scale),
            |a, b| a * b,
        ),
        (
            |[x, a, b], scale, y| call!(aclnnAddcdiv: x, a, b, scale, y),
            |[x, a, b], scale| call!(aclnnInplaceAddcdiv: x, a, b, scale),
            |a, b| a / b,
        ),
    ];
    for (call, place, together) in table {
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
            call([&x, &a, &b], &scale, &y).expect("documented");
            y.assert_close("sum", &expected, 1e-6);
            place([&x, &a, &b], &scale).expect("documented");
            assert_eq!(x.read(), y.read());
            refused(place([&a, &x, &b], &scale), "selfRef has the shape [3]");
        }
    }
    // Integers multiply, with a whole factor, but do not divide.
    let x = Tensor::integers(ACL_INT32, &[2], &[3, 5]);
    let (xh, three) = (x.handle, Scalar::int(3));
    let multiplied = |scale: &Scalar| call!(aclnnInplaceAddcmul: xh, xh, xh, scale);
    multiplied(&three).expect("documented");
    assert_eq!(x.read_integers(), [30, 80]);
    refused(multiplied(&scale), "value is f32");
    refused(
        call!(aclnnInplaceAddcdiv: xh, xh, xh, three),
        "selfRef is i32",
    );
}

#[test]
fn bounds_may_be_tensors() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[4], &[-2.0, 0.5, 3.0, f32::NAN]);
    let low = Tensor::floats(F32, &[1], &[-1.0]);
    let high = Tensor::floats(F32, &[4], &[0.0, 0.25, 4.0, 1.0]);
    let y = Tensor::empty(F32, &[4]);
    let clamp = |low: &Tensor, y: &Tensor| call!(aclnnClampTensor: x, low, high, y);
    clamp(&low, &y).expect("documented");
    let found = y.read();
    assert_eq!(found[..3], [-1.0, 0.25, 3.0]);
    assert!(found[3].is_nan());
    each! { refused:
        clamp(&Tensor::empty(F32, &[3]), &y), "cannot be broadcast";
        clamp(&Tensor::empty(ACL_BOOL, &[1]), &y), "clipValueMin is bool";
    }
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
        let lerp = |end: &Tensor, y: &Tensor| call!(aclnnLerps: x, end, quarter, y);
        lerp(&end, &y).expect("documented");
        y.assert_close("lerp", &expected, 1e-6);
        let other = Tensor::empty(if dtype == F32 { F16 } else { F32 }, &[2]);
        refused(lerp(&other, &y), "other is");
        call!(aclnnInplaceLerps: x, end, quarter).expect("documented");
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
    call!(aclnnRsub: x, rhs, half, y).expect("documented");
    let expected: Vec<f64> = exact(&x).iter().map(|x| 0.75 - 0.5 * x).collect();
    y.assert_close("rsub", &expected, 1e-7);
    let rsubs = |x: &Tensor, y: &Tensor| call!(aclnnRsubs: x, three, half, y);
    let narrow = Tensor::empty(BF16, &[3]);
    rsubs(&x, &narrow).expect("documented");
    let expected: Vec<f64> = exact(&x).iter().map(|x| 3.0 - 0.5 * x).collect();
    narrow.assert_close("rsubs", &expected, 1e-7);
    let bits = Tensor::empty(ACL_BOOL, &[3]);
    refused(rsubs(&bits, &y), "self is bool");
}

/// Calls an activation with its parameters.
fn activation(name: &str, x: &Tensor, parameters: &[&Scalar], y: &Tensor) -> Status {
    match (name, parameters) {
        ("leaky", [slope]) => {
            call!(aclnnLeakyRelu: x, slope, y)
        }
        ("elu", [alpha, scale, input]) => call!(aclnnElu: x, alpha, scale, input, y),
        ("elu in place", [alpha, scale, input]) => call!(aclnnInplaceElu: x, alpha, scale, input),
        ("softplus", [beta, threshold]) => call!(aclnnSoftplus: x, beta, threshold, y),
        ("mish", []) => call!(aclnnMish: x, y),
        ("hardswish", []) => call!(aclnnHardswish: x, y),
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
            y.assert_close(name, &expected, 1e-6);
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
