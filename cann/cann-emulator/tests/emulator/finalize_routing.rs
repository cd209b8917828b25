//! Tests of the sum of the experts' results and of its gradient, against f64.

use crate::common::*;
use cann_emulator::abi::moe::*;

const INNER: i32 = ACLNN_ERR_INNER_NULLPTR;

/// Runs the sum. The optional operands are x1, x2, bias, scales and the experts of the slots.
fn finalise(
    mode: i64,
    [x, rows, out]: [&Tensor; 3],
    [x1, x2, bias, scales, experts]: [Option<&Tensor>; 5],
) -> Status {
    call!(aclnnMoeFinalizeRoutingV2: x, rows, x1, x2, bias, scales, experts, mode, out)
}

#[track_caller]
fn failed(status: Status, text: &str) {
    crate::common::failed(status, INNER, text);
}

fn i32s(shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::integers(ACL_INT32, shape, values)
}

fn random(dtype: aclDataType, shape: &[usize], seed: u64) -> Tensor {
    Tensor::floats(dtype, shape, &noise(shape.iter().product(), seed))
}

const EXPERTS: [i64; 6] = [2, 0, 1, 1, 2, 0];

#[test]
fn results_are_scaled_biased_and_added() {
    let _session = Session::start();
    for (dtype, of_scales) in [(F32, F32), (F16, F16), (BF16, BF16), (BF16, F32)] {
        let (x1, x2) = (random(dtype, &[3, 4], 1), random(dtype, &[3, 4], 2));
        let (bias, scales) = (random(dtype, &[3, 4], 3), random(of_scales, &[3, 2], 4));
        let experts = i32s(&[3, 2], &EXPERTS);
        for (mode, shape, rows) in [
            (0, &[6, 4][..], [3, 0, 4, 2, 5, 1]),
            (2, &[6, 4], [3, 0, 4, 2, 5, 1]),
            (1, &[3, 2, 4], [4, 0, 5, 2, -1, 1]),
            (3, &[3, 2, 4], [4, 0, 5, 2, -1, 1]),
        ] {
            let x = random(dtype, shape, 5);
            let (xs, b, s) = (exact(&x), exact(&bias), exact(&scales));
            let (first, second) = (exact(&x1), exact(&x2));
            let expected: Vec<f64> = (0..12)
                .map(|place| {
                    let (token, column) = (place / 4, place % 4);
                    let term = |choice: usize| {
                        let slot = 2 * token + choice;
                        let row = rows[if mode < 2 { 3 * choice + token } else { slot }];
                        let row = usize::try_from(row).ok()?;
                        Some(
                            s[slot]
                                * (xs[4 * row + column] + b[4 * EXPERTS[slot] as usize + column]),
                        )
                    };
                    first[place] + second[place] + (0..2).filter_map(term).sum::<f64>()
                })
                .collect();
            let out = Tensor::empty(dtype, &[3, 4]);
            let optional = [
                Some(&x1),
                Some(&x2),
                Some(&bias),
                Some(&scales),
                Some(&experts),
            ];
            finalise(mode, [&x, &i32s(&[6], &rows), &out], optional).expect("documented");
            out.assert_close("out", &expected, 1e-6);
        }
        // Without scales there is one choice.
        let (x, out) = (random(dtype, &[3, 4], 6), Tensor::empty(dtype, &[3, 4]));
        let rows = i32s(&[3], &[2, 0, 1]);
        finalise(2, [&x, &rows, &out], [None; 5]).expect("documented");
        let values = x.read();
        assert_eq!(out.read(), [&values[8..], &values[..8]].concat());
    }
}

#[test]
fn sums_are_checked() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, rows, out) = (t(F32, &[6, 4]), i32s(&[6], &[-1; 6]), t(F32, &[3, 4]));
    let (scales, experts) = (t(F32, &[3, 2]), i32s(&[3, 2], &[3; 6]));
    let with = |x: &Tensor, mode, [x1, x2, bias, of_slots]: [Option<&Tensor>; 4]| {
        finalise(
            mode,
            [x, &rows, &out],
            [x1, x2, bias, Some(&scales), of_slots],
        )
    };
    each! { failed:
        with(&x, 4, [None; 4]), "dropPadMode is 4";
        with(&x, 1, [None; 4]), "expandedX is [6, 4]";
        with(&t(F32, &[3, 2, 4]), 0, [None; 4]), "expandedX is [3, 2, 4]";
        with(&t(F32, &[1, 2, 4]), 1, [None; 4]), "expandedX is [1, 2, 4]";
        with(&t(F32, &[5, 4]), 0, [None; 4]), "expandedX is [5, 4]";
        with(&x, 0, [None, Some(&out), None, None]), "x2 is given without x1";
        with(&x, 0, [Some(&x), None, None, None]), "x1 has the shape";
        with(&x, 0, [None, None, Some(&out), None]), "bias needs expertIdx";
        with(&x, 0, [None, None, Some(&t(F32, &[1, 4])), Some(&experts)]), "biases of 1 experts";
    }
    each! { refused:
        with(&t(ACL_INT32, &[6, 4]), 0, [None; 4]), "expandedX is i32";
        finalise(0, [&x, &rows, &out], [None, None, None, Some(&t(F16, &[3, 2])), None]),
            "scales is f16";
    }
    let half = t(F16, &[6, 4]);
    let status = finalise(
        0,
        [&half, &rows, &t(F16, &[3, 4])],
        [None, None, None, Some(&scales), None],
    );
    refused(status, "scales is f32");
    broke(with(&x, 0, [None; 4]), "expandedRowIdx has -1, of 6 rows");
}

/// Runs the gradient. The optional operands are the experts' results, scales, the experts of slots and biases; the
/// settings the mode, the active rows, the experts and the capacity.
fn gradient(
    [mode, active, experts, capacity]: [i64; 4],
    [dy, rows, dx, d_scales]: [&Tensor; 4],
    [x, scales, of_slots, bias]: [Option<&Tensor>; 4],
) -> Status {
    call!(
        aclnnMoeFinalizeRoutingV2Grad: dy, rows, x, scales, of_slots, bias, mode, active, experts,
        capacity, dx, d_scales
    )
}

#[test]
fn gradients_go_back_to_the_rows_and_the_scales() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let (dy, scales) = (random(dtype, &[3, 4], 1), random(dtype, &[3, 2], 2));
        let (bias, experts) = (random(dtype, &[3, 4], 3), i32s(&[3, 2], &EXPERTS));
        for (settings, shape, rows) in [
            ([0, 0, 0, 0], &[6, 4][..], [3, 0, 4, 2, 5, 1]),
            ([0, 4, 0, 0], &[4, 4], [3, 0, 4, 2, 5, 1]),
            ([1, 0, 3, 2], &[3, 2, 4], [4, 0, 5, 2, -1, 1]),
        ] {
            let x = random(dtype, shape, 4);
            let count = shape.iter().product::<usize>();
            let (g, s, xs, b) = (exact(&dy), exact(&scales), exact(&x), exact(&bias));
            let (mut dxs, mut d_scales) = (vec![0.0; count], vec![0.0; 6]);
            for (slot, row) in rows.into_iter().enumerate() {
                let Some(row) = usize::try_from(row).ok().filter(|row| 4 * row < count) else {
                    continue;
                };
                for column in 0..4 {
                    let dy = g[slot / 2 * 4 + column];
                    dxs[4 * row + column] = dy * s[slot];
                    d_scales[slot] +=
                        (xs[4 * row + column] + b[4 * EXPERTS[slot] as usize + column]) * dy;
                }
            }
            let (dx, ds) = (Tensor::empty(dtype, shape), Tensor::empty(dtype, &[3, 2]));
            let optional = [Some(&x), Some(&scales), Some(&experts), Some(&bias)];
            gradient(settings, [&dy, &i32s(&[6], &rows), &dx, &ds], optional).expect("documented");
            dx.assert_close("dx", &dxs, 1e-6);
            ds.assert_close("scales", &d_scales, 1e-6);
        }
        // Without scales there is one choice, and their gradient is not written.
        let dx = Tensor::empty(dtype, &[3, 4]);
        let ds = Tensor::floats(dtype, &[1], &[9.0]);
        let rows = i32s(&[3], &[1, 2, 0]);
        gradient([0; 4], [&dy, &rows, &dx, &ds], [None; 4]).expect("documented");
        let values = dy.read();
        assert_eq!(dx.read(), [&values[8..], &values[..8]].concat());
        assert_eq!(ds.read(), [9.0]);
    }
}

#[test]
fn gradients_are_checked() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let dy = t(F32, &[3, 4]);
    let rows = i32s(&[6], &[9; 6]);
    let dx = t(F32, &[6, 4]);
    let ds = t(F32, &[3, 2]);
    let all = [&dy, &rows, &dx, &ds];
    let given = [Some(&dx), Some(&ds), None, None];
    each! { failed:
        gradient([2, 0, 0, 0], all, given), "dropPadMode is 2";
        gradient([0, -1, 0, 0], all, given), "activeNum -1";
        gradient([1, 0, 3, 0], all, given), "needs expertNum and expertCapacity";
        gradient([1, 0, 3, 2], all, given), "expandedX has the shape";
        gradient([0; 4], all, [None, Some(&ds), None, None]), "scales need expandedX";
        gradient([0; 4], [&dy, &rows, &dy, &ds], given), "gradExpandedXOut has the shape";
        gradient([0; 4], [&dy, &rows, &dx, &dy], given), "gradScalesOut has the shape";
        gradient([0; 4], all, [None; 4]), "expandedRowIdx has the shape";
    }
    each! { refused:
        gradient([0; 4], all, [Some(&t(F16, &[6, 4])), Some(&ds), None, None]), "expandedX is f16";
        gradient([0; 4], all, [Some(&dx), Some(&t(F16, &[3, 2])), None, None]), "scales is f16";
    }
    each! { broke: gradient([0; 4], all, given), "expandedRowIdx has 9, of 6 rows" }
}
