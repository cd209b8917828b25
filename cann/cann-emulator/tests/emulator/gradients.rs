//! Tests of gradients of functions of one tensor and of the mean squared error, against f64.

use crate::common::*;
use cann_emulator::abi::elementwise::*;
use cann_emulator::abi::mse_loss::*;

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

fn check(name: &str, tensors: &[Tensor; 3], slope: impl Fn(f64) -> f64) {
    let [dy, x, dx] = tensors;
    let pairs = exact(dy).into_iter().zip(exact(x));
    let expected: Vec<f64> = pairs.map(|(dy, x)| dy * slope(x)).collect();
    dx.assert_close(name, &expected, 2e-6);
}

#[test]
fn gradients_are_slopes() {
    let _session = Session::start();
    type Slope = fn(f64) -> f64;
    let table = operators! { OfTwo (dy, x, dx):
        aclnnSigmoidBackward, (|y| y * (1.0 - y)) as Slope;
        aclnnTanhBackward, |y| 1.0 - y * y;
        aclnnGeluBackward, |x| slope(gelu_tanh, x);
        aclnnMishBackward, |x| slope(|x| x * x.exp().ln_1p().tanh(), x);
        aclnnHardswishBackward, |x| slope(|x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0, x);
    };
    for (name, call, slope) in table {
        for dtype in DTYPES {
            let tensors = operands(dtype);
            let [dy, x, dx] = &tensors;
            call(dy, x, dx).expect(name);
            check(name, &tensors, slope);
        }
        let [dy, x, _] = operands(F32);
        let wide = Tensor::empty(F16, &[3, 4]);
        refused(call(&dy, &x, &wide), "f16");
        let whole = Tensor::empty(ACL_INT32, &[3, 4]);
        refused(call(&dy, &whole, &wide), "i32");
    }
}

#[test]
fn gelu_has_two_forms() {
    let _session = Session::start();
    let call = |form: *mut std::ffi::c_char, [dy, x, dx]: &[Tensor; 3]| -> Status {
        call!(aclnnGeluBackwardV2: dy, x, form, dx)
    };
    for dtype in DTYPES {
        let tensors = operands(dtype);
        call(c"none".as_ptr().cast_mut(), &tensors).expect("documented");
        check("none", &tensors, |x| slope(gelu, x));
        call(c"tanh".as_ptr().cast_mut(), &tensors).expect("documented");
        check("tanh", &tensors, |x| slope(gelu_tanh, x));
    }
    let tensors = operands(F32);
    each! { refused: call(c"erf".as_ptr().cast_mut(), &tensors), "approximate is erf" }
    let status = call(std::ptr::null_mut(), &tensors);
    fails(status, ACLNN_ERR_PARAM_NULLPTR);
}

#[test]
fn gradients_have_parameters() {
    let _session = Session::start();
    let (tenth, one) = (Scalar::float(0.1), Scalar::float(1.0));
    let (minus, two) = (Scalar::float(-0.1), Scalar::float(2.0));
    for dtype in DTYPES {
        let tensors = operands(dtype);
        let [dy, x, dx] = [0, 1, 2].map(|at| tensors[at].handle);
        call!(aclnnThresholdBackward: dy, x, one, dx).expect("documented");
        check("threshold", &tensors, |x| f64::from(x > 1.0));
        call!(aclnnLeakyReluBackward: dy, x, tenth, false, dx).expect("documented");
        check("leaky", &tensors, |x| if x > 0.0 { 1.0 } else { 0.1 });
        call!(aclnnSoftplusBackward: dy, x, two, one, dx).expect("documented");
        check("softplus", &tensors, |x| match 2.0 * x {
            wide if wide > 1.0 => 1.0,
            narrow => 1.0 / (1.0 + (-narrow).exp()),
        });
        refused(
            call!(aclnnLeakyReluBackward: dy, x, minus, true, dx),
            "the sign of its input",
        );
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
        call!(
            aclnnEluBackward: dy, alpha, scale, inner, is_result, x, dx
        )
    };
    for dtype in DTYPES {
        let tensors = operands(dtype);
        call(&alpha, false, &tensors).expect("documented");
        let own = |x: f64| if x > 0.0 { 2.0 } else { 1.5 * (1.5 * x).exp() };
        check("of the input", &tensors, own);
        let results: Vec<f32> = exact(&tensors[1])
            .into_iter()
            .map(|x| forward(x) as f32)
            .collect();
        tensors[1].fill(&results);
        call(&alpha, true, &tensors).expect("documented");
        let own = |y: f64| if y > 0.0 { 2.0 } else { 1.5 * (y + 1.0) };
        check("of the result", &tensors, own);
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
    call!(aclnnThresholdBackward: dy, x, zero, dx).expect("documented");
    assert_eq!(dx.read_integers(), [0, 0, 7]);
}

#[test]
fn squared_errors_have_gradients() {
    let _session = Session::start();
    let call = |dy: &Tensor, x: &Tensor, y: &Tensor, reduction, dx: &Tensor| {
        call!(
            aclnnMseLossBackward: dy, x, y, reduction, dx
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
            dx.assert_close("dx", &expected, 1e-6);
        }
        refused(call(&one, &x, &y, 3, &dx), "reduction is 3");
        refused(call(&one, &x, &y, 1, &y), "out has the shape");
    }
}
