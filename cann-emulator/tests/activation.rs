//! Tests of SwiGLU, GEGLU and their gradients: against the goldens in f64, and their documented limits.

mod common;

use cann_emulator::abi::activation::*;
use cann_sys::meta::*;
use common::goldens::Goldens;
use common::{F16, F32, Session, Tensor, assert_close, noise, run};

type Status = Result<(), (i32, String)>;

fn swiglu(x: &Tensor, axis: i64, output: &Tensor) -> Status {
    run(
        // SAFETY: handles are checked, the places are variables.
        |size, executor| unsafe {
            aclnnSwiGluGetWorkspaceSize(x.handle, axis, output.handle, size, executor)
        },
        aclnnSwiGlu,
    )
}

fn swiglu_grad(dy: &Tensor, x: &Tensor, axis: i64, output: &Tensor) -> Status {
    run(
        // SAFETY: handles are checked, the places are variables.
        |size, executor| unsafe {
            aclnnSwiGluGradGetWorkspaceSize(
                dy.handle,
                x.handle,
                axis,
                output.handle,
                size,
                executor,
            )
        },
        aclnnSwiGluGrad,
    )
}

fn geglu(x: &Tensor, axis: i64, approximation: i64, gate_first: bool, out: [&Tensor; 2]) -> Status {
    let [output, gelu] = out.map(|tensor| tensor.handle);
    run(
        // SAFETY: handles are checked, the places are variables.
        |size, executor| unsafe {
            aclnnGeGluV3GetWorkspaceSize(
                x.handle,
                axis,
                approximation,
                gate_first,
                output,
                gelu,
                size,
                executor,
            )
        },
        aclnnGeGluV3,
    )
}

fn geglu_grad(
    [dy, x, gelu]: [&Tensor; 3],
    axis: i64,
    approximation: i64,
    gate_first: bool,
    output: &Tensor,
) -> Status {
    run(
        // SAFETY: handles are checked, the places are variables.
        |size, executor| unsafe {
            aclnnGeGluV3BackwardGetWorkspaceSize(
                dy.handle,
                x.handle,
                gelu.handle,
                axis,
                approximation,
                gate_first,
                output.handle,
                size,
                executor,
            )
        },
        aclnnGeGluV3Backward,
    )
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
        let name = |part: &str| format!("{case}.{part}");
        let (shape, dtype) = (goldens.shape(&name("a")), goldens.dtype(&name("a")));
        let width = *shape.last().expect("rows");
        let mut wide = shape.clone();
        *wide.last_mut().expect("rows") *= 2;
        let values = beside(
            &goldens.floats(&name("a")),
            &goldens.floats(&name("b")),
            width,
        );

        let (x, y) = (
            Tensor::floats(dtype, &wide, &values),
            Tensor::empty(dtype, &shape),
        );
        swiglu(&x, -1, &y).expect(&case);
        assert_close(
            &case,
            &y.read(),
            &goldens.exact(&name("ref.silu.y")),
            dtype,
            1e-6,
        );

        let dy = Tensor::floats(dtype, &shape, &goldens.floats(&name("dy")));
        let dx = Tensor::empty(dtype, &wide);
        swiglu_grad(&dy, &x, shape.len() as i64 - 1, &dx).expect(&case);
        let exact = beside(
            &goldens.exact(&name("ref.silu.da")),
            &goldens.exact(&name("ref.silu.db")),
            width,
        );
        assert_close(&case, &dx.read(), &exact, dtype, 1e-6);
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
                let what = format!("{case}, {function}, {gate_first}");
                let name = |part: &str| format!("{case}.{part}");
                let exact = |part: &str| goldens.exact(&name(&format!("ref.{function}.{part}")));
                let (shape, dtype) = (goldens.shape(&name("a")), goldens.dtype(&name("a")));
                let width = *shape.last().expect("rows");
                let mut wide = shape.clone();
                *wide.last_mut().expect("rows") *= 2;
                let in_order = |a: &[f32], b: &[f32]| match gate_first {
                    true => beside(a, b, width),
                    false => beside(b, a, width),
                };
                let values = in_order(&goldens.floats(&name("a")), &goldens.floats(&name("b")));
                let x = Tensor::floats(dtype, &wide, &values);
                let [y, gelu] = [(); 2].map(|()| Tensor::empty(dtype, &shape));
                geglu(&x, -1, approximation, gate_first, [&y, &gelu]).expect(&what);
                assert_close(&what, &y.read(), &exact("y"), dtype, 1e-6);

                let dy = Tensor::floats(dtype, &shape, &goldens.floats(&name("dy")));
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
                assert_close(&what, &dx.read(), &exact, dtype, twice);
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
    let code = |status: Status| status.expect_err("it must fail").0;
    let (x, y, gelu) = (t(F32, &[2, 8]), t(F32, &[2, 4]), t(F32, &[2, 4]));
    geglu(&x, 1, 0, true, [&y, &gelu]).expect("documented");
    let refused = |status| assert_eq!(code(status), ACLNN_ERR_PARAM_INVALID);
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
    let (x, y) = (
        Tensor::floats(F32, &[4, 3], &values),
        Tensor::empty(F32, &[2, 3]),
    );
    swiglu(&x, 0, &y).expect("documented");
    let exact: Vec<f64> = values[..6]
        .iter()
        .zip(&values[6..])
        .map(|(a, b)| (f64::from(*a), f64::from(*b)))
        .map(|(a, b)| a / (1.0 + (-a).exp()) * b)
        .collect();
    assert_close("axis 0", &y.read(), &exact, F32, 1e-6);
}

#[test]
fn what_the_documentation_does_not_allow_is_refused() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let transposed = || Tensor::strided(F32, &[2, 8], Some(&[1, 2]), 0, 16);
    let code = |status: Status| status.expect_err("it must fail").0;
    let (x, y) = (t(F32, &[2, 8]), t(F32, &[2, 4]));
    assert_eq!(code(swiglu(&x, 2, &y)), ACLNN_ERR_PARAM_INVALID);
    assert_eq!(code(swiglu(&x, -3, &y)), ACLNN_ERR_PARAM_INVALID);
    assert_eq!(
        code(swiglu(&x, -1, &t(F16, &[2, 4]))),
        ACLNN_ERR_PARAM_INVALID
    );
    assert_eq!(
        code(swiglu(&t(ACL_INT32, &[2, 8]), -1, &y)),
        ACLNN_ERR_PARAM_INVALID
    );
    assert_eq!(code(swiglu(&transposed(), -1, &y)), ACLNN_ERR_PARAM_INVALID);
    assert_eq!(
        code(swiglu(&t(F32, &[2, 7]), -1, &y)),
        ACLNN_ERR_INNER_TILING_ERROR
    );
    assert_eq!(code(swiglu(&x, -1, &x)), ACLNN_ERR_INNER_TILING_ERROR);
    assert_eq!(
        code(swiglu_grad(&y, &x, -1, &transposed())),
        ACLNN_ERR_PARAM_INVALID
    );
    let empty = t(F32, &[0, 8]);
    assert_eq!(
        code(swiglu_grad(&t(F32, &[0, 4]), &empty, -1, &empty)),
        ACLNN_ERR_PARAM_INVALID
    );
    swiglu_grad(&y, &transposed(), -1, &x).expect("the gradient reads a view of x");
}
