//! Tests of elementwise operators against f64: every operator, every dtype, views and broadcasting.

use crate::common::maths::{assert_equal, is_exact, noise, tensor, twice, values};
use crate::common::{Scenario, device, platform, spec};
use burn_cann::ops::compare::{Comparison, ComparisonScalar};
use burn_cann::ops::elementwise::{self, Binary, BinaryScalar};
use burn_cann::ops::unary::{self, Unary};
use burn_cann::ops::{Kind, Refusal};
use burn_cann::{DType, Scalar, Tensor};

/// Returns an integer wrapped to the range of its dtype.
fn wrapped(value: f64, dtype: DType) -> f64 {
    let value = value as i64;
    match dtype {
        DType::I32 => f64::from(value as i32),
        DType::I16 => f64::from(value as i16),
        DType::I8 => f64::from(value as i8),
        DType::U8 => f64::from(value as u8),
        DType::Bool => f64::from(value != 0),
        _ => value as f64,
    }
}

fn bits(apply: impl Fn(i64, i64) -> i64) -> impl Fn(f64, f64) -> f64 {
    move |a, b| apply(a as i64, b as i64) as f64
}

fn truth(value: bool) -> f64 {
    f64::from(value)
}

fn binary(operator: Binary, a: f64, b: f64) -> f64 {
    match operator {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::DivTrunc => (a / b).trunc(),
        Binary::DivFloor => (a / b).floor(),
        Binary::Maximum => a.max(b),
        Binary::Minimum => a.min(b),
        Binary::Pow => a.powf(b),
        Binary::Remainder => a - b * (a / b).floor(),
        Binary::Atan2 => a.atan2(b),
        Binary::Fmod => a - b * (a / b).trunc(),
        Binary::BitAnd => bits(|a, b| a & b)(a, b),
        Binary::BitOr => bits(|a, b| a | b)(a, b),
        Binary::BitXor => bits(|a, b| a ^ b)(a, b),
        Binary::LeftShift => bits(|a, b| a << b)(a, b),
        Binary::RightShift => bits(|a, b| a >> b)(a, b),
        Binary::And => truth(a != 0.0 && b != 0.0),
        Binary::Or => truth(a != 0.0 || b != 0.0),
        Binary::Xor => truth((a != 0.0) != (b != 0.0)),
        other => panic!("{other:?} has no reference"),
    }
}

fn of_scalar(operator: BinaryScalar, x: f64, value: f64) -> f64 {
    match operator {
        BinaryScalar::Add => x + value,
        BinaryScalar::Sub => x - value,
        BinaryScalar::Mul => x * value,
        BinaryScalar::Div => x / value,
        BinaryScalar::DivTrunc => (x / value).trunc(),
        BinaryScalar::DivFloor => (x / value).floor(),
        BinaryScalar::Pow => x.powf(value),
        BinaryScalar::PowOf => value.powf(x),
        BinaryScalar::Remainder => binary(Binary::Remainder, x, value),
        BinaryScalar::Fmod => binary(Binary::Fmod, x, value),
        BinaryScalar::BitAnd => binary(Binary::BitAnd, x, value),
        BinaryScalar::BitOr => binary(Binary::BitOr, x, value),
        BinaryScalar::BitXor => binary(Binary::BitXor, x, value),
        BinaryScalar::ClampMin => x.max(value),
        BinaryScalar::ClampMax => x.min(value),
        other => panic!("{other:?} has no reference"),
    }
}

/// Returns values that stay in the range of a dtype under every operator.
fn operands(dtype: DType) -> (Vec<f64>, Vec<f64>) {
    match dtype {
        DType::Bool => (
            vec![0.0, 1.0, 0.0, 1.0, 1.0, 0.0],
            vec![0.0, 1.0, 1.0, 0.0, 1.0, 0.0],
        ),
        DType::U8 => (
            vec![7.0, 0.0, 9.0, 3.0, 12.0, 1.0],
            vec![2.0, 3.0, 1.0, 2.0, 1.0, 3.0],
        ),
        _ if is_exact(dtype) => (
            vec![7.0, 0.0, -9.0, 3.0, -8.0, 1.0],
            vec![2.0, 3.0, 1.0, 2.0, 3.0, 1.0],
        ),
        _ => (
            vec![1.7, 0.3, 2.2, 4.1, 0.9, 5.3],
            vec![2.0, 0.5, 1.5, 3.0, 1.0, 0.7],
        ),
    }
}

#[test]
fn operators_of_two_tensors() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for &operator in Binary::ALL {
            for &dtype in operator.takes() {
                let (left, right) = operands(dtype);
                for (a, a64) in twice(&stream, dtype, &left, [2, 3]) {
                    for (b, b64) in twice(&stream, dtype, &right, [2, 3]) {
                        let found = operator.run(&stream, &a, &b).unwrap();
                        let expected: Vec<f64> = a64
                            .iter()
                            .zip(&b64)
                            .map(|(&a, &b)| binary(operator, a, b))
                            .map(|y| {
                                if is_exact(found.dtype()) {
                                    wrapped(y, found.dtype())
                                } else {
                                    y
                                }
                            })
                            .collect();
                        println!("{operator:?} {dtype}");
                        // Powers lose most precision in f32.
                        let found64 = values(&stream, &found);
                        assert_equal(&found64, &expected, found.dtype(), 1e-6);
                    }
                }
                // A row and a column make a matrix.
                let (row, row64) = tensor(&stream, dtype, &left[..3], &[3]);
                let (column, column64) = tensor(&stream, dtype, &right[..2], &[2, 1]);
                let found = operator.run(&stream, &row, &column).unwrap();
                assert_eq!(found.shape(), [2, 3]);
                let pairs = (0..6).map(|at| binary(operator, row64[at % 3], column64[at / 3]));
                let expected: Vec<f64> = pairs
                    .map(|y| {
                        if is_exact(found.dtype()) {
                            wrapped(y, found.dtype())
                        } else {
                            y
                        }
                    })
                    .collect();
                assert_equal(&values(&stream, &found), &expected, found.dtype(), 1e-6);
                let none = Tensor::empty(&stream, dtype, [0, 3]).unwrap();
                assert_eq!(operator.run(&stream, &none, &row).unwrap().shape(), [0, 3]);
            }
        }
    });
}

#[test]
fn operators_of_a_tensor_and_a_scalar() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for &operator in BinaryScalar::ALL {
            for &dtype in operator.takes() {
                let (left, _) = operands(dtype);
                let scalars = match dtype {
                    DType::Bool => vec![Scalar::Bool(true)],
                    _ if is_exact(dtype) => vec![Scalar::Int(3)],
                    _ => vec![Scalar::Int(2), Scalar::Float(0.75)],
                };
                for scalar in scalars {
                    let value = match scalar {
                        Scalar::Float(value) => value,
                        Scalar::Int(value) => value as f64,
                        Scalar::Bool(value) => truth(value),
                    };
                    for (x, x64) in twice(&stream, dtype, &left, [3, 2]) {
                        // Integers have no negative powers.
                        if operator == BinaryScalar::PowOf && x64.iter().any(|x| *x < 0.0) {
                            continue;
                        }
                        println!("{operator:?} {dtype} {scalar:?}");
                        let found = operator.run(&stream, &x, scalar).unwrap();
                        let expected: Vec<f64> = x64
                            .iter()
                            .map(|&x| of_scalar(operator, x, value))
                            .map(|y| {
                                if is_exact(found.dtype()) {
                                    wrapped(y, found.dtype())
                                } else {
                                    y
                                }
                            })
                            .collect();
                        assert_equal(&values(&stream, &found), &expected, found.dtype(), 1e-6);
                    }
                }
            }
        }
    });
}

#[test]
fn comparisons_and_choices() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let compare = |operator: &str, a: f64, b: f64| match operator {
            "Equal" => a == b,
            "NotEqual" => a != b,
            "Greater" => a > b,
            "GreaterEqual" => a >= b,
            "Lower" => a < b,
            _ => a <= b,
        };
        for (&two, &one) in Comparison::ALL.iter().zip(ComparisonScalar::ALL) {
            let name = format!("{two:?}");
            assert_eq!(name, format!("{one:?}"));
            for &dtype in two.takes() {
                let mut left = vec![1.0, 0.0, 1.0, 0.0, 1.0, 1.0];
                if !is_exact(dtype) {
                    left[5] = f64::NAN;
                }
                let right = [1.0, 1.0, 0.0, 0.0, 1.0, 0.0];
                for (a, a64) in twice(&stream, dtype, &left, [2, 3]) {
                    let (b, b64) = tensor(&stream, dtype, &right, &[2, 3]);
                    let found = two.run(&stream, &a, &b).unwrap();
                    assert_eq!(found.dtype(), DType::Bool);
                    let pairs = a64.iter().zip(&b64);
                    let expected: Vec<f64> =
                        pairs.map(|(&a, &b)| truth(compare(&name, a, b))).collect();
                    assert_eq!(values(&stream, &found), expected, "{name} {dtype}");
                    let found = one.run(&stream, &a, 1i64).unwrap();
                    let expected: Vec<f64> =
                        a64.iter().map(|&a| truth(compare(&name, a, 1.0))).collect();
                    assert_eq!(values(&stream, &found), expected, "{name} {dtype}");
                }
                let (mask, _) = tensor(&stream, DType::Bool, &[1.0, 0.0], &[2, 1]);
                let (yes, yes64) = tensor(&stream, dtype, &[1.0, 0.0, 1.0], &[3]);
                let (no, no64) = tensor(&stream, dtype, &[0.0], &[]);
                let chosen = elementwise::select(&stream, &mask, &yes, &no).unwrap();
                assert_eq!(
                    values(&stream, &chosen),
                    [&yes64[..], &[no64[0]; 3]].concat()
                );
            }
        }
    });
}

/// Computes the error function by its series, for small arguments.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..60 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn function(operator: Unary, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match operator {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign => f64::from(i8::from(x > 0.0) - i8::from(x < 0.0)),
        Unary::Round => x.round_ties_even(),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Trunc => x.trunc(),
        Unary::IsFinite => truth(x.is_finite()),
        Unary::Not => truth(x == 0.0),
        Unary::BitNot => -x - 1.0,
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Log1p => x.ln_1p(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::Reciprocal => 1.0 / x,
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Erf => erf(x),
        Unary::Tanh => x.tanh(),
        Unary::Sinh => x.sinh(),
        Unary::Cosh => x.cosh(),
        Unary::Asin => x.asin(),
        Unary::Acos => x.acos(),
        Unary::Atan => x.atan(),
        Unary::Asinh => x.asinh(),
        Unary::Acosh => x.acosh(),
        Unary::Atanh => x.atanh(),
        Unary::Sigmoid => sigmoid(x),
        Unary::Relu => x.max(0.0),
        Unary::Silu => x * sigmoid(x),
        Unary::Gelu => x / 2.0 * (1.0 + erf(x / 2f64.sqrt())),
        Unary::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            x / 2.0 * (1.0 + inner.tanh())
        }
        other => panic!("{other:?} has no reference"),
    }
}

#[test]
fn functions_of_single_elements() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for &operator in Unary::ALL {
            for &dtype in operator.takes() {
                let data = match dtype {
                    DType::Bool => vec![0.0, 1.0, 1.0, 0.0],
                    DType::U8 => vec![0.0, 1.0, 7.0, 200.0],
                    _ if is_exact(dtype) => vec![-7.0, 0.0, 3.0, -1.0],
                    _ => vec![-1.25, 0.4, 2.5, -0.5],
                };
                for (x, x64) in twice(&stream, dtype, &data, [2, 2]) {
                    println!("{operator:?} {dtype}");
                    let found = operator.run(&stream, &x).unwrap();
                    let expected: Vec<f64> = x64
                        .iter()
                        .map(|&x| match (operator, dtype) {
                            (Unary::BitNot, DType::Bool) => 1.0 - x,
                            _ => function(operator, x),
                        })
                        .map(|y| {
                            if is_exact(found.dtype()) {
                                wrapped(y, found.dtype())
                            } else {
                                y
                            }
                        })
                        .collect();
                    assert_equal(&values(&stream, &found), &expected, found.dtype(), 1e-6);
                }
            }
        }
        let (x, x64) = tensor(&stream, DType::BF16, &noise(30, 1), &[5, 6]);
        let (dy, dy64) = tensor(&stream, DType::BF16, &noise(30, 2), &[5, 6]);
        let found = unary::silu_backward(&stream, &dy, &x).unwrap();
        let slope = |x: f64| {
            let sigmoid = 1.0 / (1.0 + (-x).exp());
            sigmoid * (1.0 + x * (1.0 - sigmoid))
        };
        let expected: Vec<f64> = x64
            .iter()
            .zip(&dy64)
            .map(|(&x, dy)| dy * slope(x))
            .collect();
        assert_equal(&values(&stream, &found), &expected, DType::BF16, 1e-6);
    });
}

#[test]
fn what_is_not_a_number_passes_on() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0];
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
            let (x, _) = tensor(&stream, dtype, &special, &[4]);
            let (one, _) = tensor(&stream, dtype, &[1.0], &[1]);
            let is = |found: &Tensor, expected: [f64; 4]| {
                assert_equal(&values(&stream, found), &expected, dtype, 0.0);
            };
            let (nan, inf) = (f64::NAN, f64::INFINITY);
            is(
                &elementwise::maximum(&stream, &x, &one).unwrap(),
                [nan, inf, 1.0, 1.0],
            );
            is(
                &elementwise::minimum(&stream, &one, &x).unwrap(),
                [nan, 1.0, -inf, 0.0],
            );
            is(
                &elementwise::clamp(&stream, &x, -2.0, 2.0).unwrap(),
                [nan, 2.0, -2.0, 0.0],
            );
            is(
                &elementwise::div(&stream, &one, &x).unwrap(),
                [nan, 0.0, 0.0, inf],
            );
            is(&unary::log(&stream, &x).unwrap(), [nan, inf, nan, -inf]);
            is(&unary::sqrt(&stream, &x).unwrap(), [nan, inf, nan, 0.0]);
            is(&unary::exp(&stream, &x).unwrap(), [nan, inf, 0.0, 1.0]);
            let finite = unary::is_finite(&stream, &x).unwrap();
            assert_eq!(
                finite.to_bools(&stream).unwrap(),
                [false, false, false, true]
            );
        }
    });
}

#[test]
fn limits_are_refused() {
    let a2 = platform("Ascend910B1");
    #[track_caller]
    fn kind<T: std::fmt::Debug>(refused: Result<T, Refusal>) -> Kind {
        refused.unwrap_err().kind()
    }
    for &operator in Binary::ALL {
        let dtype = operator.takes()[0];
        let (x, odd) = (spec(dtype, &[2, 3]), spec(dtype, &[2, 2]));
        assert_eq!(
            kind(operator.check(&platform("Ascend310P3"), &x, &x)),
            Kind::Platform
        );
        assert_eq!(kind(operator.check(&a2, &x, &odd)), Kind::Shape);
        assert_eq!(
            kind(operator.check(&a2, &x, &spec(DType::U16, &[2, 3]))),
            Kind::Dtype
        );
        let deep = spec(dtype, &[1; 9]);
        assert_eq!(kind(operator.check(&a2, &deep, &deep)), Kind::Shape);
    }
    for &operator in BinaryScalar::ALL {
        let x = spec(DType::I32, &[2]);
        assert_eq!(kind(operator.check(&a2, &x, 0.5.into())), Kind::Value);
        let wide = spec(DType::U64, &[2]);
        assert_eq!(kind(operator.check(&a2, &wide, 1i64.into())), Kind::Dtype);
    }
    for &operator in Unary::ALL {
        for dtype in [DType::U64, DType::I16] {
            if !operator.takes().contains(&dtype) {
                assert_eq!(kind(operator.check(&a2, &spec(dtype, &[2]))), Kind::Dtype);
            }
        }
    }
    let (mask, x) = (spec(DType::Bool, &[2]), spec(DType::F32, &[2]));
    assert_eq!(
        kind(elementwise::check_select(&a2, &x, &x, &x)),
        Kind::Dtype
    );
    let three = spec(DType::F32, &[3]);
    assert_eq!(
        kind(elementwise::check_select(&a2, &mask, &x, &three)),
        Kind::Shape
    );
    assert_eq!(
        kind(elementwise::check_select(&a2, &mask, &three, &three)),
        Kind::Shape
    );
    assert_eq!(
        kind(unary::check_silu_backward(&a2, &three, &x)),
        Kind::Shape
    );
}
