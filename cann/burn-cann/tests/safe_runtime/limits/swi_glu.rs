//! Tests of the limits of SwiGLU.

use super::*;
use burn_cann::ops::swi_glu;

#[test]
fn swi_glu_s_limits() {
    let check = |x: &Spec, dim| swi_glu::check(&platform(), x, dim);
    assert_eq!(check(&f32(&[2, 6]), 1).unwrap().shape(), [2, 3]);
    assert_eq!(check(&f32(&[0, 6]), 1).unwrap().shape(), [0, 3]);
    refused(
        check(&f32(&[2, 5]), 1),
        Kind::Shape,
        "an even size of dimension 1",
    );
    refused(check(&f32(&[2, 6]), 2), Kind::Value, "dim is 2");
    refused(check(&f32(&[]), 0), Kind::Shape, "1 to 8");
    refused(check(&f32(&[2; 9]), 0), Kind::Shape, "1 to 8");
    refused(
        check(&spec(DType::F64, &[2, 6]), 1),
        Kind::Dtype,
        "x is of type f64",
    );
    refused(
        check(&turned(f32(&[6, 2]), 0, 1), 1),
        Kind::Layout,
        "x is not contiguous",
    );

    let grad = |dy: &Spec, x: &Spec| swi_glu::check_grad(&platform(), dy, x, 1);
    let x = f32(&[4, 8]);
    grad(&f32(&[4, 4]), &turned(f32(&[8, 4]), 0, 1)).unwrap();
    refused(grad(&f32(&[4, 8]), &x), Kind::Shape, "dy has shape [4, 8]");
    refused(
        grad(&spec(DType::F16, &[4, 4]), &x),
        Kind::Dtype,
        "dy is of type f16",
    );
    refused(
        grad(&turned(f32(&[4, 4]), 0, 1), &x),
        Kind::Layout,
        "dy is not contiguous",
    );
    refused(
        grad(&f32(&[0, 4]), &f32(&[0, 8])),
        Kind::Shape,
        "no elements",
    );
}
