//! Tests of random views, valid and invalid, through the descriptors that CANN gets. The expected positions are
//! counted one by one if there are few, and computed in integers without overflow if there are many.

use crate::common::maths::Random;
use crate::common::{Scenario, device};
use burn_cann::descriptor::TensorDescriptor;
use burn_cann::{DType, Error, Layout, LayoutError, Tensor};

/// The limit of layouts: positions in bytes must fit an i64.
const ADDRESSABLE: u128 = 1 << 55;

struct View {
    shape: Vec<usize>,
    strides: Vec<usize>,
    offset: usize,
}

fn any_view(random: &mut Random) -> View {
    let rank = random.below(9);
    let any = |random: &mut Random| match random.below(12) {
        0 => 0,
        1 => usize::MAX - random.below(3),
        2 => 1 << (20 + random.below(44)),
        _ => 1 + random.below(4),
    };
    let shape = (0..rank).map(|_| any(random)).collect();
    let strides = (0..rank).map(|_| any(random)).collect();
    let offset = match random.below(20) {
        0 => usize::MAX - random.below(3),
        1 => 1 << random.below(64),
        _ => random.below(100),
    };
    View {
        shape,
        strides,
        offset,
    }
}

/// Returns the last position of a view from its corners. Sizes of 0 count as one. None if it does not fit u128.
fn last(view: &View) -> Option<u128> {
    let mut last = view.offset as u128;
    for (&size, &stride) in view.shape.iter().zip(&view.strides) {
        let steps = (size.max(1) - 1) as u128;
        last = last.checked_add(steps.checked_mul(stride as u128)?)?;
    }
    Some(last)
}

fn elements(view: &View) -> Option<u128> {
    view.shape
        .iter()
        .try_fold(1u128, |all, &size| all.checked_mul(size.max(1) as u128))
}

fn is_addressable(view: &View) -> bool {
    let fits = |number: Option<u128>, limit: u128| number.is_some_and(|number| number < limit);
    fits(elements(view), ADDRESSABLE + 1)
        && fits(last(view), ADDRESSABLE)
        && view
            .strides
            .iter()
            .all(|&stride| stride as u128 <= ADDRESSABLE)
}

/// Returns all positions in the order of the shape.
fn places(view: &View) -> Vec<usize> {
    let mut places = vec![view.offset];
    for (&size, &stride) in view.shape.iter().zip(&view.strides) {
        places = places
            .iter()
            .flat_map(|place| (0..size).map(move |index| place + index * stride))
            .collect();
    }
    places
}

#[test]
fn descriptions_are_made_of_every_view_within_its_memory_and_of_no_other() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let meta = &cann.sys().meta;
        let (offset_of, dtype_of, address_of) = (
            meta.aclGetViewOffset.get().unwrap(),
            meta.aclGetDataType.get().unwrap(),
            meta.aclGetRawTensorAddr.get().unwrap(),
        );
        let size_of_dtype = cann.sys().runtime.aclDataTypeSize.get().unwrap();
        let mut random = Random::new(1);
        let (mut made, mut unaddressable, mut outside) = (0, 0, 0);
        for _ in 0..20_000 {
            let dtype = DType::ALL[random.below(DType::ALL.len())];
            let tensor = Tensor::empty(&stream, dtype, [random.below(400)]).unwrap();
            let held = tensor.memory().map_or(0, |memory| memory.size()) / dtype.size();
            let view = any_view(&mut random);
            let layout = Layout::strided(view.shape.clone(), view.strides.clone(), view.offset);
            assert_eq!(layout.is_ok(), is_addressable(&view), "{layout:?}");
            let Ok(layout) = layout else {
                unaddressable += 1;
                continue;
            };
            let is_empty = view.shape.contains(&0);
            let reach = last(&view).expect("addressable") + 1;
            let within = is_empty || reach <= held as u128;
            if !is_empty && elements(&view) < Some(5000) {
                let furthest = places(&view).into_iter().max().expect("not empty");
                assert_eq!(reach, furthest as u128 + 1, "the oracles agree");
            }
            match tensor.with_layout(layout) {
                Ok(viewed) => {
                    assert!(within, "{:?} of {held}", viewed.layout());
                    made += 1;
                    let descriptor = TensorDescriptor::new(&viewed).unwrap();
                    let raw = descriptor.as_raw();
                    let (mut offset, mut found) = (-1, cann_sys::types::ACL_DT_UNDEFINED);
                    let mut address = std::ptr::null_mut();
                    // SAFETY: the descriptor lives, and there are places for the answers.
                    unsafe {
                        assert_eq!(offset_of(raw, &mut offset), 0);
                        assert_eq!(dtype_of(raw, &mut found), 0);
                        assert_eq!(address_of(raw, &mut address), 0);
                    }
                    assert_eq!(offset, view.offset as i64);
                    // SAFETY: the function takes any number.
                    assert_eq!(unsafe { size_of_dtype(found) }, dtype.size());
                    assert_eq!(address.is_null(), tensor.memory().is_none());
                }
                Err(Error::Layout(LayoutError::OutOfBounds { .. })) => {
                    assert!(!within, "{:?} of {held}", view.shape);
                    outside += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert!(
            made > 1000 && unaddressable > 1000 && outside > 1000,
            "{made} made, {unaddressable} too large, {outside} outside"
        );
    });
}
