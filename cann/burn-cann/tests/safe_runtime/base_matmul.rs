//! Tests of matrix products against f64: dtypes, batches, views and limits.

use crate::common::maths::{assert_close, noise, tensor, values};
use crate::common::{Scenario, device, platform, spec};
use burn_cann::ops::{Kind, matmul};
use burn_cann::{DType, Spec, Tensor};

/// Multiplies a matrix of `rows × depth` by one of `depth × columns`.
fn product(a: &[f64], b: &[f64], rows: usize, depth: usize, columns: usize) -> Vec<f64> {
    let element = |row: usize, column: usize| {
        (0..depth)
            .map(|at| a[row * depth + at] * b[at * columns + column])
            .sum()
    };
    (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(row, column)| element(row, column))
        .collect()
}

fn turned(values: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    let places = (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
    places.map(|place| values[place]).collect()
}

#[test]
fn products_of_matrices_that_may_be_transposed() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for (rows, depth, columns) in [(1, 1, 1), (5, 7, 3), (9, 300, 270), (4, 129, 16)] {
                let (a64, b64) = (noise(rows * depth, 1), noise(depth * columns, 2));
                let (a, a64) = tensor(&stream, dtype, &a64, &[rows, depth]);
                let (b, b64) = tensor(&stream, dtype, &b64, &[depth, columns]);
                let (at, _) = tensor(&stream, dtype, &turned(&a64, rows, depth), &[depth, rows]);
                let (bt, _) = tensor(
                    &stream,
                    dtype,
                    &turned(&b64, depth, columns),
                    &[columns, depth],
                );
                let expected = product(&a64, &b64, rows, depth, columns);
                for a in [&a, &at.transpose(0, 1).unwrap()] {
                    for b in [&b, &bt.transpose(0, 1).unwrap()] {
                        let found = matmul::matmul(&stream, a, b).unwrap();
                        assert_eq!(found.shape(), [rows, columns]);
                        assert_close(&values(&stream, &found), &expected, dtype, 2e-6);
                    }
                }
            }
        }
    });
}

#[test]
fn products_are_added_to_a_matrix() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let (a, a64) = tensor(&stream, dtype, &noise(15, 1), &[3, 5]);
            let (b, b64) = tensor(&stream, dtype, &noise(20, 2), &[5, 4]);
            let (target, before) = tensor(&stream, dtype, &noise(12, 3), &[3, 4]);
            let with = |before: Vec<f64>, factors: Vec<f64>| -> Vec<f64> {
                before.iter().zip(&factors).map(|(x, y)| x + y).collect()
            };
            matmul::add_product(&stream, &target, &a, &b).unwrap();
            let expected = with(before, product(&a64, &b64, 3, 5, 4));
            assert_close(&values(&stream, &target), &expected, dtype, 2e-6);

            // The product of transposed matrices is added to a part of a matrix.
            let (wide, before) = tensor(&stream, dtype, &noise(40, 4), &[4, 10]);
            let part = wide.slice(1, 2..5).unwrap();
            let turned_of = |tensor: &Tensor| tensor.transpose(0, 1).unwrap();
            matmul::add_product(&stream, &part, &turned_of(&b), &turned_of(&a)).unwrap();
            let added = product(&turned(&b64, 5, 4), &turned(&a64, 3, 5), 4, 5, 3);
            let mut expected = before;
            for (place, added) in added.into_iter().enumerate() {
                expected[place / 3 * 10 + 2 + place % 3] += added;
            }
            assert_close(&values(&stream, &wide), &expected, dtype, 2e-6);

            // A product of nothing is zero.
            let nothing = |shape: [usize; 2]| Tensor::empty(&stream, dtype, shape).unwrap();
            let before = values(&stream, &target);
            matmul::add_product(&stream, &target, &nothing([3, 0]), &nothing([0, 4])).unwrap();
            assert_eq!(values(&stream, &target), before);
        }
    });
}

#[test]
fn products_of_many_matrices() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        // The cases are two batches, a batch with one that is repeated, and one matrix for all.
        for (left, right, batch) in [
            (vec![2, 3], vec![2, 3], vec![2, 3]),
            (vec![3], vec![2, 1], vec![2, 3]),
            (vec![2, 3], vec![], vec![2, 3]),
            (vec![], vec![4], vec![4]),
        ] {
            let with = |batch: &[usize], rows, columns| [batch, &[rows, columns]].concat();
            let count = |shape: &[usize]| shape.iter().product::<usize>();
            let (a_shape, b_shape) = (with(&left, 4, 5), with(&right, 5, 6));
            let (a, a64) = tensor(&stream, DType::F32, &noise(count(&a_shape), 3), &a_shape);
            let (b, b64) = tensor(&stream, DType::F32, &noise(count(&b_shape), 4), &b_shape);
            let found = matmul::matmul(&stream, &a, &b).unwrap();
            assert_eq!(found.shape(), with(&batch, 4, 6));
            let a = a.expand(with(&batch, 4, 5)).unwrap();
            let b = b.expand(with(&batch, 5, 6)).unwrap();
            let a64 = crate::common::maths::view(&a64, a.layout());
            let b64 = crate::common::maths::view(&b64, b.layout());
            let expected: Vec<f64> = a64
                .chunks(20)
                .zip(b64.chunks(30))
                .flat_map(|(a, b)| product(a, b, 4, 5, 6))
                .collect();
            assert_close(&values(&stream, &found), &expected, DType::F32, 1e-6);
            // Views with strides of zero are read without a copy.
            let again = matmul::matmul(&stream, &a, &b).unwrap();
            assert_close(&values(&stream, &again), &expected, DType::F32, 1e-6);
        }
        // The heads of attention, [batch, tokens, heads, width], are seen as [batch, heads, tokens, width].
        let (x, x64) = tensor(&stream, DType::F32, &noise(2 * 5 * 3 * 4, 5), &[2, 5, 3, 4]);
        let heads = x.permute(&[0, 2, 1, 3]).unwrap();
        let found = matmul::matmul(&stream, &heads, &heads.transpose(2, 3).unwrap()).unwrap();
        let rows = crate::common::maths::view(&x64, heads.layout());
        let expected: Vec<f64> = rows
            .chunks(20)
            .flat_map(|m| product(m, &turned(m, 5, 4), 5, 4, 5))
            .collect();
        assert_close(&values(&stream, &found), &expected, DType::F32, 1e-6);
        // The inner dimension or the rows are empty.
        let (none, some) = (
            Tensor::empty(&stream, DType::F32, [2, 0]).unwrap(),
            Tensor::empty(&stream, DType::F32, [0, 3]).unwrap(),
        );
        assert_eq!(
            values(&stream, &matmul::matmul(&stream, &none, &some).unwrap()),
            [0.0; 6]
        );
        assert_eq!(
            matmul::matmul(&stream, &some, &some.transpose(0, 1).unwrap())
                .unwrap()
                .shape(),
            [0, 0]
        );
    });
}

#[test]
fn limits_are_refused() {
    let platform = platform("Ascend910B1");
    let f32 = |shape: &[usize]| spec(DType::F32, shape);
    let kind = |a: &Spec, b: &Spec| matmul::check(&platform, a, b).unwrap_err().kind();
    let a = f32(&[2, 3]);
    assert_eq!(kind(&a, &f32(&[2, 3])), Kind::Shape);
    assert_eq!(kind(&a, &f32(&[3])), Kind::Shape);
    assert_eq!(kind(&f32(&[1; 7]), &f32(&[1, 1])), Kind::Shape);
    assert_eq!(kind(&f32(&[2, 2, 3]), &f32(&[3, 3, 2])), Kind::Shape);
    assert_eq!(kind(&a, &spec(DType::F16, &[3, 2])), Kind::Dtype);
    for dtype in [DType::F64, DType::I32, DType::Bool] {
        assert_eq!(
            kind(&spec(dtype, &[2, 3]), &spec(dtype, &[3, 2])),
            Kind::Dtype
        );
    }

    let b = f32(&[3, 2]);
    let add = |target: &Spec, a: &Spec, b: &Spec| {
        let checked = matmul::check_add_product(&platform, target, a, b);
        checked.unwrap_err().kind()
    };
    assert_eq!(
        matmul::check_add_product(&platform, &f32(&[2, 2]), &a, &b),
        Ok(())
    );
    assert_eq!(add(&f32(&[2, 3]), &a, &b), Kind::Shape);
    assert_eq!(add(&f32(&[2]), &a, &b), Kind::Shape);
    assert_eq!(add(&f32(&[1, 2, 2]), &f32(&[1, 2, 3]), &b), Kind::Shape);
    assert_eq!(add(&spec(DType::F16, &[2, 2]), &a, &b), Kind::Dtype);
    let one = Spec {
        dtype: DType::F32,
        layout: f32(&[1, 2]).layout.expand([2, 2]).unwrap(),
    };
    assert_eq!(add(&one, &a, &b), Kind::Layout);
}
