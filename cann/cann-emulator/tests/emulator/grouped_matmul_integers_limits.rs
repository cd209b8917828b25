//! Tests of what the documents exclude from products of i8 by group.

use crate::common::few_bits::signed_bytes;
use crate::common::grouped::{Grouped, ROWS, Values, list_of};
use crate::common::*;
use cann_emulator::abi::meta::{aclCreateTensor, aclDestroyTensor};

/// Checks that calls of version 5 are refused after a change of a legal one.
fn refuse(dtype: aclDataType, change: impl FnOnce(&mut Grouped), text: &str) {
    let values = Values::new();
    let mut call = values.call(dtype);
    if dtype != ACL_INT32 {
        call.scale = vec![values.scale(dtype)];
    }
    change(&mut call);
    refused(call.call(5), text);
}

#[test]
fn dtypes_and_shapes_outside_the_document_are_refused() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| vec![Tensor::empty(dtype, shape)];
    refuse(F32, |_| {}, "y is f32");
    for (dtype, wrong) in [
        (ACL_INT8, [F32, ACL_INT64]),
        (F16, [ACL_UINT64, BF16]),
        (BF16, [F32, ACL_UINT64]),
    ] {
        for scale in wrong {
            refuse(dtype, |call| call.scale = t(scale, &[3, 3]), "scale is");
        }
        refuse(dtype, |call| call.scale.clear(), "scale has 0 tensors");
        refuse(dtype, |call| call.bias = t(F32, &[3, 3]), "bias is f32");
    }
    each! { refuse: ACL_INT32, |call| call.scale = t(F32, &[3, 3]), "scale has 1 tensors" }
    for dtype in [ACL_INT8, ACL_INT32] {
        let rows = t(F32, &[ROWS]);
        each! { refuse:
            dtype, |call| call.token_scale = rows, "perTokenScale has 1 tensors";
            dtype, |call| call.activation = 1, "actType is 1";
        }
    }
    for activation in [3, 6, -1] {
        refuse(F16, |call| call.activation = activation, "actType is");
    }
    for wrong in [t(F16, &[ROWS]), t(F32, &[ROWS, 1]), t(F32, &[5])] {
        refuse(F16, |call| call.token_scale = wrong, "perTokenScale");
    }
    for wrong in [&[3][..], &[1, 3], &[3, 1], &[3, 1, 3]] {
        each! { refuse: F16, |call| call.scale = t(F32, wrong), "scale has the shape" }
    }
    let turned = Tensor::strided(F32, &[3, 3], Some(&[1, 3]), 0, 9);
    each! { refuse: F16, |call| call.scale = vec![turned], "scale must be contiguous" }
    let mut call = Values::new().call(ACL_INT32);
    call.bias = t(ACL_INT32, &[3]);
    fails(call.call(5), ACLNN_ERR_INNER_TILING_ERROR);
    refuse(F16, |call| call.offset = t(F32, &[3, 3]), "offset is given");
    for part in 0..2 {
        let some = t(F16, &[3, 3]);
        refuse(F16, |call| call.few_bits[part] = some, "antiquant");
    }
    each! { refuse:
        F16, |call| call.x = t(ACL_INT8, &[ROWS, 4]), "the axis between";
        F16, |call| call.x = t(ACL_INT8, &[1, ROWS, 5]), "x has";
        F16, |call| call.weight = t(F16, &[3, 5, 3]), "x is i8";
        F16, |call| call.x = t(F32, &[ROWS, 5]), "weight is i8";
    }
}

/// Makes weights whose descriptor says that they are in blocks.
fn in_blocks() -> Tensor {
    let mut weight = Tensor::empty(ACL_INT8, &[3, 5, 3]);
    let (shape, storage) = ([3, 5, 3], [45]);
    // SAFETY: the old handle has no other owner, and the arrays are valid.
    unsafe {
        aclDestroyTensor(weight.handle);
        weight.handle = aclCreateTensor(
            shape.as_ptr(),
            3,
            ACL_INT8,
            std::ptr::null(),
            0,
            ACL_FORMAT_FRACTAL_NZ,
            storage.as_ptr(),
            1,
            weight.address,
        );
    }
    weight
}

#[test]
fn weights_in_blocks_are_refused() {
    let _session = Session::start();
    each! { refuse: ACL_INT32, |call| call.weight = vec![in_blocks()], "FRACTAL_NZ" }
}

#[test]
fn settings_outside_the_document_are_refused() {
    let _session = Session::start();
    refuse(F16, |call| call.list_type = 3, "groupListType is 3");
    refuse(F16, |call| call.list_type = 2, "groupList has the shape");
    let pairs = |call: &mut Grouped| call.list = Some(list_of(&[0, 1, 1, 1, 2, 1], true));
    refuse(F16, pairs, "groupList has the shape");
    refuse(
        F16,
        |call| call.split_item = 0,
        "not a documented combination",
    );
    let depth = |call: &mut Grouped| {
        call.x = vec![Tensor::strided(ACL_INT8, &[5, ROWS], Some(&[1, 5]), 0, 35)];
        call.weight = vec![Tensor::empty(ACL_INT8, &[ROWS, 3])];
        call.y = vec![Tensor::empty(ACL_INT32, &[3, 5, 3])];
        call.group_type = 2;
    };
    refuse(ACL_INT32, depth, "groupType is 2");
    for (tuning, fits) in [
        (&[][..], true),
        (&[7], true),
        (&[0, 0, -1], true),
        (&[3, 0, 100], true),
        (&[-1], false),
        (&[8], false),
        (&[0, 1], false),
        (&[0, 0, -2], false),
        (&[0, 0, 0, 0], false),
    ] {
        let mut call = Values::new().call(ACL_INT32);
        call.tuning = Some(tuning.to_vec());
        match fits {
            true => call.call(5).expect("documented"),
            false => refused(call.call(5), "tuningConfig is"),
        }
    }
}

#[test]
fn versions_have_the_tensors_and_results_of_their_documents() {
    let _session = Session::start();
    let values = Values::new();
    let several = |version, dtype| {
        let [weight, _, scale] = values.apart(dtype == ACL_INT8, &[0, 2]);
        let mut call = Grouped {
            x: vec![
                signed_bytes(&[2, 5], &values.x[..10]),
                signed_bytes(&[3, 5], &values.x[..15]),
            ],
            weight,
            scale,
            y: vec![Tensor::empty(dtype, &[5, 3])],
            split_item: 2,
            ..Grouped::default()
        };
        call.call(version)
    };
    several(2, ACL_INT8).expect("documented");
    for version in [3, 4, 5] {
        refused(several(version, ACL_INT8), "a single x");
    }
    let one = |version, dtype| {
        let mut call = values.call(dtype);
        call.x = vec![signed_bytes(&[5, 5], &values.x[..25])];
        call.y = vec![Tensor::empty(dtype, &[5, 3])];
        (call.list, call.ends) = (Some(list_of(&[2, 2, 5], false)), Some(vec![2, 2, 5]));
        if dtype != ACL_INT32 {
            call.scale = vec![values.scale(dtype)];
        }
        call.call(version)
    };
    for version in [2, 3] {
        one(version, ACL_INT8).expect("documented");
        for dtype in [ACL_INT32, F16, BF16] {
            refused(one(version, dtype), "y is");
        }
    }
    // Ends on the host are known in phase one.
    let mut call = values.call(ACL_INT8);
    call.scale = vec![values.scale(ACL_INT8)];
    call.ends = Some(vec![2, 2, 5]);
    each! { refused: call.call(2), "groupList ends at [2, 2, 5], and the tensors at [7]" }
    let mut call = Grouped {
        x: vec![signed_bytes(&[2, 5], &values.x[..10])],
        weight: vec![Tensor::strided(ACL_INT8, &[5, 3], Some(&[1, 5]), 0, 15)],
        y: vec![Tensor::empty(ACL_INT32, &[2, 3])],
        ..Grouped::default()
    };
    refused(call.call(1), "weight is transposed");
}

#[test]
fn older_chips_have_no_products_of_bytes() {
    let _session = Session::on("Ascend910A");
    refuse(ACL_INT32, |_| {}, "are not emulated for Ascend910A");
}
