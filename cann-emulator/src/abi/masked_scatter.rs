//! Values that are put, one after the other, where a mask is true.

use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::checks::{USUAL, broadcast};
use crate::abi::operators;
use crate::error::ensure;
use crate::executor::phase_one;
use crate::number::by_number;

// A source with too few elements breaks the stream. A device would read beyond it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnInplaceMaskedScatterGetWorkspaceSize(
    target: *mut aclTensor,
    mask: *const aclTensor,
    source: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let name = "aclnnInplaceMaskedScatter";
    phase_one(name, workspace_size, executor, |operands| {
        let target = operands.target("selfRef", target, USUAL)?;
        let mask = operands.view("mask", mask, &[ACL_BOOL, ACL_UINT8])?;
        ensure!(
            broadcast(&target.shape, &mask.shape)? == target.shape,
            ACLNN_ERR_PARAM_INVALID,
            "mask has the shape {:?}, which is larger than {:?}",
            mask.shape,
            target.shape
        );
        let source = operands.view("source", source, &[target.dtype])?;
        Ok(
            by_number!(source.dtype, T => Arc::new(move |memory, operands| {
                let [target, mask, source] = operands else { unreachable!("taken above") };
                let mask = mask.expanded(&target.shape).values::<i64>(memory)?;
                let source = source.values::<T>(memory)?;
                let needed = mask.iter().filter(|on| **on != 0).count();
                ensure!(
                    needed <= source.len(),
                    ACLNN_ERR_PARAM_INVALID,
                    "mask is true {needed} times, and source has {} elements",
                    source.len()
                );
                let mut values = target.values::<T>(memory)?;
                let places = values.iter_mut().zip(mask).filter(|(_, on)| *on != 0);
                for ((value, _), new) in places.zip(source) {
                    *value = new;
                }
                target.store_values(memory, &values)
            })),
        )
    })
}

operators! { index: aclnnInplaceMaskedScatterGetWorkspaceSize, aclnnInplaceMaskedScatter; }
