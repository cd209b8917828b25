//! Tests of the gradients of convolutions, against sums over all pairs of places in f64.

use crate::common::convolution::{Call, PLAIN, image, random};
use crate::common::*;
use cann_emulator::abi::convolution::*;

/// The inputs are the gradient of the output, the input and the weight.
fn backward(
    call: Call<'_>,
    [dy, x, weight]: [&Tensor; 3],
    bias_sizes: &[i64],
    outputs: [Option<&Tensor>; 3],
) -> Status {
    let [stride, padding, dilation, more] =
        [call.stride, call.padding, call.dilation, call.more].map(Ints::new);
    let sizes = Ints::new(bias_sizes);
    let wanted = outputs.map(|output| output.is_some());
    let [dx, dw, db] = outputs.map(|output| output.map_or(null_mut(), |tensor| tensor.handle));
    // SAFETY: the array is valid.
    let mask = unsafe { aclCreateBoolArray(wanted.as_ptr(), 3) };
    let status = call!(
        aclnnConvolutionBackward: dy, x, weight, sizes, stride, padding, dilation, call.transposed,
        more, call.groups as i32, mask, call.mode, dx, dw, db
    );
    // SAFETY: it was created.
    unsafe { aclDestroyBoolArray(mask) };
    status
}

/// Returns the gradients of input, weight and bias of a convolution over two axes.
fn gradients(
    call: Call<'_>,
    [dy, x, weight]: [&Tensor; 3],
    [dy_shape, x_shape, w_shape]: [[usize; 4]; 3],
) -> [Vec<f64>; 3] {
    let (dys, xs, ws) = (exact(dy), exact(x), exact(weight));
    let (mut dx, mut dw) = (vec![0.0; xs.len()], vec![0.0; ws.len()]);
    let mut db = vec![0.0; dy_shape[1]];
    for (at, value) in dys.iter().enumerate() {
        db[at / (dy_shape[2] * dy_shape[3]) % dy_shape[1]] += value;
    }
    // The kernel slides over the large side, and the weight's first axis has the channels of the small one.
    let (small, large) = if call.transposed {
        (x_shape, dy_shape)
    } else {
        (dy_shape, x_shape)
    };
    let place = |shape: [usize; 4], at: [usize; 4]| {
        ((at[0] * shape[1] + at[1]) * shape[2] + at[2]) * shape[3] + at[3]
    };
    let groups = call.groups as usize;
    let (own_small, own_large) = (small[1] / groups, large[1] / groups);
    let along = |axis: usize, small: usize, kernel: usize| {
        let at = small as i64 * call.stride[axis] + kernel as i64 * call.dilation[axis];
        usize::try_from(at - call.padding[axis]).ok()
    };
    for n in 0..small[0] {
        for s in 0..small[1] {
            for l in 0..own_large {
                for at in 0..small[2] * small[3] * w_shape[2] * w_shape[3] {
                    let i = at / (small[3] * w_shape[2] * w_shape[3]);
                    let rest = at % (small[3] * w_shape[2] * w_shape[3]);
                    let j = rest / (w_shape[2] * w_shape[3]);
                    let rest = rest % (w_shape[2] * w_shape[3]);
                    let (a, b) = (rest / w_shape[3], rest % w_shape[3]);
                    let (Some(y), Some(z)) = (along(0, i, a), along(1, j, b)) else {
                        continue;
                    };
                    if y >= large[2] || z >= large[3] {
                        continue;
                    }
                    let channel = s / own_small * own_large + l;
                    let from = place(small, [n, s, i, j]);
                    let to = place(large, [n, channel, y, z]);
                    let w = place(w_shape, [s, l, a, b]);
                    if call.transposed {
                        dx[from] += ws[w] * dys[to];
                        dw[w] += xs[from] * dys[to];
                    } else {
                        dx[to] += ws[w] * dys[from];
                        dw[w] += xs[to] * dys[from];
                    }
                }
            }
        }
    }
    [dx, dw, db]
}

/// Calls with the shapes of the output, the input and the weight.
const CASES: [(Call<'static>, [[usize; 4]; 3]); 5] = [
    (PLAIN, [[2, 3, 4, 3], [2, 2, 5, 5], [3, 2, 2, 3]]),
    (
        Call {
            stride: &[2, 1],
            padding: &[1, 2],
            dilation: &[1, 2],
            ..PLAIN
        },
        [[1, 2, 3, 5], [1, 3, 5, 5], [2, 3, 3, 3]],
    ),
    (
        Call { groups: 2, ..PLAIN },
        [[2, 4, 3, 3], [2, 6, 4, 4], [4, 3, 2, 2]],
    ),
    (
        Call {
            transposed: true,
            ..PLAIN
        },
        [[2, 3, 4, 4], [2, 2, 3, 3], [2, 3, 2, 2]],
    ),
    (
        Call {
            transposed: true,
            stride: &[2, 3],
            padding: &[1, 0],
            more: &[1, 2],
            groups: 2,
            ..PLAIN
        },
        [[1, 6, 6, 10], [1, 4, 3, 3], [4, 3, 3, 2]],
    ),
];

#[test]
fn gradients_are_those_of_the_sums() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        for (number, (call, shapes)) in CASES.into_iter().enumerate() {
            let [dy, x, weight] = [0, 1, 2].map(|at| random(dtype, &shapes[at], at as u64 + 1));
            let inputs = [&dy, &x, &weight];
            let expected = gradients(call, inputs, shapes);
            let channels = shapes[0][1];
            let (dx, dw) = (image(dtype, &shapes[1]), image(dtype, &shapes[2]));
            let db = Tensor::empty(dtype, &[channels]);
            let outputs = [Some(&dx), Some(&dw), Some(&db)];
            backward(call, inputs, &[channels as i64], outputs).expect("documented");
            // HF32 has eleven bits behind the point, with which factors of f32 are multiplied.
            let inside = if dtype == F32 { 2e-3 } else { 1e-6 };
            for (what, (found, expected)) in ["dx", "dw", "db"]
                .into_iter()
                .zip([dx, dw, db].iter().zip(expected))
            {
                let what = format!("{number}, {what}");
                found.assert_close(&what, &expected, inside);
            }
        }
    }
}

#[test]
fn one_and_three_axes_and_single_gradients() {
    let _session = Session::start();
    // Over one axis, as over two of which the first is short.
    let [dy, x, weight] =
        [0, 1, 2].map(|at| random(F16, &[[1, 2, 5], [1, 3, 6], [2, 3, 2]][at], at as u64));
    let call = Call {
        stride: &[1],
        padding: &[0],
        dilation: &[1],
        more: &[0],
        ..PLAIN
    };
    let shapes = [[1, 2, 1, 5], [1, 3, 1, 6], [2, 3, 1, 2]];
    let [dx, dw, db] = gradients(PLAIN, [&dy, &x, &weight], shapes);
    let found = image(F16, &[1, 3, 6]);
    backward(call, [&dy, &x, &weight], &[], [Some(&found), None, None]).expect("documented");
    found.assert_close("dx", &dx, 1e-6);
    let found = image(F16, &[2, 3, 2]);
    backward(call, [&dy, &x, &weight], &[], [None, Some(&found), None]).expect("documented");
    found.assert_close("dw", &dw, 1e-6);
    let found = Tensor::empty(F16, &[2]);
    backward(call, [&dy, &x, &weight], &[2], [None, None, Some(&found)]).expect("documented");
    found.assert_close("db", &db, 1e-6);
    // Over three axes, of which the first is short.
    let [dy, x, weight] = [0, 1, 2].map(|at| {
        random(
            F16,
            &[[1, 2, 1, 2, 5], [1, 3, 1, 3, 6], [2, 3, 1, 2, 2]][at],
            at as u64,
        )
    });
    let call = Call {
        stride: &[1; 3],
        padding: &[0; 3],
        dilation: &[1; 3],
        more: &[0; 3],
        ..PLAIN
    };
    let shapes = [[1, 2, 2, 5], [1, 3, 3, 6], [2, 3, 2, 2]];
    let [dx, ..] = gradients(PLAIN, [&dy, &x, &weight], shapes);
    let found = image(F16, &[1, 3, 1, 3, 6]);
    backward(call, [&dy, &x, &weight], &[], [Some(&found), None, None]).expect("documented");
    found.assert_close("dx", &dx, 1e-6);
}

#[test]
fn what_does_not_fit_is_refused() {
    let _session = Session::start();
    let [dy, x, weight] =
        [[2, 3, 4, 3], [2, 2, 5, 5], [3, 2, 2, 3]].map(|shape| image(F16, &shape));
    let inputs = [&dy, &x, &weight];
    let db = Tensor::empty(F16, &[3]);
    let call = |call| backward(call, inputs, &[3], [None, None, Some(&db)]);
    call(PLAIN).expect("documented");
    each! { refused:
        call(Call { groups: 3, ..PLAIN }), "do not fit";
        call(Call { groups: 0, ..PLAIN }), "groups 0";
        call(Call { stride: &[0, 1], ..PLAIN }), "stride is";
        call(Call { stride: &[2, 1], ..PLAIN }), "gradOutput has the shape";
        call(Call { stride: &[1], ..PLAIN }), "stride is";
        call(Call { padding: &[i64::MAX, 1], ..PLAIN }), "padding is";
        call(Call { mode: 7, ..PLAIN }), "cubeMathType 7";
    }
    let all = |outputs| backward(PLAIN, inputs, &[3], outputs);
    each! { refused:
        all([Some(&dy), None, None]), "gradInput has the shape";
        all([None, Some(&x), None]), "gradWeight has the shape";
        all([None, None, Some(&Tensor::empty(F16, &[2]))]), "gradBias has the shape";
        backward(PLAIN, inputs, &[2], [None, None, Some(&db)]), "biasSizes is [2]";
    }
    let nd = Tensor::empty(F16, &[2, 100]);
    each! { refused:
        backward(PLAIN, [&dy, &nd, &weight], &[3], [None; 3]), "input has 2 axes";
        backward(PLAIN, [&dy, &Tensor::empty(ACL_INT32, &[2, 2, 5, 5]), &weight], &[3], [None; 3]),
            "input is i32";
    }
}
