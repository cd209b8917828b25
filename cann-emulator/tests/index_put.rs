//! Tests of reading and writing at named places, and of results with as many rows as are found.

mod common;

use cann_emulator::abi::{found::*, index_put::*, meta::*};
use cann_sys::meta::*;
use common::host::{Status, bytes, of_one, of_two, refused};
use common::{F16, F32, Session, Tensor, run};

/// A list of indices, of which those without a name leave their axis whole.
struct List(*mut aclTensorList, #[allow(dead_code)] Vec<Tensor>);

impl List {
    fn new(dtype: aclDataType, indices: &[Option<(&[usize], &[i64])>]) -> Self {
        let mut tensors: Vec<Tensor> = indices
            .iter()
            .map(|index| match index {
                Some((shape, values)) => Tensor::integers(dtype, shape, values),
                None => Tensor::empty(F32, &[0]),
            })
            .collect();
        let members: Vec<_> = tensors.iter_mut().map(Tensor::give_to_list).collect();
        // SAFETY: the array is valid.
        let list = unsafe { aclCreateTensorList(members.as_ptr(), members.len() as u64) };
        Self(list, tensors)
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: made above.
        unsafe { aclDestroyTensorList(self.0) };
    }
}

fn index(x: &Tensor, list: &List, y: &Tensor) -> Status {
    run(
        // SAFETY: handles are checked, the places are variables.
        |size, executor| unsafe {
            aclnnIndexGetWorkspaceSize(x.handle, list.0, y.handle, size, executor)
        },
        aclnnIndex,
    )
}

fn put(x: &Tensor, list: &List, values: &Tensor, accumulate: bool) -> Status {
    run(
        // SAFETY: as above.
        |size, executor| unsafe {
            let (x, values) = (x.handle, values.handle);
            aclnnIndexPutImplGetWorkspaceSize(x, list.0, values, accumulate, false, size, executor)
        },
        aclnnIndexPutImpl,
    )
}

fn numbered(shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>();
    Tensor::floats(
        F32,
        shape,
        &(0..count).map(|at| at as f32).collect::<Vec<_>>(),
    )
}

#[test]
fn indices_of_several_axes_name_elements_together() {
    let _session = Session::start();
    let x = numbered(&[2, 3, 4]);
    for dtype in [ACL_INT64, ACL_INT32] {
        // One axis, and the rows behind it.
        let list = List::new(dtype, &[Some((&[2], &[1, -2]))]);
        let y = Tensor::empty(F32, &[2, 3, 4]);
        index(&x, &list, &y).expect("documented");
        let expected: Vec<f32> = (12..24).chain(0..12).map(|at| at as f32).collect();
        assert_eq!(y.read(), expected);
        // Neighbouring axes stay where they are, and are broadcast.
        let list = List::new(
            dtype,
            &[None, Some((&[2, 1], &[0, 2])), Some((&[2], &[3, 0]))],
        );
        let y = Tensor::empty(F32, &[2, 2, 2]);
        index(&x, &list, &y).expect("documented");
        assert_eq!(y.read(), [3.0, 0.0, 11.0, 8.0, 15.0, 12.0, 23.0, 20.0]);
        // Others come first.
        let list = List::new(dtype, &[Some((&[2], &[0, 1])), None, Some((&[2], &[3, 0]))]);
        let y = Tensor::empty(F32, &[2, 3]);
        index(&x, &list, &y).expect("documented");
        assert_eq!(y.read(), [3.0, 7.0, 11.0, 12.0, 16.0, 20.0]);
    }
}

#[test]
fn indices_are_checked() {
    let _session = Session::start();
    let (x, y) = (numbered(&[2, 3]), Tensor::empty(F32, &[1, 3]));
    let named = |values: &[i64]| List::new(ACL_INT64, &[Some((&[1], values))]);
    index(&x, &named(&[1]), &y).expect("documented");
    for wrong in [2, -3] {
        let (_, text) = index(&x, &named(&[wrong]), &y).expect_err("out of range");
        assert!(text.contains("out of range; axis 0 has 2"), "{text}");
    }
    refused(
        index(&x, &named(&[0]), &Tensor::empty(F32, &[3])),
        "out has the shape",
    );
    refused(
        index(&x, &named(&[0]), &Tensor::empty(F16, &[1, 3])),
        "out is f16",
    );
    let three = List::new(ACL_INT64, &[None, None, Some((&[1], &[0]))]);
    refused(index(&x, &three, &y), "1 to 2 are taken");
    refused(
        index(&x, &List::new(ACL_INT64, &[None]), &y),
        "has an element",
    );
    let uneven = List::new(
        ACL_INT64,
        &[Some((&[2], &[0, 1])), Some((&[3], &[0, 1, 2]))],
    );
    refused(index(&x, &uneven, &y), "cannot be broadcast");
    let bytes = List::new(ACL_UINT8, &[Some((&[2], &[0, 1]))]);
    refused(index(&x, &bytes, &y), "a tensor of indices is u8");
}

#[test]
fn masks_stand_for_the_indices_of_their_true_elements() {
    let _session = Session::start();
    let x = numbered(&[2, 3, 4]);
    // One axis, two axes, and one beside indices.
    let rows = List::new(ACL_BOOL, &[None, Some((&[3], &[1, 0, 1]))]);
    let y = Tensor::empty(F32, &[2, 2, 4]);
    index(&x, &rows, &y).expect("documented");
    let expected = [0..4, 8..12, 12..16, 20..24].map(|part| part.map(|at| at as f32));
    assert_eq!(y.read(), expected.into_iter().flatten().collect::<Vec<_>>());
    let places = List::new(ACL_BOOL, &[Some((&[2, 3], &[0, 0, 1, 1, 0, 0]))]);
    let y = Tensor::empty(F32, &[2, 4]);
    index(&x, &places, &y).expect("documented");
    assert_eq!(y.read(), [8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0]);
    let mut mixed = vec![
        Tensor::integers(ACL_BOOL, &[2], &[0, 1]),
        Tensor::integers(ACL_INT64, &[3], &[2, 0, 1]),
    ];
    let members: Vec<_> = mixed.iter_mut().map(Tensor::give_to_list).collect();
    // SAFETY: the array is valid.
    let list = List(unsafe { aclCreateTensorList(members.as_ptr(), 2) }, mixed);
    let y = Tensor::empty(F32, &[3, 4]);
    index(&x, &list, &y).expect("documented");
    assert_eq!(y.read()[..5], [20.0, 21.0, 22.0, 23.0, 12.0]);
    // None is true.
    let none = List::new(ACL_BOOL, &[Some((&[2], &[0, 0]))]);
    index(&x, &none, &Tensor::empty(F32, &[0, 3, 4])).expect("nothing");
}

#[test]
fn masks_are_checked() {
    let _session = Session::start();
    let x = numbered(&[2, 3]);
    let mask = List::new(ACL_BOOL, &[None, Some((&[3], &[1, 0, 1]))]);
    refused(
        index(&x, &mask, &Tensor::empty(F32, &[3, 2])),
        "out has the shape",
    );
    for wrong in [&[2][..], &[3, 1]] {
        let values = vec![1; wrong.iter().product()];
        let mask = List::new(ACL_BOOL, &[None, Some((wrong, &values))]);
        refused(index(&x, &mask, &x), "a mask has the shape");
    }
    let beyond = List::new(ACL_BOOL, &[Some((&[2, 3], &[1; 6])), Some((&[3], &[1; 3]))]);
    refused(index(&x, &beyond, &x), "a mask has the shape");
    put(&x, &mask, &Tensor::floats(F32, &[2], &[-1.0, -2.0]), false).expect("documented");
    assert_eq!(x.read(), [-1.0, 1.0, -2.0, -1.0, 4.0, -2.0]);
    put(&x, &mask, &Tensor::floats(F32, &[], &[10.0]), true).expect("broadcast");
    assert_eq!(x.read(), [9.0, 1.0, 8.0, 9.0, 4.0, 8.0]);
}

#[test]
fn masks_with_another_number_of_true_elements_fail_on_the_stream() {
    let mask = || List::new(ACL_BOOL, &[None, Some((&[3], &[1, 0, 1]))]);
    {
        let _session = Session::start();
        let (x, y) = (numbered(&[2, 3]), Tensor::empty(F32, &[2, 3]));
        let (_, text) = index(&x, &mask(), &y).expect_err("two are true");
        assert!(text.contains("out has the shape [2, 3]"), "{text}");
    }
    let _session = Session::start();
    let (x, values) = (numbered(&[2, 3]), Tensor::empty(F32, &[3]));
    let (_, text) = put(&x, &mask(), &values, false).expect_err("two are true");
    assert!(text.contains("cannot be broadcast"), "{text}");
}

#[test]
fn values_are_put_or_added() {
    let _session = Session::start();
    let list = List::new(
        ACL_INT64,
        &[Some((&[3], &[1, 0, 1])), Some((&[3], &[2, 0, 2]))],
    );
    let x = numbered(&[2, 3]);
    put(
        &x,
        &list,
        &Tensor::floats(F32, &[3], &[10.0, 20.0, 30.0]),
        true,
    )
    .expect("documented");
    assert_eq!(x.read(), [20.0, 1.0, 2.0, 3.0, 4.0, 45.0]);
    put(
        &x,
        &list,
        &Tensor::floats(F32, &[3], &[10.0, 20.0, 30.0]),
        false,
    )
    .expect("documented");
    assert_eq!(x.read(), [20.0, 1.0, 2.0, 3.0, 4.0, 30.0]);
    put(&x, &list, &Tensor::floats(F32, &[], &[-1.0]), false).expect("broadcast");
    assert_eq!(x.read(), [-1.0, 1.0, 2.0, 3.0, 4.0, -1.0]);
    // Whole rows of the second axis, in a view.
    let rows = List::new(ACL_INT32, &[None, Some((&[1], &[-1]))]);
    let view = Tensor::strided(F32, &[2, 2], Some(&[1, 2]), 0, 4);
    view.fill(&[1.0, 2.0, 3.0, 4.0]);
    put(
        &view,
        &rows,
        &Tensor::floats(F32, &[2, 1], &[8.0, 9.0]),
        false,
    )
    .expect("documented");
    assert_eq!(view.read(), [1.0, 2.0, 8.0, 9.0]);
    refused(
        put(&x, &list, &Tensor::empty(F32, &[2]), false),
        "cannot be broadcast",
    );
    refused(
        put(&x, &list, &Tensor::empty(F32, &[2, 3]), false),
        "values has the shape",
    );
    refused(
        put(&x, &list, &Tensor::empty(F16, &[3]), false),
        "values is f16",
    );
}

#[test]
fn indices_without_elements_name_nothing() {
    let _session = Session::start();
    let x = numbered(&[2, 3]);
    let list = List::new(ACL_INT64, &[None, None]);
    index(&x, &list, &Tensor::empty(F32, &[0])).expect("nothing");
    put(&x, &list, &Tensor::floats(F32, &[], &[7.0]), false).expect("nothing");
    put(&x, &list, &Tensor::empty(F32, &[0]), true).expect("nothing");
    assert_eq!(x.read(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    refused(index(&x, &list, &Tensor::empty(F32, &[1])), "out has some");
    refused(
        put(&x, &list, &Tensor::empty(F16, &[]), false),
        "values is f16",
    );
}

/// Returns the shape of a descriptor.
fn shape(tensor: &Tensor) -> Vec<i64> {
    let (mut lengths, mut rank) = (std::ptr::null_mut(), 0);
    // SAFETY: the places are variables, and the array is freed as the caller must.
    unsafe {
        assert_eq!(aclGetViewShape(tensor.handle, &mut lengths, &mut rank), 0);
        let shape = std::slice::from_raw_parts(lengths, rank as usize).to_vec();
        libc_free(lengths.cast());
        shape
    }
}

// SAFETY: it is C's prototype.
unsafe extern "C" {
    #[link_name = "free"]
    fn libc_free(address: *mut std::ffi::c_void);
}

#[test]
fn what_a_mask_shows_fills_the_front() {
    let _session = Session::start();
    let x = numbered(&[2, 3]);
    let select = |x: &Tensor, mask: &Tensor, y: &Tensor| {
        of_two(
            aclnnMaskedSelectGetWorkspaceSize,
            aclnnMaskedSelect,
            x,
            mask,
            y,
        )
    };
    for dtype in [ACL_BOOL, ACL_UINT8] {
        let y = Tensor::floats(F32, &[6], &[-1.0; 6]);
        select(&x, &bytes(dtype, &[1, 0, 1]), &y).expect("broadcast");
        assert_eq!(y.read(), [0.0, 2.0, 3.0, 5.0, -1.0, -1.0]);
        assert_eq!(shape(&y), [4]);
    }
    let none = Tensor::empty(F32, &[6]);
    select(&x, &bytes(ACL_BOOL, &[0]), &none).expect("nothing");
    assert_eq!(shape(&none), [0]);
    let mask = bytes(ACL_BOOL, &[1, 1, 1]);
    let (_, text) = select(&x, &mask, &Tensor::empty(F32, &[5])).expect_err("too little room");
    assert!(
        text.contains("6 rows were found, and out has room for 5"),
        "{text}"
    );
    refused(
        select(&x, &mask, &Tensor::empty(F32, &[2, 3])),
        "one contiguous axis",
    );
    refused(select(&x, &mask, &Tensor::empty(F16, &[6])), "out is f16");
    refused(select(&x, &x, &Tensor::empty(F32, &[6])), "mask is f32");
    refused(
        select(&x, &bytes(ACL_BOOL, &[1, 1]), &Tensor::empty(F32, &[6])),
        "broadcast",
    );
}

#[test]
fn places_other_than_zero_are_listed() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[2, 3], &[0.0, f32::NAN, 0.0, -1.0, 0.0, 2.0]);
    let nonzero = |x: &Tensor, y: &Tensor| of_one(aclnnNonzeroGetWorkspaceSize, aclnnNonzero, x, y);
    let y = Tensor::integers(ACL_INT64, &[6, 2], &[-1; 12]);
    nonzero(&x, &y).expect("documented");
    assert_eq!(y.read_integers()[..6], [0, 1, 1, 0, 1, 2]);
    assert_eq!(y.read_integers()[6..], [-1; 6]);
    assert_eq!(shape(&y), [3, 2]);
    let (_, text) = nonzero(&x, &Tensor::empty(ACL_INT64, &[2, 2])).expect_err("too little room");
    assert!(text.contains("3 elements were found"), "{text}");
    refused(
        nonzero(&x, &Tensor::empty(ACL_INT64, &[6, 3])),
        "out has the shape",
    );
    refused(
        nonzero(&x, &Tensor::empty(ACL_INT32, &[6, 2])),
        "out is i32",
    );
}
