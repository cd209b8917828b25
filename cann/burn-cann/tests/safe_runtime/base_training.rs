//! Tests of random numbers by their moments, and of AdamW, layer norm and the losses of classes against f64.

use crate::common::maths::{assert_equal, noise, tensor, values};
use crate::common::{Scenario, device, platform, spec};
use burn_cann::ops::adam::{self, AdamW, State};
use burn_cann::ops::cross_entropy::{self, Reduction, Settings};
use burn_cann::ops::random::{self, Distribution, Seed};
use burn_cann::ops::{Kind, elementwise, layer_norm, rms_norm};
use burn_cann::{DType, Spec, Stream, Tensor};

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

fn drawn(stream: &Stream, dtype: DType, of: Distribution, seed: u64, offset: u64) -> Vec<f64> {
    let target = Tensor::empty(stream, dtype, [100, 200]).unwrap();
    random::fill(stream, &target, of, Seed { seed, offset }).unwrap();
    values(stream, &target)
}

fn moments(numbers: &[f64]) -> (f64, f64) {
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    (
        mean,
        (numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt(),
    )
}

#[test]
fn random_numbers_have_their_moments() {
    Scenario::new().run(|cann| {
        let (device, stream) = device(cann);
        let near = |found: f64, expected: f64, by: f64| {
            assert!(
                (found - expected).abs() < by,
                "{found}, expected {expected}"
            );
        };
        for dtype in FLOATS {
            let uniform = drawn(
                &stream,
                dtype,
                Distribution::Uniform {
                    low: -1.0,
                    high: 3.0,
                },
                1,
                0,
            );
            assert!(uniform.iter().all(|x| (-1.0..3.0).contains(x)));
            let (mean, deviation) = moments(&uniform);
            near(mean, 1.0, 0.04);
            near(deviation, 4.0 / 12f64.sqrt(), 0.03);
            let normal = Distribution::Normal {
                mean: 2.0,
                deviation: 0.5,
            };
            let (mean, deviation) = moments(&drawn(&stream, dtype, normal, 2, 0));
            near(mean, 2.0, 0.02);
            near(deviation, 0.5, 0.02);
        }
        for dtype in [DType::Bool, DType::F32, DType::I64, DType::U8] {
            let drawn = drawn(
                &stream,
                dtype,
                Distribution::Bernoulli { probability: 0.3 },
                3,
                0,
            );
            assert!(drawn.iter().all(|x| *x == 0.0 || *x == 1.0));
            near(moments(&drawn).0, 0.3, 0.02);
        }
        for dtype in [DType::I64, DType::I32, DType::U8] {
            let drawn = drawn(
                &stream,
                dtype,
                Distribution::Whole { low: 3, high: 7 },
                4,
                0,
            );
            for number in 3..7 {
                let share = drawn.iter().filter(|x| **x == f64::from(number)).count();
                near(share as f64 / drawn.len() as f64, 0.25, 0.02);
            }
        }
        // The same seed and offset yield the same numbers, and others yield others.
        let of = Distribution::Uniform {
            low: 0.0,
            high: 1.0,
        };
        let first = drawn(&stream, DType::F32, of, 5, 6);
        assert_eq!(first, drawn(&stream, DType::F32, of, 5, 6));
        assert_ne!(first, drawn(&stream, DType::F32, of, 5, 7));
        assert_ne!(first, drawn(&stream, DType::F32, of, 6, 6));
        // Calls with seeds displace no executor.
        assert_eq!(device.executor_statistics().kept, 0);
    });
}

/// The learning rate of a schedule differs at every step, so none of these plans comes again. The plans of a layer do.
#[test]
fn a_schedule_of_learning_rates_displaces_no_executor() {
    Scenario::new().run(|cann| {
        let (device, stream) = device(cann);
        device.keep_executors(2);
        let filled = |value: f64| tensor(&stream, DType::F32, &[value; 6], &[2, 3]).0;
        let (parameter, first, second) = (filled(0.5), filled(0.0), filled(0.0));
        let (largest, gradient, gamma) = (filled(0.0), filled(0.1), filled(1.0));
        let gamma = gamma.slice(0, 0..1).unwrap().reshape([3]).unwrap();
        let (steps, _) = tensor(&stream, DType::F32, &[3.0], &[1]);
        let state = State {
            parameter: &parameter,
            first: &first,
            second: &second,
            largest: Some(&largest),
        };
        for step in 0..3000 {
            let rate = 1e-3 / f64::from(1 + step);
            let settings = AdamW {
                learning_rate: rate as f32,
                beta1: 0.9,
                beta2: 0.95,
                weight_decay: 0.1,
                epsilon: 1e-8,
            };
            adam::adam_w(&stream, state, &gradient, &steps, settings).unwrap();
            for factor in [rate, 1.0 - rate] {
                elementwise::mul_scalar(&stream, &gradient, factor).unwrap();
            }
            let before = device.executor_statistics();
            rms_norm::rms_norm(&stream, &parameter, &gamma, 1e-6).unwrap();
            let after = device.executor_statistics();
            assert!(after.kept <= 2, "{after:?}");
            // The plans of the first steps fill the cache; from then on only calls that came before are kept.
            let found = after.hits - before.hits;
            assert!(step < 3 || found == 1, "step {step}: {after:?}");
        }
        assert!(device.executor_statistics().hits < 3010);
    });
}

#[test]
fn steps_of_adam_w() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let settings = AdamW {
            learning_rate: 0.01,
            beta1: 0.9,
            beta2: 0.95,
            weight_decay: 0.1,
            epsilon: 1e-8,
        };
        for amsgrad in [false, true] {
            let (parameter, mut theta) = tensor(&stream, DType::F32, &noise(30, 1), &[5, 6]);
            let zeros = || tensor(&stream, DType::F32, &[0.0; 30], &[5, 6]).0;
            let (first, second, largest) = (zeros(), zeros(), zeros());
            let (mut m, mut v, mut most) = (vec![0.0; 30], vec![0.0; 30], vec![0.0f64; 30]);
            for step in 0..4 {
                let (gradient, g) = tensor(&stream, DType::F32, &noise(30, 10 + step), &[5, 6]);
                let of = [DType::I64, DType::F32][step as usize % 2];
                let (steps, _) = tensor(&stream, of, &[step as f64], &[1]);
                let state = State {
                    parameter: &parameter,
                    first: &first,
                    second: &second,
                    largest: amsgrad.then_some(&largest),
                };
                adam::adam_w(&stream, state, &gradient, &steps, settings).unwrap();
                let time = step as i32 + 1;
                for at in 0..30 {
                    m[at] = 0.9 * m[at] + 0.1 * g[at];
                    v[at] = 0.95 * v[at] + 0.05 * g[at] * g[at];
                    most[at] = most[at].max(v[at]);
                    let used = if amsgrad { most[at] } else { v[at] };
                    let m_hat = m[at] / (1.0 - 0.9f64.powi(time));
                    let v_hat = used / (1.0 - 0.95f64.powi(time));
                    theta[at] -= 0.01 * (0.1 * theta[at] + m_hat / (v_hat.sqrt() + 1e-8));
                }
            }
            assert_equal(&values(&stream, &parameter), &theta, DType::F32, 2e-6);
            assert_equal(&values(&stream, &first), &m, DType::F32, 1e-6);
            assert_equal(&values(&stream, &second), &v, DType::F32, 1e-6);
        }
    });
}

#[test]
fn layer_norm_and_its_gradients() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let (rows, width) = (6, 40);
        for dtype in FLOATS {
            for of in [dtype, DType::F32] {
                let (x, x64) = tensor(&stream, dtype, &noise(rows * width, 1), &[2, 3, width]);
                let (dy, dy64) = tensor(&stream, dtype, &noise(rows * width, 2), &[2, 3, width]);
                let (weight, w64) = tensor(&stream, of, &noise(width, 3), &[width]);
                let (bias, b64) = tensor(&stream, of, &noise(width, 4), &[width]);
                for parameters in [false, true] {
                    let (w, b) = (parameters.then_some(&weight), parameters.then_some(&bias));
                    let found = layer_norm::layer_norm(&stream, &x, w, b, 1e-5).unwrap();
                    let weight_at = |at: usize| if parameters { w64[at] } else { 1.0 };
                    let mut y = Vec::new();
                    for row in x64.chunks(width) {
                        let (mean, deviation) = moments(row);
                        let rstd = 1.0 / (deviation * deviation + 1e-5).sqrt();
                        y.extend(row.iter().enumerate().map(|(at, x)| {
                            (x - mean) * rstd * weight_at(at)
                                + if parameters { b64[at] } else { 0.0 }
                        }));
                    }
                    assert_equal(&values(&stream, &found.y), &y, dtype, 1e-6);
                    for statistic in [&found.mean, &found.rstd] {
                        assert_eq!(statistic.shape(), [2, 3, 1]);
                        assert_eq!(statistic.dtype(), DType::F32);
                    }
                    let (means, rstds) =
                        (values(&stream, &found.mean), values(&stream, &found.rstd));
                    let gradients = layer_norm::layer_norm_backward(
                        &stream,
                        &dy,
                        &x,
                        &found.mean,
                        &found.rstd,
                        w,
                    )
                    .unwrap();
                    let normal = |at: usize| (x64[at] - means[at / width]) * rstds[at / width];
                    let scaled = |at: usize| dy64[at] * weight_at(at % width);
                    let (mut dx, mut dweight, mut dbias) =
                        (Vec::new(), vec![0.0; width], vec![0.0; width]);
                    for (row, rstd) in rstds.iter().enumerate() {
                        let places = row * width..(row + 1) * width;
                        let mean = places.clone().map(scaled).sum::<f64>() / width as f64;
                        let along = places
                            .clone()
                            .map(|at| scaled(at) * normal(at))
                            .sum::<f64>()
                            / width as f64;
                        for at in places {
                            dx.push((scaled(at) - mean - normal(at) * along) * rstd);
                            dweight[at % width] += dy64[at] * normal(at);
                            dbias[at % width] += dy64[at];
                        }
                    }
                    assert_equal(&values(&stream, &gradients.dx), &dx, dtype, 2e-6);
                    let of = if parameters { of } else { dtype };
                    assert_eq!(gradients.dweight.dtype(), of);
                    assert_equal(&values(&stream, &gradients.dweight), &dweight, of, 1e-6);
                    assert_equal(&values(&stream, &gradients.dbias), &dbias, of, 1e-6);
                }
            }
        }
    });
}

#[test]
fn cross_entropies_of_logits() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let chosen = [(0, 2), (2, 4), (3, 0)];
        let (targets, _) = tensor(&stream, DType::I64, &[2.0, -7.0, 4.0, 0.0], &[4]);
        let (weights, w64) = tensor(&stream, DType::F32, &[1.0, 2.0, 0.5, 1.0, 3.0], &[5]);
        let total: f64 = chosen.iter().map(|(_, class)| w64[*class]).sum();
        for dtype in FLOATS {
            let (x, x64) = tensor(&stream, dtype, &noise(20, 1), &[4, 5]);
            let logs: Vec<f64> = x64
                .chunks(5)
                .flat_map(|row| {
                    let lse = row.iter().map(|x| x.exp()).sum::<f64>().ln();
                    row.iter().map(move |x| x - lse).collect::<Vec<_>>()
                })
                .collect();
            for (reduction, divisor) in [
                (Reduction::None, 1.0),
                (Reduction::Sum, 1.0),
                (Reduction::Mean, total),
            ] {
                for smoothing in [0.0, 0.5] {
                    let mut each = vec![0.0; 4];
                    for (row, class) in chosen {
                        let row_of = &logs[row * 5..][..5];
                        let all: f64 = row_of.iter().zip(&w64).map(|(log, w)| -w * log).sum();
                        let own = -w64[class] * row_of[class];
                        each[row] = ((1.0 - smoothing) * own + smoothing / 5.0 * all) / divisor;
                    }
                    let expected = match reduction {
                        Reduction::None => each,
                        _ => vec![each.iter().sum()],
                    };
                    let settings = Settings {
                        reduction,
                        ignored: -7,
                    };
                    let (logits, weights) = (&x, Some(&weights));
                    let found = cross_entropy::cross_entropy(
                        &stream, logits, &targets, weights, settings, smoothing,
                    );
                    let found = found.unwrap();
                    assert_equal(&values(&stream, &found.loss), &expected, dtype, 1e-6);
                    assert_equal(&values(&stream, &found.log_prob), &logs, dtype, 1e-6);
                    if smoothing != 0.0 {
                        continue;
                    }
                    let shape: &[usize] = match reduction {
                        Reduction::None => &[4],
                        _ => &[],
                    };
                    let (dloss, dloss64) = tensor(&stream, dtype, &noise(expected.len(), 2), shape);
                    // In a half type, the gradient is that of the rounded logarithms.
                    let logs = values(&stream, &found.log_prob);
                    let mut expected = vec![0.0; 20];
                    for (row, class) in chosen {
                        let dloss = match reduction {
                            Reduction::None => dloss64[row],
                            _ => dloss64[0],
                        };
                        for other in 0..5 {
                            let one = f64::from(u8::from(other == class));
                            expected[row * 5 + other] =
                                (logs[row * 5 + other].exp() - one) * dloss * w64[class] / divisor;
                        }
                    }
                    let dx = cross_entropy::cross_entropy_grad(
                        &stream,
                        &dloss,
                        &found.log_prob,
                        &targets,
                        weights,
                        settings,
                    );
                    assert_equal(&values(&stream, &dx.unwrap()), &expected, dtype, 1e-6);
                }
            }
        }
    });
}

#[test]
fn limits_are_refused() {
    let a2 = platform("Ascend910B1");
    let f32 = |shape: &[usize]| spec(DType::F32, shape);
    let drawn = |of: Distribution, dtype| of.check(&a2, &spec(dtype, &[2])).unwrap_err().kind();
    let (nan, uniform) = (f64::NAN, |low, high| Distribution::Uniform { low, high });
    assert_eq!(drawn(uniform(2.0, 1.0), DType::F32), Kind::Value);
    assert_eq!(drawn(uniform(nan, 1.0), DType::F32), Kind::Value);
    assert_eq!(drawn(uniform(0.0, 1.0), DType::I32), Kind::Dtype);
    let negative = Distribution::Normal {
        mean: 0.0,
        deviation: -1.0,
    };
    assert_eq!(drawn(negative, DType::F32), Kind::Value);
    assert_eq!(
        drawn(Distribution::Bernoulli { probability: 1.5 }, DType::F32),
        Kind::Value
    );
    assert_eq!(
        drawn(Distribution::Whole { low: 1, high: 1 }, DType::I32),
        Kind::Value
    );
    assert_eq!(
        drawn(Distribution::Whole { low: 0, high: 1 }, DType::Bool),
        Kind::Dtype
    );

    let x = f32(&[2, 3]);
    let step = |m: &Spec, g: &Spec, t: &Spec| adam::check(&a2, &x, &[m], g, t).unwrap_err().kind();
    assert_eq!(step(&f32(&[3]), &x, &f32(&[1])), Kind::Shape);
    assert_eq!(
        step(&x, &spec(DType::F16, &[2, 3]), &f32(&[1])),
        Kind::Dtype
    );
    assert_eq!(step(&x, &x, &f32(&[2])), Kind::Shape);
    assert_eq!(step(&x, &x, &spec(DType::I32, &[1])), Kind::Dtype);

    let norm = |x: &Spec, w: &Spec, b: &Spec, epsilon| {
        layer_norm::check(&a2, x, Some(w), Some(b), epsilon)
            .unwrap_err()
            .kind()
    };
    let w = f32(&[3]);
    assert_eq!(norm(&x, &f32(&[2]), &w, 1e-5), Kind::Shape);
    assert_eq!(norm(&x, &w, &w, -1.0), Kind::Value);
    assert_eq!(norm(&f32(&[0, 3]), &w, &w, 1e-5), Kind::Shape);
    assert_eq!(
        norm(
            &spec(DType::F16, &[2, 3]),
            &w,
            &spec(DType::F16, &[3]),
            1e-5
        ),
        Kind::Dtype
    );
    let wrong = layer_norm::check_backward(&a2, &x, &x, &f32(&[2]), &f32(&[2]), None);
    assert_eq!(wrong.unwrap_err().kind(), Kind::Shape);
}
