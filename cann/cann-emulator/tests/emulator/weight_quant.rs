//! Tests of products with weights of few bits, against f64.

use crate::common::few_bits::{expected, integers, signed_bytes};
use crate::common::*;
use cann_emulator::abi::weight_quant::*;

/// Runs version 2, or 3 with a precision. The optional operands are the offset and the bias.
fn multiply(
    [x, weight, scale, y]: [&Tensor; 4],
    [offset, bias]: [Option<&Tensor>; 2],
    group: i32,
    precise: Option<i32>,
) -> Status {
    let [x, weight, scale, y] = [x, weight, scale, y].map(|tensor| tensor.handle);
    let (offset, bias, no) = (offset, bias, null());
    match precise {
        None => call!(
            aclnnWeightQuantBatchMatmulV2: x, weight, scale, offset, no, no, bias, group, y
        ),
        Some(precise) => call!(
            aclnnWeightQuantBatchMatmulV3: x, weight, scale, offset, no, no, bias, group, precise, y
        ),
    }
}

fn pack(weight: &Tensor, packed: &Tensor) -> Status {
    call!(aclnnConvertWeightToINT4Pack: weight, packed)
}

#[test]
fn bytes_are_scaled_as_a_whole_by_column_or_by_group() {
    let _session = Session::start();
    for (dtype, of_bias) in [(F16, F16), (BF16, F32)] {
        let x = Tensor::floats(dtype, &[3, 64], &noise(192, 1));
        let values = integers(64 * 5, 100.0, 2);
        let weight = signed_bytes(&[64, 5], &values);
        // The same weights as a transposed view.
        let stored: Vec<i64> = (0..320).map(|at| values[at % 64 * 5 + at / 64]).collect();
        let turned = Tensor::strided(ACL_INT8, &[64, 5], Some(&[1, 64]), 0, 320);
        upload(
            turned.address,
            &stored.iter().map(|value| *value as i8).collect::<Vec<_>>(),
        );
        let bias = Tensor::floats(of_bias, &[5], &noise(5, 3));
        for (shape, group) in [
            (&[1][..], 0),
            (&[1, 1], 0),
            (&[5], 0),
            (&[1, 5], 0),
            (&[2, 5], 32),
        ] {
            let count = shape.iter().product();
            let small = |seed| {
                noise(count, seed)
                    .iter()
                    .map(|value| value / 64.0)
                    .collect::<Vec<_>>()
            };
            let scale = Tensor::floats(dtype, shape, &small(4));
            let offset = Tensor::floats(dtype, shape, &noise(count, 5));
            let (s, o) = (exact(&scale), exact(&offset));
            for given in [None, Some(&offset)] {
                let scaled = |place: usize| {
                    let group_size = if group == 0 { 64 } else { 32 };
                    let at = if count == 1 {
                        0
                    } else {
                        place / 5 / group_size * 5 + place % 5
                    };
                    (values[place] as f64 + given.map_or(0.0, |_| o[at])) * s[at]
                };
                let weights: Vec<f64> = (0..320).map(scaled).collect();
                for (weight, precise) in [(&weight, None), (&turned, Some(0))] {
                    let y = Tensor::empty(dtype, &[3, 5]);
                    multiply(
                        [&x, weight, &scale, &y],
                        [given, Some(&bias)],
                        group,
                        precise,
                    )
                    .expect("documented");
                    let sums = expected(&x, &weights, 5, Some(&bias));
                    // A weight may be rounded the other way where f32 is not exact.
                    y.assert_close("y", &sums, 1e-3);
                }
            }
        }
    }
}

#[test]
fn packed_weights_are_those_that_were_packed() {
    let _session = Session::start();
    let values = integers(64 * 16, 8.0, 6);
    let weight = Tensor::integers(ACL_INT32, &[64, 16], &values);
    let packed = Tensor::empty(ACL_INT32, &[64, 2]);
    pack(&weight, &packed).expect("documented");
    // Packed along the summed axis, for the transposed view.
    let stored: Vec<i64> = (0..1024).map(|at| values[at % 64 * 16 + at / 64]).collect();
    let other = Tensor::integers(ACL_INT32, &[16, 64], &stored);
    let turned = Tensor::strided(ACL_INT32, &[8, 16], Some(&[1, 8]), 0, 128);
    let rows = Tensor::empty(ACL_INT32, &[16, 8]);
    pack(&other, &rows).expect("documented");
    upload(turned.address, &download::<i32>(rows.address, 128));
    let x = Tensor::floats(F16, &[2, 64], &noise(128, 7));
    let scale = Tensor::floats(F16, &[16], &noise(16, 8));
    let s = exact(&scale);
    let weights: Vec<f64> = (0..1024)
        .map(|place| values[place] as f64 * s[place % 16])
        .collect();
    let sums = expected(&x, &weights, 16, None);
    for weight in [&packed, &turned] {
        let y = Tensor::empty(F16, &[2, 16]);
        multiply([&x, weight, &scale, &y], [None, None], 0, None).expect("documented");
        y.assert_close("y", &sums, 1e-3);
    }
}

#[test]
fn packing_takes_whole_integers_of_four_bits() {
    let t = |shape: &[usize]| Tensor::empty(ACL_INT32, shape);
    {
        let _session = Session::start();
        let three = Tensor::integers(ACL_INT32, &[1, 2, 8], &[1; 16]);
        pack(&three, &t(&[1, 2, 1])).expect("three axes");
        each! { refused:
            pack(&t(&[8]), &t(&[1])), "two or three axes";
            pack(&t(&[2, 12]), &t(&[2, 1])), "an eighth";
            pack(&t(&[2, 8]), &t(&[2, 2])), "an eighth";
            pack(&t(&[0, 8]), &t(&[0, 1])), "none of them empty";
            pack(&Tensor::empty(F32, &[2, 8]), &t(&[2, 1])), "weight is f32";
            pack(&t(&[2, 8]), &Tensor::empty(ACL_INT8, &[2, 1])), "weightInt4Pack is i8";
        }
    }
    let _session = Session::start();
    let large = Tensor::integers(ACL_INT32, &[1, 8], &[8; 8]);
    broke(pack(&large, &t(&[1, 1])), "four bits do not hold");
}

#[test]
fn products_outside_the_document_are_refused() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let x = t(F16, &[2, 64]);
    let weight = t(ACL_INT8, &[64, 5]);
    let scale = t(F16, &[5]);
    let y = t(F16, &[2, 5]);
    let with = |at: usize, other: &Tensor, group| {
        let mut all = [&x, &weight, &scale, &y];
        all[at] = other;
        multiply(all, [None, None], group, None)
    };
    with(0, &x, 0).expect("documented");
    refused(with(0, &t(F32, &[2, 64]), 0), "x is f32");
    refused(with(0, &t(F16, &[2, 32]), 0), "rows of 32 by columns of 64");
    refused(with(0, &t(F16, &[0, 64]), 0), "0 rows");
    refused(with(0, &t(F16, &[1, 2, 64]), 0), "x has 3 axes");
    let wide = Tensor::strided(F16, &[2, 64], Some(&[65, 1]), 0, 130);
    refused(with(0, &wide, 0), "x must be contiguous");
    refused(with(1, &t(ACL_UINT8, &[64, 5]), 0), "weight is u8");
    refused(with(2, &t(BF16, &[5]), 0), "antiquantScale is bf16");
    refused(with(2, &t(F16, &[4]), 0), "antiquantScale has the shape");
    refused(with(2, &scale, 32), "antiquantScale has the shape");
    for group in [16, 48, 64, -32] {
        refused(with(2, &scale, group), "antiquantGroupSize is");
    }
    refused(with(3, &t(BF16, &[2, 5]), 0), "y is bf16");
    refused(with(3, &t(F16, &[5, 2]), 0), "y has the shape");
    let all = [&x, &weight, &scale, &y];
    let given =
        |offset: Option<&Tensor>, bias: Option<&Tensor>| multiply(all, [offset, bias], 0, None);
    each! { refused:
        given(Some(&t(F16, &[1, 5])), None), "antiquantOffsetOptional has the shape";
        given(None, Some(&t(F32, &[5]))), "biasOptional is f32";
        given(None, Some(&t(F16, &[4]))), "biasOptional has the shape";
        multiply(all, [None, None], 0, Some(1)), "innerPrecise is 1";
    }
    let status = call!(
        aclnnWeightQuantBatchMatmulV2: x, weight, scale, null(), t(ACL_UINT64, &[5]), null(), null(), 0, y
    );
    refused(status, "quantScaleOptional is given");
}

#[test]
fn older_chips_do_not_have_it() {
    let _session = Session::on("Ascend910A");
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, w, y) = (t(F16, &[2, 4]), t(ACL_INT8, &[4, 3]), t(F16, &[2, 3]));
    let status = multiply([&x, &w, &t(F16, &[1]), &y], [None, None], 0, None);
    fails(status, ACLNN_ERR_RUNTIME_ERROR);
}
