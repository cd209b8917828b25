//! Attention in one operator beside f64: types, masks of every shape, shared heads, views, and every limit.

mod common;

use burn_cann::ops::attention::{check, flash_attention};
use burn_cann::{DType, Layout, Spec, Stream, Tensor};
use common::maths::{F32_INSIDE, assert_close, noise, tensor, values};
use common::{Scenario, device};

const BATCH: usize = 2;
const HEADS: usize = 4;
const QUERIES: usize = 5;
const KEYS: usize = 7;
const WIDTH: usize = 6;
const SCALE: f64 = 0.4;

/// Which scores of `[batch, heads, queries, keys]` don't count.
type Mask<'a> = Option<&'a dyn Fn(usize, usize, usize, usize) -> bool>;

fn expected([query, key, value]: [&[f64]; 3], key_heads: usize, mask: Mask<'_>) -> Vec<f64> {
    let mut output = Vec::new();
    for (batch, head, row) in (0..BATCH * HEADS * QUERIES)
        .map(|at| (at / QUERIES / HEADS, at / QUERIES % HEADS, at % QUERIES))
    {
        let of_keys = batch * key_heads + head * key_heads / HEADS;
        let line = |of: &[f64], head: usize, length: usize, row: usize| {
            of[(head * length + row) * WIDTH..][..WIDTH].to_vec()
        };
        let query = line(query, batch * HEADS + head, QUERIES, row);
        let weights: Vec<f64> = (0..KEYS)
            .map(|place| {
                let key = line(key, of_keys, KEYS, place);
                let score: f64 = query.iter().zip(key).map(|(query, key)| query * key).sum();
                let hidden = mask.is_some_and(|mask| mask(batch, head, row, place));
                if hidden { 0.0 } else { (score * SCALE).exp() }
            })
            .collect();
        let total: f64 = weights.iter().sum();
        output.extend((0..WIDTH).map(|at| {
            let values = (0..KEYS).map(|place| line(value, of_keys, KEYS, place)[at]);
            values
                .zip(&weights)
                .map(|(value, weight)| value * weight)
                .sum::<f64>()
                / total
        }));
    }
    output
}

fn operands(stream: &Stream, dtype: DType, key_heads: usize) -> [(Tensor, Vec<f64>); 3] {
    let make = |seed, heads, length| {
        let shape = [BATCH, heads, length, WIDTH];
        let count = shape.iter().product();
        tensor(stream, dtype, &noise(count, seed), &shape)
    };
    [
        make(1, HEADS, QUERIES),
        make(2, key_heads, KEYS),
        make(3, key_heads, KEYS),
    ]
}

#[test]
fn every_type_and_shared_heads() {
    Scenario::new("every_type_and_shared_heads").run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for key_heads in [4, 2, 1] {
                let [(query, q), (key, k), (value, v)] = operands(&stream, dtype, key_heads);
                let found = flash_attention(&stream, &query, &key, &value, None, SCALE).unwrap();
                let wanted = expected([&q, &k, &v], key_heads, None);
                assert_close(&values(&stream, &found.output), &wanted, dtype, F32_INSIDE);
                assert_eq!(found.sums.shape(), [BATCH, HEADS, QUERIES, 8]);
                assert_eq!(found.greatest.dtype(), DType::F32);
            }
        }
    });
}

#[test]
fn masks_of_every_shape() {
    Scenario::new("masks_of_every_shape").run(|cann| {
        let (_device, stream) = device(cann);
        let [(query, q), (key, k), (value, v)] = operands(&stream, DType::F32, HEADS);
        // Something of each row is left.
        let hidden = |batch: usize, head: usize, row: usize, place: usize| {
            place > 0 && (batch + 2 * head + 3 * row + 5 * place) % 3 == 0
        };
        for shape in [
            vec![BATCH, HEADS, QUERIES, KEYS],
            vec![BATCH, 1, QUERIES, KEYS],
            vec![1, 1, QUERIES, KEYS],
            vec![QUERIES, KEYS],
        ] {
            let rank = shape.len();
            let by_batch = rank == 4 && shape[0] > 1;
            let by_head = rank == 4 && shape[1] > 1;
            let mask = |batch: usize, head: usize, row: usize, place: usize| {
                hidden(
                    if by_batch { batch } else { 0 },
                    if by_head { head } else { 0 },
                    row,
                    place,
                )
            };
            let (batches, heads) = (
                if by_batch { BATCH } else { 1 },
                if by_head { HEADS } else { 1 },
            );
            let bits: Vec<bool> = (0..batches * heads * QUERIES * KEYS)
                .map(|at| {
                    let (row, place) = (at / KEYS % QUERIES, at % KEYS);
                    mask(
                        at / KEYS / QUERIES / heads,
                        at / KEYS / QUERIES % heads,
                        row,
                        place,
                    )
                })
                .collect();
            let tensor = Tensor::from_bools(&stream, &bits, shape).unwrap();
            let found =
                flash_attention(&stream, &query, &key, &value, Some(&tensor), SCALE).unwrap();
            let wanted = expected([&q, &k, &v], HEADS, Some(&mask));
            assert_close(
                &values(&stream, &found.output),
                &wanted,
                DType::F32,
                F32_INSIDE,
            );
        }
    });
}

#[test]
fn views_are_taken_as_they_are() {
    Scenario::new("views_are_taken_as_they_are").run(|cann| {
        let (_device, stream) = device(cann);
        let [(query, q), (key, k), (value, v)] = operands(&stream, DType::F32, HEADS);
        // The same elements, stored with heads and sequence exchanged.
        let stored = |of: &[f64], length: usize| {
            let mut values = vec![0.0; of.len()];
            for (at, value) in of.iter().enumerate() {
                let (place, width) = (at / WIDTH, at % WIDTH);
                let (batch, head, row) = (
                    place / length / HEADS,
                    place / length % HEADS,
                    place % length,
                );
                values[((batch * length + row) * HEADS + head) * WIDTH + width] = *value;
            }
            tensor(&stream, DType::F32, &values, &[BATCH, length, HEADS, WIDTH])
                .0
                .transpose(1, 2)
                .unwrap()
        };
        let found = flash_attention(
            &stream,
            &stored(&q, QUERIES),
            &stored(&k, KEYS),
            &value,
            None,
            SCALE,
        );
        let same = flash_attention(&stream, &query, &key, &value, None, SCALE).unwrap();
        assert_eq!(
            values(&stream, &found.unwrap().output),
            values(&stream, &same.output)
        );
        drop(v);
    });
}

#[test]
fn limits() {
    Scenario::new("limits").run(|cann| {
        let (device, _stream) = device(cann);
        let platform = device.platform();
        let spec = |dtype, shape: &[usize]| Spec::contiguous(dtype, shape).unwrap();
        let float = |shape: &[usize]| spec(DType::F32, shape);
        let refused = |query: &Spec, key: &Spec, value: &Spec, mask: Option<&Spec>| {
            check(platform, query, key, value, mask)
                .expect_err("is refused")
                .to_string()
        };
        let (query, key) = (float(&[2, 4, 5, 6]), float(&[2, 2, 7, 6]));
        assert_eq!(check(platform, &query, &key, &key, None).unwrap(), query);
        let double = spec(DType::F64, &[2, 4, 5, 6]);
        assert!(refused(&double, &double, &double, None).contains("f64"));
        let half = spec(DType::F16, &[2, 2, 7, 6]);
        assert!(refused(&query, &half, &half, None).contains("f16"));
        assert!(refused(&float(&[2, 4, 5]), &key, &key, None).contains("dimensions"));
        for wrong in [[1, 2, 7, 6], [2, 3, 7, 6], [2, 2, 7, 5]] {
            let wrong = float(&wrong);
            assert!(refused(&query, &wrong, &wrong, None).contains("key"));
        }
        assert!(refused(&query, &key, &float(&[2, 2, 8, 6]), None).contains("value"));
        let empty = float(&[2, 4, 0, 6]);
        assert!(refused(&empty, &key, &key, None).contains("no elements"));
        let heads = float(&[1, 257, 1, 1]);
        assert!(refused(&heads, &heads, &heads, None).contains("256"));
        let wide = float(&[1, 1, 1, 769]);
        assert!(refused(&wide, &wide, &wide, None).contains("768"));
        let mask = spec(DType::Bool, &[2, 4, 5, 1]);
        assert!(refused(&query, &key, &key, Some(&mask)).contains("mask"));
        let mask = spec(DType::I32, &[5, 7]);
        assert!(refused(&query, &key, &key, Some(&mask)).contains("i32"));
        let shared = Layout::strided([2, 2, 7, 6], [42, 0, 6, 1], 0).unwrap();
        let shared = Spec {
            dtype: DType::F32,
            layout: shared,
        };
        assert!(check(platform, &query, &shared, &shared, None).is_ok());
    });
}
