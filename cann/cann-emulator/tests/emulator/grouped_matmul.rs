//! Tests of matrix products by group: against the goldens, and for the documented combinations.

use crate::common::goldens::Goldens;
use crate::common::host::List;
use crate::common::*;
use cann_emulator::abi::grouped_matmul::*;

struct Call {
    split_item: i64,
    group_type: i64,
    group_list_type: i64,
}

/// Calls V5, or V4 if requested.
fn grouped(
    call: &Call,
    [x, weight, bias, output]: [&mut [Tensor]; 4],
    list: Option<&Tensor>,
    v4: bool,
) -> Status {
    // V4 gets empty lists for those that are absent, and V5 NULL.
    let bias = (v4 || !bias.is_empty()).then(|| List::of(bias));
    let empty = List::of(&mut []);
    let (x, weight, output) = (List::of(x), List::of(weight), List::of(output));
    let bias = bias.as_ref();
    let Call {
        split_item,
        group_type,
        group_list_type,
    } = *call;
    if v4 {
        call!(
            aclnnGroupedMatmulV4: x, weight, bias, empty, empty, empty, empty, empty, list, empty,
            empty, empty, split_item, group_type, group_list_type, 0, output, null_mut(), null_mut()
        )
    } else {
        call!(
            aclnnGroupedMatmulV5: x, weight, bias, null(), null(), null(), null(), null(), list,
            null(), null(), null(), split_item, group_type, group_list_type, 0, null_mut(), output,
            null_mut(), null_mut()
        )
    }
}

const ROWS: Call = Call {
    split_item: 2,
    group_type: 0,
    group_list_type: 1,
};
const DEPTH: Call = Call {
    split_item: 3,
    group_type: 2,
    group_list_type: 1,
};

/// Calls the products as LLaMA-Factory does: y, dx with transposed views of the weights, dw with a transposed view of
/// x.
#[test]
fn forward_and_gradients_are_those_of_the_goldens() {
    let _session = Session::start();
    let goldens = Goldens::open("grouped_matmul");
    for case in goldens.cases("group_sizes") {
        let dtype = case.dtype("x");
        let [tokens, depth] = case.shape("x")[..] else {
            panic!("two axes")
        };
        let [groups, _, columns] = case.shape("w")[..] else {
            panic!("three axes")
        };
        let sizes = Tensor::integers(ACL_INT64, &[groups], &case.integers("group_sizes"));
        let floats = |part: &str, shape: &[usize]| Tensor::floats(dtype, shape, &case.floats(part));
        let view = |part: &str, shape: &[usize], strides: &[i64]| {
            let view = Tensor::strided(dtype, shape, Some(strides), 0, shape.iter().product());
            view.fill(&case.floats(part));
            view
        };
        for v4 in [true, false] {
            let mut x = [floats("x", &[tokens, depth])];
            let mut weight = [floats("w", &[groups, depth, columns])];
            let mut y = [Tensor::empty(dtype, &[tokens, columns])];
            grouped(
                &ROWS,
                [&mut x, &mut weight, &mut [], &mut y],
                Some(&sizes),
                v4,
            )
            .expect(&case);
            y[0].assert_close(&case, &case.exact("ref.y"), 2e-6);
        }
        let (matrix, wide) = ((depth * columns) as i64, columns as i64);
        let mut dy = [floats("dy", &[tokens, columns])];
        let mut turned = [view("w", &[groups, columns, depth], &[matrix, 1, wide])];
        let mut dx = [Tensor::empty(dtype, &[tokens, depth])];
        grouped(
            &ROWS,
            [&mut dy, &mut turned, &mut [], &mut dx],
            Some(&sizes),
            false,
        )
        .expect(&case);
        dx[0].assert_close(&case, &case.exact("ref.dx"), 2e-6);

        let mut x = [view("x", &[depth, tokens], &[1, depth as i64])];
        let mut dy = [floats("dy", &[tokens, columns])];
        let mut dw = [Tensor::empty(dtype, &[groups, depth, columns])];
        grouped(
            &DEPTH,
            [&mut x, &mut dy, &mut [], &mut dw],
            Some(&sizes),
            false,
        )
        .expect(&case);
        dw[0].assert_close(&case, &case.exact("ref.dw"), 2e-6);
    }
}

/// Computes x · w + bias in f64.
fn exact(x: &[f32], w: &[f32], bias: Option<&[f32]>, depth: usize, columns: usize) -> Vec<f64> {
    let rows = x.chunks(depth);
    rows.flat_map(|row| {
        (0..columns).map(move |column| {
            let products = row.iter().enumerate();
            let sum: f64 = products
                .map(|(at, x)| f64::from(*x) * f64::from(w[at * columns + column]))
                .sum();
            sum + bias.map_or(0.0, |bias| f64::from(bias[column]))
        })
    })
    .collect()
}

#[test]
fn several_tensors_go_each_with_its_own() {
    let _session = Session::start();
    let call = Call {
        split_item: 0,
        group_type: -1,
        group_list_type: 0,
    };
    for (dtype, of_bias) in [(F32, F32), (F16, F16), (BF16, F32)] {
        let sizes = [(2, 3, 4), (1, 5, 2)];
        let mut x = sizes.map(|(m, k, _)| Tensor::floats(dtype, &[m, k], &noise(m * k, 1)));
        let mut w = sizes.map(|(_, k, n)| Tensor::floats(dtype, &[k, n], &noise(k * n, 2)));
        let mut bias = sizes.map(|(_, _, n)| Tensor::floats(of_bias, &[n], &noise(n, 3)));
        let mut y = sizes.map(|(m, _, n)| Tensor::empty(dtype, &[m, n]));
        grouped(&call, [&mut x, &mut w, &mut bias, &mut y], None, false).expect("documented");
        for (at, (_, k, n)) in sizes.into_iter().enumerate() {
            let exact = exact(&x[at].read(), &w[at].read(), Some(&bias[at].read()), k, n);
            y[at].assert_close("y", &exact, 1e-6);
        }
    }
}

#[test]
fn ends_and_counts_say_the_same_and_rows_after_the_last_are_not_written() {
    let _session = Session::start();
    let mut results = Vec::new();
    for (group_list_type, list) in [(0, [2, 2, 5]), (1, [2, 0, 3])] {
        let list = Tensor::integers(ACL_INT64, &[3], &list);
        let mut x = [Tensor::floats(F32, &[7, 4], &noise(28, 1))];
        let mut w = [0, 1, 2].map(|at| Tensor::floats(F32, &[4, 2], &noise(8, 10 + at)));
        let mut y = [Tensor::empty(F32, &[7, 2])];
        let call = Call {
            group_list_type,
            ..ROWS
        };
        grouped(&call, [&mut x, &mut w, &mut [], &mut y], Some(&list), true).expect("documented");
        let found = y[0].read();
        let (values, x) = (found[..10].to_vec(), x[0].read());
        assert!(
            found[10..].iter().all(|value| value.is_nan()),
            "rows 5 and 6 are nobody's"
        );
        let mut expected = exact(&x[..8], &w[0].read(), None, 4, 2);
        expected.extend(exact(&x[8..20], &w[2].read(), None, 4, 2));
        assert_close("y", &values, &expected, F32, 1e-6);
        results.push(values);
    }
    assert_eq!(results[0], results[1]);
}

#[test]
fn several_x_are_groups_by_themselves() {
    let _session = Session::start();
    let mut x = [2, 3].map(|rows| Tensor::floats(F32, &[rows, 4], &noise(rows * 4, 1)));
    let mut w = [1, 2].map(|seed| Tensor::floats(F32, &[4, 2], &noise(8, seed)));
    let mut y = [Tensor::empty(F32, &[5, 2])];
    grouped(&ROWS, [&mut x, &mut w, &mut [], &mut y], None, false).expect("documented");
    let mut expected = exact(&x[0].read(), &w[0].read(), None, 4, 2);
    expected.extend(exact(&x[1].read(), &w[1].read(), None, 4, 2));
    y[0].assert_close("y", &expected, 1e-6);
}

#[test]
fn what_the_documentation_does_not_allow_is_refused() {
    let _session = Session::start();
    let list = Tensor::integers(ACL_INT64, &[2], &[1, 1]);
    let t = |dtype, shape: &[usize]| [Tensor::empty(dtype, shape)];
    let rows = |call: &Call, x: [Tensor; 1], w: [Tensor; 1], list: Option<&Tensor>| {
        let (mut x, mut w, mut y) = (x, w, t(F32, &[2, 2]));
        let status = grouped(call, [&mut x, &mut w, &mut [], &mut y], list, false);
        status.map_err(|(code, _)| code)
    };
    let invalid = Err(ACLNN_ERR_PARAM_INVALID);
    let (x, w) = (|| t(F32, &[2, 4]), || t(F32, &[2, 4, 2]));
    assert_eq!(rows(&ROWS, x(), w(), Some(&list)), Ok(()));
    assert_eq!(rows(&ROWS, x(), w(), None), Err(ACLNN_ERR_PARAM_NULLPTR));
    assert_eq!(
        rows(&ROWS, x(), t(F16, &[2, 4, 2]), Some(&list)),
        invalid,
        "dtypes differ"
    );
    assert_eq!(
        rows(&ROWS, x(), t(F32, &[2, 3, 2]), Some(&list)),
        invalid,
        "the axis between"
    );
    assert_eq!(
        rows(&ROWS, x(), t(F32, &[4, 2]), Some(&list)),
        invalid,
        "one weight of two axes"
    );
    each! { assert_same:
        rows(&Call { group_type: 1, ..ROWS }, x(), w(), Some(&list)), invalid;
        rows(&Call { group_list_type: 2, ..ROWS }, x(), w(), Some(&list)), invalid;
        rows(&Call { split_item: 0, ..ROWS }, x(), w(), Some(&list)), invalid;
        rows(&Call { group_type: -1, split_item: 0, ..ROWS }, x(), w(), Some(&list)), invalid;
    }
    let view = [Tensor::strided(F32, &[2, 4], Some(&[8, 1]), 0, 16)];
    assert_eq!(rows(&ROWS, view, w(), Some(&list)), invalid, "a view of x");
    let short = Tensor::integers(ACL_INT32, &[2], &[1, 1]);
    assert_eq!(
        rows(&ROWS, x(), w(), Some(&short)),
        invalid,
        "groups of i32"
    );
    // For the gradient of the weights, x must be transposed.
    let (mut x, mut dy, mut dw) = (t(F32, &[4, 2]), t(F32, &[2, 2]), t(F32, &[2, 4, 2]));
    let status = grouped(
        &DEPTH,
        [&mut x, &mut dy, &mut [], &mut dw],
        Some(&list),
        false,
    );
    assert!(
        status
            .expect_err("x is not transposed")
            .1
            .contains("a transposed view")
    );
}

#[test]
fn groups_that_go_past_the_rows_break_the_stream() {
    for list in [[1, 2], [3, -1]] {
        // A broken stream stays broken, so each case has its own session.
        let _session = Session::start();
        let list = Tensor::integers(ACL_INT64, &[2], &list);
        let mut x = [Tensor::floats(F32, &[2, 4], &noise(8, 1))];
        let mut w = [Tensor::floats(F32, &[2, 4, 2], &noise(16, 1))];
        let mut y = [Tensor::empty(F32, &[2, 2])];
        let status = grouped(&ROWS, [&mut x, &mut w, &mut [], &mut y], Some(&list), false);
        broke(status, "groupList is invalid");
    }
}
