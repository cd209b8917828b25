//! Tests of routing and grouped products on the emulator against f64.

use crate::common::maths::{F32_INSIDE, Random, assert_close, noise, tensor, values};
use crate::common::{Scenario, device};
use burn_cann::ops::grouped_matmul::{
    Groups, grouped_matmul, grouped_matmul_each, grouped_matmul_each_into, grouped_matmul_grad,
    grouped_matmul_into, grouped_matmul_of_list,
};
use burn_cann::ops::moe::{self, Gating, Order, Scores};
use burn_cann::{DType, Tensor};

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Returns the row of each slot: slots are sorted by expert, and those of one expert keep their order.
fn rows_of_slots(experts: &[i64]) -> Vec<usize> {
    let mut slots: Vec<usize> = (0..experts.len()).collect();
    slots.sort_by_key(|&slot| experts[slot]);
    let mut rows = vec![0; experts.len()];
    for (row, slot) in slots.into_iter().enumerate() {
        rows[slot] = row;
    }
    rows
}

fn choices(tokens: usize, k: usize, experts: usize) -> Vec<i64> {
    let mut random = Random::new(77);
    (0..tokens * k)
        .map(|_| random.below(experts) as i64)
        .collect()
}

#[test]
fn tokens_go_to_experts_and_back() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let (count, hidden) = (7, 12);
        for (dtype, k) in FLOATS
            .into_iter()
            .flat_map(|dtype| [(dtype, 1), (dtype, 3)])
        {
            let experts = choices(count, k, 4);
            let rows = rows_of_slots(&experts);
            let (x, x64) = tensor(&stream, dtype, &noise(count * hidden, 1), &[count, hidden]);
            for integers in [DType::I32, DType::I64] {
                let numbers: Vec<f64> = experts.iter().map(|&expert| expert as f64).collect();
                let (indices, _) = tensor(&stream, integers, &numbers, &[count, k]);
                let permuted = moe::permute(&stream, &x, &indices, None).unwrap();
                let found = values(&stream, &permuted.row_of_slot);
                assert_eq!(
                    found,
                    rows.iter().map(|&row| row as f64).collect::<Vec<_>>()
                );
                let mut expected = vec![0.0; count * k * hidden];
                for (slot, row) in rows.iter().enumerate() {
                    let token = slot / k * hidden;
                    expected[row * hidden..][..hidden].copy_from_slice(&x64[token..token + hidden]);
                }
                assert_eq!(values(&stream, &permuted.tokens), expected);
                let first = moe::permute(&stream, &x, &indices, Some(5)).unwrap();
                assert_eq!(values(&stream, &first.tokens), expected[..5 * hidden]);

                // The tokens go back, weighted by probabilities.
                let (probs, probs64) = tensor(&stream, dtype, &noise(count * k, 2), &[count, k]);
                let back = moe::unpermute(
                    &stream,
                    &permuted.tokens,
                    &permuted.row_of_slot,
                    Some(&probs),
                );
                let mut sums = vec![0.0; count * hidden];
                for (slot, row) in rows.iter().enumerate() {
                    for i in 0..hidden {
                        sums[slot / k * hidden + i] += expected[row * hidden + i] * probs64[slot];
                    }
                }
                assert_close(&values(&stream, &back.unwrap()), &sums, dtype, F32_INSIDE);
            }
        }
    });
}

#[test]
fn the_gradients_of_both_ways() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let (count, hidden, k) = (6, 10, 2);
        let experts = choices(count, k, 3);
        let rows = rows_of_slots(&experts);
        let numbers: Vec<f64> = rows.iter().map(|&row| row as f64).collect();
        let (map, _) = tensor(&stream, DType::I32, &numbers, &[count * k]);
        for dtype in FLOATS {
            let size = count * k * hidden;
            let (g, g64) = tensor(&stream, dtype, &noise(size, 1), &[count * k, hidden]);
            let mut dx = vec![0.0; count * hidden];
            for (slot, row) in rows.iter().enumerate() {
                for i in 0..hidden {
                    dx[slot / k * hidden + i] += g64[row * hidden + i];
                }
            }
            let found = moe::permute_grad(&stream, &g, &map, k).unwrap();
            assert_close(&values(&stream, &found), &dx, dtype, F32_INSIDE);

            // With one choice and no probabilities, only the order changes.
            let same = moe::unpermute(&stream, &g, &map, None).unwrap();
            let expected: Vec<f64> = rows
                .iter()
                .flat_map(|row| g64[row * hidden..][..hidden].to_vec())
                .collect();
            assert_eq!(values(&stream, &same), expected);
        }
    });
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
    row.iter().map(|x| (x - most).exp() / sum).collect()
}

/// Returns the indices of the `k` largest elements: of equal elements, the first.
fn best(row: &[f64], k: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..row.len()).collect();
    places.sort_by(|&one, &other| row[other].total_cmp(&row[one]));
    places.truncate(k);
    places
}

#[test]
fn experts_are_chosen() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let (tokens, experts, k) = (6, 9, 3);
        for dtype in FLOATS {
            // Whole numbers have the same order in all dtypes, and some are equal.
            let mut random = Random::new(5);
            let logits: Vec<f64> = (0..tokens * experts)
                .map(|_| random.below(7) as f64 / 2.0)
                .collect();
            let (x, x64) = tensor(&stream, dtype, &logits, &[tokens, experts]);
            let mut done = vec![false; tokens];
            done[2] = true;
            let finished = Tensor::from_bools(&stream, &done, [tokens]).unwrap();

            let (mut weights, mut numbers) = (Vec::new(), Vec::new());
            let (mut all, mut renormed) = (Vec::new(), Vec::new());
            for (token, row) in x64.chunks(experts).enumerate() {
                let probabilities = softmax(row);
                let places = best(row, k);
                weights.extend(places.iter().map(|&place| probabilities[place]));
                let chosen: Vec<f64> = places.iter().map(|&place| row[place]).collect();
                renormed.extend(softmax(&chosen));
                let number = |&place: &usize| if done[token] { experts } else { place } as f64;
                numbers.extend(places.iter().map(number));
                all.extend(probabilities);
            }
            let order = Order::SoftmaxFirst {
                probabilities: true,
            };
            let found =
                moe::gating_top_k_softmax_v2(&stream, &x, Some(&finished), k, order).unwrap();
            assert_close(
                &values(&stream, &found.weights),
                &weights,
                dtype,
                F32_INSIDE,
            );
            assert_eq!(values(&stream, &found.experts), numbers);
            let probabilities = values(&stream, &found.probabilities.unwrap());
            assert_close(&probabilities, &all, DType::F32, F32_INSIDE);

            let order = Order::ChoiceFirst;
            let found = moe::gating_top_k_softmax_v2(&stream, &x, None, k, order).unwrap();
            assert_close(
                &values(&stream, &found.weights),
                &renormed,
                dtype,
                F32_INSIDE,
            );
            assert!(found.probabilities.is_none());
            let flat = x.reshape([2, 3, experts]).unwrap();
            let found = moe::gating_top_k_softmax_v2(&stream, &flat, None, k, order).unwrap();
            assert_eq!(found.experts.shape(), [2, 3, k]);
        }
    });
}

/// Two of four groups of two experts are chosen by their better expert, or by both.
#[test]
fn experts_are_chosen_by_scores_in_groups() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let (tokens, experts, k) = (6, 8, 3);
        for dtype in FLOATS {
            let (x, x64) = tensor(
                &stream,
                dtype,
                &noise(tokens * experts, 5),
                &[tokens, experts],
            );
            let (bias, bias64) = tensor(&stream, dtype, &noise(experts, 6), &[experts]);
            for (scores, by_two) in [
                (Scores::Softmax, false),
                (Scores::SoftmaxShares, true),
                (Scores::SigmoidShares, true),
            ] {
                let groups = Some(moe::Groups {
                    count: 4,
                    chosen: 2,
                    by_two,
                });
                let gating = Gating { k, scores, groups };
                let found = moe::gating_top_k(&stream, &x, Some(&bias), gating).unwrap();
                let (mut weights, mut numbers, mut all) = (Vec::new(), Vec::new(), Vec::new());
                for row in x64.chunks(experts) {
                    let scored: Vec<f64> = match scores {
                        Scores::SigmoidShares => {
                            row.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect()
                        }
                        Scores::Softmax | Scores::SoftmaxShares => softmax(row),
                    };
                    let mut compared: Vec<f64> =
                        scored.iter().zip(&bias64).map(|(a, b)| a + b).collect();
                    let of_group = |pair: &[f64]| match by_two {
                        true => pair[0] + pair[1],
                        false => pair[0].max(pair[1]),
                    };
                    let kept = best(&compared.chunks(2).map(of_group).collect::<Vec<_>>(), 2);
                    for (expert, value) in compared.iter_mut().enumerate() {
                        if !kept.contains(&(expert / 2)) {
                            *value = f64::NEG_INFINITY;
                        }
                    }
                    let places = best(&compared, k);
                    let sum: f64 = places.iter().map(|&place| scored[place]).sum();
                    let divisor = if scores == Scores::Softmax { 1.0 } else { sum };
                    weights.extend(places.iter().map(|&place| scored[place] / divisor));
                    numbers.extend(places.iter().map(|&place| place as f64));
                    all.extend(scored);
                }
                assert_eq!(values(&stream, &found.experts), numbers);
                assert_close(
                    &values(&stream, &found.weights),
                    &weights,
                    dtype,
                    F32_INSIDE,
                );
                assert_close(
                    &values(&stream, &found.scores),
                    &all,
                    DType::F32,
                    F32_INSIDE,
                );
            }
        }
    });
}

fn matmul(x: &[f64], weight: &[f64], depth: usize, width: usize) -> Vec<f64> {
    let mut y = Vec::new();
    for row in x.chunks(depth) {
        y.extend((0..width).map(|j| {
            (0..depth)
                .map(|i| row[i] * weight[i * width + j])
                .sum::<f64>()
        }));
    }
    y
}

/// The rows of each group. The third has none, and the last two rows belong to no group.
const COUNTS: [usize; 4] = [3, 4, 0, 2];
const ROWS: usize = 11;
const DEPTH: usize = 6;
const WIDTH: usize = 5;

fn group_lists() -> [(Groups, Vec<f64>); 2] {
    let counts: Vec<f64> = COUNTS.iter().map(|&count| count as f64).collect();
    let ends = counts
        .iter()
        .scan(0.0, |end, count| {
            *end += count;
            Some(*end)
        })
        .collect();
    [(Groups::Counts, counts), (Groups::Ends, ends)]
}

/// Tests grouped products of every kind with the functions that the toolkit has.
fn products(cann: &burn_cann::Cann) {
    let (_device, stream) = device(cann);
    let covered: usize = COUNTS.iter().sum();
    for dtype in FLOATS {
        let (x, x64) = tensor(&stream, dtype, &noise(ROWS * DEPTH, 1), &[ROWS, DEPTH]);
        let size = COUNTS.len() * DEPTH * WIDTH;
        let (weight, weight64) = tensor(&stream, dtype, &noise(size, 2), &[4, DEPTH, WIDTH]);
        let of_bias = if dtype == DType::BF16 {
            DType::F32
        } else {
            dtype
        };
        let (bias, bias64) = tensor(&stream, of_bias, &noise(4 * WIDTH, 3), &[4, WIDTH]);
        // These are the same weights, stored transposed.
        let mut turned64 = vec![0.0; size];
        for (place, value) in turned64.iter_mut().enumerate() {
            let (group, rest) = (place / (DEPTH * WIDTH), place % (DEPTH * WIDTH));
            let (j, i) = (rest / DEPTH, rest % DEPTH);
            *value = weight64[group * DEPTH * WIDTH + i * WIDTH + j];
        }
        let (turned, _) = tensor(&stream, dtype, &turned64, &[4, WIDTH, DEPTH]);
        let turned = turned.transpose(1, 2).unwrap();

        let (mut expected, mut biased, mut start) = (Vec::new(), Vec::new(), 0);
        for (group, count) in COUNTS.iter().enumerate() {
            let rows = &x64[start * DEPTH..(start + count) * DEPTH];
            let y = matmul(rows, &weight64[group * DEPTH * WIDTH..], DEPTH, WIDTH);
            let bias = bias64[group * WIDTH..][..WIDTH].iter().cycle();
            biased.extend(y.iter().zip(bias).map(|(y, bias)| y + bias));
            expected.extend(y);
            start += count;
        }
        for (kind, list) in group_lists() {
            let (list, _) = tensor(&stream, DType::I64, &list, &[4]);
            for weight in [&weight, &turned] {
                let y = grouped_matmul(&stream, &x, weight, (&list, kind), None).unwrap();
                assert_eq!(y.shape(), [ROWS, WIDTH]);
                let found = &values(&stream, &y)[..covered * WIDTH];
                assert_close(found, &expected, dtype, F32_INSIDE);
                let y = grouped_matmul(&stream, &x, weight, (&list, kind), Some(&bias)).unwrap();
                let found = &values(&stream, &y)[..covered * WIDTH];
                assert_close(found, &biased, dtype, F32_INSIDE);
                into_a_result(&stream, (&x, weight), None, (&list, kind), &expected);
                into_a_result(&stream, (&x, weight), Some(&bias), (&list, kind), &biased);
            }
            let (dy, dy64) = tensor(&stream, dtype, &noise(ROWS * WIDTH, 4), &[ROWS, WIDTH]);
            let found = grouped_matmul_grad(&stream, &x, &dy, (&list, kind)).unwrap();
            let (mut dw, mut start) = (vec![0.0; size], 0);
            for (group, count) in COUNTS.iter().enumerate() {
                for row in start..start + count {
                    for (i, j) in (0..DEPTH).flat_map(|i| (0..WIDTH).map(move |j| (i, j))) {
                        dw[(group * DEPTH + i) * WIDTH + j] +=
                            x64[row * DEPTH + i] * dy64[row * WIDTH + j];
                    }
                }
                start += count;
            }
            assert_close(&values(&stream, &found), &dw, dtype, F32_INSIDE);
        }
        each(&stream, dtype);
    }
}

/// Tests products into a given result, with one weight for all groups and with one for each, with biases and without.
/// Other rows stay as they are.
fn into_a_result(
    stream: &burn_cann::Stream,
    (x, weight): (&Tensor, &Tensor),
    bias: Option<&Tensor>,
    groups: (&Tensor, Groups),
    expected: &[f64],
) {
    let dtype = x.dtype();
    let old = vec![0.5; ROWS * WIDTH];
    let check = |y: &Tensor| {
        let (found, rest) = {
            let all = values(stream, y);
            let (found, rest) = all.split_at(expected.len());
            (found.to_vec(), rest.to_vec())
        };
        assert_close(&found, expected, dtype, F32_INSIDE);
        assert!(rest.iter().all(|value| *value == 0.5), "{rest:?}");
    };
    let (y, _) = tensor(stream, dtype, &old, &[ROWS, WIDTH]);
    grouped_matmul_into(stream, x, weight, groups, bias, &y).unwrap();
    check(&y);
    let list = |stack: &Tensor| -> Vec<Tensor> {
        let groups = 0..COUNTS.len();
        groups
            .map(|group| stack.select(0, group).unwrap())
            .collect()
    };
    let (list, biases) = (list(weight), bias.map(list).unwrap_or_default());
    let (y, _) = tensor(stream, dtype, &old, &[ROWS, WIDTH]);
    grouped_matmul_of_list(stream, x, &list, groups, &biases, &y).unwrap();
    check(&y);
    let (narrow, _) = tensor(stream, dtype, &old[..ROWS * 4], &[ROWS, 4]);
    let refused = grouped_matmul_into(stream, x, weight, groups, bias, &narrow).unwrap_err();
    assert!(refused.to_string().contains("y has shape"), "{refused}");
}

/// Lists that CANN takes in one call, in two calls with one weight in the last, and in three. Many groups have no rows,
/// and the last two rows do not belong to a group.
#[test]
fn lists_of_more_tensors_than_a_call_takes() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for (groups, dtype) in [
            (128, DType::F32),
            (129, DType::BF16),
            (300, DType::F16),
            (300, DType::F32),
        ] {
            let counts: Vec<usize> = (0..groups).map(|group| group * 7 % 5 % 3).collect();
            let covered: usize = counts.iter().sum();
            let rows = covered + 2;
            let (x, x64) = tensor(&stream, dtype, &noise(rows * DEPTH, 1), &[rows, DEPTH]);
            let size = groups * DEPTH * WIDTH;
            let shape = [groups, DEPTH, WIDTH];
            let (weight, weight64) = tensor(&stream, dtype, &noise(size, 2), &shape);
            let of_bias = if dtype == DType::BF16 {
                DType::F32
            } else {
                dtype
            };
            let shape = [groups, WIDTH];
            let (bias, bias64) = tensor(&stream, of_bias, &noise(groups * WIDTH, 3), &shape);
            let (mut expected, mut start) = (Vec::new(), 0);
            for (group, count) in counts.iter().enumerate() {
                let part = &x64[start * DEPTH..(start + count) * DEPTH];
                let y = matmul(part, &weight64[group * DEPTH * WIDTH..], DEPTH, WIDTH);
                let bias = bias64[group * WIDTH..][..WIDTH].iter().cycle();
                expected.extend(y.iter().zip(bias).map(|(y, bias)| y + bias));
                start += count;
            }
            let ends = counts.iter().scan(0, |end, count| {
                *end += count;
                Some(*end as f64)
            });
            let (ends, counted): (Vec<f64>, Vec<f64>) = (
                ends.collect(),
                counts.iter().map(|count| *count as f64).collect(),
            );
            let each = |stack: &Tensor| -> Vec<Tensor> {
                (0..groups)
                    .map(|group| stack.select(0, group).unwrap())
                    .collect()
            };
            let (weights, biases) = (each(&weight), each(&bias));
            for (kind, list) in [(Groups::Counts, counted), (Groups::Ends, ends)] {
                let (list, _) = tensor(&stream, DType::I64, &list, &[groups]);
                let old = vec![0.5; rows * WIDTH];
                let (y, _) = tensor(&stream, dtype, &old, &[rows, WIDTH]);
                let list = (&list, kind);
                grouped_matmul_of_list(&stream, &x, &weights, list, &biases, &y).unwrap();
                let all = values(&stream, &y);
                let (found, rest) = all.split_at(covered * WIDTH);
                assert_close(found, &expected, dtype, F32_INSIDE);
                assert!(rest.iter().all(|value| *value == 0.5), "{rest:?}");
            }
        }
    });
}

#[test]
fn a_list_of_more_weights_than_groups_is_refused() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let (x, _) = tensor(&stream, DType::F32, &noise(4, 1), &[2, 2]);
        let (weight, _) = tensor(&stream, DType::F32, &noise(4, 2), &[2, 2]);
        let (list, _) = tensor(&stream, DType::I64, &[0.0; 1025], &[1025]);
        let (y, _) = tensor(&stream, DType::F32, &[0.0; 4], &[2, 2]);
        let (weights, list) = (vec![weight; 1025], (&list, Groups::Counts));
        let refused = grouped_matmul_of_list(&stream, &x, &weights, list, &[], &y).unwrap_err();
        assert!(refused.to_string().contains("at most 1024"), "{refused}");
    });
}

/// Tests products of lists whose tensors differ in size.
fn each(stream: &burn_cann::Stream, dtype: DType) {
    let of_bias = if dtype == DType::BF16 {
        DType::F32
    } else {
        dtype
    };
    let (mut xs, mut weights, mut bias, mut expected) = (vec![], vec![], vec![], vec![]);
    for (seed, [rows, depth, width]) in [[2, 3, 4], [5, 7, 2], [1, 6, 8]].into_iter().enumerate() {
        let seed = seed as u64;
        let (x, x64) = tensor(stream, dtype, &noise(rows * depth, seed), &[rows, depth]);
        let (weight, weight64) = tensor(
            stream,
            dtype,
            &noise(depth * width, seed + 9),
            &[depth, width],
        );
        let (b, b64) = tensor(stream, of_bias, &noise(width, seed + 19), &[width]);
        let y = matmul(&x64, &weight64, depth, width);
        expected.push(
            y.iter()
                .zip(b64.iter().cycle())
                .map(|(y, b)| y + b)
                .collect::<Vec<_>>(),
        );
        xs.push(x);
        weights.push(weight);
        bias.push(b);
    }
    let found = grouped_matmul_each(stream, &xs, &weights, &bias).unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        assert_close(&values(stream, found), expected, dtype, F32_INSIDE);
    }
    assert_eq!(
        grouped_matmul_each(stream, &xs, &weights, &[])
            .unwrap()
            .len(),
        3
    );
}

/// Each 128 products are one call, and the results may be parts of one tensor.
#[test]
fn products_of_long_lists() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for count in [1, 128, 129, 300] {
            let x = tensor(&stream, DType::F32, &noise(count * 6, 1), &[2 * count, 3]);
            let weight = tensor(&stream, DType::F32, &noise(count * 12, 2), &[3 * count, 4]);
            let parts = |whole: &burn_cann::Tensor, rows: usize| -> Vec<_> {
                let parts =
                    (0..count).map(|at| whole.slice(0, rows * at..rows * (at + 1)).unwrap());
                parts.collect()
            };
            let (xs, weights) = (parts(&x.0, 2), parts(&weight.0, 3));
            let y = burn_cann::Tensor::empty(&stream, DType::F32, [2 * count, 4]).unwrap();
            grouped_matmul_each_into(&stream, &xs, &weights, &[], &parts(&y, 2)).unwrap();
            let pairs = x.1.chunks(6).zip(weight.1.chunks(12));
            let expected: Vec<f64> = pairs.flat_map(|(x, w)| matmul(x, w, 3, 4)).collect();
            assert_close(&values(&stream, &y), &expected, DType::F32, F32_INSIDE);
            let short = &parts(&y, 2)[1..];
            let refused = grouped_matmul_each_into(&stream, &xs, &weights, &[], short).unwrap_err();
            assert!(refused.to_string().contains("one for each x"), "{refused}");
        }
    });
}

#[test]
fn grouped_products_by_version_5() {
    Scenario::new().run(products);
}

#[test]
fn grouped_products_by_version_4() {
    Scenario::new().hide("aclnnGroupedMatmulV5").run(products);
}

#[test]
fn without_grouped_products_the_error_names_them() {
    Scenario::new()
        .hide("aclnnGroupedMatmulV5")
        .hide("aclnnGroupedMatmulV4")
        .run(|cann| {
            let (_device, stream) = device(cann);
            let (x, _) = tensor(&stream, DType::F32, &noise(4, 1), &[2, 2]);
            let (weight, _) = tensor(&stream, DType::F32, &noise(4, 1), &[1, 2, 2]);
            let (list, _) = tensor(&stream, DType::I64, &[2.0], &[1]);
            let missing = grouped_matmul(&stream, &x, &weight, (&list, Groups::Counts), None);
            assert!(
                missing
                    .unwrap_err()
                    .to_string()
                    .contains("aclnnGroupedMatmulV4")
            );
        });
}

#[test]
fn no_tokens_are_routed_to_nobody() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let (x, _) = tensor(&stream, DType::F32, &[], &[0, 4]);
        let (indices, _) = tensor(&stream, DType::I32, &[], &[0, 2]);
        let permuted = moe::permute(&stream, &x, &indices, None).unwrap();
        assert_eq!(permuted.tokens.shape(), [0, 4]);
        assert_eq!(
            moe::permute_grad(&stream, &x, &permuted.row_of_slot, 2)
                .unwrap()
                .shape(),
            [0, 4]
        );
        let back = moe::unpermute(&stream, &permuted.tokens, &permuted.row_of_slot, None).unwrap();
        assert_eq!(back.shape(), [0, 4]);
        assert_eq!(
            moe::gating_top_k_softmax_v2(&stream, &x, None, 2, Order::ChoiceFirst)
                .unwrap()
                .experts
                .shape(),
            [0, 2]
        );
        let (weight, _) = tensor(&stream, DType::F32, &noise(12, 1), &[1, 4, 3]);
        let (list, _) = tensor(&stream, DType::I64, &[0.0], &[1]);
        let y = grouped_matmul(&stream, &x, &weight, (&list, Groups::Counts), None).unwrap();
        assert_eq!(y.shape(), [0, 3]);
    });
}
