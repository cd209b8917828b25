//! Tests of the limits of the cross-entropy.

use super::*;
use burn_cann::ops::cross_entropy::{self, Reduction};

#[test]
fn cross_entropy_s_limits() {
    let (x, targets, weights) = (f32(&[4, 6]), spec(DType::I64, &[4]), f32(&[6]));
    let check = |x: &Spec, targets: &Spec, weights: Option<&Spec>, smoothing| {
        let each = Reduction::None;
        cross_entropy::check(&platform(), x, targets, weights, each, smoothing)
    };
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let x = spec(dtype, &[4, 6]);
        for (reduction, losses) in [
            (Reduction::None, 4),
            (Reduction::Mean, 1),
            (Reduction::Sum, 1),
        ] {
            let found = cross_entropy::check(&platform(), &x, &targets, None, reduction, 0.5);
            let found = found.unwrap();
            assert_eq!(found.loss, spec(dtype, &[losses]));
            assert_eq!(found.log_prob, x);
        }
    }
    check(&x, &targets, Some(&weights), 0.0).unwrap();
    let of = |x: &Spec| check(x, &targets, None, 0.0);
    refused(
        of(&spec(DType::F64, &[4, 6])),
        Kind::Dtype,
        "logits is of type f64",
    );
    refused(of(&f32(&[4])), Kind::Shape, "logits has 1 dimensions");
    refused(of(&f32(&[4, 0])), Kind::Shape, "no elements");
    refused(
        of(&turned(f32(&[6, 4]), 0, 1)),
        Kind::Layout,
        "logits is not",
    );
    let of = |targets: &Spec| check(&x, targets, None, 0.0);
    refused(of(&i32(&[4])), Kind::Dtype, "targets is of type i32");
    refused(
        of(&spec(DType::I64, &[3])),
        Kind::Shape,
        "targets has shape [3]",
    );
    let of = |weights: &Spec| check(&x, &targets, Some(weights), 0.0);
    refused(
        of(&spec(DType::F16, &[6])),
        Kind::Dtype,
        "weights is of type f16",
    );
    refused(of(&f32(&[4])), Kind::Shape, "weights has shape [4]");
    for smoothing in [-0.1, 1.1, f64::NAN] {
        let found = check(&x, &targets, None, smoothing);
        refused(found, Kind::Value, "the label smoothing is");
    }

    let grad = |dloss: &Spec, log_prob: &Spec, reduction| {
        cross_entropy::check_grad(&platform(), dloss, log_prob, &targets, None, reduction)
    };
    let (each, one) = (f32(&[4]), f32(&[]));
    assert_eq!(grad(&each, &x, Reduction::None), Ok(x.clone()));
    assert_eq!(grad(&one, &x, Reduction::Mean), Ok(x.clone()));
    assert_eq!(grad(&one, &x, Reduction::Sum), Ok(x.clone()));
    refused(
        grad(&one, &x, Reduction::None),
        Kind::Shape,
        "dloss has shape []",
    );
    refused(
        grad(&each, &x, Reduction::Sum),
        Kind::Shape,
        "dloss has shape [4]",
    );
    let half = spec(DType::BF16, &[4]);
    refused(
        grad(&half, &x, Reduction::None),
        Kind::Dtype,
        "dloss is of type bf16",
    );
    refused(
        grad(&each, &each, Reduction::None),
        Kind::Shape,
        "log_prob has 1",
    );
}
