//! Tests of the norm of a sum that overwrites its operands, against f64.

use crate::common::*;
use cann_emulator::abi::norm::*;

fn add_rms_norm([x1, x2, gamma, rstd]: [&Tensor; 4]) -> Status {
    call!(aclnnInplaceAddRmsNorm: x1, x2, gamma, 1e-6, rstd)
}

#[test]
fn the_norm_and_the_sum_overwrite_the_operands() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let x1 = Tensor::floats(dtype, &[2, 8], &noise(16, 1));
        let x2 = Tensor::floats(dtype, &[2, 8], &noise(16, 2));
        let gamma = Tensor::floats(dtype, &[8], &noise(8, 3));
        let rstd = Tensor::empty(F32, &[2, 1]);
        let sums: Vec<f64> = exact(&x1)
            .iter()
            .zip(exact(&x2))
            .map(|(a, b)| a + b)
            .collect();
        add_rms_norm([&x1, &x2, &gamma, &rstd]).expect("documented");
        x2.assert_close("sum", &sums, 1e-7);
        // The norm is that of the rounded sum.
        let (sums, weights) = (exact(&x2), exact(&gamma));
        let rstds: Vec<f64> = sums
            .chunks(8)
            .map(|row| {
                (row.iter().map(|x| x * x).sum::<f64>() / 8.0 + 1e-6)
                    .sqrt()
                    .recip()
            })
            .collect();
        rstd.assert_close("rstd", &rstds, 1e-6);
        let norms: Vec<f64> = (0..16)
            .map(|at| sums[at] * rstds[at / 8] * weights[at % 8])
            .collect();
        // Half types round between the factors.
        let inside = if dtype == F32 { 1e-6 } else { 1e-2 };
        x1.assert_close("norm", &norms, inside);
    }
}

#[test]
fn it_takes_contiguous_tensors_of_one_dtype() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, gamma, rstd) = (t(F32, &[2, 4]), t(F32, &[4]), t(F32, &[2, 1]));
    let turned = Tensor::strided(F32, &[2, 4], Some(&[1, 2]), 0, 8);
    each! { refused:
        add_rms_norm([&turned, &x, &gamma, &rstd]), "x1Ref must be contiguous";
        add_rms_norm([&x, &t(F16, &[2, 4]), &gamma, &rstd]), "x2Ref is f16";
        add_rms_norm([&x, &t(F32, &[4, 2]), &gamma, &rstd]), "x2Ref has the shape";
        add_rms_norm([&x, &x, &t(F16, &[4]), &rstd]), "gamma is f16";
        add_rms_norm([&x, &x, &gamma, &t(F32, &[2])]), "rstdOut has the shape";
        add_rms_norm([&x, &x, &gamma, &t(F16, &[2, 1])]), "rstdOut is f16";
    }
    let none = t(F32, &[0, 4]);
    each! { refused: add_rms_norm([&none, &none, &gamma, &t(F32, &[0, 1])]), "has no elements" }
}

#[test]
fn shapes_of_sums_are_wrong_arguments() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, gamma, rstd) = (t(F32, &[2, 4]), t(F32, &[4]), t(F32, &[2, 1]));
    let y = t(F32, &[2, 4]);
    let norm = |[x1, x2, gamma, y, rstd, x]: [&Tensor; 6]| {
        call!(
            aclnnAddRmsNorm: x1, x2, gamma, 1e-6, y, rstd, x
        )
    };
    norm([&x, &x, &gamma, &y, &rstd, &x]).expect("documented");
    let (short, flat) = (t(F32, &[3]), t(F32, &[2]));
    each! { refused:
        norm([&x, &x, &short, &y, &rstd, &x]), "the shape of gamma";
        norm([&x, &gamma, &gamma, &y, &rstd, &x]), "x2 has the shape";
        norm([&x, &x, &gamma, &gamma, &rstd, &x]), "y has the shape";
        norm([&x, &x, &gamma, &y, &flat, &x]), "rstd has the shape";
        norm([&x, &x, &gamma, &y, &rstd, &gamma]), "x has the shape";
        add_rms_norm([&x, &x, &short, &rstd]), "the shape of gamma";
    }
}
