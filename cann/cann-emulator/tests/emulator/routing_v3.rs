//! Tests of copies of tokens with a range of experts and quantisation.

use crate::common::routing::{Call, PLAIN, experts, filled, route};
use crate::common::*;

#[test]
fn the_experts_of_a_range_get_their_tokens_and_counts() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[3, 2], &noise(6, 1));
        let values = x.read();
        let scale = Tensor::floats(F32, &[3], &[0.5, 1.5, 2.5]);
        for (range, order, rows, ends, each, pairs) in [
            (
                None,
                vec![0, 2, 1, 0, 2, 1],
                [3, 0, 5, 2, 4, 1],
                vec![2, 3, 5, 6],
                vec![2, 1, 2, 1],
                [0, 2, 1, 1, 2, 2, 3, 1],
            ),
            (
                Some([1, 3]),
                vec![1, 0, 2],
                [1, -1, -1, 0, 2, -1],
                vec![1, 3],
                vec![1, 2],
                [1, 1, 2, 2, 0, 0, 0, 0],
            ),
        ] {
            for (counts, expected) in [(0, ends), (1, each), (2, pairs.to_vec())] {
                let y = Tensor::floats(dtype, &[6, 2], &[9.0; 12]);
                let of_slots = filled(ACL_INT32, &[6], 9);
                let shape = if counts == 2 {
                    vec![4, 2]
                } else {
                    vec![expected.len()]
                };
                let counted = filled(ACL_INT64, &shape, 9);
                let scales = Tensor::floats(F32, &[6], &[9.0; 6]);
                let call = Call {
                    counts,
                    range,
                    ..PLAIN
                };
                let outputs = [&y, &of_slots, &counted, &scales];
                route(call, [&x, &experts()], [Some(&scale), None], outputs).expect("documented");
                let mut copies: Vec<f32> = order
                    .iter()
                    .flat_map(|token| values[2 * token..][..2].to_vec())
                    .collect();
                copies.resize(12, 9.0);
                assert_eq!(y.read(), copies);
                let mut gathered: Vec<f32> =
                    order.iter().map(|token| 0.5 + *token as f32).collect();
                gathered.resize(6, 9.0);
                assert_eq!(scales.read(), gathered);
                assert_eq!(of_slots.read_integers(), rows);
                assert_eq!(counted.read_integers(), expected);
            }
        }
        // The rows have the numbers of their slots, and a limit cuts the copies.
        let (y, of_slots) = (Tensor::empty(dtype, &[2, 2]), filled(ACL_INT32, &[6], 9));
        let (counted, scales) = (filled(ACL_INT64, &[2], 9), Tensor::empty(F32, &[2]));
        let call = Call {
            active: 2,
            scatters: 1,
            counted: false,
            range: Some([1, 3]),
            ..PLAIN
        };
        route(
            call,
            [&x, &experts()],
            [None, None],
            [&y, &of_slots, &counted, &scales],
        )
        .expect("documented");
        assert_eq!(y.read(), [&values[2..4], &values[..2]].concat());
        assert_eq!(of_slots.read_integers(), [3, 0, 4, 9, 9, 9]);
        assert_eq!(counted.read_integers(), [9, 9], "not wanted");
    }
}

#[test]
fn a_capacity_pads_with_zeros_and_integers_are_copied() {
    let _session = Session::start();
    let x = Tensor::empty(ACL_INT8, &[3, 2]);
    crate::common::upload(x.address, &[1i8, -2, 3, -4, 5, -6]);
    let y = Tensor::empty(ACL_INT8, &[4, 1, 2]);
    let of_slots = filled(ACL_INT32, &[6], 9);
    let (counted, scales) = (filled(ACL_INT64, &[4], 9), Tensor::empty(F32, &[4]));
    let call = Call {
        capacity: 1,
        mode: 1,
        ..PLAIN
    };
    route(
        call,
        [&x, &experts()],
        [None, None],
        [&y, &of_slots, &counted, &scales],
    )
    .expect("documented");
    assert_eq!(download::<i8>(y.address, 8), [1, -2, 3, -4, 1, -2, 3, -4]);
    assert_eq!(of_slots.read_integers(), [2, 0, 3, 1, -1, -1]);
    assert_eq!(counted.read_integers(), [2, 1, 2, 1]);
}

#[test]
fn copies_are_quantised_by_one_scale_or_by_their_rows() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[3, 2], &[1.0, -2.0, 0.25, 0.5, 0.0, 0.0]);
        let tokens = [0, 2, 1, 0, 2, 1];
        let values = x.read();
        let (y, of_slots) = (Tensor::empty(ACL_INT8, &[6, 2]), filled(ACL_INT32, &[6], 9));
        let (counted, scales) = (filled(ACL_INT64, &[4], 9), Tensor::empty(F32, &[6]));
        let outputs = [&y, &of_slots, &counted, &scales];
        let scale = Tensor::floats(F32, &[1], &[100.0]);
        let offset = Tensor::floats(F32, &[1], &[3.5]);
        let call = Call {
            quantised: 0,
            ..PLAIN
        };
        route(
            call,
            [&x, &experts()],
            [Some(&scale), Some(&offset)],
            outputs,
        )
        .expect("documented");
        let one = |value: f32| (value * 100.0 + 3.5).round_ties_even().clamp(-128.0, 127.0) as i8;
        let expected: Vec<i8> = tokens
            .iter()
            .flat_map(|token| values[2 * token..][..2].iter().map(|value| one(*value)))
            .collect();
        assert_eq!(download::<i8>(y.address, 12), expected);
        // With a factor of each expert and column.
        let smooth: Vec<f32> = (1..=8).map(|at| at as f32).collect();
        let smooth_tensor = Tensor::floats(F32, &[4, 2], &smooth);
        for given in [None, Some(&smooth_tensor)] {
            let call = Call {
                quantised: 1,
                ..PLAIN
            };
            route(call, [&x, &experts()], [given, None], outputs).expect("documented");
            let (mut expected, mut of_rows) = (Vec::new(), Vec::new());
            for (token, expert) in tokens.into_iter().zip([0, 0, 1, 2, 2, 3]) {
                let row = [0, 1].map(|at| {
                    let factor = given.map_or(1.0, |_| smooth[2 * expert + at]);
                    values[2 * token + at] * factor
                });
                let scale = row[0].abs().max(row[1].abs()) / 127.0;
                let part = |value: f32| {
                    if scale > 0.0 {
                        (value / scale).round_ties_even() as i8
                    } else {
                        0
                    }
                };
                expected.extend(row.map(part));
                of_rows.push(scale);
            }
            assert_eq!(download::<i8>(y.address, 12), expected);
            assert_eq!(scales.read(), of_rows);
        }
    }
}
