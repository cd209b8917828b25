//! Tests of the limits of GEGLU.

use super::*;
use burn_cann::ops::ge_glu;

#[test]
fn ge_glu_s_limits() {
    let check = |x: &Spec, dim| ge_glu::check(&platform(), x, dim);
    assert_eq!(check(&f32(&[2, 6]), 1).unwrap().shape(), [2, 3]);
    assert_eq!(
        check(&turned(f32(&[6, 2]), 0, 1), 1).unwrap().shape(),
        [2, 3]
    );
    refused(
        check(&f32(&[2, 5]), 1),
        Kind::Shape,
        "an even size of dimension 1",
    );
    refused(check(&f32(&[2, 6]), 2), Kind::Value, "dim is 2");
    refused(
        check(&spec(DType::F64, &[2, 6]), 1),
        Kind::Dtype,
        "x is of type f64",
    );

    let grad = |dy: &Spec, x: &Spec, gelu: &Spec| ge_glu::check_grad(&platform(), dy, x, gelu, 1);
    let (x, half) = (f32(&[4, 8]), f32(&[4, 4]));
    grad(&half, &x, &half).unwrap();
    refused(grad(&x, &x, &half), Kind::Shape, "dy has shape [4, 8]");
    refused(grad(&half, &x, &x), Kind::Shape, "gelu has shape [4, 8]");
    refused(
        grad(&half, &x, &spec(DType::F16, &[4, 4])),
        Kind::Dtype,
        "gelu is of type f16",
    );
    refused(
        grad(&f32(&[0, 4]), &f32(&[0, 8]), &f32(&[0, 4])),
        Kind::Shape,
        "no elements",
    );
}
