//! Tests of the routing of tokens: against the goldens, and their documented limits.

use crate::common::goldens::Goldens;
use crate::common::*;
use cann_emulator::abi::moe::*;

fn permute(
    tokens: &Tensor,
    indices: &Tensor,
    count: i64,
    permuted: &Tensor,
    rows: &Tensor,
) -> Status {
    call!(aclnnMoeTokenPermute: tokens, indices, count, false, permuted, rows)
}

fn permute_grad(dpermuted: &Tensor, rows: &Tensor, choices: usize, output: &Tensor) -> Status {
    call!(aclnnMoeTokenPermuteGrad: dpermuted, rows, choices as i64, false, output)
}

fn unpermute(permuted: &Tensor, rows: &Tensor, probs: Option<&Tensor>, output: &Tensor) -> Status {
    call!(aclnnMoeTokenUnpermute: permuted, rows, probs, false, null(), output)
}

fn unpermute_grad(
    [permuted, dout, rows]: [&Tensor; 3],
    probs: Option<&Tensor>,
    [dpermuted, dprobs]: [&Tensor; 2],
) -> Status {
    call!(
        aclnnMoeTokenUnpermuteGrad: permuted, dout, rows, probs, false, null(), dpermuted,
        dprobs
    )
}

#[test]
fn there_and_back_are_those_of_the_goldens() {
    let _session = Session::start();
    let goldens = Goldens::open("moe_permute");
    for case in goldens.cases("row_map") {
        let (shape, choice) = (case.shape("tokens"), case.shape("indices"));
        let dtype = case.dtype("tokens");
        let (count, width, choices) = (shape[0], shape[1], choice[1]);
        let slots = count * choices;
        let floats = |part: &str, shape: &[usize]| Tensor::floats(dtype, shape, &case.floats(part));

        let tokens = floats("tokens", &shape);
        let indices = Tensor::integers(ACL_INT64, &choice, &case.integers("indices"));
        let permuted = Tensor::empty(dtype, &[slots, width]);
        let rows = Tensor::empty(ACL_INT32, &[slots]);
        permute(&tokens, &indices, slots as i64, &permuted, &rows).expect(&case);
        let map = case.integers("row_map");
        assert_eq!(rows.read_integers(), map, "{}", &*case);
        let (moved, source) = (permuted.read(), tokens.read());
        for (slot, row) in map.iter().enumerate() {
            let (row, token) = (*row as usize, slot / choices);
            assert_eq!(
                moved[row * width..][..width],
                source[token * width..][..width],
                "{}",
                &*case
            );
        }

        let out = Tensor::empty(dtype, &shape);
        let dpermuted = floats("d_permuted", &[slots, width]);
        permute_grad(&dpermuted, &rows, choices, &out).expect(&case);
        out.assert_close(&case, &case.exact("ref.permute.d_tokens"), 1e-6);

        let experts = floats("expert_out", &[slots, width]);
        let probs = floats("probs", &choice);
        unpermute(&experts, &rows, Some(&probs), &out).expect(&case);
        out.assert_close(&case, &case.exact("ref.unpermute.out"), 1e-6);

        let dout = floats("d_out", &shape);
        let dexperts = Tensor::empty(dtype, &[slots, width]);
        let dprobs = Tensor::empty(dtype, &choice);
        unpermute_grad([&experts, &dout, &rows], Some(&probs), [&dexperts, &dprobs]).expect(&case);
        let exact = case.exact("ref.unpermute.d_expert_out");
        dexperts.assert_close(&case, &exact, 1e-6);
        let exact = case.exact("ref.unpermute.d_probs");
        dprobs.assert_close(&case, &exact, 1e-6);

        if choices == 1 {
            unpermute(&experts, &rows, None, &out).expect(&case);
            let exact = case.exact("ref.unpermute_noprobs.out");
            out.assert_close(&case, &exact, 1e-6);
        }
    }
}

#[test]
fn fewer_rows_are_the_first_ones() {
    let _session = Session::start();
    let tokens = Tensor::floats(F32, &[3, 1], &[1.0, 2.0, 3.0]);
    let indices = Tensor::integers(ACL_INT32, &[3, 2], &[1, 0, 0, 2, 1, 1]);
    let rows = Tensor::empty(ACL_INT32, &[6]);
    // The experts are 0, 0, 1, 1, 1, 2, of the tokens 0, 1, 0, 2, 2, 1.
    let all = [1.0, 2.0, 1.0, 3.0, 3.0, 2.0];
    for (wanted, kept) in [(4, 4), (-2, 4), (0, 6), (9, 6)] {
        let permuted = Tensor::empty(F32, &[kept, 1]);
        permute(&tokens, &indices, wanted, &permuted, &rows).expect("documented");
        assert_eq!(permuted.read(), all[..kept]);
        assert_eq!(rows.read_integers(), [2, 0, 1, 5, 3, 4]);
    }
}

#[test]
fn what_the_documentation_does_not_allow_is_refused() {
    let _session = Session::start();
    let (tokens, permuted) = (Tensor::empty(F32, &[2, 4]), Tensor::empty(F32, &[2, 4]));
    let indices = Tensor::integers(ACL_INT32, &[2], &[1, 0]);
    let rows = Tensor::empty(ACL_INT32, &[2]);
    let float_rows = Tensor::empty(F32, &[2]);
    fails(
        permute(&tokens, &float_rows, 2, &permuted, &rows),
        ACLNN_ERR_PARAM_INVALID,
    );
    fails(
        permute(&tokens, &indices, 1, &permuted, &rows),
        ACLNN_ERR_INNER_TILING_ERROR,
    );
    let padded = call!(aclnnMoeTokenPermute: tokens, indices, 2, true, permuted, rows);
    fails(padded, ACLNN_ERR_INNER_TILING_ERROR);
    let negative = Tensor::integers(ACL_INT32, &[2], &[1, -1]);
    each! { broke: permute(&tokens, &negative, 2, &permuted, &rows), "negative" }
}

#[test]
fn rows_that_are_no_permutation_break_the_stream() {
    let _session = Session::start();
    let (permuted, out) = (Tensor::empty(F32, &[2, 4]), Tensor::empty(F32, &[2, 4]));
    let rows = Tensor::integers(ACL_INT32, &[2], &[1, 1]);
    broke(
        unpermute(&permuted, &rows, None, &out),
        "must be a permutation",
    );
}

/// A published example has indices that are the bits of floats.
#[test]
fn rows_beyond_the_end_count_as_nothing() {
    let _session = Session::start();
    let permuted = Tensor::floats(F32, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let bits = i64::from(1.0f32.to_bits());
    let rows = Tensor::integers(ACL_INT32, &[2], &[0, bits]);
    let probs = Tensor::floats(F32, &[1, 2], &[1.0, 1.0]);
    let out = Tensor::empty(F32, &[1, 2]);
    unpermute(&permuted, &rows, Some(&probs), &out).expect("published");
    assert_eq!(out.read(), [1.0, 2.0]);
}

/// Computes the choice for one token's scores in f64: probabilities in falling order, the first of equal ones first.
fn exact_choice(x: &[f32], k: usize, before: bool) -> (Vec<f64>, Vec<i64>) {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|a, b| x[*b].total_cmp(&x[*a]));
    order.truncate(k);
    let over: Vec<usize> = if before {
        order.clone()
    } else {
        (0..x.len()).collect()
    };
    let total: f64 = over.iter().map(|at| f64::from(x[*at]).exp()).sum();
    let values = order
        .iter()
        .map(|at| f64::from(x[*at]).exp() / total)
        .collect();
    (values, order.into_iter().map(|at| at as i64).collect())
}

#[test]
fn experts_are_chosen_as_in_f64() {
    let _session = Session::start();
    let (tokens, experts, k) = (5, 12, 3);
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[tokens, experts], &noise(tokens * experts, 7));
        let values = x.read();
        let shape = [tokens, k];
        let y = Tensor::empty(dtype, &shape);
        let places = Tensor::empty(ACL_INT32, &shape);
        let rows = Tensor::empty(ACL_INT32, &shape);
        call!(aclnnMoeGatingTopKSoftmax: x, null(), k as i64, y, places, rows).expect("documented");
        let exact: Vec<_> = values
            .chunks(experts)
            .map(|row| exact_choice(row, k, false))
            .collect();
        let weights: Vec<f64> = exact
            .iter()
            .flat_map(|(values, _)| values.clone())
            .collect();
        let chosen: Vec<i64> = exact
            .iter()
            .flat_map(|(_, places)| places.clone())
            .collect();
        y.assert_close("y", &weights, 1e-6);
        assert_eq!(places.read_integers(), chosen);
        // k·T + t
        let numbers: Vec<i64> = (0..tokens)
            .flat_map(|t| (0..k).map(move |k| (k * 5 + t) as i64))
            .collect();
        assert_eq!(rows.read_integers(), numbers);

        for renorm in [0, 1] {
            let softmax = Tensor::empty(F32, &[tokens, experts]);
            call!(
                aclnnMoeGatingTopKSoftmaxV2: x, null(), k as i64, renorm, renorm == 0, y, places,
                softmax
            )
            .expect("documented");
            let exact = values
                .chunks(experts)
                .flat_map(|row| exact_choice(row, k, renorm == 1).0);
            y.assert_close("V2", &exact.collect::<Vec<_>>(), 1e-6);
            assert_eq!(places.read_integers(), chosen);
            let total: f32 = softmax.read()[..experts].iter().sum();
            assert_eq!(
                total.is_nan(),
                renorm == 1,
                "all of the softmax is there only before the choice"
            );
        }
    }
}

#[test]
fn equals_are_chosen_in_order_and_finished_tokens_choose_nobody() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[2, 4], &[1.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 9.0]);
    let finished = Tensor::integers(ACL_BOOL, &[2], &[0, 1]);
    let y = Tensor::empty(F32, &[2, 2]);
    let places = Tensor::empty(ACL_INT32, &[2, 2]);
    let rows = Tensor::empty(ACL_INT32, &[2, 2]);
    call!(aclnnMoeGatingTopKSoftmax: x, finished, 2, y, places, rows).expect("documented");
    assert_eq!(places.read_integers(), [1, 2, 4, 4]);
}

#[test]
fn ascend_950_has_no_such_choice() {
    let _session = Session::on("Ascend950PR");
    let (x, y) = (Tensor::empty(F32, &[2, 4]), Tensor::empty(F32, &[2, 2]));
    let places = Tensor::empty(ACL_INT32, &[2, 2]);
    let rows = Tensor::empty(ACL_INT32, &[2, 2]);
    let status = call!(aclnnMoeGatingTopKSoftmax: x, null(), 2, y, places, rows);
    fails(status, ACLNN_ERR_INNER_FIND_KERNEL_ERROR);
}

#[test]
fn tokens_may_have_more_axes_which_count_as_one() {
    let _session = Session::start();
    let tokens = Tensor::floats(F32, &[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let indices = Tensor::integers(ACL_INT32, &[2], &[1, 0]);
    let (permuted, rows) = (Tensor::empty(F32, &[2, 4]), Tensor::empty(ACL_INT32, &[2]));
    permute(&tokens, &indices, 0, &permuted, &rows).expect("documented");
    assert_eq!(permuted.read(), [5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn no_expert_may_be_chosen_and_more_than_there_are_may_not() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[2, 4], &noise(8, 1));
    let choose = |k: usize| {
        let shape = [2, k];
        let (y, places) = (Tensor::empty(F32, &shape), Tensor::empty(ACL_INT32, &shape));
        let softmax = Tensor::empty(F32, &[2, 4]);
        let finished = Tensor::integers(ACL_BOOL, &[2], &[0, 1]);
        let status = call!(
            aclnnMoeGatingTopKSoftmaxV2: x, finished, k as i64, 0, true, y, places, softmax
        );
        status
            .map(|()| softmax.read().iter().sum::<f32>())
            .map_err(|(code, _)| code)
    };
    assert!((choose(0).expect("documented") - 2.0).abs() < 1e-6);
    assert_eq!(choose(5), Err(ACLNN_ERR_INNER_TILING_ERROR));
}
