//! Tests of tensors that follow a rule, and of values that are put at places, against their definitions.

use crate::common::*;
use cann_emulator::abi::{index_fill::*, masked_scatter::*, regular::*};

fn linspace(start: &Scalar, end: &Scalar, steps: i64, out: &Tensor) -> Status {
    call!(aclnnLinspace: start, end, steps, out)
}

#[test]
fn steps_are_equal_and_the_ends_exact() {
    let _session = Session::start();
    let (start, end) = (Scalar::float(-1.0), Scalar::float(0.3));
    for dtype in [F32, F16, BF16] {
        for steps in [1, 2, 5, 64] {
            let out = Tensor::empty(dtype, &[steps]);
            linspace(&start, &end, steps as i64, &out).expect("documented");
            let (from, to) = (-1.0, f64::from(0.3f32));
            let expected: Vec<f64> = (0..steps)
                .map(|at| from + (to - from) * at as f64 / (steps.max(2) - 1) as f64)
                .collect();
            out.assert_close("linspace", &expected, 1e-7);
        }
    }
    let out = Tensor::empty(ACL_INT32, &[4]);
    linspace(&Scalar::int(0), &Scalar::int(10), 4, &out).expect("documented");
    assert_eq!(out.read_integers(), [0, 3, 6, 10]);
    linspace(&start, &end, 0, &Tensor::empty(F32, &[0])).expect("documented");
    each! { refused:
        linspace(&start, &end, -1, &out), "steps is -1";
        linspace(&start, &end, 5, &out), "out has the shape";
        linspace(&start, &end, 4, &Tensor::empty(ACL_INT64, &[4])), "out is i64";
    }
}

#[test]
fn the_identity_has_any_shape() {
    let _session = Session::start();
    let eye = |rows, columns, out: &Tensor| call!(aclnnEye: rows, columns, out);
    let out = Tensor::empty(F16, &[2, 3]);
    eye(2, 3, &out).expect("documented");
    assert_eq!(out.read(), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    let out = Tensor::strided(ACL_INT64, &[2, 2], Some(&[1, 2]), 0, 4);
    eye(2, 2, &out).expect("documented");
    assert_eq!(out.read_integers(), [1, 0, 0, 1]);
    eye(0, 3, &Tensor::empty(ACL_BOOL, &[0, 3])).expect("documented");
    refused(eye(-1, 2, &out), "n is -1");
    refused(eye(2, i64::MIN, &out), "m is");
    refused(eye(2, 3, &out), "out has the shape");
    refused(eye(i64::MAX, i64::MAX, &out), "out has the shape");
    refused(eye(2, 2, &Tensor::empty(ACL_DOUBLE, &[2, 2])), "out is f64");
}

#[test]
fn a_source_is_scattered_where_the_mask_is_true() {
    let _session = Session::start();
    let scatter = |x: &Tensor, mask: &Tensor, source: &Tensor| {
        call!(
            aclnnInplaceMaskedScatter: x, mask, source
        )
    };
    let x = Tensor::floats(F32, &[2, 3], &[0.0; 6]);
    let mask = bytes(ACL_BOOL, &[1, 0, 1]);
    let source = Tensor::floats(F32, &[5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
    scatter(&x, &mask, &source).expect("documented");
    assert_eq!(x.read(), [1.0, 0.0, 2.0, 3.0, 0.0, 4.0]);
    // Too few elements are found on the device.
    let short = Tensor::floats(F32, &[3], &[9.0; 3]);
    broke(scatter(&x, &mask, &short), "true 4 times");
    assert_eq!(x.read()[0], 1.0, "nothing was written");
    each! { refused:
        scatter(&x, &bytes(ACL_UINT8, &[1; 4]), &source), "broadcast";
        scatter(&source, &Tensor::empty(ACL_BOOL, &[2, 5]), &source), "larger";
        scatter(&x, &source, &source), "mask is f32";
        scatter(&x, &mask, &Tensor::empty(F16, &[6])), "source is f16";
    }
}

fn fill_host(x: &Tensor, axis: i64, index: &[i64], value: &Scalar, out: Option<&Tensor>) -> Status {
    let index = Ints::new(index);
    match out {
        Some(out) => call!(aclnnIndexFillTensor: x, axis, index, value, out),
        None => call!(aclnnInplaceIndexFillTensor: x, axis, index, value),
    }
}

fn fill_device(
    x: &Tensor,
    axis: i64,
    index: &Tensor,
    value: &Scalar,
    out: Option<&Tensor>,
) -> Status {
    let index = index.handle;
    match out {
        Some(out) => call!(aclnnIndexFill: x, axis, index, value, out),
        None => call!(aclnnInplaceIndexFill: x, axis, index, value),
    }
}

#[test]
fn slices_are_filled() {
    let _session = Session::start();
    let new = || Tensor::floats(F32, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let (x, nine) = (new(), Scalar::float(9.0));
    let index = Tensor::integers(ACL_INT32, &[3], &[2, 0, 2]);
    for axis in [1, -1] {
        let expected = [9.0, 2.0, 9.0, 9.0, 5.0, 9.0];
        let out = Tensor::empty(F32, &[2, 3]);
        fill_host(&x, axis, &[2, 0, 2], &nine, Some(&out)).expect("documented");
        assert_eq!(out.read(), expected);
        let out = Tensor::empty(F32, &[2, 3]);
        fill_device(&x, axis, &index, &nine, Some(&out)).expect("documented");
        assert_eq!(out.read(), expected);
        let x = new();
        fill_device(&x, axis, &index, &nine, None).expect("documented");
        assert_eq!(x.read(), expected);
    }
    fill_host(&x, 0, &[1], &nine, None).expect("documented");
    assert_eq!(x.read(), [1.0, 2.0, 3.0, 9.0, 9.0, 9.0]);
    fill_host(&x, 0, &[], &nine, None).expect("documented");
    // A tensor without axes has one slice, and an empty one none.
    let single = Tensor::integers(ACL_INT32, &[], &[4]);
    fill_host(&single, -1, &[0], &Scalar::int(-7), None).expect("documented");
    assert_eq!(download::<i32>(single.address, 1), [-7]);
    fill_host(&Tensor::empty(F32, &[0, 2]), 1, &[1], &nine, None).expect("documented");
    each! { refused:
        fill_host(&x, 2, &[0], &nine, None), "no axis 2";
        fill_host(&x, 0, &[2], &nine, None), "the index 2 is out of range";
        fill_host(&x, 0, &[-1], &nine, None), "the index -1 is out of range";
    }
    let wide = Tensor::empty(F32, &[3, 2]);
    each! { refused: fill_host(&x, 0, &[0], &nine, Some(&wide)), "out has the shape" }
    each! { broke: fill_device(&x, 0, &index, &nine, None), "out of range" }
}
