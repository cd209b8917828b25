//! Tests of gradients of functions of one tensor and of the mean squared error, against f64.

mod common;

use cann_emulator::abi::elementwise::*;
use cann_emulator::abi::mse_loss::*;
use cann_sys::meta::*;
use common::host::{OfTwo, Scalar, Status, exact, of_two, refused};
use common::{BF16, F16, F32, PhaseTwo, Session, Tensor, assert_close, noise, run};

const DTYPES: [aclDataType; 3] = [F32, F16, BF16];

/// Returns the slope of a function, from its values close to `x`.
fn slope(function: fn(f64) -> f64, x: f64) -> f64 {
    let step = 1e-5;
    (function(x + step) - function(x - step)) / (2.0 * step)
}

fn gelu_tanh(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
    0.5 * x * (1.0 + inner.tanh())
}

/// Integrates the density of the normal distribution, so that it is independent of the emulator's `erf`.
fn gelu(x: f64) -> f64 {
    let steps = 2000;
    let width = x / f64::from(steps);
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let middle = |step: i32| density((f64::from(step) + 0.5) * width);
    x * (0.5 + (0..steps).map(middle).sum::<f64>() * width)
}

/// Three tensors of a dtype: a gradient, an input from -4 to 4, and a place for the result.
fn operands(dtype: aclDataType) -> [Tensor; 3] {
    let inputs: Vec<f32> = noise(12, 1).into_iter().map(|x| 4.0 * x).collect();
    [
        Tensor::floats(dtype, &[3, 4], &noise(12, 2)),
        Tensor::floats(dtype, &[3, 4], &inputs),
        Tensor::empty(dtype, &[3, 4]),
    ]
}

fn check(name: &str, dtype: aclDataType, tensors: &[Tensor; 3], slope: impl Fn(f64) -> f64) {
    let [dy, x, dx] = tensors;
    let pairs = exact(dy).into_iter().zip(exact(x));
    let expected: Vec<f64> = pairs.map(|(dy, x)| dy * slope(x)).collect();
    assert_close(name, &dx.read(), &expected, dtype, 2e-6);
}

/// An operator and the slope that its gradient is multiplied with.
type Row = (&'static str, OfTwo, PhaseTwo, fn(f64) -> f64);

#[test]
fn gradients_are_slopes() {
    let _session = Session::start();
    let table: [Row; 5] = [
        (
            "sigmoid",
            aclnnSigmoidBackwardGetWorkspaceSize,
            aclnnSigmoidBackward,
            |y| y * (1.0 - y),
        ),
        (
            "tanh",
            aclnnTanhBackwardGetWorkspaceSize,
            aclnnTanhBackward,
            |y| 1.0 - y * y,
        ),
        (
            "gelu",
            aclnnGeluBackwardGetWorkspaceSize,
            aclnnGeluBackward,
            |x| slope(gelu_tanh, x),
        ),
        (
            "mish",
            aclnnMishBackwardGetWorkspaceSize,
            aclnnMishBackward,
            |x| slope(|x| x * x.exp().ln_1p().tanh(), x),
        ),
        (
            "hardswish",
            aclnnHardswishBackwardGetWorkspaceSize,
            aclnnHardswishBackward,
            |x| slope(|x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0, x),
        ),
    ];
    for (name, one, two, slope) in table {
        for dtype in DTYPES {
            let tensors = operands(dtype);
            let [dy, x, dx] = &tensors;
            of_two(one, two, dy, x, dx).expect(name);
            check(name, dtype, &tensors, slope);
        }
        let [dy, x, _] = operands(F32);
        let wide = Tensor::empty(F16, &[3, 4]);
        refused(of_two(one, two, &dy, &x, &wide), "f16");
        let whole = Tensor::empty(ACL_INT32, &[3, 4]);
        refused(of_two(one, two, &dy, &whole, &wide), "i32");
    }
}

#[test]
fn gelu_has_two_forms() {
    let _session = Session::start();
    let call = |form: *mut std::ffi::c_char, [dy, x, dx]: &[Tensor; 3]| -> Status {
        run(
            // SAFETY: handles are checked, the places are variables.
            |size, executor| unsafe {
                aclnnGeluBackwardV2GetWorkspaceSize(
                    dy.handle, x.handle, form, dx.handle, size, executor,
                )
            },
            aclnnGeluBackwardV2,
        )
    };
    for dtype in DTYPES {
        let tensors = operands(dtype);
        call(c"none".as_ptr().cast_mut(), &tensors).expect("documented");
        check("none", dtype, &tensors, |x| slope(gelu, x));
        call(c"tanh".as_ptr().cast_mut(), &tensors).expect("documented");
        check("tanh", dtype, &tensors, |x| slope(gelu_tanh, x));
    }
    let tensors = operands(F32);
    refused(
        call(c"erf".as_ptr().cast_mut(), &tensors),
        "approximate is erf",
    );
    let status = call(std::ptr::null_mut(), &tensors);
    assert_eq!(status.expect_err("it must fail").0, ACLNN_ERR_PARAM_NULLPTR);
}

#[test]
fn gradients_have_parameters() {
    let _session = Session::start();
    let (tenth, one) = (Scalar::float(0.1), Scalar::float(1.0));
    let (minus, two) = (Scalar::float(-0.1), Scalar::float(2.0));
    for dtype in DTYPES {
        let tensors = operands(dtype);
        let [dy, x, dx] = [0, 1, 2].map(|at| tensors[at].handle);
        // SAFETY: handles are checked, the places are variables.
        let threshold = |size, executor| unsafe {
            aclnnThresholdBackwardGetWorkspaceSize(dy, x, one.0, dx, size, executor)
        };
        run(threshold, aclnnThresholdBackward).expect("documented");
        check("threshold", dtype, &tensors, |x| f64::from(x > 1.0));
        // SAFETY: as above.
        let leaky = |size, executor| unsafe {
            aclnnLeakyReluBackwardGetWorkspaceSize(dy, x, tenth.0, false, dx, size, executor)
        };
        run(leaky, aclnnLeakyReluBackward).expect("documented");
        check(
            "leaky",
            dtype,
            &tensors,
            |x| if x > 0.0 { 1.0 } else { 0.1 },
        );
        // SAFETY: as above.
        let softplus = |size, executor| unsafe {
            aclnnSoftplusBackwardGetWorkspaceSize(dy, x, two.0, one.0, dx, size, executor)
        };
        run(softplus, aclnnSoftplusBackward).expect("documented");
        check("softplus", dtype, &tensors, |x| match 2.0 * x {
            wide if wide > 1.0 => 1.0,
            narrow => 1.0 / (1.0 + (-narrow).exp()),
        });
        // SAFETY: as above.
        let result = |size, executor| unsafe {
            aclnnLeakyReluBackwardGetWorkspaceSize(dy, x, minus.0, true, dx, size, executor)
        };
        refused(run(result, aclnnLeakyReluBackward), "the sign of its input");
    }
}

#[test]
fn elu_knows_its_input_or_its_result() {
    let _session = Session::start();
    let (alpha, scale, inner) = (Scalar::float(0.5), Scalar::float(2.0), Scalar::float(1.5));
    let forward = |x: f64| match x {
        x if x > 0.0 => 2.0 * x,
        x => (1.5 * x).exp_m1(),
    };
    let call = |alpha: &Scalar, is_result, [dy, x, dx]: &[Tensor; 3]| {
        run(
            // SAFETY: handles are checked, the places are variables.
            |size, executor| unsafe {
                let (dy, x, dx) = (dy.handle, x.handle, dx.handle);
                aclnnEluBackwardGetWorkspaceSize(
                    dy, alpha.0, scale.0, inner.0, is_result, x, dx, size, executor,
                )
            },
            aclnnEluBackward,
        )
    };
    for dtype in DTYPES {
        let tensors = operands(dtype);
        call(&alpha, false, &tensors).expect("documented");
        let own = |x: f64| if x > 0.0 { 2.0 } else { 1.5 * (1.5 * x).exp() };
        check("of the input", dtype, &tensors, own);
        let results: Vec<f32> = exact(&tensors[1])
            .into_iter()
            .map(|x| forward(x) as f32)
            .collect();
        tensors[1].fill(&results);
        call(&alpha, true, &tensors).expect("documented");
        let own = |y: f64| if y > 0.0 { 2.0 } else { 1.5 * (y + 1.0) };
        check("of the result", dtype, &tensors, own);
        let minus = Scalar::float(-0.5);
        refused(call(&minus, true, &tensors), "the sign of its input");
    }
}

#[test]
fn integers_are_held_back_by_a_threshold() {
    let _session = Session::start();
    let zero = Scalar::int(0);
    let [dy, x] = [[5, 6, 7], [-1, 0, 1]].map(|values| Tensor::integers(ACL_INT32, &[3], &values));
    let dx = Tensor::empty(ACL_INT32, &[3]);
    run(
        // SAFETY: handles are checked, the places are variables.
        |size, executor| unsafe {
            let (dy, x, dx) = (dy.handle, x.handle, dx.handle);
            aclnnThresholdBackwardGetWorkspaceSize(dy, x, zero.0, dx, size, executor)
        },
        aclnnThresholdBackward,
    )
    .expect("documented");
    assert_eq!(dx.read_integers(), [0, 0, 7]);
}

#[test]
fn squared_errors_have_gradients() {
    let _session = Session::start();
    let call = |dy: &Tensor, x: &Tensor, y: &Tensor, reduction, dx: &Tensor| {
        run(
            // SAFETY: handles are checked, the places are variables.
            |size, executor| unsafe {
                let (dy, x, y, dx) = (dy.handle, x.handle, y.handle, dx.handle);
                aclnnMseLossBackwardGetWorkspaceSize(dy, x, y, reduction, dx, size, executor)
            },
            aclnnMseLossBackward,
        )
    };
    for dtype in DTYPES {
        let [each, x, dx] = operands(dtype);
        let y = Tensor::floats(dtype, &[4], &noise(4, 3));
        let one = Tensor::floats(dtype, &[], &[0.5]);
        let (targets, inputs) = (exact(&y), exact(&x));
        let slope = |at: usize| 2.0 * (inputs[at] - targets[at % 4]);
        for (reduction, dy, factor) in [(0, &each, 1.0), (1, &one, 1.0 / 12.0), (2, &one, 1.0)] {
            call(dy, &x, &y, reduction, &dx).expect("documented");
            let given = exact(dy);
            let expected: Vec<f64> = (0..12)
                .map(|at| factor * given[at % given.len()] * slope(at))
                .collect();
            assert_close("dx", &dx.read(), &expected, dtype, 1e-6);
        }
        refused(call(&one, &x, &y, 3, &dx), "reduction is 3");
        refused(call(&one, &x, &y, 1, &y), "out has the shape");
    }
}
