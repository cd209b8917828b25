//! Tests of the first version of products with weights of few bits, against f64.

use crate::common::few_bits::{expected, integers, signed_bytes};
use crate::common::*;
use cann_emulator::abi::weight_quant::*;

/// Runs version 1. The optional operands are the diagonal, deqOffset, deqScale, addOffset, mulScale and the bias.
fn first(
    [x1, x2, out]: [&Tensor; 3],
    [diagonal, deq_offset, deq_scale, add, mul, bias]: [Option<&Tensor>; 6],
    turned: [bool; 2],
    [scale, offset]: [f32; 2],
) -> Status {
    call!(
        aclnnWeightQuantBatchMatmul: x1, x2, diagonal, deq_offset, deq_scale, add, mul, bias,
        turned[0], turned[1], scale, offset, out
    )
}

fn diagonal(value: i64) -> Tensor {
    let at = |place: usize| if place / 32 == place % 32 { value } else { 0 };
    signed_bytes(&[32, 32], &(0..1024).map(at).collect::<Vec<_>>())
}

#[test]
fn version_one_scales_few_rows_by_the_matrix_unit_and_many_by_steps() {
    let _session = Session::start();
    let values = integers(12, 50.0, 1);
    let stored: Vec<i64> = (0..12).map(|at| values[at % 4 * 3 + at / 4]).collect();
    let bias = Tensor::floats(F32, &[3], &noise(3, 2));
    let rounded_bias = Tensor::floats(F16, &[3], &bias.read());
    for rows in [2, 64, 65] {
        let x = Tensor::floats(F16, &[rows, 4], &noise(4 * rows, 3));
        let turned_x: Vec<f32> = (0..4 * rows)
            .map(|at| x.read()[at % rows * 4 + at / rows])
            .collect();
        let turned_x = Tensor::floats(F16, &[4, rows], &turned_x);
        let deq_offset = Tensor::integers(ACL_INT32, &[3], &[1, -2, 3]);
        let deq_scale = Tensor::empty(ACL_UINT64, &[3]);
        let factors = [0.5f32, 0.25, 0.125];
        upload(
            deq_scale.address,
            &factors.map(|factor| u64::from(factor.to_bits()) | 1 << 46),
        );
        let add = Tensor::floats(F16, &[1, 3], &[0.5, 1.0, -1.0]);
        let mul = Tensor::floats(F16, &[1, 1], &[0.75]);
        let columns = Tensor::floats(F16, &[3, 1], &[0.5, 1.0, -1.0]);
        let weight = |place: usize| {
            let (value, column) = (values[place] as f64, place % 3);
            match rows <= 64 {
                true => (value + [1.0, -2.0, 3.0][column]) * f64::from(factors[column]),
                false => ((value + 2.0) * 0.125 + [0.5, 1.0, -1.0][column]) * 0.75,
            }
        };
        let weights: Vec<f64> = (0..12).map(weight).collect();
        let sums = expected(&x, &weights, 3, Some(&rounded_bias));
        let ones = diagonal(1);
        for turned in [[false, false], [true, false], [false, true], [true, true]] {
            let x1 = if turned[0] { &turned_x } else { &x };
            let x2 = match turned[1] {
                true => signed_bytes(&[3, 4], &stored),
                false => signed_bytes(&[4, 3], &values),
            };
            let add = if turned[1] { &columns } else { &add };
            let optional = match rows <= 64 {
                true => [
                    Some(&ones),
                    Some(&deq_offset),
                    Some(&deq_scale),
                    None,
                    None,
                    Some(&bias),
                ],
                false => [None, None, None, Some(add), Some(&mul), Some(&bias)],
            };
            let y = Tensor::empty(F16, &[rows, 3]);
            first([x1, &x2, &y], optional, turned, [0.125, 2.0]).expect("documented");
            y.assert_close("y", &sums, 1e-6);
        }
    }
}

#[test]
fn version_one_needs_its_matrix_for_few_rows() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, w, y) = (t(F16, &[2, 4]), t(ACL_INT8, &[4, 3]), t(F16, &[2, 3]));
    let (ones, offset, scale) = (diagonal(1), t(ACL_INT32, &[3]), t(ACL_UINT64, &[3]));
    let with = |diagonal: &Tensor, offset: &Tensor, scale: &Tensor, bias: Option<&Tensor>| {
        let optional = [Some(diagonal), Some(offset), Some(scale), None, None, bias];
        first([&x, &w, &y], optional, [false; 2], [1.0, 0.0])
    };
    with(&ones, &offset, &scale, None).expect("documented");
    each! { refused:
        with(&t(ACL_INT8, &[16, 16]), &offset, &scale, None), "diagonalMatrix has the shape";
        with(&ones, &t(ACL_INT32, &[4]), &scale, None), "deqOffset has the shape";
        with(&ones, &offset, &t(ACL_INT64, &[3]), None), "deqScale is i64";
        with(&ones, &offset, &scale, Some(&t(F16, &[3]))), "bias is f16";
        with(&ones, &offset, &scale, Some(&t(F32, &[4]))), "bias has the shape";
    }
    let plain = |tensors: [&Tensor; 3], optional: [Option<&Tensor>; 6]| {
        first(tensors, optional, [false; 2], [1.0, 0.0])
    };
    let status = plain([&x, &w, &y], [None; 6]);
    fails(status, ACLNN_ERR_PARAM_NULLPTR);
    let many = t(F16, &[65, 4]);
    let add = t(F16, &[4]);
    let out = t(F16, &[65, 3]);
    each! { refused:
        plain([&many, &w, &out], [None, None, None, Some(&add), None, None]), "broadcast";
        plain([&many, &w, &y], [None; 6]), "out has the shape";
        plain([&t(BF16, &[65, 4]), &w, &out], [None; 6]), "x1 is bf16";
        plain([&many, &t(ACL_INT8, &[3, 4]), &out], [None; 6]), "rows of 4 by columns of 3";
    }
    each! { broke: with(&diagonal(2), &offset, &scale, None), "does not have ones" }
}

#[test]
fn older_chips_do_not_have_it() {
    let _session = Session::on("Ascend910A");
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, w, y) = (t(F16, &[2, 4]), t(ACL_INT8, &[4, 3]), t(F16, &[2, 3]));
    let status = first([&x, &w, &y], [None; 6], [false; 2], [1.0, 0.0]);
    fails(status, ACLNN_ERR_RUNTIME_ERROR);
}
