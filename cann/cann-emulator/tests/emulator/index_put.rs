//! Tests of reading and writing at named places, and of results with as many rows as are found.

use crate::common::*;
use cann_emulator::abi::{found::*, index_put::*};

/// Makes a list of indices, of which those without a name leave their axis whole.
fn indices(dtype: aclDataType, named: &[Option<(&[usize], &[i64])>]) -> List {
    let tensors = named.iter().map(|index| match index {
        Some((shape, values)) => Tensor::integers(dtype, shape, values),
        None => Tensor::empty(F32, &[0]),
    });
    List::new(tensors.collect())
}

fn index(x: &Tensor, list: &List, y: &Tensor) -> Status {
    call!(aclnnIndex: x, list, y)
}

fn put(x: &Tensor, list: &List, values: &Tensor, accumulate: bool) -> Status {
    call!(aclnnIndexPutImpl: x, list, values, accumulate, false)
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
        let list = indices(dtype, &[Some((&[2], &[1, -2]))]);
        let y = Tensor::empty(F32, &[2, 3, 4]);
        index(&x, &list, &y).expect("documented");
        let expected: Vec<f32> = (12..24).chain(0..12).map(|at| at as f32).collect();
        assert_eq!(y.read(), expected);
        // Neighbouring axes stay where they are, and are broadcast.
        let list = indices(
            dtype,
            &[None, Some((&[2, 1], &[0, 2])), Some((&[2], &[3, 0]))],
        );
        let y = Tensor::empty(F32, &[2, 2, 2]);
        index(&x, &list, &y).expect("documented");
        assert_eq!(y.read(), [3.0, 0.0, 11.0, 8.0, 15.0, 12.0, 23.0, 20.0]);
        // Others come first.
        let list = indices(dtype, &[Some((&[2], &[0, 1])), None, Some((&[2], &[3, 0]))]);
        let y = Tensor::empty(F32, &[2, 3]);
        index(&x, &list, &y).expect("documented");
        assert_eq!(y.read(), [3.0, 7.0, 11.0, 12.0, 16.0, 20.0]);
    }
}

#[test]
fn indices_are_checked() {
    let _session = Session::start();
    let (x, y) = (numbered(&[2, 3]), Tensor::empty(F32, &[1, 3]));
    let named = |values: &[i64]| indices(ACL_INT64, &[Some((&[1], values))]);
    index(&x, &named(&[1]), &y).expect("documented");
    for wrong in [2, -3] {
        each! { broke: index(&x, &named(&[wrong]), &y), "out of range; axis 0 has 2" }
    }
    each! { refused:
        index(&x, &named(&[0]), &Tensor::empty(F32, &[3])), "out has the shape";
        index(&x, &named(&[0]), &Tensor::empty(F16, &[1, 3])), "out is f16";
    }
    let three = indices(ACL_INT64, &[None, None, Some((&[1], &[0]))]);
    each! { refused:
        index(&x, &three, &y), "1 to 2 are taken";
        index(&x, &indices(ACL_INT64, &[None]), &y), "has an element";
    }
    let uneven = indices(
        ACL_INT64,
        &[Some((&[2], &[0, 1])), Some((&[3], &[0, 1, 2]))],
    );
    refused(index(&x, &uneven, &y), "cannot be broadcast");
    let bytes = indices(ACL_UINT8, &[Some((&[2], &[0, 1]))]);
    refused(index(&x, &bytes, &y), "a tensor of indices is u8");
}

#[test]
fn masks_stand_for_the_indices_of_their_true_elements() {
    let _session = Session::start();
    let x = numbered(&[2, 3, 4]);
    // One axis, two axes, and one beside indices.
    let rows = indices(ACL_BOOL, &[None, Some((&[3], &[1, 0, 1]))]);
    let y = Tensor::empty(F32, &[2, 2, 4]);
    index(&x, &rows, &y).expect("documented");
    let expected = [0..4, 8..12, 12..16, 20..24].map(|part| part.map(|at| at as f32));
    assert_eq!(y.read(), expected.into_iter().flatten().collect::<Vec<_>>());
    let places = indices(ACL_BOOL, &[Some((&[2, 3], &[0, 0, 1, 1, 0, 0]))]);
    let y = Tensor::empty(F32, &[2, 4]);
    index(&x, &places, &y).expect("documented");
    assert_eq!(y.read(), [8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0]);
    let list = List::new(vec![
        Tensor::integers(ACL_BOOL, &[2], &[0, 1]),
        Tensor::integers(ACL_INT64, &[3], &[2, 0, 1]),
    ]);
    let y = Tensor::empty(F32, &[3, 4]);
    index(&x, &list, &y).expect("documented");
    assert_eq!(y.read()[..5], [20.0, 21.0, 22.0, 23.0, 12.0]);
    // None is true.
    let none = indices(ACL_BOOL, &[Some((&[2], &[0, 0]))]);
    index(&x, &none, &Tensor::empty(F32, &[0, 3, 4])).expect("nothing");
}

#[test]
fn masks_are_checked() {
    let _session = Session::start();
    let x = numbered(&[2, 3]);
    let mask = indices(ACL_BOOL, &[None, Some((&[3], &[1, 0, 1]))]);
    each! { refused: index(&x, &mask, &Tensor::empty(F32, &[3, 2])), "out has the shape" }
    for wrong in [&[2][..], &[3, 1]] {
        let values = vec![1; wrong.iter().product()];
        let mask = indices(ACL_BOOL, &[None, Some((wrong, &values))]);
        refused(index(&x, &mask, &x), "a mask has the shape");
    }
    let beyond = indices(ACL_BOOL, &[Some((&[2, 3], &[1; 6])), Some((&[3], &[1; 3]))]);
    refused(index(&x, &beyond, &x), "a mask has the shape");
    put(&x, &mask, &Tensor::floats(F32, &[2], &[-1.0, -2.0]), false).expect("documented");
    assert_eq!(x.read(), [-1.0, 1.0, -2.0, -1.0, 4.0, -2.0]);
    put(&x, &mask, &Tensor::floats(F32, &[], &[10.0]), true).expect("broadcast");
    assert_eq!(x.read(), [9.0, 1.0, 8.0, 9.0, 4.0, 8.0]);
}

#[test]
fn masks_with_another_number_of_true_elements_fail_on_the_stream() {
    let mask = || indices(ACL_BOOL, &[None, Some((&[3], &[1, 0, 1]))]);
    {
        let _session = Session::start();
        let (x, y) = (numbered(&[2, 3]), Tensor::empty(F32, &[2, 3]));
        broke(index(&x, &mask(), &y), "out has the shape [2, 3]");
    }
    let _session = Session::start();
    let (x, values) = (numbered(&[2, 3]), Tensor::empty(F32, &[3]));
    broke(put(&x, &mask(), &values, false), "cannot be broadcast");
}

#[test]
fn values_are_put_or_added() {
    let _session = Session::start();
    let list = indices(
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
    let rows = indices(ACL_INT32, &[None, Some((&[1], &[-1]))]);
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
    each! { refused:
        put(&x, &list, &Tensor::empty(F32, &[2]), false), "cannot be broadcast";
        put(&x, &list, &Tensor::empty(F32, &[2, 3]), false), "values has the shape";
        put(&x, &list, &Tensor::empty(F16, &[3]), false), "values is f16";
    }
}

#[test]
fn indices_without_elements_name_nothing() {
    let _session = Session::start();
    let x = numbered(&[2, 3]);
    let list = indices(ACL_INT64, &[None, None]);
    index(&x, &list, &Tensor::empty(F32, &[0])).expect("nothing");
    put(&x, &list, &Tensor::floats(F32, &[], &[7.0]), false).expect("nothing");
    put(&x, &list, &Tensor::empty(F32, &[0]), true).expect("nothing");
    assert_eq!(x.read(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    each! { refused:
        index(&x, &list, &Tensor::empty(F32, &[1])), "out has some";
        put(&x, &list, &Tensor::empty(F16, &[]), false), "values is f16";
    }
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
    let select = |x: &Tensor, mask: &Tensor, y: &Tensor| call!(aclnnMaskedSelect: x, mask, y);
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
    each! { broke:
        select(&x, &mask, &Tensor::empty(F32, &[5])),
            "6 rows were found, and out has room for 5";
    }
    each! { refused:
        select(&x, &mask, &Tensor::empty(F32, &[2, 3])), "one contiguous axis";
        select(&x, &mask, &Tensor::empty(F16, &[6])), "out is f16";
        select(&x, &x, &Tensor::empty(F32, &[6])), "mask is f32";
        select(&x, &bytes(ACL_BOOL, &[1, 1]), &Tensor::empty(F32, &[6])), "broadcast";
    }
}

#[test]
fn places_other_than_zero_are_listed() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[2, 3], &[0.0, f32::NAN, 0.0, -1.0, 0.0, 2.0]);
    let nonzero = |x: &Tensor, y: &Tensor| call!(aclnnNonzero: x, y);
    let y = Tensor::integers(ACL_INT64, &[6, 2], &[-1; 12]);
    nonzero(&x, &y).expect("documented");
    assert_eq!(y.read_integers()[..6], [0, 1, 1, 0, 1, 2]);
    assert_eq!(y.read_integers()[6..], [-1; 6]);
    assert_eq!(shape(&y), [3, 2]);
    each! { broke: nonzero(&x, &Tensor::empty(ACL_INT64, &[2, 2])), "3 elements were found" }
    each! { refused:
        nonzero(&x, &Tensor::empty(ACL_INT64, &[6, 3])), "out has the shape";
        nonzero(&x, &Tensor::empty(ACL_INT32, &[6, 2])), "out is i32";
    }
}
