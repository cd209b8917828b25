//! Tests of products with a vector, against f64.

use crate::common::*;
use cann_emulator::abi::matmul::*;

fn mv(x: &Tensor, v: &Tensor, y: &Tensor, mode: i8) -> Status {
    call!(aclnnMv: x, v, y, mode)
}

#[test]
fn a_matrix_times_a_vector_and_two_vectors() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[3, 40], &noise(120, 1));
        let v = Tensor::floats(dtype, &[40], &noise(40, 2));
        let y = Tensor::empty(dtype, &[3]);
        mv(&x, &v, &y, 0).expect("documented");
        let (xs, vs) = (exact(&x), exact(&v));
        let row = |row: usize| (0..40).map(|at| xs[row * 40 + at] * vs[at]).sum::<f64>();
        let expected: Vec<f64> = (0..3).map(row).collect();
        y.assert_close("mv", &expected, 1e-5);

        let w = Tensor::floats(dtype, &[40], &noise(40, 3));
        let y = Tensor::empty(dtype, &[]);
        call!(aclnnDot: w, v, y).expect("documented");
        let sum = exact(&w).iter().zip(&vs).map(|(w, v)| w * v).sum::<f64>();
        y.assert_close("dot", &[sum], 1e-5);
    }
    // Nothing sums to zero.
    let (none, y) = (Tensor::empty(F32, &[0]), Tensor::empty(F32, &[]));
    call!(aclnnDot: none, none, y).expect("documented");
    assert_eq!(y.read(), [0.0]);
}

#[test]
fn other_shapes_and_dtypes_are_refused() {
    let _session = Session::start();
    let new = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, v, y) = (new(F32, &[3, 4]), new(F32, &[4]), new(F32, &[3]));
    refused(mv(&x, &new(F32, &[3]), &y, 1), "rows of 4 by columns of 3");
    refused(mv(&x, &new(F32, &[4, 1]), &y, 1), "mat2 has 2 axes");
    refused(mv(&v, &v, &y, 1), "self has 1 axes");
    refused(mv(&x, &new(F16, &[4]), &y, 1), "mat2 is f16");
    refused(mv(&x, &v, &new(F16, &[3]), 1), "out is f16");
    refused(mv(&x, &v, &new(F32, &[4]), 1), "out has the shape");
    refused(mv(&x, &v, &y, 9), "cubeMathType 9");
    let dot = |a: &Tensor, b: &Tensor, y: &Tensor| call!(aclnnDot: a, b, y);
    let one = new(F32, &[]);
    refused(dot(&v, &y, &one), "tensor has the shape");
    refused(dot(&x, &x, &one), "self has 2 axes");
    refused(dot(&v, &new(BF16, &[4]), &one), "tensor is bf16");
    refused(dot(&v, &v, &new(F32, &[1])), "out has the shape");
}
