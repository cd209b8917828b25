//! Tests of the negative log likelihood with targets of every width, and of the mean squared error.

mod common;

use cann_emulator::abi::{mse_loss::*, training::*};
use cann_sys::meta::*;
use common::host::{exact, refused};
use common::{F16, F32, Session, Tensor, assert_close, noise, run};

#[test]
fn targets_may_be_of_32_bits() {
    let _session = Session::start();
    let logs = Tensor::floats(F32, &[2, 3], &[-0.5, -1.5, -2.0, -3.0, -0.25, -1.0]);
    let weight = Tensor::floats(F32, &[3], &[1.0, 2.0, 0.5]);
    let (out, total) = (Tensor::empty(F32, &[]), Tensor::empty(F32, &[]));
    let (dy, dx) = (
        Tensor::floats(F32, &[], &[3.0]),
        Tensor::empty(F32, &[2, 3]),
    );
    let (x, w, y, t) = (logs.handle, weight.handle, out.handle, total.handle);
    for dtype in [ACL_INT32, ACL_INT64] {
        let target = Tensor::integers(dtype, &[2], &[2, 1]);
        run(
            // SAFETY: handles are checked, the places are variables.
            |size, executor| unsafe {
                aclnnNLLLossGetWorkspaceSize(x, target.handle, w, 1, -100, y, t, size, executor)
            },
            aclnnNLLLoss,
        )
        .expect("documented");
        assert_eq!((out.read(), total.read()), (vec![0.6], vec![2.5]));
        run(
            // SAFETY: as above.
            |size, executor| unsafe {
                let (dy, dx, target) = (dy.handle, dx.handle, target.handle);
                aclnnNLLLossBackwardGetWorkspaceSize(
                    dy, x, target, w, 1, -100, t, dx, size, executor,
                )
            },
            aclnnNLLLossBackward,
        )
        .expect("documented");
        assert_eq!(dx.read(), [0.0, 0.0, -0.6, 0.0, -2.4, 0.0]);
    }
    let target = Tensor::empty(ACL_INT16, &[2]);
    let status = run(
        // SAFETY: as above.
        |size, executor| unsafe {
            aclnnNLLLossGetWorkspaceSize(x, target.handle, w, 1, -100, y, t, size, executor)
        },
        aclnnNLLLoss,
    );
    refused(status, "target is i16");
}

#[test]
fn squared_errors_are_kept_averaged_or_summed() {
    let _session = Session::start();
    let x = Tensor::floats(F16, &[2, 3], &noise(6, 1));
    let target = Tensor::floats(F32, &[3], &noise(3, 2));
    let (xs, targets) = (exact(&x), exact(&target));
    let squares: Vec<f64> = (0..6)
        .map(|at| (xs[at] - targets[at % 3]).powi(2))
        .collect();
    let total: f64 = squares.iter().sum();
    let loss = |reduction, y: &Tensor| {
        run(
            // SAFETY: handles are checked, the places are variables.
            |size, executor| unsafe {
                let (x, target) = (x.handle, target.handle);
                aclnnMseLossGetWorkspaceSize(x, target, reduction, y.handle, size, executor)
            },
            aclnnMseLoss,
        )
    };
    for (reduction, axes, expected) in [
        (0, &[2, 3][..], squares),
        (1, &[], vec![total / 6.0]),
        (2, &[], vec![total]),
        (2, &[1], vec![total]),
    ] {
        let y = Tensor::empty(F32, axes);
        loss(reduction, &y).expect("documented");
        assert_close("loss", &y.read(), &expected, F32, 1e-6);
    }
    refused(loss(3, &Tensor::empty(F32, &[])), "reduction is 3");
    refused(loss(0, &Tensor::empty(F32, &[2])), "out has the shape");
    refused(loss(1, &Tensor::empty(F32, &[2])), "out has the shape");
    refused(loss(1, &Tensor::empty(ACL_INT32, &[])), "out is i32");
}
