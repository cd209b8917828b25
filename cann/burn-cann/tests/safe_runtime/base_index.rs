//! Tests of indices, embeddings, triangles, repetition and sorting against plain loops.

use crate::common::maths::{INTEGERS, REALS, assert_equal, noise, tensor, twice, values};
use crate::common::{Scenario, device, platform, spec};
use burn_cann::ops::index::{self, Scattered};
use burn_cann::ops::{Kind, Refusal, rearrange, sort};
use burn_cann::{DType, Spec, Tensor};

fn types() -> Vec<DType> {
    [&REALS[..], &INTEGERS, &[DType::Bool]].concat()
}

/// Returns twelve small whole numbers, exact in every dtype but bool.
fn small() -> Vec<f64> {
    (0..12).map(|x| f64::from(x * 7 % 12)).collect()
}

#[test]
fn rows_and_elements_are_selected() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in types() {
            for of in [DType::I64, DType::I32] {
                for (x, x64) in twice(&stream, dtype, &small(), [3, 4]) {
                    let (index, _) = tensor(&stream, of, &[2.0, 0.0, 2.0], &[3]);
                    let rows = index::index_select(&stream, &x, 0, &index).unwrap();
                    let expected: Vec<f64> = [2, 0, 2]
                        .iter()
                        .flat_map(|row| x64[row * 4..][..4].to_vec())
                        .collect();
                    assert_eq!(values(&stream, &rows), expected, "{dtype}");
                    let columns = index::index_select(&stream, &x, 1, &index).unwrap();
                    let expected: Vec<f64> = (0..3)
                        .flat_map(|row| [2, 0, 2].map(|column| x64[row * 4 + column]))
                        .collect();
                    assert_eq!(values(&stream, &columns), expected);

                    // The index is smaller along the other dimension, and may have any strides.
                    let named = [[1, 3, 0], [2, 2, 1]];
                    let flat: Vec<f64> = named.concat().iter().map(|x| f64::from(*x)).collect();
                    for (index, _) in twice(&stream, of, &flat, [2, 3]) {
                        let found = index::gather(&stream, &x, 1, &index).unwrap();
                        let expected: Vec<f64> = (0..6)
                            .map(|at| x64[at / 3 * 4 + named[at / 3][at % 3] as usize])
                            .collect();
                        assert_eq!(values(&stream, &found), expected);
                    }
                    let found =
                        index::embedding(&stream, &x, &index.unsqueeze(0).unwrap()).unwrap();
                    assert_eq!(found.shape(), [1, 3, 4]);
                    assert_eq!(values(&stream, &found), values(&stream, &rows));
                }
            }
        }
    });
}

#[test]
fn rows_and_elements_are_scattered() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in types() {
            for (x, x64) in twice(&stream, dtype, &small(), [3, 4]) {
                let (index, _) = tensor(&stream, DType::I64, &[1.0, 0.0, 2.0, 2.0], &[2, 2]);
                // `source` is larger than the index: only the part that the index covers counts.
                let (source, source64) =
                    tensor(&stream, dtype, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
                let under = [source64[0], source64[1], source64[3], source64[4]];
                // The positions (row, column) of the elements.
                let places = [(1, 0), (0, 1), (2, 0), (2, 1)];
                let hows = [
                    (Scattered::Replace, (|_, new| new) as fn(f64, f64) -> f64),
                    (Scattered::Add, |old, new| old + new),
                    (Scattered::Multiply, |old, new| old * new),
                ];
                for (how, combine) in hows {
                    let found = index::scatter(&stream, &x, 0, &index, &source, how);
                    if dtype == DType::Bool && how != Scattered::Replace {
                        assert!(found.is_err());
                        continue;
                    }
                    let mut expected = x64.clone();
                    for ((row, column), new) in places.iter().zip(under) {
                        let old = expected[row * 4 + column];
                        expected[row * 4 + column] = combine(old, new);
                    }
                    assert_eq!(
                        values(&stream, &found.unwrap()),
                        expected,
                        "{dtype} {how:?}"
                    );
                }
                if dtype == DType::Bool {
                    continue;
                }
                let (index, _) = tensor(&stream, DType::I32, &[2.0, 0.0, 2.0], &[3]);
                let (source, source64) = tensor(&stream, dtype, &small(), &[3, 4]);
                let found = index::index_add(&stream, &x, 0, &index, &source, 2i64).unwrap();
                let mut expected = x64.clone();
                for (from, to) in [2, 0, 2].iter().enumerate() {
                    (0..4).for_each(|at| expected[to * 4 + at] += 2.0 * source64[from * 4 + at]);
                }
                assert_eq!(values(&stream, &found), expected, "{dtype}");
                let none = Tensor::empty(&stream, DType::I64, [0]).unwrap();
                let nothing = Tensor::empty(&stream, dtype, [0, 4]).unwrap();
                let same = index::index_add(&stream, &x, 0, &none, &nothing, 1i64).unwrap();
                assert_eq!(values(&stream, &same), x64);
            }
        }
    });
}

#[test]
fn gradients_of_embeddings_are_summed() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let (dy, dy64) = tensor(&stream, dtype, &noise(4 * 2 * 5, 1), &[4, 2, 5]);
            let rows = [3, 1, 3, 0, 3, 1, 0, 6];
            let named: Vec<f64> = rows.iter().map(|row| *row as f64).collect();
            let (indices, _) = tensor(&stream, DType::I64, &named, &[4, 2]);
            for padding in [None, Some(3)] {
                let found = index::embedding_backward(&stream, &dy, &indices, 8, padding).unwrap();
                let mut expected = vec![0.0; 8 * 5];
                for (from, to) in rows
                    .iter()
                    .enumerate()
                    .filter(|(_, to)| Some(**to) != padding)
                {
                    (0..5).for_each(|at| expected[to * 5 + at] += dy64[from * 5 + at]);
                }
                assert_equal(&values(&stream, &found), &expected, dtype, 1e-6);
            }
        }
    });
}

#[test]
fn an_index_out_of_range_breaks_the_stream() {
    Scenario::new().leaks().run(|cann| {
        let (_device, stream) = device(cann);
        let (x, _) = tensor(&stream, DType::F32, &[1.0, 2.0], &[2]);
        let (index, _) = tensor(&stream, DType::I64, &[2.0], &[1]);
        let found = index::gather(&stream, &x, 0, &index).unwrap();
        let error = found.to_vec::<f32>(&stream).unwrap_err().to_string();
        assert!(error.contains("out of range"), "{error}");
    });
}

#[test]
fn elements_are_rearranged() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in types() {
            for (x, x64) in twice(&stream, dtype, &small(), [3, 4]) {
                for diagonal in [-2, 0, 1] {
                    let kept = |keep: &dyn Fn(i64) -> bool| -> Vec<f64> {
                        let right = |at: usize| (at % 4) as i64 - (at / 4) as i64;
                        let element = |at| if keep(right(at)) { x64[at] } else { 0.0 };
                        (0..12).map(element).collect()
                    };
                    let upper = rearrange::triu(&stream, &x, diagonal).unwrap();
                    assert_eq!(values(&stream, &upper), kept(&|right| right >= diagonal));
                    let lower = rearrange::tril(&stream, &x, diagonal).unwrap();
                    assert_eq!(values(&stream, &lower), kept(&|right| right <= diagonal));
                }
                let place = |row: usize, column: usize| x64[row * 4 + column];
                let flipped = rearrange::flip(&stream, &x, &[1]).unwrap();
                let expected: Vec<f64> = (0..12).map(|at| place(at / 4, 3 - at % 4)).collect();
                assert_eq!(values(&stream, &flipped), expected);
                let flipped = rearrange::flip(&stream, &x, &[0, 1]).unwrap();
                assert_eq!(
                    values(&stream, &flipped),
                    x64.iter().rev().copied().collect::<Vec<_>>()
                );
            }
        }
    });
}

#[test]
fn elements_are_sorted() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in [&REALS[..], &INTEGERS].concat() {
            // Some elements are equal and keep their order.
            let data: Vec<f64> = (0..12).map(|x| f64::from(x * 5 % 7)).collect();
            for (x, x64) in twice(&stream, dtype, &data, [3, 4]) {
                for descending in [false, true] {
                    let (sorted, places) = sort::sort(&stream, &x, 1, descending).unwrap();
                    let again = sort::arg_sort(&stream, &x, 1, descending).unwrap();
                    let expected: Vec<usize> = (0..3)
                        .flat_map(|row| {
                            let mut order: Vec<usize> = (0..4).collect();
                            order.sort_by(|a, b| {
                                let order = x64[row * 4 + a].total_cmp(&x64[row * 4 + b]);
                                if descending { order.reverse() } else { order }
                            });
                            order
                        })
                        .collect();
                    let chosen: Vec<f64> = expected
                        .iter()
                        .enumerate()
                        .map(|(at, to)| x64[at / 4 * 4 + to])
                        .collect();
                    let named: Vec<f64> = expected.iter().map(|at| *at as f64).collect();
                    assert_eq!(values(&stream, &sorted), chosen, "{dtype}");
                    assert_eq!(values(&stream, &places), named);
                    assert_eq!(values(&stream, &again), named);
                    let (most, at) = sort::top_k(&stream, &x, 2, 1, descending).unwrap();
                    let first = |all: &[f64]| -> Vec<f64> {
                        all.chunks(4).flat_map(|row| row[..2].to_vec()).collect()
                    };
                    assert_eq!(values(&stream, &most), first(&chosen));
                    assert_eq!(values(&stream, &at), first(&named));
                }
                let (columns, _) = sort::sort(&stream, &x, 0, false).unwrap();
                let found = values(&stream, &columns);
                assert!(
                    (0..4).all(|at| found[at] <= found[at + 4] && found[at + 4] <= found[at + 8])
                );
            }
        }
        let (x, _) = tensor(&stream, DType::F32, &[f64::NAN, 1.0, f64::INFINITY], &[3]);
        let (_, places) = sort::sort(&stream, &x, 0, false).unwrap();
        assert_eq!(values(&stream, &places), [1.0, 2.0, 0.0]);
    });
}

#[test]
fn limits_are_refused() {
    let a2 = platform("Ascend910B1");
    let (x, i) = (spec(DType::F32, &[3, 4]), |shape: &[usize]| {
        spec(DType::I64, shape)
    });
    #[track_caller]
    fn kind(refused: Result<Spec, Refusal>) -> Kind {
        refused.unwrap_err().kind()
    }
    assert_eq!(
        kind(index::check_index_select(&a2, &x, 2, &i(&[2]))),
        Kind::Value
    );
    assert_eq!(
        kind(index::check_index_select(&a2, &x, 0, &i(&[2, 2]))),
        Kind::Shape
    );
    assert_eq!(
        kind(index::check_index_select(
            &a2,
            &x,
            0,
            &spec(DType::U8, &[2])
        )),
        Kind::Dtype
    );
    assert_eq!(kind(index::check_gather(&a2, &x, 0, &i(&[3]))), Kind::Shape);
    assert_eq!(
        kind(index::check_gather(&a2, &x, 0, &i(&[3, 5]))),
        Kind::Shape
    );
    assert!(index::check_gather(&a2, &x, 0, &i(&[9, 4])).is_ok());
    let scatter = |index: &Spec, source: &Spec| {
        kind(index::check_scatter(
            &a2,
            &x,
            1,
            index,
            source,
            Scattered::Add,
        ))
    };
    assert_eq!(
        scatter(&i(&[3, 2]), &spec(DType::F32, &[3, 1])),
        Kind::Shape
    );
    assert_eq!(
        scatter(&i(&[4, 2]), &spec(DType::F32, &[4, 2])),
        Kind::Shape
    );
    assert_eq!(
        scatter(&i(&[3, 2]), &spec(DType::F16, &[3, 2])),
        Kind::Dtype
    );
    let add = |source: &Spec, factor: f64| {
        index::check_index_add(
            &a2,
            &spec(DType::I32, &[3, 4]),
            0,
            &i(&[2]),
            source,
            factor.into(),
        )
    };
    assert_eq!(kind(add(&spec(DType::I32, &[3, 4]), 1.0)), Kind::Shape);
    assert_eq!(kind(add(&spec(DType::I32, &[2, 4]), 0.5)), Kind::Value);
    assert_eq!(
        kind(index::check_embedding(&a2, &i(&[3]), &i(&[2]))),
        Kind::Shape
    );
    assert_eq!(
        kind(index::check_embedding_backward(&a2, &x, &i(&[4]), 9)),
        Kind::Shape
    );
    assert_eq!(
        kind(index::check_embedding_backward(
            &a2,
            &i(&[3, 4]),
            &i(&[3]),
            9
        )),
        Kind::Dtype
    );
    assert_eq!(kind(rearrange::check_triangle(&a2, &i(&[3]))), Kind::Shape);
    assert_eq!(kind(rearrange::check_flip(&a2, &x, &[0, 0])), Kind::Value);
    assert_eq!(
        kind(sort::check(&a2, &spec(DType::Bool, &[2]), 0)),
        Kind::Dtype
    );
    assert_eq!(kind(sort::check_top_k(&a2, &x, 5, 1)), Kind::Shape);
}
