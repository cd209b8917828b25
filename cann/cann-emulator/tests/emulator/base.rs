//! Tests of the base operators as a C program calls them: status codes for undocumented arguments, and the operators
//! that `burn-cann` does not call.

use crate::common::*;
use cann_emulator::abi::{
    copy::*, create::*, elementwise::*, index::*, matmul::*, meta::*, random::*, rearrange::*,
    reduce::*, training::*,
};

fn scalar<T>(mut value: T, dtype: aclDataType) -> *mut aclScalar {
    // SAFETY: a value of the dtype.
    unsafe { aclCreateScalar((&raw mut value).cast(), dtype) }
}

fn destroy<const N: usize>(scalars: [*mut aclScalar; N]) {
    for scalar in scalars {
        // SAFETY: handles are checked.
        assert_eq!(unsafe { aclDestroyScalar(scalar) }, 0);
    }
}

#[test]
fn operands_of_two_tensors_fit() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let mul = |a: &Tensor, b: &Tensor, y: &Tensor| call!(aclnnMul: a, b, y);
    let (x, y) = (t(F32, &[2, 3]), t(F32, &[2, 3]));
    mul(&x, &t(F32, &[3]), &y).expect("broadcast");
    mul(&x, &t(F16, &[3]), &y).expect("promoted");
    each! { refused:
        mul(&x, &t(F32, &[2]), &y), "cannot be broadcast";
        mul(&x, &x, &t(F32, &[3, 2])), "out has the shape";
        mul(&x, &x, &t(ACL_INT32, &[2, 3])), "out is i32";
        mul(&t(ACL_UINT64, &[1]), &t(ACL_UINT64, &[1]), &t(ACL_UINT64, &[1])), "self is u64";
    }
    let deep = t(F32, &[1; 9]);
    refused(mul(&deep, &deep, &deep), "9 axes");
    let shared = Tensor::strided(F32, &[2, 3], Some(&[0, 1]), 0, 3);
    mul(&shared, &shared, &y).expect("views are read");
    refused(mul(&x, &x, &shared), "share memory");
    let null = call!(aclnnMul: x, null(), y);
    fails(null, ACLNN_ERR_PARAM_NULLPTR);
}

#[test]
fn scalars_keep_a_tensor_s_dtype_or_make_floats_of_integers() {
    let _session = Session::start();
    let (half, one) = (scalar(0.5f32, ACL_FLOAT), scalar(1i64, ACL_INT64));
    let adds = |x: &Tensor, rhs, alpha, y: &Tensor| call!(aclnnAdds: x, rhs, alpha, y);
    let whole = Tensor::integers(ACL_INT32, &[2], &[1, 2]);
    let out = Tensor::empty(ACL_INT32, &[2]);
    adds(&whole, one, one, &out).expect("integers");
    assert_eq!(out.read_integers(), [2, 3]);
    each! { refused:
        adds(&whole, half, one, &out), "out is i32, to which f32 is not converted";
        adds(&whole, one, half, &out), "alpha is f32";
    }
    let x = Tensor::floats(F16, &[2], &[1.0, 2.0]);
    let y = Tensor::empty(F16, &[2]);
    adds(&x, half, half, &y).expect("floats");
    assert_eq!(y.read(), [1.25, 2.25]);
    let bf16 = scalar(half::bf16::from_f32(2.0), BF16);
    adds(&x, bf16, one, &y).expect("a scalar of another float type");
    assert_eq!(y.read(), [3.0, 4.0]);
    let clamp = |low, high| call!(aclnnClamp: x, low, high, y);
    clamp(null(), one.cast_const()).expect("one bound is enough");
    assert_eq!(y.read(), [1.0, 1.0]);
    fails(clamp(null(), null()), ACLNN_ERR_PARAM_NULLPTR);
    let mode = |mode| call!(aclnnDivMods: x, half, mode, y);
    mode(2).expect("documented");
    refused(mode(3), "mode is 3");
    destroy([half, one, bf16]);
    // A destroyed scalar is recognised.
    refused(adds(&x, half, one, &y), "was destroyed");
}

#[test]
fn copies_and_fillings_check_what_they_write_to() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[3], &[1.5, 2.5, -1.0]);
    let y = Tensor::empty(ACL_INT64, &[3]);
    let cast = |to, y: &Tensor| call!(aclnnCast: x, to, y);
    cast(ACL_INT64, &y).expect("documented");
    assert_eq!(y.read_integers(), [1, 2, -1]);
    each! { refused:
        cast(ACL_INT32, &y), "out is i64";
        cast(ACL_INT64, &Tensor::empty(ACL_INT64, &[2])), "out has the shape";
    }
    let copy = |target: &Tensor, src: &Tensor| call!(aclnnInplaceCopy: target, src);
    refused(copy(&Tensor::empty(F32, &[1]), &x), "selfRef has the shape");
    let shared = Tensor::strided(F32, &[3], Some(&[0]), 0, 1);
    refused(copy(&shared, &x), "share memory");
    let mask = Tensor::integers(ACL_BOOL, &[3], &[1, 0, 1]);
    let masked = |mask: &Tensor, fill: &Tensor| call!(aclnnInplaceMaskedFillTensor: x, mask, fill);
    masked(&mask, &Tensor::floats(F32, &[], &[9.0])).expect("documented");
    assert_eq!(x.read(), [9.0, 2.5, 9.0]);
    each! { refused:
        masked(&mask, &Tensor::empty(F32, &[2])), "one element is needed";
        masked(&x, &Tensor::empty(F32, &[1])), "mask is f32";
    }
    let start = scalar(0i64, ACL_INT64);
    let end = scalar(5i64, ACL_INT64);
    let step = scalar(2i64, ACL_INT64);
    let arange = |step, y: &Tensor| call!(aclnnArange: start, end, step, y);
    arange(step, &y).expect("documented");
    assert_eq!(y.read_integers(), [0, 2, 4]);
    each! { refused:
        arange(start, &y), "no number of steps";
        arange(step, &Tensor::empty(ACL_INT64, &[4])), "out has the shape";
    }
    let (half, wide) = (scalar(0.5f64, ACL_DOUBLE), Tensor::empty(ACL_DOUBLE, &[10]));
    arange(half, &wide).expect("in f64");
    let exact: Vec<f64> = (0..10).map(|at| 0.5 * f64::from(at)).collect();
    assert_eq!(crate::common::download::<f64>(wide.address, 10), exact);
    refused(arange(half, &Tensor::empty(ACL_INT16, &[10])), "out is i16");
    destroy([start, end, step, half]);
}

#[test]
fn products_by_other_names_and_modes() {
    let _session = Session::start();
    let (a64, b64) = (noise(2 * 3 * 4, 1), noise(2 * 4 * 5, 2));
    let a = Tensor::floats(F32, &[2, 3, 4], &a64);
    let b = Tensor::floats(F32, &[2, 4, 5], &b64);
    let y = Tensor::empty(F32, &[2, 3, 5]);
    let batched = |a: &Tensor, b: &Tensor, y: &Tensor, mode| call!(aclnnBatchMatMul: a, b, y, mode);
    batched(&a, &b, &y, 0).expect("documented");
    let exact: Vec<f64> = (0..30)
        .map(|at| {
            let (batch, row, column) = (at / 15, at / 5 % 3, at % 5);
            let terms = (0..4).map(|i| {
                f64::from(a64[(batch * 3 + row) * 4 + i])
                    * f64::from(b64[(batch * 4 + i) * 5 + column])
            });
            terms.sum()
        })
        .collect();
    y.assert_close("batched", &exact, 1e-6);
    refused(batched(&a, &b, &y, 5), "cubeMathType 5");
    refused(batched(&a, &a, &y, 0), "rows of 4 by columns of 3");
    let m = Tensor::floats(F32, &[3, 4], &a64[..12]);
    let n = Tensor::floats(F32, &[4, 5], &b64[..20]);
    refused(batched(&m, &n, &y, 0), "2 axes");
    let z = Tensor::empty(F32, &[3, 5]);
    call!(aclnnMm: m, n, z, 0).expect("documented");
    z.assert_close("one", &exact[..15], 1e-6);
    let (beta, alpha) = (scalar(0.5f32, ACL_FLOAT), scalar(2.0f32, ACL_FLOAT));
    let add = |target: &Tensor, n: &Tensor, mode: i8| {
        call!(
            aclnnInplaceAddmm: target, m, n, beta, alpha, mode
        )
    };
    add(&z, &n, 0).expect("documented");
    let sums: Vec<f64> = exact[..15].iter().map(|product| 2.5 * product).collect();
    z.assert_close("added", &sums, 1e-6);
    refused(add(&z, &n, 5), "cubeMathType 5");
    refused(add(&z, &z, 0), "rows of 4 by columns of 3");
    refused(add(&n, &n, 0), "selfRef has the shape [4, 5]");
    destroy([beta, alpha]);
}

#[test]
fn reductions_check_axes_and_results() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let y = Tensor::empty(F32, &[2]);
    let sum = |axes: &[i64], to, y: &Tensor| {
        let axes = Ints::new(axes);
        call!(aclnnReduceSum: x, axes, false, to, y)
    };
    sum(&[-1], F32, &y).expect("axes from the end");
    assert_eq!(y.read(), [6.0, 15.0]);
    let whole = Tensor::empty(ACL_INT64, &[2]);
    sum(&[1], ACL_INT64, &whole).expect("converted first");
    assert_eq!(whole.read_integers(), [6, 15]);
    let all = Tensor::empty(F32, &[]);
    sum(&[], F32, &all).expect("no axes are all");
    assert_eq!(all.read(), [21.0]);
    each! { refused:
        sum(&[2], F32, &y), "no axis 2";
        sum(&[1, -1], F32, &y), "named twice";
        sum(&[0], F32, &y), "out has the shape";
        sum(&[1], F16, &y), "out is f32";
        sum(&[1], ACL_BOOL, &Tensor::empty(ACL_BOOL, &[2])), "no results of bool";
    }
    let places = Tensor::empty(ACL_INT32, &[2]);
    let most = |places: &Tensor| call!(aclnnMaxDim: x, 1, false, y, places);
    most(&places).expect("documented");
    assert_eq!(places.read_integers(), [2, 2]);
    refused(most(&Tensor::empty(F32, &[2])), "indices is f32");
    let softmax = |x: &Tensor, axis| call!(aclnnSoftmax: x, axis, x);
    softmax(&x, -2).expect("in place");
    refused(softmax(&x, 2), "no axis 2");
    refused(softmax(&whole, 0), "is i64");
}

#[test]
fn indices_sorting_and_random_numbers_are_checked() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[2, 3], &[1.0, 5.0, 3.0, 2.0, 2.0, 9.0]);
    let index = Tensor::integers(ACL_INT64, &[2], &[1, 1]);
    let select = |index: &Tensor, axis, y: &Tensor| call!(aclnnIndexSelect: x, axis, index, y);
    let y = Tensor::empty(F32, &[2, 3]);
    select(&index, 0, &y).expect("documented");
    assert_eq!(y.read(), [2.0, 2.0, 9.0, 2.0, 2.0, 9.0]);
    refused(select(&index, 2, &y), "no axis 2");
    refused(select(&index, 1, &y), "out has the shape");
    refused(select(&x, 0, &y), "index is f32");
    let top = |k, values: &Tensor, places: &Tensor| {
        call!(
            aclnnTopk: x, k, -1, true, true, values, places
        )
    };
    let values = Tensor::empty(F32, &[2, 1]);
    let places = Tensor::empty(ACL_INT64, &[2, 1]);
    top(1, &values, &places).expect("documented");
    assert_eq!(
        (values.read(), places.read_integers()),
        (vec![5.0, 9.0], vec![1, 2])
    );
    each! { refused:
        top(4, &values, &places), "k is 4";
        top(1, &values, &Tensor::empty(ACL_INT32, &[2, 1])), "indicesOut is i32";
    }
    let uniform = |y: &Tensor, low, high| call!(aclnnInplaceUniform: y, low, high, 1, 2);
    uniform(&y, 0.0, 1.0).expect("documented");
    refused(uniform(&y, 1.0, 0.0), "must not be greater");
    refused(uniform(&places, 0.0, 1.0), "selfRef is i64");
    let flip = |axes: &[i64]| {
        let axes = Ints::new(axes);
        call!(aclnnFlip: x, axes, y)
    };
    flip(&[-1]).expect("documented");
    assert_eq!(y.read(), [3.0, 5.0, 1.0, 9.0, 2.0, 2.0]);
    refused(flip(&[1, -1]), "named twice");
}

#[test]
fn adam_needs_its_largest_moment_where_it_is_asked_for() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[1, 1, 4, 8], &noise(32, 1));
    let y = Tensor::empty(F32, &[1, 1, 4, 8]);
    let step = Tensor::integers(ACL_INT64, &[1], &[0]);
    let adam = |largest: *mut aclTensor, amsgrad| {
        call!(
            aclnnApplyAdamWV2: y, y, y, largest, x, step, 0.1, 0.9, 0.9, 0.0, 1e-8, amsgrad, false
        )
    };
    adam(null_mut(), false).expect("documented");
    let none = adam(null_mut(), true).expect_err("the largest moment is missing");
    assert_eq!(none.0, ACLNN_ERR_PARAM_NULLPTR);
}
