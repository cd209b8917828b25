//! Tests of the first three versions of products by group and of those that are added to f32, against f64.

use crate::common::host::List;
use crate::common::*;
use cann_emulator::abi::grouped_matmul::*;

/// Calls version 1, 2 or 3. The lists are x, weight, bias and y. The group type is of the later two.
fn grouped(
    version: i64,
    [x, weight, bias, y]: [&mut [Tensor]; 4],
    ends: Option<&[i64]>,
    [split_item, group_type]: [i64; 2],
) -> Status {
    let host = ends.map(Ints::new);
    let device = ends.map(|ends| Tensor::integers(ACL_INT64, &[ends.len()], ends));
    let (x, weight, bias, y) = (List::of(x), List::of(weight), List::of(bias), List::of(y));
    let (x, weight, bias, y) = (x.0, weight.0, bias.0, y.0);
    let host = host.as_ref().map_or(null(), |ends| ends.0.cast_const());
    let device = device
        .as_ref()
        .map_or(null(), |list| list.handle.cast_const());
    let no = null();
    match version {
        1 => call!(aclnnGroupedMatmul: x, weight, bias, no, no, no, no, host, split_item, y),
        2 => call!(
            aclnnGroupedMatmulV2: x, weight, bias, no, no, no, no, host, split_item, group_type, y
        ),
        _ => call!(
            aclnnGroupedMatmulV3: x, weight, bias, no, no, no, no, device, split_item, group_type, y
        ),
    }
}

fn product(x: &[f64], w: &[f64], [rows, depth, columns]: [usize; 3]) -> Vec<f64> {
    let at = |row: usize, column: usize| {
        (0..depth)
            .map(|k| x[row * depth + k] * w[k * columns + column])
            .sum::<f64>()
    };
    (0..rows * columns)
        .map(|place| at(place / columns, place % columns))
        .collect()
}

fn random(dtype: aclDataType, shape: &[usize], seed: u64) -> Tensor {
    Tensor::floats(dtype, shape, &noise(shape.iter().product(), seed))
}

/// The products of groups of two and three rows, with a depth of four, three columns and a bias.
struct Groups {
    x: Tensor,
    weights: [Tensor; 2],
    bias: [Tensor; 2],
    expected: Vec<f64>,
}

impl Groups {
    fn of(dtype: aclDataType) -> Self {
        let of_bias = if dtype == F16 { F16 } else { F32 };
        let x = random(dtype, &[5, 4], 1);
        let weights = [2, 3].map(|seed| random(dtype, &[4, 3], seed));
        let bias = [4, 5].map(|seed| random(of_bias, &[3], seed));
        let values = exact(&x);
        let mut expected = product(&values[..8], &exact(&weights[0]), [2, 4, 3]);
        expected.extend(product(&values[8..], &exact(&weights[1]), [3, 4, 3]));
        for (place, value) in expected.iter_mut().enumerate() {
            *value += exact(&bias[usize::from(place >= 6)])[place % 3];
        }
        Self {
            x,
            weights,
            bias,
            expected,
        }
    }

    /// Returns x as one tensor for each group.
    fn parts(&self, dtype: aclDataType) -> [Tensor; 2] {
        let values = self.x.read();
        [
            Tensor::floats(dtype, &[2, 4], &values[..8]),
            Tensor::floats(dtype, &[3, 4], &values[8..]),
        ]
    }
}

#[test]
fn every_version_multiplies_one_or_several_x() {
    let _session = Session::start();
    for dtype in [F16, BF16] {
        for version in 1..=3 {
            let mut groups = Groups::of(dtype);
            let mut y = [Tensor::empty(dtype, &[5, 3])];
            let mut x = [random(dtype, &[5, 4], 1)];
            let lists = [&mut x[..], &mut groups.weights, &mut groups.bias, &mut y];
            grouped(version, lists, Some(&[2, 5]), [2, 0]).expect("one, several, one");
            y[0].assert_close("one x", &groups.expected, 1e-6);
            // Each x is a group.
            let mut groups = Groups::of(dtype);
            let mut parts = groups.parts(dtype);
            let mut y = [Tensor::empty(dtype, &[5, 3])];
            let lists = [
                &mut parts[..],
                &mut groups.weights,
                &mut groups.bias,
                &mut y,
            ];
            grouped(version, lists, None, [3, 0]).expect("several, several, one");
            y[0].assert_close("several x", &groups.expected, 1e-6);
            // Each x has its own result.
            let mut groups = Groups::of(dtype);
            let mut parts = groups.parts(dtype);
            let mut y = [Tensor::empty(dtype, &[2, 3]), Tensor::empty(dtype, &[3, 3])];
            let lists = [
                &mut parts[..],
                &mut groups.weights,
                &mut groups.bias,
                &mut y,
            ];
            grouped(version, lists, None, [0, -1]).expect("several, several, several");
            let found = [y[0].read(), y[1].read()].concat();
            assert_close("results", &found, &groups.expected, dtype, 1e-6);
        }
    }
}

#[test]
fn version_one_writes_the_groups_of_one_x_to_several_results() {
    let _session = Session::start();
    let mut groups = Groups::of(BF16);
    let mut x = [random(BF16, &[5, 4], 1)];
    let mut y = [Tensor::empty(BF16, &[2, 3]), Tensor::empty(BF16, &[3, 3])];
    let lists = [&mut x[..], &mut groups.weights, &mut groups.bias, &mut y];
    grouped(1, lists, Some(&[2, 5]), [1, 0]).expect("documented");
    let found = [y[0].read(), y[1].read()].concat();
    assert_close("results", &found, &groups.expected, BF16, 1e-6);
    // With a result for each x, x may have more axes.
    let mut x = [random(F16, &[2, 3, 4], 6)];
    let mut weight = [random(F16, &[4, 2], 7)];
    let mut y = [Tensor::empty(F16, &[2, 3, 2])];
    let expected = product(&exact(&x[0]), &exact(&weight[0]), [6, 4, 2]);
    let lists = [&mut x[..], &mut weight, &mut [], &mut y];
    grouped(1, lists, None, [0, 0]).expect("documented");
    y[0].assert_close("axes", &expected, 1e-6);
}

#[test]
fn the_later_versions_sum_over_groups_and_take_f32() {
    let _session = Session::start();
    for version in [2, 3] {
        let stored = random(F32, &[5, 2], 8);
        let weight = random(F32, &[5, 3], 9);
        let turned = Tensor::strided(F32, &[2, 5], Some(&[1, 2]), 0, 10);
        turned.fill(&stored.read());
        let (x, w) = (exact(&stored), exact(&weight));
        let mut expected = Vec::new();
        for group in [0..2, 2..5] {
            for row in 0..2 {
                for column in 0..3 {
                    let term = |k: usize| x[k * 2 + row] * w[k * 3 + column];
                    expected.push(group.clone().map(term).sum::<f64>());
                }
            }
        }
        let mut y = [Tensor::empty(F32, &[2, 2, 3])];
        let (mut x, mut w) = ([turned], [weight]);
        let lists = [&mut x[..], &mut w, &mut [], &mut y];
        grouped(version, lists, Some(&[2, 5]), [3, 2]).expect("documented");
        y[0].assert_close("sums", &expected, 1e-6);
    }
}

#[test]
fn version_one_refuses_what_its_document_excludes() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let weights = |dtype| [t(dtype, &[4, 3]), t(dtype, &[4, 3])];
    let one = |dtype, ends: Option<&[i64]>, split, y: &mut [Tensor]| {
        let (mut x, mut w) = ([t(dtype, &[5, 4])], weights(dtype));
        grouped(1, [&mut x[..], &mut w, &mut [], y], ends, [split, 0])
    };
    let y = || [t(F16, &[5, 3])];
    each! { refused:
        one(F32, Some(&[2, 5]), 2, &mut [t(F32, &[5, 3])]), "is f32";
        one(F16, Some(&[2, 5]), 4, &mut y()), "splitItem is 4";
        one(F16, Some(&[2, 5]), 0, &mut y()), "not a documented combination";
        one(F16, Some(&[5]), 2, &mut y()), "1 ends for 2 weights";
        one(F16, Some(&[2, 4]), 2, &mut y()), "groupList ends at [2, 4]";
        one(F16, Some(&[6, 5]), 2, &mut y()), "ends of groups must not fall";
    }
    let apart = || [t(F16, &[2, 3]), t(F16, &[3, 3])];
    each! { refused: one(F16, Some(&[3, 5]), 0, &mut apart()), "groupList ends at [3, 5]" }
    let status = one(F16, None, 2, &mut y());
    fails(status, ACLNN_ERR_PARAM_NULLPTR);
    let (mut x, mut w) = ([t(F16, &[2, 4]), t(F16, &[3, 4])], weights(F16));
    let lists = [&mut x[..], &mut w, &mut [], &mut apart()];
    each! { refused: grouped(1, lists, Some(&[3, 5]), [0, 0]), "groupList ends at [3, 5]" }
}

#[test]
fn several_x_are_as_wide_as_each_other_and_one_x_has_one_matrix() {
    let _session = Session::start();
    let t = |shape: &[usize]| Tensor::empty(F16, shape);
    let (mut x, mut w) = ([t(&[2, 4]), t(&[3, 6])], [t(&[4, 5]), t(&[6, 5])]);
    let lists = [&mut x[..], &mut w, &mut [], &mut [t(&[5, 5])]];
    refused(grouped(2, lists, None, [2, 0]), "rows of 6 elements");
    let (mut x, mut w) = ([t(&[5, 4])], [t(&[3, 4, 2])]);
    let lists = [&mut x[..], &mut w, &mut [], &mut [t(&[5, 2])]];
    each! { failed:
        grouped(1, lists, None, [2, 0]), ACLNN_ERR_INNER_TILING_ERROR,
            "1 groups of 3 weights";
    }
    // Without elements in a row, results are the bias.
    let (mut x, mut w) = ([t(&[2, 0]), t(&[1, 0])], [t(&[0, 2]), t(&[0, 2])]);
    let bias = [[1.0, 2.0], [3.0, 4.0]].map(|bias| Tensor::floats(F16, &[2], &bias));
    let mut y = [t(&[3, 2])];
    let lists = [
        &mut x[..],
        &mut w,
        &mut bias.into_iter().collect::<Vec<_>>(),
        &mut y,
    ];
    grouped(2, lists, None, [2, 0]).expect("documented");
    assert_eq!(y[0].read(), [1.0, 2.0, 1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn an_optional_list_of_one_empty_tensor_is_absent() {
    let _session = Session::start();
    let mut groups = Groups::of(F16);
    let mut x = [random(F16, &[5, 4], 1)];
    let mut y = [Tensor::empty(F16, &[5, 3])];
    let mut none = [Tensor::empty(F16, &[0])];
    let lists = [&mut x[..], &mut groups.weights, &mut none, &mut y];
    grouped(2, lists, Some(&[2, 5]), [2, 0]).expect("no bias");
}

/// Calls the sum with a type of the list, or without one.
fn add(
    [x, weight, list, y]: [&Tensor; 4],
    (turn_x, turn_weight, group_type): (bool, bool, i64),
    list_type: Option<i64>,
) -> Status {
    match list_type {
        None => call!(aclnnGroupedMatmulAdd: x, weight, list, y, turn_x, turn_weight, group_type),
        Some(list_type) => call!(
            aclnnGroupedMatmulAddV2: x, weight, list, y, turn_x, turn_weight, group_type, list_type
        ),
    }
}

#[test]
fn gradients_are_added_to_f32() {
    let _session = Session::start();
    for dtype in [F16, BF16] {
        for (list, list_type) in [([2, 5], None), ([2, 5], Some(0)), ([2, 3], Some(1))] {
            let (x, weight) = (random(dtype, &[5, 2], 1), random(dtype, &[5, 3], 2));
            let y = random(F32, &[4, 3], 3);
            let (a, b, mut expected) = (exact(&x), exact(&weight), exact(&y));
            for (place, value) in expected.iter_mut().enumerate() {
                let (row, column) = (place / 3, place % 3);
                let group = if row < 2 { 0..2 } else { 2..5 };
                *value += group
                    .map(|k| a[k * 2 + row % 2] * b[k * 3 + column])
                    .sum::<f64>();
            }
            let list = Tensor::integers(ACL_INT64, &[2], &list);
            add([&x, &weight, &list, &y], (true, false, 2), list_type).expect("documented");
            y.assert_close("sums", &expected, 1e-6);
        }
    }
}

#[test]
fn sums_have_one_setting_and_fixed_dtypes() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, weight) = (t(F16, &[5, 2]), t(F16, &[5, 3]));
    let (list, y) = (Tensor::integers(ACL_INT64, &[2], &[2, 5]), t(F32, &[4, 3]));
    let all = [&x, &weight, &list, &y];
    for settings in [(false, false, 2), (true, true, 2), (true, false, 0)] {
        refused(add(all, settings, None), "they are true, false and 2");
    }
    let legal = (true, false, 2);
    each! { refused:
        add(all, legal, Some(2)), "groupListType is 2";
        add([&t(F32, &[5, 2]), &weight, &list, &y], legal, None), "x is f32";
        add([&x, &t(BF16, &[5, 3]), &list, &y], legal, None), "weight is bf16";
        add([&x, &weight, &list, &t(F16, &[4, 3])], legal, None), "yRef is f16";
    }
    let turned = Tensor::strided(F32, &[4, 3], Some(&[1, 4]), 0, 12);
    each! { refused: add([&x, &weight, &list, &turned], legal, None), "yRef must be contiguous" }
    for wrong in [[&x, &x, &list, &y], [&x, &weight, &list, &t(F32, &[2, 3])]] {
        fails(add(wrong, legal, None), ACLNN_ERR_INNER_TILING_ERROR);
    }
}
