//! Tests of the modes and limits of convolutions.

use crate::common::convolution::{Call, PLAIN, convolve, formatted, image, random};
use crate::common::*;
use cann_emulator::abi::convolution::*;

#[test]
fn modes_are_those_of_the_document() {
    let _session = Session::start();
    for (dtype, taken, illegal) in [
        (F32, &[1, 2, 3][..], &[0, 4][..]),
        (F16, &[0, 1, 2, 3], &[4]),
        (BF16, &[0, 1, 3], &[2, -1]),
    ] {
        let x = random(dtype, &[1, 2, 3, 3], 1);
        let weight = random(dtype, &[1, 2, 3, 3], 2);
        let y = image(dtype, &[1, 1, 1, 1]);
        let sum: f64 = exact(&x)
            .iter()
            .zip(exact(&weight))
            .map(|(x, w)| x * w)
            .sum();
        for mode in taken {
            convolve(
                Call {
                    mode: *mode,
                    ..PLAIN
                },
                [&x, &weight, &y],
                None,
            )
            .expect("documented");
            let inside = if dtype == F32 { 4e-3 } else { 1e-6 };
            y.assert_close("modes", &[sum], inside);
        }
        for mode in illegal {
            each! { refused:
                convolve(Call { mode: *mode, ..PLAIN }, [&x, &weight, &y], None), "cubeMathType";
            }
        }
    }
}

#[test]
fn settings_outside_the_document_are_refused() {
    let _session = Session::start();
    let x = image(F16, &[1, 4, 5, 5]);
    let weight = image(F16, &[2, 4, 3, 3]);
    let y = image(F16, &[1, 2, 3, 3]);
    let all = [&x, &weight, &y];
    convolve(PLAIN, all, None).expect("documented");
    let check = |call, text| refused(convolve(call, all, None), text);
    each! { check:
        Call { stride: &[0, 1], ..PLAIN }, "stride is [0, 1]";
        Call { stride: &[1], ..PLAIN }, "stride is [1]";
        Call { padding: &[0, 0, 0], ..PLAIN }, "padding is";
        Call { padding: &[-1, 0], ..PLAIN }, "padding is";
        Call { padding: &[256, 0], ..PLAIN }, "padding is";
        Call { dilation: &[1, 0], ..PLAIN }, "dilation is";
        Call { dilation: &[1, 3], ..PLAIN }, "gives no result";
        Call { groups: 0, ..PLAIN }, "groups is 1 to 65535";
        Call { groups: 2, ..PLAIN }, "do not fit with 2 groups";
        Call { transposed: true, ..PLAIN }, "do not fit with 1 groups";
        Call { transposed: true, more: &[0], ..PLAIN }, "outputPadding is";
        Call { transposed: true, more: &[1, 0], ..PLAIN }, "is not less than the stride";
        Call { transposed: true, dilation: &[256, 1], ..PLAIN }, "dilation is";
        Call { stride: &[2, 2], ..PLAIN }, "output has the shape";
    }
    let plain = |tensors: [&Tensor; 3], bias: Option<&Tensor>| convolve(PLAIN, tensors, bias);
    let bias = Tensor::empty(F16, &[3]);
    each! { refused:
        plain(all, Some(&bias)), "bias has the shape";
        plain(all, Some(&Tensor::empty(F32, &[2]))), "bias has another dtype";
    }
    let nd = formatted(F16, &[1, 4, 5, 5], ACL_FORMAT_ND);
    refused(plain([&nd, &weight, &y], None), "3 to 5 are taken");
    let flat = formatted(F16, &[1, 2, 3, 3], ACL_FORMAT_ND);
    each! { refused:
        plain([&x, &weight, &flat], None), "output has 4 axes and the format 2";
        plain([&image(F16, &[1, 0, 5, 5]), &weight, &y], None), "input has the shape";
        plain([&x, &image(F16, &[2, 4, 0, 3]), &y], None), "weight has the shape";
        plain([&x, &image(F16, &[2, 4, 3]), &y], None), "both have one number of axes";
    }
    let turned = Call {
        transposed: true,
        ..PLAIN
    };
    let wide = [&image(F16, &[1, 1, 1, 1]), &image(F16, &[1, 1, 1, 256]), &y];
    refused(convolve(turned, wide, None), "a kernel has at most 255");
    let ones = Ints::new(&[1, 1]);
    let status = call!(
        aclnnConvolution: x, weight, null(), ones, ones, ones, false, null::<aclIntArray>(), 1, y, 1
    );
    fails(status, ACLNN_ERR_PARAM_NULLPTR);
}

#[test]
fn older_chips_multiply_f16_or_have_no_convolution() {
    for (soc, has) in [("Ascend310P3", true), ("Ascend910A", false)] {
        let _session = Session::on(soc);
        let (x, weight) = (random(F32, &[1, 1, 1, 1], 1), random(F32, &[1, 1, 1, 1], 2));
        let y = image(F32, &[1, 1, 1, 1]);
        let status = convolve(PLAIN, [&x, &weight, &y], None);
        if !has {
            refused(status, "does not have this operator");
            continue;
        }
        status.expect("documented");
        let half = |x: &Tensor| half::f16::from_f32(x.read()[0]).to_f64();
        y.assert_close("f16", &[half(&x) * half(&weight)], 1e-6);
        for mode in [0, 3] {
            refused(
                convolve(Call { mode, ..PLAIN }, [&x, &weight, &y], None),
                "cubeMathType",
            );
        }
    }
}
