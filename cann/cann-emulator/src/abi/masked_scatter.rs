//! Values that are put, one after the other, where a mask is true.

use crate::abi::prelude::*;

// A source with too few elements breaks the stream. A device would read beyond it.
operator! { index: aclnnInplaceMaskedScatterGetWorkspaceSize, aclnnInplaceMaskedScatter(
    target, mask, source
) |operands|
    let target = operands.target("selfRef", target, USUAL)?;
    let mask = operands.view("mask", mask, &[ACL_BOOL, ACL_UINT8])?;
    ensure!(broadcast(&target.shape, &mask.shape)? == target.shape;
        "mask has the shape {:?}, which is larger than {:?}", mask.shape, target.shape);
    let source = operands.view("source", source, &[target.dtype])?;
    Ok(by_number!(source.dtype, T => Arc::new(move |memory, operands| {
        let [target, mask, source] = taken(operands);
        let mask = mask.expanded(&target.shape).values::<i64>(memory)?;
        let source = source.values::<T>(memory)?;
        let needed = mask.iter().filter(|on| **on != 0).count();
        ensure!(needed <= source.len();
            "mask is true {needed} times, and source has {} elements", source.len());
        let mut values = target.values::<T>(memory)?;
        let places = values.iter_mut().zip(mask).filter(|(_, on)| *on != 0);
        for ((value, _), new) in places.zip(source) {
            *value = new;
        }
        target.store_values(memory, &values)
    })))
}
