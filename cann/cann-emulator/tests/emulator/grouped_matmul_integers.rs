//! Tests of products of i8 by group, against whole numbers and f64.

use crate::common::few_bits::signed_bytes;
use crate::common::grouped::{
    GROUPS, Grouped, OF_ROWS, ROWS, Values, list_of, read_bytes, turned_bytes, wide_scales,
};
use crate::common::*;

/// Rounds to i8 with ties to even, and saturates.
fn to_byte(value: f64) -> i64 {
    value.round_ties_even().clamp(-128.0, 127.0) as i64
}

#[test]
fn sums_are_exact_and_bytes_are_rounded_and_saturate() {
    let _session = Session::start();
    let mut values = Values::new();
    values.scale.iter_mut().for_each(|scale| *scale *= 8.0);
    for version in [4, 5] {
        for with_bias in [false, true] {
            let bias = || if with_bias { values.bias() } else { Vec::new() };
            let mut call = values.call(ACL_INT32);
            let untouched = call.y[0].read_integers()[15..].to_vec();
            call.bias = bias();
            call.call(version).expect("documented");
            let found = call.y[0].read_integers();
            assert_eq!(found[..15], values.sums(&OF_ROWS, with_bias));
            assert_eq!(found[15..], untouched, "rows 5 and 6 are nobody's");

            let mut call = values.call(ACL_INT8);
            let untouched = read_bytes(&call.y[0])[15..].to_vec();
            call.bias = bias();
            call.scale = vec![values.scale(ACL_INT8)];
            call.call(version).expect("documented");
            let found = read_bytes(&call.y[0]);
            let scaled = values.scaled(&OF_ROWS, with_bias);
            let expected: Vec<i64> = scaled.into_iter().map(to_byte).collect();
            assert!(expected.contains(&127) && expected.contains(&-128));
            assert!(expected.iter().any(|value| value.abs() < 127));
            assert_eq!(found[..15], expected);
            assert_eq!(found[15..], untouched, "rows 5 and 6 are nobody's");
        }
    }
}

/// Returns three bytes with a sum.
fn thirds(sum: i64) -> [i64; 3] {
    [
        sum / 3,
        (sum - sum / 3) / 2,
        sum - sum / 3 - (sum - sum / 3) / 2,
    ]
}

#[test]
fn half_a_step_is_rounded_to_even() {
    let _session = Session::start();
    let steps = [1, 3, 5, -1, -3, 2, 255, -257];
    let y = Tensor::empty(ACL_INT8, &[8, 1]);
    let mut call = Grouped {
        x: vec![signed_bytes(&[8, 3], &steps.map(thirds).concat())],
        weight: vec![signed_bytes(&[1, 3, 1], &[1, 1, 1])],
        scale: vec![wide_scales(&[1, 1], &[0.5])],
        y: vec![y],
        list: Some(list_of(&[8], false)),
        split_item: 3,
        ..Grouped::default()
    };
    call.call(5).expect("documented");
    assert_eq!(read_bytes(&call.y[0]), [0, 2, 2, 0, -2, 1, 127, -128]);
}

/// Returns the activation of a type.
fn activated(activation: i64, x: f64) -> f64 {
    let tanh = ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh();
    match activation {
        0 => x,
        1 => x.max(0.0),
        2 => x / 2.0 * (1.0 + tanh),
        4 => x / (1.0 + (-1.702 * x).exp()),
        5 => x / (1.0 + (-x).exp()),
        _ => panic!("unknown activation {activation}"),
    }
}

#[test]
fn floats_are_scaled_by_column_and_by_row_and_activated() {
    let _session = Session::start();
    let mut values = Values::new();
    // The activations bend where values are small.
    values.scale.iter_mut().for_each(|scale| *scale /= 32.0);
    for (dtype, version) in [(F16, 4), (F16, 5), (BF16, 4), (BF16, 5)] {
        for activation in [0, 1, 2, 4, 5] {
            for (by_token, with_bias) in [(false, true), (true, false), (true, true)] {
                let mut call = values.call(dtype);
                call.scale = vec![values.scale(dtype)];
                call.activation = activation;
                if with_bias {
                    call.bias = values.bias();
                }
                if by_token {
                    call.token_scale = vec![Tensor::floats(F32, &[ROWS], &values.token_scale)];
                }
                call.call(version).expect("documented");
                let scaled = values.scaled(&OF_ROWS, with_bias).into_iter().enumerate();
                let expected: Vec<f64> = scaled
                    .map(|(place, value)| {
                        let token = f64::from(values.token_scale[place / 3]);
                        activated(activation, if by_token { value * token } else { value })
                    })
                    .collect();
                let found = call.y[0].read();
                let what = format!("version {version}, activation {activation}");
                assert_close(&what, &found[..15], &expected, dtype, 1e-6);
                assert!(found[15..].iter().all(|value| value.is_nan()), "nobody's");
            }
        }
    }
}

#[test]
fn groups_are_ends_counts_or_pairs() {
    let _session = Session::start();
    let values = Values::new();
    let order = [2, 2, 2, 0, 0];
    let cases: [(i64, &[i64], &[usize]); 5] = [
        (0, &[2, 2, 5], &OF_ROWS),
        (1, &[2, 0, 3], &OF_ROWS),
        (2, &[0, 2, 2, 3, 1, 0], &OF_ROWS),
        (2, &[2, 3, 0, 2, 1, 0], &order),
        (2, &[1, 0, 0, 0, 2, 0], &[]),
    ];
    for (list_type, list, groups) in cases {
        for turned in [false, true] {
            let mut call = values.call(ACL_INT32);
            if turned {
                call.weight = vec![turned_bytes([GROUPS, 5, 3], &values.weight)];
            }
            let before = call.y[0].read_integers();
            (call.list, call.list_type) = (Some(list_of(list, list_type == 2)), list_type);
            call.call(5).expect("documented");
            let mut expected = values.sums(groups, false);
            expected.extend(&before[expected.len()..]);
            assert_eq!(call.y[0].read_integers(), expected, "{list:?}");
        }
    }
}

#[test]
fn lists_that_name_no_groups_break_the_stream() {
    let pairs: [&[i64]; 6] = [
        &[3, 1, 0, 1, 1, 1],
        &[-1, 1, 0, 1, 1, 1],
        &[0, -1, 1, 1, 2, 1],
        &[0, 4, 1, 4, 2, 0],
        &[0, 1, 0, 1, 2, 1],
        &[0, 0, 1, 1, 2, 0],
    ];
    let all = pairs.map(|pairs| (2, pairs));
    for (list_type, list) in all
        .into_iter()
        .chain([(1, &[4, 4, 0][..]), (0, &[3, 2, 5])])
    {
        let _session = Session::start();
        let mut call = Values::new().call(ACL_INT32);
        (call.list, call.list_type) = (Some(list_of(list, list_type == 2)), list_type);
        broke(call.call(5), "groupList is invalid");
    }
}

#[test]
fn a_scale_with_an_offset_breaks_the_stream() {
    let _session = Session::start();
    let values = Values::new();
    let mut call = values.call(ACL_INT8);
    let scale = Tensor::empty(ACL_UINT64, &[GROUPS, 3]);
    crate::common::upload(scale.address, &[1_u64 << 40; 9]);
    call.scale = vec![scale];
    broke(call.call(5), "has an offset");
}

#[test]
fn versions_one_to_three_have_tensors_of_groups() {
    let _session = Session::start();
    let values = Values::new();
    let exact = values.sums(&OF_ROWS, true);
    let bytes: Vec<i64> = values
        .scaled(&OF_ROWS, true)
        .into_iter()
        .map(to_byte)
        .collect();
    let x = || vec![signed_bytes(&[5, 5], &values.x[..25])];
    let parts = || {
        let part =
            |rows: usize, from: usize| signed_bytes(&[rows, 5], &values.x[from..][..rows * 5]);
        vec![part(2, 0), part(3, 10)]
    };
    // Of each: the version, whether there are several x and several results, and the result's dtype.
    for (version, several, dtype) in [
        (1, [false, false], ACL_INT8),
        (1, [false, true], ACL_INT8),
        (1, [true, false], ACL_INT8),
        (1, [true, true], ACL_INT8),
        (1, [false, true], ACL_INT32),
        (1, [true, true], ACL_INT32),
        (2, [false, false], ACL_INT8),
        (2, [true, false], ACL_INT8),
        (2, [true, true], ACL_INT8),
        (3, [false, false], ACL_INT8),
    ] {
        let is_byte = dtype == ACL_INT8;
        let [weight, bias, scale] = values.apart(is_byte, &[0, 2]);
        let [several_x, several_y] = several;
        let y = match several_y {
            true => vec![Tensor::empty(dtype, &[2, 3]), Tensor::empty(dtype, &[3, 3])],
            false => vec![Tensor::empty(dtype, &[5, 3])],
        };
        let mut call = Grouped {
            x: if several_x { parts() } else { x() },
            weight,
            bias,
            scale,
            y,
            list: (version == 3).then(|| list_of(&[2, 5], false)),
            ends: (version < 3 && !(version == 2 && several_y)).then(|| vec![2, 5]),
            split_item: if several_y { 0 } else { 2 },
            group_type: if several_y { -1 } else { 0 },
            ..Grouped::default()
        };
        call.call(version).expect("documented");
        let read = |y: &Tensor| {
            if is_byte {
                read_bytes(y)
            } else {
                y.read_integers()
            }
        };
        let found: Vec<i64> = call.y.iter().flat_map(read).collect();
        let expected = if is_byte { &bytes } else { &exact };
        assert_eq!(&found, expected, "version {version}, {several:?}");
    }
    // One weight for all groups.
    for version in [2, 3] {
        let mut call = values.call(ACL_INT8);
        call.x = x();
        call.y = vec![Tensor::empty(ACL_INT8, &[5, 3])];
        (call.bias, call.scale) = (values.bias(), vec![values.scale(ACL_INT8)]);
        (call.list, call.ends) = (Some(list_of(&[2, 2, 5], false)), Some(vec![2, 2, 5]));
        call.call(version).expect("documented");
        assert_eq!(read_bytes(&call.y[0]), bytes, "version {version}");
    }
}

#[test]
fn the_first_version_takes_one_group_without_a_list_and_x_of_more_axes() {
    let _session = Session::start();
    let values = Values::new();
    let [weight, ..] = values.apart(false, &[1]);
    let mut call = Grouped {
        x: vec![signed_bytes(&[1, 2, 3, 5], &values.x[..30])],
        weight,
        y: vec![Tensor::empty(ACL_INT32, &[1, 2, 3, 3])],
        ..Grouped::default()
    };
    call.call(1).expect("documented");
    assert_eq!(call.y[0].read_integers(), values.sums(&[1; 6], false));
    let mut call = Grouped {
        x: vec![signed_bytes(&[6, 5], &values.x[..30])],
        weight: vec![signed_bytes(&[1, 5, 3], &values.weight[15..30])],
        y: vec![Tensor::empty(ACL_INT32, &[6, 3])],
        split_item: 2,
        ..Grouped::default()
    };
    call.call(1).expect("one group has all rows");
    assert_eq!(call.y[0].read_integers(), values.sums(&[1; 6], false));
}
