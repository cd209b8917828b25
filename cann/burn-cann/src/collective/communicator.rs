//! HCCL's handles of a group's devices.

use std::ffi::c_void;
use std::sync::Arc;

use cann_sys::hccl::{
    HCCL_DATA_TYPE_BFP16, HCCL_DATA_TYPE_FP16, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, HcclDataType,
};
use cann_sys::types::aclrtStream;

use crate::DType;
use crate::cann::Cann;
use crate::device::{DeviceInner, Handle};
use crate::error::Result;

/// The largest number of elements of one call of HCCL.
pub(super) const MOST: usize = 0x7fff_ffff;

/// Looks up a function of HCCL, calls it in a span of its own and checks the code.
///
/// The macro stands in an `unsafe` block: the caller keeps the function's own rules.
macro_rules! hccl {
    ($cann:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        match $cann.sys().hccl.$function.get() {
            Ok(function) => {
                let _span = tracing::trace_span!("cann", function = stringify!($function)).entered();
                let code = function($($argument),*);
                $cann.check(stringify!($function), code.0.cast_signed())
            }
            Err(missing) => Err($crate::error::Error::from(missing)),
        }
    };
}

/// The handle of one device of a group.
#[derive(Debug)]
pub(super) struct Communicator {
    pub(super) device: Arc<DeviceInner>,
    handle: Handle,
}

/// Makes a group of devices. The ranks are in their order.
pub(super) fn join(cann: &Cann, devices: Vec<Arc<DeviceInner>>) -> Result<Vec<Communicator>> {
    let mut ids: Vec<i32> = devices.iter().map(|device| device.id()).collect();
    let mut handles = vec![std::ptr::null_mut(); ids.len()];
    let (count, ids) = (ids.len() as u32, ids.as_mut_ptr());
    // SAFETY: both arrays have `count` elements. Each handle is destroyed once, when its communicator is dropped.
    unsafe { hccl!(cann, HcclCommInitAll(count, ids, handles.as_mut_ptr())) }?;
    let ranks = devices.into_iter().zip(handles);
    Ok(ranks
        .map(|(device, handle)| Communicator {
            device,
            handle: Handle(handle),
        })
        .collect())
}

impl Communicator {
    /// Puts a sum on a stream of the rank's device, whose context must be current.
    ///
    /// # Safety
    ///
    /// Until the stream has passed the work, `source` and `target` must be memory of the rank's device with `count`
    /// elements of `dtype`, and this communicator must exist.
    pub(super) unsafe fn sum(
        &self,
        (source, target): (*mut c_void, *mut c_void),
        count: usize,
        dtype: HcclDataType,
        stream: aclrtStream,
    ) -> Result<()> {
        let (cann, count, by) = (self.device.cann(), count as u64, HCCL_REDUCE_SUM);
        // SAFETY: the caller guarantees the buffers, and the handle lives as long as `self`.
        unsafe {
            hccl!(
                cann,
                HcclAllReduce(source, target, count, dtype, by, self.handle.0, stream)
            )
        }
    }
}

/// Returns HCCL's name of a dtype that it adds up, for tensors of floating-point numbers.
pub(super) fn dtype(dtype: DType) -> Option<HcclDataType> {
    match dtype {
        DType::F32 => Some(HCCL_DATA_TYPE_FP32),
        DType::F16 => Some(HCCL_DATA_TYPE_FP16),
        DType::BF16 => Some(HCCL_DATA_TYPE_BFP16),
        _ => None,
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        let left = self.device.enter().and_then(|()| {
            // SAFETY: `join` made the handle, and it is destroyed only here. The streams that used it hold the group,
            // so they have passed their work.
            unsafe { hccl!(self.device.cann(), HcclCommDestroy(self.handle.0)) }
        });
        if let Err(error) = left {
            tracing::error!(%error, "a communicator could not be destroyed");
        }
    }
}
