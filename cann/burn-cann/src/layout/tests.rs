//! Tests of views and their arithmetic.

use super::*;

#[test]
fn contiguous_views_and_those_that_are_not() {
    let layout = Layout::contiguous([2, 3, 4]).unwrap();
    assert_eq!(layout.strides(), [12, 4, 1]);
    assert_eq!((layout.len(), layout.reach()), (24, 24));
    assert!(layout.is_contiguous());
    let turned = layout.clone().transpose(0, 2).unwrap();
    assert_eq!(
        (turned.shape(), turned.strides()),
        (&[4, 3, 2][..], &[1, 4, 12][..])
    );
    assert!(!turned.is_contiguous());
    let part = layout.slice(0, 1..2).unwrap();
    assert_eq!((part.offset(), part.reach()), (12, 24));
    assert!(part.is_contiguous());
}

#[test]
fn steps_of_single_elements_do_not_matter() {
    assert!(
        Layout::strided([1, 4], [999, 1], 3)
            .unwrap()
            .is_contiguous()
    );
    assert!(
        !Layout::strided([2, 4], [999, 1], 3)
            .unwrap()
            .is_contiguous()
    );
}

#[test]
fn a_scalar_has_one_element() {
    let layout = Layout::contiguous([]).unwrap();
    assert_eq!((layout.len(), layout.reach(), layout.rank()), (1, 1, 0));
}

#[test]
fn nothing_reaches_nothing() {
    let layout = Layout::contiguous([3, 0, 5]).unwrap();
    assert_eq!((layout.len(), layout.reach()), (0, 0));
    assert!(layout.is_empty() && layout.is_contiguous());
    assert_eq!(Layout::strided([0, 5], [7, 1], 9).unwrap().reach(), 9);
}

#[test]
fn overflow_is_an_error() {
    let huge = usize::MAX / 2;
    assert!(Layout::contiguous([huge, 3]).is_err());
    assert!(Layout::contiguous([0, huge, huge]).is_err());
    assert!(Layout::strided([2], [usize::MAX], 0).is_err());
    assert!(Layout::strided([2], [1], usize::MAX).is_err());
    assert!(Layout::strided([2, 2], [1], 0).is_err());
}

#[test]
fn reshapes_only_what_lies_together() {
    let layout = Layout::contiguous([2, 6]).unwrap();
    assert_eq!(layout.clone().reshape([3, 4]).unwrap().strides(), [4, 1]);
    assert!(layout.clone().reshape([5]).is_err());
    assert!(layout.transpose(0, 1).unwrap().reshape([12]).is_err());
}

#[test]
fn dimensions_are_reordered_repeated_and_left_out() {
    let layout = Layout::contiguous([2, 1, 4]).unwrap();
    let turned = layout.clone().permute(&[2, 0, 1]).unwrap();
    assert_eq!(
        (turned.shape(), turned.strides()),
        (&[4, 2, 1][..], &[1, 4, 4][..])
    );
    assert!(layout.clone().permute(&[0, 0, 1]).is_err());
    assert!(layout.clone().permute(&[0, 1]).is_err());

    let wide = layout.clone().expand([5, 2, 3, 4]).unwrap();
    assert_eq!(wide.strides(), [0, 4, 0, 1]);
    assert_eq!(wide.reach(), 8);
    assert!(layout.clone().expand([3, 1, 4]).is_err());
    assert!(layout.clone().expand([1, 4]).is_err());

    assert_eq!(layout.clone().squeeze(1).unwrap().shape(), [2, 4]);
    assert!(layout.clone().squeeze(0).is_err());
    let one = layout.clone().select(2, 3).unwrap();
    assert_eq!((one.shape(), one.offset()), (&[2, 1][..], 3));
    assert!(layout.clone().select(2, 4).is_err());
    for dim in 0..=3 {
        let more = layout.clone().unsqueeze(dim).unwrap();
        assert_eq!(more.shape()[dim], 1);
        assert!(more.is_contiguous());
        assert_eq!(more.squeeze(dim).unwrap(), layout);
    }
    assert!(layout.unsqueeze(4).is_err());
}

#[test]
fn steps_take_some_of_the_elements() {
    let layout = Layout::contiguous([7]).unwrap();
    let some = layout.clone().slice(0, 1..7).unwrap().step(0, 4).unwrap();
    assert_eq!(
        (some.shape(), some.strides(), some.offset()),
        (&[2][..], &[4][..], 1)
    );
    assert_eq!(layout.clone().step(0, 100).unwrap().reach(), 1);
    assert!(layout.step(0, 0).is_err());
}

#[test]
fn shared_elements_are_seen() {
    let over = |shape: &[usize], strides: &[usize]| {
        Layout::strided(shape, strides, 0).unwrap().is_overlapping()
    };
    assert!(!over(&[2, 3], &[3, 1]) && !over(&[2, 3], &[1, 2]) && !over(&[1, 3], &[0, 1]));
    assert!(over(&[2, 3], &[0, 1]) && over(&[2, 3], &[2, 1]));
    assert!(!over(&[0, 3], &[0, 0]));
}
