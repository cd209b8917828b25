//! Tests that arguments made to harm are errors, with CANN's status, and never the end of the program: views of more
//! elements than a machine holds, sizes whose products overflow, and outputs that share memory with themselves.

use crate::common::*;
use std::time::{Duration, Instant};

use crate::common::convolution::{Call, PLAIN, convolve, formatted, image};
use cann_emulator::abi::{
    create::*, elementwise::*, index_put::*, losses::*, moe::*, pad::*, rearrange::*, reduce::*,
    views::*,
};

/// Makes a descriptor without memory of its own. It is NULL if it is refused.
fn bare(
    dtype: aclDataType,
    shape: &[usize],
    strides: Option<&[i64]>,
    offset: i64,
) -> *mut aclTensor {
    descriptor(64 as *mut _, dtype, shape, strides, offset, 1 << 50)
}

#[test]
fn views_that_reach_beyond_all_addresses_are_refused() {
    let _session = Session::start();
    for (shape, strides, offset) in [
        // Strides that nothing uses, whose multiples overflow.
        (&[1][..], Some(&[i64::MAX][..]), 1),
        (&[1, 2], Some(&[i64::MIN, 1]), 0),
        (&[0, 2], Some(&[i64::MIN, 1]), 0),
        (&[2], Some(&[1 << 56]), 0),
    ] {
        let tensor = bare(F32, shape, strides, offset);
        assert!(tensor.is_null(), "{shape:?}");
        let text = message();
        assert!(text.contains("than can be addressed"), "{text}");
    }
    // SAFETY: nothing is read of arrays that are so long.
    unsafe {
        let one = 1i64;
        assert!(aclCreateIntArray(&one, u64::MAX).is_null());
        assert!(message().contains("larger than can be addressed"));
        let (ranks, format) = (u64::MAX, ACL_FORMAT_ND);
        let tensor = aclCreateTensor(&one, ranks, F32, null(), 0, format, null(), 0, null_mut());
        assert!(tensor.is_null());
        let none: [*const aclTensor; 2] = [null(); 2];
        assert!(aclCreateTensorList(none.as_ptr(), 2).is_null());
        assert!(aclCreateTensorList(none.as_ptr(), u64::MAX).is_null());
    }
}

#[test]
fn broadcasting_to_more_than_a_machine_holds_breaks_the_stream() {
    let _session = Session::start();
    let rows = Tensor::strided(F32, &[1 << 20, 1], Some(&[0, 0]), 0, 1);
    let columns = Tensor::strided(F32, &[1 << 20], Some(&[0]), 0, 1);
    let total = Tensor::empty(F32, &[]);
    let status = call!(aclnnL1Loss: rows, columns, 2, total);
    broke(status, "the emulator repeats up to");
    // The indices name each of 4096 columns a million times.
    let x = Tensor::empty(ACL_INT8, &[2, 4096]);
    let index = Tensor::strided(ACL_INT64, &[1 << 20], Some(&[0]), 0, 1);
    crate::common::upload(index.address, &[1i64]);
    let (list, value) = (List::new(vec![index]), Tensor::empty(ACL_INT8, &[1]));
    let status = call!(aclnnIndexPutImpl: x, list, value, false, false);
    assert!(status.is_err(), "it would take 4 Gi places");
}

/// Repeats an axis as a whole, and by elements.
fn repeat(x: &Tensor, repeats: &[i64], y: *mut aclTensor) -> Status {
    let repeats = Ints::new(repeats);
    call!(aclnnRepeat: x, repeats, y)
}

fn interleave(x: &Tensor, repeats: i64, size_out: i64, y: *mut aclTensor) -> Status {
    call!(aclnnRepeatInterleaveIntWithDim: x, repeats, 0, size_out, y)
}

#[test]
fn repetitions_of_nothing_and_of_too_much_end_soon() {
    let _session = Session::start();
    let begin = Instant::now();
    let (none, two) = (Tensor::empty(F32, &[0]), Tensor::empty(F32, &[2]));
    let out = Tensor::empty(F32, &[0]);
    repeat(&none, &[i64::MAX], out.handle).expect("nothing is repeated");
    interleave(&none, i64::MAX, 0, out.handle).expect("nothing is repeated");
    each! { refused:
        repeat(&two, &[i64::MAX], out.handle), "out has the shape";
        repeat(&two, &[i64::MIN], out.handle), "repeats is";
        interleave(&two, i64::MAX, -2, out.handle), "no outputSize";
        interleave(&two, i64::MAX, i64::MAX, out.handle), "no outputSize";
        interleave(&two, i64::MIN, 0, out.handle), "no outputSize";
    }
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn paddings_that_overflow_are_refused() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let zero = Scalar::float(0.0);
    let pad = |margins: &[i64], y: *mut aclTensor| {
        let margins = Ints::new(margins);
        call!(aclnnConstantPadNd: x, margins, zero, y)
    };
    let y = Tensor::empty(F32, &[2, 2]);
    for margins in [
        [i64::MAX, i64::MAX],
        [i64::MAX, 1],
        [i64::MIN, 0],
        [i64::MIN, i64::MAX],
        [-2, -1],
    ] {
        fails(pad(&margins, y.handle), ACLNN_ERR_PARAM_INVALID);
    }
    pad(&[-1, 1], y.handle).expect("documented");
    assert_eq!(y.read(), [2.0, 0.0, 4.0, 0.0]);
    // The output is large, and has no memory, which is found before anything is computed.
    let large = bare(F32, &[2, (1 << 48) + 2], None, 0);
    fails(pad(&[0, 1 << 48], large), ACLNN_ERR_RUNTIME_ERROR);
    // SAFETY: handles are checked.
    unsafe { aclDestroyTensor(large) };
}

#[test]
fn outputs_that_share_memory_with_themselves_are_refused() {
    let _session = Session::start();
    let shared = Tensor::strided(F32, &[4], Some(&[0]), 0, 1);
    let [start, end, step] = [0.0, 4.0, 1.0].map(Scalar::float);
    refused(call!(aclnnArange: start, end, step, shared), "share memory");
    let x = Tensor::floats(F32, &[4], &[0.0; 4]);
    let exp = call!(aclnnExp: x, shared);
    refused(exp, "share memory");
}

#[test]
fn counts_and_kernels_beyond_the_host_are_refused() {
    let _session = Session::start();
    let out = Tensor::empty(ACL_INT64, &[4]);
    for value in [i64::MAX, (1 << 34) - 2, 4] {
        let x = Tensor::integers(ACL_INT64, &[2], &[1, value]);
        broke(call!(aclnnBincount: x, null(), 0, out), "aclnnBincount");
    }
    // A small kernel that repeats one number reads 65025 elements at each of 700,000 places.
    let x = image(F32, &[1, 1, 600, 600]);
    let y = image(F32, &[1, 1, 856, 856]);
    let weight = formatted(F32, &[1, 1, 255, 255], ACL_FORMAT_NCHW);
    let call = Call {
        padding: &[255, 255],
        ..PLAIN
    };
    each! { refused: convolve(call, [&x, &weight, &y], None), "more than the emulator holds" }
}

#[test]
fn numbers_of_experts_that_overflow_are_refused() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[4, 8], &[0.5; 32]);
    let experts = Tensor::integers(ACL_INT32, &[4, 2], &[0, 1, 1, 0, 0, 1, 1, 0]);
    let expanded = Tensor::empty(F32, &[8, 8]);
    let rows = Tensor::empty(ACL_INT32, &[8]);
    for count in [i64::MAX, i64::MAX / 2 + 1, i64::MIN, -1] {
        let status = call!(
            aclnnMoeInitRoutingV2: x, experts, 0, 4, count, 1, 0, false, expanded, rows, null_mut(),
            null_mut()
        );
        let (code, text) = status.expect_err("the output does not exist");
        let refused = [ACLNN_ERR_INNER_NULLPTR, ACLNN_ERR_INNER_TILING_ERROR];
        assert!(refused.contains(&code), "{code}: {text}");
    }
}

#[test]
fn every_axis_of_a_tensor_without_axes_is_its_only_one() {
    let _session = Session::start();
    let (x, values) = (Tensor::floats(F32, &[], &[3.5]), Tensor::empty(F32, &[]));
    let indices = Tensor::empty(ACL_INT64, &[]);
    for axis in [i64::MIN, -2, 1, i64::MAX] {
        refused(
            call!(aclnnSort: x, false, axis, true, values, indices),
            "no axis",
        );
    }
    call!(aclnnTopk: x, 1, -1, true, true, values, indices).expect("documented");
    assert_eq!(
        (values.read(), indices.read_integers()),
        (vec![3.5], vec![0])
    );
}
