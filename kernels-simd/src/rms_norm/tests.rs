use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SETTINGS: Settings = Settings {
    eps: 1e-6,
    group_size: None,
    offset: 1.0,
    rounding: Rounding::Llama,
    gating: Gating::None,
};

fn numbers(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| (i * 37 % 23) as f32 / 7.0 - 1.5)
        .collect()
}

fn plain<'a>(x: &View<'a>, weight: &View<'a>) -> Operands<'a> {
    Operands {
        x: x.clone(),
        weight: Some(weight.clone()),
        gate: None,
        bias: None,
        settings: SETTINGS,
    }
}

fn backward_of<'a>(operands: Operands<'a>, rstd: &View<'a>) -> Backward<'a> {
    Backward {
        dy: operands.x.clone(),
        operands,
        rstd: rstd.clone(),
        before: None,
        wants_weight: true,
        wants_bias: false,
    }
}

fn f32s(values: Values) -> Vec<f32> {
    match values {
        Values::F32(values) => values,
        other => panic!("not in f32: {other:?}"),
    }
}

fn refused<R>(call: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

/// Each group of a row is a row of its own, with its part of the weight.
#[test]
fn groups_are_rows() {
    let (data, weight) = (numbers(4 * 6), numbers(6));
    let [x, weight] = [View::whole(&data, &[4, 6]), View::whole(&weight, &[6])];
    let mut operands = plain(&x, &weight);
    operands.settings.group_size = Some(3);
    let found = forward(&operands, None);
    let (y, rstd) = (f32s(found.y), f32s(found.rstd.clone()));
    assert_eq!(rstd.len(), 8);
    for (row, y) in y.chunks(3).enumerate() {
        let x = &data[row * 3..][..3];
        let mean = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / 3.0;
        let of_row = 1.0 / (mean + SETTINGS.eps).sqrt();
        assert!((f64::from(rstd[row]) - of_row).abs() < 1e-6);
        for (i, (y, x)) in y.iter().zip(x).enumerate() {
            let gain = 1.0 + f64::from(weight.contiguous::<f32>()[row % 2 * 3 + i]);
            assert!((f64::from(*y) - f64::from(*x) * of_row * gain).abs() < 1e-5);
        }
    }
    let rstd = View::whole(&rstd, &[4, 2]);
    let found = backward(&backward_of(operands, &rstd));
    assert_eq!((found.x.len(), found.weight.unwrap().len()), (24, 6));
}

/// A bias is added to each element of the axis, also in groups and without a weight, and its gradient is the sum of the rows of
/// `dy`.
#[test]
fn a_bias_is_added() {
    let (rows, n) = if cfg!(miri) { (3, 6) } else { (500, 96) };
    let (data, weights) = (numbers(rows * n), numbers(2 * n));
    let x = View::whole(&data, &[rows, n]);
    let (weight, bias) = weights.split_at(n);
    let [weight, bias_view] = [weight, bias].map(|part| View::whole(part, &[n]));
    for (group_size, weight) in [
        (None, Some(&weight)),
        (None, None),
        (Some(n / 3), Some(&weight)),
        (Some(n / 3), None),
    ] {
        let mut operands = plain(&x, weight.unwrap_or(&bias_view));
        operands.weight = weight.cloned();
        operands.settings.group_size = group_size;
        let bare = forward(&operands, None);
        operands.bias = Some(bias_view.clone());
        let found = forward(&operands, None);
        assert_eq!(found.rstd, bare.rstd);
        let pairs = f32s(found.y).into_iter().zip(f32s(bare.y));
        for (i, (y, bare)) in pairs.enumerate() {
            assert!(
                (y - (bare + bias[i % n])).abs() <= 2e-6 * (1.0 + bare.abs()),
                "{i}"
            );
        }
        let rstd = f32s(found.rstd);
        let rstd = View::whole(&rstd, &[rows, rstd.len() / rows]);
        let mut given = backward_of(operands, &rstd);
        (given.wants_weight, given.wants_bias) = (weight.is_some(), true);
        let gradients = backward(&given);
        assert_eq!(gradients.weight.is_some(), weight.is_some());
        let (mut bare, d_bias) = (given.clone(), f32s(gradients.bias.unwrap()));
        (bare.operands.bias, bare.wants_bias) = (None, false);
        let bare = backward(&bare);
        assert_eq!((gradients.x, gradients.weight), (bare.x, bare.weight));
        for (column, d_bias) in d_bias.into_iter().enumerate() {
            let column = data.iter().skip(column).step_by(n).map(|dy| f64::from(*dy));
            let (sum, terms) = column.fold((0.0, 0.0), |(a, b), dy| (a + dy, b + dy.abs()));
            assert!((f64::from(d_bias) - sum).abs() <= 1e-5 * terms);
        }
    }
    let gated = Operands {
        gate: Some(x.clone()),
        bias: Some(bias_view.clone()),
        settings: Settings {
            gating: Gating::AfterNorm,
            ..SETTINGS
        },
        ..plain(&x, &weight)
    };
    assert!(refused(|| forward(&gated, None)));
    let short = Operands {
        bias: Some(View::whole(&bias[1..], &[n - 1])),
        ..plain(&x, &weight)
    };
    assert!(refused(|| forward(&short, None)));
}

#[test]
fn rows_that_are_apart_have_the_results_of_a_copy() {
    let (data, weight) = (numbers(60), numbers(3));
    let apart = View::of(&data, &[5, 2, 3], &[4, 20, 1], 20);
    let places = (0..5).flat_map(|i| [20 + 4 * i, 40 + 4 * i]);
    let copy: Vec<f32> = places.flat_map(|at| data[at..at + 3].to_vec()).collect();
    let (copy, weight) = (View::whole(&copy, &[5, 2, 3]), View::whole(&weight, &[3]));
    let of = |x: &View<'_>| {
        let found = forward(&plain(x, &weight), Some(x));
        let rstd = f32s(found.rstd);
        let mut given = backward_of(plain(x, &weight), &View::whole(&rstd, &[10])).clone();
        given.before = Some(given.operands.x.clone());
        let gradients = backward(&given);
        [
            found.y,
            found.sum.unwrap(),
            gradients.x,
            gradients.weight.unwrap(),
        ]
    };
    assert_eq!(of(&apart), of(&copy));
}

#[test]
fn axes_without_elements_have_no_results() {
    let none: [f32; 0] = [];
    let (empty, weight) = (View::whole(&none, &[3, 0]), View::whole(&none, &[0]));
    for group_size in [None, Some(2)] {
        let mut operands = plain(&empty, &weight);
        operands.settings.group_size = group_size;
        let found = forward(&operands, None);
        assert_eq!((found.y.len(), found.rstd.len()), (0, 0));
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let data = numbers(12);
    let halves = [half::f16::ONE; 12];
    let (x, weight) = (View::whole(&data, &[3, 4]), View::whole(&data[..4], &[4]));
    let of_rows = View::whole(&data[..3], &[3]);
    let gated = |gating| {
        let mut operands = plain(&x, &weight);
        operands.settings.gating = gating;
        operands.gate = Some(x.clone());
        operands
    };
    let grouped = |size| {
        let mut operands = plain(&x, &weight);
        operands.settings.group_size = Some(size);
        operands
    };
    let wrong_gate = Operands {
        gate: Some(View::whole(&data, &[4, 3])),
        ..gated(Gating::AfterNorm)
    };
    let no_gate = Operands {
        gate: None,
        ..gated(Gating::BeforeNorm)
    };
    for operands in [
        gated(Gating::None),
        wrong_gate,
        no_gate,
        grouped(0),
        grouped(3),
        plain(&x, &of_rows),
        plain(&x, &View::whole(&halves[..4], &[4])),
        plain(&View::of(&data, &[3, 4], &[1, 3], 0), &weight),
        plain(
            &View::whole(&data[..1], &[]),
            &View::whole(&data[..1], &[1]),
        ),
    ] {
        assert!(refused(|| forward(&operands, None)), "{operands:?}");
    }
    let operands = plain(&x, &weight);
    for residual in [View::whole(&data, &[4, 3]), View::whole(&halves, &[3, 4])] {
        assert!(refused(|| forward(&operands, Some(&residual))));
    }
    let right = || backward_of(plain(&x, &weight), &of_rows);
    assert_eq!(backward(&right()).x.len(), 12);
    let changes: [fn(&mut Backward<'_>); 4] = [
        |given| given.rstd = given.operands.weight.clone().unwrap(),
        |given| given.operands.weight = None,
        |given| given.dy = given.rstd.clone(),
        |given| given.before = Some(given.rstd.clone()),
    ];
    for change in changes {
        let mut given = right();
        change(&mut given);
        assert!(refused(|| backward(&given)), "{given:?}");
    }
    let mut given = backward_of(gated(Gating::AfterNorm), &of_rows);
    assert!(backward(&given).gate.is_some());
    given.before = Some(x.clone());
    assert!(refused(|| backward(&given)));
}

/// The axis alone would ask for four terabytes.
#[test]
fn a_long_axis_without_elements_takes_no_memory() {
    for sizes in [[0, 1 << 40], [0, 0]] {
        let x = View::whole::<f32>(&[], &sizes);
        let operands = Operands {
            x,
            weight: None,
            gate: None,
            bias: None,
            settings: SETTINGS,
        };
        let found = forward(&operands, None);
        assert_eq!(found.y.len(), 0);
    }
}
