//! Tests of the limits of RMS norm, with and without a sum, and of its gradient.

use super::*;
use burn_cann::ops::rms_norm;

#[test]
fn rms_norm_s_limits() {
    let check = |x: &Spec, gamma: &Spec| rms_norm::check(&platform(), x, gamma, 1e-6);
    let outputs = check(&f32(&[2, 3, 4]), &f32(&[3, 4])).unwrap();
    assert_eq!(
        (outputs.y.shape(), outputs.rstd.shape()),
        (&[2, 3, 4][..], &[2, 1, 1][..])
    );
    assert_eq!(
        check(&spec(DType::F16, &[2, 4]), &f32(&[4]))
            .unwrap()
            .rstd
            .dtype,
        DType::F32
    );

    refused(check(&f32(&[]), &f32(&[])), Kind::Shape, "1 to 8");
    refused(
        check(&f32(&[1; 9]), &f32(&[1])),
        Kind::Shape,
        "x has 9 dimensions",
    );
    refused(
        check(&f32(&[2, 4]), &f32(&[3])),
        Kind::Shape,
        "gamma has shape [3]",
    );
    refused(
        check(&f32(&[4]), &f32(&[1, 4])),
        Kind::Shape,
        "gamma has 2 dimensions",
    );
    refused(
        check(&f32(&[2, 0]), &f32(&[0])),
        Kind::Shape,
        "gamma has no elements",
    );
    for dtype in [DType::F64, DType::I32, DType::Bool] {
        refused(
            check(&spec(dtype, &[2, 4]), &f32(&[4])),
            Kind::Dtype,
            "x is of type",
        );
    }
    let (f16, bf16) = (spec(DType::F16, &[4]), spec(DType::BF16, &[4]));
    refused(
        check(&f32(&[2, 4]), &f16),
        Kind::Dtype,
        "gamma is of type f16",
    );
    refused(
        check(&spec(DType::F16, &[2, 4]), &bf16),
        Kind::Dtype,
        "gamma is of type bf16",
    );
    for epsilon in [-1e-6, f64::NAN, f64::INFINITY] {
        let checked = rms_norm::check(&platform(), &f32(&[2, 4]), &f32(&[4]), epsilon);
        refused(checked, Kind::Value, "epsilon");
    }
}

#[test]
fn add_rms_norm_s_limits() {
    let check =
        |x1: &Spec, x2: &Spec, gamma: &Spec| rms_norm::check_add(&platform(), x1, x2, gamma, 1e-6);
    let (x, gamma) = (f32(&[4, 4]), f32(&[4]));
    check(&x, &x, &gamma).unwrap();
    refused(
        check(&x, &f32(&[2, 4]), &gamma),
        Kind::Shape,
        "x2 has shape [2, 4]",
    );
    let f16 = spec(DType::F16, &[4, 4]);
    refused(check(&x, &f16, &gamma), Kind::Dtype, "x2 is of type f16");
    refused(
        check(&f16, &f16, &gamma),
        Kind::Dtype,
        "gamma is of type f32",
    );
    refused(
        check(&turned(x.clone(), 0, 1), &x, &gamma),
        Kind::Layout,
        "x1 is not contiguous",
    );
    refused(
        check(&x, &turned(x.clone(), 0, 1), &gamma),
        Kind::Layout,
        "x2 is not contiguous",
    );
}

#[test]
fn rms_norm_grad_s_limits() {
    let check = |dy: &Spec, x: &Spec, rstd: &Spec, gamma: &Spec| {
        rms_norm::check_grad(&platform(), dy, x, rstd, gamma)
    };
    let (x, rstd, gamma) = (f32(&[2, 4]), f32(&[2, 1]), f32(&[4]));
    let (dx, dgamma) = check(&x, &x, &rstd, &gamma).unwrap();
    assert_eq!((dx.shape(), dgamma.shape()), (&[2, 4][..], &[4][..]));
    let flat = f32(&[4]);
    refused(
        check(&flat, &flat, &f32(&[1]), &flat),
        Kind::Shape,
        "2 to 8",
    );
    refused(
        check(&f32(&[4, 4]), &x, &rstd, &gamma),
        Kind::Shape,
        "dy has shape",
    );
    refused(
        check(&spec(DType::F16, &[2, 4]), &x, &rstd, &gamma),
        Kind::Dtype,
        "dy is of type",
    );
    refused(
        check(&x, &x, &f32(&[2]), &gamma),
        Kind::Shape,
        "rstd has shape [2]",
    );
    refused(
        check(&x, &x, &spec(DType::F16, &[2, 1]), &gamma),
        Kind::Dtype,
        "rstd is of type",
    );
    let none = f32(&[0, 4]);
    refused(
        check(&none, &none, &f32(&[0, 1]), &gamma),
        Kind::Shape,
        "x has no elements",
    );
}
