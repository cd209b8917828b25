//! Tests of operators that copy a view of their operand, and of tensors put beside each other.

use crate::common::*;
use cann_emulator::abi::{copy::*, views::*};

type OfInts = fn(&Tensor, &Ints, &Tensor) -> Status;

const PERMUTE: OfInts = |x, axes, y| call!(aclnnPermute: x, axes, y);
const EXPAND: OfInts = |x, shape, y| call!(aclnnExpand: x, shape, y);
const REPEAT: OfInts = |x, repeats, y| call!(aclnnRepeat: x, repeats, y);

fn of_ints(call: OfInts, x: &Tensor, ints: &[i64], y: &Tensor) -> Status {
    call(x, &Ints::new(ints), y)
}

/// Numbers each element, so that its place is known.
fn numbered(dtype: aclDataType, shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>();
    Tensor::floats(
        dtype,
        shape,
        &(0..count).map(|at| at as f32).collect::<Vec<_>>(),
    )
}

#[test]
fn axes_change_their_order() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let x = numbered(dtype, &[2, 3, 2]);
        let y = Tensor::empty(dtype, &[2, 2, 3]);
        of_ints(PERMUTE, &x, &[-1, 0, 1], &y).expect("documented");
        let expected = [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11].map(|at| at as f32);
        assert_eq!(y.read(), expected);
        each! { refused:
            of_ints(PERMUTE, &x, &[0, 1], &y), "each of 3 axes is needed once";
            of_ints(PERMUTE, &x, &[0, 1, 1], &y), "each of 3 axes is needed once";
            of_ints(PERMUTE, &x, &[0, 1, 3], &y), "no axis 3";
            of_ints(PERMUTE, &x, &[0, 1, 2], &y), "out has the shape";
        }
    }
    let x = Tensor::integers(ACL_INT64, &[1, 2], &[1 << 60, -1]);
    let y = Tensor::empty(ACL_INT64, &[2, 1]);
    of_ints(PERMUTE, &x, &[1, 0], &y).expect("documented");
    assert_eq!(y.read_integers(), [1 << 60, -1]);
}

#[test]
fn axes_of_length_one_expand() {
    let _session = Session::start();
    let x = numbered(F32, &[2, 1]);
    let y = Tensor::empty(F32, &[3, 2, 2]);
    of_ints(EXPAND, &x, &[3, -1, 2], &y).expect("documented");
    assert_eq!(y.read(), [0.0, 0.0, 1.0, 1.0].repeat(3));
    each! { refused:
        of_ints(EXPAND, &x, &[2], &y), "does not expand to";
        of_ints(EXPAND, &x, &[3, 2], &y), "does not expand to";
        of_ints(EXPAND, &x, &[-1, 2, 1], &y), "does not expand to";
        of_ints(EXPAND, &x, &[3, 2, 3], &y), "out has the shape";
        of_ints(EXPAND, &x, &[3, 2, 2], &Tensor::empty(F16, &[3, 2, 2])), "out is f16";
    }
}

#[test]
fn slices_stop_at_the_ends_of_their_axis() {
    let _session = Session::start();
    let x = numbered(F32, &[2, 5]);
    let slice =
        |axis, start, end, step, y: &Tensor| call!(aclnnSlice: x, axis, start, end, step, y);
    for (start, end, step, expected) in [
        (1, 4, 1, &[1.0, 2.0, 3.0, 6.0, 7.0, 8.0][..]),
        (0, 5, 2, &[0.0, 2.0, 4.0, 5.0, 7.0, 9.0]),
        (-2, i64::MAX, 1, &[3.0, 4.0, 8.0, 9.0]),
        (-99, -3, 9, &[0.0, 5.0]),
        (4, 2, 1, &[]),
        (1, 2, i64::MAX, &[1.0, 6.0]),
    ] {
        let y = Tensor::empty(F32, &[2, expected.len() / 2]);
        slice(-1, start, end, step, &y).expect("documented");
        assert_eq!(y.read(), expected, "{start}..{end} by {step}");
    }
    let y = Tensor::empty(F32, &[2, 3]);
    refused(slice(1, 0, 3, 0, &y), "step is 0");
    refused(slice(2, 0, 3, 1, &y), "no axis 2");
    refused(slice(1, 0, 4, 1, &y), "out has the shape");
}

#[test]
fn axes_are_repeated() {
    let _session = Session::start();
    let x = numbered(BF16, &[2, 2]);
    let y = Tensor::empty(BF16, &[2, 2, 6]);
    of_ints(REPEAT, &x, &[2, 1, 3], &y).expect("documented");
    let once = [[0.0, 1.0].repeat(3), [2.0, 3.0].repeat(3)].concat();
    assert_eq!(y.read(), once.repeat(2));
    let none = Tensor::empty(BF16, &[0, 2]);
    of_ints(REPEAT, &x, &[0, 1], &none).expect("nothing");
    each! { refused:
        of_ints(REPEAT, &x, &[2], &y), "counts are needed for 2 axes";
        of_ints(REPEAT, &x, &[2, -1], &y), "counts are needed";
        of_ints(REPEAT, &x, &[2, 2], &y), "out has the shape";
        of_ints(REPEAT, &x, &[i64::MAX, i64::MAX], &y), "out has the shape";
    }
}

#[test]
fn elements_are_turned_around_axes() {
    let _session = Session::start();
    let x = numbered(F32, &[2, 3]);
    let y = Tensor::empty(F32, &[2, 3]);
    let roll = |x: &Tensor, shifts: &[i64], axes: &[i64], y: &Tensor| {
        let (shifts, axes) = (Ints::new(shifts), Ints::new(axes));
        call!(aclnnRoll: x, shifts, axes, y)
    };
    roll(&x, &[1, -1], &[0, 1], &y).expect("documented");
    assert_eq!(y.read(), [4.0, 5.0, 3.0, 1.0, 2.0, 0.0]);
    roll(&x, &[-4], &[-1], &y).expect("more than once around");
    assert_eq!(y.read(), [1.0, 2.0, 0.0, 4.0, 5.0, 3.0]);
    roll(&x, &[i64::MIN + 2], &[], &y).expect("all elements are one axis");
    // i64::MIN + 2 is 0 modulo 6.
    assert_eq!(y.read(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    roll(&x, &[2], &[], &y).expect("all elements are one axis");
    assert_eq!(y.read(), [4.0, 5.0, 0.0, 1.0, 2.0, 3.0]);
    refused(roll(&x, &[1, 1], &[0], &y), "each shift has its axis");
    refused(roll(&x, &[1], &[2], &y), "no axis 2");
    let wide = Tensor::empty(ACL_INT64, &[2, 3]);
    refused(roll(&wide, &[1], &[0], &wide), "x is i64");
}

/// Puts tensors beside each other, on a new axis or an old one.
fn beside(tensors: Vec<Tensor>, axis: i64, stacked: bool, y: &Tensor) -> Status {
    let list = List::new(tensors);
    match stacked {
        true => call!(aclnnStack: list, axis, y),
        false => call!(aclnnCat: list, axis, y),
    }
}

#[test]
fn tensors_are_stacked_and_promoted() {
    let _session = Session::start();
    for (axis, shape, expected) in [
        (0, [2, 3], [0.0, 1.0, 2.0, 5.0, 6.0, 7.0]),
        (-1, [3, 2], [0.0, 5.0, 1.0, 6.0, 2.0, 7.0]),
    ] {
        let other = Tensor::integers(ACL_INT32, &[3], &[5, 6, 7]);
        let y = Tensor::empty(F16, &shape);
        beside(vec![numbered(F32, &[3]), other], axis, true, &y).expect("promoted");
        assert_eq!(y.read(), expected);
    }
    let whole = || Tensor::integers(ACL_INT64, &[1], &[3]);
    let y = Tensor::empty(ACL_INT32, &[2, 1]);
    beside(vec![whole(), whole()], 0, true, &y).expect("narrower");
    assert_eq!(y.read_integers(), [3, 3]);
    let floats = vec![whole(), numbered(F32, &[1])];
    each! { refused: beside(floats, 0, true, &y), "out is i32, to which f32 is not converted" }
    let uneven = vec![whole(), Tensor::integers(ACL_INT64, &[2], &[1, 2])];
    refused(beside(uneven, 0, true, &y), "a tensor has the shape [2]");
    refused(beside(vec![whole()], 2, true, &y), "no axis 2");
    refused(beside(Vec::new(), 0, true, &y), "no tensors are given");
    refused(beside(vec![whole()], 0, true, &y), "out has the shape");
}

#[test]
fn tensors_beside_each_other_are_promoted() {
    let _session = Session::start();
    let y = Tensor::empty(F32, &[5]);
    let (half, bits) = (numbered(F16, &[3]), bytes(ACL_BOOL, &[1, 0]));
    beside(vec![half, bits], 0, false, &y).expect("promoted");
    assert_eq!(y.read(), [0.0, 1.0, 2.0, 1.0, 0.0]);
    let whole = Tensor::empty(ACL_INT32, &[5]);
    let (half, bits) = (numbered(F16, &[3]), bytes(ACL_BOOL, &[1, 0]));
    refused(beside(vec![half, bits], 0, false, &whole), "out is i32");
}
