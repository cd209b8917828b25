//! Tests of the values of a tensor without repetitions.

use crate::common::*;
use cann_emulator::abi::unique::*;

/// Runs the operator. The flags are whether values are sorted, and whether places and counts are wanted.
fn unique(
    x: &Tensor,
    [sorted, inverse, counts]: [bool; 3],
    [values, places, counted]: [&Tensor; 3],
) -> Status {
    call!(aclnnUnique2: x, sorted, inverse, counts, values, places, counted)
}

/// Returns the length of a descriptor with one axis.
fn length(tensor: &Tensor) -> i64 {
    let (mut lengths, mut rank) = (std::ptr::null_mut(), 0);
    // SAFETY: the places are variables, and the array is freed as the caller must.
    unsafe {
        assert_eq!(aclGetViewShape(tensor.handle, &mut lengths, &mut rank), 0);
        let shape = std::slice::from_raw_parts(lengths, rank as usize).to_vec();
        libc_free(lengths.cast());
        assert_eq!(shape.len(), 1);
        shape[0]
    }
}

// SAFETY: it is C's prototype.
unsafe extern "C" {
    #[link_name = "free"]
    fn libc_free(address: *mut std::ffi::c_void);
}

fn places(shape: &[usize]) -> Tensor {
    Tensor::integers(ACL_INT64, shape, &vec![-1; shape.iter().product()])
}

#[test]
fn values_are_sorted_or_in_the_order_of_their_first_occurrence() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[2, 3], &[3.0, -1.0, 3.0, 0.5, -1.0, 3.0]);
        for (sorted, values, inverse, counts) in [
            (true, [-1.0, 0.5, 3.0], [2, 0, 2, 1, 0, 2], [2, 1, 3]),
            (false, [3.0, -1.0, 0.5], [0, 1, 0, 2, 1, 0], [3, 2, 1]),
        ] {
            let (y, at, count) = (Tensor::empty(dtype, &[6]), places(&[2, 3]), places(&[6]));
            unique(&x, [sorted, true, true], [&y, &at, &count]).expect("documented");
            assert_eq!(y.read()[..3], values);
            assert_eq!(at.read_integers(), inverse);
            assert_eq!(count.read_integers()[..3], counts);
            assert_eq!((length(&y), length(&count)), (3, 3));
        }
    }
    // Of a view, without places and counts, which stay as they are.
    let view = Tensor::strided(F32, &[3], Some(&[2]), 0, 6);
    view.fill(&[2.0, 9.0, 1.0, 9.0, 2.0, 9.0]);
    let (y, at, count) = (Tensor::empty(F32, &[3]), places(&[3]), places(&[3]));
    unique(&view, [true, false, false], [&y, &at, &count]).expect("a view");
    each! { assert_same:
        y.read()[..2].to_vec(), [1.0, 2.0];
        [at.read_integers(), count.read_integers()].concat(), [-1; 6];
    }
    // Places of counts need no room, and are written if they have it.
    let none = places(&[0]);
    let (y, count) = (Tensor::empty(F32, &[3]), places(&[3]));
    unique(&view, [true, false, true], [&y, &none, &count]).expect("no room");
    let y = Tensor::empty(F32, &[3]);
    unique(&view, [true, false, true], [&y, &at, &places(&[3])]).expect("room");
    assert_eq!(at.read_integers(), [1, 0, 1]);
}

#[test]
fn integers_of_every_width_and_special_floats() {
    let _session = Session::start();
    let large = Tensor::empty(ACL_UINT64, &[4]);
    upload(large.address, &[u64::MAX, 1, u64::MAX, 7]);
    let (y, at, count) = (Tensor::empty(ACL_UINT64, &[4]), places(&[4]), places(&[4]));
    unique(&large, [true; 3], [&y, &at, &count]).expect("documented");
    assert_eq!(download::<u64>(y.address, 3), [1, 7, u64::MAX]);
    assert_eq!(at.read_integers(), [2, 0, 2, 1]);
    let truth = bytes(ACL_BOOL, &[1, 0, 1]);
    let (y, at, count) = (Tensor::empty(ACL_BOOL, &[3]), places(&[3]), places(&[3]));
    unique(&truth, [true; 3], [&y, &at, &count]).expect("documented");
    assert_eq!(download::<u8>(y.address, 2), [0, 1]);
    assert_eq!(count.read_integers()[..2], [1, 2]);
    let x = Tensor::floats(
        F32,
        &[5],
        &[f32::NAN, 0.0, -0.0, f32::NAN, f32::NEG_INFINITY],
    );
    let (y, at, count) = (Tensor::empty(F32, &[5]), places(&[5]), places(&[5]));
    unique(&x, [true; 3], [&y, &at, &count]).expect("documented");
    assert_eq!(length(&y), 4);
    assert_eq!(y.read()[..2], [f32::NEG_INFINITY, 0.0]);
    assert!(y.read()[2..4].iter().all(|value| value.is_nan()));
    let none = Tensor::empty(F32, &[0, 2]);
    let (y, at, count) = (Tensor::empty(F32, &[0]), places(&[0, 2]), places(&[0]));
    unique(&none, [true; 3], [&y, &at, &count]).expect("nothing");
    assert_eq!(length(&y), 0);
}

#[test]
fn outputs_have_room_for_all() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, y, at, count) = (t(F32, &[2, 3]), t(F32, &[6]), places(&[2, 3]), places(&[6]));
    let all = [true; 3];
    each! { refused:
        unique(&x, all, [&t(F32, &[5]), &at, &count]), "valueOut has the shape";
        unique(&x, all, [&t(F16, &[6]), &at, &count]), "valueOut is f16";
        unique(&x, all, [&y, &count, &count]), "inverseOut has the shape";
        unique(&x, all, [&y, &at, &places(&[2, 3])]), "countsOut has the shape";
        unique(&x, all, [&y, &t(ACL_INT32, &[2, 3]), &count]), "inverseOut is i32";
        unique(&x, all, [&y, &at, &t(ACL_INT32, &[6])]), "countsOut is i32";
        unique(&t(F32, &[]), all, [&t(F32, &[1]), &at, &count]), "self has no axes";
    }
    let wide = Tensor::strided(F32, &[6], Some(&[2]), 0, 12);
    each! { refused: unique(&x, all, [&wide, &at, &count]), "valueOut must be contiguous" }
    let status = call!(
        aclnnUnique2: x, true, false, false, y, std::ptr::null_mut(), std::ptr::null_mut()
    );
    fails(status, ACLNN_ERR_PARAM_NULLPTR);
}
