//! Tests of attention of an inference call: results beside f64, and the keys that are read.

use crate::common::*;
use std::ffi::CStr;

use crate::common::infer::{Given, SCALE, fourth, given, list_at, square, third};

/// The sizes of the calls whose results are compared.
const BATCH: usize = 3;
const HEADS: usize = 4;
const GROUPS: usize = 2;
const KEYS: usize = 9;

/// A call with its exact operands, `[batch, heads, tokens, width]`.
struct Exact {
    queries: usize,
    width: usize,
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
}

/// The result of each row and the logarithm of its sum, or `None` if it sees no key.
type Row = Option<(Vec<f64>, f64)>;

impl Exact {
    /// Computes the rows of a sequence and a head over the visible keys.
    fn row(
        &self,
        [sequence, head, query]: [usize; 3],
        sink: f64,
        sees: impl Fn(usize) -> bool,
    ) -> Row {
        let width = self.width;
        let group = sequence * GROUPS + head / (HEADS / GROUPS);
        let q = &self.q[((sequence * HEADS + head) * self.queries + query) * width..][..width];
        let of = |x: &[f64], key: usize| x[(group * KEYS + key) * width..][..width].to_vec();
        let keys: Vec<usize> = (0..KEYS).filter(|key| sees(*key)).collect();
        let powers: Vec<f64> = keys
            .iter()
            .map(|key| {
                let score: f64 = of(&self.k, *key).iter().zip(q).map(|(k, q)| k * q).sum();
                (score * SCALE).exp()
            })
            .collect();
        let sum = powers.iter().sum::<f64>() + sink.exp();
        let mut y = vec![0.0; width];
        for (key, power) in keys.iter().zip(&powers) {
            for (y, v) in y.iter_mut().zip(of(&self.v, *key)) {
                *y += power / sum * v;
            }
        }
        (!keys.is_empty()).then(|| (y, sum.ln()))
    }
}

/// Exchanges the axes of heads and tokens.
fn turned(x: &[f32], [batch, one, other, width]: [usize; 4]) -> Vec<f32> {
    let mut made = Vec::with_capacity(x.len());
    for sequence in 0..batch {
        for second in 0..other {
            for first in 0..one {
                let row = (sequence * one + first) * other + second;
                made.extend_from_slice(&x[row * width..][..width]);
            }
        }
    }
    made
}

/// Makes a tensor of numbers and returns them as they are rounded.
fn put(dtype: aclDataType, layout: &CStr, shape: [usize; 4], seed: u64) -> (Tensor, Vec<f64>) {
    let values = noise(shape.iter().product(), seed);
    let [batch, heads, tokens, width] = shape;
    let (tensor, read) = if layout == c"BNSD" {
        let tensor = Tensor::floats(dtype, &shape, &values);
        let read = tensor.read();
        (tensor, read)
    } else {
        let shape = [batch, tokens, heads, width];
        let tensor = Tensor::floats(
            dtype,
            &shape,
            &turned(&values, [batch, heads, tokens, width]),
        );
        let read = turned(&tensor.read(), shape);
        (tensor, read)
    };
    (tensor, read.into_iter().map(f64::from).collect())
}

/// The settings of a call whose result is compared.
#[derive(Clone, Copy)]
struct Case<'a> {
    dtype: aclDataType,
    layout: &'static CStr,
    queries: usize,
    width: usize,
    lengths: Option<&'a [i64]>,
    padding: Option<i64>,
    mask: Option<&'a Tensor>,
    mode: i64,
    band: [i64; 2],
    precision: i64,
    with_sinks: bool,
}

const PLAIN: Case<'_> = Case {
    dtype: F16,
    layout: c"BNSD",
    queries: 1,
    width: 16,
    lengths: None,
    padding: None,
    mask: None,
    mode: 0,
    band: [i32::MAX as i64; 2],
    precision: 0,
    with_sinks: false,
};

/// Compares the results of a call, whose queries see keys as `sees(sequence, query, key)` says.
fn compare(what: &str, case: Case<'_>, sees: impl Fn(usize, usize, usize) -> bool) {
    let Case {
        dtype,
        layout,
        queries,
        width,
        ..
    } = case;
    let (query, q) = put(dtype, layout, [BATCH, HEADS, queries, width], 1);
    let (key, k) = put(dtype, layout, [BATCH, GROUPS, KEYS, width], 2);
    let (value, v) = put(dtype, layout, [BATCH, GROUPS, KEYS, width], 3);
    let [key, value] = [key, value].map(|tensor| List::new(vec![tensor]));
    let exact = Exact {
        queries,
        width,
        q,
        k,
        v,
    };
    let dims = [BATCH, HEADS, queries, width];
    let shape = match layout == c"BNSD" {
        true => dims,
        false => [BATCH, queries, HEADS, width],
    };
    let output = Tensor::empty(dtype, &shape);
    let lse = Tensor::empty(F32, &[BATCH, HEADS, queries, 1]);
    let padding = case
        .padding
        .map(|behind| Tensor::integers(ACL_INT64, &[1], &[behind]));
    let sinks = Tensor::floats(BF16, &[HEADS], &[-0.5, 0.0, 1.0, 9.0]);
    let call = Given {
        layout: Some(layout),
        mask: case.mask,
        mode: case.mode,
        band: case.band,
        precision: case.precision,
        lengths: case.lengths,
        padding: padding.as_ref(),
        sinks: case.with_sinks.then_some(&sinks),
        lse: (!case.with_sinks).then_some(&lse),
        ..given(&query, [&key, &value], &output)
    };
    let version = if case.with_sinks { fourth } else { third };
    version(call).expect(what);
    let mut found = output.read();
    if layout != c"BNSD" {
        found = turned(&found, shape);
    }
    let (sums, sinks) = (lse.read(), sinks.read());
    for (row, found) in found.chunks_exact(width).enumerate() {
        let [sequence, head, query] = [row / queries / HEADS, row / queries % HEADS, row % queries];
        let sink = match case.with_sinks {
            true => f64::from(sinks[head]),
            false => f64::NEG_INFINITY,
        };
        let place = [sequence, head, query];
        let expected = exact.row(place, sink, |key| sees(sequence, query, key));
        let what = format!("{what}, row {row}");
        match expected {
            Some((y, sum)) => {
                assert_close(&what, found, &y, dtype, 1e-6);
                // The maximum and the logarithm that it is the sum of may cancel.
                let error = (f64::from(sums[row]) - sum).abs();
                assert!(case.with_sinks || error <= 1e-6, "{what}: off by {error:e}");
            }
            // CANN sets the row to zero if it repairs it or without any key. Here it is NaN otherwise.
            None => {
                let empty = case.lengths.is_some_and(|lengths| lengths[sequence] == 0);
                let repaired = case.precision == 2 || case.mode == 3 || empty;
                let is = |value: &f32| {
                    if repaired {
                        *value == 0.0
                    } else {
                        value.is_nan()
                    }
                };
                assert!(found.iter().all(is), "{what}: {found:?}");
                assert_eq!(sums[row], f32::INFINITY, "{what}");
            }
        }
    }
}

#[test]
fn one_query_sees_the_keys_of_its_sequence() {
    let _session = Session::start();
    for dtype in [F16, BF16] {
        for layout in [c"BNSD", c"BSND"] {
            // With one query, the width need not be a multiple of 16.
            for width in [5, 16] {
                let plain = Case {
                    dtype,
                    layout,
                    width,
                    ..PLAIN
                };
                compare("all keys", plain, |_, _, _| true);
                // Modes have no effect on one query, and neither have numbers of tokens.
                let case = Case {
                    mode: 3,
                    band: [0, 0],
                    ..plain
                };
                compare("a mode", case, |_, _, _| true);
                let lengths = [4, 0, 9];
                let case = Case {
                    lengths: Some(&lengths),
                    ..plain
                };
                compare("lengths", case, |at, _, key| (key as i64) < lengths[at]);
                let case = Case {
                    lengths: Some(&[5]),
                    ..plain
                };
                compare("one length", case, |_, _, key| key < 5);
                let lengths = [4, 1, 7];
                let case = Case {
                    lengths: Some(&lengths),
                    padding: Some(2),
                    ..plain
                };
                compare("padding", case, |at, _, key| {
                    (7 - lengths[at]..7).contains(&(key as i64))
                });
                let case = Case {
                    lengths: Some(&lengths),
                    padding: Some(-3),
                    ..plain
                };
                compare("padding below zero", case, |at, _, key| {
                    key as i64 >= 9 - lengths[at]
                });
            }
        }
    }
}

#[test]
fn masks_hide_keys() {
    let _session = Session::start();
    let bits: Vec<i64> = (0..BATCH * KEYS).map(|at| i64::from(at % 4 == 1)).collect();
    for dtype in [ACL_BOOL, ACL_INT8, ACL_UINT8] {
        for shape in [&[BATCH, KEYS][..], &[BATCH, 1, KEYS], &[BATCH, 1, 1, KEYS]] {
            let mask = Tensor::integers(dtype, shape, &bits);
            let case = Case {
                mask: Some(&mask),
                ..PLAIN
            };
            compare("a mask of one query", case, |at, _, key| {
                bits[at * KEYS + key] == 0
            });
        }
    }
    let queries = 4;
    // The second query sees no key.
    let hides = |query: usize, key: usize| query == 1 || (query + 2 * key) % 3 == 1;
    let bits: Vec<i64> = (0..queries * KEYS)
        .map(|at| i64::from(hides(at / KEYS, at % KEYS)))
        .collect();
    let all: Vec<i64> = bits.repeat(BATCH);
    for mode in [0, 1] {
        for precision in [0, 2] {
            for (shape, bits) in [
                (&[queries, KEYS][..], &bits),
                (&[1, queries, KEYS], &bits),
                (&[1, 1, queries, KEYS], &bits),
                (&[BATCH, queries, KEYS], &all),
                (&[BATCH, 1, queries, KEYS], &all),
            ] {
                let mask = Tensor::integers(ACL_BOOL, shape, bits);
                let case = Case {
                    queries,
                    mask: Some(&mask),
                    mode,
                    precision,
                    ..PLAIN
                };
                compare("a full mask", case, |_, query, key| !hides(query, key));
            }
        }
    }
}

#[test]
fn modes_count_from_the_keys_of_each_sequence() {
    let _session = Session::start();
    let lengths = [4, 6, 9];
    for shape in [&[2048, 2048][..], &[1, 2048, 2048], &[1, 1, 2048, 2048]] {
        let mask = square(shape);
        let plain = Case {
            dtype: BF16,
            layout: c"BSND",
            queries: 3,
            lengths: Some(&lengths),
            mask: Some(&mask),
            ..PLAIN
        };
        let held = |at: usize, key: usize| (key as i64) < lengths[at];
        let case = Case { mode: 2, ..plain };
        compare("from the first", case, |at, query, key| {
            held(at, key) && key <= query
        });
        let ahead = |at: usize, query: usize| query as i64 + lengths[at] - 3;
        let case = Case { mode: 3, ..plain };
        compare("to the last", case, |at, query, key| {
            held(at, key) && key as i64 <= ahead(at, query)
        });
        let case = Case {
            mode: 4,
            band: [2, -1],
            ..plain
        };
        compare("a band", case, |at, query, key| {
            let behind = key as i64 - ahead(at, query);
            held(at, key) && (-2..=-1).contains(&behind)
        });
    }
    // With fewer keys than queries, the first see none.
    let mask = square(&[2048, 2048]);
    let case = Case {
        queries: 12,
        mask: Some(&mask),
        mode: 3,
        ..PLAIN
    };
    compare("fewer keys", case, |_, query, key| key + 12 <= query + KEYS);
}

#[test]
fn sinks_take_part_in_the_sum() {
    let _session = Session::start();
    for (width, queries) in [(64, 1), (128, 3)] {
        let case = Case {
            dtype: BF16,
            queries,
            width,
            lengths: Some(&[4, 6, 9]),
            with_sinks: true,
            ..PLAIN
        };
        let lengths = [4, 6, 9];
        compare("sinks", case, |at, _, key| key < lengths[at]);
    }
}

/// The keys behind the lengths are not read, and neither are queries; their results stay as they are.
#[test]
fn nothing_is_read_beyond_the_lengths() {
    let _session = Session::start();
    let (queries, width) = (3, 16);
    let poisoned = |rows: usize, held: usize| {
        let mut values = noise(BATCH * GROUPS * rows * width, 5);
        for (row, values) in values.chunks_exact_mut(width).enumerate() {
            if row % rows >= held {
                values.fill(f32::NAN);
            }
        }
        Tensor::floats(F16, &[BATCH, GROUPS, rows, width], &values)
    };
    let (query, key) = (poisoned(queries, 2), List::new(vec![poisoned(KEYS, 4)]));
    let output = Tensor::floats(
        F16,
        &[BATCH, GROUPS, queries, width],
        &vec![7.0; BATCH * GROUPS * queries * width],
    );
    let lse = Tensor::empty(F32, &[BATCH, GROUPS, queries, 1]);
    third(Given {
        heads: 2,
        groups: 0,
        q_lengths: Some(&[2]),
        lengths: Some(&[4, 3, 4, 100]),
        lse: Some(&lse),
        ..given(&query, [&key, &key], &output)
    })
    .expect("documented");
    for (row, values) in output.read().chunks_exact(width).enumerate() {
        let is_left = row % queries >= 2;
        assert_eq!(
            values.iter().all(|value| *value == 7.0),
            is_left,
            "row {row}"
        );
        assert!(values.iter().all(|value| value.is_finite()), "row {row}");
    }
    for (row, sum) in lse.read().iter().enumerate() {
        assert_eq!(*sum == f32::INFINITY, row % queries >= 2, "row {row}");
    }
    // Keys that the memory does not have are refused, even if they are not read.
    let short = list_at(Tensor::empty(F16, &[16]), &[BATCH, GROUPS, KEYS, width]);
    each! { fails:
        third(Given { heads: 2, lengths: Some(&[1]), ..given(&query, [&short, &key], &output) }),
            ACLNN_ERR_RUNTIME_ERROR;
    }
}
