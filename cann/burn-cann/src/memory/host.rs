//! Pinned memory of the host, which copies can read and write while the host goes on.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::class::class;
use crate::cann::{Cann, call, lock};
use crate::device::{Device, DeviceInner};
use crate::dtype::Element;
use crate::error::{Error, Result};

/// Host memory that the device can reach. It is read and written like a slice.
///
/// Asynchronous copies take the buffer by value and return it when the stream has passed them, so nobody writes to it
/// during a copy.
pub struct Pinned<E: Element> {
    pages: Arc<Pages>,
    length: usize,
    elements: PhantomData<E>,
}

/// An allocation of CANN. When it is dropped, it goes to the device's cache.
pub(crate) struct Pages {
    start: Start,
    size: usize,
    /// None for zero bytes, which are not allocated.
    device: Option<Arc<DeviceInner>>,
}

/// The start of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start(NonNull<u8>);

// SAFETY: this is memory of the host, owned like a box. Only freeing it needs a context, and sets one.
unsafe impl Send for Start {}
// SAFETY: shared access does nothing to it.
unsafe impl Sync for Start {}

impl Start {
    /// Frees the memory. The context must be current.
    ///
    /// # Safety
    ///
    /// The memory must come from `aclrtMallocHost`, be unused, and not have been freed before.
    pub(crate) unsafe fn free(self, cann: &Cann) {
        let pointer = self.0.as_ptr().cast();
        // SAFETY: the caller guarantees it.
        if let Err(error) = unsafe { call!(cann, runtime.aclrtFreeHost(pointer)) } {
            tracing::error!(%error, "pinned memory could not be freed");
        }
    }
}

impl<E: Element> Pinned<E> {
    /// Makes a buffer of `length` elements of zero bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the host has no memory to pin.
    pub fn zeroed(device: &Device, length: usize) -> Result<Self> {
        let this = Self::uninitialised(device.inner(), length)?;
        // SAFETY: `length` elements were allocated, and zero bytes are a valid value of every element.
        unsafe { this.pages.start.0.cast::<E>().write_bytes(0, length) };
        Ok(this)
    }

    /// Makes a buffer with a copy of `elements`.
    ///
    /// # Errors
    ///
    /// Returns an error if the host has no memory to pin.
    pub fn from_slice(device: &Device, elements: &[E]) -> Result<Self> {
        let this = Self::uninitialised(device.inner(), elements.len())?;
        let source = NonNull::from(elements).cast::<E>();
        // SAFETY: as many elements were allocated, in memory of their own.
        unsafe {
            this.pages
                .start
                .0
                .cast::<E>()
                .copy_from_nonoverlapping(source, elements.len())
        };
        Ok(this)
    }

    /// Makes a buffer of `length` elements that must be written before anybody reads them.
    pub(crate) fn uninitialised(device: &Arc<DeviceInner>, length: usize) -> Result<Self> {
        let bytes = length.checked_mul(size_of::<E>()).ok_or(Error::Length {
            found: length,
            expected: usize::MAX / size_of::<E>(),
        })?;
        Ok(Self {
            pages: Arc::new(Pages::new(device, bytes, align_of::<E>())?),
            length,
            elements: PhantomData,
        })
    }

    /// Returns the allocation, which a stream keeps alive.
    pub(crate) fn pages(&self) -> Arc<Pages> {
        self.pages.clone()
    }

    pub(crate) fn pointer(&self) -> *mut c_void {
        self.pages.start.0.as_ptr().cast()
    }
}

impl<E: Element> Deref for Pinned<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        // SAFETY: `length` elements are there and initialised. While the device writes to them, the buffer is inside
        // the copy (`Upload` or `Download`), which hides it.
        unsafe { std::slice::from_raw_parts(self.pages.start.0.cast().as_ptr(), self.length) }
    }
}

impl<E: Element> DerefMut for Pinned<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        // SAFETY: as above. Other holders of the pages (streams) only keep them alive.
        unsafe { std::slice::from_raw_parts_mut(self.pages.start.0.cast().as_ptr(), self.length) }
    }
}

impl<E: Element + fmt::Debug> fmt::Debug for Pinned<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, out)
    }
}

impl Pages {
    fn new(device: &Arc<DeviceInner>, bytes: usize, alignment: usize) -> Result<Self> {
        if bytes == 0 {
            // This address suits any element.
            let start = Start(NonNull::<u128>::dangling().cast());
            return Ok(Self {
                start,
                size: 0,
                device: None,
            });
        }
        let size = class(bytes).unwrap_or(bytes);
        let kept = lock(device.pinned()).take(size);
        let start = match kept {
            Some(start) => start,
            None => Self::ask(device, size, alignment)?,
        };
        Ok(Self {
            start,
            size,
            device: Some(device.clone()),
        })
    }

    /// Allocates new memory. If the host has none, the kept memory is released first.
    fn ask(device: &Arc<DeviceInner>, size: usize, alignment: usize) -> Result<Start> {
        device.enter()?;
        let ask = || -> Result<*mut c_void> {
            let mut pointer = std::ptr::null_mut();
            // SAFETY: there is a place for the answer, and the size is not zero. The memory is freed once.
            unsafe { call!(device.cann(), runtime.aclrtMallocHost(&mut pointer, size)) }?;
            Ok(pointer)
        };
        let pointer = match ask() {
            Err(_) if device.release_pinned() => ask()?,
            answer => answer?,
        };
        let found = NonNull::new(pointer.cast::<u8>());
        match found.filter(|pointer| pointer.addr().get() % alignment == 0) {
            Some(pointer) => Ok(Start(pointer)),
            None => Err(device
                .cann()
                .unusable("aclrtMallocHost", "gave no usable address")),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let Some(device) = &self.device else { return };
        let surplus = lock(device.pinned()).give_back(self.size, self.start);
        let Some(start) = surplus else { return };
        match device.enter() {
            // SAFETY: the memory came from `ask`, and streams whose copies use it hold it.
            Ok(()) => unsafe { start.free(device.cann()) },
            Err(error) => tracing::error!(%error, "pinned memory could not be freed"),
        }
    }
}
