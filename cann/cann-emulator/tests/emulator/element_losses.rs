//! Tests of the losses of elements, against their formulas in f64, and of their gradients, against differences of the
//! formulas.

use crate::common::*;
use cann_emulator::abi::{binary_cross_entropy::*, losses::*};

/// A loss with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    L1,
    Smooth(f32),
    Divergence(bool),
    /// Of probabilities, with a weight or without.
    Binary(bool),
    /// Of logits, with a weight and a factor of the positive class or without.
    Logits(bool),
}

use Loss::{Binary, Divergence, L1, Logits, Smooth};

const LOSSES: [Loss; 8] = [
    L1,
    Smooth(0.5),
    Divergence(false),
    Divergence(true),
    Binary(true),
    Binary(false),
    Logits(true),
    Logits(false),
];

/// The tensors of a call: input, target, weight and the factor of the positive class.
type Inputs<'a> = [&'a Tensor; 4];

impl Loss {
    /// Returns the loss of one element.
    fn term(self, x: f64, y: f64, weight: f64, positive: f64) -> f64 {
        let d = (x - y).abs();
        match self {
            L1 => d,
            Smooth(beta) if d < f64::from(beta) => d * d / 2.0 / f64::from(beta),
            Smooth(beta) => d - f64::from(beta) / 2.0,
            Divergence(true) => y.exp() * (y - x),
            Divergence(false) => y * y.ln() - y * x,
            Binary(_) => -weight * (y * x.ln() + (1.0 - y) * (1.0 - x).ln()),
            Logits(_) => {
                let p = 1.0 / (1.0 + (-x).exp());
                -weight * (positive * y * p.ln() + (1.0 - y) * (1.0 - p).ln())
            }
        }
    }

    fn forward(self, [x, t, w, p]: Inputs<'_>, reduction: i64, y: &Tensor) -> Status {
        let [w, p] = [w, p].map(|given| self.weighted().then_some(given));
        match self {
            L1 => call!(aclnnL1Loss: x, t, reduction, y),
            Smooth(beta) => call!(aclnnSmoothL1Loss: x, t, reduction, beta, y),
            Divergence(log) => call!(aclnnKlDiv: x, t, reduction, log, y),
            Binary(_) => call!(aclnnBinaryCrossEntropy: x, t, w, reduction, y),
            Logits(_) => call!(aclnnBinaryCrossEntropyWithLogits: x, t, w, p, reduction, y),
        }
    }

    fn backward(
        self,
        dy: &Tensor,
        [x, t, w, p]: Inputs<'_>,
        reduction: i64,
        dx: &Tensor,
    ) -> Status {
        let [w, p] = [w, p].map(|given| self.weighted().then_some(given));
        match self {
            L1 => call!(aclnnL1LossBackward: dy, x, t, reduction, dx),
            Smooth(beta) => call!(aclnnSmoothL1LossBackward: dy, x, t, reduction, beta, dx),
            Divergence(log) => call!(aclnnKlDivBackward: dy, x, t, reduction, log, dx),
            Binary(_) => call!(aclnnBinaryCrossEntropyBackward: dy, x, t, w, reduction, dx),
            Logits(_) => {
                call!(aclnnBinaryCrossEntropyWithLogitsBackward: dy, x, t, w, p, reduction, dx)
            }
        }
    }

    fn weighted(self) -> bool {
        matches!(self, Binary(true) | Logits(true))
    }
}

/// Makes inputs of four rows of three. The weight is of one row, the factor of one column.
fn inputs(dtype: aclDataType) -> [Tensor; 4] {
    // Between 0.05 and 0.95, so that they are probabilities too.
    let numbers =
        |count, seed| -> Vec<f32> { noise(count, seed).iter().map(|x| 0.5 + 0.45 * x).collect() };
    [
        Tensor::floats(dtype, &[4, 3], &numbers(12, 1)),
        Tensor::floats(dtype, &[4, 3], &numbers(12, 2)),
        Tensor::floats(dtype, &[3], &numbers(3, 3)),
        Tensor::floats(dtype, &[4, 1], &numbers(4, 4)),
    ]
}

/// Returns the function of each element, with the input moved by `by`.
fn terms(loss: Loss, inputs: &[Tensor; 4], by: f64) -> Vec<f64> {
    let [x, t, w, p] = [0, 1, 2, 3].map(|at| exact(&inputs[at]));
    let factor = |value: f64| if loss.weighted() { value } else { 1.0 };
    let term = |at: usize| loss.term(x[at] + by, t[at], factor(w[at % 3]), factor(p[at / 3]));
    (0..12).map(term).collect()
}

#[test]
fn losses_are_kept_averaged_or_summed() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let tensors = inputs(dtype);
        let given = [&tensors[0], &tensors[1], &tensors[2], &tensors[3]];
        for loss in LOSSES {
            let each = terms(loss, &tensors, 0.0);
            let total: f64 = each.iter().sum();
            let mut cases = vec![
                (0, &[4, 3][..], each),
                (1, &[], vec![total / 12.0]),
                (2, &[1], vec![total]),
            ];
            if let Divergence(_) = loss {
                cases.push((3, &[], vec![total / 4.0]));
            }
            for (reduction, shape, expected) in cases {
                let y = Tensor::empty(dtype, shape);
                loss.forward(given, reduction, &y).expect("documented");
                let what = format!("{loss:?}, {reduction}");
                y.assert_close(&what, &expected, 3e-6);
            }
        }
    }
}

#[test]
fn gradients_are_those_of_the_formulas() {
    let _session = Session::start();
    let tensors = inputs(F32);
    let given = [&tensors[0], &tensors[1], &tensors[2], &tensors[3]];
    for loss in LOSSES {
        let (more, less) = (terms(loss, &tensors, 1e-6), terms(loss, &tensors, -1e-6));
        let slopes: Vec<f64> = more
            .iter()
            .zip(less)
            .map(|(more, less)| (more - less) / 2e-6)
            .collect();
        for (reduction, divisor) in [(0, 1.0), (1, 12.0), (2, 1.0), (3, 4.0)] {
            if reduction == 3 && !matches!(loss, Divergence(_)) {
                continue;
            }
            let shape: &[usize] = if reduction == 0 { &[4, 3] } else { &[] };
            let dy = Tensor::floats(F32, shape, &noise(shape.iter().product(), 7));
            let dys = exact(&dy);
            let dx = Tensor::empty(F32, &[4, 3]);
            loss.backward(&dy, given, reduction, &dx)
                .expect("documented");
            let expected: Vec<f64> = slopes
                .iter()
                .enumerate()
                .map(|(at, slope)| dys[at % dys.len()] * slope / divisor)
                .collect();
            dx.assert_close(&format!("{loss:?}, {reduction}"), &expected, 1e-6);
        }
    }
}

/// Calls the gradient of the targets of logits. The tensors are those of a loss, with the weights or without.
fn of_targets(
    dy: &Tensor,
    [x, t, w, p]: [Option<&Tensor>; 4],
    reduction: i64,
    d_target: &Tensor,
) -> Status {
    call!(aclnnBinaryCrossEntropyWithLogitsTargetBackward: dy, x, t, w, p, reduction, d_target)
}

#[test]
fn gradients_of_targets_are_those_of_the_formula() {
    let _session = Session::start();
    for (dtype, of_target) in [
        (F32, F32),
        (F16, F16),
        (BF16, BF16),
        (F32, F16),
        (BF16, F32),
    ] {
        let [_, _, w, p] = inputs(dtype);
        let x: Vec<f32> = noise(12, 8).iter().map(|x| 6.0 * x).collect();
        let x = Tensor::floats(dtype, &[4, 3], &x);
        let t = Tensor::floats(of_target, &[4, 3], &noise(12, 9));
        for weights in 0..4 {
            let weight = (weights % 2 == 1).then_some(&w);
            let positive = (weights > 1).then_some(&p);
            for (reduction, divisor) in [(0, 1.0), (1, 12.0), (2, 1.0)] {
                let shape: &[usize] = [&[4, 3][..], &[4, 1], &[1]][reduction as usize];
                let dy = Tensor::floats(dtype, shape, &noise(shape.iter().product(), 7));
                let (dys, xs, ws, ps) = (exact(&dy), exact(&x), exact(&w), exact(&p));
                let expected: Vec<f64> = (0..12)
                    .map(|at| {
                        let sigma = 1.0 / (1.0 + (-xs[at]).exp());
                        let weight = weight.map_or(1.0, |_| ws[at % 3]);
                        let positive = positive.map_or(1.0, |_| ps[at / 3]);
                        let slope = (1.0 - sigma).ln() - positive * sigma.ln();
                        dys[at * dys.len() / 12] * weight * slope / divisor
                    })
                    .collect();
                let d_target = Tensor::empty(of_target, &[4, 3]);
                of_targets(
                    &dy,
                    [Some(&x), Some(&t), weight, positive],
                    reduction,
                    &d_target,
                )
                .expect("documented");
                let what = format!("{of_target:?}, {weights}, {reduction}");
                d_target.assert_close(&what, &expected, 1e-6);
            }
        }
    }
    // Large logits keep their gradients.
    let x = Tensor::floats(F32, &[4], &[200.0, -200.0, 0.0, -0.0]);
    let two = Tensor::floats(F32, &[1], &[2.0]);
    let one = Tensor::floats(F32, &[], &[1.0]);
    let d_target = Tensor::empty(F32, &[4]);
    of_targets(&one, [Some(&x), Some(&x), None, Some(&two)], 2, &d_target).expect("documented");
    let ln_2 = std::f32::consts::LN_2;
    assert_eq!(d_target.read(), [-200.0, 400.0, ln_2, ln_2]);
    let (infinity, d_target) = (f32::INFINITY, Tensor::empty(F32, &[2]));
    let x = Tensor::floats(F32, &[2], &[infinity, -infinity]);
    of_targets(&one, [Some(&x), Some(&x), None, None], 2, &d_target).expect("documented");
    assert_eq!(d_target.read(), [-infinity, infinity]);
}

#[test]
fn gradients_of_targets_are_refused_outside_the_document() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, half, dy) = (t(F32, &[4, 3]), t(F16, &[4, 3]), t(F32, &[4, 3]));
    let call = |dy: &Tensor, x: &Tensor, target: &Tensor, d_target: &Tensor| {
        of_targets(dy, [Some(x), Some(target), None, None], 0, d_target)
    };
    call(&dy, &x, &half, &t(F16, &[4, 3])).expect("documented");
    refused(call(&dy, &x, &half, &t(F32, &[4, 3])), "out is f32");
    refused(call(&dy, &x, &x, &t(F32, &[3, 4])), "out has the shape");
    refused(call(&dy, &x, &t(F32, &[3]), &x), "target has the shape");
    refused(call(&t(F32, &[2, 4, 3]), &x, &x, &x), "that of the first");
    let deep = t(F32, &[1; 9]);
    refused(call(&dy, &deep, &deep, &deep), "axes");
    let int = t(ACL_INT32, &[4, 3]);
    refused(call(&int, &x, &x, &x), "gradOutput is i32");
    refused(call(&dy, &int, &x, &x), "self is i32");
    refused(call(&dy, &x, &int, &x), "target is i32");
    let with = |weight, positive| {
        of_targets(
            &dy,
            [Some(&x), Some(&x), weight, positive],
            0,
            &t(F32, &[4, 3]),
        )
    };
    refused(with(Some(&int), None), "weightOptional is i32");
    refused(with(None, Some(&int)), "posWeightOptional is i32");
    let (more, other) = (t(F32, &[2, 4, 3]), t(F32, &[2]));
    refused(with(Some(&more), None), "that of the first");
    refused(with(None, Some(&other)), "broadcast");
    for reduction in [-1, 3] {
        let all = [Some(&x), Some(&x), None, None];
        refused(of_targets(&dy, all, reduction, &dy), "reduction is");
    }
    for missing in 0..2 {
        let mut all = [Some(&x), Some(&x), None, None];
        all[missing] = None;
        let (code, _) = of_targets(&dy, all, 0, &dy).expect_err("NULL");
        assert_eq!(code, ACLNN_ERR_PARAM_NULLPTR);
    }
    let all = [Some(&x), Some(&x), None, None];
    for null_output in [false, true] {
        let mut null = t(F32, &[4, 3]);
        let handle = std::mem::replace(&mut null.handle, null_mut());
        let (dy, d_target) = if null_output {
            (&dy, &null)
        } else {
            (&null, &dy)
        };
        let (code, _) = of_targets(dy, all, 0, d_target).expect_err("NULL");
        assert_eq!(code, ACLNN_ERR_PARAM_NULLPTR);
        null.handle = handle;
    }
}

#[test]
fn older_chips_have_no_gradients_of_targets() {
    let _session = Session::on("Ascend910A");
    let x = Tensor::empty(F32, &[4, 3]);
    let status = of_targets(&x, [Some(&x), Some(&x), None, None], 0, &x);
    refused(status, "does not have this operator");
}

#[test]
fn values_at_the_borders_are_finite() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[4], &[0.0, 1.0, 0.0, 1.0]);
    let t = Tensor::floats(F32, &[4], &[0.0, 1.0, 1.0, 0.0]);
    let y = Tensor::empty(F32, &[4]);
    Binary(false)
        .forward([&x, &t, &x, &x], 0, &y)
        .expect("documented");
    assert_eq!(y.read(), [0.0, 0.0, 100.0, 100.0]);
    let dx = Tensor::empty(F32, &[4]);
    let dy = Tensor::floats(F32, &[], &[1.0]);
    Binary(false)
        .backward(&dy, [&x, &t, &x, &x], 2, &dx)
        .expect("documented");
    assert!(dx.read().iter().all(|value| value.is_finite()));
    // The logarithm of a target of zero counts as nothing.
    Divergence(false)
        .forward([&x, &t, &x, &x], 0, &y)
        .expect("documented");
    assert_eq!(y.read(), [0.0, -1.0, 0.0, 0.0]);
    let large = Tensor::floats(F32, &[4], &[200.0, -200.0, 200.0, -200.0]);
    Logits(false)
        .forward([&large, &t, &x, &x], 0, &y)
        .expect("documented");
    assert_eq!(y.read(), [200.0, 200.0, 0.0, 0.0]);
    let same = Tensor::floats(F32, &[4], &[2.0; 4]);
    for loss in [L1, Smooth(0.0)] {
        loss.backward(&dy, [&same, &same, &x, &x], 2, &dx)
            .expect("documented");
        assert_eq!(dx.read(), [0.0; 4]);
    }
    let none = Tensor::empty(F32, &[0, 3]);
    let total = Tensor::empty(F32, &[]);
    L1.forward([&none, &none, &x, &x], 2, &total)
        .expect("documented");
    assert_eq!(total.read(), [0.0]);
}

#[test]
fn inputs_are_broadcast_and_promoted_where_that_is_documented() {
    let _session = Session::start();
    let [x, _, row, column] = inputs(F32);
    let half = Tensor::floats(F16, &[3], &[0.25, 0.5, 0.75]);
    let y = Tensor::empty(F32, &[4, 3]);
    L1.forward([&x, &half, &x, &x], 0, &y).expect("documented");
    let expected: Vec<f64> = exact(&x)
        .iter()
        .enumerate()
        .map(|(at, x)| (x - exact(&half)[at % 3]).abs())
        .collect();
    y.assert_close("promoted", &expected, 1e-7);
    let all = [&x, &x, &row, &column];
    for loss in LOSSES {
        let most = if matches!(loss, Divergence(_)) { 3 } else { 2 };
        each! { refused:
            loss.forward(all, most + 1, &y), "reduction is";
            loss.forward(all, -1, &y), "reduction is -1";
            loss.forward(all, 1, &y), "out has the shape";
            loss.forward(all, 0, &row), "out has the shape";
            loss.forward(all, 0, &Tensor::empty(ACL_INT32, &[4, 3])), "out is i32";
            loss.backward(&x, all, 0, &row), "out has the shape";
        }
    }
    each! { refused:
        Smooth(-1.0).forward(all, 0, &y), "beta is -1";
        Smooth(f32::NAN).forward(all, 0, &y), "beta is NaN";
        Divergence(true).forward([&x, &half, &x, &x], 0, &y), "target is f16";
        Binary(false).forward([&x, &row, &x, &x], 0, &y), "target has the shape";
    }
    let wide = Tensor::empty(F32, &[2, 4, 3]);
    each! { refused:
        Binary(true).forward([&x, &x, &wide, &x], 0, &y), "that of the first";
        Logits(true).forward([&x, &x, &x, &wide], 0, &y), "that of the first";
    }
    let (code, text) = L1
        .forward([&x, &Tensor::empty(F32, &[4, 2]), &x, &x], 0, &y)
        .expect_err("shapes");
    assert!(
        code == ACLNN_ERR_PARAM_INVALID && text.contains("broadcast"),
        "{text}"
    );
}
