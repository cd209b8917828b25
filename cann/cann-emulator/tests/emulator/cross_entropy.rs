//! Tests of the cross-entropy and its gradient: against f64, and their documented limits.

use crate::common::*;
use cann_emulator::abi::cross_entropy::*;
use std::ffi::CStr;

const ROWS: usize = 4;
const CLASSES: usize = 5;
const IGNORED: i64 = -100;
const TARGETS: [i64; ROWS] = [2, IGNORED, 4, 0];

/// The parameters of a call besides its tensors of logits and results.
#[derive(Clone, Copy)]
struct Settings<'a> {
    target: &'a Tensor,
    weight: Option<&'a Tensor>,
    reduction: Option<&'static CStr>,
    ignored: i64,
    smoothing: f64,
    lse_scale: f64,
    z_loss: bool,
}

fn settings(target: &Tensor) -> Settings<'_> {
    Settings {
        target,
        weight: None,
        reduction: Some(c"none"),
        ignored: IGNORED,
        smoothing: 0.0,
        lse_scale: 0.0,
        z_loss: false,
    }
}

/// `out` are the loss, the logarithms of the probabilities, and the two outputs that are required and not written.
fn loss(
    input: &Tensor,
    settings: Settings<'_>,
    [loss, log_prob, z_loss, lse]: [*const aclTensor; 4],
) -> Status {
    call!(
        aclnnCrossEntropyLoss: input, settings.target, settings.weight, settings.reduction,
        settings.ignored, settings.smoothing, settings.lse_scale, settings.z_loss, loss, log_prob,
        z_loss, lse
    )
}

fn grad(
    dloss: &Tensor,
    log_prob: &Tensor,
    settings: Settings<'_>,
    z_loss: Option<&Tensor>,
    out: &Tensor,
) -> Status {
    call!(
        aclnnCrossEntropyLossGrad: dloss, log_prob, settings.target, settings.weight,
        z_loss, null(), settings.reduction,
        settings.ignored, settings.smoothing, settings.lse_scale, out
    )
}

/// The outputs of a call.
struct Out([Tensor; 4]);

impl Out {
    fn new(dtype: aclDataType, losses: usize) -> Self {
        let empty = |shape: &[usize]| Tensor::empty(dtype, shape);
        Self([
            empty(&[losses]),
            empty(&[ROWS, CLASSES]),
            empty(&[losses]),
            empty(&[ROWS]),
        ])
    }

    fn handles(&self) -> [*const aclTensor; 4] {
        std::array::from_fn(|place| self.0[place].handle.cast_const())
    }
}

/// Returns the logarithms of the probabilities in f64.
fn exact_logs(x: &[f32]) -> Vec<f64> {
    let rows = x.chunks(CLASSES);
    rows.flat_map(|row| {
        let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
        row.iter()
            .map(|x| f64::from(*x) - sum.ln())
            .collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn losses_and_gradients_are_those_of_the_formulas() {
    let _session = Session::start();
    let weights = [1.0f32, 2.0, 0.5, 1.0, 3.0];
    let target = Tensor::integers(ACL_INT64, &[ROWS], &TARGETS);
    let weight = Tensor::floats(F32, &[CLASSES], &weights);
    for dtype in [F32, F16, ACL_BF16] {
        let x = Tensor::floats(dtype, &[ROWS, CLASSES], &noise(ROWS * CLASSES, 1));
        let logs = exact_logs(&x.read());
        for reduction in [Some(c"none"), Some(c"sum"), Some(c"mean"), None] {
            for is_weighted in [false, true] {
                let of = |class: usize| match is_weighted {
                    true => f64::from(weights[class]),
                    false => 1.0,
                };
                let settings = Settings {
                    weight: is_weighted.then_some(&weight),
                    reduction,
                    ..settings(&target)
                };
                let total: f64 = TARGETS
                    .iter()
                    .filter_map(|class| usize::try_from(*class).ok())
                    .map(of)
                    .sum();
                let is_each = reduction == Some(c"none");
                let divisor = match reduction {
                    Some(text) if text != c"mean" => 1.0,
                    _ => total,
                };
                let what = format!("{reduction:?} {is_weighted}");
                for smoothing in [0.0, 0.25] {
                    let out = Out::new(dtype, if is_each { ROWS } else { 1 });
                    let settings = Settings {
                        smoothing,
                        ..settings
                    };
                    loss(&x, settings, out.handles()).expect(&what);
                    let each = logs.chunks(CLASSES).zip(TARGETS).map(|(row, class)| {
                        let Ok(class) = usize::try_from(class) else {
                            return 0.0;
                        };
                        let all: f64 = (0..CLASSES).map(|other| -of(other) * row[other]).sum();
                        let own = (1.0 - smoothing) * -of(class) * row[class];
                        (own + smoothing / CLASSES as f64 * all) / divisor
                    });
                    let each: Vec<f64> = each.collect();
                    let exact = match is_each {
                        true => each,
                        false => vec![each.iter().sum()],
                    };
                    out.0[0].assert_close(&what, &exact, 1e-6);
                    out.0[1].assert_close(&what, &logs, 1e-6);
                    if smoothing != 0.0 {
                        continue;
                    }
                    let shape: &[usize] = if is_each { &[ROWS] } else { &[] };
                    let dy = noise(if is_each { ROWS } else { 1 }, 2);
                    let dloss = Tensor::floats(dtype, shape, &dy);
                    let dy = dloss.read();
                    let dx = Tensor::empty(dtype, &[ROWS, CLASSES]);
                    grad(&dloss, &out.0[1], settings, None, &dx).expect(&what);
                    // The gradient is that of the stored, rounded logarithms.
                    let stored = out.0[1].read();
                    let mut exact = Vec::new();
                    for (row, class) in TARGETS.iter().enumerate() {
                        let dy = f64::from(dy[if is_each { row } else { 0 }]) / divisor;
                        for other in 0..CLASSES {
                            let p = f64::from(stored[row * CLASSES + other]).exp();
                            let one = f64::from(u8::from(other as i64 == *class));
                            let factor = usize::try_from(*class).map_or(0.0, of);
                            exact.push((p - one) * dy * factor);
                        }
                    }
                    dx.assert_close(&what, &exact, 1e-6);
                }
            }
        }
    }
}

/// Ignored rows are multiplied by zero, which leaves NaN.
#[test]
fn an_ignored_row_has_a_loss_of_zero_and_may_have_a_gradient_of_nan() {
    let _session = Session::start();
    let target = Tensor::integers(ACL_INT64, &[ROWS], &TARGETS);
    let mut values = noise(ROWS * CLASSES, 3);
    values[CLASSES] = f32::INFINITY;
    let x = Tensor::floats(F32, &[ROWS, CLASSES], &values);
    let out = Out::new(F32, ROWS);
    loss(&x, settings(&target), out.handles()).expect("documented");
    assert_eq!(out.0[0].read()[1], 0.0);
    let dloss = Tensor::floats(F32, &[ROWS], &[1.0; ROWS]);
    let dx = Tensor::empty(F32, &[ROWS, CLASSES]);
    grad(&dloss, &out.0[1], settings(&target), None, &dx).expect("documented");
    let dx = dx.read();
    assert!(dx[CLASSES..2 * CLASSES].iter().any(|x| x.is_nan()));
    assert!(dx[2 * CLASSES..].iter().all(|x| x.is_finite()));
}

/// If all rows are ignored, the mean is 0 / 0.
#[test]
fn the_mean_of_no_rows_is_no_number() {
    let _session = Session::start();
    let target = Tensor::integers(ACL_INT64, &[ROWS], &[IGNORED; ROWS]);
    let x = Tensor::floats(F32, &[ROWS, CLASSES], &noise(ROWS * CLASSES, 3));
    let out = Out::new(F32, 1);
    let settings = Settings {
        reduction: Some(c"mean"),
        ..settings(&target)
    };
    loss(&x, settings, out.handles()).expect("documented");
    assert!(out.0[0].read()[0].is_nan());
}

/// A target that is neither a class nor ignored stops the stream.
#[test]
fn a_target_that_is_no_class_is_an_error_of_the_stream() {
    for wrong in [-1, CLASSES as i64] {
        let _session = Session::start();
        let target = Tensor::integers(ACL_INT64, &[ROWS], &[0, 1, wrong, 2]);
        let x = Tensor::floats(F32, &[ROWS, CLASSES], &noise(ROWS * CLASSES, 3));
        let status = loss(&x, settings(&target), Out::new(F32, ROWS).handles());
        broke(status, &format!("the target {wrong} is not"));
    }
}

#[test]
fn what_the_documentation_does_not_allow_is_refused() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let target = Tensor::integers(ACL_INT64, &[ROWS], &[0; ROWS]);
    let (x, out) = (t(F32, &[ROWS, CLASSES]), Out::new(F32, ROWS));
    let usual = settings(&target);
    x.fill(&[0.0; ROWS * CLASSES]);
    loss(&x, usual, out.handles()).expect("documented");

    // Outputs that nobody uses are required.
    for place in 0..4 {
        let mut handles = out.handles();
        handles[place] = null();
        fails(loss(&x, usual, handles), ACLNN_ERR_PARAM_NULLPTR);
    }
    let invalid = |status| fails(status, ACLNN_ERR_PARAM_INVALID);
    let misshapen = |status| fails(status, ACLNN_ERR_INNER_TILING_ERROR);
    let with = |settings| loss(&x, settings, out.handles());

    let narrow = t(ACL_INT32, &[ROWS]);
    invalid(with(settings(&narrow)));
    let half = t(F16, &[CLASSES]);
    each! { invalid:
        with(Settings { weight: Some(&half), ..usual });
        loss(&t(ACL_DOUBLE, &[ROWS, CLASSES]), usual, out.handles());
        loss(&x, usual, Out::new(F16, ROWS).handles());
    }
    let turned = Tensor::strided(F32, &[ROWS, CLASSES], Some(&[1, 4]), 0, ROWS * CLASSES);
    invalid(loss(&turned, usual, out.handles()));
    for smoothing in [-0.1, 1.1, f64::NAN] {
        invalid(with(Settings { smoothing, ..usual }));
    }
    each! { invalid:
        with(Settings { lse_scale: 0.5, ..usual });
        with(Settings { z_loss: true, ..usual });
    }

    let few = t(ACL_INT64, &[ROWS - 1]);
    misshapen(with(settings(&few)));
    let short = t(F32, &[ROWS]);
    each! { misshapen:
        with(Settings { weight: Some(&short), ..usual });
        with(Settings { reduction: Some(c"average"), ..usual });
        loss(&x, usual, Out::new(F32, 1).handles());
        loss(&t(F32, &[ROWS]), usual, out.handles());
        loss(&t(F32, &[ROWS, 0]), usual, out.handles());
    }

    let (dloss, dx) = (t(F32, &[ROWS]), t(F32, &[ROWS, CLASSES]));
    grad(&dloss, &x, usual, None, &dx).expect("documented");
    let scalar = t(F32, &[]);
    let sum = Settings {
        reduction: Some(c"sum"),
        ..usual
    };
    grad(&scalar, &x, sum, None, &dx).expect("documented");
    misshapen(grad(&scalar, &x, usual, None, &dx));
    misshapen(grad(&dloss, &x, sum, None, &dx));
    misshapen(grad(&t(F32, &[1]), &x, sum, None, &dx));
    misshapen(grad(&dloss, &x, usual, None, &dloss));
    invalid(grad(&t(F16, &[ROWS]), &x, usual, None, &dx));
    invalid(grad(&dloss, &x, settings(&narrow), None, &dx));
    invalid(grad(&dloss, &x, usual, Some(&dloss), &dx));
    each! { invalid: grad(&dloss, &x, Settings { smoothing: 0.1, ..usual }, None, &dx) }
    each! { invalid: grad(&dloss, &x, Settings { lse_scale: 0.5, ..usual }, None, &dx) }
}
