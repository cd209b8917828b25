//! Tests of RMS norm, its gradient and AddRmsNorm: against the goldens in f64, and their documented limits.

use crate::common::goldens::{Case, Goldens};
use crate::common::*;
use cann_emulator::abi::norm::*;

fn rms_norm(x: &Tensor, gamma: &Tensor, epsilon: f64, y: &Tensor, rstd: &Tensor) -> Status {
    call!(aclnnRmsNorm: x, gamma, epsilon, y, rstd)
}

fn gemma_rms_norm([x, gamma, y, rstd]: [&Tensor; 4], epsilon: f64) -> Status {
    call!(aclnnGemmaRmsNorm: x, gamma, epsilon, y, rstd)
}

fn rms_norm_grad([dy, x, rstd, gamma, dx, dgamma]: [&Tensor; 6]) -> Status {
    call!(aclnnRmsNormGrad: dy, x, rstd, gamma, dx, dgamma)
}

/// Returns the goldens' epsilon, which is 1e-5 only where rstd shows it.
fn epsilon(case: &Case<'_>, x: &[f32], width: usize) -> f64 {
    let rstd = case.exact("ref.rstd");
    let mean = x[..width]
        .iter()
        .map(|x| f64::from(*x).powi(2))
        .sum::<f64>()
        / width as f64;
    let error = |epsilon: f64| (1.0 / (mean + epsilon).sqrt() / rstd[0] - 1.0).abs();
    if error(1e-5) < error(1e-6) {
        1e-5
    } else {
        1e-6
    }
}

#[test]
fn forward_and_gradient_are_those_of_the_goldens_rounded_once() {
    let _session = Session::start();
    let goldens = Goldens::open("rmsnorm");
    for case in goldens.cases("ref.rstd") {
        let (shape, dtype) = (case.shape("x"), case.dtype("x"));
        let width = *shape.last().expect("rows");
        let values = case.floats("x");
        let epsilon = epsilon(&case, &values, width);
        let mut rstd_shape = shape.clone();
        *rstd_shape.last_mut().expect("rows") = 1;

        let x = Tensor::floats(dtype, &shape, &values);
        let gamma = Tensor::floats(dtype, &[width], &case.floats("w"));
        let y = Tensor::empty(dtype, &shape);
        let rstd = Tensor::empty(F32, &rstd_shape);
        rms_norm(&x, &gamma, epsilon, &y, &rstd).expect(&case);
        y.assert_close(&case, &case.exact("ref.weight.y"), 1e-6);
        rstd.assert_close(&case, &case.exact("ref.rstd"), 1e-6);

        let dy = case.tensor("dy");
        let (dx, dgamma) = (Tensor::empty(dtype, &shape), Tensor::empty(F32, &[width]));
        rms_norm_grad([&dy, &x, &rstd, &gamma, &dx, &dgamma]).expect(&case);
        dx.assert_close(&case, &case.exact("ref.weight.dx"), 2e-6);
        dgamma.assert_close(&case, &case.exact("ref.weight.dw"), 2e-6);
    }
}

#[test]
fn gemma_s_norm_weighs_with_one_more() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[3, 1, 40], &noise(120, 1));
        let gamma = Tensor::floats(dtype, &[40], &noise(40, 2));
        let y = Tensor::empty(dtype, &[3, 1, 40]);
        let rstd = Tensor::empty(F32, &[3, 1, 1]);
        gemma_rms_norm([&x, &gamma, &y, &rstd], 1e-5).expect("documented");
        let (values, weights) = (x.read(), gamma.read());
        let (mut exact, mut scales) = (Vec::new(), Vec::new());
        for row in values.chunks(40) {
            let mean = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / 40.0;
            let scale = 1.0 / (mean + 1e-5).sqrt();
            scales.push(scale);
            let pairs = row.iter().zip(&weights);
            exact.extend(pairs.map(|(x, w)| f64::from(*x) * scale * (1.0 + f64::from(*w))));
        }
        y.assert_close("y", &exact, 1e-6);
        rstd.assert_close("rstd", &scales, 1e-6);
    }
}

#[test]
fn gemma_s_norm_takes_one_dtype_and_empty_weights() {
    let _session = Session::start();
    let t = Tensor::empty;
    let rstd = t(F32, &[2, 1]);
    let x = t(F16, &[2, 8]);
    let norm = |operands: [&Tensor; 4], code| fails(gemma_rms_norm(operands, 1e-6), code);
    each! { norm:
        [&x, &t(F32, &[8]), &x, &rstd], ACLNN_ERR_PARAM_INVALID;
        [&x, &t(F16, &[8]), &t(F32, &[2, 8]), &rstd], ACLNN_ERR_PARAM_INVALID;
        [&x, &t(F16, &[8]), &x, &t(F16, &[2, 1])], ACLNN_ERR_PARAM_INVALID;
        [&x, &t(F16, &[4]), &x, &rstd], ACLNN_ERR_INNER_TILING_ERROR;
        [&x, &t(F16, &[8]), &x, &t(F32, &[2])], ACLNN_ERR_INNER_TILING_ERROR;
    }
    let none = t(F16, &[2, 0]);
    gemma_rms_norm([&none, &t(F16, &[0]), &none, &rstd], 1e-6).expect("nothing to do");
}

#[test]
fn several_axes_are_normalised_and_views_are_read_in_place() {
    let _session = Session::start();
    let values = noise(2 * 3 * 4 * 8, 1);
    let weights = noise(32, 2);
    // gamma has two dimensions, and x is transposed in memory: [2, 3, 4, 8] is stored as [3, 2, 4, 8].
    let stored: Vec<f32> = (0..3)
        .flat_map(|j| (0..2).flat_map(move |i| (i * 3 + j) * 32..(i * 3 + j + 1) * 32))
        .map(|index: usize| values[index])
        .collect();
    let x = Tensor::strided(F32, &[2, 3, 4, 8], Some(&[32, 64, 8, 1]), 0, 192);
    x.fill(&stored);
    let gamma = Tensor::floats(F32, &[4, 8], &weights);
    let y = Tensor::empty(F32, &[2, 3, 4, 8]);
    let rstd = Tensor::empty(F32, &[2, 3, 1, 1]);
    rms_norm(&x, &gamma, 1e-6, &y, &rstd).expect("documented");
    let exact: Vec<f64> = values
        .chunks(32)
        .flat_map(|row| {
            let mean = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / 32.0;
            let rstd = 1.0 / (mean + 1e-6).sqrt();
            row.iter()
                .zip(&weights)
                .map(move |(x, w)| f64::from(*x) * rstd * f64::from(*w))
        })
        .collect();
    y.assert_close("y", &exact, 1e-6);
}

#[test]
fn dtypes_and_shapes_outside_the_documentation_are_refused() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let rstd = t(F32, &[2, 1]);
    let x = t(F16, &[2, 8]);
    let norm =
        |[x, gamma, y, rstd]: [&Tensor; 4], code| fails(rms_norm(x, gamma, 1e-6, y, rstd), code);
    each! { norm:
        [&x, &t(BF16, &[8]), &t(F16, &[2, 8]), &rstd], ACLNN_ERR_PARAM_INVALID;
        [&x, &t(F16, &[8]), &t(F32, &[2, 8]), &rstd], ACLNN_ERR_PARAM_INVALID;
        [&x, &t(F16, &[8]), &t(F16, &[2, 8]), &t(F16, &[2, 1])], ACLNN_ERR_PARAM_INVALID;
        [&t(F32, &[2, 8]), &t(F16, &[8]), &t(F32, &[2, 8]), &rstd], ACLNN_ERR_PARAM_INVALID;
        [&x, &t(F16, &[4]), &t(F16, &[2, 8]), &rstd], ACLNN_ERR_INNER_TILING_ERROR;
        [&x, &t(F16, &[8]), &t(F16, &[2, 8]), &t(F32, &[2])], ACLNN_ERR_INNER_TILING_ERROR;
        [&t(F16, &[2, 0]), &t(F16, &[0]), &t(F16, &[2, 0]), &rstd], ACLNN_ERR_PARAM_INVALID;
    }
    rms_norm(&x, &t(F32, &[8]), 1e-6, &t(F16, &[2, 8]), &rstd).expect("f32 weights of f16");
    rms_norm(
        &t(F32, &[0, 8]),
        &t(F32, &[8]),
        1e-6,
        &t(F32, &[0, 8]),
        &t(F32, &[0, 1]),
    )
    .expect("no rows");
}

#[test]
fn without_rows_the_gradient_of_gamma_is_nan() {
    let _session = Session::start();
    let none = || Tensor::empty(F32, &[0, 4]);
    let rstd = Tensor::empty(F32, &[0, 1]);
    let gamma = Tensor::floats(F32, &[4], &[1.0; 4]);
    let dgamma = Tensor::floats(F32, &[4], &[0.0; 4]);
    rms_norm_grad([&none(), &none(), &rstd, &gamma, &none(), &dgamma]).expect("documented");
    assert!(dgamma.read().iter().all(|value| value.is_nan()));
}

#[test]
fn bf16_needs_a_chip_that_has_it() {
    let _session = Session::on("Ascend310P3");
    let x = Tensor::empty(BF16, &[2, 8]);
    let status = rms_norm(
        &x,
        &Tensor::empty(BF16, &[8]),
        1e-6,
        &x,
        &Tensor::empty(F32, &[2, 1]),
    );
    refused(status, "which Ascend310P3 does not have");
}

fn add_rms_norm(dtype: aclDataType, x1: &[f32], x2: &[f32], gamma: &[f32]) -> [Vec<f32>; 3] {
    let shape = [1, x1.len()];
    let [x1, x2] = [x1, x2].map(|values| Tensor::floats(dtype, &shape, values));
    let gamma = Tensor::floats(dtype, &[shape[1]], gamma);
    let (y, x) = (Tensor::empty(dtype, &shape), Tensor::empty(dtype, &shape));
    let rstd = Tensor::empty(F32, &[1, 1]);
    call!(aclnnAddRmsNorm: x1, x2, gamma, 1e-6, y, rstd, x).expect("documented");
    [y.read(), rstd.read(), x.read()]
}

/// The sum is rounded, and x·rstd is rounded before the weight. On Ascend950 only the results are rounded.
#[test]
fn add_rms_norm_rounds_as_the_chip_does() {
    let (x1, x2, gamma) = (noise(64, 3), noise(64, 4), noise(64, 5));
    let bf16 = |value: f32| half::bf16::from_f32(value).to_f32();
    let exact = |twice: bool| -> (Vec<f64>, Vec<f32>) {
        let round = |value: f32| if twice { bf16(value) } else { value };
        let x: Vec<f32> = x1
            .iter()
            .zip(&x2)
            .map(|(a, b)| round(bf16(*a) + bf16(*b)))
            .collect();
        let mean = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / 64.0;
        let rstd = 1.0 / (mean + 1e-6).sqrt();
        let y = x.iter().zip(&gamma).map(|(x, gamma)| {
            f64::from(round((f64::from(*x) * rstd) as f32)) * f64::from(bf16(*gamma))
        });
        (y.collect(), x.into_iter().map(bf16).collect())
    };
    let mut results = Vec::new();
    for (soc, twice) in [("Ascend910B1", true), ("Ascend950", false)] {
        let _session = Session::on(soc);
        let [y, _, x] = add_rms_norm(BF16, &x1, &x2, &gamma);
        let (exact_y, exact_x) = exact(twice);
        assert_close(soc, &y, &exact_y, BF16, 1e-6);
        assert_eq!(x, exact_x, "{soc}");
        results.push(y);
    }
    assert_ne!(results[0], results[1], "the roundings must be told apart");
}

#[test]
fn the_gradient_takes_rstd_in_any_shape_of_a_value_a_row() {
    let _session = Session::start();
    let shape = [2, 1, 16];
    let x = Tensor::floats(F32, &shape, &noise(32, 1));
    let dy = Tensor::floats(F32, &shape, &noise(32, 2));
    let gamma = Tensor::floats(F32, &[16], &noise(16, 3));
    let mut results = Vec::new();
    for of_rstd in [&[2, 1, 1][..], &[2, 1], &[2]] {
        let rstd = Tensor::floats(F32, of_rstd, &[1.0, 2.0]);
        let (dx, dgamma) = (Tensor::empty(F32, &shape), Tensor::empty(F32, &[16]));
        rms_norm_grad([&dy, &x, &rstd, &gamma, &dx, &dgamma]).expect("published");
        results.push((dx.read(), dgamma.read()));
    }
    assert!(results.iter().all(|result| *result == results[0]));
    let (rstd, dgamma) = (Tensor::empty(F32, &[3]), Tensor::empty(F32, &[16]));
    let status = rms_norm_grad([&dy, &x, &rstd, &gamma, &x, &dgamma]);
    fails(status, ACLNN_ERR_INNER_TILING_ERROR);
}

#[test]
fn add_rms_norm_without_rstd_is_refused_and_says_what_to_give() {
    let _session = Session::start();
    let (x, gamma) = (Tensor::empty(F16, &[2, 8]), Tensor::empty(F16, &[8]));
    let rstd = Tensor::empty(F32, &[2, 1]);
    for (rstd, sum) in [(None, Some(&x)), (Some(&rstd), None)] {
        let status = call!(aclnnAddRmsNorm: x, x, gamma, 1e-6, x, rstd, sum);
        failed(status, ACLNN_ERR_PARAM_NULLPTR, "give both");
    }
}
