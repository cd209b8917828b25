//! Tests of RMS norm and SwiGLU on the emulator against f64: numbers, views, empty tensors, and every limit.

use crate::common::maths::{self, F32_INSIDE, Random, assert_close, noise, tensor, values};
use crate::common::{Scenario, device};
use burn_cann::ops::ge_glu::{self, Approximation};
use burn_cann::ops::{Kind, rms_norm, swi_glu};
use burn_cann::{DType, Error, Layout, Tensor};

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
const EPSILON: f64 = 1e-6;

#[test]
fn rms_norm_in_every_type() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let combinations = [
            (DType::F32, DType::F32),
            (DType::F16, DType::F16),
            (DType::F16, DType::F32),
            (DType::BF16, DType::BF16),
            (DType::BF16, DType::F32),
        ];
        for (dtype, weight) in combinations {
            for (shape, width) in [(&[7][..], 7), (&[3, 65][..], 65), (&[2, 3, 4, 8][..], 32)] {
                let count = shape.iter().product();
                let (x, x64) = tensor(&stream, dtype, &noise(count, 1), shape);
                let gamma_shape = if width == 32 { vec![4, 8] } else { vec![width] };
                let (gamma, gamma64) = tensor(&stream, weight, &noise(width, 2), &gamma_shape);
                let found = rms_norm::rms_norm(&stream, &x, &gamma, EPSILON).unwrap();
                let (y, rstd) = maths::rms_norm(&x64, &gamma64, EPSILON);
                assert_close(&values(&stream, &found.y), &y, dtype, F32_INSIDE);
                assert_close(&values(&stream, &found.rstd), &rstd, DType::F32, F32_INSIDE);
                let mut reduced = shape.to_vec();
                let kept = shape.len() - gamma_shape.len();
                reduced[kept..].fill(1);
                assert_eq!(found.rstd.shape(), reduced);
                assert_eq!(found.y.dtype(), dtype);
            }
        }
    });
}

#[test]
fn rms_norm_s_gradients_in_every_type() {
    Scenario::new().run(|cann| {
        let (device, stream) = device(cann);
        device.set_deterministic(true).unwrap();
        for dtype in FLOATS {
            for weight in [dtype, DType::F32] {
                let (x, x64) = tensor(&stream, dtype, &noise(9 * 40, 3), &[3, 3, 40]);
                let (dy, dy64) = tensor(&stream, dtype, &noise(9 * 40, 4), &[3, 3, 40]);
                let (gamma, gamma64) = tensor(&stream, weight, &noise(40, 5), &[40]);
                let rstd = rms_norm::rms_norm(&stream, &x, &gamma, EPSILON)
                    .unwrap()
                    .rstd;
                let found = rms_norm::rms_norm_grad(&stream, &dy, &x, &rstd, &gamma).unwrap();
                let (dx, dgamma) = maths::rms_norm_grad(&dy64, &x64, &gamma64, EPSILON);
                assert_close(&values(&stream, &found.dx), &dx, dtype, F32_INSIDE);
                assert_close(
                    &values(&stream, &found.dgamma),
                    &dgamma,
                    DType::F32,
                    F32_INSIDE,
                );
                assert_eq!(found.dgamma.dtype(), DType::F32);
            }
        }
    });
}

#[test]
fn add_rms_norm_rounds_as_910b_does() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in FLOATS {
            let (x1, a) = tensor(&stream, dtype, &noise(5 * 48, 6), &[5, 48]);
            let (x2, b) = tensor(&stream, dtype, &noise(5 * 48, 7), &[5, 48]);
            let (gamma, gamma64) = tensor(&stream, dtype, &noise(48, 8), &[48]);
            let found = rms_norm::add_rms_norm(&stream, &x1, &x2, &gamma, EPSILON).unwrap();
            let sum: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
            assert_close(&values(&stream, &found.x), &sum, dtype, F32_INSIDE);
            // The norm uses the rounded sum, and x · rstd is rounded once more before the weight.
            let rounded = values(&stream, &found.x);
            let (y, rstd) = maths::rms_norm(&rounded, &gamma64, EPSILON);
            let twice = F32_INSIDE + maths::epsilon(dtype) / 2.0;
            assert_close(&values(&stream, &found.y), &y, dtype, twice);
            assert_close(&values(&stream, &found.rstd), &rstd, DType::F32, F32_INSIDE);
        }
    });
}

#[test]
fn swi_glu_and_its_gradient_in_every_type() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in FLOATS {
            // Along the first dimension, the halves are those of the whole tensor.
            for (shape, dim, half) in [
                (&[3, 34][..], 1, 17),
                (&[6, 5][..], 0, 15),
                (&[8][..], 0, 4),
            ] {
                let count: usize = shape.iter().product();
                let wide: Vec<f64> = noise(count, 9).iter().map(|x| x * 6.0).collect();
                let (x, x64) = tensor(&stream, dtype, &wide, shape);
                let y = swi_glu::swi_glu(&stream, &x, dim).unwrap();
                assert_close(
                    &values(&stream, &y),
                    &maths::swi_glu(&x64, half),
                    dtype,
                    F32_INSIDE,
                );
                let (dy, dy64) = tensor(&stream, dtype, &noise(count / 2, 10), y.shape());
                let dx = swi_glu::swi_glu_grad(&stream, &dy, &x, dim).unwrap();
                let expected = maths::swi_glu_grad(&dy64, &x64, half);
                assert_close(&values(&stream, &dx), &expected, dtype, F32_INSIDE);
            }
        }
    });
}

#[test]
fn ge_glu_and_its_gradient_in_every_type() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in FLOATS {
            for (shape, dim, half) in [(&[3, 34][..], 1, 17), (&[6, 5][..], 0, 15)] {
                let count: usize = shape.iter().product();
                let wide: Vec<f64> = noise(count, 9).iter().map(|x| x * 4.0).collect();
                let (x, x64) = tensor(&stream, dtype, &wide, shape);
                for approximation in [Approximation::None, Approximation::Tanh] {
                    let tanh = approximation == Approximation::Tanh;
                    let found = ge_glu::ge_glu(&stream, &x, dim, approximation).unwrap();
                    let [y, gelu] = maths::ge_glu(&x64, half, tanh);
                    assert_close(&values(&stream, &found.y), &y, dtype, F32_INSIDE);
                    assert_close(&values(&stream, &found.gelu), &gelu, dtype, F32_INSIDE);
                    let (dy, dy64) = tensor(&stream, dtype, &noise(count / 2, 10), found.y.shape());
                    let dx = ge_glu::ge_glu_grad(&stream, &dy, &x, &found.gelu, dim, approximation);
                    // The activated half is rounded, and for f16 a product is, too.
                    let twice = F32_INSIDE + maths::epsilon(dtype);
                    let expected = maths::ge_glu_grad(&dy64, &x64, half, tanh);
                    assert_close(&values(&stream, &dx.unwrap()), &expected, dtype, twice);
                }
            }
        }
        let (none, _) = tensor(&stream, DType::F32, &[], &[0, 8]);
        let found = ge_glu::ge_glu(&stream, &none, 1, Approximation::None).unwrap();
        assert_eq!(found.y.shape(), [0, 4]);
    });
}

#[test]
fn views_of_any_strides_are_read_where_they_lie() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let (storage, storage64) = tensor(&stream, DType::F32, &noise(4000, 11), &[4000]);
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let width = 2 * (1 + random.below(10));
            let shape = [1 + random.below(4), 1 + random.below(4), width];
            let strides = [random.below(200), random.below(100), 1 + random.below(6)];
            let layout = Layout::strided(shape, strides, random.below(1000)).unwrap();
            let (x, x64) = (
                storage.with_layout(layout.clone()).unwrap(),
                maths::view(&storage64, &layout),
            );
            let step = 1 + random.below(3);
            let weight = Layout::strided([width], [step], random.below(100)).unwrap();
            let gamma64 = maths::view(&storage64, &weight);
            let gamma = storage.with_layout(weight).unwrap();
            let found = rms_norm::rms_norm(&stream, &x, &gamma, EPSILON).unwrap();
            let (y, _) = maths::rms_norm(&x64, &gamma64, EPSILON);
            assert_close(&values(&stream, &found.y), &y, DType::F32, F32_INSIDE);

            let (dy, dy64) = tensor(
                &stream,
                DType::F32,
                &noise(x64.len() / 2, seed),
                &[shape[0], shape[1], width / 2],
            );
            let dx = swi_glu::swi_glu_grad(&stream, &dy, &x, 2).unwrap();
            let expected = maths::swi_glu_grad(&dy64, &x64, width / 2);
            assert_close(&values(&stream, &dx), &expected, DType::F32, F32_INSIDE);
        }
    });
}

#[test]
fn kept_executors_find_the_memory_of_each_call() {
    Scenario::new().run(|cann| {
        let (device, stream) = device(cann);
        let mut kept = Vec::new();
        for seed in 0..20 {
            let (x, x64) = tensor(&stream, DType::F32, &noise(128, seed), &[4, 32]);
            let (gamma, gamma64) = tensor(&stream, DType::F32, &noise(32, seed + 100), &[32]);
            let y = rms_norm::rms_norm(&stream, &x, &gamma, EPSILON).unwrap().y;
            kept.push((x, gamma, y, maths::rms_norm(&x64, &gamma64, EPSILON).0));
        }
        for (_, _, y, expected) in &kept {
            assert_close(&values(&stream, y), expected, DType::F32, F32_INSIDE);
        }
        let figures = device.executor_statistics();
        assert_eq!((figures.kept, figures.hits, figures.misses), (1, 19, 1));
        // Another epsilon, shape or dtype needs another plan.
        let (x, gamma, ..) = &kept[0];
        rms_norm::rms_norm(&stream, x, gamma, 1e-5).unwrap();
        rms_norm::rms_norm(&stream, &x.slice(0, 0..3).unwrap(), gamma, EPSILON).unwrap();
        assert_eq!(device.executor_statistics().kept, 3);
        device.keep_executors(2);
        assert_eq!(device.executor_statistics().kept, 2);
        device.keep_executors(0);
        rms_norm::rms_norm(&stream, x, gamma, EPSILON).unwrap();
        assert_eq!(device.executor_statistics().kept, 0);
    });
}

#[test]
fn without_repeatable_executors_every_call_is_planned() {
    Scenario::new()
        .hide("aclSetAclOpExecutorRepeatable")
        .run(|cann| {
            let (device, stream) = device(cann);
            let (x, x64) = tensor(&stream, DType::F32, &noise(128, 1), &[4, 32]);
            for _ in 0..3 {
                let y = swi_glu::swi_glu(&stream, &x, 1).unwrap();
                assert_close(
                    &values(&stream, &y),
                    &maths::swi_glu(&x64, 16),
                    DType::F32,
                    F32_INSIDE,
                );
            }
            assert_eq!(device.executor_statistics().kept, 0);
        });
}

#[test]
fn a_plan_that_is_not_run_is_dropped() {
    Scenario::new().run(|cann| {
        let (device, stream) = device(cann);
        let (x, _) = tensor(&stream, DType::F32, &noise(64, 1), &[2, 32]);
        let prepared = swi_glu::prepare(&stream, &x, 1).unwrap();
        assert!(prepared.workspace() > 0);
        drop((prepared, x));
        stream.synchronise().unwrap();
        assert_eq!(device.statistics().in_use, 0);
    });
}

#[test]
fn nothing_makes_nothing() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let (none, _) = tensor(&stream, DType::F16, &[], &[0, 8]);
        let (gamma, _) = tensor(&stream, DType::F16, &noise(8, 1), &[8]);
        let found = rms_norm::rms_norm(&stream, &none, &gamma, EPSILON).unwrap();
        assert_eq!(
            (found.y.shape(), found.rstd.shape()),
            (&[0, 8][..], &[0, 1][..])
        );
        let sum = rms_norm::add_rms_norm(&stream, &none, &none, &gamma, EPSILON).unwrap();
        assert_eq!(sum.x.shape(), [0, 8]);
        assert_eq!(swi_glu::swi_glu(&stream, &none, 1).unwrap().shape(), [0, 4]);
        let refused = swi_glu::swi_glu_grad(&stream, &none.reshape([0, 4]).unwrap(), &none, 1);
        assert_eq!(refused.unwrap_err().to_string(), "x has no elements");
    });
}

#[test]
fn a_refusal_is_an_error_and_calls_nothing() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let (x, _) = tensor(&stream, DType::F32, &noise(64, 1), &[2, 32]);
        let refused = swi_glu::swi_glu(&stream, &x.transpose(0, 1).unwrap(), 1).unwrap_err();
        let Error::Refused(refusal) = &refused else {
            panic!("{refused}")
        };
        assert_eq!(refusal.kind(), Kind::Layout);
        assert_eq!(refused.to_string(), "x is not contiguous: copy it first");
    });
}

#[test]
fn bf16_is_refused_where_there_is_none() {
    Scenario::new()
        .set("CANN_EMULATOR_SOC", "Ascend310P3")
        .run(|cann| {
            let (device, stream) = device(cann);
            let x = Tensor::empty(&stream, DType::BF16, [2, 32]).unwrap();
            let refused = swi_glu::swi_glu(&stream, &x, 1).unwrap_err();
            assert!(refused.to_string().contains("Ascend310P3"), "{refused}");
            assert!(!device.platform().soc.has_bf16());
        });
}
