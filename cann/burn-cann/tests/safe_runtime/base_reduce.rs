//! Tests of reductions and softmax against f64: dtypes, dimensions, views, empty tensors and limits.

use crate::common::maths::{INTEGERS, REALS, assert_equal, is_exact, noise, tensor, values, view};
use crate::common::{Scenario, device, platform, spec};
use burn_cann::ops::reduce::{self, Along, Reduction};
use burn_cann::ops::{Kind, softmax};
use burn_cann::{DType, Spec, Tensor};

/// Returns values of a [2, 3, 4] tensor of a dtype.
fn data(dtype: DType) -> Vec<f64> {
    let noise = noise(24, 7);
    match dtype {
        DType::Bool => noise.iter().map(|x| f64::from(*x > 0.3)).collect(),
        DType::U8 => noise.iter().map(|x| (x * 2.0).round() + 3.0).collect(),
        _ if is_exact(dtype) => noise.iter().map(|x| (x * 3.0).round()).collect(),
        _ => noise.iter().map(|x| x * 2.0).collect(),
    }
}

/// Returns the groups of elements of `x64`, of shape [2, 3, 4], that are each reduced to one over `dims`.
fn runs(x64: &[f64], dims: &[usize]) -> Vec<Vec<f64>> {
    let shape = [2, 3, 4];
    let mut runs: std::collections::BTreeMap<Vec<usize>, Vec<f64>> = Default::default();
    for (place, value) in x64.iter().enumerate() {
        let index = [place / 12, place / 4 % 3, place % 4];
        let left = (0..shape.len()).filter(|dim| !dims.contains(dim) && !dims.is_empty());
        runs.entry(left.map(|dim| index[dim]).collect())
            .or_default()
            .push(*value);
    }
    runs.into_values().collect()
}

/// Returns a tensor, and the same elements as a view of other memory.
fn both(stream: &burn_cann::Stream, dtype: DType) -> [(Tensor, Vec<f64>); 2] {
    let (plain, plain64) = tensor(stream, dtype, &data(dtype), &[2, 3, 4]);
    let turned = plain.permute(&[2, 0, 1]).unwrap();
    let memory = view(&plain64, turned.layout());
    let (other, _) = tensor(stream, dtype, &memory, &[4, 2, 3]);
    [
        (plain, plain64.clone()),
        (other.permute(&[1, 2, 0]).unwrap(), plain64),
    ]
}

const DIMS: [&[usize]; 6] = [&[], &[0], &[1], &[2], &[0, 2], &[2, 1]];

fn wrap(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::U8 => f64::from(value as i64 as u8),
        DType::I8 => f64::from(value as i64 as i8),
        _ => value,
    }
}

#[test]
fn reductions_over_dimensions() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let greatest = |run: &[f64]| run.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = |run: &[f64]| run.iter().copied().fold(f64::INFINITY, f64::min);
        for dtype in [&REALS[..], &INTEGERS, &[DType::Bool]].concat() {
            for (x, x64) in both(&stream, dtype) {
                for dims in DIMS {
                    let check = |found: &Tensor, expected: &dyn Fn(&[f64]) -> f64| {
                        let expected: Vec<f64> = runs(&x64, dims)
                            .iter()
                            .map(|run| wrap(expected(run), found.dtype()))
                            .collect();
                        assert_equal(&values(&stream, found), &expected, found.dtype(), 1e-6);
                    };
                    for keep in [false, true] {
                        if dtype != DType::Bool {
                            let found = reduce::sum(&stream, &x, dims, keep).unwrap();
                            let rank = if keep {
                                3
                            } else {
                                3 - if dims.is_empty() { 3 } else { dims.len() }
                            };
                            assert_eq!(found.shape().len(), rank);
                            check(&found, &|run| run.iter().sum());
                        }
                        check(&reduce::amax(&stream, &x, dims, keep).unwrap(), &greatest);
                        check(&reduce::amin(&stream, &x, dims, keep).unwrap(), &least);
                        let any = |run: &[f64]| f64::from(run.iter().any(|x| *x != 0.0));
                        check(&reduce::any(&stream, &x, dims, keep).unwrap(), &any);
                        let all = |run: &[f64]| f64::from(run.iter().all(|x| *x != 0.0));
                        check(&reduce::all(&stream, &x, dims, keep).unwrap(), &all);
                    }
                    if REALS.contains(&dtype) {
                        let mean = |run: &[f64]| run.iter().sum::<f64>() / run.len() as f64;
                        check(&reduce::mean(&stream, &x, dims, false).unwrap(), &mean);
                    }
                }
            }
        }
    });
}

#[test]
fn reductions_along_one_dimension() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in [&REALS[..], &INTEGERS].concat() {
            for (x, x64) in both(&stream, dtype) {
                for dim in 0..3 {
                    let all = runs(&x64, &[dim]);
                    let of = |reduce: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
                        all.iter().map(|run| reduce(run)).collect()
                    };
                    let first = |run: &[f64], best: f64| {
                        run.iter().position(|x| *x == best).expect("there") as f64
                    };
                    let most = |run: &[f64]| run.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let least = |run: &[f64]| run.iter().copied().fold(f64::INFINITY, f64::min);
                    let found = reduce::arg_max(&stream, &x, dim, false).unwrap();
                    assert_eq!(values(&stream, &found), of(&|run| first(run, most(run))));
                    let found = reduce::arg_min(&stream, &x, dim, true).unwrap();
                    assert_eq!(values(&stream, &found), of(&|run| first(run, least(run))));
                    assert_eq!(found.dtype(), DType::I64);
                    let (found, places) = reduce::max_dim(&stream, &x, dim, false).unwrap();
                    assert_eq!(values(&stream, &found), of(&most));
                    assert_eq!(values(&stream, &places), of(&|run| first(run, most(run))));
                    let (found, places) = reduce::min_dim(&stream, &x, dim, true).unwrap();
                    assert_eq!(values(&stream, &found), of(&least));
                    assert_eq!(values(&stream, &places), of(&|run| first(run, least(run))));
                    let found = reduce::prod_dim(&stream, &x, dim, false).unwrap();
                    let expected: Vec<f64> = of(&|run| run.iter().product())
                        .iter()
                        .map(|x| wrap(*x, dtype))
                        .collect();
                    assert_equal(&values(&stream, &found), &expected, dtype, 1e-6);
                    type Step = fn(f64, f64) -> f64;
                    let (add, multiply): (Step, Step) = (|a, b| a + b, |a, b| a * b);
                    for (found, from, step) in [
                        (reduce::cumsum(&stream, &x, dim), 0.0, add),
                        (reduce::cumprod(&stream, &x, dim), 1.0, multiply),
                    ] {
                        let shown = values(&stream, &found.unwrap());
                        for (run, expected) in runs(&shown, &[dim]).iter().zip(&all) {
                            let mut running = from;
                            let expected: Vec<f64> = expected
                                .iter()
                                .map(|x| {
                                    running = step(running, *x);
                                    wrap(running, dtype)
                                })
                                .collect();
                            assert_equal(run, &expected, dtype, 1e-6);
                        }
                    }
                }
            }
        }
        let (x, _) = tensor(&stream, DType::F32, &[1.0, f64::NAN, 3.0, f64::NAN], &[4]);
        let (most, place) = reduce::max_dim(&stream, &x, 0, false).unwrap();
        assert!(values(&stream, &most)[0].is_nan());
        assert_eq!(values(&stream, &place), [1.0]);
        assert!(values(&stream, &reduce::amin(&stream, &x, &[], false).unwrap())[0].is_nan());
        let (x, _) = tensor(&stream, DType::F32, &[2.0, 3.0, 4.0], &[3]);
        assert_eq!(values(&stream, &reduce::prod(&stream, &x).unwrap()), [24.0]);
    });
}

#[test]
fn sums_of_nothing() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let x = Tensor::empty(&stream, DType::F32, [2, 0]).unwrap();
        let found = |y: burn_cann::Result<Tensor>| values(&stream, &y.unwrap());
        assert_eq!(found(reduce::sum(&stream, &x, &[1], false)), [0.0; 2]);
        assert_eq!(found(reduce::prod_dim(&stream, &x, 1, false)), [1.0; 2]);
        assert!(found(reduce::mean(&stream, &x, &[1], false))[0].is_nan());
        assert_eq!(found(reduce::any(&stream, &x, &[], false)), [0.0]);
        assert_eq!(found(reduce::all(&stream, &x, &[], false)), [1.0]);
        assert!(found(reduce::amax(&stream, &x, &[0], false)).is_empty());
        assert!(reduce::amax(&stream, &x, &[1], false).is_err());
    });
}

#[test]
fn softmax_and_its_gradients() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in REALS {
            for (x, x64) in both(&stream, dtype) {
                for dim in 0..3 {
                    let compare = |found: &Tensor, expected: &dyn Fn(usize, &[f64]) -> Vec<f64>| {
                        let found = values(&stream, found);
                        let all = runs(&x64, &[dim]);
                        for (place, run) in runs(&found, &[dim]).iter().enumerate() {
                            // The f32 results are differences of numbers that may be larger than they.
                            assert_equal(run, &expected(place, &all[place]), dtype, 1e-5);
                        }
                    };
                    let soft = |x: &[f64]| -> Vec<f64> {
                        let sum: f64 = x.iter().map(|x| x.exp()).sum();
                        x.iter().map(|x| x.exp() / sum).collect()
                    };
                    let y = softmax::softmax(&stream, &x, dim).unwrap();
                    compare(&y, &|_, x| soft(x));
                    let log = softmax::log_softmax(&stream, &x, dim).unwrap();
                    compare(&log, &|_, x| soft(x).iter().map(|y| y.ln()).collect());
                    let (dy, dy64) = tensor(&stream, dtype, &noise(24, 9), &[2, 3, 4]);
                    let dy64 = runs(&dy64, &[dim]);
                    let (y64, log64) = (values(&stream, &y), values(&stream, &log));
                    let (y64, log64) = (runs(&y64, &[dim]), runs(&log64, &[dim]));
                    let dx = softmax::softmax_backward(&stream, &dy, &y, dim).unwrap();
                    compare(&dx, &|place, _| {
                        let (dy, y) = (&dy64[place], &y64[place]);
                        let sum: f64 = dy.iter().zip(y).map(|(dy, y)| dy * y).sum();
                        dy.iter().zip(y).map(|(dy, y)| (dy - sum) * y).collect()
                    });
                    let dx = softmax::log_softmax_backward(&stream, &dy, &log, dim).unwrap();
                    compare(&dx, &|place, _| {
                        let (dy, y) = (&dy64[place], &log64[place]);
                        let sum: f64 = dy.iter().sum();
                        dy.iter().zip(y).map(|(dy, y)| dy - y.exp() * sum).collect()
                    });
                }
            }
        }
        // Masked elements act as absent ones, and large values do no harm.
        let masked = [f64::NEG_INFINITY, 1000.0, 1000.0];
        let (x, _) = tensor(&stream, DType::F32, &masked, &[1, 3]);
        let y = softmax::softmax(&stream, &x, 1).unwrap();
        assert_eq!(values(&stream, &y), [0.0, 0.5, 0.5]);
    });
}

#[test]
fn limits_are_refused() {
    let (a2, old) = (platform("Ascend910B1"), platform("Ascend910A"));
    let x = spec(DType::F32, &[2, 3]);
    let over = |x: &Spec, reduction: Reduction, dims: &[usize]| {
        reduction.check(&a2, x, dims, false).unwrap_err().kind()
    };
    assert_eq!(
        Reduction::Sum
            .check(&old, &x, &[], true)
            .unwrap_err()
            .kind(),
        Kind::Platform
    );
    assert_eq!(over(&x, Reduction::Sum, &[2]), Kind::Value);
    assert_eq!(over(&x, Reduction::Sum, &[1, 1]), Kind::Value);
    assert_eq!(
        over(&spec(DType::I32, &[2]), Reduction::Mean, &[]),
        Kind::Dtype
    );
    assert_eq!(
        over(&spec(DType::U32, &[2]), Reduction::Amax, &[]),
        Kind::Dtype
    );
    let nothing = spec(DType::F32, &[2, 0]);
    assert_eq!(over(&nothing, Reduction::Amin, &[1]), Kind::Shape);
    for along in [Along::Max, Along::Min, Along::ArgMax, Along::ArgMin] {
        assert_eq!(
            along.check(&a2, &nothing, 1, false).unwrap_err().kind(),
            Kind::Shape
        );
        assert_eq!(
            along.check(&a2, &x, 2, false).unwrap_err().kind(),
            Kind::Value
        );
    }
    let soft = |x: &Spec, dim| softmax::check(&a2, x, dim).unwrap_err().kind();
    assert_eq!(soft(&x, 2), Kind::Value);
    assert_eq!(soft(&spec(DType::I64, &[2]), 0), Kind::Dtype);
    let other = spec(DType::F32, &[3, 2]);
    assert_eq!(
        softmax::check_backward(&a2, &other, &x, 0)
            .unwrap_err()
            .kind(),
        Kind::Shape
    );
    assert_eq!(
        reduce::check_cumsum(&a2, &x, 5).unwrap_err().kind(),
        Kind::Value
    );
}
