//! Tests of SwiGLU, GEGLU and their gradients: against the goldens in f64, and their documented limits.

use crate::common::goldens::Goldens;
use crate::common::*;
use cann_emulator::abi::activation::*;

fn swiglu(x: &Tensor, axis: i64, output: &Tensor) -> Status {
    call!(aclnnSwiGlu: x, axis, output)
}

fn swiglu_grad(dy: &Tensor, x: &Tensor, axis: i64, output: &Tensor) -> Status {
    call!(aclnnSwiGluGrad: dy, x, axis, output)
}

fn geglu(
    x: &Tensor,
    axis: i64,
    approximation: i64,
    gate_first: bool,
    [output, gelu]: [&Tensor; 2],
) -> Status {
    call!(aclnnGeGluV3: x, axis, approximation, gate_first, output, gelu)
}

fn geglu_grad(
    [dy, x, gelu]: [&Tensor; 3],
    axis: i64,
    approximation: i64,
    gate_first: bool,
    output: &Tensor,
) -> Status {
    call!(aclnnGeGluV3Backward: dy, x, gelu, axis, approximation, gate_first, output)
}

/// Returns rows of a joined with rows of b.
fn beside<T: Copy>(a: &[T], b: &[T], width: usize) -> Vec<T> {
    let rows = a.chunks(width).zip(b.chunks(width));
    rows.flat_map(|(a, b)| a.iter().chain(b).copied().collect::<Vec<_>>())
        .collect()
}

#[test]
fn forward_and_gradient_are_those_of_the_goldens_rounded_once() {
    let _session = Session::start();
    let goldens = Goldens::open("glu");
    for case in goldens.cases("ref.silu.y") {
        let (shape, dtype) = (case.shape("a"), case.dtype("a"));
        let width = *shape.last().expect("rows");
        let mut wide = shape.clone();
        *wide.last_mut().expect("rows") *= 2;
        let values = beside(&case.floats("a"), &case.floats("b"), width);

        let x = Tensor::floats(dtype, &wide, &values);
        let y = Tensor::empty(dtype, &shape);
        swiglu(&x, -1, &y).expect(&case);
        y.assert_close(&case, &case.exact("ref.silu.y"), 1e-6);

        let dy = case.tensor("dy");
        let dx = Tensor::empty(dtype, &wide);
        swiglu_grad(&dy, &x, shape.len() as i64 - 1, &dx).expect(&case);
        let exact = beside(
            &case.exact("ref.silu.da"),
            &case.exact("ref.silu.db"),
            width,
        );
        dx.assert_close(&case, &exact, 1e-6);
    }
}

/// The activated half may be the first one or the second one.
#[test]
fn geglu_and_its_gradient_are_those_of_the_goldens() {
    let _session = Session::start();
    let goldens = Goldens::open("glu");
    for (function, approximation) in [("gelu", 0), ("gelu_pytorch_tanh", 1)] {
        for case in goldens.cases(&format!("ref.{function}.y")) {
            for gate_first in [true, false] {
                let what = format!("{}, {function}, {gate_first}", &*case);
                let exact = |part: &str| case.exact(&format!("ref.{function}.{part}"));
                let (shape, dtype) = (case.shape("a"), case.dtype("a"));
                let width = *shape.last().expect("rows");
                let mut wide = shape.clone();
                *wide.last_mut().expect("rows") *= 2;
                let in_order = |a: &[f32], b: &[f32]| match gate_first {
                    true => beside(a, b, width),
                    false => beside(b, a, width),
                };
                let values = in_order(&case.floats("a"), &case.floats("b"));
                let x = Tensor::floats(dtype, &wide, &values);
                let [y, gelu] = [(); 2].map(|()| Tensor::empty(dtype, &shape));
                geglu(&x, -1, approximation, gate_first, [&y, &gelu]).expect(&what);
                y.assert_close(&what, &exact("y"), 1e-6);

                let dy = case.tensor("dy");
                let dx = Tensor::empty(dtype, &wide);
                let axis = shape.len() as i64 - 1;
                geglu_grad([&dy, &x, &gelu], axis, approximation, gate_first, &dx).expect(&what);
                let (da, db) = (exact("da"), exact("db"));
                let exact = match gate_first {
                    true => beside(&da, &db, width),
                    false => beside(&db, &da, width),
                };
                // The activated half is rounded before it is multiplied, and for f16 a product is, too.
                let twice = if dtype == F32 {
                    1e-6
                } else {
                    1e-6 + rounding(dtype)
                };
                dx.assert_close(&what, &exact, twice);
            }
        }
    }
}

/// Returns the relative error of one rounding.
fn rounding(dtype: aclDataType) -> f64 {
    match dtype {
        F16 => 2f64.powi(-11),
        _ => 2f64.powi(-8),
    }
}

#[test]
fn geglu_takes_what_its_documents_allow() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, y, gelu) = (t(F32, &[2, 8]), t(F32, &[2, 4]), t(F32, &[2, 4]));
    geglu(&x, 1, 0, true, [&y, &gelu]).expect("documented");
    let refused = |status| fails(status, ACLNN_ERR_PARAM_INVALID);
    refused(geglu(&x, 2, 0, true, [&y, &gelu]));
    refused(geglu(&x, 1, 2, true, [&y, &gelu]));
    refused(geglu(&x, 1, 0, true, [&y, &t(F16, &[2, 4])]));
    refused(geglu(&t(F32, &[2, 7]), 1, 0, true, [&y, &gelu]));
    refused(geglu(&x, 1, 0, true, [&y, &t(F32, &[2, 8])]));
    let dx = t(F32, &[2, 8]);
    geglu_grad([&y, &x, &gelu], 1, 1, false, &dx).expect("documented");
    refused(geglu_grad([&y, &x, &x], 1, 1, false, &dx));
    refused(geglu_grad([&y, &x, &gelu], 1, 1, false, &y));
    refused(geglu_grad([&y, &x, &gelu], 1, -1, false, &dx));
}

#[test]
fn any_axis_is_halved() {
    let _session = Session::start();
    let values = noise(4 * 3, 1);
    let x = Tensor::floats(F32, &[4, 3], &values);
    let y = Tensor::empty(F32, &[2, 3]);
    swiglu(&x, 0, &y).expect("documented");
    let exact: Vec<f64> = values[..6]
        .iter()
        .zip(&values[6..])
        .map(|(a, b)| (f64::from(*a), f64::from(*b)))
        .map(|(a, b)| a / (1.0 + (-a).exp()) * b)
        .collect();
    y.assert_close("axis 0", &exact, 1e-6);
}

#[test]
fn what_the_documentation_does_not_allow_is_refused() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let transposed = || Tensor::strided(F32, &[2, 8], Some(&[1, 2]), 0, 16);
    let (x, y) = (t(F32, &[2, 8]), t(F32, &[2, 4]));
    fails(swiglu(&x, 2, &y), ACLNN_ERR_PARAM_INVALID);
    fails(swiglu(&x, -3, &y), ACLNN_ERR_PARAM_INVALID);
    fails(swiglu(&x, -1, &t(F16, &[2, 4])), ACLNN_ERR_PARAM_INVALID);
    fails(
        swiglu(&t(ACL_INT32, &[2, 8]), -1, &y),
        ACLNN_ERR_PARAM_INVALID,
    );
    fails(swiglu(&transposed(), -1, &y), ACLNN_ERR_PARAM_INVALID);
    fails(
        swiglu(&t(F32, &[2, 7]), -1, &y),
        ACLNN_ERR_INNER_TILING_ERROR,
    );
    fails(swiglu(&x, -1, &x), ACLNN_ERR_INNER_TILING_ERROR);
    fails(
        swiglu_grad(&y, &x, -1, &transposed()),
        ACLNN_ERR_PARAM_INVALID,
    );
    let empty = t(F32, &[0, 8]);
    fails(
        swiglu_grad(&t(F32, &[0, 4]), &empty, -1, &empty),
        ACLNN_ERR_PARAM_INVALID,
    );
    swiglu_grad(&y, &transposed(), -1, &x).expect("the gradient reads a view of x");
}
