//! Tests of copies of tokens in the order of their experts, versions 1 and 2, and of the gradient.

use crate::common::*;
use cann_emulator::abi::moe::*;

fn i32s(shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::integers(ACL_INT32, shape, values)
}

const TILING: i32 = ACLNN_ERR_INNER_TILING_ERROR;
const INNER: i32 = ACLNN_ERR_INNER_NULLPTR;

fn first(active: i64, [x, rows, experts, expanded, of_slots, sorted]: [&Tensor; 6]) -> Status {
    call!(aclnnMoeInitRouting: x, rows, experts, active, expanded, of_slots, sorted)
}

#[test]
fn version_one_numbers_the_choices_along_the_tokens() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[3, 2], &noise(6, 1));
        // The published example.
        let rows = i32s(&[3, 2], &[0, 3, 1, 4, 2, 5]);
        let experts = i32s(&[3, 2], &[1, 2, 0, 1, 0, 2]);
        for (active, tokens) in [
            (3, [1, 2, 0, 1, 0, 2]),
            (1, [1, 2, 0, 0, 0, 0]),
            (9, [1, 2, 0, 1, 0, 2]),
        ] {
            let kept = 2 * (active as usize).min(3);
            let expanded = Tensor::empty(dtype, &[kept, 2]);
            let (of_slots, sorted) = (i32s(&[6], &[0; 6]), i32s(&[6], &[0; 6]));
            first(active, [&x, &rows, &experts, &expanded, &of_slots, &sorted])
                .expect("documented");
            let values = x.read();
            let copies: Vec<f32> = tokens[..kept]
                .iter()
                .flat_map(|token| [values[2 * token], values[2 * token + 1]])
                .collect();
            assert_eq!(expanded.read(), copies);
            assert_eq!(of_slots.read_integers(), [2, 0, 1, 4, 3, 5]);
            assert_eq!(sorted.read_integers(), [0, 0, 1, 1, 2, 2]);
        }
    }
}

#[test]
fn version_one_checks_shapes_as_tiling_does() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, slots) = (t(F32, &[3, 2]), t(ACL_INT32, &[6]));
    let (rows, y) = (t(ACL_INT32, &[3, 2]), t(F32, &[6, 2]));
    let with = |at: usize, other: &Tensor, active| {
        let mut all = [&x, &rows, &rows, &y, &slots, &slots];
        all[at] = other;
        first(active, all)
    };
    each! { failed:
        with(0, &t(F32, &[6]), 3), TILING, "x has 1 axes";
        with(1, &slots, 3), TILING, "rowIdx has the shape";
        with(0, &x, -1), TILING, "activeNum is -1";
        with(3, &y, 2), TILING, "expandedXOut has the shape";
        with(4, &t(ACL_INT32, &[3, 2]), 3), TILING, "expandedRowIdxOut has the shape";
        with(5, &t(ACL_INT32, &[5]), 3), TILING, "expandedExpertIdxOut has the shape";
    }
    refused(with(2, &t(ACL_INT64, &[3, 2]), 3), "expertIdx is i64");
    refused(with(3, &t(F16, &[6, 2]), 3), "expandedXOut is f16");
    refused(with(0, &t(ACL_INT32, &[3, 2]), 3), "x is i32");
    let twice = i32s(&[3, 2], &[0, 0, 1, 4, 2, 5]);
    broke(with(1, &twice, 3), "rowIdx has 0 twice");
}

/// The attributes of version 2: active, capacity, experts, mode, counts and counts before the capacity.
type Attributes = (i64, i64, i64, i64, i64, bool);

fn second(
    (active, capacity, experts, mode, counts, before): Attributes,
    [x, of_experts, expanded, rows]: [&Tensor; 4],
    [counted, early]: [Option<&Tensor>; 2],
) -> Status {
    call!(
        aclnnMoeInitRoutingV2: x, of_experts, active, capacity, experts, mode, counts, before,
        expanded, rows, counted, early
    )
}

/// Returns the rows of x that a list names, zeros for none.
fn named(x: &Tensor, width: usize, rows: &[Option<usize>]) -> Vec<f32> {
    let values = x.read();
    let row = |row: &Option<usize>| match row {
        Some(row) => values[row * width..][..width].to_vec(),
        None => vec![0.0; width],
    };
    rows.iter().flat_map(row).collect()
}

#[test]
fn version_two_keeps_all_or_the_first_or_a_capacity() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[3, 2], &noise(6, 2));
        let experts = i32s(&[3, 2], &[2, 0, 2, 1, 2, 0]);
        let order = [0, 2, 1, 0, 1, 2].map(Some);
        let rows = i32s(&[6], &[0; 6]);
        for (counts, expected) in [(1, [2, 3, 6, 6]), (2, [2, 1, 3, 0])] {
            let (y, counted) = (Tensor::empty(dtype, &[6, 2]), i32s(&[4], &[9; 4]));
            let tensors = [&x, &experts, &y, &rows];
            second((0, 0, 4, 0, counts, false), tensors, [Some(&counted), None]).expect("all");
            assert_eq!(y.read(), named(&x, 2, &order));
            assert_eq!(rows.read_integers(), [3, 0, 4, 2, 5, 1]);
            assert_eq!(counted.read_integers(), expected);
        }
        let y = Tensor::empty(dtype, &[4, 2]);
        second((4, 0, 0, 0, 0, false), [&x, &experts, &y, &rows], [None; 2]).expect("the first");
        assert_eq!(y.read(), named(&x, 2, &order[..4]));
        let (y, early) = (Tensor::empty(dtype, &[3, 2, 2]), i32s(&[3], &[9; 3]));
        let tensors = [&x, &experts, &y, &rows];
        second((0, 2, 3, 1, 0, true), tensors, [None, Some(&early)]).expect("a capacity");
        let padded = [Some(0), Some(2), Some(1), None, Some(0), Some(1)];
        assert_eq!(y.read(), named(&x, 2, &padded));
        assert_eq!(rows.read_integers(), [4, 0, 5, 2, -1, 1]);
        assert_eq!(early.read_integers(), [2, 1, 3]);
    }
}

#[test]
fn version_two_checks_its_attributes() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, experts, y) = (t(F32, &[3, 2]), i32s(&[3, 2], &[0; 6]), t(F32, &[6, 2]));
    let (rows, counted) = (t(ACL_INT32, &[6]), t(ACL_INT32, &[4]));
    let call = |attributes| second(attributes, [&x, &experts, &y, &rows], [Some(&counted); 2]);
    for wrong in [
        (-1, 0, 4, 0, 0, false),
        (0, 0, -1, 0, 0, false),
        (0, 0, 4, 2, 0, false),
        (0, 0, 4, 0, 3, false),
    ] {
        failed(call(wrong), INNER, "is out of range");
    }
    each! { failed:
        call((0, 4, 4, 1, 0, false)), INNER, "at most 3 tokens";
        call((0, 2, 0, 1, 0, false)), INNER, "are positive";
        call((0, 0, 0, 0, 1, false)), INNER, "counts need";
        call((0, 1, 4, 1, 2, false)), INNER, "counts need";
        call((0, 0, 4, 0, 0, true)), INNER, "needs dropPadMode 1";
        call((4, 0, 0, 0, 0, false)), INNER, "expandedXOut has the shape";
        call((0, 0, 3, 0, 1, false)), INNER, "has the shape [4]";
    }
    let missing = second((0, 0, 4, 0, 1, false), [&x, &experts, &y, &rows], [None; 2]);
    fails(missing, ACLNN_ERR_PARAM_NULLPTR);
    let half = t(F16, &[6, 2]);
    each! { refused:
        second((0, 0, 4, 0, 0, false), [&x, &experts, &half, &rows], [None; 2]),
            "expandedXOut is f16";
    }
    let beyond = i32s(&[3, 2], &[0, 1, 2, 3, 4, 0]);
    let tensors = [&x, &beyond, &y, &rows];
    let status = second((0, 0, 4, 0, 1, false), tensors, [Some(&counted), None]);
    broke(status, "not less than expertNum");
}

fn gradient([top_k, mode, active]: [i64; 3], [dy, rows, dx]: [&Tensor; 3]) -> Status {
    call!(aclnnMoeInitRoutingV2Grad: dy, rows, top_k, mode, active, dx)
}

#[test]
fn gradients_are_the_sums_of_the_copies() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        for (rows, shape, settings) in [
            ([3, 0, 4, 2, 5, 1], &[6, 2][..], [2, 0, 0]),
            ([3, 0, 4, 2, 5, 1], &[4, 2], [2, 0, 4]),
            ([4, 0, 5, 2, -1, 1], &[3, 2, 2], [2, 1, 0]),
        ] {
            let count = shape.iter().product::<usize>();
            let dy = Tensor::floats(dtype, shape, &noise(count, 3));
            let values = exact(&dy);
            let row = |row: i64, column: usize| {
                let place = usize::try_from(row).ok().map(|row| row * 2 + column);
                place
                    .and_then(|place| values.get(place))
                    .copied()
                    .unwrap_or(0.0)
            };
            let expected: Vec<f64> = (0..6)
                .map(|place| (place / 2, place % 2))
                .map(|(token, column)| {
                    row(rows[2 * token], column) + row(rows[2 * token + 1], column)
                })
                .collect();
            let dx = Tensor::empty(dtype, &[3, 2]);
            gradient(settings, [&dy, &i32s(&[6], &rows), &dx]).expect("documented");
            dx.assert_close("dx", &expected, 1e-6);
        }
    }
}

#[test]
fn gradients_are_checked() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (dy, rows, dx) = (t(F32, &[6, 2]), i32s(&[6], &[-1; 6]), t(F32, &[3, 2]));
    let all = [&dy, &rows, &dx];
    for wrong in [[0, 0, 0], [4, 0, 0], [2, 2, 0], [2, 0, -1]] {
        failed(gradient(wrong, all), INNER, "is out of range");
    }
    failed(gradient([2, 0, 4], all), INNER, "it has 4 rows");
    failed(gradient([2, 1, 0], all), INNER, "three axes");
    failed(gradient([3, 0, 0], all), INNER, "out has the shape");
    each! { refused:
        gradient([2, 0, 0], [&dy, &rows, &t(F16, &[3, 2])]), "out is f16";
        gradient([2, 0, 0], [&dy, &t(ACL_INT64, &[6]), &dx]), "expandedRowIdx is i64";
    }
    broke(gradient([2, 0, 0], all), "has a negative row");
}

fn tokens(experts: &Tensor, count: i64, out: &Tensor) -> Status {
    call!(aclnnMoeComputeExpertTokens: experts, count, out)
}

#[test]
fn ends_of_experts_are_found_among_sorted_ones() {
    let _session = Session::start();
    let out = i32s(&[4], &[0; 4]);
    tokens(&i32s(&[6], &[0, 0, 1, 3, 3, 3]), 4, &out).expect("documented");
    assert_eq!(out.read_integers(), [2, 3, 3, 6]);
    let sorted = i32s(&[6], &[0, 2, 1, 3, 3, 3]);
    each! { failed:
        tokens(&i32s(&[2, 3], &[0; 6]), 4, &out), TILING, "it takes one axis";
        tokens(&sorted, 0, &out), TILING, "numExperts is 0";
        tokens(&sorted, 2049, &out), TILING, "numExperts is 2049";
        tokens(&sorted, 5, &out), TILING, "out has the shape";
    }
    each! { refused: tokens(&Tensor::empty(ACL_INT64, &[6]), 4, &out), "sortedExperts is i64" }
    broke(tokens(&sorted, 4, &out), "does not ascend");
}
