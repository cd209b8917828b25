//! Tests of conversions, copies and filling on the emulator: every dtype, views, and limits.

use crate::common::maths::{INTEGERS, REALS, noise, tensor, twice, values};
use crate::common::{Scenario, device, platform, spec};
use burn_cann::ops::{Kind, create, shape};
use burn_cann::{DType, Layout, Scalar, Spec, Tensor};
use half::{bf16, f16};

const TYPES: [DType; 10] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U8,
    DType::Bool,
];

/// Returns a value converted to another dtype.
fn converted(value: f64, to: DType) -> f64 {
    match to {
        DType::F32 => f64::from(value as f32),
        DType::F16 => f16::from_f64(value).to_f64(),
        DType::BF16 => bf16::from_f64(value).to_f64(),
        DType::F64 => value,
        DType::Bool => f64::from(value != 0.0),
        _ => value.trunc(),
    }
}

#[test]
fn every_type_becomes_every_other() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let data = [0.0, 1.0, 2.9, 0.3, 100.7, 1.0 / 3.0];
        for from in TYPES {
            for (x, x64) in twice(&stream, from, &data, [2, 3]) {
                for to in TYPES {
                    let y = shape::cast(&stream, &x, to).unwrap();
                    let expected: Vec<f64> = x64.iter().map(|&x| converted(x, to)).collect();
                    assert_eq!(values(&stream, &y), expected, "{from} to {to}");
                    assert_eq!((y.dtype(), y.shape()), (to, &[2, 3][..]));
                }
            }
        }
        let (negative, _) = tensor(&stream, DType::F32, &[-1.9, -0.5], &[2]);
        let whole = shape::cast(&stream, &negative, DType::I32).unwrap();
        assert_eq!(values(&stream, &whole), [-1.0, 0.0]);
        let none = Tensor::empty(&stream, DType::F32, [0, 3]).unwrap();
        assert_eq!(
            shape::cast(&stream, &none, DType::I64).unwrap().shape(),
            [0, 3]
        );
    });
}

#[test]
fn copies_go_from_views_to_views() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let (x, x64) = tensor(&stream, DType::F32, &noise(24, 1), &[2, 3, 4]);
        for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]] {
            let view = x.permute(&order).unwrap();
            let flat = shape::contiguous(&stream, &view).unwrap();
            assert_eq!(
                values(&stream, &flat),
                crate::common::maths::view(&x64, view.layout())
            );
        }
        // The target is a column of a larger tensor, and the source is converted and repeated.
        let (target, _) = tensor(&stream, DType::F16, &[0.0; 12], &[3, 4]);
        let (row, _) = tensor(&stream, DType::I32, &[7.0], &[1]);
        shape::copy(&stream, &target.slice(1, 1..3).unwrap(), &row).unwrap();
        let line = [0.0, 7.0, 7.0, 0.0];
        assert_eq!(values(&stream, &target), [line, line, line].concat());
        // An expanded tensor can be read but not written.
        let wide = row.expand([2, 2]).unwrap();
        assert_eq!(
            values(&stream, &shape::contiguous(&stream, &wide).unwrap()),
            [7.0; 4]
        );
        assert!(shape::copy(&stream, &wide, &row).is_err());
    });
}

#[test]
fn tensors_go_side_by_side() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in TYPES {
            let (a, a64) = tensor(&stream, dtype, &[1.0, 0.0, 3.0, 4.0], &[2, 2]);
            let (b, b64) = tensor(&stream, dtype, &[5.0, 0.0], &[1, 2]);
            let rows = shape::cat(&stream, &[&a, &b], 0).unwrap();
            assert_eq!(values(&stream, &rows), [a64.clone(), b64.clone()].concat());
            let column = b.transpose(0, 1).unwrap();
            let empty = Tensor::empty(&stream, dtype, [2, 0]).unwrap();
            let columns = shape::cat(&stream, &[&column, &empty, &a], 1).unwrap();
            let expected = [b64[0], a64[0], a64[1], b64[1], a64[2], a64[3]];
            assert_eq!(values(&stream, &columns), expected);
        }
    });
}

#[test]
fn tensors_are_filled() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in TYPES {
            let one = create::full(&stream, dtype, [2, 2], 1i64).unwrap();
            create::zero(&stream, &one.select(1, 0).unwrap()).unwrap();
            assert_eq!(values(&stream, &one), [0.0, 1.0, 0.0, 1.0]);
            let (mask, _) = tensor(&stream, DType::Bool, &[1.0, 0.0], &[2, 1]);
            create::masked_fill(&stream, &one, &mask, true).unwrap();
            assert_eq!(values(&stream, &one), [1.0, 1.0, 0.0, 1.0]);
        }
        let x = create::full(&stream, DType::BF16, [3], 0.1f64).unwrap();
        assert_eq!(values(&stream, &x), [bf16::from_f64(0.1).to_f64(); 3]);
        let range = create::arange(&stream, DType::I64, 2i64, 9i64, 3i64).unwrap();
        assert_eq!(values(&stream, &range), [2.0, 5.0, 8.0]);
        let range = create::arange(&stream, DType::F32, 1.0, 0.0, -0.25).unwrap();
        assert_eq!(values(&stream, &range), [1.0, 0.75, 0.5, 0.25]);
        // Two calls with different values are two calls.
        for value in [1i64, 2] {
            let x = create::full(&stream, DType::I32, [1], value).unwrap();
            assert_eq!(values(&stream, &x), [value as f64]);
        }
    });
}

#[test]
fn what_is_not_documented_is_refused() {
    let (platform, other) = (platform("Ascend910B1"), platform("Ascend310P3"));
    let x = spec(DType::F32, &[2, 3]);
    let kind = |refused: Result<(), burn_cann::ops::Refusal>| refused.unwrap_err().kind();
    assert_eq!(
        kind(shape::check_cast(&other, &x, DType::I64).map(drop)),
        Kind::Platform
    );
    let deep = spec(DType::F32, &[1; 9]);
    assert_eq!(
        kind(shape::check_cast(&platform, &deep, DType::I64).map(drop)),
        Kind::Shape
    );
    assert_eq!(
        kind(shape::check_copy(&platform, &x, &spec(DType::F32, &[3, 2]))),
        Kind::Shape
    );
    let shared = Spec {
        layout: Layout::strided([2, 3], [0, 1], 0).unwrap(),
        ..x.clone()
    };
    assert_eq!(
        kind(shape::check_copy(&platform, &shared, &x)),
        Kind::Layout
    );
    assert_eq!(kind(create::check_fill(&platform, &shared)), Kind::Layout);
    assert_eq!(
        kind(create::check_fill(&platform, &spec(DType::U64, &[1]))),
        Kind::Dtype
    );
    assert_eq!(
        kind(shape::check_cat(&platform, &[], 0).map(drop)),
        Kind::Value
    );
    let cat = |y: &Spec, dim| kind(shape::check_cat(&platform, &[&x, y], dim).map(drop));
    assert_eq!(cat(&spec(DType::F32, &[2, 4]), 0), Kind::Shape);
    assert_eq!(cat(&spec(DType::F16, &[2, 3]), 0), Kind::Dtype);
    assert_eq!(cat(&x, 2), Kind::Value);
    let range = |dtype, end: Scalar, step: Scalar| {
        kind(create::check_arange(&platform, dtype, Scalar::Int(0), end, step).map(drop))
    };
    assert_eq!(range(DType::I64, 3i64.into(), 0i64.into()), Kind::Value);
    assert_eq!(range(DType::I64, 3i64.into(), (-1i64).into()), Kind::Value);
    assert_eq!(range(DType::I64, 3i64.into(), 0.5.into()), Kind::Value);
    assert_eq!(range(DType::U8, 3i64.into(), 1i64.into()), Kind::Dtype);
    for dtype in INTEGERS {
        let target = spec(dtype, &[2]);
        let mask = spec(DType::Bool, &[2]);
        let fill = create::check_masked_fill(&platform, &target, &mask, 0.5.into());
        assert_eq!(kind(fill), Kind::Value);
    }
    for dtype in REALS {
        let mask = spec(dtype, &[2]);
        let fill = create::check_masked_fill(&platform, &x, &mask, 0.5.into());
        assert_eq!(kind(fill), Kind::Dtype);
    }
}
