//! Tests of the layer norm with a mode, against f64.

use crate::common::*;
use cann_emulator::abi::layer_norm::*;

/// Runs the norm of the last axis. The tensors are input, weight, bias, output, mean and rstd.
fn layer_norm([x, weight, bias, y, mean, rstd]: [&Tensor; 6], mode: i32) -> Status {
    let width = Ints::new(&[8]);
    call!(aclnnLayerNormWithImplMode: x, width, weight, bias, 1e-5, y, mean, rstd, mode)
}

#[test]
fn every_mode_is_the_norm() {
    let _session = Session::start();
    for (dtype, parameters, modes) in [
        (F32, F32, &[0, 1][..]),
        (BF16, F32, &[0, 1]),
        (BF16, BF16, &[0, 1]),
        (F16, F32, &[0, 1]),
        (F16, F16, &[0, 1, 2]),
    ] {
        let x = Tensor::floats(dtype, &[3, 8], &noise(24, 1));
        let weight = Tensor::floats(parameters, &[8], &noise(8, 2));
        let bias = Tensor::floats(parameters, &[8], &noise(8, 3));
        let (w, b) = (exact(&weight), exact(&bias));
        let (mut ys, mut means, mut rstds) = (Vec::new(), Vec::new(), Vec::new());
        for row in exact(&x).chunks(8) {
            let mean = row.iter().sum::<f64>() / 8.0;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 8.0;
            let rstd = (variance + 1e-5).sqrt().recip();
            ys.extend((0..8).map(|at| (row[at] - mean) * rstd * w[at] + b[at]));
            means.push(mean);
            rstds.push(rstd);
        }
        for mode in modes {
            let y = Tensor::empty(dtype, &[3, 8]);
            let (mean, rstd) = (Tensor::empty(F32, &[3, 1]), Tensor::empty(F32, &[3, 1]));
            layer_norm([&x, &weight, &bias, &y, &mean, &rstd], *mode).expect("documented");
            y.assert_close("y", &ys, 1e-6);
            mean.assert_close("mean", &means, 1e-6);
            rstd.assert_close("rstd", &rstds, 1e-6);
        }
    }
}

#[test]
fn the_mode_of_f16_takes_nothing_else() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, half, single) = (t(F16, &[3, 8]), t(F16, &[8]), t(F32, &[8]));
    let rstd = t(F32, &[3, 1]);
    let call = |x: &Tensor, weight: &Tensor, bias: &Tensor, mode| {
        layer_norm([x, weight, bias, x, &rstd, &rstd], mode)
    };
    call(&x, &half, &half, 2).expect("all are f16");
    refused(call(&x, &single, &half, 2), "weightOptional is f32");
    refused(call(&x, &half, &single, 2), "biasOptional is f32");
    refused(call(&t(BF16, &[3, 8]), &half, &half, 2), "input is bf16");
    refused(call(&x, &half, &half, 3), "implMode is 3");
    refused(call(&x, &half, &half, -1), "implMode is -1");
    refused(call(&t(F16, &[3, 4]), &half, &half, 0), "normalizedShape");
}
