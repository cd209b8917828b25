//! Tests of the dtypes that functions of one or two tensors take, against f64.

use crate::common::host::doubles;
use crate::common::*;
use cann_emulator::abi::elementwise::*;

const I32: aclDataType = ACL_INT32;
const I64: aclDataType = ACL_INT64;

/// The dtypes of inputs that a function takes besides f32 and half types.
#[derive(Clone, Copy, PartialEq)]
enum Takes {
    /// All integers, booleans and f64.
    All,
    /// i64, booleans and f64.
    Few,
    /// i64 and booleans.
    FewNarrow,
    /// All integers and booleans.
    AllNarrow,
}

struct Function {
    name: &'static str,
    call: OfOne,
    exact: fn(f64) -> f64,
    takes: Takes,
}

macro_rules! functions {
    ($($operator:ident: $takes:ident, $exact:expr;)*) => {
        &[$(Function {
            name: stringify!($operator),
            call: |x, out| call!($operator: x, out),
            exact: $exact,
            takes: Takes::$takes,
        }),*]
    };
}

const FUNCTIONS: &[Function] = functions! {
    aclnnAcos: All, f64::acos;
    aclnnAcosh: All, f64::acosh;
    aclnnAsin: All, f64::asin;
    aclnnAsinh: All, f64::asinh;
    aclnnAtan: All, f64::atan;
    aclnnAtanh: All, f64::atanh;
    aclnnCos: All, f64::cos;
    aclnnCosh: All, f64::cosh;
    aclnnSin: All, f64::sin;
    aclnnSinh: All, f64::sinh;
    aclnnTan: All, f64::tan;
    aclnnTanh: AllNarrow, f64::tanh;
    aclnnExp: Few, f64::exp;
    aclnnExpm1: FewNarrow, f64::exp_m1;
    aclnnErf: Few, erf;
    aclnnLog: All, f64::ln;
    aclnnLog1p: All, f64::ln_1p;
    aclnnSqrt: All, f64::sqrt;
    aclnnRsqrt: All, |x| 1.0 / x.sqrt();
    aclnnReciprocal: All, |x| 1.0 / x;
    aclnnSigmoid: All, |x| 1.0 / (1.0 + (-x).exp());
};

/// The error function by its series, for small values.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..60 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

/// Returns where the exact value is finite: infinities are compared elsewhere.
fn finite(found: Vec<f32>, expected: Vec<f64>) -> (Vec<f32>, Vec<f64>) {
    let pairs = found.into_iter().zip(expected);
    pairs.filter(|(_, exact)| exact.is_finite()).unzip()
}

#[test]
fn functions_take_integers_and_booleans_as_floats() {
    let _session = Session::start();
    for function in FUNCTIONS {
        let Function {
            name,
            call,
            exact,
            takes,
        } = *function;
        let inputs = [
            (
                I64,
                Tensor::integers(I64, &[3], &[0, 1, 2]),
                [0.0, 1.0, 2.0],
            ),
            (ACL_BOOL, bytes(ACL_BOOL, &[0, 1, 7]), [0.0, 1.0, 1.0]),
            (
                I32,
                Tensor::integers(I32, &[3], &[0, 1, 2]),
                [0.0, 1.0, 2.0],
            ),
            (ACL_INT8, bytes(ACL_INT8, &[0, 1, 2]), [0.0, 1.0, 2.0]),
            (ACL_UINT8, bytes(ACL_UINT8, &[0, 1, 2]), [0.0, 1.0, 2.0]),
        ];
        for (dtype, x, values) in inputs {
            let taken =
                [I64, ACL_BOOL].contains(&dtype) || [Takes::All, Takes::AllNarrow].contains(&takes);
            for out in [F32, F16, BF16] {
                let y = Tensor::empty(out, &[3]);
                let status = call(&x, &y);
                if !taken {
                    refused(status, "self is");
                    continue;
                }
                status.expect(name);
                let (found, expected) = finite(y.read(), values.map(exact).to_vec());
                assert_close(name, &found, &expected, out, 1e-6);
            }
            if taken {
                each! { refused: call(&x, &Tensor::empty(I64, &[3])), "out is i64" }
            }
        }
    }
}

#[test]
fn functions_take_f64_where_the_list_has_it() {
    let _session = Session::start();
    for function in FUNCTIONS {
        let Function {
            name,
            call,
            exact,
            takes,
        } = *function;
        let values = [0.25, 0.75, 1.5];
        let (x, y) = (doubles(&[3], &values), Tensor::empty(ACL_DOUBLE, &[3]));
        let status = call(&x, &y);
        if [Takes::FewNarrow, Takes::AllNarrow].contains(&takes) {
            refused(status, "self is f64");
            continue;
        }
        status.expect(name);
        for (found, value) in download::<f64>(y.address, 3).into_iter().zip(values) {
            let expected = exact(value);
            let same = found.is_nan() && expected.is_nan();
            assert!(
                same || (found - expected).abs() <= 1e-14 * expected.abs(),
                "{name}({value})"
            );
        }
        // A result may be converted to a narrower float.
        let half = Tensor::empty(F16, &[3]);
        call(&x, &half).expect(name);
        let (found, expected) = finite(half.read(), values.map(exact).to_vec());
        assert_close(name, &found, &expected, F16, 1e-3 / 2.0);
    }
    let wide = Tensor::empty(ACL_DOUBLE, &[1]);
    let x = Tensor::floats(F32, &[1], &[0.5]);
    let status = call!(aclnnTanh: x, wide);
    refused(status, "out is f64");
}

#[test]
fn floors_of_integers_are_themselves() {
    let _session = Session::start();
    let floor = |x: &Tensor, y: &Tensor| call!(aclnnFloor: x, y);
    let x = Tensor::integers(I64, &[2], &[-7, 1 << 60]);
    let y = Tensor::empty(I64, &[2]);
    floor(&x, &y).expect("documented");
    assert_eq!(y.read_integers(), [-7, 1 << 60]);
    let x = doubles(&[2], &[-1.5, 2.5]);
    let y = Tensor::empty(ACL_DOUBLE, &[2]);
    floor(&x, &y).expect("documented");
    assert_eq!(download::<f64>(y.address, 2), [-2.0, 2.0]);
    refused(floor(&x, &Tensor::empty(F32, &[2])), "out is f32");
    let bits = bytes(ACL_BOOL, &[1, 0]);
    refused(floor(&bits, &bits), "self is bool");
}

#[test]
fn quotients_of_integers_are_floats_and_may_be_cut() {
    let _session = Session::start();
    let x = Tensor::integers(I32, &[3], &[7, -7, 1]);
    let y = Tensor::integers(I64, &[3], &[2, 2, 4]);
    let float = Tensor::empty(F32, &[3]);
    call!(aclnnDiv: x, y, float).expect("documented");
    assert_eq!(float.read(), [3.5, -3.5, 0.25]);
    let whole = Tensor::empty(I64, &[3]);
    call!(aclnnDiv: x, y, whole).expect("integers become integers");
    assert_eq!(whole.read_integers(), [3, -3, 0]);
    refused(call!(aclnnDiv: float, y, whole), "out is i64");
    let (yes, out) = (bytes(ACL_BOOL, &[1, 1, 1]), Tensor::empty(F16, &[3]));
    call!(aclnnDiv: x, yes, out).expect("booleans");
    assert_eq!(out.read(), [7.0, -7.0, 1.0]);
    let half = Scalar::float(0.5);
    call!(aclnnDivs: x, half, float).expect("a float scalar");
    assert_eq!(float.read(), [14.0, -14.0, 2.0]);
}

#[test]
fn powers_and_angles_meet_in_a_float() {
    let _session = Session::start();
    let x = Tensor::integers(I32, &[2], &[2, 3]);
    let y = Tensor::floats(F16, &[2], &[0.5, -1.0]);
    let out = Tensor::empty(F32, &[2]);
    call!(aclnnPowTensorTensor: x, y, out).expect("documented");
    let expected: Vec<f64> = [2f64.powf(0.5), 1.0 / 3.0].to_vec();
    assert_close("power", &out.read(), &expected, F16, 0.0);
    let root = |out: &Tensor| call!(aclnnPowTensorScalar: x, Scalar::float(0.5), out);
    root(&out).expect("a float exponent");
    let expected: Vec<f64> = [2f64, 3.0].map(f64::sqrt).to_vec();
    out.assert_close("root", &expected, 1e-7);
    refused(root(&x), "out is i32");
    let bits = bytes(ACL_BOOL, &[1, 0]);
    let status = call!(aclnnPowTensorScalar: bits, Scalar::new(1u8, ACL_BOOL), bits);
    each! { refused:
        status, "a boolean to the power";
        call!(aclnnPowTensorTensor: bits, bits, bits), "a boolean to the power";
    }
    call!(aclnnAtan2: x, bits, out).expect("of integers and booleans");
    let expected: Vec<f64> = [2f64.atan2(1.0), 3f64.atan2(0.0)].to_vec();
    out.assert_close("angle", &expected, 1e-7);
    let brain = Tensor::floats(BF16, &[2], &[0.5, -0.25]);
    let narrow = Tensor::empty(BF16, &[2]);
    call!(aclnnAtan2: brain, brain, narrow).expect("of bf16");
    let values = exact(&brain);
    let expected: Vec<f64> = values.iter().map(|x| x.atan2(*x)).collect();
    narrow.assert_close("angle", &expected, 1e-7);
}
