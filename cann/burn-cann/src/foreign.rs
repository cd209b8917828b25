//! Work of other code: addresses on the device, and CANN's handle of a stream.

use std::ffi::c_void;
use std::ptr;

use crate::error::Error;
use crate::memory::Memory;
use crate::stream::Stream;
use crate::tensor::Tensor;

/// The handles that other code puts its work on a stream with.
#[derive(Debug, Clone, Copy)]
pub struct Handles {
    /// CANN's own handle of the stream, an `aclrtStream`.
    pub stream: *mut c_void,
    /// The address of the workspace, or null if it has no bytes.
    pub workspace: *mut c_void,
}

impl Tensor {
    /// Returns the address of the first element on the device, or null without elements. The host can't read there.
    pub fn address(&self) -> *mut c_void {
        let offset = self.layout().offset() * self.dtype().size();
        self.memory().map_or(ptr::null_mut(), |memory| {
            memory.address().pointer().wrapping_byte_add(offset)
        })
    }
}

impl Stream {
    /// Hands work of other code on these tensors to the stream, such as that of a library which calls CANN itself. The work
    /// runs in order with all other work on the tensors.
    ///
    /// `workspace` returns the bytes of memory that the work needs besides the tensors. `enqueue` puts the work on the
    /// stream and returns without waiting. The device's context is current for both.
    ///
    /// # Errors
    ///
    /// Returns an error if a tensor is on another device, if memory is short, if earlier work of the stream failed, or if a
    /// closure returns one.
    ///
    /// # Safety
    ///
    /// The work must be on this stream alone. It must not touch memory of the device other than the elements of the
    /// tensors and the workspace, and must write only to tensors whose writes the caller may request. `enqueue` must
    /// not call this crate, because a lock of the device is held meanwhile.
    pub unsafe fn enqueue<E: From<Error>>(
        &self,
        tensors: &[&Tensor],
        workspace: impl FnOnce() -> Result<usize, E>,
        enqueue: impl FnOnce(Handles) -> Result<(), E>,
    ) -> Result<(), E> {
        self.inner_device().enter()?;
        let workspace = match workspace()? {
            0 => None,
            bytes => Some(self.allocate(bytes)?),
        };
        let address = workspace
            .as_ref()
            .map_or(ptr::null_mut(), |memory| memory.address().pointer());
        let memory = tensors.iter().filter_map(|tensor| tensor.memory());
        let memory: Vec<&Memory> = memory.chain(&workspace).collect();
        self.submit(&memory, |stream| {
            Ok(enqueue(Handles {
                stream,
                workspace: address,
            }))
        })?
    }
}
