//! Tests of the negative log likelihood with targets of every width, and of the mean squared error.

use crate::common::*;
use cann_emulator::abi::{mse_loss::*, training::*};

#[test]
fn targets_may_be_of_32_bits() {
    let _session = Session::start();
    let logs = Tensor::floats(F32, &[2, 3], &[-0.5, -1.5, -2.0, -3.0, -0.25, -1.0]);
    let weight = Tensor::floats(F32, &[3], &[1.0, 2.0, 0.5]);
    let (out, total) = (Tensor::empty(F32, &[]), Tensor::empty(F32, &[]));
    let dy = Tensor::floats(F32, &[], &[3.0]);
    let dx = Tensor::empty(F32, &[2, 3]);
    let (x, w, y, t) = (logs.handle, weight.handle, out.handle, total.handle);
    for dtype in [ACL_INT32, ACL_INT64] {
        let target = Tensor::integers(dtype, &[2], &[2, 1]);
        call!(aclnnNLLLoss: x, target, w, 1, -100, y, t).expect("documented");
        assert_eq!((out.read(), total.read()), (vec![0.6], vec![2.5]));
        call!(aclnnNLLLossBackward: dy, x, target, w, 1, -100, t, dx).expect("documented");
        assert_eq!(dx.read(), [0.0, 0.0, -0.6, 0.0, -2.4, 0.0]);
    }
    let target = Tensor::empty(ACL_INT16, &[2]);
    refused(
        call!(aclnnNLLLoss: x, target, w, 1, -100, y, t),
        "target is i16",
    );
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
    let loss = |reduction, y: &Tensor| call!(aclnnMseLoss: x, target, reduction, y);
    for (reduction, axes, expected) in [
        (0, &[2, 3][..], squares),
        (1, &[], vec![total / 6.0]),
        (2, &[], vec![total]),
        (2, &[1], vec![total]),
    ] {
        let y = Tensor::empty(F32, axes);
        loss(reduction, &y).expect("documented");
        y.assert_close("loss", &expected, 1e-6);
    }
    refused(loss(3, &Tensor::empty(F32, &[])), "reduction is 3");
    refused(loss(0, &Tensor::empty(F32, &[2])), "out has the shape");
    refused(loss(1, &Tensor::empty(F32, &[2])), "out has the shape");
    refused(loss(1, &Tensor::empty(ACL_INT32, &[])), "out is i32");
}
