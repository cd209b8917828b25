//! Tests of the group norm and its gradient, against f64.

use crate::common::*;
use cann_emulator::abi::group_norm::*;

/// N, C, HxW and the groups.
type Sizes = [i64; 4];

const SIZES: Sizes = [2, 6, 5, 3];

fn forward(
    x: &Tensor,
    [gamma, beta]: [Option<&Tensor>; 2],
    sizes: Sizes,
    [y, mean, rstd]: [&Tensor; 3],
) -> Status {
    let [n, c, hw, groups] = sizes;
    call!(aclnnGroupNorm: x, gamma, beta, n, c, hw, groups, 1e-5, y, mean, rstd)
}

/// The inputs are the gradient of the output, the input, the mean and rstd.
fn backward(
    [dy, x, mean, rstd]: [&Tensor; 4],
    gamma: Option<&Tensor>,
    sizes: Sizes,
    outputs: [Option<&Tensor>; 3],
) -> Status {
    let wanted = outputs.map(|output| output.is_some());
    let [dx, dgamma, dbeta] = outputs;
    let [n, c, hw, groups] = sizes;
    // SAFETY: the array is valid.
    let mask = unsafe { aclCreateBoolArray(wanted.as_ptr(), 3) };
    let status = call!(
        aclnnGroupNormBackward: dy, x, mean, rstd, gamma, n, c, hw, groups, mask, dx,
        dgamma, dbeta
    );
    // SAFETY: it was created.
    unsafe { aclDestroyBoolArray(mask) };
    status
}

/// Returns the normalised values, means and rstds of rows of ten: a group has two channels of five places.
fn normal(x: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (mut normal, mut means, mut rstds) = (Vec::new(), Vec::new(), Vec::new());
    for row in x.chunks(10) {
        let mean = row.iter().sum::<f64>() / 10.0;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 10.0;
        let rstd = 1.0 / (variance + 1e-5).sqrt();
        normal.extend(row.iter().map(|x| (x - mean) * rstd));
        means.push(mean);
        rstds.push(rstd);
    }
    (normal, means, rstds)
}

#[test]
fn groups_are_normalised() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[2, 6, 5], &noise(60, 1));
        let gamma = Tensor::floats(dtype, &[6], &noise(6, 2));
        let beta = Tensor::floats(dtype, &[6], &noise(6, 3));
        let (normal, means, rstds) = normal(&exact(&x));
        let (scale, shift) = (exact(&gamma), exact(&beta));
        for parameters in [[Some(&gamma), Some(&beta)], [None, Some(&beta)], [None; 2]] {
            let y = Tensor::empty(dtype, &[2, 6, 5]);
            let statistics = [(); 2].map(|()| Tensor::empty(dtype, &[2, 3]));
            let outputs = [&y, &statistics[0], &statistics[1]];
            forward(&x, parameters, SIZES, outputs).expect("documented");
            let expected: Vec<f64> = (0..60)
                .map(|at| {
                    let channel = at / 5 % 6;
                    normal[at] * parameters[0].map_or(1.0, |_| scale[channel])
                        + parameters[1].map_or(0.0, |_| shift[channel])
                })
                .collect();
            y.assert_close("y", &expected, 2e-6);
            statistics[0].assert_close("mean", &means, 2e-6);
            statistics[1].assert_close("rstd", &rstds, 2e-6);
        }
    }
    // Groups without elements have no mean.
    let x = Tensor::empty(F32, &[1, 2, 0]);
    let y = Tensor::empty(F32, &[1, 2, 0]);
    let statistics = [(); 2].map(|()| Tensor::empty(F32, &[1, 2]));
    forward(
        &x,
        [None; 2],
        [1, 2, 0, 2],
        [&y, &statistics[0], &statistics[1]],
    )
    .expect("documented");
    assert!(statistics[0].read()[0].is_nan());
}

#[test]
fn gradients_are_those_of_the_formula() {
    let _session = Session::start();
    for scaled in [true, false] {
        let x = Tensor::floats(F32, &[2, 6, 5], &noise(60, 1));
        let dy = Tensor::floats(F32, &[2, 6, 5], &noise(60, 4));
        let gamma = Tensor::floats(F32, &[6], &noise(6, 2));
        let (normal, means, rstds) = normal(&exact(&x));
        let narrow = |values: &[f64]| values.iter().map(|x| *x as f32).collect::<Vec<f32>>();
        let mean = Tensor::floats(F32, &[2, 3], &narrow(&means));
        let rstd = Tensor::floats(F32, &[2, 3], &narrow(&rstds));
        let (dys, scale) = (exact(&dy), exact(&gamma));
        let channel = |at: usize| at / 5 % 6;
        let factor = |at: usize| if scaled { scale[channel(at)] } else { 1.0 };
        let of_row = |row: usize, value: &dyn Fn(usize) -> f64| {
            (row * 10..row * 10 + 10).map(value).sum::<f64>() / 10.0
        };
        let expected: Vec<f64> = (0..60)
            .map(|at| {
                let row = at / 10;
                let mean = of_row(row, &|at| dys[at] * factor(at));
                let along = of_row(row, &|at| dys[at] * factor(at) * normal[at]);
                rstds[row] * (dys[at] * factor(at) - mean - normal[at] * along)
            })
            .collect();
        let of_channel = |value: &dyn Fn(usize) -> f64| -> Vec<f64> {
            let sum = |own| (0..60).filter(|at| channel(*at) == own).map(value).sum();
            (0..6).map(sum).collect()
        };
        let dx = Tensor::empty(F32, &[2, 6, 5]);
        let [dgamma, dbeta] = [(); 2].map(|()| Tensor::empty(F32, &[6]));
        let inputs = [&dy, &x, &mean, &rstd];
        let outputs = [Some(&dx), Some(&dgamma), Some(&dbeta)];
        backward(inputs, scaled.then_some(&gamma), SIZES, outputs).expect("documented");
        dx.assert_close("dx", &expected, 5e-6);
        let expected = of_channel(&|at| dys[at] * normal[at]);
        dgamma.assert_close("dgamma", &expected, 5e-6);
        dbeta.assert_close("dbeta", &of_channel(&|at| dys[at]), 5e-6);
        // Only what is wanted is needed.
        let dbeta = Tensor::empty(F32, &[6]);
        backward(inputs, None, SIZES, [None, None, Some(&dbeta)]).expect("documented");
        dbeta.assert_close("dbeta", &of_channel(&|at| dys[at]), 5e-6);
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let _session = Session::start();
    let new = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let x = new(F32, &[2, 6, 5]);
    let y = new(F32, &[2, 6, 5]);
    let s = new(F32, &[2, 3]);
    let call = |sizes| forward(&x, [None; 2], sizes, [&y, &s, &s]);
    refused(call([2, 6, 5, 4]), "group divides C");
    refused(call([2, 6, 5, 0]), "group divides C");
    refused(call([2, 6, 5, -3]), "group divides C");
    refused(call([2, 6, 4, 3]), "self has the shape");
    refused(call([i64::MAX, 6, i64::MAX, 3]), "self has the shape");
    refused(call([-2, -6, 5, 3]), "not negative");
    let short = new(F32, &[5]);
    each! { refused: forward(&x, [Some(&short), None], SIZES, [&y, &s, &s]), "gamma has the shape" }
    let half = new(F16, &[6]);
    each! { refused:
        forward(&x, [None, Some(&half)], SIZES, [&y, &s, &s]), "beta is f16";
        forward(&x, [None; 2], SIZES, [&y, &short, &s]), "meanOut has the shape";
        forward(&x, [None; 2], SIZES, [&s, &s, &s]), "out has the shape";
    }
    let inputs = [&x, &x, &s, &s];
    each! { refused:
        backward(inputs, None, SIZES, [Some(&s), None, None]), "gradInput has the shape";
        backward(inputs, None, SIZES, [None, Some(&short), None]), "gradGammaOut";
        backward([&x, &x, &short, &s], None, SIZES, [None; 3]), "mean has the shape";
    }
    let (wide, one) = (new(F32, &[1, 8001, 1]), new(F32, &[1, 1]));
    let inputs = [&wide, &wide, &one, &one];
    each! { refused: backward(inputs, None, [1, 8001, 1, 1], [None; 3]), "8001 channels" }
}
