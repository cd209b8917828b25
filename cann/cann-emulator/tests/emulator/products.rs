//! Tests of matrix products: the modes of the matrix unit, vectors, dtypes, and sums with products.

use crate::common::*;
use cann_emulator::abi::matmul::*;

type OfMode = fn(&Tensor, &Tensor, &Tensor, i8) -> Status;

const MM: OfMode = |a, b, y, mode| call!(aclnnMm: a, b, y, mode);
const MATMUL: OfMode = |a, b, y, mode| call!(aclnnMatmul: a, b, y, mode);

/// Matmul, Mm and BatchMatMul with their numbers of axes.
const PRODUCTS: [(OfMode, usize); 3] = [
    (MATMUL, 2),
    (MM, 2),
    (|a, b, y, mode| call!(aclnnBatchMatMul: a, b, y, mode), 3),
];

fn matmul(a: &Tensor, b: &Tensor, y: &Tensor) -> Status {
    MATMUL(a, b, y, 0)
}

/// Returns the exact product of matrices.
fn product(a: &[f64], b: &[f64], [rows, depth, columns]: [usize; 3]) -> Vec<f64> {
    let entry = |at: usize| {
        let (row, column) = (at / columns, at % columns);
        (0..depth)
            .map(|i| a[row * depth + i] * b[i * columns + column])
            .sum()
    };
    (0..rows * columns).map(entry).collect()
}

/// Rounds to a number of bits behind the point, to nearest.
fn to_bits(values: &[f64], bits: i32) -> Vec<f64> {
    let round = |value: &f64| {
        let unit = 2.0_f64.powi(value.abs().log2().floor() as i32 - bits);
        (value / unit).round_ties_even() * unit
    };
    values.iter().map(round).collect()
}

fn shape(axes: usize, [rows, columns]: [usize; 2]) -> Vec<usize> {
    [vec![1; axes - 2], vec![rows, columns]].concat()
}

#[test]
fn modes_round_f32_to_hf32_or_f16_before_the_product() {
    let _session = Session::start();
    let sizes = [5, 40, 7];
    let (x, w) = (noise(200, 1), noise(280, 2));
    for (multiply, axes) in PRODUCTS {
        let a = Tensor::floats(F32, &shape(axes, [5, 40]), &x);
        let b = Tensor::floats(F32, &shape(axes, [40, 7]), &w);
        let y = Tensor::empty(F32, &shape(axes, [5, 7]));
        for (mode, bits) in [
            (0, None),
            (1, Some(11)),
            (2, Some(10)),
            (3, Some(11)),
            (4, None),
        ] {
            let rounded =
                |values: Vec<f64>| bits.map_or(values.clone(), |bits| to_bits(&values, bits));
            let expected = product(&rounded(exact(&a)), &rounded(exact(&b)), sizes);
            multiply(&a, &b, &y, mode).expect("documented");
            y.assert_close(&format!("mode {mode}"), &expected, 1e-6);
        }
        for mode in [-1, 5] {
            refused(multiply(&a, &b, &y, mode), "cubeMathType");
        }
    }
}

#[test]
fn modes_leave_half_types_alone_or_refuse_them() {
    let _session = Session::start();
    for (dtype, taken, illegal) in [
        (F16, vec![0, 1, 2, 4], vec![3]),
        (BF16, vec![0, 1, 4], vec![2, 3]),
    ] {
        let a = Tensor::floats(dtype, &[2, 3], &noise(6, 1));
        let b = Tensor::floats(dtype, &[3, 2], &noise(6, 2));
        let y = Tensor::empty(dtype, &[2, 2]);
        let expected = product(&exact(&a), &exact(&b), [2, 3, 2]);
        for mode in taken {
            MM(&a, &b, &y, mode).expect("documented");
            y.assert_close("as it is", &expected, 1e-6);
        }
        for mode in illegal {
            refused(MM(&a, &b, &y, mode), "cubeMathType");
        }
    }
}

#[test]
fn older_chips_round_to_f16_and_have_no_hf32() {
    let _session = Session::on("Ascend310P3");
    let a = Tensor::floats(F32, &[2, 3], &noise(6, 1));
    let b = Tensor::floats(F32, &[3, 2], &noise(6, 2));
    let y = Tensor::empty(F32, &[2, 2]);
    MM(&a, &b, &y, 1).expect("documented");
    let rounded = |x: &Tensor| to_bits(&exact(x), 10);
    let expected = product(&rounded(&a), &rounded(&b), [2, 3, 2]);
    y.assert_close("f16", &expected, 1e-6);
    for mode in [0, 3] {
        each! { refused: MM(&a, &b, &y, mode), &format!("cubeMathType {mode}") }
    }
    let a = Tensor::floats(F16, &[2, 3], &noise(6, 1));
    let b = Tensor::floats(F16, &[3, 2], &noise(6, 2));
    MM(&a, &b, &Tensor::empty(F16, &[2, 2]), 0).expect("documented");
}

#[test]
fn vectors_are_a_row_on_the_left_and_a_column_on_the_right() {
    let _session = Session::start();
    let (v, m) = (noise(4, 1), noise(12, 2));
    let vector = Tensor::floats(F32, &[4], &v);
    let tall = Tensor::floats(F32, &[3, 4], &m);
    let wide = Tensor::floats(F32, &[4, 3], &m);
    let three = Tensor::empty(F32, &[3]);
    matmul(&vector, &wide, &three).expect("a row");
    let expected = product(&exact(&vector), &exact(&wide), [1, 4, 3]);
    three.assert_close("a row", &expected, 1e-6);
    matmul(&tall, &vector, &three).expect("a column");
    let expected = product(&exact(&tall), &exact(&vector), [3, 4, 1]);
    three.assert_close("a column", &expected, 1e-6);
    let expected = product(&exact(&vector), &exact(&vector), [1, 4, 1]);
    for axes in [&[][..], &[1]] {
        let one = Tensor::empty(F32, axes);
        matmul(&vector, &vector, &one).expect("a number");
        one.assert_close("a number", &expected, 1e-6);
    }
    let batches = Tensor::floats(F32, &[2, 4, 3], &noise(24, 3));
    let rows = Tensor::empty(F32, &[2, 3]);
    matmul(&vector, &batches, &rows).expect("a row of each batch");
    let expected = [0, 12].map(|from| {
        product(
            &exact(&vector),
            &exact(&batches)[from..from + 12],
            [1, 4, 3],
        )
    });
    rows.assert_close("batches", &expected.concat(), 1e-6);
    each! { refused:
        matmul(&vector, &tall, &three), "rows of 4 by columns of 3";
        matmul(&vector, &wide, &Tensor::empty(F32, &[1, 3])), "out has the shape";
        MM(&vector, &wide, &three, 0), "self has 1 axes";
    }
}

#[test]
fn only_f16_and_f32_meet_in_a_product() {
    let _session = Session::start();
    let half = Tensor::floats(F16, &[2, 2], &[0.5, 1.0, -1.0, 2.0]);
    let single = Tensor::floats(F32, &[2, 2], &[1.0, 0.25, 3.0, -1.0]);
    let expected = product(&exact(&half), &exact(&single), [2, 2, 2]);
    for dtype in [F32, F16] {
        let y = Tensor::empty(dtype, &[2, 2]);
        matmul(&half, &single, &y).expect("promoted");
        y.assert_close("promoted", &expected, 1e-7);
    }
    let brain = Tensor::floats(BF16, &[2, 2], &[1.0; 4]);
    for other in [&half, &single] {
        refused(matmul(&brain, other, other), "are not multiplied");
    }
    let whole = Tensor::empty(ACL_INT32, &[2, 2]);
    refused(matmul(&half, &single, &whole), "out is i32");
}

type OfSum = fn([&Tensor; 4], [&Scalar; 2], i8) -> Status;

/// Adds a product, with the factors 0.5 and 2 or those given.
fn add(sum: OfSum, tensors: [&Tensor; 4], factors: [f32; 2], mode: i8) -> Status {
    let [beta, alpha] = factors.map(Scalar::float);
    sum(tensors, [&beta, &alpha], mode)
}

const ADDMM: OfSum =
    |[x, a, b, y], [beta, alpha], mode| call!(aclnnAddmm: x, a, b, beta, alpha, y, mode);

#[test]
fn a_sum_with_a_product_broadcasts_its_tensor() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let a = Tensor::floats(dtype, &[2, 4], &noise(8, 1));
        let b = Tensor::floats(dtype, &[4, 3], &noise(12, 2));
        let y = Tensor::empty(dtype, &[2, 3]);
        let products = product(&exact(&a), &exact(&b), [2, 4, 3]);
        for (axes, count) in [(&[2, 3][..], 6), (&[3], 3), (&[2, 1], 2), (&[], 1)] {
            let x = Tensor::floats(dtype, axes, &noise(count, 3));
            add(ADDMM, [&x, &a, &b, &y], [0.5, 2.0], 0).expect("documented");
            let values = exact(&x);
            let expected: Vec<f64> = products
                .iter()
                .enumerate()
                .map(|(at, product)| {
                    let own = match axes {
                        [2, 3] => at,
                        [3] => at % 3,
                        [2, 1] => at / 3,
                        _ => 0,
                    };
                    0.5 * values[own] + 2.0 * product
                })
                .collect();
            y.assert_close("sum", &expected, 1e-6);
        }
        // What is counted zero times is not read.
        let nothing = Tensor::floats(dtype, &[2, 3], &[f32::NAN; 6]);
        add(ADDMM, [&nothing, &a, &b, &y], [0.0, 1.0], 0).expect("documented");
        y.assert_close("product", &products, 1e-6);
    }
    let t = |axes: &[usize]| Tensor::empty(F32, axes);
    let (a, b, y) = (t(&[2, 4]), t(&[4, 3]), t(&[2, 3]));
    let sum = |x: &Tensor, y: &Tensor| add(ADDMM, [x, &a, &b, y], [1.0, 1.0], 0);
    refused(sum(&t(&[2]), &y), "broadcast");
    refused(sum(&t(&[1, 2, 3]), &y), "not broadcast");
    refused(sum(&y, &t(&[3, 2])), "out has the shape");
    let wrong = add(ADDMM, [&y, &a, &a, &y], [1.0, 1.0], 0);
    refused(wrong, "rows of 4 by columns of 2");
    let deep = add(ADDMM, [&y, &t(&[1, 2, 4]), &b, &y], [1.0, 1.0], 0);
    refused(deep, "2 axes are taken");
}
